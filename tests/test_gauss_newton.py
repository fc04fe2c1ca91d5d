"""Second-order training behind the same ``fit``."""

import numpy as np
import pytest
import tensorflow as tf

import pdevae
from pdevae import GaussNewton, fit
from pdevae.penalties import named


def linear(rows=40, weights=5, seed=0):
    rng = np.random.default_rng(seed)
    A, b = rng.normal(size=(rows, weights)), rng.normal(size=rows)
    return A, b, tf.Variable(np.zeros(weights))


@pytest.mark.parametrize("sketch", [40, 200])
def test_one_step_solves_a_linear_least_squares_problem(sketch):
    A, b, w = linear()
    method = GaussNewton(1, blocks=1, sketch=sketch, damping=1e-10, memory=0.0, longest=1e9)
    fit(lambda number: tf.linalg.matvec(A, w) - b, [w], 1, optimiser=method)
    np.testing.assert_allclose(w, np.linalg.lstsq(A, b, rcond=None)[0], rtol=1e-3)


def test_blocks_and_sketches_estimate_the_whole_sum():
    A, b, w = linear(400)
    method = GaussNewton(10, blocks=8, sketch=64)
    method.build([w])
    rows = lambda number: tf.linalg.matvec(A, w) - b  # noqa: E731
    size = tf.function(lambda k: tf.reduce_sum(method._sketched(rows, [w], k)[0] ** 2))
    said = [float(size(tf.constant(k))) for k in range(20)]
    assert np.mean(said) == pytest.approx(b @ b, rel=0.05)


def test_a_sketched_step_falls_to_the_minimum_of_a_linear_problem():
    A, b, w = linear(400)
    b = A @ np.arange(5.0)  # no residual is left
    fit(lambda number: tf.linalg.matvec(A, w) - b, [w], 200, optimiser=GaussNewton(200, blocks=1, sketch=8))
    np.testing.assert_allclose(w, np.arange(5.0), atol=1e-3)


@pytest.mark.parametrize("penalty", ["exact", pytest.param("two-level", marks=pytest.mark.slow)])
def test_fewer_steps_than_adam_for_any_keras_network(penalty):
    mesh = pdevae.disc(nodes=100)
    equation = pdevae.Diffusion(lambda x, z: 1 + 0.5 * x[:, 0]) - pdevae.Source(1.0)
    made = named(penalty, mesh, equation, boundary=0.0)  # in double precision; the networks are not
    right = pdevae.Solver(pdevae.WeakForm(mesh, equation, boundary=0.0)).solve()[0].numpy()
    off = {}
    for name in ("Adam", "Gauss–Newton"):
        tf.keras.utils.set_random_seed(0)
        hidden = [tf.keras.layers.Dense(16, "tanh") for _ in range(2)]
        model = tf.keras.Sequential([tf.keras.Input([2]), *hidden, tf.keras.layers.Dense(1)])
        mu = pdevae.keras_field(model)
        if name == "Adam":
            fit(lambda step, mu=mu: made(mu, None, (0, step)), model.trainable_variables, 60)
        else:
            rows = lambda step, mu=mu: made.pair(mu, None, (0, step))[0][0]  # noqa: E731
            fit(rows, model.trainable_variables, 60, optimiser=GaussNewton(60, blocks=2, sketch=64))
        off[name] = np.linalg.norm(made.weak.values(mu, None)[0] - right) / np.linalg.norm(right)
    assert off["Gauss–Newton"] < 0.2 * off["Adam"] and off["Gauss–Newton"] < 0.02


def test_a_killed_run_goes_on_where_it_was(tmp_path):
    A, b, _ = linear(60)
    found = []
    for checkpoint in (None, tmp_path / "state.npz"):
        w = tf.Variable(np.zeros(5))
        for steps in (10, 30) if checkpoint else (30,):
            method = GaussNewton(30, blocks=2, sketch=8)
            rows = lambda number, w=w: tf.linalg.matvec(A, tf.tanh(w)) - b  # noqa: E731
            fit(rows, [w], steps, optimiser=method, checkpoint=checkpoint)
            if checkpoint and steps == 10:
                w.assign(np.ones(5))  # what is in memory is gone
        found.append(w.numpy())
    np.testing.assert_allclose(*found, rtol=1e-10)


def test_refusals():
    w = tf.Variable(np.zeros(3))
    with pytest.raises(pdevae.UserError, match=r"residuals \[R\]"):
        fit(lambda number: tf.reduce_sum(w**2), [w], 3, optimiser=GaussNewton(3))
    with pytest.raises(pdevae.UserError, match="too many for Gauss–Newton"):
        GaussNewton(3).build([tf.Variable(np.zeros([400, 400]))])
    with pytest.raises(pdevae.UserError, match="damping > 0"):
        GaussNewton(3, damping=0.0)
