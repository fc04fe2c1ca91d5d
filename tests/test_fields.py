"""Unknown fields: the 64-parameter benchmark as specified, flows beyond Gaussians, a groundwater field."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import pdevae
from machinery.settings import project_root
from pdevae._tensorflow import tf
from study.fields import benchmark, groundwater

PUBLISHED = next((p for p in (project_root().parent / "shared" / "benchmark",) if p.exists()), Path("none"))
compares = pytest.mark.skipif(
    not PUBLISHED.exists(), reason="the benchmark's published numbers are not beside the project"
)


@compares
def test_the_published_outputs_of_ten_coefficients_are_met():
    table = pd.read_csv(PUBLISHED / "forward_tests.csv").pivot_table(
        index="test", columns=["quantity", "index"], values="value"
    )
    theta, outputs = table["theta"].to_numpy(), table["reading"].to_numpy()
    y = pd.read_csv(PUBLISHED / "readings.csv").reading.to_numpy()
    problem, z = benchmark.problem(y), tf.constant(benchmark.whitened(theta))
    np.testing.assert_allclose(problem.predict(z), outputs, atol=1e-8)
    np.testing.assert_allclose(problem.log_likelihood(z), table["log_likelihood"].to_numpy().ravel(), rtol=1e-8)
    prior = -0.5 * tf.reduce_sum(z**2, axis=1) - tf.reduce_sum(tf.math.log(theta), axis=1)  # of θ: less the Jacobian
    given = table["log_prior"].to_numpy().ravel()
    np.testing.assert_allclose(prior - prior[0], given - given[0], rtol=1e-9)


@compares
def test_readings_are_the_published_ones_up_to_the_mesh():
    y = pd.read_csv(PUBLISHED / "readings.csv").reading.to_numpy()
    assert np.abs(benchmark.readings(32) - y).max() < 1e-3 > np.abs(benchmark.readings(64) - y).max() * 10


def test_readings_converge_and_are_symmetric_where_the_coefficients_are():
    y = benchmark.readings(16).reshape(13, 13)
    np.testing.assert_allclose(y, y.T, atol=1e-12)
    assert y.min() > 0


@pytest.fixture(scope="module")
def bent():
    """One reading of a field that two coefficients explain: the posterior is a curved ridge."""
    halves = pdevae.Cells(2, lambda x: tf.cast(x[:, 0] > 0, tf.int32))
    equation = pdevae.Diffusion(lambda x, z: tf.exp(z.log_a(x))) - pdevae.Source(1.0)
    at = np.array([[-0.05, 0.0], [0.05, 0.0]])
    blank = pdevae.Forward(pdevae.disc(nodes=60), equation, pdevae.Latents(log_a=halves), 0.0)
    y = blank.reader(at) @ blank.solve(tf.constant([[0.5, -0.5]], tf.float64)).numpy()[0]
    return pdevae.InverseProblem.on(blank, at, y, 0.03)


@pytest.fixture(scope="module")
def right(bent):
    return pdevae.exact(bent)


@pytest.fixture(scope="module")
def best(bent):
    """The Gaussian that the flow starts from."""
    return pdevae.GaussianVI(steps=300)(bent)


@pytest.fixture(scope="module")
def flow(bent, best):
    return pdevae.FlowVI(lambda *_: best, layers=2, width=16, steps=500, learning_rate=0.01)(bent)


@pytest.mark.slow
def test_a_flow_comes_nearer_than_the_best_gaussian(flow, best, right):
    assert flow.check().ess > best.check().ess + 0.05
    assert np.all(np.abs(flow.mean - right.mean) < 0.12 * right.sd)
    np.testing.assert_allclose(flow.sd / right.sd, 1, atol=0.12)
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-5, 5, 201)]), axis=-1).reshape(-1, 2)
    assert np.exp(flow.log_q(grid)).sum() * 0.05**2 == pytest.approx(1, abs=0.02)
    xi = np.random.default_rng(0).normal(size=(5, 2))
    z, log_det = flow.from_normal(tf.constant(xi))
    np.testing.assert_allclose(flow.log_q(z.numpy()), -0.5 * np.sum(xi**2, axis=1) - np.log(2 * np.pi) - log_det)


@pytest.mark.slow
def test_chains_around_a_flow_sample_the_same_posterior(bent, flow, right):
    found = pdevae.HMC(ess=600.0, around=lambda _: flow, leapfrogs=3, warm_up=100, r_hat=1.05)(bent)
    assert np.all(np.abs(found.mean - right.mean) < 0.15 * right.sd)
    np.testing.assert_allclose(found.sd / right.sd, 1, atol=0.12)


def test_groundwater_wells_tell_of_the_field_between_river_and_edges_without_flow():
    truth = groundwater.Truth.drawn(0, nodes=1500, modes=40, wells=30, noise=0.01)
    problem = truth.on(500, 25)
    assert problem.mesh.is_boundary.sum() < problem.mesh.on_edge.sum() / 2
    found = pdevae.Laplace()(problem)
    x = problem.mesh.points
    g, right = found.g(x), truth.g(x)
    assert np.mean((right > g.low) & (right < g.high)) > 0.7
    assert np.mean((g.mean - right) ** 2) < 0.6 * np.mean(right**2)
    river = groundwater.along(groundwater.RIVER, x)
    u = found.predict(x[river]).mean
    np.testing.assert_allclose(u, groundwater.river_head(x[river]), atol=1e-9)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: groundwater.forward(300, 400), "cannot have 400 modes"),
        (lambda: groundwater.forward(300, 20, 40.0), "smaller sd"),
        (lambda: groundwater.region(300).no_flow(lambda x: x[:, 0] > -9), "leave some node out"),
    ],
    ids=["more modes than nodes", "overflow", "nothing held"],
)
def test_senseless_fields_are_refused_in_words(make, says):
    with pytest.raises(pdevae.UserError, match=says):
        make()


def test_a_well_on_the_edge_is_read_there():
    forward = groundwater.forward(300, 10)
    corner = np.array(groundwater.OUTLINE[4])[None]
    on_river = np.array([(0.6, -0.05)])
    u = forward.solve(tf.zeros([1, 10], tf.float64)).numpy()[0]
    assert (forward.reader(on_river) @ u)[0] == pytest.approx(groundwater.river_head(on_river)[0])
    assert (forward.reader(corner) @ u)[0] > groundwater.river_head(corner)[0]  # rain has raised it
