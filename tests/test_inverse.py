"""Any inverse problem: the forward map and its gradient, each method against a closed form, a check, bad input."""

import numpy as np
import pytest

import pdevae
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.inverse import (
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
    exact,
)

MESH = pdevae.star(nodes=200)
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


def problem(name: str, noise: float = 0.02, seed: int = 0) -> InverseProblem:
    """Readings of the solution at a z of the prior."""
    equation, latents = PROBLEMS[name]
    blank = InverseProblem(MESH, equation, latents, SENSORS, np.zeros(len(SENSORS)), noise)
    rng = np.random.default_rng([seed, 5])
    clean = blank.predict(tf.constant(0.7 * rng.normal(size=(1, blank.size)))).numpy()[0]
    noise *= np.ptp(clean) / 0.2
    return InverseProblem(MESH, equation, latents, SENSORS, clean + noise * rng.normal(size=len(clean)), noise)


def linear(d: int) -> InverseProblem:
    """−Δu = g with g a Gaussian field: u is linear in z, so the posterior is Gaussian."""
    equation = pdevae.Diffusion(1.0) - pdevae.Source(lambda x, z: 1 + z.f(x))
    latents = Latents(f=GaussianField(sd=3.0, length=0.3, modes=d, points=200))
    rng = np.random.default_rng(d)
    return InverseProblem(MESH, equation, latents, SENSORS, 0.1 + 0.1 * rng.normal(size=len(SENSORS)), 0.03)


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
    r = p.weak.residual(p.solve(z), p.latents.seen(z)).numpy()
    assert np.abs(r).max() < 1e-8 * 50
    q = problem("vector")
    tau = tf.constant([[0.3, -0.8]], tf.float64)
    weak = pdevae.WeakForm(MESH, pdevae.Diffusion(1.0) + pdevae.Transport() - pdevae.Source(1.0), boundary=0.0)
    np.testing.assert_allclose(q.solve(tau), pdevae.solve.Solver(weak).sparse(tau), atol=1e-12)


@pytest.mark.parametrize("d", [2, 20, 200])
def test_laplace_is_exact_where_the_posterior_is_gaussian(d):
    p = linear(d)
    mean, sd = closed_form(p)
    found = Laplace()(p)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.sd, sd, rtol=1e-6)


@pytest.mark.parametrize("method", [HMC(ess=500), NUTS(ess=500), GaussianVI(steps=300)])
def test_each_method_finds_a_gaussian_posterior(method):
    p = linear(20)
    mean, sd = closed_form(p)
    found = method(p, seed=1)
    assert (np.abs(found.mean - mean) < 0.2 * sd).all()  # 20 components, 500 effective draws: four standard errors
    np.testing.assert_allclose(found.sd, sd, rtol=0.15)


def test_low_rank_and_diagonal_families_are_what_they_say():
    q = Gaussian(6, "low-rank", rank=2)
    q.more.assign(np.random.default_rng(0).normal(size=(6, 2)))
    S = q.covariance().numpy()
    np.testing.assert_allclose(q.log_determinant(), np.linalg.slogdet(S)[1], rtol=1e-10)
    np.testing.assert_allclose(2 * q.kl(), np.trace(S) - 6 - np.linalg.slogdet(S)[1], rtol=1e-10)
    assert np.count_nonzero(Gaussian(6, "diagonal").covariance().numpy()) == 6


def test_quadrature_agrees_with_nuts_and_cvi_with_both():
    p = problem("vector", noise=0.01)
    truth = exact(p)
    for method in (NUTS(), CVI(penalty="exact", steps=6000, eps=(0.02, 0.002))):
        found = method(p)
        assert (np.abs(found.mean - truth.mean) < 0.25 * truth.sd).all()
        np.testing.assert_allclose(found.sd / truth.sd, 1, atol=0.25)


def test_a_check_tells_a_good_q_from_a_bad_one_and_corrects_what_can_be_corrected():
    p = problem("vector", noise=0.01)
    truth = exact(p)
    good = Posterior.normal(p, truth.mean + 0.5 * truth.sd, 1.5 * truth.covariance, 0.0, seed=0).check()
    assert good.k < 0.7
    assert not good.advice
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
        ({"noise": np.ones(4)}, "must be positive"),
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
        (lambda: Latents(a=1.0), "no part"),
        (lambda: Latents(whitened=Normal()), "another name"),
        (lambda: Latents(a=Normal(sd=0.0)), "must be positive"),
        (lambda: GaussianField(kernel="cubic"), "unknown kernel"),
        (lambda: GaussianField(length=0.0), "length above 0"),
        (lambda: GaussianField(modes=500), "between 1 and"),
        (lambda: Gaussian(3, "round"), "unknown family"),
        (lambda: exact(linear(20)), "quadrature over 20 unknowns"),
        (lambda: CVI(penalty="fast", steps=1)(problem("vector")), "unknown penalty"),
        (lambda: CVI(decoder=lambda x, z: x, steps=1)(problem("vector")), "trainable_variables"),
    ],
)
def test_a_wrong_part_is_refused_in_one_line(make, words):
    with pytest.raises(UserError, match=words) as error:
        make()
    assert "\n" not in str(error.value)


def test_a_solve_that_does_not_converge_says_so():
    equation = pdevae.Diffusion(1.0) + Cubic() - pdevae.Source(50.0)
    p = InverseProblem(MESH, equation, Latents(k=Normal(mean=-300.0)), SENSORS, np.zeros(len(SENSORS)), 0.1)
    with pytest.raises(Exception, match="did not converge"):
        p.solve(tf.zeros([1, 1], tf.float64))
