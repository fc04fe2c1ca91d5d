"""Matérn kernels of a distance, and Gaussian processes known by whitened values at inducing points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy.spatial.distance import cdist

from pdevae._tensorflow import constant_property, tf


def matern32(r):
    r = np.sqrt(3.0) * r
    return (1 + r) * tf.exp(-r)


def matern52(r):
    r = np.sqrt(5.0) * r
    return (1 + r + r**2 / 3) * tf.exp(-r)


@dataclass(frozen=True, eq=False)
class InducedField:
    """x ↦ sd · k(x, Z) C⁻ᵀ v with k(Z, Z) = CCᵀ, k Matérn 5/2: a GP's mean given its values at Z, v ~ N(0, I).

    What a GP varies between its inducing points is left out; :meth:`left_out` says how much that is.
    """

    inducing: np.ndarray  # [k, 2]
    sd: float
    length: float

    @constant_property
    def _whitening(self) -> np.ndarray:
        """C⁻ᵀ, times sd."""
        K = self._kernel(cdist(self.inducing, self.inducing)) + 1e-6 * np.eye(len(self.inducing))
        C = np.linalg.cholesky(K)
        return self.sd * scipy.linalg.solve_triangular(C, np.eye(len(K)), lower=True).T

    def _kernel(self, distance: np.ndarray) -> np.ndarray:
        return matern52(distance / self.length).numpy()

    def basis(self, x: np.ndarray) -> np.ndarray:
        """[n, k]: the field at places x is basis @ v."""
        return self._kernel(cdist(x, self.inducing)) @ self._whitening

    def basis_at(self, x: tf.Tensor) -> tf.Tensor:
        """The same for a tensor of places, which a step may choose anew."""
        away = x[:, None] - tf.constant(self.inducing, x.dtype)
        distance = tf.sqrt(tf.reduce_sum(away**2, axis=-1) + 1e-12)
        return tf.matmul(matern52(distance / self.length), tf.constant(self._whitening, x.dtype))

    def left_out(self, x: np.ndarray) -> np.ndarray:
        """The share of the GP's variance that the inducing points do not determine; [n]."""
        return 1 - np.sum(self.basis(x) ** 2, axis=1) / self.sd**2
