"""The point-wise regulariser of eq:pointwise_pde_reg (as in physics-informed networks), for comparison."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from check_shapes import check_shapes

from pdevae._tensorflow import tf
from pdevae.fem.fields import Field, values
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term, flux_and_volume, require_equation
from pdevae.penalties.base import Penalty, Seed, as_seed, at_least_one


class PointwisePenalty(Penalty):
    """Mean of (−∇·F + G)² at random places, plus the mean of (μ − g)² on the boundary where g is given.

    The mesh only says where the region is: places are uniform in it, and along its boundary.

    >>> import pdevae
    >>> mesh, equation = pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0)
    >>> mu = lambda x, z: 0.5 * x[None, :, 0] * (1 - x[None, :, 0])  # −Δμ = 1, so that it has no residual
    >>> round(float(PointwisePenalty(mesh, equation)(lambda x, z: 3 * mu(x, z), None, seed=(0, 1))), 6)  # (3 − 1)²
    4.0
    """

    def __init__(
        self,
        mesh: Mesh,
        equation: Term,
        n_points: int = 256,
        n_boundary: int = 64,
        boundary: float | Callable[[tf.Tensor], tf.Tensor] | None = None,
        dtype: tf.DType = tf.float64,
    ):
        at_least_one(n_points=n_points, n_boundary=n_boundary)
        self.equation, self.boundary, self.dtype = require_equation(equation), boundary, tf.as_dtype(dtype)
        self.n_points, self.n_boundary = n_points, n_boundary
        self.interior_simplices = _Simplices(mesh.points[mesh.triangles], dtype)
        self.boundary_simplices = _Simplices(mesh.points[mesh.boundary_edges], dtype)

    def __call__(self, mu: Field, z: Any, seed: Seed) -> tf.Tensor:
        inside, along = tf.unstack(tf.random.experimental.stateless_split(as_seed(seed), 2))
        residual = strong_residual(self.equation, mu, self.interior_simplices.sample(self.n_points, inside), z)
        total = tf.reduce_mean(residual**2)
        if self.boundary is not None:
            s = self.boundary_simplices.sample(self.n_boundary, along)
            g = self.boundary(s) if callable(self.boundary) else self.boundary
            total += tf.reduce_mean((values(mu, s, z) - g) ** 2)
        return total

    def field_at(self, x: np.ndarray) -> Field:
        """μ itself: nothing here depends on the nodes."""
        places = tf.constant(np.asarray(x, float), self.dtype)
        return lambda mu, z: values(mu, places, z)


@check_shapes("x: [n, 2]", "return: [M, n]")
def strong_residual(equation: Term, mu, x: tf.Tensor, z: Any) -> tf.Tensor:
    """−∇·F + G at places x."""

    def at(x):
        u, partials = with_partials(lambda x: values(mu, x, z), x)
        return x, z, u, tf.stack(partials, axis=-1)

    here = at(x)
    F, G = flux_and_volume(equation, *here)
    residual = tf.zeros_like(here[2]) if G is None else G
    if F is not None:
        shape = tf.shape(here[3])
        for d in range(2):
            _, partials = with_partials(lambda x, d=d: tf.broadcast_to(equation.flux(*at(x)), shape)[..., d], x)
            residual -= partials[d]
    return residual


def with_partials(function, x: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """u = function(x) [M, n] and its derivatives along both axes, u_mn depending on x_n alone.

    v = Σ_m g_mn ∂u_mn/∂x_n is linear in g, and its derivative in g is the one wanted: two reverse passes for any M.
    (TensorFlow's forward mode gives wrong gradients when differentiated again inside a graph.)
    """
    with tf.GradientTape(persistent=True) as outer:
        with tf.GradientTape() as inner:
            inner.watch(x)
            u = function(x)
        g = tf.ones_like(u)
        outer.watch(g)
        v = inner.gradient(u, x, output_gradients=g, unconnected_gradients="zero")
        along = tf.unstack(v, num=2, axis=1)
    return u, [outer.gradient(part, g, unconnected_gradients="zero") for part in along]


class _Simplices:
    """Triangles or segments, as a place to draw uniform points from."""

    def __init__(self, corners: np.ndarray, dtype):
        first = corners[:, 1] - corners[:, 0]
        if corners.shape[1] == 3:
            second = corners[:, 2] - corners[:, 0]
            size = np.abs(first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0])
        else:
            size = np.linalg.norm(first, axis=1)
        self.cumulative = tf.constant(np.cumsum(size) / size.sum())
        self.corners = tf.constant(corners, dtype)

    def sample(self, n: int, seed) -> tf.Tensor:
        which, within = tf.unstack(tf.random.experimental.stateless_split(seed, 2))
        place = tf.searchsorted(self.cumulative, tf.random.stateless_uniform([n], which, dtype=tf.float64))
        place = tf.minimum(place, len(self.corners) - 1)
        # normalised exponentials are uniform on a simplex
        weight = -tf.math.log(tf.random.stateless_uniform([n, self.corners.shape[1]], within, 1e-300, 1.0, tf.float64))
        weight = tf.cast(weight / tf.reduce_sum(weight, axis=1, keepdims=True), self.corners.dtype)
        return tf.reduce_sum(weight[..., None] * tf.gather(self.corners, place), axis=1)
