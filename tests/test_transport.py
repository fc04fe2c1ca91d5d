"""The transport problem of Section 5: each method against the exact posterior, and what the experiments say."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

import pdevae
from pdevae import CVI, HMC, Laplace, SolvedCVI
from pdevae._tensorflow import tf
from pdevae.inference.fit import Diverged
from pdevae.inference.sampling import OverBudget
from pdevae.inference.training import Training, training_of
from pdevae.penalties import named
from study import forward
from study.transport import comparison
from study.transport import experiment as transport
from study.transport.dense import DenseForward
from study.transport.problem import Truth, mesh_of

exact = cache(pdevae.exact)  # one for each problem


def on_disc(noise=0.3, seed=1):
    """Readings from a finer mesh; all share one forward map."""
    return Truth.simulate(mesh_of("disc", 1500), a=0.2, n_sensors=40, noise=noise, seed=seed).on(mesh_of("disc", 80))


@pytest.fixture(scope="module")
def problem():
    return on_disc()


def test_hmc_on_a_linear_gaussian_problem_finds_the_closed_form():
    """Four standard errors at an effective size of a quarter of the draws."""
    covariance, mean = np.array([[0.5, 0.3], [0.3, 0.4]]), np.array([1.0, -2.0])
    precision = tf.constant(np.linalg.inv(covariance))
    log_density = lambda x: -0.5 * tf.reduce_sum((x - mean) @ precision * (x - mean), axis=1)  # noqa: E731
    states, said = HMC(block=500, most_draws=2000, ess=np.inf).sample(log_density, 2, seed=0)
    draws = states.reshape(-1, 2)
    assert len(draws) == 8000 and said["draws"] == 2000
    error = np.sqrt(np.diag(covariance) / (len(draws) / 4))
    assert (np.abs(draws.mean(axis=0) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.06)
    assert said["r_hat"] < 1.01 and said["ess"] > 2000


def test_dense_and_sparse_solves_give_the_same_density_and_gradient(problem):
    tau = tf.constant(np.random.default_rng(0).normal(size=(3, 2)))
    dense = pdevae.InverseProblem.on(DenseForward.of(problem.forward), problem.sensors, problem.readings, problem.noise)
    found = []
    for one in (problem, dense):
        with tf.GradientTape() as tape:
            tape.watch(tau)
            value = one.log_joint(tau)
        found.append((value.numpy(), tape.gradient(value, tau).numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-8)


def test_the_exact_posterior_is_that_of_a_plain_grid(problem):
    """Independent of Laplace's coordinates: p at 40 × 40 places of a square, added up."""
    ticks = np.linspace(-1.0, 1.0, 40)
    found = exact(problem)
    grid = np.stack(np.meshgrid(ticks, ticks, indexing="ij"), axis=-1).reshape(-1, 2) * 6 * found.sd + found.mean
    log_p = np.concatenate([problem.log_joint(tf.constant(some)).numpy() for some in np.split(grid, 50)])
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ grid
    np.testing.assert_allclose(found.mean, mean, atol=5e-3 * found.sd.min())
    np.testing.assert_allclose(found.covariance, (grid - mean).T @ ((grid - mean) * p[:, None]), rtol=2e-2, atol=1e-5)


def test_laplace_finds_the_mode_and_its_curvature(problem):
    """At the mode the gradient by the adjoint is 0; the posterior is near enough to Gaussian for 0.15 sd and 10%."""
    found, truth = Laplace()(problem), exact(problem)
    at = tf.constant(found.mean[None])
    with tf.GradientTape() as tape:
        tape.watch(at)
        value = problem.log_joint(at)
    assert np.abs(tape.gradient(value, at)[0] * found.sd).max() < 2e-3
    assert (np.abs(found.mean - truth.mean) < 0.15 * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.1)


@pytest.mark.slow
def test_hmc_stops_when_it_has_converged_and_finds_the_exact_posterior(problem):
    """Error of a mean from an effective size of 400: 0.25 sd is five standard errors."""
    truth, found = exact(problem), HMC()(problem, seed=0)
    said = found.diagnostics
    assert said["r_hat"] < 1.01 and said["ess"] >= 400 and said["draws"] < 1000
    assert 0 < said["seconds_to_r_hat"] <= found.seconds
    assert (np.abs(found.mean - truth.mean) < 0.25 * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.2)


@pytest.mark.parametrize("budget", [0.0, 2.0])
def test_hmc_over_budget_is_reported(problem, budget):
    """At once if one gradient shows it, else when the clock does."""
    with pytest.raises(OverBudget, match="HMC over budget: needs about .* s, allowed"):
        HMC(budget=budget, most_draws=10**6, ess=np.inf)(problem)


def _cvi(name, steps=1500, **options):
    """A trained method on a small problem, boundary met; compiled."""
    own = {"coarse_patches": 2, "coarsest": 30} if name == "multilevel" else {}
    common = {"patch_nodes": 16, "n_patches": 8, "boundary": 0.0, "dtype": tf.float32}
    make = lambda mesh, equation: named(name, mesh, equation, **common, **own)  # noqa: E731
    eps = pdevae.Geometric(0.03, 0.003, steps=int(0.7 * steps))
    return CVI(penalty=make, eps=eps, steps=steps, **{"learning_rate": 0.02, "width": 24} | options)


def _trained(method, problem, seed=0) -> Training:
    training = Training(method, problem.forward, len(problem.sensors))
    training.take(problem, seed)
    training.run()
    return training


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "serves"), [("exact", "wider"), ("multilevel", "wider"), ("hard", "wider"), ("exact", "prior")]
)
def test_trained_cvi_finds_the_exact_posterior(name, serves):
    """Seen: means within 0.1 exact sd, over the prior 0.2, spreads within 8%; the bands leave room for rounding."""
    more = {"serves": serves, "spread": 1.3, "steps": 2000, "samples": 16, "width": 32} if serves == "prior" else {}
    noisy = on_disc(noise=0.8)  # still an eighth of the prior's spread
    truth, found = exact(noisy), _cvi(name, **more)(noisy, seed=0)
    assert (np.abs(found.mean - truth.mean) < (0.5 if serves == "prior" else 0.4) * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.25)
    x, tau = noisy.sensors, truth.draws[:3]
    np.testing.assert_allclose(found.fields(x, tau), noisy.predict(tf.constant(tau), x), atol=0.5 * noisy.noise)


@pytest.mark.slow
def test_overwriting_the_boundary_spoils_what_meeting_it_gives(problem):
    """The same training with a factor that is 1 at every interior node: a larger residual is left."""
    left = {}
    for name, factor in (("met", pdevae.lift(problem.mesh, 0.0)[1]), ("overwritten", 1.0 - problem.mesh.is_boundary)):
        boundary = (np.zeros(problem.mesh.n_nodes), factor)
        penalty = pdevae.ExactPenalty(problem.mesh, problem.forward.equation, boundary=boundary, dtype=tf.float32)
        eps = pdevae.Geometric(0.03, 0.003, steps=300)
        method = CVI(penalty=lambda *_, penalty=penalty: penalty, eps=eps, steps=500, width=24)
        training = _trained(method, problem)
        seen = problem.latents.seen(tf.constant(exact(problem).draws[:8], tf.float32))
        left[name] = float(penalty(training.mu, seen))
    assert left["overwritten"] > 1.5 * left["met"]  # seen: 4 times and more


@pytest.mark.slow
def test_the_penalty_reaches_q_only_where_the_objective_is_as_printed(problem):
    """Gradient of the penalty alone in q: none if uncoupled; as printed, that of a sampled E_q."""
    for serves, reaches in (("q", True), ("wider", False)):
        training = _trained(_cvi("exact", steps=10, serves=serves), problem)
        q = training.q.trainable_variables
        with tf.GradientTape(persistent=True) as tape:
            whole, fit = training._joint(tf.constant(0)), training._fit(training._drawn(tf.constant(0)))
        difference = max(
            np.abs(a - b).max() for a, b in zip(tape.gradient(whole, q), tape.gradient(fit, q), strict=True)
        )
        assert (difference > 1e-3) == reaches


@pytest.mark.parametrize("steps", [20, pytest.param(500, marks=pytest.mark.slow)])
def test_training_gives_the_same_from_the_same_seed(problem, steps):
    """Compiled, from 500 steps on, and not. To rounding, which steps in single precision let grow (4e-6 seen)."""
    make = lambda mesh, equation: named("hard", mesh, equation, 9, 4, boundary=0.0, dtype=tf.float32)  # noqa: E731
    method = CVI(penalty=make, eps=pdevae.Constant(0.1), steps=steps)
    one, again, other = (method(problem, seed) for seed in (3, 3, 4))
    np.testing.assert_allclose(one.draws, again.draws, atol=1e-4)
    assert np.abs(one.draws - other.draws).max() > 0.1


@pytest.mark.slow
def test_one_compiled_program_serves_every_set_of_readings(problem):
    """Another problem on the same mesh gets what a program of its own would give; the first keeps its own."""
    other = on_disc(seed=2)
    assert other.forward is problem.forward
    shared = _cvi("exact", steps=15, learning_rate=0.005)
    first = shared(problem, 0)
    before = first.fields(problem.sensors, first.draws[:2])
    own = _cvi("exact", steps=15, learning_rate=0.005)(other, 5)
    np.testing.assert_allclose(shared(other, 5).draws, own.draws, atol=1e-5)  # up to rounding in single precision
    assert training_of(shared, problem.forward, 40).method is shared
    np.testing.assert_array_equal(first.fields(problem.sensors, first.draws[:2]), before)


def test_a_diverging_run_is_reported(problem):
    class Runaway(pdevae.ExactPenalty):
        def __call__(self, mu, z, seed):
            return -1e6 * tf.reduce_sum(mu(tf.constant(problem.sensors, tf.float32), z) ** 2) ** 40

    runaway = Runaway(problem.mesh, problem.forward.equation, dtype=tf.float32)
    method = CVI(penalty=lambda *_: runaway, eps=pdevae.Constant(0.01), steps=1000)
    with pytest.raises(Diverged, match="CVI diverged between steps 0 and 250"):
        method(problem)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "two-level"])
def test_the_solved_surrogate_finds_the_exact_posterior(name):
    """Seen: means within 0.01 exact sd, spreads within 2%."""
    truth = Truth.simulate(mesh_of("star", 1000), a=1.0, n_sensors=40, noise=0.3, seed=1)
    problem = truth.on(mesh_of("star", 300))
    right, found = exact(problem), SolvedCVI(name, units=128)(problem, seed=0)
    assert (np.abs(found.mean - right.mean) < 0.1 * right.sd).all()
    np.testing.assert_allclose(found.sd / right.sd, 1, atol=0.1)
    x, tau = problem.sensors, right.draws[:3]
    np.testing.assert_allclose(found.fields(x, tau), problem.predict(tf.constant(tau), x), atol=0.3 * problem.noise)
    assert found.check().k < 0.7


def test_distances_to_the_exact_posterior():
    """A shift by d and a spread by k of a round Gaussian: W² = d² + 2(k − 1)²s²."""
    exact_row = {"domain": "disc", "nodes": 9, "seed": 0, "method": "quadrature", "status": "ok"}
    exact_row |= {"mean_1": 1.0, "mean_2": 2.0, "cov_11": 0.25, "cov_22": 0.25, "cov_12": 0.0}
    other = exact_row | {"method": "other", "mean_1": 1.1, "cov_11": 0.36, "cov_22": 0.36}
    table = comparison.against_exact(pd.DataFrame([exact_row, other])).set_index("method")
    np.testing.assert_allclose(
        table.loc["quadrature", ["mean_error", "sd_ratio", "w2"]].astype(float), [0, 1, 0], atol=1e-7
    )
    expected = [0.2, 1.2, np.sqrt((0.1**2 + 2 * 0.1**2) / 0.5)]
    np.testing.assert_allclose(table.loc["other", ["mean_error", "sd_ratio", "w2"]].astype(float), expected)


def test_exponents_count_projected_times():
    runs = pd.DataFrame({"method": "m", "nodes": [10, 100, 1000], "seconds": [1.0, 100.0, np.nan]})
    runs["projected_seconds"] = [np.nan, np.nan, 10_000.0]
    assert comparison.exponent(runs, "m") == pytest.approx(2.0)


@pytest.mark.slow
def test_runs_without_a_posterior_are_rows_that_say_why(monkeypatch):
    """The hard taper gives some fields a negative penalty, so that F_ε has no minimum."""
    monkeypatch.setattr(transport, "_DATA_NODES", 1000)
    monkeypatch.setattr(transport, "_simulated", transport._simulated.__wrapped__)  # not kept for other tests
    config = {"domain": "star", "nodes": 300, "a": 1.0, "sensors": 40, "noise": 0.3}
    common = transport.Setting(**config, budget=0.0)
    rows = [
        config | {"method": method, "seed": 0} | transport.infer(replace(common, method=method), 0)
        for method in ("quadrature", "solved-hard", "hmc-sparse")
    ]
    table = comparison.against_exact(pd.DataFrame(rows)).set_index("method")
    assert table.status.to_dict() == {"quadrature": "ok", "solved-hard": "diverged", "hmc-sparse": "over budget"}
    assert (
        table.loc[["solved-hard", "hmc-sparse"], ["mean_1", "mean_error", "w2", "mae", "seconds"]].isna().all(axis=None)
    )
    assert table.note["solved-hard"].startswith("F_ε is unbounded below") and table.projected_seconds["hmc-sparse"] > 0


@pytest.mark.slow
def test_the_posterior_covers_the_truth_as_often_as_it_should(monkeypatch):
    """Eight problems: the mean squared distance, in posterior sd, is χ²₂/2 with mean 1 (sd 0.35 over eight).

    They share their source, so that what is traced for it serves them all; CVI's ellipse is not asked about.
    """
    source, kept = forward.gaussian_process(0, length=0.4), {}

    def shared(mesh, *rest):
        if mesh.n_nodes not in kept:
            kept[mesh.n_nodes] = pdevae.Forward(mesh, *rest)
        return kept[mesh.n_nodes]

    monkeypatch.setattr(forward, "gaussian_process", lambda seed, length: source)
    monkeypatch.setattr(forward, "Forward", shared)
    monkeypatch.setattr(forward, "SolvedCVI", Laplace)
    config = dict(nodes=100, data_nodes=600, a=0.3, sensors=30, noise=0.3, source_length=0.4, source_sd=0.5)
    distances = []
    for seed in range(8):
        tau = np.random.default_rng([seed, 9]).normal(size=2)
        table = forward.transport_example(config | {"tau": tau.tolist()}, seed)
        posterior = table["kind"] == "posterior"
        points, weight = np.stack([table["x"], table["y"]], axis=1)[posterior], table["weight"][posterior]
        mean = weight @ points
        covariance = (weight[:, None] * (points - mean)).T @ (points - mean)
        distances.append((tau - mean) @ np.linalg.solve(covariance, tau - mean) / 2)
    assert 0.3 < np.mean(distances) < 2.2


def test_gaussian_process_draws_have_the_right_covariance():
    x = tf.constant([[0.0, 0.0], [0.3, 0.0]], tf.float64)
    draws = np.array([forward.gaussian_process(seed, length=0.3)(x).numpy() for seed in range(2000)])
    assert draws.var() == pytest.approx(1, abs=0.1)
    assert np.mean(draws[:, 0] * draws[:, 1]) == pytest.approx(np.exp(-0.5), abs=0.1)
