"""The training loop: compiled, watched, resumable."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError
from pdevae.inference.gauss_newton import GaussNewton

_AT_A_TIME = 250  # steps between looks
_SAVE_EVERY = 20.0  # seconds


class Diverged(UserError):
    """Loss or parameters became non-finite: a result about the method, not one to be kept."""


def fit(
    loss: Callable[[tf.Tensor], tf.Tensor],
    variables: Sequence[tf.Variable],
    steps: int,
    learning_rate: float = 5e-3,
    optimiser: Any = None,
    watch: Callable[[int, float], None] | None = None,
    looks: Sequence[int] = (),
    **options: Any,
) -> np.ndarray:
    """Descend ``loss``, a function of the step's number, and return its mean over every few hundred steps.

    By default Adam, its rate falling along a cosine to a hundredth; or any optimiser with ``apply_gradients``; or
    :class:`~pdevae.GaussNewton`, for which ``loss`` gives rows instead of the sum of their squares.
    ``watch(step, loss)`` is called after each block and at the ``looks``: raise StopIteration there to end early.
    For the other options see :class:`Descent`.

    >>> x = tf.Variable(3.0)
    >>> bool(fit(lambda step: (x - 1) ** 2, [x], 500, 0.1)[-1] < 0.5), round(float(x), 2)
    (True, 1.0)
    """
    descent = Descent(loss, variables, optimiser or falling_adam(learning_rate, steps), **options)
    return descent.run(steps, watch, looks)


def falling_adam(learning_rate: float, steps: int, least: float = 0.01, **options: float):
    """Keras' Adam, its rate falling along a cosine to a share of the first."""
    rate = tf.keras.optimizers.schedules.CosineDecay(learning_rate, steps, alpha=least)
    return tf.keras.optimizers.Adam(rate, **options)


class Descent:
    """A loss, the variables it moves and an optimiser: compiled once, run in pieces, begun again or resumed.

    ``compiled`` by XLA (a loss that calls the host cannot be). With a ``checkpoint``, a file, the state is kept there
    every now and then, and a run that finds the file goes on from it. Without ``progress`` no bar is shown.
    """

    def __init__(
        self,
        loss: Callable[[tf.Tensor], tf.Tensor],
        variables: Sequence[tf.Variable],
        optimiser: Any,
        compiled: bool = False,
        what: str = "training",
        checkpoint: str | Path | None = None,
        progress: bool = True,
    ):
        self.loss, self.variables, self.optimiser, self.what = loss, list(variables), optimiser, what
        if not self.variables:
            raise UserError("there is nothing to fit: give at least one tf.Variable")
        optimiser.build(self.variables)
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.progress = progress
        self.step, self.history = 0, np.empty(0)
        self._block = graph(self._loop, jit_compile=compiled)
        self._start = [np.array(value) for value in self._state()]

    def compile(self) -> None:
        """Now, not with the first step."""
        self._block(tf.constant(0), tf.constant(0))

    def begin_again(self, values: Sequence[np.ndarray]) -> None:
        """From other values of the variables; what is compiled stays."""
        self._assign([*values, *self._start[len(self.variables) :]])
        self.step, self.history = 0, np.empty(0)

    def run(self, steps: int, watch=None, looks: Sequence[int] = ()) -> np.ndarray:
        """To this many steps in all; the mean loss of each block."""
        self._resume()
        every = max(_AT_A_TIME // getattr(self.optimiser, "blocks", 1), 1)
        stops = sorted({*range(every, steps, every), *looks, steps})
        saved = time.monotonic()
        shown = {"desc": self.what, "delay": 3, "leave": False} | ({} if self.progress else {"disable": True})
        with tqdm(total=steps, initial=self.step, **shown) as bar:
            for stop in [stop for stop in stops if self.step < stop <= steps]:
                self.history = np.append(self.history, float(self._block(tf.constant(self.step), tf.constant(stop))))
                self._refuse_divergence(stop)
                bar.update(stop - self.step)
                self.step = stop
                if self.checkpoint and (stop == steps or time.monotonic() - saved > _SAVE_EVERY):
                    self._save()
                    saved = time.monotonic()
                try:
                    if watch is not None:
                        watch(stop, self.history[-1])
                except StopIteration:
                    break
        return self.history

    def _loop(self, first, last):
        start = (first, tf.constant(0.0, tf.float64))
        return tf.while_loop(lambda number, _: number < last, self._once, start)[1] / tf.cast(last - first, tf.float64)

    def _once(self, number, total):
        if isinstance(self.optimiser, GaussNewton):
            value = self.optimiser.descend(self.loss, self.variables, number)
            return number + 1, total + tf.cast(value, tf.float64)
        with tf.GradientTape() as tape:
            value = self.loss(number)
        gradient = tape.gradient(value, self.variables, unconnected_gradients="zero")
        self.optimiser.apply_gradients(zip(gradient, self.variables))
        return number + 1, total + tf.cast(value, tf.float64)

    def _refuse_divergence(self, stop: int) -> None:
        if np.isfinite(self.history[-1]) and all(np.isfinite(v.numpy()).all() for v in self.variables):
            return
        raise Diverged(
            f"{self.what} diverged between steps {self.step} and {stop}: use a smaller learning_rate, or a larger ε"
        )

    def _state(self) -> list:
        return [*self.variables, *self.optimiser.variables]

    def _assign(self, values: Sequence[np.ndarray]) -> None:
        for variable, value in zip(self._state(), values):
            variable.assign(value)

    def _save(self) -> None:
        assert self.checkpoint is not None
        temporary = self.checkpoint.with_name(self.checkpoint.name + ".new.npz")
        state = {f"v{k}": np.array(value) for k, value in enumerate(self._state())}
        np.savez(temporary, step=self.step, history=self.history, **state)
        os.replace(temporary, self.checkpoint)

    def _resume(self) -> None:
        if self.checkpoint is None or not self.checkpoint.exists() or self.step:
            return
        try:
            with np.load(self.checkpoint) as kept:
                values = [kept[f"v{k}"] for k in range(len(self._state()))]
                step, history = int(kept["step"]), kept["history"]
            if [value.shape for value in values] != [tuple(v.shape) for v in self._state()]:
                raise ValueError("it has other variables")
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{self.checkpoint} is not a checkpoint of this fit ({error}): remove it, or name another"
            ) from None
        self._assign(values)
        self.step, self.history = step, history
