"""Inference on problems small enough to know the answer."""

import numpy as np
import pandas as pd
import pytest
import skfem

import pdevae
from pdevae._tensorflow import repeated, tf
from pdevae.experiments import comparison, transport
from pdevae.forms import exact_form, gram, tapered_form, two_level_form
from pdevae.inference import CVI, HMC, Diverged, Laplace, OverBudget, SolvedCVI, TransportProblem, exact
from pdevae.inference.cvi import Decoder, Readings, training_on
from pdevae.inference.hmc import log_joint
from pdevae.inference.laplace import sensitivity
from pdevae.inference.solved import hidden_units, interpolated


@pytest.fixture(scope="module")
def problem():
    made = TransportProblem.simulate(pdevae.disc(nodes=3000), a=0.2, n_sensors=40, noise=0.3, seed=1)
    return made.on(pdevae.disc(nodes=150))


def test_hmc_on_a_linear_gaussian_problem_finds_the_closed_form():
    """Four standard errors at an effective size of a quarter of the draws."""
    covariance, mean = np.array([[0.5, 0.3], [0.3, 0.4]]), np.array([1.0, -2.0])
    precision = tf.constant(np.linalg.inv(covariance))
    log_density = lambda x: -0.5 * tf.reduce_sum((x - mean) @ precision * (x - mean), axis=1)  # noqa: E731
    states, said = HMC(block=500, most_draws=2000, ess=np.inf).sample(log_density, np.zeros((4, 2)), seed=0)
    draws = states.reshape(-1, 2)
    assert len(draws) == 8000 and said["draws"] == 2000
    error = np.sqrt(np.diag(covariance) / (len(draws) / 4))
    assert (np.abs(draws.mean(axis=0) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.06)
    assert 0.7 < said["accepted"] < 0.99
    assert said["r_hat"] < 1.01 and said["ess"] > 2000


def test_both_solvers_give_the_same_density_and_gradient(problem):
    tau = tf.constant(np.random.default_rng(0).normal(size=(3, 2)))
    found = []
    for solver in ("sparse", "dense"):
        density = log_joint(problem, solver, samples=3)
        with tf.GradientTape() as tape:
            tape.watch(tau)
            value = density(tau)
        found.append((value.numpy(), tape.gradient(value, tau).numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-8)
    reference = problem.model.log_joint(problem.y, problem.sigma)
    np.testing.assert_allclose(found[0][0], [reference(t) for t in tau.numpy()], rtol=1e-10)


def test_laplace_finds_the_mode_and_its_curvature(problem):
    """At the mode the gradient by the adjoint is 0; the posterior is near enough to Gaussian for 0.15 sd and 10%."""
    found, truth = Laplace()(problem), exact(problem)
    _, slope = problem.model.log_joint_and_gradient(problem.y, problem.sigma, found.mean)
    assert np.abs(slope * found.sd).max() < 2e-3
    assert (np.abs(found.mean - truth.mean) < 0.15 * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.1)


def test_sensitivities_are_those_of_finite_differences(problem):
    tau, step = np.array([0.4, -0.7]), 1e-5
    _, J = sensitivity(problem.model, tau)
    for k, e in enumerate(np.eye(2)):
        up, down = (sensitivity(problem.model, tau + sign * step * e)[0] for sign in (1, -1))
        np.testing.assert_allclose(J[:, k], (up - down) / (2 * step), rtol=1e-5, atol=1e-9)


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


def _cvi(name, steps=6000, **options):
    """A trained method on a small problem, boundary met; compiled."""
    patch = {"patch_nodes": 16, "n_patches": 8}
    kinds = {
        "exact": (pdevae.ExactPenalty, {}),
        "two-level": (pdevae.TwoLevelPenalty, patch),
        "multilevel": (pdevae.MultilevelPenalty, patch | {"coarse_patches": 2, "coarsest": 30}),
        "hard": (pdevae.TaperedPenalty, patch),
    }
    kind, own = kinds[name]
    make = lambda mesh, equation: kind(mesh, equation, boundary=0.0, dtype=tf.float32, **own)  # noqa: E731
    return CVI(make, pdevae.Geometric(0.03, 0.003, steps=int(0.7 * steps)), steps=steps, xla=True, **options)


@pytest.mark.parametrize(
    ("name", "serves"), [("exact", "wider"), ("multilevel", "wider"), ("hard", "wider"), ("exact", "prior")]
)
def test_trained_cvi_finds_the_exact_posterior(problem, name, serves):
    """Seen: means within 0.2 exact sd, spreads within 12%; the bands leave room for another machine's rounding."""
    more = {"serves": serves, "spread": 1.3, "steps": 6000} if serves == "prior" else {}
    truth, found = exact(problem), _cvi(name, **more)(problem, seed=0)
    assert (np.abs(found.mean - truth.mean) < 0.4 * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.25)
    x, tau = problem.sensors, truth.draws[:3]
    np.testing.assert_allclose(found.predict(x, tau), problem.solve_at(x, tau), atol=0.5 * problem.sigma)


def test_overwriting_the_boundary_spoils_what_meeting_it_gives(problem):
    """The same training with a factor that is 1 at every interior node: a larger residual is left."""
    left = {}
    for name, factor in (("met", pdevae.lift(problem.mesh, 0.0)[1]), ("overwritten", 1.0 - problem.mesh.is_boundary)):
        boundary = (np.zeros(problem.mesh.n_nodes), factor)
        penalty = pdevae.ExactPenalty(problem.mesh, problem.equation, boundary=boundary, dtype=tf.float32)
        method = CVI(
            lambda *_, penalty=penalty: penalty, pdevae.Geometric(0.03, 0.003, steps=1000), steps=1500, xla=True
        )
        readings = Readings.of(problem, penalty, 0)
        training = training_on(method, problem.mesh, problem.equation)
        training.prepared(readings)
        state, _ = training.run(readings)
        mu = Decoder(method.width, method.depth).field(state.weights)
        left[name] = float(penalty(mu, tf.constant(exact(problem).draws[:8], tf.float32)))
    assert left["overwritten"] > 1.5 * left["met"]  # seen: 2.8 times, and growing with the steps


def test_the_penalty_reaches_q_only_where_the_objective_is_as_printed(problem):
    """Gradient of the penalty alone in q: none if uncoupled; as printed, that of a sampled E_q."""
    for serves, reaches in (("q", True), ("wider", False)):
        method = _cvi("exact", steps=10, serves=serves)
        training = training_on(method, problem.mesh, problem.equation)
        readings, state = Readings.of(problem, training.penalty, 0), method.start(0)
        mu = Decoder(method.width, method.depth).field(state.weights)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(state.q)
            whole = training._joint(mu, state.q, tf.constant(0), readings)
            fit = training._fit(mu, state.q, _draws(state.q, method, readings), readings)
        difference = tape.gradient(whole, state.q) - tape.gradient(fit, state.q)
        assert (np.abs(difference).max() > 1e-3) == reaches


def _draws(q, method, readings):
    from pdevae.inference.cvi import _gaussian, _key, _pairs

    m, C, _ = _gaussian(q)
    return m + _pairs(method.samples, _key(tf.constant(0), readings)) @ tf.transpose(C)


@pytest.mark.parametrize("xla", [False, True])
def test_training_gives_the_same_from_the_same_seed(problem, xla):
    """Compiled and not: the two draw from different generators, so they differ from each other."""
    tapered = lambda m, e: pdevae.TaperedPenalty(m, e, patch_nodes=9, n_patches=4, boundary=0.0, dtype=tf.float32)  # noqa: E731
    method = CVI(tapered, pdevae.Constant(0.1), steps=20, xla=xla)
    one, again, other = (method(problem, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.draws, again.draws)
    assert np.abs(one.draws - other.draws).max() > 0.1


def test_one_compiled_program_serves_every_set_of_readings(problem):
    """Another problem on the same mesh gets the result that a program of its own would give."""
    other = TransportProblem.simulate(pdevae.disc(nodes=3000), a=0.2, n_sensors=40, noise=0.3, seed=2).on(problem.mesh)
    shared = _cvi("exact", steps=40)
    shared(problem, 0)
    np.testing.assert_array_equal(shared(other, 5).draws, _cvi("exact", steps=40)(other, 5).draws)


def test_a_diverging_run_is_reported(problem):
    class Runaway(pdevae.ExactPenalty):
        def __call__(self, mu, z, seed):
            return -1e6 * tf.reduce_sum(mu(tf.constant(problem.sensors, tf.float32), z) ** 2) ** 40

    runaway = Runaway(problem.mesh, problem.equation, dtype=tf.float32)
    method = CVI(lambda *_: runaway, pdevae.Constant(0.01), steps=1000)
    with pytest.raises(Diverged, match="CVI diverged between steps 0 and 500"):
        method(problem)


def _value(form, mesh, c, tau):
    """The form at the field Σ_k c_k t_k and this τ, from its Gram matrix."""
    v = np.concatenate([[1.0], np.kron([1.0, *tau], c)])
    return v @ gram(form, hidden_units(mesh, len(c), 3.0, 0)) @ v


def _field(mesh, c):
    hidden = hidden_units(mesh, len(c), 3.0, 0)
    return lambda x, z: tf.constant((hidden(x.numpy()) @ c)[None])


def _cut(mesh):
    """The solved fit's fields are 0 at boundary nodes and as they are elsewhere."""
    return np.zeros(mesh.n_nodes), 1.0 - mesh.is_boundary


def test_a_form_is_its_penalty(problem):
    """The Gram matrix of the hidden units' residuals gives the penalty of any field made of them, at any τ."""
    mesh, equation = problem.mesh, problem.equation
    c, tau = np.random.default_rng(0).normal(size=(2, 6)), np.array([0.7, -1.2])
    penalty = pdevae.ExactPenalty(mesh, equation, boundary=_cut(mesh))
    for c_i in c:
        expected = penalty(_field(mesh, c_i), tf.constant(tau[None]))
        np.testing.assert_allclose(_value(exact_form(mesh, equation), mesh, c_i, tau), expected, rtol=1e-9)


def test_the_two_level_form_with_all_patches_is_the_two_level_penalty(problem):
    mesh, equation = problem.mesh, problem.equation
    c, tau = np.random.default_rng(1).normal(size=6), np.array([0.7, -1.2])
    form = two_level_form(mesh, equation, patch_nodes=12, n_patches=10**6)
    area = np.pi * (mesh.points**2).sum(axis=1).max() * np.sin(2 * np.pi / mesh.is_boundary.sum())
    area *= mesh.is_boundary.sum() / (2 * np.pi)  # of the polygon that the disc's mesh is
    rho = np.sqrt(12 * area / (np.pi * mesh.n_nodes))
    penalty = pdevae.TwoLevelPenalty(mesh, equation, rho=rho, boundary=_cut(mesh), centres=None)
    r = penalty.weak.residual(penalty.weak.values(_field(mesh, c), None), tf.constant(tau[None])).numpy()[0]
    np.testing.assert_allclose(_value(form, mesh, c, tau), r @ penalty.quadratic_form().matvec(r), rtol=1e-6)


def test_patches_drawn_once_estimate_the_sum_over_all_without_bias(problem):
    mesh, equation = problem.mesh, problem.equation
    c, tau = np.random.default_rng(1).normal(size=6), np.array([0.7, -1.2])
    part = lambda P, seed: _value(two_level_form(mesh, equation, 12, P, seed=seed)[:1], mesh, c, tau)  # noqa: E731
    some = np.array([part(20, seed) for seed in range(30)])
    assert abs(some.mean() - part(10**6, 0)) < 3 * some.std() / np.sqrt(len(some))


@pytest.mark.parametrize("name", ["exact", "two-level", "levels"])
def test_the_solved_surrogate_finds_the_exact_posterior(name):
    """Seen: means within 0.03 exact sd, spreads within 2%; with its own coarse meshes within 0.2 sd."""
    made = TransportProblem.simulate(pdevae.star(nodes=5000), a=1.0, n_sensors=40, noise=0.3, seed=1)
    problem = made.on(pdevae.star(nodes=1500))
    form = {
        "exact": lambda mesh, equation, seed: exact_form(mesh, equation),
        "two-level": lambda mesh, equation, seed: two_level_form(mesh, equation, seed=seed),
        "levels": lambda mesh, equation, seed: two_level_form(mesh, equation, coarsest=90, seed=seed),
    }[name]
    truth, found = exact(problem), SolvedCVI(form)(problem, seed=0)
    far = 0.25 if name == "levels" else 0.1
    assert (np.abs(found.mean - truth.mean) < far * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=far)
    x, tau = problem.sensors, truth.draws[:3]
    close = 1.0 if name == "levels" else 0.3  # a coarsest mesh of 90 nodes is a crude one
    np.testing.assert_allclose(found.predict(x, tau), problem.solve_at(x, tau), atol=close * problem.sigma)


def test_a_form_without_a_minimum_is_reported():
    """The hard taper gives some fields a negative penalty."""
    made = TransportProblem.simulate(pdevae.star(nodes=2000), a=0.2, n_sensors=40, noise=0.3, seed=1)
    star = made.on(pdevae.star(nodes=300))
    with pytest.raises(Diverged, match="unbounded below"):
        SolvedCVI(lambda mesh, equation, seed: tapered_form(mesh, equation, 32))(star)


def test_interpolants_are_those_of_the_whole_mesh():
    mesh = pdevae.star(nodes=800)
    hidden, x = hidden_units(mesh, 4, 3.0, 0), 0.97 * mesh.points[::5]
    at_nodes = np.where(mesh.is_boundary[:, None], 0.0, hidden(mesh.points))
    expected = mesh.skfem  # scikit-fem's own point evaluation
    probes = skfem.Basis(expected, skfem.ElementTriP1()).probes(x.T)
    np.testing.assert_allclose(interpolated(hidden, mesh)(x), probes @ at_nodes, atol=1e-9)


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


def test_runs_without_a_posterior_are_rows_that_say_why():
    config = {"domain": "star", "nodes": 300, "a": 1.0, "sensors": 40, "noise": 0.3}
    rows = [
        config | {"method": method, "seed": 0} | transport.infer(config | {"method": method, "budget": 0.0}, 0)
        for method in ("quadrature", "solved-hard", "hmc-sparse")
    ]
    table = comparison.against_exact(pd.DataFrame(rows)).set_index("method")
    assert table.status.to_dict() == {"quadrature": "ok", "solved-hard": "diverged", "hmc-sparse": "over budget"}
    assert (
        table.loc[["solved-hard", "hmc-sparse"], ["mean_1", "mean_error", "w2", "mae", "seconds"]].isna().all(axis=None)
    )
    assert table.note["solved-hard"].startswith("F_ε is unbounded below") and table.projected_seconds["hmc-sparse"] > 0


def test_repeated_steps_come_in_order_each_after_the_one_before():
    seen = tf.Variable(0)
    advance = repeated(lambda number: seen.assign(10 * seen + number))
    advance(tf.constant(1), tf.constant(4))
    advance(tf.constant(4), tf.constant(6))
    advance(tf.constant(6), tf.constant(6))
    assert seen.numpy() == 12345
