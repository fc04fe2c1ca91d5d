"""How ε goes from large to small during training. A schedule maps the step (a tensor) to ε."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pdevae._tensorflow import tf
from pdevae.errors import UserError

Schedule = Callable[[int | tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class Constant:
    """The same ε throughout: if small, training sticks in a bad optimum; if large, it biases the posterior.

    >>> float(Constant(0.1)(5))
    0.1
    """

    eps: float

    def __post_init__(self):
        _positive(eps=self.eps)

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        return tf.constant(self.eps, tf.float64)


@dataclass(frozen=True)
class Geometric:
    """From ``start`` to ``end`` in equal ratios over ``steps`` steps, then ``end``.

    >>> [round(float(Geometric(1.0, 0.01, steps=2)(k)), 4) for k in range(4)]
    [1.0, 0.1, 0.01, 0.01]
    """

    start: float
    end: float
    steps: int

    def __post_init__(self):
        _positive(start=self.start, end=self.end, steps=self.steps)

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        t = tf.minimum(tf.cast(step, tf.float64) / self.steps, 1.0)
        return self.start * tf.pow(tf.constant(self.end / self.start, tf.float64), t)


@dataclass(frozen=True)
class Restarts:
    """Geometric annealing over ``period`` steps, again and again (the paper's, for the aquifer).

    >>> [round(float(Restarts(1.0, 0.01, period=3)(k)), 4) for k in range(4)]
    [1.0, 0.1, 0.01, 1.0]
    """

    start: float
    end: float
    period: int

    def __post_init__(self):
        _positive(start=self.start, end=self.end)
        if self.period < 2:
            raise UserError(f"period={self.period} is too short: use at least 2")

    def __call__(self, step: int | tf.Tensor) -> tf.Tensor:
        within = tf.math.floormod(tf.cast(step, tf.int64), self.period)
        return Geometric(self.start, self.end, self.period - 1)(within)


def _positive(**values) -> None:
    for name, value in values.items():
        if not value > 0:
            raise UserError(f"an ε-schedule needs {name} > 0, not {value}")
