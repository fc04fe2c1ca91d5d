"""Penalties on plain arrays, for other frameworks."""

import frameworks
import numpy as np
import pytest

import pdevae
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.penalties import NAMES, named

MESH = pdevae.star(nodes=300)
EQUATION = pdevae.Diffusion(0.5) + pdevae.Transport() - pdevae.Source(1.0)
Z = np.array([[0.3, -0.2], [1.0, 0.5]])


def field(x):
    """μ(x, z) for both z; [2, n]."""
    return np.stack([np.sin(3 * x[:, 0]) + x[:, 1], x[:, 0] * x[:, 1]])


@pytest.mark.parametrize("name", NAMES)
def test_values_at_the_places_asked_for_give_the_penalty_and_its_gradient(name):
    penalty = named(name, MESH, EQUATION, boundary=0.2)
    mu = lambda x, z: tf.stack([tf.sin(3 * x[:, 0]) + x[:, 1], x[:, 0] * x[:, 1]])  # noqa: E731
    for seed in ((0, 1), (0, 2)):
        x = penalty.places(seed, Z)
        u = field(x)
        value, slope = penalty.value_and_gradient(u, Z, seed)
        np.testing.assert_allclose(value, penalty(mu, tf.constant(Z), seed), rtol=1e-9)
        along = np.random.default_rng(0).normal(size=u.shape)
        up, down = (penalty.value_and_gradient(u + sign * 1e-4 * along, Z, seed)[0] for sign in (1, -1))
        np.testing.assert_allclose((up - down) / 2e-4, np.sum(along * slope), rtol=1e-5)


def test_a_step_compiles_once():
    penalty = named("multilevel", MESH, EQUATION, boundary=0.0)
    for k in range(5):
        x = penalty.places((0, k), Z)
        penalty.value_and_gradient(field(x), Z, (0, k))
    assert penalty._on_arrays._slope.experimental_get_tracing_count() == 1


def test_refusals():
    penalty = named("exact", MESH, pdevae.Diffusion(1.0) - pdevae.Source(1.0), boundary=0.0)
    with pytest.raises(UserError, match="one for each of penalty.places"):
        penalty.value_and_gradient(np.zeros((1, MESH.n_nodes + 1)))
    with pytest.raises(UserError, match="use a penalty on a mesh"):
        pdevae.PointwisePenalty(MESH, pdevae.Diffusion(1.0)).places((0, 1))


@pytest.mark.parametrize("name", ["torch", "jax"])
def test_other_frameworks_train_as_tensorflow_does(name):
    pytest.importorskip(name)
    penalty = frameworks.problem()
    start = frameworks.weights()
    ours = frameworks.by_tensorflow(penalty, start, 20)
    np.testing.assert_allclose(frameworks.TRAINERS[name](penalty, start, 20), ours, rtol=1e-6)
