"""u of z: Newton's method with sparse solves, the adjoint equation as its gradient; and a dense solve, the paper's.

Residuals and tangents are computed in the graph, factorisations on the host; an equation linear in u takes one step.
Whatever differentiates a TensorFlow function can use it.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sparse_linalg

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError
from pdevae.fem.band import Band, BandFactors
from pdevae.fem.basis_form import BasisForm
from pdevae.fem.weak_form import WeakForm

_TOLERANCE, _MOST_STEPS, _HALVINGS = 1e-9, 50, 12  # of Newton's method; residuals relative to the first
_STILL = 1e-9  # a move relative to u
_NO_SOLUTION = (
    f"no solution in {_MOST_STEPS} steps of Newton's method: is the equation solvable for every z of the prior? A "
    "narrower prior may help"
)
_MOST_KEPT = 300_000  # unknowns
_AT_A_TIME = 32  # adjoint fields of a sensitivity
# SuperLU frees memory only on the thread that took it, so each thread keeps to its samples
_THREADS = [ThreadPoolExecutor(1) for _ in range(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1))]


def factorise(A: sp.spmatrix) -> sparse_linalg.SuperLU:
    """Sparse LU with a symmetric fill-reducing order and no pivoting unless it must: right for FEM matrices."""
    return sparse_linalg.splu(
        A.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )


class Solver:
    """Solves L[z]u = f, or a nonlinear equation, for each sample of z; the boundary values of ``weak`` are u's.

    ``seen`` maps what is differentiated, z (leading axis M), to what the equation's coefficients take.

    >>> import pdevae
    >>> weak = pdevae.WeakForm(pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0), boundary=0.0)
    >>> u = Solver(weak).solve()
    >>> u.shape.as_list(), round(float(u.numpy().max()), 3)  # the largest value in truth: 0.0737
    ([1, 400], 0.073)
    """

    def __init__(self, weak: WeakForm | BasisForm, seen: Callable[[Any], Any] = lambda z: z):
        self.weak, self.seen = weak, seen
        if weak.known is None or np.isnan(weak.known[weak.held]).any():
            raise UserError("a solve needs u at every boundary node: give boundary=…")
        self._number = np.full(weak.size, len(weak.inside))  # boundary nodes take the zero at the end
        self._number[weak.inside] = np.arange(len(weak.inside))
        self._residual = graph(lambda u, z: weak.residual(u, seen(z)), jit_compile=True)
        self._tangents = graph(self._element_tangents, jit_compile=True)
        self._field = graph(self._newton)
        self._kept: list[dict[str, Any]] = [{} for _ in _THREADS]
        for thread, kept in zip(_THREADS, self._kept):
            weakref.finalize(self, thread.submit, kept.clear).atexit = False

    def solve(self, z: Any = None) -> tf.Tensor:
        """u [M, n] at the nodes for each z; differentiable by Lᵀλ = ū, z̄ = −λ·∂r/∂z.

        A z without a solution is an error, but NaN in a graph: a sampler then rejects it and goes on.
        """
        u = self._differentiable(z)
        if tf.executing_eagerly() and not np.isfinite(u).all():
            raise UserError(_NO_SOLUTION)
        return u

    def _differentiable(self, z: Any) -> tf.Tensor:
        if z is None:
            return self._field(None)[0]
        flat = [tf.cast(part, self.weak.dtype) for part in tf.nest.flatten(z)]

        @tf.custom_gradient
        def field(*flat):
            z_here = tf.nest.pack_sequence_as(z, flat)
            u, K = self._field(z_here)
            u = tf.ensure_shape(u, [_samples(z_here), self.weak.size])

            def adjoint(u_bar):
                lam = self._host_solve(K, tf.gather(u_bar, self.weak.inside, axis=1), True)
                return self._pulled_back(u, lam, u_bar, z_here)

            return u, adjoint

        return field(*flat)

    def within(self, z: np.ndarray, base: np.ndarray, phi: np.ndarray) -> np.ndarray:
        """b [M, K] for each z [M, d] such that the field ``base`` + Σ_k b_k φ_k has no residual against any φ_k.

        ``base`` [n] has the boundary's values; ``phi`` [n, K] vanish there. Galerkin's method in their span: K × K
        systems instead of sparse ones.
        """
        z, b, first, inside = tf.constant(z), np.zeros((len(z), phi.shape[1])), None, phi[self.weak.inside]
        for _ in range(_MOST_STEPS):
            u = base + b @ phi.T
            r = self._residual(tf.constant(u), z).numpy() @ inside
            size = np.linalg.norm(r, axis=1)
            first = size if first is None else first
            if np.all(size <= _TOLERANCE * first):
                return b
            for m, K in enumerate(self._tangents(tf.constant(u), z).numpy()):
                b[m] -= np.linalg.solve(inside.T @ (self._matrix(K) @ inside), r[m])
        raise UserError(_NO_SOLUTION)

    def sensitivity(self, z: np.ndarray, read: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Readings [S] at one z [d] and their Jacobian [S, d], by an adjoint solve for each."""
        z = tf.constant(z[None])
        u, K = self._field(z)
        if not np.isfinite(u).all():
            raise UserError(_NO_SOLUTION)
        K, b = K.numpy(), read[:, self.weak.inside].toarray()
        lam = self._solved(K, b[None], transposed=True)[0]
        edge = read.multiply(self.weak.held[None]).toarray()
        rows = []
        for start in range(0, len(lam), _AT_A_TIME):
            some = [np.zeros((_AT_A_TIME, part.shape[1])) for part in (lam, edge)]
            for padded, part in zip(some, (lam, edge)):
                padded[: len(lam) - start] = part[start : start + _AT_A_TIME]
            rows.append(self._slopes(u, z, *map(tf.constant, some)).numpy())
        return read @ u.numpy()[0], np.concatenate(rows)[: len(lam)]

    @cached_property
    def _pulled_back(self):
        """∂/∂z of −λ·r and of the boundary's values, in the direction ū; 0 where there is no solution."""

        def pulled_back(u, lam, u_bar, z):
            flat = tf.nest.flatten(z)
            with tf.GradientTape() as tape:
                tape.watch(flat)
                held = self._with_edge(u, z)
                r = self.weak.residual(held, self.seen(z))
            slopes = tape.gradient([r, held], flat, [-lam, u_bar], unconnected_gradients="zero")
            return [tf.where(tf.math.is_finite(slope), slope, 0.0) for slope in slopes]

        return graph(pulled_back, jit_compile=True)

    @cached_property
    def _slopes(self):
        """∂/∂z of −λ·r and of the boundary's values for each row, in one reverse pass over as many copies of z."""

        def slopes(u, z, lam, edge):
            copies = lam.shape[0]
            z = tf.repeat(z, copies, axis=0)
            with tf.GradientTape() as tape:
                tape.watch(z)
                held = self._with_edge(tf.repeat(u, copies, axis=0), z)
                r = self.weak.residual(held, self.seen(z))
            return tape.gradient([r, held], z, output_gradients=[-lam, edge])

        return graph(slopes, jit_compile=True)

    def _with_edge(self, u: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """u [M, n] with its boundary nodes as z has them."""
        return tf.where(self.weak.held, self.weak.edge_values(self.seen(z), u.shape[0]), u)

    def _newton(self, z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """From the boundary's values to r = 0, and the tangents there; a step is halved where the residual would grow.

        Where they do not depend on u, one step is all.
        """
        u = self._with_edge(tf.zeros([_samples(z), self.weak.size], self.weak.dtype), z)
        first = self._residual(u, z)
        if self._is_linear(u, z):
            K = self._tangents(u, z)
            return u + self._move(K, first), K
        enough = _TOLERANCE * tf.norm(first, axis=1)

        def step(k, u, r, _):
            move, size = self._move(self._tangents(u, z), r), tf.norm(r, axis=1)

            def halve(j, length, _):
                r_trial = self._residual(u + length[:, None] * move, z)
                grown = ~(tf.norm(r_trial, axis=1) <= size)
                return j + 1, tf.where(grown, length / 2, length), grown

            some = (tf.constant(0), tf.ones_like(size), tf.ones_like(size, tf.bool))
            _, length, _ = tf.while_loop(lambda j, _, grown: (j < _HALVINGS) & tf.reduce_any(grown), halve, some)
            u = u + length[:, None] * move
            r = self._residual(u, z)
            still = tf.norm(move, axis=1) <= _STILL * tf.norm(u, axis=1)  # rounding keeps a residual from falling on
            return k + 1, u, r, still | (tf.norm(r, axis=1) <= enough)

        goes_on = lambda k, u, r, done: (k < _MOST_STEPS) & ~tf.reduce_all(done)  # noqa: E731
        _, u, _, done = tf.while_loop(goes_on, step, (tf.constant(0), u, first, tf.norm(first, axis=1) <= 0.0))
        return tf.where(done[:, None], u, np.nan), self._tangents(u, z)

    def _move(self, K: tf.Tensor, r: tf.Tensor) -> tf.Tensor:
        """Newton's, at all nodes; [M, n]."""
        inside = -self._host_solve(K, r, False)
        return tf.gather(tf.pad(inside, [[0, 0], [0, 1]]), self._number, axis=1)

    def _is_linear(self, u: tf.Tensor, z: tf.Tensor) -> bool:
        """In u: told by what is traced, not by numbers."""
        with tf.GradientTape() as tape:
            tape.watch(u)
            K = self._element_tangents(u, z)
        return tape.gradient(K, u) is None

    def _element_tangents(self, u: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """∂r_ek/∂u_el on each element; [M, E, k, k]."""
        seen, corners = self.seen(z), [tf.gather(u, corner, axis=1) for corner in self.weak.corners]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(corners)
            r = self.weak.element_residual(corners, seen)
        slopes = [tape.gradient(r_k, corners, unconnected_gradients="zero") for r_k in r]
        return tf.stack([tf.stack(row, axis=-1) for row in slopes], axis=-2)

    def _host_solve(self, K: tf.Tensor, b: tf.Tensor, transposed: bool) -> tf.Tensor:
        """L⁻¹b, or L⁻ᵀb, for each sample; b [M, N]."""
        solved = lambda K, b: self._solved(K, b, transposed)  # noqa: E731
        return tf.ensure_shape(tf.numpy_function(solved, [K, b], K.dtype), b.shape)

    def _solved(self, K: np.ndarray, b: np.ndarray, transposed: bool) -> np.ndarray:
        """For each sample, b [M, N] or [M, rows, N]; a thread takes every so many of them."""
        how, x = "T" if transposed else "N", np.full_like(b, np.nan)

        def share(k, kept):
            for m, factors in zip(range(k, len(K), len(_THREADS)), self._factors(K[k :: len(_THREADS)], kept)):
                if factors is not None:
                    x[m] = factors.solve(b[m].T, how).T

        workers = enumerate(zip(_THREADS[: len(K)], self._kept))
        for working in [thread.submit(share, k, kept) for k, (thread, kept) in workers]:
            working.result()
        return x

    def _factors(self, K: np.ndarray, kept: dict[str, Any]) -> Iterable:
        """Of the matrix of each sample; the last ones are kept, for the adjoint comes right after the solve.

        Not those of a large mesh, which take gigabytes each: these come one after the other.
        """
        if len(self.weak.inside) > _MOST_KEPT:
            return (self._factored(self._matrix(K_m)) for K_m in K)
        if "K" not in kept or not np.array_equal(K, kept["K"]):
            kept.clear()
            kept["K"], kept["factors"] = K.copy(), [self._factored(self._matrix(K_m)) for K_m in K]
        return kept["factors"]

    def _factored(self, A: sp.csc_matrix) -> sparse_linalg.SuperLU | BandFactors | None:
        """None where the matrix is singular, or no matrix of numbers."""
        if not np.isfinite(A.data).all():
            return None
        try:
            return (self._band and self._band.factors(A)) or factorise(A)
        except RuntimeError:
            return None

    @cached_property
    def _band(self) -> Band | None:
        _, _, indices, indptr = self._pattern
        return Band.of(indices, indptr)

    @cached_property
    def _pattern(self):
        """Where the entries of interior pairs go in the data of a compressed matrix."""
        t, N = self._number[self.weak.corners.T], len(self.weak.inside)
        row, column = (np.broadcast_to(i, (*t.shape, t.shape[1])).ravel() for i in (t[:, :, None], t[:, None, :]))
        inside = np.flatnonzero((row < N) & (column < N))
        codes, position = np.unique(column[inside].astype(np.int64) * N + row[inside], return_inverse=True)
        return inside, position, codes % N, np.searchsorted(codes, np.arange(N + 1) * N)

    def _matrix(self, K: np.ndarray) -> sp.csc_matrix:
        inside, position, indices, indptr = self._pattern
        data = np.bincount(position, K.ravel()[inside], len(indices))
        return sp.csc_matrix((data, indices, indptr), shape=2 * (len(indptr) - 1,))

    def matrix(self, z: Any = None) -> sp.csc_matrix:
        """∂r/∂u at the interior nodes, for one sample of z: L[z] where the equation is linear in u."""
        u = tf.zeros([1, self.weak.size], self.weak.dtype)
        return self._matrix(self._tangents(u, z)[0].numpy())

    def dense(self, z: Any) -> tf.Tensor:
        """u [M, n] by a dense solve in O(N³), as in the paper; differentiated by TensorFlow. Linear equations only."""
        assert isinstance(self.weak, WeakForm)
        mesh, seen, M, n, inside = self.weak.mesh, self.seen(z), _samples(z), self.weak.size, self.weak.inside
        K, f = self.weak.element_system(seen, M)
        t = tf.constant(mesh.triangles, tf.int64)
        pair = tf.reshape(t[:, :, None] * n + t[:, None, :], [-1])
        L = tf.math.unsorted_segment_sum(tf.transpose(tf.reshape(K, [M, -1])), pair, n * n)
        b = tf.math.unsorted_segment_sum(tf.transpose(tf.reshape(f, [M, -1])), tf.reshape(t, [-1]), n)
        L, b = tf.reshape(tf.transpose(L), [M, n, n]), tf.transpose(b)
        g = self.weak.edge_values(seen, M)
        L_i = tf.gather(L, inside, axis=1)
        b_i = tf.gather(b, inside, axis=1) - tf.linalg.matvec(L_i, g)
        u_i = tf.linalg.solve(tf.gather(L_i, inside, axis=2), b_i[..., None])[..., 0]
        return g + tf.transpose(tf.scatter_nd(inside[:, None], tf.transpose(u_i), [n, M]))


def _samples(z: Any) -> int:
    return 1 if z is None else tf.nest.flatten(z)[0].shape[0]
