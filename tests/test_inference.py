"""Any inverse problem: the forward map and its gradient, each method against a closed form, a check, bad input."""

import os
from functools import cache, partial
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate

import pdevae
from pdevae import (
    CVI,
    HMC,
    NUTS,
    Cells,
    Gaussian,
    GaussianField,
    GaussianVI,
    InverseProblem,
    Laplace,
    Latents,
    Normal,
    Posterior,
    SolvedCVI,
    UserError,
    fit,
)
from pdevae._tensorflow import tf
from pdevae.inference.fit import Descent, Diverged
from pdevae.inference.latents import TAKEN
from pdevae.inference.units import HiddenUnits, Pairs, Rows
from pdevae.penalties import named

MESH = pdevae.star(nodes=100)
SENSORS = 0.9 * MESH.points[np.random.default_rng(3).choice(MESH.interior, 30, replace=False)]


class Cubic(pdevae.Term):
    """k u³."""

    def volume(self, x, z, u, grad):
        return z.k * u**3


TRANSPORT = pdevae.Diffusion(1.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0)
FIELD = pdevae.Diffusion(lambda x, z: tf.exp(z.log_a(x))) - pdevae.Source(1.0)
NONLINEAR = pdevae.Diffusion(1.0) + Cubic() - pdevae.Source(50.0)
PROBLEMS = {
    "vector": (TRANSPORT, Latents(tau=Normal(2))),
    "field": (FIELD, Latents(log_a=GaussianField(sd=0.5, length=0.5, modes=12))),
    "cells": (
        FIELD,
        Latents(log_a=Cells(4, lambda x: tf.cast(x[:, 0] > 0, tf.int32) + 2 * tf.cast(x[:, 1] > 0, tf.int32))),
    ),
    "nonlinear": (NONLINEAR, Latents(k=Normal(transform=tf.exp))),
}


exact = cache(pdevae.exact)  # one for each problem


@cache
def forward(name: str) -> pdevae.Forward:
    """One for all readings: what is traced for it is too."""
    return pdevae.Forward(MESH, *PROBLEMS[name], 0.0)


@cache
def problem(name: str, noise: float = 0.02, seed: int = 0) -> InverseProblem:
    """Readings of the solution at a z of the prior."""
    rng = np.random.default_rng([seed, 5])
    z = tf.constant(0.7 * rng.normal(size=(1, forward(name).latents.size)))
    clean = forward(name).reader(SENSORS) @ forward(name).solve(z).numpy()[0]
    noise *= np.ptp(clean) / 0.2
    return InverseProblem.on(forward(name), SENSORS, clean + noise * rng.normal(size=len(clean)), noise)


@cache
def linear(d: int) -> InverseProblem:
    """−Δu = g with g a Gaussian field: u is linear in z, so the posterior is Gaussian."""
    equation = pdevae.Diffusion(1.0) - pdevae.Source(lambda x, z: 1 + z.f(x))
    latents = Latents(f=GaussianField(sd=3.0, length=0.3, modes=d, points=200))
    rng = np.random.default_rng(d)
    mesh = pdevae.star(nodes=max(100, d + 20))
    return InverseProblem(mesh, equation, latents, SENSORS, 0.1 + 0.1 * rng.normal(size=len(SENSORS)), 0.03)


def closed_form(p: InverseProblem) -> tuple[np.ndarray, np.ndarray]:
    at_0, J = p.sensitivity(np.zeros(p.size))
    S = np.linalg.inv(J.T @ J / p.noise**2 + np.eye(p.size))
    return S @ J.T @ (p.readings - at_0) / p.noise**2, np.sqrt(np.diag(S))


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_adjoint_gradient_is_that_of_finite_differences(name):
    p = problem(name)
    z = np.random.default_rng(1).normal(size=(2, p.size))
    with tf.GradientTape() as tape:
        at = tf.constant(z)
        tape.watch(at)
        value = p.log_joint(at)
    slope = tape.gradient(value, at).numpy()
    step = 1e-5
    for k in range(min(p.size, 4)):
        e = step * np.eye(p.size)[k]
        difference = (p.log_joint(tf.constant(z + e)) - p.log_joint(tf.constant(z - e))).numpy() / (2 * step)
        np.testing.assert_allclose(slope[:, k], difference, rtol=1e-6, atol=1e-6 * np.abs(slope).max())


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_sensitivity_is_the_jacobian_of_the_readings(name):
    p = problem(name)
    z = 0.5 * np.random.default_rng(2).normal(size=p.size)
    read, J = p.sensitivity(z)
    np.testing.assert_allclose(read, p.predict(tf.constant(z[None])).numpy()[0], rtol=1e-10)
    e = 1e-5 * np.eye(p.size)
    pairs = [p.predict(tf.constant(np.stack([z + one, z - one]))).numpy() for one in e[:4]]
    np.testing.assert_allclose(J[:, :4].T, [(a - b) / 2e-5 for a, b in pairs], rtol=1e-5, atol=1e-7 * np.abs(J).max())


def test_a_nonlinear_solve_fulfils_the_equation_and_agrees_with_the_linear_solver_where_it_is_linear():
    p = problem("nonlinear")
    z = tf.constant([[0.3], [-1.0]], tf.float64)
    r = p.forward.weak.residual(p.solve(z), p.latents.seen(z)).numpy()
    assert np.abs(r).max() < 1e-8 * 50
    q = problem("vector")
    tau = tf.constant([[0.3, -0.8]], tf.float64)
    weak = pdevae.WeakForm(MESH, pdevae.Diffusion(1.0) + pdevae.Transport() - pdevae.Source(1.0), boundary=0.0)
    np.testing.assert_allclose(q.solve(tau), pdevae.Solver(weak).solve(tau), atol=1e-12)


@pytest.mark.slow
def test_solves_in_a_graph_keep_no_memory():
    """SuperLU frees its factors only on the thread that made them, and TensorFlow calls the host from any."""
    mesh = pdevae.star(nodes=1000)
    one = InverseProblem(mesh, *PROBLEMS["vector"], SENSORS, np.zeros(len(SENSORS)), 0.1)

    @tf.function
    def many(count):
        step = lambda k, z: (k + 1, z + 1e-3 * tf.gradients(one.log_joint(z), z)[0])  # noqa: E731
        return tf.while_loop(lambda k, z: k < count, step, (0, tf.ones([4, 2], tf.float64)))

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20

    many(tf.constant(10))
    before = resident()
    many(tf.constant(60))
    assert resident() - before < 50  # MiB; the factors are 110


def test_a_field_at_places_that_a_graph_knows_is_a_table_of_the_same_values():
    field, z = GaussianField(sd=0.5, length=0.5, modes=12).on(MESH), tf.random.stateless_normal([3, 12], [0, 1])
    x = tf.constant(SENSORS, tf.float32)
    told = tf.function(lambda x: field.seen(z)(x), input_signature=[tf.TensorSpec([None, 2])])(x)
    np.testing.assert_allclose(tf.function(lambda: field.seen(z)(x))(), told, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(field.seen(z)(x), told, rtol=1e-5, atol=1e-6)
    assert len(field._tables) == 1


@pytest.mark.parametrize("d", [2, 20, 200])
def test_laplace_is_exact_where_the_posterior_is_gaussian(d):
    p = linear(d)
    mean, sd = closed_form(p)
    found = Laplace()(p)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.sd, sd, rtol=1e-6)


# enough for the moments: R̂ to 1.01, the default, takes twice the draws
FAST = {"ess": 500, "warm_up": 100, "r_hat": 1.05, "target_accept": 0.8}


@pytest.mark.slow
@pytest.mark.parametrize("method", [HMC(**FAST), NUTS(**FAST), GaussianVI(steps=300)])
def test_each_method_finds_a_gaussian_posterior(method):
    p = linear(20)
    mean, sd = closed_form(p)
    found = method(p, seed=1)
    assert (np.abs(found.mean - mean) < 0.2 * sd).all()  # 20 components, 500 effective draws: four standard errors
    np.testing.assert_allclose(found.sd, sd, rtol=0.15)


def test_low_rank_and_diagonal_families_are_what_they_say():
    q = Gaussian.trainable(6, "low-rank", rank=2)
    q.beside.assign(np.random.default_rng(0).normal(size=(6, 2)))
    S = q.covariance().numpy()
    np.testing.assert_allclose(q.log_determinant(), np.linalg.slogdet(S)[1], rtol=1e-10)
    np.testing.assert_allclose(2 * q.kl(), np.trace(S) - 6 - np.linalg.slogdet(S)[1], rtol=1e-10)
    assert np.count_nonzero(Gaussian.trainable(6, "diagonal").covariance().numpy()) == 6


@pytest.mark.parametrize("family", ["full", "low-rank"])
def test_the_gradient_of_the_entropy_is_right_on_average_and_cancels_at_the_posterior(family):
    q, rng = Gaussian.trainable(3, family, rank=2), np.random.default_rng(0)
    for part in q.trainable_variables:
        part.assign(0.5 * rng.normal(size=part.shape))
    m, inverse = q.mean.numpy(), np.linalg.inv(q.covariance().numpy())

    def gradients(loss, draws):
        normal = tf.constant(rng.normal(size=(draws, *q.noise_shape)))
        with tf.GradientTape() as tape:
            value = loss(q.draw(normal))
        return tape.gradient(value, q.trainable_variables, unconnected_gradients="zero")

    closed_form = gradients(lambda v: -0.5 * q.log_determinant(), 1)
    for found, right in zip(gradients(q.negative_entropy, 200_000), closed_form):
        np.testing.assert_allclose(found, right, atol=0.02)
    energy = lambda v: tf.reduce_mean(0.5 * tf.reduce_sum((v - m) * tf.matmul(v - m, inverse), axis=1))  # noqa: E731
    for found in gradients(lambda v: q.negative_entropy(v) + energy(v), 4):
        np.testing.assert_allclose(found, 0, atol=1e-10)


def test_leading_axes_are_gaussians_of_their_own():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=shape) for shape in ((4, 3), (4, 3), (4, 3, 3))]
    q, normal = Gaussian(*map(tf.constant, parts)), rng.normal(size=(7, 4, 3))
    each = [Gaussian(*(tf.constant(part[k]) for part in parts)) for k in range(4)]
    np.testing.assert_allclose(q.kl(), [one.kl() for one in each], rtol=1e-12)
    np.testing.assert_allclose(q.draw(normal)[:, 2], each[2].draw(normal[:, 2]), rtol=1e-12)
    C = np.tril(parts[2][1], -1) + np.diag(np.exp(parts[1][1]))
    np.testing.assert_allclose(q.covariance()[1], C @ C.T, rtol=1e-12)


@pytest.mark.slow
def test_quadrature_of_one_unknown_is_that_of_scipy():
    """A skew posterior: the logarithm of a reaction rate that the readings hardly bound."""
    p = problem("nonlinear", noise=0.3)
    top = p.log_joint(tf.constant(np.linspace(-4, 4, 32)[:, None])).numpy().max()
    density = cache(lambda z: float(np.exp(p.log_joint(tf.constant([[z]], tf.float64)).numpy()[0] - top)))
    moments = [
        scipy.integrate.quad(lambda z, k=k: z**k * density(z), -8, 8, points=[0.0], epsabs=1e-6)[0] for k in range(3)
    ]
    mean = moments[1] / moments[0]
    found = exact(p)
    np.testing.assert_allclose(found.mean, mean, atol=3e-3 * found.sd[0])
    np.testing.assert_allclose(found.sd, np.sqrt(moments[2] / moments[0] - mean**2), rtol=5e-3)


def test_quadrature_refuses_what_its_grid_cannot_hold():
    class HeavyTails:
        size = 2
        readings, noise = np.zeros(2), 1.0

        def sensitivity(self, z):
            return z, np.eye(2)

        def log_joint(self, z):
            return -2 * tf.math.log1p(tf.reduce_sum(z**2, axis=1))  # no variance exists

    with pytest.raises(UserError, match="too far from Gaussian"):
        exact(HeavyTails())


@pytest.mark.slow
def test_boundary_values_may_be_unknown():
    """u on the boundary linear in x with unknown slopes, −Δu = 0: u is that function, all over the region."""
    equation = pdevae.Diffusion(1.0)
    slope = lambda x, z: tf.linalg.matvec(tf.broadcast_to(x, [z.slope.shape[0], *x.shape]), z.slope[:, 0])  # noqa: E731
    true = np.array([0.7, -1.1])
    p = InverseProblem(MESH, equation, Latents(slope=Normal(2)), SENSORS, SENSORS @ true, 0.05, boundary=slope)
    z = tf.constant([[0.7, -1.1]], tf.float64)
    np.testing.assert_allclose(p.solve(z)[0], MESH.points @ true, atol=1e-10)
    read, J = p.sensitivity(true)
    np.testing.assert_allclose(J, SENSORS, atol=1e-9)
    with tf.GradientTape() as tape:
        tape.watch(z)
        value = tf.reduce_sum(p.predict(z) ** 2)
    np.testing.assert_allclose(tape.gradient(value, z)[0], 2 * read @ J, rtol=1e-8)
    for method in (Laplace(), CVI(penalty="two-level", steps=800, learning_rate=0.02, width=24)):
        found = method(p)
        assert (np.abs(found.mean - true) < 0.5 * found.sd + 0.01).all(), method


def test_a_gaussian_moved_is_that_of_the_numbers_moved():
    rng = np.random.default_rng(0)
    mean, C = rng.normal(size=3), np.tril(rng.normal(size=(3, 3)), -1) + np.diag([0.3, 1.0, 2.0])
    for family in ("full", "diagonal"):
        q = Gaussian.trainable(3, family)
        for variable in q.trainable_variables:
            variable.assign(0.3 * rng.normal(size=variable.shape))
        moved, S = q.moved(mean, C), C @ q.covariance().numpy() @ C.T
        np.testing.assert_allclose(moved.mean, mean + C @ q.mean.numpy())
        np.testing.assert_allclose(moved.covariance(), S, atol=1e-14)
        kl = 0.5 * (np.trace(S) + np.sum(moved.mean**2) - 3 - np.linalg.slogdet(S)[1])
        np.testing.assert_allclose(moved.kl(), kl)
    with pytest.raises(UserError, match='use family="full"'):
        Gaussian.trainable(3, "low-rank").moved(mean, C)


@pytest.mark.slow
def test_cvi_around_laplace_finds_a_posterior_far_narrower_than_the_prior():
    p = problem("vector", noise=2e-4)
    truth = exact(p)
    assert truth.sd.max() < 0.02
    method = CVI(penalty="exact", steps=1500, width=24, around=Laplace())
    found = method(p)
    assert (np.abs(found.mean - truth.mean) < 0.4 * truth.sd).all()
    assert (np.abs(found.sd / truth.sd - 1) < 0.4).all()
    at = found.problem.mesh.points[:5]  # the decoder goes with q's coordinates after another problem has been solved
    before = found.fields(at, found.draws[:2])
    method(problem("vector", noise=2e-4, seed=3))
    np.testing.assert_array_equal(found.fields(at, found.draws[:2]), before)


@pytest.mark.slow
@pytest.mark.parametrize("options", [dict(around=Laplace()), dict(serves="prior")], ids=["around", "prior"])
def test_cvi_takes_second_order_steps(options, monkeypatch):
    monkeypatch.setattr("pdevae.inference.training._OF_Q", 100)  # steps of q in a turn: enough here
    p = problem("vector")
    trainer = partial(pdevae.GaussNewton, blocks=8)
    method = CVI(penalty="exact", steps=60, width=24, learning_rate=0.01, trainer=trainer, **options)
    truth, found = exact(p), method(p)
    assert (np.abs(found.mean - truth.mean) < 0.5 * truth.sd).all(), (found.mean, truth.mean, truth.sd)
    assert (np.abs(np.log(found.sd / truth.sd)) < 0.5).all()


@pytest.mark.slow
def test_cvi_learns_the_noise():
    right = problem("vector")
    wrong = right.with_readings(right.readings, noise=5 * right.noise)
    common = {"width": 24, "around": Laplace()}
    found = CVI(penalty="exact", learns_noise=True, steps=800, learning_rate=0.02, **common)(wrong)
    assert 0.7 < 5 * found.diagnostics["noise"] < 1.5
    assert (np.abs(np.log(found.sd / exact(right).sd)) < 0.5).all()
    assert CVI(penalty="exact", steps=20, **common)(wrong).diagnostics["noise"] == 1


@pytest.mark.parametrize("name", ["exact", "two-level", "wendland"])  # by the mesh's residual, and by patches
def test_rows_of_hidden_units_give_the_penalty_of_any_field_made_of_them(name):
    p, c, tau = problem("vector"), np.random.default_rng(0).normal(size=6), np.array([0.7, -1.2])
    penalty = named(name, MESH, TRANSPORT, boundary=0.0)
    units = HiddenUnits(MESH, 6, 3.0, 0)
    rows = Rows(Pairs(lambda _: penalty, p.forward), units, None)
    mu = lambda x, z: tf.linalg.matvec(units.some(1, 7)(x, z), c, transpose_a=True)[None]  # noqa: E731
    expected = np.sum(np.prod(penalty.pair(mu, p.latents.seen(tf.constant(tau[None]))), axis=0))
    assert rows.affine is not None
    v = np.r_[1.0, c]
    np.testing.assert_allclose(v @ rows.gram(tau[None])[0] @ v, expected, rtol=1e-9)
    rows.__dict__["affine"] = None  # row by row, as for an equation that is not affine in z
    np.testing.assert_allclose(v @ rows.gram(tau[None])[0] @ v, expected, rtol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("penalty", ["exact", "two-level"])
def test_solved_cvi_finds_the_posterior_of_a_vector_and_of_a_field(penalty):
    p = problem("vector", noise=0.01)
    truth, found = exact(p), SolvedCVI(penalty, units=64)(p)
    assert (np.abs(found.mean - truth.mean) < 0.15 * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.1)
    z = truth.draws[:3]
    np.testing.assert_allclose(found.fields(SENSORS, z), p.predict(tf.constant(z)), atol=0.3 * p.noise)
    q = problem("cells", noise=0.1)  # d = 4, not affine in z
    assert SolvedCVI(penalty, units=48, eps=(0.03, 0.003))(q).check().k < 0.7


def test_what_cannot_be_solved_is_refused():
    class Thickening(pdevae.Term):
        def flux(self, x, z, u, grad):
            return (z.a * (1 + u**2))[..., None] * grad

    corners = np.array([500.0, 6000.0]) + [[0, 0], [1, 0], [1, 1], [0, 1]]  # far from the origin, as on a map
    mesh, latents = pdevae.polygon(corners, nodes=100), Latents(a=Normal(transform=tf.exp))
    at, y = mesh.points[mesh.interior[:3]], np.zeros(3)
    far = InverseProblem(mesh, Thickening() - pdevae.Source(1.0), latents, at, y, 0.1, boundary=None)
    with pytest.raises(UserError, match="linear in u"):
        SolvedCVI("exact", units=8)(far)
    with pytest.raises(UserError, match="linear in u"):
        SolvedCVI("exact", units=8)(problem("nonlinear"))
    with pytest.raises(UserError, match="too many for 12 unknowns"):
        SolvedCVI("exact", units=600)(problem("field"))


@pytest.mark.parametrize("compiled", [False, True])
def test_a_descent_takes_its_steps_in_order_and_goes_on_where_it_stopped(compiled):
    seen = tf.Variable(0.0)
    x = tf.Variable(1.0)

    def loss(step):
        with tf.control_dependencies([seen.assign(10 * seen + tf.cast(step, tf.float32))]):
            return x**2

    descent = Descent(loss, [x], tf.keras.optimizers.Adam(0.1), compiled=compiled)
    descent.run(3)
    descent.run(5)
    assert float(seen) == 1234.0
    moved = float(x)
    descent.begin_again([np.float32(1.0)])
    descent.run(5)
    assert float(x) == moved


def test_a_fit_that_is_cut_off_goes_on_from_its_file(tmp_path):
    def start():
        x = tf.Variable([3.0, -2.0])
        return x, lambda step: tf.reduce_sum(x**2 * tf.random.stateless_uniform([2], tf.stack([step, 1])))

    whole, loss = start()
    fit(loss, [whole], 1000, 0.05)
    x, loss = start()

    def cut_off(step, _):
        if step == 500:
            raise KeyboardInterrupt

    file = tmp_path / "state.npz"
    options = {"learning_rate": 0.05, "checkpoint": file}
    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("pdevae.inference.fit._SAVE_EVERY", 0.0)
        fit(loss, [x], 1000, watch=cut_off, **options)
    y, loss = start()
    fit(loss, [y], 1000, **options)
    np.testing.assert_array_equal(y, whole)
    file.write_bytes(b"no state")
    with pytest.raises(UserError, match="is not a checkpoint of this fit"):
        fit(loss, [y], 1000, **options)


def test_a_fit_tells_of_its_looks_and_ends_when_told():
    x, looks = tf.Variable(1.0), []

    def watch(step, loss):
        looks.append(step)
        if step == 300:
            raise StopIteration

    fit(lambda step: x**2, [x], 1000, watch=watch, looks=[100, 300])
    assert looks == [100, 250, 300]
    with pytest.raises(Diverged, match="training diverged between steps 0 and 250"):
        fit(lambda step: -1e30 * tf.exp(x**2), [x], 1000, 1e3)
    with pytest.raises(UserError, match="nothing to fit"):
        fit(lambda step: 0.0, [], 10)


@pytest.mark.slow
def test_quadrature_agrees_with_nuts_and_cvi_with_both():
    p = problem("vector")
    truth = exact(p)
    cvi = CVI(penalty="exact", steps=1500, eps=(0.02, 0.002), learning_rate=0.02, width=24)
    for method in (NUTS(**FAST), cvi):
        found = method(p)
        assert (np.abs(found.mean - truth.mean) < 0.25 * truth.sd).all()
        np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.25)


def test_a_check_tells_a_good_q_from_a_bad_one_and_corrects_what_can_be_corrected():
    p = problem("vector", noise=0.01)
    truth = exact(p)
    good = Posterior.normal(p, truth.mean + 0.5 * truth.sd, 1.5 * truth.covariance, 0.0, seed=0).check()
    assert good.k < 0.7
    assert not good.advice
    with pytest.warns(UserWarning, match="corrected mean is 1.[0-9] standard deviations from q's"):
        wide = Posterior.normal(p, truth.mean + 1.5 * truth.sd, 6 * truth.covariance, 0.0, seed=0).check()
    assert wide.k < 0.7 and np.all(np.abs(wide.mean - truth.mean) < 0.4 * truth.sd)
    assert (np.abs(good.mean - truth.mean) < 0.25 * truth.sd).all()
    with pytest.warns(UserWarning, match="above 0.7"):
        bad = Posterior.normal(p, truth.mean + 5 * truth.sd, 0.3 * truth.covariance, 0.0, seed=0).check()
    assert bad.k > 0.7


def test_a_posterior_shows_its_parts_at_places_and_goes_to_arviz():
    p = problem("field")
    found = Laplace()(p)
    at = found.log_a(MESH.points[:7])
    assert at.mean.shape == at.sd.shape == (7,)
    assert (at.low < at.mean).all()
    assert found.predict(SENSORS[:3]).mean.shape == (3,)
    assert found.to_arviz().posterior["log_a"].shape == (1, 1000, MESH.n_nodes)
    with pytest.raises(UserError, match="function of place"):
        found.log_a()
    with pytest.raises(AttributeError, match="log_a"):
        found.tau()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"latents": Latents(tau=Normal(2), k=Normal())}, "no term of the equation uses the latent k"),
        ({"equation": pdevae.Diffusion(lambda x, z: z.tau[..., 0]) - pdevae.Source(1.0)}, "not positive"),
        ({"sensors": SENSORS + 5.0}, "outside"),
        ({"readings": np.zeros(3)}, "one reading for each sensor"),
        ({"noise": 0.0}, "must be positive"),
        ({"noise": np.ones(4)}, r"noise has shape \[4\]"),
        ({"readings": np.full(len(SENSORS), np.nan)}, "reading 0 is nan: leave it out"),
    ],
)
def test_a_wrong_problem_is_refused_in_one_line_when_it_is_made(change, words):
    whole = dict(mesh=MESH, equation=TRANSPORT, latents=Latents(tau=Normal(2)), sensors=SENSORS)
    whole |= dict(readings=np.zeros(len(SENSORS)), noise=0.1) | change
    with pytest.raises(UserError, match=words) as error:
        InverseProblem(**whole)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Latents(), "empty"),
        (lambda: Latents(a=1.0), "cannot be a latent"),
        (lambda: Latents(whitened=Normal()), "another name"),
        (lambda: Latents(flow=Normal()), "another name"),
        (lambda: Latents(a=Normal(sd=0.0)), "must be positive"),
        (lambda: GaussianField(kernel="cubic"), "unknown kernel"),
        (lambda: GaussianField(length=0.0), "length above 0"),
        (lambda: GaussianField(modes=500, points=400), "at most points=400"),
        (lambda: Gaussian.trainable(3, "round"), "unknown family"),
        (lambda: exact(linear(20)), "quadrature over 20 unknowns"),
        (lambda: CVI(penalty="fast", steps=1)(problem("vector")), "unknown penalty"),
        (lambda: CVI(around=Laplace(), serves="prior"), "leave out around"),
        (lambda: CVI(penalty="hard", steps=20, trainer=pdevae.GaussNewton)(problem("vector")), "a sum of squares"),
        (lambda: CVI(around=Laplace(), family="low-rank", steps=1)(problem("vector")), 'use family="full"'),
        (lambda: CVI(decoder=lambda x, z: x, steps=1)(problem("vector")), "trainable_variables"),
    ],
)
def test_a_wrong_part_is_refused_in_one_line(make, words):
    with pytest.raises(UserError, match=words) as error:
        make()
    assert "\n" not in str(error.value)


def test_no_latent_hides_what_a_posterior_has_a_name_for():
    found = Laplace()(problem("vector"))
    named = {*dir(type(found)), *vars(found)}
    assert {name for name in named if not name.startswith("_")} | {"whitened"} == TAKEN


def test_a_solve_that_does_not_converge_says_so():
    equation = pdevae.Diffusion(1.0) + Cubic() - pdevae.Source(50.0)
    p = InverseProblem(MESH, equation, Latents(k=Normal(mean=-300.0)), SENSORS, np.zeros(len(SENSORS)), 0.1)
    with pytest.raises(UserError, match="no solution in"):
        p.solve(tf.zeros([1, 1], tf.float64))


@pytest.mark.slow
def test_a_sampler_rejects_what_has_no_solution_and_goes_on():
    """k u³ with k < 0 has none for large |k|; half of the prior is there."""
    equation = pdevae.Diffusion(1.0) + Cubic() - pdevae.Source(50.0)
    blank = InverseProblem(MESH, equation, Latents(k=Normal(sd=2.0)), SENSORS, np.zeros(len(SENSORS)), 1.0)
    z = tf.constant([[0.1], [-3.0], [-3.0], [-3.0]], tf.float64)  # as many as there are chains: traced once
    solved = tf.function(blank.predict, autograph=False)(z).numpy()
    assert np.isfinite(solved[0]).all() and not np.isfinite(solved[1:]).any()
    p = blank.with_readings(solved[0])
    for method in (HMC, NUTS):
        found = method(warm_up=25, block=25, most_draws=25)(p)
        assert np.isfinite(found.draws).all()
        assert found.draws.min() > -2.0
