"""An inverse problem: an equation on a mesh, what is unknown in it, and noisy readings of its solution.

The forward map z → u → readings is Newton's method with sparse solves (one step where the equation is linear in u), and
its gradient the adjoint equation, so that whatever differentiates a TensorFlow function can use it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from .._tensorflow import graph, tf
from ..boundary import Boundary
from ..errors import UserError
from ..hierarchy import around, read_at
from ..mesh import Mesh
from ..operators import Term, element_residual, flux_and_volume
from ..solve import factorise
from ..weak_form import WeakForm
from .latents import Latents

_TOLERANCE, _MOST_STEPS, _HALVINGS = 1e-9, 50, 12  # of Newton's method; residuals relative to the first
_AT_A_TIME = 32  # adjoint fields of a sensitivity


@dataclass(frozen=True, eq=False)
class InverseProblem:
    """``readings`` [S] at ``sensors`` [S, 2] of the u that solves ``equation`` for some z ~ N(0, I), with noise.

    ``noise`` is the standard deviation of a reading, one number or one for each; ``boundary`` what u is known to be on
    the boundary (as for penalties).

    >>> import pdevae
    >>> from pdevae.inverse import Normal
    >>> latents = Latents(tau=Normal(2))
    >>> equation = pdevae.Diffusion(1.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0)
    >>> sensors = np.array([[0.3, 0.1], [-0.2, 0.4]])
    >>> disc = pdevae.disc(nodes=300)
    >>> problem = InverseProblem(disc, equation, latents, sensors, [0.2, 0.2], noise=0.01, boundary=0.0)
    >>> problem.predict(tf.zeros([1, 2], tf.float64)).numpy().round(2).tolist()  # (1 − |x|²)/4
    [[0.22, 0.2]]
    """

    mesh: Mesh
    equation: Term
    latents: Latents
    sensors: np.ndarray
    readings: np.ndarray
    noise: float | np.ndarray
    boundary: Boundary = 0.0

    def __post_init__(self):
        sensors, readings = np.atleast_2d(np.asarray(self.sensors, float)), np.asarray(self.readings, float)
        if readings.shape != (len(sensors),):
            raise UserError(f"{readings.size} readings for {len(sensors)} sensors: give one reading for each sensor")
        noise = np.asarray(self.noise, float)
        if noise.shape not in ((), readings.shape) or not np.all(noise > 0):
            raise UserError(f"noise={self.noise} must be positive: the sd of a reading, one number or one for each")
        for name, value in (("sensors", sensors), ("readings", readings), ("latents", self.latents.on(self.mesh))):
            object.__setattr__(self, name, value)
        assert self._read.shape[0]  # refuses sensors outside
        self._refuse_odd_coefficients()

    @property
    def size(self) -> int:
        """d, the length of z."""
        return self.latents.size

    @cached_property
    def weak(self) -> WeakForm:
        return WeakForm(self.mesh, self.equation, self.boundary)

    @cached_property
    def _read(self) -> sp.csr_matrix:
        return read_at(around(self.mesh, self.sensors), self.sensors).tocsr()

    @cached_property
    def _forward(self) -> Forward:
        return Forward(self.weak, self.latents)

    def solve(self, z: tf.Tensor) -> tf.Tensor:
        """u [M, n] at the nodes for each z [M, d]."""
        return self._forward.solve(z)

    def predict(self, z: tf.Tensor, x: np.ndarray | None = None) -> tf.Tensor:
        """u [M, k] at places x [k, 2], by default the sensors."""
        read = self._read if x is None else read_at(around(self.mesh, x), np.asarray(x, float)).tocsr()
        used = np.flatnonzero(np.diff(read.tocsc().indptr))
        u = tf.gather(self.solve(z), used, axis=1)
        return tf.matmul(u, tf.constant(read[:, used].toarray()), transpose_b=True)

    def log_likelihood(self, z: tf.Tensor) -> tf.Tensor:
        """log p(y | z) [M], up to a constant."""
        return self.fit_of(self.predict(z))

    def fit_of(self, u: tf.Tensor) -> tf.Tensor:
        """log p(y | u) [M] of values u [M, S] at the sensors, up to a constant."""
        away = (u - tf.constant(self.readings, u.dtype)) / tf.constant(self.noise, u.dtype)
        return -0.5 * tf.reduce_sum(away**2, axis=1)

    def log_joint(self, z: tf.Tensor) -> tf.Tensor:
        """log p(y, z) [M], up to a constant."""
        return self.log_likelihood(z) - 0.5 * tf.reduce_sum(z**2, axis=1)

    def sensitivity(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Readings [S] at one z [d] and their Jacobian [S, d], by an adjoint solve for each sensor."""
        return self._forward.sensitivity(np.asarray(z, float), self._read)

    def _refuse_odd_coefficients(self) -> None:
        """A latent that nothing uses, a diffusion that is not positive: said here, not after an hour of sampling."""
        z = tf.constant(np.random.default_rng(0).normal(size=(4, self.size)))
        u = tf.constant(np.random.default_rng(1).normal(size=(4, self.mesh.n_nodes)))
        with tf.GradientTape() as tape:
            tape.watch(z)
            total = tf.reduce_sum(self.weak.residual(u, self.latents.seen(z)) ** 2)
        slope = tape.gradient(total, z, unconnected_gradients="zero").numpy()
        for name, part in self.latents.slices.items():
            if not np.any(slope[:, part]):
                raise UserError(f"no term of the equation uses the latent {name}: use z.{name} in one, or leave it out")
        x, seen = self.weak.elements.centroid, self.latents.seen(z)
        for axis in np.eye(2):
            grad = tf.constant(np.broadcast_to(axis, (4, self.mesh.n_elements, 2)))
            F, _ = flux_and_volume(self.equation, x, seen, tf.zeros(grad.shape[:2], tf.float64), grad)
            if F is not None and not np.all((F * grad).numpy().sum(axis=-1) > 0):
                raise UserError(
                    "the diffusion coefficient is not positive for all z: let it be tf.exp of a latent, or give the "
                    "latent a transform such as tf.exp or tf.nn.softplus"
                )


class Forward:
    """u of z by Newton's method: residuals and tangents in the graph, sparse factorisations on the host."""

    def __init__(self, weak: WeakForm, latents: Latents):
        self.weak, self.latents, self.mesh = weak, latents, weak.mesh
        known = weak.known
        if known is None or np.isnan(known[weak.mesh.is_boundary]).any():
            raise UserError("a solve needs u at every boundary node: give boundary=…, or use CVI, which needs no solve")
        self.start = np.where(weak.mesh.is_boundary, known, 0.0)
        number = weak.mesh.interior_number
        self.places = np.where(
            number < 0, len(weak.mesh.interior), number
        )  # boundary nodes take the zero behind the rest
        self.residual = graph(lambda u, z: weak.residual(u, latents.seen(z)), jit_compile=True)
        self.tangents = graph(self._tangents, jit_compile=True)
        self.field = graph(self._newton)
        self.kept: tuple[bytes, list] = (b"", [])

    def solve(self, z: tf.Tensor) -> tf.Tensor:
        """u [M, n], differentiable by the adjoint equation Lᵀλ = ū, z̄ = −λᵀ ∂r/∂z."""

        @tf.custom_gradient
        def field(z):
            u = tf.ensure_shape(self.field(z), [z.shape[0], self.mesh.n_nodes])

            def adjoint(u_bar):
                lam = self._host_solve(self.tangents(u, z), tf.gather(u_bar, self.mesh.interior, axis=1), True)
                with tf.GradientTape() as tape:
                    tape.watch(z)
                    r = self.weak.residual(tf.stop_gradient(u), self.latents.seen(z))
                return tape.gradient(r, z, output_gradients=-lam)

            return u, adjoint

        return field(tf.cast(z, tf.float64))

    def _newton(self, z: tf.Tensor) -> tf.Tensor:
        """From the boundary's values to r = 0; a step is halved where the residual would grow."""
        u = tf.tile(tf.constant(self.start)[None], [z.shape[0], 1])
        first = self.residual(u, z)
        enough = _TOLERANCE * tf.norm(first, axis=1)

        def step(k, u, r):
            inside = -self._host_solve(self.tangents(u, z), r, False)
            move = tf.gather(tf.pad(inside, [[0, 0], [0, 1]]), self.places, axis=1)
            size = tf.norm(r, axis=1)

            def halve(j, length, _):
                r_trial = self.residual(u + length[:, None] * move, z)
                grown = ~(tf.norm(r_trial, axis=1) <= size)
                return j + 1, tf.where(grown, length / 2, length), grown

            some = (tf.constant(0), tf.ones_like(size), tf.ones_like(size, tf.bool))
            _, length, _ = tf.while_loop(lambda j, _, grown: (j < _HALVINGS) & tf.reduce_any(grown), halve, some)
            u = u + length[:, None] * move
            return k + 1, u, self.residual(u, z)

        goes_on = lambda k, u, r: (k < _MOST_STEPS) & tf.reduce_any(tf.norm(r, axis=1) > enough)  # noqa: E731
        _, u, r = tf.while_loop(goes_on, step, (tf.constant(0), u, first))
        with tf.control_dependencies([tf.numpy_function(_converged, [tf.norm(r, axis=1), enough], tf.bool)]):
            return tf.identity(u)

    def _tangents(self, u: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """∂r_ek/∂u_el on each element; [M, E, 3, 3]."""
        seen, corners = self.latents.seen(z), [tf.gather(u, self.weak.triangles[k], axis=1) for k in range(3)]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(corners)
            r = element_residual(self.weak.equation, self.weak.elements, corners, seen)
        slopes = [tape.gradient(r_k, corners, unconnected_gradients="zero") for r_k in r]
        return tf.stack([tf.stack(row, axis=-1) for row in slopes], axis=-2)

    def _host_solve(self, K: tf.Tensor, b: tf.Tensor, transposed: bool) -> tf.Tensor:
        """L⁻¹b, or L⁻ᵀb, for each sample; b [M, N]."""
        solved = lambda K, b: self._solved(K, b, transposed)  # noqa: E731
        return tf.ensure_shape(tf.numpy_function(solved, [K, b], tf.float64), b.shape)

    def _solved(self, K: np.ndarray, b: np.ndarray, transposed: bool) -> np.ndarray:
        each = zip(self._factors(K), np.ascontiguousarray(b))
        return np.stack([one.solve(row, trans="T" if transposed else "N") for one, row in each])

    def _factors(self, K: np.ndarray) -> list:
        """Of the matrix of each sample; the last ones are kept, for the adjoint comes right after the solve."""
        key = hashlib.blake2b(np.ascontiguousarray(K)).digest()
        if self.kept[0] != key:
            self.kept = key, [factorise(self._matrix(K_m)) for K_m in K]
        return self.kept[1]

    @cached_property
    def _pattern(self):
        """Where the entries of interior pairs go in the data of a compressed matrix."""
        number, t, N = self.mesh.interior_number, self.mesh.triangles, len(self.mesh.interior)
        row, column = (np.broadcast_to(number[i], (*t.shape, 3)).ravel() for i in (t[:, :, None], t[:, None, :]))
        inside = np.flatnonzero((row >= 0) & (column >= 0))
        codes, position = np.unique(column[inside].astype(np.int64) * N + row[inside], return_inverse=True)
        return inside, position, codes % N, np.searchsorted(codes, np.arange(N + 1) * N)

    def _matrix(self, K: np.ndarray) -> sp.csc_matrix:
        inside, position, indices, indptr = self._pattern
        data = np.bincount(position, K.ravel()[inside], len(indices))
        return sp.csc_matrix((data, indices, indptr), shape=2 * (len(indptr) - 1,))

    def sensitivity(self, z: np.ndarray, read: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        z = tf.constant(z[None])
        u = self.field(z)
        (factors,) = self._factors(self.tangents(u, z).numpy())
        lam = factors.solve(read[:, self.mesh.interior].T.toarray(), trans="T").T
        rows = []
        for start in range(0, len(lam), _AT_A_TIME):
            some = np.zeros((_AT_A_TIME, lam.shape[1]))
            some[: len(lam) - start] = lam[start : start + _AT_A_TIME]
            rows.append(self._slopes(u, z, tf.constant(some)).numpy())
        return read @ u.numpy()[0], -np.concatenate(rows)[: len(lam)]

    @cached_property
    def _slopes(self):
        """λᵀ ∂r/∂z for each row of λ, in one reverse pass over as many copies of z."""

        def slopes(u, z, lam):
            copies = lam.shape[0]
            z = tf.repeat(z, copies, axis=0)
            with tf.GradientTape() as tape:
                tape.watch(z)
                r = self.weak.residual(tf.repeat(u, copies, axis=0), self.latents.seen(z))
            return tape.gradient(r, z, output_gradients=lam)

        return graph(slopes, jit_compile=True)


def _converged(size: np.ndarray, enough: np.ndarray) -> np.ndarray:
    if not (size <= np.maximum(enough, 1e-300)).all():
        raise UserError(
            f"Newton's method did not converge in {_MOST_STEPS} steps: is the equation solvable for every z of the "
            "prior? A narrower prior may help"
        )
    return np.True_
