"""The training loop: compiled, watched, resumable."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tqdm.auto import tqdm

from .._tensorflow import graph, tf
from ..errors import UserError

_AT_A_TIME = 250  # steps between looks


class Diverged(UserError):
    """Loss or parameters became non-finite: a result about the method, not one to be kept."""


def fit(
    loss: Callable[[tf.Tensor], tf.Tensor],
    variables: Sequence[tf.Variable],
    steps: int,
    learning_rate: float = 5e-3,
    optimiser=None,
    compiled: bool = False,
    what: str = "training",
    watch: Callable[[int, float], None] | None = None,
) -> np.ndarray:
    """Descend ``loss``, a function of the step's number, and return its mean over every few hundred steps.

    By default Adam, its rate falling along a cosine to a hundredth. ``watch(step, loss)`` is called after each block:
    raise StopIteration there to end early. Called again with an optimiser of one's own, it goes on where it stopped.

    >>> x = tf.Variable(3.0)
    >>> bool(fit(lambda step: (x - 1) ** 2, [x], 500, 0.1)[-1] < 0.5), round(float(x), 2)
    (True, 1.0)
    """
    variables = list(variables)
    if not variables:
        raise UserError("there is nothing to fit: give at least one tf.Variable")
    if optimiser is None:
        optimiser = tf.keras.optimizers.Adam(
            tf.keras.optimizers.schedules.CosineDecay(learning_rate, steps, alpha=0.01)
        )
    optimiser.build(variables)

    def once(number, total):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = loss(number)
        gradient = tape.gradient(value, variables, unconnected_gradients="zero")
        optimiser.apply_gradients(zip(gradient, variables))
        return number + 1, total + tf.cast(value, tf.float64)

    @graph(jit_compile=compiled)
    def block(first, last):
        start = (first, tf.constant(0.0, tf.float64))
        return tf.while_loop(lambda number, _: number < last, once, start)[1] / tf.cast(last - first, tf.float64)

    history = []
    for first in tqdm(range(0, steps, _AT_A_TIME), what, delay=3, leave=False):
        last = min(first + _AT_A_TIME, steps)
        history.append(float(block(tf.constant(first), tf.constant(last))))
        if not np.isfinite(history[-1]) or not all(np.isfinite(v.numpy()).all() for v in variables):
            raise Diverged(f"{what} diverged between steps {first} and {last}: use a smaller rate, or a larger ε")
        if watch is not None:
            try:
                watch(last, history[-1])
            except StopIteration:
                break
    return np.array(history)
