"""Multilevel mini-patches: patches on every mesh of a hierarchy, an exact solve only on the coarsest.

A step costs the same on 10³ nodes as on 10⁶, and the penalty stays equivalent to rᵀA⁻¹r. The residual at a
coarse hat is Πᵀr, a sum over all fine nodes under it; it is estimated from a few of them, drawn in proportion to
the hat's value there. Two independent draws a, b make the quadratic term r_aᵀ B r_b unbiased.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from check_shapes import check_shapes
from scipy.sparse.linalg import LinearOperator

from .._tensorflow import tf
from ..elements import elements
from ..fields import Field, values
from ..hierarchy import coarser_meshes, prolongation
from ..mesh import Mesh, rings
from ..minipatches import Patches, merge, patches
from ..operators import Term, element_residual
from ..weak_form import Boundary, WeakForm, stiffness
from .base import Penalty, Seed, as_seed, at_least_one
from .patch_residual import PatchTables, half_solve, local_factors, local_quadratic_form, test_indicators
from .two_level import LocalPart


class SampledResidual:
    """Unbiased draws of Πᵀr for any columns of Π, from s fine nodes under each coarse hat."""

    def __init__(self, weak: WeakForm, Pi: sp.csc_matrix, ring: tf.Tensor):
        self.weak, self.ring = weak, ring
        self.interior = tf.constant(weak.mesh.interior, tf.int32)
        self.under = tf.constant(Pi.indices, tf.int32)  # the fine nodes under a hat, column by column
        self.first = tf.constant(Pi.indptr[:-1], tf.int32)
        self.last = tf.constant(Pi.indptr[1:] - 1, tf.int32)
        # cumulative weights: one binary search finds the node at which a uniform draw lands
        cumulative = np.concatenate([[0.0], np.cumsum(Pi.data)])
        self.cumulative = tf.constant(cumulative)
        self.start = tf.constant(cumulative[Pi.indptr[:-1]])
        self.mass = tf.constant(np.diff(cumulative[Pi.indptr]))

    @check_shapes("columns: [P, Q]", "return: [2, M, P, Q]")
    def two_draws(self, mu, z: Any, columns: tf.Tensor, s: int, seed) -> tf.Tensor:
        """r̂_q = S_q/s Σ_t r_{j_t}, j_t ~ Π_jq / S_q, stratified over t; twice."""
        P, Q = columns.shape
        u = tf.random.stateless_uniform([2, P, Q, s], seed, dtype=tf.float64)
        u = (u + tf.range(s, dtype=tf.float64)) / s
        start, mass, first, last = (
            tf.gather(table, columns)[..., None] for table in (self.start, self.mass, self.first, self.last)
        )
        place = tf.searchsorted(self.cumulative, tf.reshape(start + u * mass, [-1]), side="right") - 1
        place = tf.clip_by_value(tf.reshape(place, [2, P, Q, s]), first, last)
        r = self._rows(mu, z, tf.reshape(tf.gather(self.under, place), [-1]))
        r = tf.reduce_mean(tf.reshape(r, [-1, 2, P, Q, s]), axis=-1) * tf.cast(mass[..., 0], r.dtype)
        return tf.transpose(r, [1, 0, 2, 3])

    def _rows(self, mu, z, j: tf.Tensor) -> tf.Tensor:
        """(L[z]μ − f)_j from the fan of elements around each node j (interior numbers, [B]); [M, B]."""
        centre, ring = tf.gather(self.interior, j), tf.gather(self.ring, j)
        nodes = tf.reshape(tf.concat([centre[:, None], ring], axis=1), [-1])
        B, V = ring.shape
        u = self.weak.with_boundary(values(mu, tf.gather(self.weak.x, nodes), z), nodes)
        # corners of the fan's elements: the centre, a neighbour, the next neighbour
        slots = tf.stack([tf.zeros([V], tf.int32), 1 + tf.range(V), 1 + tf.roll(tf.range(V), -1, axis=0)])
        places = tf.reshape(slots[:, None] + (V + 1) * tf.range(B)[:, None], [3, -1])
        fan = elements(tf.gather(tf.gather(self.weak.x, nodes), places))
        u_k = [tf.gather(u, place, axis=1) for place in tf.unstack(places, num=3)]
        r = element_residual(self.weak.equation, fan, u_k, z)[0]
        return tf.reduce_sum(tf.reshape(r, [-1, B, V]), axis=-1)


class CoarsePatches:
    """Mini-patches on the meshes between the finest and the coarsest, with sampled residuals."""

    def __init__(self, weak: WeakForm, meshes: list[Mesh], ring: tf.Tensor, patch_nodes: int, centres):
        parts = [patches(mesh, patch_nodes=patch_nodes, centres=centres) for mesh in meshes]
        self.patches: Patches = merge(parts)
        self.Pi = sp.hstack([prolongation(mesh, weak.mesh) for mesh in meshes], format="csc")
        self.residual = SampledResidual(weak, self.Pi, ring)
        self.tables = PatchTables(self.patches, weak.dtype)
        self.per_level = tf.constant([len(part.centres) for part in parts], tf.int32)
        number = self.patches.mesh.interior_number
        self.column = tf.constant(np.maximum(number, 0), tf.int32)
        self.weight = tf.constant(1 / np.sqrt(self.patches.cover[np.maximum(number, 0)]), weak.dtype)

    def estimate(self, mu, z, seed, P: int, draws: int) -> tf.Tensor:
        """P patches; the levels take turns from a random start, so each has the same chance."""
        seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
        L = self.per_level.shape[0]
        level = (tf.random.stateless_uniform([], seeds[0], maxval=L, dtype=tf.int32) + tf.range(P)) % L
        size = tf.gather(self.per_level, level)
        u = tf.random.stateless_uniform([P], seeds[1], dtype=tf.float64)
        within = tf.cast(u * tf.cast(size, tf.float64), tf.int32)
        index = tf.gather(tf.cumsum(self.per_level, exclusive=True), level) + within
        scale = tf.cast(L * size, self.weight.dtype)
        return tf.reduce_mean(scale * self.terms(mu, z, index, draws, seeds[2]))

    @check_shapes("index: [P]", "return: [M, P]")
    def terms(self, mu, z: Any, index: tf.Tensor, draws: int, seed) -> tf.Tensor:
        """(D r_a)_pᵀ A_QQ⁻¹ (D r_b)_p with two independent draws of r."""
        Q, dtype = self.tables.Q, self.weight.dtype
        batch = self.tables.batch(index)
        is_test = tf.gather(self.tables.is_test, index)
        tests = batch.nodes[:, :Q]
        r = self.residual.two_draws(mu, z, tf.gather(self.column, tests), draws, seed)
        r *= tf.where(is_test, tf.gather(self.weight, tests), 0.0)
        factors = local_factors(batch, test_indicators(batch, Q, dtype), is_test)
        y_a, y_b = (half_solve(factors, r_draw) for r_draw in tf.unstack(r))
        return tf.reduce_sum(y_a * y_b, axis=-1)


class CoarsestSolve:
    """r_aᵀA_c⁻¹r_b on a mesh so small that its inverse is a small dense matrix."""

    def __init__(self, weak: WeakForm, mesh: Mesh, ring: tf.Tensor):
        self.Pi = prolongation(mesh, weak.mesh)
        self.inverse = np.linalg.inv(stiffness(mesh).toarray())
        self.residual = SampledResidual(weak, self.Pi, ring)

    def estimate(self, mu, z, seed, draws: int) -> tf.Tensor:
        columns = tf.range(self.Pi.shape[1])[None]
        r_a, r_b = tf.unstack(self.residual.two_draws(mu, z, columns, draws, seed)[:, :, 0])
        return tf.reduce_mean(tf.reduce_sum(r_a @ tf.constant(self.inverse, r_a.dtype) * r_b, axis=-1))


class MultilevelPenalty(Penalty):
    """``n_patches`` patches on the mesh, ``coarse_patches`` on coarser ones, and a solve on the coarsest.

    Meshes are ``factor`` times as wide from one to the next, until one has at most ``coarsest`` interior nodes;
    ``draws`` is the number of fine nodes sampled under a coarse hat. ``centres="covering"`` draws from a fifth of the
    patches that still test each node.

    >>> import pdevae
    >>> mesh, equation = pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0)
    >>> mu = lambda x, z: 0.5 * x[None, :, 0] * (1 - x[None, :, 0])  # −Δμ = 1, so that it has no residual
    >>> penalty = MultilevelPenalty(mesh, equation, patch_nodes=16)
    >>> abs(float(penalty(mu, None, seed=(0, 1)))) < 1e-20
    True
    """

    def __init__(
        self,
        mesh: Mesh,
        equation: Term,
        patch_nodes: int = 32,
        n_patches: int = 16,
        coarse_patches: int = 1,
        draws: int = 1,
        factor: float = 4.0,
        coarsest: int = 64,
        boundary: Boundary = None,
        centres: Literal["covering"] | None = None,
        dtype: tf.DType = tf.float64,
    ):
        at_least_one(n_patches=n_patches, coarse_patches=coarse_patches, draws=draws)
        self.weak = WeakForm(mesh, equation, boundary, dtype)
        *between, last = coarser_meshes(mesh, factor, coarsest)
        self.local = LocalPart(self.weak, patches(mesh, patch_nodes=patch_nodes, centres=centres))
        ring = tf.constant(rings(mesh))
        self.coarse = CoarsePatches(self.weak, between, ring, patch_nodes, centres) if between else None
        self.coarsest = CoarsestSolve(self.weak, last, ring)
        self.n_patches, self.coarse_patches, self.draws = n_patches, coarse_patches, draws

    def __call__(self, mu: Field, z: Any, seed: Seed) -> tf.Tensor:
        seeds = tf.unstack(tf.random.experimental.stateless_split(as_seed(seed), 3))
        total = self.local.estimate(mu, z, seeds[0], self.n_patches)
        total += self.coarsest.estimate(mu, z, seeds[1], self.draws)
        if self.coarse is not None:
            total += self.coarse.estimate(mu, z, seeds[2], self.coarse_patches, self.draws)
        return total

    def quadratic_form(self):
        A = stiffness(self.weak.mesh)
        local = local_quadratic_form(self.local.patches, A)
        parts = [(self.coarsest.Pi, self.coarsest.inverse)]
        if self.coarse is not None:
            p = self.coarse.patches
            parts.append((self.coarse.Pi, local_quadratic_form(p, stiffness(p.mesh))))
        return LinearOperator(
            A.shape, matvec=lambda r: local @ r + sum(Pi @ (B @ (Pi.T @ r)) for Pi, B in parts), dtype=float
        )
