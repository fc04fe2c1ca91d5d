"""Distributions that the encoder's network gives, as maps of standard normal numbers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from pdevae._tensorflow import tf
from pdevae.streams import Stream, random


class Head(Protocol):
    """A distribution of v = C⁻¹(z − mode), as a map of standard normal numbers, for features [B, F]."""

    @property
    def trainable_variables(self) -> list[tf.Variable]: ...

    def forth(self, xi: tf.Tensor, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """v [..., B, d] and log |∂v/∂ξ| [..., B]."""

    def back(self, v: tf.Tensor, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """ξ [..., B, d] and log |∂ξ/∂v| [..., B]."""


class Affine:
    """v = δ + Dξ, D lower triangular: a full Gaussian; at first Laplace's approximation."""

    def __init__(self, d: int, features: int, width: int = 64, seed: int = 0):
        self.d, rng = d, random(Stream.ENCODER, seed, 1)
        sizes = [features, width, width, d + d * (d + 1) // 2]
        scales = [1 / np.sqrt(n) for n in sizes[:2]] + [0.0]
        self.trainable_variables = [
            tf.Variable(part)
            for n, m, scale in zip(sizes, sizes[1:], scales)
            for part in (scale * rng.normal(size=(n, m)), np.zeros(m))
        ]

    def forth(self, xi: tf.Tensor, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        delta, log_scale, D = self._parts(features)
        return delta + tf.linalg.matvec(D, xi), tf.reduce_sum(log_scale, axis=-1)

    def back(self, v: tf.Tensor, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        delta, log_scale, D = self._parts(features)
        xi = tf.linalg.triangular_solve(D, (v - delta)[..., None])[..., 0]
        return xi, -tf.reduce_sum(log_scale, axis=-1)

    def _parts(self, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        w_1, b_1, w_2, b_2, w_3, b_3 = self.trainable_variables
        out = tf.tanh(tf.tanh(features @ w_1 + b_1) @ w_2 + b_2) @ w_3 + b_3
        delta, log_scale, below = tf.split(out, [self.d, self.d, self.d * (self.d - 1) // 2], axis=1)
        corner, D = np.stack(np.tril_indices(self.d, -1), axis=1), tf.linalg.diag(tf.exp(log_scale))
        if len(corner):
            D += tf.transpose(tf.scatter_nd(corner, tf.transpose(below), [self.d, self.d, out.shape[0]]), [2, 0, 1])
        return delta, log_scale, D
