"""q = N(m, CCᵀ), whatever C is: full, diagonal, or diagonal plus low rank; any leading axes."""

from __future__ import annotations

from typing import Literal

import numpy as np

from .._tensorflow import tf
from ..errors import UserError

Family = Literal["full", "diagonal", "low-rank"]


class Gaussian(tf.Module):
    """A trainable Gaussian on ℝᵈ that starts as N(0, scale²I).

    >>> q = Gaussian(3, "full", scale=0.5)
    >>> q.draw(tf.ones([2, *q.noise_shape], tf.float64)).shape.as_list(), q.covariance().numpy().diagonal().tolist()
    ([2, 3], [0.25, 0.25, 0.25])
    >>> round(float(Gaussian(3).kl()), 12)  # from N(0, I)
    0.0
    """

    def __init__(self, size: int, family: Family = "full", rank: int = 10, scale: float = 1.0, dtype=tf.float64):
        super().__init__()
        if family not in ("full", "diagonal", "low-rank"):
            raise UserError(f"unknown family {family!r}: use full, diagonal or low-rank")
        self.size, self.family, self.rank = size, family, min(rank, size)
        self.mean = tf.Variable(tf.zeros([size], dtype))
        self.log_scale = tf.Variable(tf.fill([size], tf.constant(np.log(scale), dtype)))
        shape = {"full": [size, size], "low-rank": [size, self.rank]}.get(family)
        start = None if shape is None else 0.01 * np.random.default_rng(0).normal(size=shape) * (family == "low-rank")
        self.more = None if start is None else tf.Variable(tf.constant(start, dtype))

    @property
    def noise_shape(self) -> tuple[int]:
        return (self.size + (self.rank if self.family == "low-rank" else 0),)

    def factor(self) -> tf.Tensor:
        """C [d, d] or, for low rank, [d, d + rank]."""
        diagonal = tf.linalg.diag(tf.exp(self.log_scale))
        if self.family == "diagonal":
            return diagonal
        if self.family == "full":
            return diagonal + tf.linalg.band_part(self.more, -1, 0) - tf.linalg.diag(tf.linalg.diag_part(self.more))
        return tf.concat([diagonal, self.more], axis=1)

    def draw(self, normal: tf.Tensor) -> tf.Tensor:
        """m + Cξ for standard normal ξ [M, *noise_shape]."""
        return self.mean + tf.matmul(normal, self.factor(), transpose_b=True)

    def covariance(self) -> tf.Tensor:
        C = self.factor()
        return tf.matmul(C, C, transpose_b=True)

    def log_determinant(self) -> tf.Tensor:
        """log |CCᵀ|; for low rank by the lemma, in rank³."""
        plain = 2 * tf.reduce_sum(self.log_scale)
        if self.family != "low-rank":
            return plain
        U = self.more * tf.exp(-self.log_scale)[:, None]
        return plain + tf.linalg.logdet(tf.eye(self.rank, dtype=U.dtype) + tf.matmul(U, U, transpose_a=True))

    def kl(self) -> tf.Tensor:
        """KL(q ‖ N(0, I))."""
        trace = tf.reduce_sum(self.factor() ** 2)
        return 0.5 * (trace + tf.reduce_sum(self.mean**2) - self.size - self.log_determinant())


def antithetic(samples: int, shape: tuple[int, ...], seed, dtype=tf.float64) -> tf.Tensor:
    """Standard normal draws [samples, *shape] in pairs ±: an odd error cancels."""
    half = tf.random.stateless_normal([(samples + 1) // 2, *shape], seed, dtype=dtype)
    return tf.concat([half, -half], axis=0)[:samples]
