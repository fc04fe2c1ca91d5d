"""Inference on problems small enough to know the answer."""

import numpy as np
import pytest

import pdevae
from pdevae._tensorflow import tf
from pdevae.inference import CVI, HMC, Diverged, TransportProblem, exact
from pdevae.inference.hmc import log_joint, sample


@pytest.fixture(scope="module")
def problem():
    made = TransportProblem.simulate(pdevae.disc(nodes=3000), a=0.2, n_sensors=40, noise=0.3, seed=1)
    return made.on(pdevae.disc(nodes=150))


def test_hmc_on_a_linear_gaussian_problem_finds_the_closed_form():
    """Four standard errors at an effective size of a quarter of the draws."""
    covariance, mean = np.array([[0.5, 0.3], [0.3, 0.4]]), np.array([1.0, -2.0])
    precision = tf.constant(np.linalg.inv(covariance))
    log_density = lambda x: -0.5 * tf.reduce_sum((x - mean) @ precision * (x - mean), axis=1)  # noqa: E731
    states, accepted = sample(log_density, np.zeros((4, 2)), 300, 2000, 3, seed=0)
    draws = states.reshape(-1, 2)
    error = np.sqrt(np.diag(covariance) / (len(draws) / 4))
    assert (np.abs(draws.mean(axis=0) - mean) < 4 * error).all()
    np.testing.assert_allclose(np.cov(draws.T), covariance, atol=0.06)
    assert 0.5 < accepted.mean() < 0.98


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


def test_hmc_finds_the_exact_posterior(problem):
    """Error of a mean from an effective size of several hundred: 0.3 sd is six standard errors."""
    truth, found = exact(problem), HMC(burn_in=150, draws=300)(problem, seed=0)
    assert found.diagnostics["r_hat"] < 1.05
    assert (np.abs(found.mean - truth.mean) < 0.3 * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.2)


def test_cvi_with_the_exact_penalty_finds_the_exact_posterior(problem):
    """Seen: means within 0.23 exact sd, spreads within 6%; the bands leave room for another machine's rounding."""
    method = CVI(
        lambda mesh, equation, g: pdevae.ExactPenalty(mesh, equation, boundary=g),
        pdevae.Geometric(0.03, 0.003, steps=7000),
    )
    truth, found = exact(problem), method(problem, seed=0)
    assert (np.abs(found.mean - truth.mean) < 0.5 * truth.sd).all()
    np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.2)


def test_a_diverging_run_is_reported(problem):
    class Runaway(pdevae.Penalty):
        def __call__(self, mu, z, seed):
            return -1e6 * tf.reduce_sum(mu(tf.constant(problem.sensors), z) ** 2) ** 40

    method = CVI(lambda *_: Runaway(), pdevae.Constant(0.01), steps=500)
    with pytest.raises(Diverged, match="CVI diverged between steps 0 and 250"):
        method(problem)
