"""Second-order training of a sum of squares, from the Jacobian of some of its rows in the weights.

A step minimises |r + Jφ|² + λ|φ − βφ'|² over φ, with φ' the step before: φ = βφ' − Jᵀ(JJᵀ + λI)⁻¹(r + βJφ'), a solve
as large as the number of rows however many weights there are (SPRING; Goldshlager, Abrahamsen & Lin, 2024).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.streams import Stream

_MOST_WEIGHTS = 50_000


class GaussNewton:
    """For ``fit`` instead of Adam: the loss then gives rows [R] whose squares are to be summed, not a number.

    A step evaluates the rows of ``blocks`` consecutive numbers, from ``blocks`` · step on, and reduces each to
    ``sketch`` random combinations. ``damping`` is λ as a share of the mean of JJᵀ's diagonal. Steps shrink along a
    cosine to nothing over ``steps``, and are never longer than ``longest``.

    >>> import pdevae
    >>> x, w = np.linspace(-1, 1, 50, dtype=np.float32), tf.Variable([0.1, 0.1, 0.1])
    >>> rows = lambda number: w[0] + w[1] * tf.exp(w[2] * x) - (1 + np.exp(2 * x))
    >>> _ = pdevae.fit(rows, [w], 200, optimiser=GaussNewton(200, blocks=1))
    >>> w.numpy().round(2).tolist()
    [1.0, 1.0, 2.0]
    """

    def __init__(
        self,
        steps: int,
        blocks: int = 32,
        sketch: int = 16,
        damping: float = 1e-2,
        memory: float = 0.95,
        longest: float = 1.0,
    ):
        if min(steps, blocks, sketch) < 1 or not damping > 0 or not 0 <= memory < 1:
            raise UserError("GaussNewton needs steps, blocks and sketch of at least 1, damping > 0, 0 ≤ memory < 1")
        self.steps, self.blocks, self.sketch = steps, blocks, sketch
        self.damping, self.memory, self.longest = damping, memory, longest
        self.variables: list[tf.Variable] = []

    def build(self, variables: Sequence[tf.Variable]) -> None:
        size = sum(int(np.prod(v.shape)) for v in variables)
        if size > _MOST_WEIGHTS:
            raise UserError(f"{size} weights are too many for Gauss–Newton: use Adam, or a smaller network")
        self.variables = [tf.Variable(tf.zeros([size], variables[0].dtype))]  # the step before

    def descend(self, rows: Callable, variables: Sequence[tf.Variable], number: tf.Tensor) -> tf.Tensor:
        """One step; |r|² before it, the mean over the blocks."""
        r, J = self._sketched(rows, variables, number)
        before = self.memory * self.variables[0]
        JJ = tf.matmul(J, J, transpose_b=True)
        damped = JJ + self.damping * tf.linalg.trace(JJ) / r.shape[0] * tf.eye(r.shape[0], dtype=JJ.dtype)
        y = tf.linalg.cholesky_solve(tf.linalg.cholesky(damped), (r + tf.linalg.matvec(J, before))[:, None])
        step = before - tf.linalg.matvec(J, y[:, 0], transpose_a=True)
        step *= tf.minimum(tf.cast(self.longest, step.dtype) / tf.norm(step), 1.0)
        self.variables[0].assign(step)
        rate = 0.5 * (1 + tf.cos(np.pi * tf.cast(number, step.dtype) / self.steps))
        sizes = [int(np.prod(v.shape)) for v in variables]
        for variable, part in zip(variables, tf.split(rate * step, sizes)):
            variable.assign_add(tf.reshape(part, variable.shape))
        return tf.reduce_sum(r**2)

    def _sketched(self, rows, variables, number) -> tuple[tf.Tensor, tf.Tensor]:
        """Combinations of rows, with E|Sr|² the mean of |r|² over the blocks, and their Jacobian [R, weights]."""
        kind = variables[0].dtype

        def block(k):
            with tf.GradientTape() as tape:
                r = tf.cast(rows(k), kind)
                if r.shape.rank != 1:
                    raise UserError(
                        f"Gauss–Newton needs the residuals [R] whose squares sum to the loss, not {r.shape}: return "
                        "them unsummed"
                    )
                if r.shape[0] is None or r.shape[0] > self.sketch:
                    shape = [self.sketch, tf.size(r)]
                    S = tf.random.stateless_normal(shape, tf.stack([k, int(Stream.SKETCH)]), dtype=r.dtype)
                    r = tf.linalg.matvec(S, r) / np.sqrt(self.sketch)
            parts = tape.jacobian(r, list(variables), unconnected_gradients="zero")
            J = tf.concat([tf.reshape(part, [r.shape[0], -1]) for part in parts], axis=1)
            return r, J

        r, J = tf.map_fn(block, self.blocks * number + tf.range(self.blocks), fn_output_signature=(kind, kind))
        scale = 1 / np.sqrt(self.blocks)
        return scale * tf.reshape(r, [-1]), scale * tf.reshape(J, [-1, J.shape[2]])
