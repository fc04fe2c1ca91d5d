"""u of z: Newton's method with sparse solves, the adjoint equation as its gradient.

Residuals and tangents are computed in the graph, factorisations on the host; an equation linear in u takes one step.
Whatever differentiates a TensorFlow function can use it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError
from pdevae.fem.basis_form import BasisForm
from pdevae.fem.factors import Factors
from pdevae.fem.weak_form import WeakForm

_TOLERANCE, _MOST_STEPS, _HALVINGS = 1e-9, 50, 12  # of Newton's method; residuals relative to the first
_STILL = 1e-9  # a move relative to u
_NO_SOLUTION = (
    f"no solution in {_MOST_STEPS} steps of Newton's method: is the equation solvable for every z of the prior? A "
    "narrower prior may help"
)
_AT_A_TIME = 32  # adjoint fields of a sensitivity


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
            raise UserError(
                "a solve needs u on the whole boundary: give boundary= without NaN, or mesh.no_flow(…) where nothing "
                "crosses it"
            )
        self._factors = Factors(weak.corners, weak.inside, weak.size)
        self._residual = graph(lambda u, z: weak.residual(u, seen(z)), jit_compile=True)
        self._tangents = graph(self._element_tangents, jit_compile=True)
        self._field = graph(self._newton)

    def solve(self, z: Any = None) -> tf.Tensor:
        """u [M, n] at the nodes for each z; differentiable by Lᵀλ = ū, z̄ = −λ·∂r/∂z.

        A z without a solution raises an error; inside a graph it gives NaN, so that a sampler rejects it.
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
                b[m] -= np.linalg.solve(inside.T @ (self._factors.matrix(K) @ inside), r[m])
        raise UserError(_NO_SOLUTION)

    def sensitivity(self, z: np.ndarray, read: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Readings [S] at one z [d] and their Jacobian [S, d], by an adjoint solve for each."""
        z = tf.constant(z[None])
        u, K = self._field(z)
        if not np.isfinite(u).all():
            raise UserError(_NO_SOLUTION)
        K, b = K.numpy(), read[:, self.weak.inside].toarray()
        lam = self._factors.solve(K, b[None], transposed=True)[0]
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
        return tf.gather(tf.pad(inside, [[0, 0], [0, 1]]), self._factors.number, axis=1)  # 0 at the boundary

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
        solved = lambda K, b: self._factors.solve(K, b, transposed)  # noqa: E731
        return tf.ensure_shape(tf.numpy_function(solved, [K, b], K.dtype), b.shape)

    def matrix(self, z: Any = None) -> sp.csc_matrix:
        """∂r/∂u at the interior nodes, for one sample of z: L[z] where the equation is linear in u."""
        u = tf.zeros([1, self.weak.size], self.weak.dtype)
        return self._factors.matrix(self._tangents(u, z)[0].numpy())


def _samples(z: Any) -> int:
    return 1 if z is None else tf.nest.flatten(z)[0].shape[0]
