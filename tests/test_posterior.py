"""The exact posterior: quadrature against closed forms, and the affine model against the general solver."""

import numpy as np
import pytest

import pdevae
from pdevae._tensorflow import tf
from pdevae.experiments import forward
from pdevae.posterior import TransportModel, quadrature


def test_quadrature_of_a_gaussian_is_exact():
    mean, covariance = np.array([3.0, -1.0]), np.array([[0.5, 0.3], [0.3, 0.4]])
    precision = np.linalg.inv(covariance)
    found = quadrature(lambda tau: -0.5 * (tau - mean) @ precision @ (tau - mean))
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-5)


def test_quadrature_of_a_skew_density():
    """Independent Gumbel coordinates: mean γ, variance π²/6, skewness 1.14."""
    found = quadrature(lambda tau: float(np.sum(-tau - np.exp(-tau))), tol=1e-3, width=7.0)
    np.testing.assert_allclose(found.mean, np.euler_gamma, atol=2e-3)
    np.testing.assert_allclose(np.diag(found.covariance), np.pi**2 / 6, rtol=5e-3)


def test_quadrature_refuses_what_its_grid_cannot_hold():
    with pytest.raises(pdevae.UserError, match="too far from Gaussian"):
        quadrature(lambda tau: float(-2 * np.log1p(tau @ tau)))  # tails so heavy that no variance exists


def test_the_affine_model_is_the_general_solver():
    mesh = pdevae.star(nodes=300)
    source = lambda x, z=None: 1 + x[..., 0]  # noqa: E731
    sensors = np.array([[0.1, 0.2], [-0.3, 0.1]])
    model = TransportModel.on(mesh, 0.3, source, sensors)
    tau = np.array([0.7, -1.2])
    equation = pdevae.Diffusion(0.3) + pdevae.Transport() - pdevae.Source(source)
    u = pdevae.Solver(pdevae.WeakForm(mesh, equation)).sparse(tf.constant(tau[None]))[0].numpy()
    np.testing.assert_allclose(model.field(tau), u[mesh.interior], atol=1e-12)
    from pdevae.hierarchy import interpolation

    np.testing.assert_allclose(model.read @ model.field(tau), interpolation(mesh, sensors) @ u, atol=1e-12)


def test_the_posterior_covers_the_truth_as_often_as_it_should():
    """Eight problems: the mean squared distance, in posterior sd, is χ²₂/2 with mean 1 (sd 0.35 over eight)."""
    config = dict(nodes=150, data_nodes=1200, a=0.3, sensors=30, noise=0.3, source_length=0.4, source_sd=0.5)
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
