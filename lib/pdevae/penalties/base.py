"""What all penalties share: the interface, sampling of patches, and quadratic forms with a sparse solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from .._tensorflow import tf
from ..errors import UserError
from ..fields import Field

Seed = tf.Tensor | Sequence[int]


class Penalty:
    """An estimate of E_z ‖L[z]μ(·, z) − f‖² in some norm, the mean over the M samples of z.

    ``mu`` maps places x [n, 2] and ``z`` (leading axis M) to values [M, n]. ``seed`` is a pair of integers;
    the same seed gives the same patches.

    >>> import pdevae
    >>> mesh, equation = pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0)
    >>> mu = lambda x, z: tf.sin(np.pi * x[None, :, 0]) * tf.sin(np.pi * x[None, :, 1])
    >>> penalty = pdevae.TwoLevelPenalty(mesh, equation, patch_nodes=16)
    >>> isinstance(penalty, Penalty), bool(penalty(mu, None, (0, 1)) == penalty(mu, None, (0, 1)))
    (True, True)
    """

    def __call__(self, mu: Field, z: Any, seed: Seed) -> tf.Tensor:
        raise NotImplementedError

    def quadratic_form(self) -> LinearOperator:
        """The matrix B, as an operator on interior rows, for which the penalty's full sum is rᵀBr."""
        raise NotImplementedError


def quadratic(r: tf.Tensor, apply: Callable[[np.ndarray], np.ndarray]) -> tf.Tensor:
    """rᵀBr for each row of r [M, N]; ``apply`` maps columns r to Br with B symmetric, so the gradient is 2Br."""

    @tf.custom_gradient
    def value(r):
        Br = tf.numpy_function(lambda r: apply(r.T.astype(np.float64)).T.astype(r.dtype), [r], r.dtype)
        Br.set_shape(r.shape)
        return tf.reduce_sum(r * Br, axis=1), lambda upstream: 2 * upstream[:, None] * Br

    return value(r)


def as_seed(seed: Any) -> tf.Tensor:
    """The pair of integers that TensorFlow's stateless random numbers take; anything else is refused."""
    try:
        pair = tf.convert_to_tensor(seed)
        right = pair.dtype.is_integer and (pair.shape.rank is None or pair.shape == [2])
    except (TypeError, ValueError):
        right = False
    if not right:
        raise UserError(f"seed={seed!r} must be a pair of integers, as (0, step)")
    return pair


def at_least_one(**counts: int) -> None:
    for name, count in counts.items():
        if not count >= 1:
            raise UserError(f"a penalty needs {name} of at least 1, not {count}")


def sample_patches(seed, P: int, C: int) -> tf.Tensor:
    """P of C patches, uniformly and independently; [P]."""
    return tf.random.stateless_uniform([P], seed, maxval=C, dtype=tf.int32)
