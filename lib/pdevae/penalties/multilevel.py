"""Multilevel mini-patches: patches on every mesh of a hierarchy, an exact solve only on the coarsest.

From about 10⁴ nodes on, a step costs the same on any mesh, and the penalty stays equivalent to rᵀA⁻¹r. The residual at
a coarse hat is Πᵀr, a sum over all fine nodes under it; it is estimated from a few of them, drawn in proportion to
the hat's value there. Two independent draws a, b make the quadratic term r_aᵀ B r_b unbiased.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from check_shapes import check_shapes
from scipy.sparse.linalg import LinearOperator

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.elements import elements
from pdevae.fem.fields import Field, values
from pdevae.fem.mesh import Mesh, rings
from pdevae.fem.operators import Term, element_residual
from pdevae.fem.transfer import coarser_meshes, prolongation
from pdevae.fem.weak_form import Boundary, WeakForm, stiffness
from pdevae.penalties.base import Inverse, Penalty, Seed, at_least_one
from pdevae.penalties.minipatches import Patches, merge, patches
from pdevae.penalties.patch_residual import PatchTables, local_quadratic_form, root_cover, whitenings
from pdevae.penalties.two_level import LocalPart


class SampledResidual:
    """Unbiased draws of Πᵀr for any columns of Π, from s fine nodes under each coarse hat."""

    def __init__(self, weak: WeakForm, Pi: sp.csc_matrix, ring: tf.Tensor):
        self.weak, self.ring = weak, ring
        self.interior = tf.constant(weak.mesh.interior, tf.int32)
        share, other = alias_tables(Pi)
        self.under = tf.constant(Pi.indices, tf.int32)  # the fine nodes under a hat, column by column
        self.share, self.instead = tf.constant(share), tf.constant(Pi.indices[other], tf.int32)
        self.first, self.count = tf.constant(Pi.indptr[:-1], tf.int32), tf.constant(np.diff(Pi.indptr), tf.int32)
        self.mass = tf.constant(Pi.sum(axis=0).A1, weak.dtype)

    @check_shapes("columns: [P, Q]", "return: [2, M, P, Q]")
    def two_draws(self, mu, z: Any, columns: tf.Tensor, s: int, seed) -> tf.Tensor:
        """r̂_q = S_q/s Σ_t r_{j_t}, j_t ~ Π_jq / S_q, stratified over t; twice."""
        P, Q = columns.shape
        u = tf.random.stateless_uniform([2, P, Q, s], seed, dtype=tf.float64)
        u = (u + tf.range(s, dtype=tf.float64)) / s
        first, count = (tf.gather(table, columns)[..., None] for table in (self.first, self.count))
        landed = u * tf.cast(count, tf.float64)
        slot = tf.minimum(tf.cast(landed, tf.int32), count - 1)
        place = first + slot
        stays = landed - tf.cast(slot, tf.float64) < tf.gather(self.share, place)
        node = tf.where(stays, tf.gather(self.under, place), tf.gather(self.instead, place))
        r = tf.reduce_mean(tf.reshape(self._rows(mu, z, tf.reshape(node, [-1])), [-1, 2, P, Q, s]), axis=-1)
        return tf.transpose(r * tf.gather(self.mass, columns), [1, 0, 2, 3])

    def _rows(self, mu, z, j: tf.Tensor) -> tf.Tensor:
        """(L[z]μ − f)_j from the fan of elements around each node j (interior numbers, [B]); [M, B]."""
        centre, ring = tf.gather(self.interior, j), tf.gather(self.ring, j)
        B, V = ring.shape
        nodes = tf.reshape(tf.concat([centre[:, None], ring], axis=1), [-1])
        x = tf.gather(self.weak.x, nodes)
        u = self.weak.with_boundary(values(mu, x, z), z, nodes)
        fan = elements(tf.stack(_corners_of_fan(tf.reshape(x, [B, V + 1, 2]), axis=1)))
        u_k = _corners_of_fan(tf.reshape(u, [-1, B, V + 1]), axis=2)
        r = element_residual(self.weak.equation, fan, u_k, z)[0]
        return tf.reduce_sum(tf.reshape(r, [-1, B, V]), axis=-1)


def alias_tables(Pi: sp.csc_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Walker's tables by column: entry i of n, drawn with chance 1/n, stays with chance share_i and is else exchanged
    for other_i; then i comes in proportion to Π_i. Two look-ups, however many nodes there are under a hat.

    An entry below the column's mean is filled up from one above it. The deficits and excesses, each laid end to end,
    cover the same stretch: an entry is filled from where its deficit begins; what overhangs, by the next one.
    """
    count = np.diff(Pi.indptr)
    column = np.repeat(np.arange(len(count)), count)
    size = Pi.data * (count / np.maximum(Pi.sum(axis=0).A1, 1e-300))[column]  # mean 1 in each column
    above = size >= 1 - 1e-12
    low, high = np.flatnonzero(~above), np.flatnonzero(above)
    filled, given = np.cumsum(1 - size[low]), np.cumsum(np.maximum(size[high] - 1, 0))
    share, other = np.minimum(size, 1.0), np.arange(len(size))

    many = np.bincount(column[high], minlength=len(count))
    ends = np.cumsum(many)  # of each column among the high entries
    begins = np.concatenate([[0.0], filled])[:-1]
    giver = np.searchsorted(given, begins, side="right")
    mine = column[low]
    other[low] = high[np.clip(giver, (ends - many)[mine], ends[mine] - 1)]  # rounding must not leave the column

    if len(low):
        last = np.minimum(np.searchsorted(filled, given), len(low) - 1)  # the low entry that overhangs
        overhangs = (begins[last] < given) & (mine[last] == column[high])
        following = np.minimum(np.arange(len(high)) + 1, ends[column[high]] - 1)
        share[high] = 1 - np.where(overhangs & (high[following] != high), np.clip(filled[last] - given, 0, 1), 0.0)
        other[high] = high[following]
    return share, other


def _corners_of_fan(at_nodes: tf.Tensor, axis: int) -> list[tf.Tensor]:
    """For each element around a node: the node, a neighbour, the next neighbour; the node comes first on ``axis``."""
    centre, ring = tf.split(at_nodes, [1, at_nodes.shape[axis] - 1], axis=axis)
    corners = tf.broadcast_to(centre, tf.shape(ring)), ring, tf.roll(ring, -1, axis=axis)
    B, V = ring.shape[axis - 1], ring.shape[axis]
    flat = [*(ring.shape[: axis - 1]), B * V, *(ring.shape[axis + 1 :])]
    return [tf.reshape(corner, [-1 if size is None else size for size in flat]) for corner in corners]


class CoarsePatches:
    """Mini-patches on the meshes between the finest and the coarsest, with sampled residuals."""

    def __init__(self, weak: WeakForm, meshes: list[Mesh], ring: tf.Tensor, patch_nodes: int, centres):
        parts = [patches(mesh, patch_nodes=patch_nodes, centres=centres) for mesh in meshes]
        self.patches: Patches = merge(parts)
        self.Pi = sp.hstack([prolongation(mesh, weak.mesh) for mesh in meshes], format="csc")
        self.residual = SampledResidual(weak, self.Pi, ring)
        self.whitening = whitenings(PatchTables(self.patches), root_cover(self.patches), weak.dtype)
        self.per_level = tf.constant([len(part.centres) for part in parts], tf.int32)
        number = self.patches.mesh.interior_number[self.patches.nodes[:, : self.patches.Q]]
        self.columns = tf.constant(np.maximum(number, 0), tf.int32)  # of Π; unused slots have no weight

    def pair(self, mu, z, seed, P: int, draws: int) -> tuple[tf.Tensor, tf.Tensor]:
        """P patches; the levels take turns from a random start, so each has the same chance."""
        seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
        L = self.per_level.shape[0]
        level = (tf.random.stateless_uniform([], seeds[0], maxval=L, dtype=tf.int32) + tf.range(P)) % L
        size = tf.gather(self.per_level, level)
        u = tf.random.stateless_uniform([P], seeds[1], dtype=tf.float64)
        within = tf.cast(u * tf.cast(size, tf.float64), tf.int32)
        index = tf.gather(tf.cumsum(self.per_level, exclusive=True), level) + within
        scale = tf.cast(L * size, self.whitening.dtype)
        a, b = self.whitened(mu, z, index, draws, seeds[2])
        flat = [-1, P * self.columns.shape[1]]
        return tf.reshape(scale[:, None] / P * a, flat), tf.reshape(b, flat)

    @check_shapes("index: [P]")
    def whitened(self, mu, z: Any, index: tf.Tensor, draws: int, seed) -> list[tf.Tensor]:
        """C⁻¹(D r)_p, A_QQ = CCᵀ, for two independent draws of r; [M, P, Q] each."""
        r = self.residual.two_draws(mu, z, tf.gather(self.columns, index), draws, seed)
        return tf.unstack(tf.einsum("pyq,dmpq->dmpy", tf.gather(self.whitening, index), r))


class CoarsestSolve:
    """r_aᵀA_c⁻¹r_b on a mesh so small that its inverse is a small dense matrix."""

    def __init__(self, weak: WeakForm, mesh: Mesh, ring: tf.Tensor):
        self.Pi = prolongation(mesh, weak.mesh)
        self.inverse = Inverse(stiffness(mesh), weak.dtype)
        self.residual = SampledResidual(weak, self.Pi, ring)

    def pair(self, mu, z, seed, draws: int) -> tuple[tf.Tensor, tf.Tensor]:
        columns = tf.range(self.Pi.shape[1])[None]
        r_a, r_b = tf.unstack(self.residual.two_draws(mu, z, columns, draws, seed)[:, :, 0])
        return self.inverse.times(r_a), r_b


class MultilevelPenalty(Penalty):
    """``n_patches`` patches on the mesh, ``coarse_patches`` on coarser ones, and a solve on the coarsest.

    Meshes are ``factor`` times as wide from one to the next, until one has at most ``coarsest`` interior nodes;
    ``draws`` is the number of fine nodes sampled under a coarse hat. ``centres`` as for :class:`TwoLevelPenalty`.

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
        centres: Literal["covering"] | None = "covering",
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

    def pair(self, mu: Field, z: Any, seed: Seed | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """The coarse residuals that a and b see are two draws of one."""
        if seed is None:
            raise UserError("the multilevel penalty samples what is under its coarse hats: give pair() a seed")
        seeds = tf.unstack(tf.random.experimental.stateless_split(seed, 3))
        local = self.local.rows(mu, z, seeds[0], self.n_patches)
        parts = [(local, local), self.coarsest.pair(mu, z, seeds[1], self.draws)]
        if self.coarse is not None:
            parts.append(self.coarse.pair(mu, z, seeds[2], self.coarse_patches, self.draws))
        a, b = (tf.concat(rows, axis=1) for rows in zip(*parts))
        return a, b

    def quadratic_form(self):
        A = stiffness(self.weak.mesh)
        local = local_quadratic_form(self.local.patches, A)
        parts = [(self.coarsest.Pi, np.asarray(self.coarsest.inverse.dense))]
        if self.coarse is not None:
            p = self.coarse.patches
            parts.append((self.coarse.Pi, local_quadratic_form(p, stiffness(p.mesh))))
        return LinearOperator(
            A.shape, matvec=lambda r: local @ r + sum(Pi @ (B @ (Pi.T @ r)) for Pi, B in parts), dtype=float
        )
