"""q = N(m, CCᵀ), whatever C is: full, diagonal, or diagonal plus low rank; any leading axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.stats import norm, qmc

from pdevae._tensorflow import tf
from pdevae.errors import UserError

Family = Literal["full", "diagonal", "low-rank"]
Tensor: TypeAlias = Any  # tf.Tensor or tf.Variable


@dataclass(frozen=True, eq=False)
class Gaussian:
    """m [..., d] and the parts of C: the logarithm of its diagonal, and what is below it, or columns beside it.

    Tensors that a network gives, or variables to train (:meth:`trainable`).

    >>> q = Gaussian.trainable(3, scale=0.5)
    >>> q.draw(tf.ones([2, *q.noise_shape], tf.float64)).shape.as_list(), q.covariance().numpy().diagonal().tolist()
    ([2, 3], [0.25, 0.25, 0.25])
    >>> round(float(Gaussian.trainable(3).kl()), 12)  # from N(0, I)
    0.0
    """

    mean: Tensor  # [..., d]
    log_scale: Tensor  # [..., d]
    below: Tensor | None = None  # [..., d, d], read below the diagonal only
    beside: Tensor | None = None  # [..., d, rank]

    @classmethod
    def trainable(
        cls,
        size: int,
        family: Family = "full",
        rank: int = 10,
        scale: float = 1.0,
        leading: Sequence[int] = (),
        dtype: tf.DType = tf.float64,
    ) -> Gaussian:
        """Variables that start as N(0, scale²I)."""
        if family not in ("full", "diagonal", "low-rank"):
            raise UserError(f"unknown family {family!r}: use full, diagonal or low-rank")
        shape = [*leading, size]
        parts = {"mean": np.zeros(shape), "log_scale": np.full(shape, np.log(scale))}
        if family == "full":
            parts["below"] = np.zeros([*shape, size])
        if family == "low-rank":
            parts["beside"] = 0.01 * np.random.default_rng(0).normal(size=[*shape, min(rank, size)])
        return cls(**{name: tf.Variable(value, dtype=dtype, name=name) for name, value in parts.items()})

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        parts = (self.mean, self.log_scale, self.below, self.beside)
        return [part for part in parts if isinstance(part, tf.Variable)]

    @property
    def noise_shape(self) -> list[int]:
        """Of what :meth:`draw` takes, but for its own leading axes."""
        *leading, d = self.mean.shape
        return [*leading, d + (0 if self.beside is None else self.beside.shape[-1])]

    def factor(self) -> tf.Tensor:
        """C [..., d, d] or, with columns beside, [..., d, d + rank]."""
        scale = tf.exp(self.log_scale)
        C = tf.linalg.diag(scale)
        if self.below is not None:
            C = tf.linalg.set_diag(tf.linalg.band_part(tf.convert_to_tensor(self.below), -1, 0), scale)
        return C if self.beside is None else tf.concat([C, self.beside], axis=-1)

    def draw(self, normal: tf.Tensor) -> tf.Tensor:
        """m + Cξ for standard normal ξ [..., *noise_shape]; axes before those are draws."""
        return self.mean + tf.linalg.matvec(self.factor(), normal)

    def moved(self, mean: Tensor, C: Tensor) -> Gaussian:
        """Of mean + Cz for z of this one; C [d, d] lower triangular."""
        if self.beside is not None:
            raise UserError(
                'a low-rank family cannot go with around=…: use family="full" or "diagonal", or leave around out'
            )
        below, log_scale = tf.matmul(C, self.factor()), self.log_scale + tf.math.log(tf.linalg.diag_part(C))
        return Gaussian(mean + tf.linalg.matvec(C, self.mean), log_scale, below)

    def covariance(self) -> tf.Tensor:
        C = self.factor()
        return tf.matmul(C, C, transpose_b=True)

    def log_determinant(self) -> tf.Tensor:
        """log |CCᵀ| [...]; with columns beside by the lemma, in rank³."""
        plain = 2 * tf.reduce_sum(self.log_scale, axis=-1)
        if self.beside is None:
            return plain
        U = self.beside * tf.exp(-self.log_scale)[..., None]
        rank = self.beside.shape[-1]
        return plain + tf.linalg.logdet(tf.eye(rank, dtype=U.dtype) + tf.matmul(U, U, transpose_a=True))

    def negative_entropy(self, draws: tf.Tensor) -> tf.Tensor:
        """E_q log q up to a constant, with a gradient through the draws alone (Roeder et al., 2017).

        Its noise cancels that of −log p where q is nearly p: for a Gaussian p it vanishes at the minimum.
        """
        away = tf.stop_gradient(draws - self.mean)
        score = tf.linalg.solve(tf.stop_gradient(self.covariance()), tf.transpose(away))  # −∇ log q, transposed
        path = -tf.reduce_mean(tf.reduce_sum(tf.transpose(score) * draws, axis=-1))
        return path - tf.stop_gradient(path) - 0.5 * tf.stop_gradient(self.log_determinant())

    def kl(self) -> tf.Tensor:
        """KL(q ‖ N(0, I)) [...]."""
        trace = tf.reduce_sum(self.factor() ** 2, axis=[-2, -1])
        return 0.5 * (trace + tf.reduce_sum(self.mean**2 - 1, axis=-1) - self.log_determinant())


def antithetic(samples: int, shape: Sequence[int], seed, dtype=tf.float64) -> tf.Tensor:
    """Standard normal draws [samples, *shape] in pairs ±: an odd error cancels."""
    half = tf.random.stateless_normal([(samples + 1) // 2, *shape], seed, dtype=dtype)
    return tf.concat([half, -half], axis=0)[:samples]


def cubature(d: int, cheap: bool) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights for E over N(0, I): Gauss–Hermite products, or a low-discrepancy sample in pairs ±.

    Fewer of them unless a point is ``cheap``.
    """
    if d <= (3 if cheap else 2):
        x, w = hermegauss(7 if cheap else 5)
        points = np.stack(np.meshgrid(*d * [x], indexing="ij"), axis=-1).reshape(-1, d)
        weights = np.prod(np.stack(np.meshgrid(*d * [w / w.sum()], indexing="ij"), axis=-1).reshape(-1, d), axis=1)
        return points, weights
    pairs = 2 ** int(np.ceil(np.log2(min(8 * d, max(64, 2 * d)))))
    half = norm.ppf(qmc.Sobol(d, seed=0).random(pairs))
    half = half @ np.linalg.inv(np.linalg.cholesky(half.T @ half / len(half))).T  # exact for quadratics
    return np.concatenate([half, -half]), np.full(2 * len(half), 0.5 / len(half))
