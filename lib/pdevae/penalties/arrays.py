"""A penalty for networks of other frameworks: values of the field in, the penalty and its gradient in them out."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError


class OnArrays:
    """Calls ``penalty`` with a field that is known by its values at the places the penalty asks for, in their order."""

    def __init__(self, penalty: Any):
        if not hasattr(penalty, "weak"):
            raise UserError(f"{type(penalty).__name__} differentiates the network in x: use a penalty on a mesh")
        self.penalty = penalty
        compiled = graph if penalty.compiles else lambda function: function  # a solve on the host is no part of a graph
        self._asked, self._slope = compiled(self._trace_places), compiled(self._trace_slope)

    def places(self, z: Any, seed: Any) -> np.ndarray:
        return self._asked(self._latent(z), tf.constant(seed)).numpy()

    def value_and_gradient(self, u: np.ndarray, z: Any, seed: Any) -> tuple[float, np.ndarray]:
        value, slope = self._slope(tf.constant(u, self.penalty.weak.dtype), self._latent(z), tf.constant(seed))
        return float(value), slope.numpy()

    def _latent(self, z: Any) -> tf.Tensor | None:
        return None if z is None else tf.constant(z, self.penalty.weak.dtype)

    def _trace_places(self, z, seed):
        asked, M = [], 1 if z is None else z.shape[0]

        def mu(x, z):
            asked.append(x)
            return tf.zeros([M, x.shape[0]], x.dtype)

        self.penalty(mu, z, seed)
        return tf.concat(asked, axis=0)

    def _trace_slope(self, u, z, seed):
        used = 0

        def mu(x, z):
            nonlocal used
            used += x.shape[0]
            return u[:, used - x.shape[0] : used]

        with tf.GradientTape() as tape:
            tape.watch(u)
            value = self.penalty(mu, z, seed)
        if used != u.shape[1]:
            raise UserError(
                f"u has {u.shape[1]} values a sample, for {used} places: give one for each of penalty.places"
            )
        return value, tape.gradient(value, u)
