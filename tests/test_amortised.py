"""A decoder over the prior, and posteriors of any readings on it."""

import numpy as np
import pytest
import tensorflow as tf

import pdevae
from pdevae.inference.conditioning import Conditioner, Evidence
from pdevae.inference.interpolant import Interpolant
from study import amortised


def transport(mesh, sd=1.0):
    equation = pdevae.Diffusion(1.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0)
    return pdevae.Forward(mesh, equation, pdevae.Latents(tau=pdevae.Normal(2, sd=sd)), 0.0)


@pytest.fixture(scope="module")
def decoder():
    return pdevae.Decoder.train(transport(pdevae.star(nodes=300)), penalty="exact", steps=1500, places=200)


def some_readings(forward, seed, noise=0.01):
    rng = np.random.default_rng(seed)
    sensors = forward.mesh.points[rng.choice(forward.mesh.interior, 20, replace=False)]
    u = forward.solve(tf.constant(rng.normal(size=(1, 2)))).numpy()[0]
    return sensors, forward.reader(sensors) @ u + noise * rng.normal(size=20), noise


def test_decoder_solves_the_equation_over_the_prior(decoder):
    median, worst = decoder.errors(40)
    assert median < 0.005 and worst < 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_conditioned_posterior_is_that_of_exact_solves(decoder, seed):
    readings = some_readings(decoder.forward, seed)
    found = decoder.condition(*readings)
    right = pdevae.exact(pdevae.InverseProblem.on(decoder.forward, *readings))
    assert np.all(np.abs(found.mean - right.mean) < 0.25 * right.sd)
    assert np.all(np.abs(found.sd / right.sd - 1) < 0.1)
    assert found.check().k < 0.7


def test_many_sets_of_readings_at_once_are_the_same_as_one_by_one(decoder):
    sets = [some_readings(decoder.forward, seed) for seed in range(70)]
    sensors, readings = (np.stack([one[k] for one in sets]) for k in range(2))
    together = decoder.condition_many(sensors, readings, 0.01)
    for k in (0, 64, 69):
        alone = decoder.condition(*sets[k])
        np.testing.assert_allclose(together.mean[k], alone.mean, atol=0.01 * alone.sd.min())
        np.testing.assert_allclose(together.covariance[k], alone.covariance, rtol=0.02, atol=1e-3 * alone.sd.min() ** 2)


def test_gaussian_of_a_linear_decoder_is_the_closed_form():
    """b nearly linear in z, so that the posterior is Gaussian: mean and covariance by linear algebra."""
    rng = np.random.default_rng(0)
    z, A = 1.5 * rng.normal(size=(400, 3)), rng.normal(size=(3, 5))
    branch = Interpolant.through(z, z @ A)
    phi, y = rng.normal(size=(8, 5)), rng.normal(size=(4, 8))
    found = Conditioner(branch)(Evidence.of(np.zeros(8), phi, y, np.full((4, 8), 0.7)))
    G = phi @ A.T / 0.7
    S = np.linalg.inv(G.T @ G + np.eye(3))
    np.testing.assert_allclose(found.covariance, np.broadcast_to(S, (4, 3, 3)), atol=2e-3 * S.max())
    np.testing.assert_allclose(found.mean, (y / 0.7) @ G @ S, atol=0.02 * np.sqrt(S.max()))


def test_derivatives_of_the_misfit_against_differences(decoder):
    conditioner, rng = decoder.conditioner, np.random.default_rng(0)
    base, phi = decoder.reader(some_readings(decoder.forward, 0)[0])
    e = Evidence.of(base, phi, rng.normal(size=(1, 20)), np.full((1, 20), 0.1))
    H, h, z, step = tf.constant(e.H), tf.constant(e.h), tf.constant(rng.normal(size=(1, 1, 2))), 1e-4
    value, g = (part[0, 0].numpy() for part in conditioner.slope(H, h, z))
    at = lambda z: conditioner.misfit(H, h, z).numpy()[0, 0]  # noqa: E731
    assert value == pytest.approx(at(z))
    for k, move in enumerate(step * np.eye(2)):
        difference = (at(z + move) - at(z - move)) / (2 * step)
        assert abs(difference / g[k] - 1) < 1e-4
    b = lambda z: decoder.branch(z).numpy()[0]  # noqa: E731
    J = np.stack([(b(z[:, 0] + move) - b(z[:, 0] - move)) / (2 * step) for move in step * np.eye(2)])
    np.testing.assert_allclose(conditioner._gauss_newton(H, z[:, 0])[0], J @ e.H[0] @ J.T, rtol=1e-4)


def test_saved_decoder_comes_back_and_is_refused_for_another_problem(decoder, tmp_path):
    path = tmp_path / "decoder.npz"
    decoder.save(path)
    again = pdevae.Decoder.load(path, decoder.forward)
    places, z = [[0.1, 0.2], [-0.3, 0.1]], np.random.default_rng(0).normal(size=(3, 2))
    np.testing.assert_allclose(again.field(places, z), decoder.field(places, z), rtol=1e-12)
    finer = pdevae.Decoder.load(path, transport(pdevae.star(nodes=1000)))
    np.testing.assert_allclose(finer.field(places, z), decoder.field(places, z), rtol=0.05)
    mesh = decoder.forward.mesh
    others = {
        "region": transport(pdevae.disc(nodes=300)),
        "prior": transport(mesh, sd=2.0),
        "equation": pdevae.Forward(
            mesh,
            pdevae.Diffusion(2.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0),
            pdevae.Latents(tau=pdevae.Normal(2)),
            0.0,
        ),
        "boundary": pdevae.Forward(mesh, decoder.forward.equation, pdevae.Latents(tau=pdevae.Normal(2)), 1.0),
    }
    for what, other in others.items():
        with pytest.raises(pdevae.UserError, match=what):
            pdevae.Decoder.load(path, other)
    path.write_bytes(b"nothing")
    with pytest.raises(pdevae.UserError, match="holds no decoder"):
        pdevae.Decoder.load(path, decoder.forward)


def test_nonlinear_equation():
    class Cubic(pdevae.Term):
        def volume(self, x, z, u, grad):
            return z.k * u**3

    equation = pdevae.Diffusion(1.0) + Cubic() - pdevae.Source(20.0)
    latents = pdevae.Latents(k=pdevae.Normal(sd=0.5, transform=tf.exp))
    decoder = pdevae.Decoder.train(
        pdevae.Forward(pdevae.disc(nodes=200), equation, latents, 0.0), "exact", steps=1500, width=24, places=60
    )
    assert decoder.errors(20).worst < 0.02


@pytest.fixture(scope="module", params=["reverse", "forward"])
def encoder(request, decoder):
    return pdevae.Encoder.train(decoder, noise=(0.003, 0.02), objective=request.param, problems=1024, steps=400)


def test_encoder_is_near_the_exact_posterior(encoder):
    forward = encoder.decoder.forward
    for seed in range(4):
        readings = some_readings(forward, seed)
        found, right = encoder(*readings), pdevae.exact(pdevae.InverseProblem.on(forward, *readings))
        assert np.all(np.abs(found.mean - right.mean) < 0.5 * right.sd)
        assert np.all(np.abs(found.sd / right.sd - 1) < 0.3)
        nearer = encoder.refine(found)
        assert np.all(np.abs(nearer.mean - right.mean) < 0.25 * right.sd)


def test_encoder_sees_a_set(encoder):
    sensors, readings, noise = some_readings(encoder.decoder.forward, 5)
    order = np.random.default_rng(0).permutation(20)
    np.testing.assert_allclose(
        encoder(sensors[order], readings[order], noise).mean, encoder(sensors, readings, noise).mean, atol=1e-8
    )
    many = encoder.many(sensors, np.stack([readings, readings]), noise)
    np.testing.assert_allclose(many.mean[1], encoder(sensors, readings, noise).mean, atol=1e-8)


def test_network_is_better_than_laplace(decoder):
    """With few and noisy readings, where the posterior is not Gaussian."""
    encoder = pdevae.Encoder.train(decoder, noise=(0.02, 0.05), sensors=(5, 10), problems=1024, steps=400)
    laplace = pdevae.Encoder.train(decoder, noise=(0.02, 0.05), sensors=(5, 10), problems=128, steps=1)
    rng, off = np.random.default_rng(1), {"encoder": [], "laplace": []}
    for _ in range(12):
        sensors = decoder.forward.mesh.points[rng.choice(decoder.forward.mesh.interior, 6)]
        y = decoder.field(sensors, rng.normal(size=(1, 2)))[0] + 0.03 * rng.normal(size=6)
        right = decoder.condition(sensors, y, 0.03)
        for name, method in (("encoder", encoder), ("laplace", laplace)):
            off[name].append(np.abs(method(sensors, y, 0.03).mean - right.mean) / right.sd)
    assert np.mean(off["encoder"]) < 0.5 * np.mean(off["laplace"])


def test_encoder_refusals(decoder):
    encoder = pdevae.Encoder.train(decoder, noise=(0.005, 0.02), problems=128, steps=10)
    sensors, readings, noise = some_readings(decoder.forward, 3)
    with pytest.raises(pdevae.UserError, match="trained for noise from 0.005 to 0.02"):
        encoder(sensors, readings, 0.001)
    with pytest.raises(pdevae.UserError, match="standard deviations from what the prior can give"):
        encoder(sensors, readings + 1.0, noise)
    with pytest.raises(pdevae.UserError, match="no sensors"):
        encoder(np.empty((0, 2)), np.empty(0), noise)
    with pytest.raises(pdevae.UserError, match="a smallest and a largest"):
        pdevae.Encoder.train(decoder, noise=(0.02, 0.005))
    with pytest.raises(pdevae.UserError, match="unknown objective"):
        pdevae.Encoder.train(decoder, noise=(0.005, 0.02), objective="sideways")


def test_refusals(decoder):
    sensors, readings, noise = some_readings(decoder.forward, 3)
    with pytest.raises(pdevae.UserError, match="outside"):
        decoder.condition(sensors + 5, readings, noise)
    with pytest.raises(pdevae.UserError, match="one reading for each sensor"):
        decoder.condition(sensors, readings[:-1], noise)
    with pytest.raises(pdevae.UserError, match="no sensors"):
        decoder.condition(np.empty((0, 2)), np.empty(0), noise)
    with pytest.raises(pdevae.UserError, match="standard deviations from what the prior can give"):
        decoder.condition(sensors, readings + 1.0, noise)
    with pytest.raises(pdevae.UserError, match=r"must be \[sets, sensors\]"):
        decoder.condition_many(sensors, readings, noise)
    forward = pdevae.Forward(decoder.forward.mesh, decoder.forward.equation, pdevae.Latents(tau=pdevae.Normal(2)), None)
    with pytest.raises(pdevae.UserError, match="boundary values that are known"):
        pdevae.Decoder.train(forward)


@pytest.mark.parametrize("power", [1, 3])
def test_galerkin_in_the_span_of_all_hats_is_the_solve(power):
    class Decay(pdevae.Term):
        def volume(self, x, z, u, grad):
            return 5.0 * tf.exp(z[:, :1]) * u**power

    mesh = pdevae.disc(nodes=80)
    weak = pdevae.WeakForm(mesh, pdevae.Diffusion(1.0) + Decay() - pdevae.Source(4.0), boundary=0.3)
    solver, z, base = pdevae.Solver(weak), np.array([[0.0], [0.7]]), np.full(mesh.n_nodes, 0.3)
    u = solver.solve(tf.constant(z)).numpy()
    hats = np.eye(mesh.n_nodes)[:, mesh.interior]
    np.testing.assert_allclose(base + solver.within(z, base, hats) @ hats.T, u, rtol=1e-6)
    some = np.linalg.qr((u - base).T)[0]  # the solutions themselves are in the span
    np.testing.assert_allclose(base + solver.within(z, base, some) @ some.T, u, rtol=1e-6)


def test_decoder_meets_boundary_values_that_are_not_zero():
    equation = pdevae.Diffusion(lambda x, z: tf.exp(0.5 * z.a)) - pdevae.Source(1.0)
    latents = pdevae.Latents(a=pdevae.Normal())
    forward = pdevae.Forward(pdevae.disc(nodes=300), equation, latents, lambda x: 1.0 + x[:, 0])
    decoder = pdevae.Decoder.train(forward, "exact", steps=500, width=16, places=40)
    assert decoder.errors(20).worst < 0.01
    edge = forward.mesh.points[forward.mesh.is_boundary]
    np.testing.assert_allclose(decoder.field(edge, [[0.0], [1.0]]), np.tile(1 + edge[:, 0], (2, 1)), atol=1e-9)


def test_study_judges_and_times_fresh_problems():
    small = dict(domain="disc", nodes=150, penalty="exact", steps=600, simulated=256, encoder_steps=100)
    trained = amortised.training(amortised.Setting(**small), 1)
    assert trained["median"] < 0.02 < trained["seconds"]
    for method in ("condition", "reverse"):
        rows = amortised.judged(amortised.Setting(**small, method=method, problems=3), 0)
        assert all(len(values) == 3 for values in rows.values())
        assert np.median([rows["off_1"], rows["off_2"]]) < 0.3 and rows["rank_1"].max() <= 99
    seconds = amortised.cost(amortised.Setting(**small), 0)
    assert 0 < seconds["encoder_batched"] < seconds["encoder"] < seconds["training"]
