"""A smooth function of many variables through its values at scattered places."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from pdevae._tensorflow import tf

_LENGTHS = (1.5, 2.5, 4.0, 6.0, 9.0, 14.0)  # of the kernel, in units of the most important variable
_JITTERS = (1e-6, 1e-9)
_TRIED_ON = 1000  # places


class Interpolant(NamedTuple):
    """b(z) = mean + Σ_s exp(−|scale∘(z − z_s)|²/2) weights_s; ``error``: relative, each place left out in turn."""

    places: np.ndarray  # [S, d], scaled
    scale: np.ndarray  # [d]
    weights: np.ndarray  # [S, K]
    mean: np.ndarray  # [K]
    error: float

    @classmethod
    def through(cls, z: np.ndarray, b: np.ndarray) -> Interpolant:
        """Values b [S, K] at z [S, d]. The kernel is longer where a variable matters less.

        >>> rng = np.random.default_rng(0)
        >>> z = rng.normal(size=(300, 2))
        >>> f = lambda z: np.column_stack([np.sin(z[:, 0]), np.exp(0.1 * z[:, 1])])
        >>> found = Interpolant.through(z, f(z))
        >>> off = found(tf.constant(0.5 * z[:9])).numpy() - f(0.5 * z[:9])
        >>> bool(abs(off).max() < 1e-3), found.error < 1e-3
        (True, True)
        """
        mean, matters = b.mean(axis=0), _importance(z, b - b.mean(axis=0))
        some = slice(_TRIED_ON)
        tried = {
            (power, length, jitter): _left_out(z[some] * matters**power / length, b[some] - mean, jitter)[0]
            for power in (0.0, 0.5, 1.0)
            for length in _LENGTHS
            for jitter in _JITTERS
        }
        power, length, jitter = min(tried, key=lambda setting: tried[setting])
        scale = matters**power / length
        error, weights = _left_out(z * scale, b - mean, jitter)
        return cls(z * scale, scale, weights, mean, error)

    def kernel(self, z: tf.Tensor) -> tf.Tensor:
        """[M, S] for z [M, d], in double precision: the weights nearly cancel."""
        v, places = tf.cast(z, tf.float64) * self.scale, tf.constant(self.places)
        square = tf.reduce_sum(v**2, axis=1)[:, None] + tf.reduce_sum(places**2, axis=1)
        return tf.exp(tf.matmul(v, places, transpose_b=True) - 0.5 * square)

    def __call__(self, z: tf.Tensor) -> tf.Tensor:
        return self.mean + tf.matmul(self.kernel(z), tf.constant(self.weights))


def _importance(z: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How much b varies with each variable, the largest 1: slopes and curvatures of the quadratic that fits best."""
    features = np.concatenate([np.ones((len(z), 1)), z, z**2], axis=1)
    slopes = scipy.linalg.lstsq(features, b)[0][1:].reshape(2, z.shape[1], -1)
    size = np.sqrt(np.sum(slopes**2, axis=(0, 2)))
    return np.maximum(size / max(size.max(), 1e-300), 1e-3)


def _left_out(v: np.ndarray, b: np.ndarray, jitter: float) -> tuple[float, np.ndarray]:
    """Relative error at each place of the interpolant through the others, and the weights of that through all."""
    square = np.sum(v**2, axis=1)
    C = np.exp(v @ v.T - 0.5 * (square[:, None] + square))
    C.ravel()[:: len(C) + 1] += jitter
    inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(C), np.eye(len(C)))
    weights = inverse @ b
    error = np.sum((weights / np.diag(inverse)[:, None]) ** 2) / max(np.sum(b**2), 1e-300)
    return float(np.sqrt(error)), weights
