"""A decoder over the prior, and posteriors of any readings on it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import tensorflow as tf

import pdevae
from pdevae.inference.conditioning import Conditioner, Evidence
from pdevae.inference.couplings import Couplings
from pdevae.inference.heads import Affine
from pdevae.inference.interpolant import Interpolant
from study.amortised import design, experiment, problems, trainers

# The decoder, encoders and exact posteriors below are made once for all tests: the study's own functions keep them.
SETTING = experiment.Setting("transport", "star", 150, "exact", steps=300, simulated=1024, encoder_steps=300)


def transport(mesh, sd=1.0):
    equation = pdevae.Diffusion(1.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0)
    return pdevae.Forward(mesh, equation, pdevae.Latents(tau=pdevae.Normal(2, sd=sd)), 0.0)


@pytest.fixture(scope="module")
def decoder():
    s = SETTING
    return experiment.decoder_of(s.problem, s.domain, s.nodes, s.penalty, s.steps, s.width, s.samples, s.places)


def some_readings(forward, seed, noise=0.01):
    rng = np.random.default_rng(seed)
    sensors = forward.mesh.points[rng.choice(forward.mesh.interior, 20, replace=False)]
    u = forward.solve(tf.constant(rng.normal(size=(1, 2)))).numpy()[0]
    return sensors, forward.reader(sensors) @ u + noise * rng.normal(size=20), noise


@pytest.fixture(scope="module")
def exact_of(decoder):
    """The exact posterior of :func:`some_readings` with this seed."""
    forward = decoder.forward
    return cache(lambda seed: pdevae.exact(pdevae.InverseProblem.on(forward, *some_readings(forward, seed))))


def test_decoder_solves_the_equation_over_the_prior(decoder):
    median, worst = decoder.errors(40)
    assert median < 0.005 and worst < 0.02


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_conditioned_posterior_is_that_of_exact_solves(decoder, exact_of, seed):
    found = decoder.condition(*some_readings(decoder.forward, seed))
    right = exact_of(seed)
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
    energy, slope, P = (part.numpy()[0] for part in conditioner._expanded(H, h, z[:, 0]))
    np.testing.assert_allclose(P, np.eye(2) + J @ e.H[0] @ J.T, rtol=1e-4)
    np.testing.assert_allclose(slope, g + z[0, 0], rtol=1e-10)
    assert energy[0] == pytest.approx(value + 0.5 * np.sum(z[0, 0] ** 2))


def test_saved_decoder_comes_back_and_is_refused_for_another_problem(decoder, tmp_path):
    path = tmp_path / "decoder.npz"
    decoder.save(path)
    again = pdevae.Decoder.load(path, decoder.forward)
    places, z = [[0.1, 0.2], [-0.3, 0.1]], np.random.default_rng(0).normal(size=(3, 2))
    np.testing.assert_allclose(again.field(places, z), decoder.field(places, z), rtol=1e-12)
    finer = pdevae.Decoder.load(path, transport(pdevae.star(nodes=600)))
    np.testing.assert_allclose(finer.field(places, z), decoder.field(places, z), rtol=0.05)
    mesh = decoder.forward.mesh
    others = {
        "region": transport(pdevae.disc(nodes=100)),
        "prior": transport(mesh, sd=2.0),
        "equation": pdevae.Forward(
            mesh,
            pdevae.Diffusion(2.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0),
            pdevae.Latents(tau=pdevae.Normal(2)),
            0.0,
        ),
        "boundary": pdevae.Forward(mesh, decoder.forward.equation, pdevae.Latents(tau=pdevae.Normal(2)), 1.0),
    }
    without_flow = transport(mesh.no_flow(lambda x: x[:, 0] > 0))
    for what, other in [*others.items(), ("boundary", without_flow)]:
        with pytest.raises(pdevae.UserError, match=what):
            pdevae.Decoder.load(path, other)
    path.write_bytes(b"nothing")
    with pytest.raises(pdevae.UserError, match="is not a saved decoder"):
        pdevae.Decoder.load(path, decoder.forward)


@pytest.mark.slow
def test_nonlinear_equation():
    class Cubic(pdevae.Term):
        def volume(self, x, z, u, grad):
            return z.k * u**3

    equation = pdevae.Diffusion(1.0) + Cubic() - pdevae.Source(20.0)
    latents = pdevae.Latents(k=pdevae.Normal(sd=0.5, transform=tf.exp))
    decoder = pdevae.Decoder.train(
        pdevae.Forward(pdevae.disc(nodes=100), equation, latents, 0.0), "exact", steps=400, width=24, places=40
    )
    assert decoder.errors(20).worst < 0.02


@pytest.fixture(scope="module", params=["reverse", "forward"])
def encoder(request, decoder):
    """For noise from 0.003 to 0.02."""
    how = SETTING.problem, SETTING.simulated, SETTING.encoder_steps
    return experiment.encoder_of(decoder, f"gaussian-{request.param}", *how)


def test_encoder_is_near_the_exact_posterior(encoder, exact_of):
    for seed in range(4):
        found, right = encoder(*some_readings(encoder.decoder.forward, seed)), exact_of(seed)
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


@pytest.mark.slow
def test_network_is_better_than_laplace(decoder):
    """With few and noisy readings, where the posterior is not Gaussian."""
    encoder = pdevae.Encoder.train(decoder, noise=(0.02, 0.05), sensors=(5, 10), problems=1024, steps=300)
    laplace = pdevae.Encoder(decoder, encoder.noise, Affine(encoder.d, len(encoder.anchors)))  # not trained
    rng, off = np.random.default_rng(1), {"encoder": [], "laplace": []}
    for _ in range(12):
        sensors = decoder.forward.mesh.points[rng.choice(decoder.forward.mesh.interior, 6)]
        y = decoder.field(sensors, rng.normal(size=(1, 2)))[0] + 0.03 * rng.normal(size=6)
        right = decoder.condition(sensors, y, 0.03)
        for name, method in (("encoder", encoder), ("laplace", laplace)):
            off[name].append(np.abs(method(sensors, y, 0.03).mean - right.mean) / right.sd)
    assert np.mean(off["encoder"]) < 0.5 * np.mean(off["laplace"])


def test_encoder_refusals(decoder, encoder):
    sensors, readings, noise = some_readings(decoder.forward, 3)
    with pytest.raises(pdevae.UserError, match="trained for noise from 0.003 to 0.02"):
        encoder(sensors, readings, 0.001)
    with pytest.raises(pdevae.UserError, match="standard deviations from what the prior can give"):
        encoder(sensors, readings + 1.0, noise)
    with pytest.raises(pdevae.UserError, match="no sensors"):
        encoder(np.empty((0, 2)), np.empty(0), noise)
    with pytest.raises(pdevae.UserError, match=r"must be \(smallest, largest\)"):
        pdevae.Encoder.train(decoder, noise=(0.02, 0.005))
    with pytest.raises(pdevae.UserError, match="unknown objective"):
        pdevae.Encoder.train(decoder, noise=(0.005, 0.02), objective="sideways")
    with pytest.raises(pdevae.UserError, match="unknown family"):
        pdevae.Encoder.train(decoder, noise=(0.005, 0.02), family="tree")


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
    with pytest.raises(pdevae.UserError, match=r"give readings \[sets, S\]"):
        decoder.condition_many(sensors, readings, noise)
    forward = pdevae.Forward(decoder.forward.mesh, decoder.forward.equation, pdevae.Latents(tau=pdevae.Normal(2)), None)
    with pytest.raises(pdevae.UserError, match="a decoder needs boundary="):
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
    forward = pdevae.Forward(pdevae.disc(nodes=100), equation, latents, lambda x: 1.0 + x[:, 0])
    decoder = pdevae.Decoder.train(forward, "exact", steps=100, width=16, places=40)
    assert decoder.errors(20).worst < 0.01
    edge = forward.mesh.points[forward.mesh.is_boundary]
    np.testing.assert_allclose(decoder.field(edge, [[0.0], [1.0]]), np.tile(1 + edge[:, 0], (2, 1)), atol=1e-9)


def test_flow_is_inverted_and_has_its_density():
    flow = Couplings(3, features=2, width=8)
    for variable in flow.trainable_variables:
        variable.assign(0.5 * np.random.default_rng(variable.shape[0]).normal(size=variable.shape))
    rng = np.random.default_rng(0)
    xi, features = tf.constant(rng.normal(size=(4, 5, 3))), tf.constant(rng.normal(size=(5, 2)))
    v, log_det = flow.forth(xi, features)
    again, other = flow.back(v, features)
    np.testing.assert_allclose(again, xi, atol=1e-12)
    np.testing.assert_allclose(other, -log_det, atol=1e-12)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(xi)
        v = tf.unstack(flow.forth(xi, features)[0], axis=-1)
    own = np.stack([tape.gradient(part, xi) for part in v], axis=-2)  # each v depends on its own ξ alone
    np.testing.assert_allclose(log_det, np.linalg.slogdet(own)[1], atol=1e-10)
    with pytest.raises(pdevae.UserError, match="at least two latents"):
        Couplings(1, features=2)


@pytest.fixture(scope="module")
def leak():
    """Where a source is, from readings: the posterior is bent around the sensors."""
    return pdevae.Decoder.train(problems.forward_of("leak", "disc", 100), "exact", 300, places=200, width=32)


@pytest.mark.slow
def test_flow_comes_nearer_than_a_gaussian_where_posteriors_are_bent(leak):
    decoder, readings, scores = leak, problems.READINGS["leak"], {}
    for family in ("gaussian", "flow"):
        how = dict(objective="forward", family=family, problems=1024, steps=500)
        encoder = pdevae.Encoder.train(decoder, readings.noise, readings.sensors, **how)
        rng, found = np.random.default_rng(0), []
        for _ in range(60):
            x = problems.random_places(decoder.forward.mesh, 4, rng)
            z = rng.normal(size=(1, 2))
            q = encoder(x, decoder.field(x, z)[0] + 0.05 * rng.normal(size=4), 0.05)
            found.append(-q.log_q(z)[0])
        scores[family] = np.mean(found)
    assert scores["flow"] < scores["gaussian"] - 0.05
    assert q.density is not None and 0 < q.check(n=50).ess <= 1
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-8, 8, 161)]), axis=-1).reshape(-1, 2)
    assert np.exp(q.log_q(grid)).sum() * 0.1**2 == pytest.approx(1, abs=0.02)
    assert np.all(np.abs(q.draws.mean(axis=0) - q.mean) < 0.2 * q.sd)


def test_mode_is_the_highest_of_several_hills(leak):
    """A leak seen by two sensors may be on either side of them: what is far from z = 0 must be found too."""
    decoder, rng = leak, np.random.default_rng(3)
    x = np.array([[0.45, 0.0], [0.4, 0.1], [0.5, 0.05], [0.0, 0.6], [-0.5, 0.0]])
    z = np.array([[1.6, -0.4]])
    found = decoder.condition(x, decoder.field(x, z)[0] + 0.002 * rng.normal(size=5), 0.002)
    assert np.all(np.abs(found.mean - z[0]) < 5 * found.sd + 0.02)


@pytest.mark.slow
def test_study_judges_and_times_fresh_problems(monkeypatch):
    trained = experiment.training(replace(SETTING, steps=100), 1)
    assert trained["median"] < 0.02 < trained["seconds"]
    methods = ("condition", "gaussian-reverse")
    rows = experiment.judged(replace(SETTING, methods=methods, problems=3), 0)
    assert rows.pop("left_out") == 0 and all(len(values) == 6 for values in rows.values())
    assert set(rows["method"]) == set(methods)
    assert np.median(rows["off"]) < 0.3 and rows["rank_1"].max() <= 99
    assert np.all(np.abs(rows["score"] - rows["best_score"]) < 0.3)
    monkeypatch.setattr(experiment, "_BATCH", 64)
    seconds = experiment.cost(replace(SETTING, problems=2, budget=0.1, peers=("laplace", "hmc")), 0)
    assert 0 < seconds["encoder_batched"] < seconds["encoder"] < seconds["training"] - seconds["decoder_training"]
    assert seconds["hmc"] > 0 and np.isnan(seconds["solved"])


@pytest.mark.slow
def test_posteriors_by_interpolated_solves_are_those_of_solves():
    made = experiment.emulation(replace(SETTING, problems=2), 0)
    assert made["worst"] < 1e-3 and made["off"] < 0.02
    s, z = SETTING, np.array([0.4, -0.8])
    emulated = problems.emulated(s.problem, s.domain, s.nodes, s.solves)
    read = emulated.reader(np.array([[0.1, 0.2], [-0.4, 0.3]]))
    value, slope = emulated.sensitivity(z, read)
    for k, step in enumerate(1e-5 * np.eye(2)):
        ahead, behind = (emulated.sensitivity(z + sign * step, read)[0] for sign in (1, -1))
        np.testing.assert_allclose(slope[:, k], (ahead - behind) / 2e-5, rtol=1e-3, atol=1e-6)  # differences round
    np.testing.assert_allclose(value, read @ emulated.solve(tf.constant(z[None])).numpy()[0])


@pytest.mark.parametrize(
    "method", [name for name in trainers.METHODS if "Adam" not in name and "separable" not in name]
)
@pytest.mark.slow
def test_each_trainer_comes_near_the_equation(method, monkeypatch):
    monkeypatch.setattr(trainers, "_UNITS", 300)  # random features, for which there are fewer z in a second
    found = trainers.trained_by(trainers.Trainer("transport", 150, method, width=24, seconds=1.0), 0)
    assert found["median"] < 0.7  # a second, on whatever machine


@pytest.mark.slow
def test_next_sensor_tells_more_than_a_random_one():
    s, few = SETTING, dict(sensors=2, candidates=12, draws=8, checked=2, layouts=3)
    few |= dict(simulated=s.simulated, encoder_steps=s.encoder_steps)
    found = design.designed(design.Design(s.domain, s.nodes, s.penalty, s.steps, **few), 0)
    checked = np.isfinite(found["exact"])
    worst, best = np.flatnonzero(checked)[np.argsort(found["gain"][checked])]
    assert found["exact"][worst] < found["exact"][best] - 0.05  # two readings: far from Gaussian, but in the same order
    assert np.all(np.abs(found["ours"] - found["exact"])[checked] < 0.6)
    whole = found["step"] < 0
    ours = whole & (found["chosen"] > 0)
    assert found["gain"][ours] > found["gain"][whole & ~ours].mean()
