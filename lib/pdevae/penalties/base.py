"""What all penalties share: the interface, sampling of patches, and quadratic forms with an inverse."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator

from pdevae._tensorflow import constant_property, graph, tf
from pdevae.errors import UserError
from pdevae.fem.factors import factorise
from pdevae.fem.fields import Field
from pdevae.fem.weak_form import WeakForm
from pdevae.penalties.arrays import OnArrays

_DENSE = 2500  # rows: up to here a dense inverse is as fast as a sparse solve

Seed: TypeAlias = Any  # a pair of integers, a tensor or not


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

    compiles = True  # by XLA; not if a step calls a sparse solver on the host
    weak: WeakForm  # of the mesh it is on, if it is

    def __call__(self, mu: Field, z: Any, seed: Seed) -> tf.Tensor:
        a, b = self.pair(mu, z, as_seed(seed))
        return tf.reduce_mean(tf.reduce_sum(a * b, axis=1))

    def pair(self, mu: Field, z: Any, seed: Seed | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Rows a and b [M, R], linear in the residual, with E Σ a·b = the penalty of each sample; without a seed all
        tests are taken and it is the whole sum. Where the penalty is a norm, a and b are one: the residual whitened.
        """
        raise UserError(f"{type(self).__name__} has no rows: use one of the penalties on a mesh")

    def field_at(self, x: np.ndarray) -> Field:
        """The field at places x [k, 2] with its boundary values, as a function of ``mu`` and ``z``: for a likelihood.

        >>> import pdevae
        >>> penalty = pdevae.ExactPenalty(pdevae.disc(nodes=200), pdevae.Diffusion(1.0), boundary=1.0)
        >>> read = penalty.field_at([[0.5, 0.0], [0.0, 0.2]])
        >>> read(lambda x, z: 0 * x[None, :, 0], None).numpy().round(12).tolist()
        [[1.0, 1.0]]
        """
        nodes, weights = self.weak.corners_at(np.asarray(x, float))
        return lambda mu, z: self.weak.read(mu, z, nodes, weights)

    def places(self, seed: Seed, z: np.ndarray | None = None) -> np.ndarray:
        """Where :meth:`value_and_gradient` wants μ for this seed; [n, 2], n the same for every seed.

        ``z`` [M, …] as the equation's coefficients take it, if they do.
        """
        return self._on_arrays.places(z, as_seed(seed))

    def value_and_gradient(
        self, u: np.ndarray, z: np.ndarray | None = None, seed: Seed = (0, 0)
    ) -> tuple[float, np.ndarray]:
        """The penalty and its gradient in ``u`` [M, n], μ at :meth:`places`: for networks of any other framework.

        >>> import pdevae
        >>> penalty = pdevae.MultilevelPenalty(pdevae.disc(nodes=500), pdevae.Diffusion(1.0) - pdevae.Source(1.0))
        >>> x = penalty.places(seed=(0, 1))
        >>> value, slope = penalty.value_and_gradient((1 - np.sum(x**2, axis=1, keepdims=True).T) / 4, seed=(0, 1))
        >>> value < 1e-3, slope.shape == (1, len(x))  # it solves the equation
        (True, True)
        """
        return self._on_arrays.value_and_gradient(u, z, as_seed(seed))

    @cached_property
    def _on_arrays(self) -> OnArrays:
        return OnArrays(self)

    def quadratic_form(self) -> LinearOperator:
        """The matrix B, as an operator on interior rows, for which the penalty's full sum is rᵀBr."""
        raise NotImplementedError


class WholeResidual(Penalty):
    """A norm that takes the residual of the whole mesh: subclasses say by which rows."""

    def rows_of(self, r: tf.Tensor, seed: Seed | None = None) -> tf.Tensor:
        """r [M, N] whitened, [M, R]."""
        raise NotImplementedError

    def pair(self, mu: Field, z: Any, seed: Seed | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        rows = self.rows_of(self.residual(mu, z), seed)
        return rows, rows

    def residual(self, mu: Field, z: Any) -> tf.Tensor:
        """Compiled on its own in a graph that a solve on the host keeps from being compiled as a whole."""
        rows = lambda z: self.weak.residual(self.weak.values(mu, z), z)  # noqa: E731
        return rows(z) if self.compiles or tf.executing_eagerly() else graph(rows, jit_compile=True)(z)


class Inverse:
    """A⁻¹ for a sparse A: a dense matrix in the graph where it is small, else a sparse solve on the host."""

    def __init__(self, A: sp.spmatrix, dtype: tf.DType):
        self.factors, self.shape = factorise(A), A.shape
        self.compiles = A.shape[0] <= _DENSE  # XLA cannot call the host
        self.dense = tf.constant(self.factors.solve(np.eye(A.shape[0])), dtype) if self.compiles else None

    def times(self, r: tf.Tensor) -> tf.Tensor:
        """A⁻¹r for each row of r [M, N]; not differentiated if on the host."""
        return r @ self.dense if self.compiles else on_host(self.factors.solve, r)

    def norm(self, r: tf.Tensor) -> tf.Tensor:
        """rᵀA⁻¹r for each row of r [M, N]."""
        return quadratic(r, self.times)

    def whiten(self, r: tf.Tensor) -> tf.Tensor:
        """Wr for each row of r [M, N] with WᵀW = A⁻¹.

        A = PᵀLUP with U = DLᵀ, so that W = D^(−1/2)UPA⁻¹: a solve and a product with U.
        """
        U, P, root = self._upper

        def forth(r):
            return (U @ self.factors.solve(r)[P]) / root

        def back(y):
            Ut = np.empty_like(y)
            Ut[P] = U.T @ (y / root)
            return self.factors.solve(Ut, trans="T")

        @tf.custom_gradient
        def value(r):
            return on_host(forth, r), lambda upstream: on_host(back, upstream)

        if self.compiles:
            return tf.matmul(r, tf.constant(self._whitening, r.dtype), transpose_b=True)
        return value(r)

    @cached_property
    def _upper(self) -> tuple[sp.csr_matrix, np.ndarray, np.ndarray]:
        """U, the order of its columns, and the square root of its diagonal."""
        order = np.argsort(self.factors.perm_c)
        return self.factors.U.tocsr(), order, np.sqrt(self.factors.U.diagonal())[:, None]

    @constant_property
    def _whitening(self) -> np.ndarray:
        U, P, root = self._upper
        return (U @ self.factors.solve(np.eye(len(P)))[P]) / root


def on_host(apply: Callable[[np.ndarray], np.ndarray], r: tf.Tensor) -> tf.Tensor:
    """Br for each row of r [M, N]; ``apply`` maps columns r to Br in NumPy, double precision."""
    rows = lambda r: apply(r.T.astype(np.float64)).T.astype(r.dtype)  # noqa: E731
    return tf.ensure_shape(tf.numpy_function(rows, [r], r.dtype), r.shape)


def quadratic(r: tf.Tensor, times: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """rᵀBr for each row of r [M, N]; ``times`` gives Br with B symmetric, so the gradient is 2Br."""

    @tf.custom_gradient
    def value(r):
        Br = times(r)
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
