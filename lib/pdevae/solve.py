"""The forward map u = G[z]: ``Solve`` as an engineer does it (sparse), and as the paper did (dense)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sparse_linalg

from ._tensorflow import graph, tf
from .errors import UserError
from .weak_form import WeakForm


def factorise(A: sp.spmatrix) -> sparse_linalg.SuperLU:
    """Sparse LU with a symmetric fill-reducing order and no pivoting unless it must: right for FEM matrices."""
    return sparse_linalg.splu(
        A.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )


class Solver:
    """Solves L[z]u = f for each sample of z; the boundary values of ``weak`` (0 if free) are u's.

    >>> import pdevae
    >>> weak = pdevae.WeakForm(pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0), boundary=0.0)
    >>> u = Solver(weak).sparse(None)
    >>> u.shape.as_list(), round(float(u.numpy().max()), 3)  # the largest value in truth: 0.0737
    ([1, 400], 0.073)
    """

    def __init__(self, weak: WeakForm):
        self.weak = weak
        known = np.zeros(weak.mesh.n_nodes) if weak.known is None else weak.known
        if np.isnan(known[weak.mesh.is_boundary]).any():
            raise UserError("a solve needs the value at every boundary node: boundary is NaN at some")
        self.g = np.where(weak.mesh.is_boundary, known, 0.0)

    @cached_property
    def _pattern(self):
        """Where the entries K_e[k, l] of interior pairs go in the CSC data of L."""
        number, t = self.weak.mesh.interior_number, self.weak.mesh.triangles
        shape = (*t.shape, 3)
        row, column = (np.broadcast_to(number[i], shape).ravel() for i in (t[:, :, None], t[:, None, :]))
        inside = np.flatnonzero((row >= 0) & (column >= 0))
        codes, position = np.unique(column[inside] * len(self.weak.mesh.interior) + row[inside], return_inverse=True)
        N = len(self.weak.mesh.interior)
        indptr = np.searchsorted(codes, np.arange(N + 1) * N)
        return inside, position, codes % N, indptr

    @cached_property
    def _element_matrices(self):
        return graph(lambda z: self.weak.element_system(z)[0], jit_compile=True)

    def matrix(self, z: Any = None) -> sp.csc_matrix:
        """L[z] at the interior nodes, for one sample of z. Compiled at the first call: for many z on one mesh."""
        return self._matrix(self._element_matrices(z)[0].numpy())

    def sparse(self, z: Any, samples: int = 1) -> tf.Tensor:
        """u [M, n] in O(N^1.5), differentiable by the adjoint equation."""
        return self._sparse_solve(*self.weak.element_system(z, samples))

    def dense(self, z: Any, samples: int = 1) -> tf.Tensor:
        """u [M, n] by a dense solve in O(N³), as in the paper; differentiated by TensorFlow."""
        K, f = self.weak.element_system(z, samples)
        mesh, n = self.weak.mesh, self.weak.mesh.n_nodes
        t = tf.constant(mesh.triangles, tf.int64)
        pair = tf.reshape(t[:, :, None] * n + t[:, None, :], [-1])
        L = tf.math.unsorted_segment_sum(tf.transpose(tf.reshape(K, [samples, -1])), pair, n * n)
        b = tf.math.unsorted_segment_sum(tf.transpose(tf.reshape(f, [samples, -1])), tf.reshape(t, [-1]), n)
        L, b = tf.reshape(tf.transpose(L), [samples, n, n]), tf.transpose(b)
        g = tf.constant(self.g, L.dtype)
        L_i = tf.gather(L, mesh.interior, axis=1)
        b_i = tf.gather(b, mesh.interior, axis=1) - tf.linalg.matvec(L_i, g)
        u_i = tf.linalg.solve(tf.gather(L_i, mesh.interior, axis=2), b_i[..., None])[..., 0]
        return g + tf.transpose(tf.scatter_nd(mesh.interior[:, None], tf.transpose(u_i), [n, samples]))

    @tf.custom_gradient
    def _sparse_solve(self, K, f):
        t, shape = self.weak.mesh.triangles, tf.shape(f)
        u = tf.numpy_function(self._forward, [K, f], K.dtype)
        u.set_shape([f.shape[0], self.weak.mesh.n_nodes])

        def adjoint(u_bar):
            # Lᵀλ = ū;  K̄_e[k, l] = −λ_k u_l,  f̄_e[k] = λ_k
            lam = tf.numpy_function(self._backward, [K, u_bar], K.dtype)
            lam_e = tf.reshape(tf.gather(lam, t, axis=1), shape)
            u_e = tf.reshape(tf.gather(u, t, axis=1), shape)
            return -lam_e[..., :, None] * u_e[..., None, :], lam_e

        return u, adjoint

    def _matrix(self, K_m: np.ndarray) -> sp.csc_matrix:
        inside, position, indices, indptr = self._pattern
        data = np.bincount(position, K_m.ravel()[inside], len(indices))
        return sp.csc_matrix((data, indices, indptr), shape=2 * (len(indptr) - 1,))

    def _forward(self, K, f):
        mesh = self.weak.mesh
        g_e = self.g[mesh.triangles]
        u = np.tile(self.g, (len(K), 1))
        for m in range(len(K)):  # one factorisation per sample: the cost is there, not in the loop
            r = f[m] - np.einsum("ekl,el->ek", K[m], g_e)
            b = np.bincount(mesh.triangles.ravel(), r.ravel(), mesh.n_nodes)[mesh.interior]
            u[m, mesh.interior] = factorise(self._matrix(K[m])).solve(b)
        return u.astype(K.dtype)

    def _backward(self, K, u_bar):
        lam = np.zeros_like(u_bar)
        interior = self.weak.mesh.interior
        for m in range(len(K)):
            lam[m, interior] = factorise(self._matrix(K[m])).solve(np.ascontiguousarray(u_bar[m, interior]), trans="T")
        return lam
