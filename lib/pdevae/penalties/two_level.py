"""Two-level mini-patches: local solves on patches plus a coarse solve (overlapping additive Schwarz).

Replaces the taper. Average over patches of r_Qᵀ A_QQ⁻¹ r_Q, plus r_cᵀ A_c⁻¹ r_c with r_c = Πᵀr on a coarse
mesh with H ≈ ρ: positive definite, and equivalent to rᵀA⁻¹r with constants that do not depend on N.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from check_shapes import check_shapes
from scipy.sparse.linalg import LinearOperator

from pdevae._tensorflow import tf
from pdevae.fem.fields import Field
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.fem.transfer import coarser, prolongation
from pdevae.fem.weak_form import Boundary, WeakForm, stiffness
from pdevae.penalties.base import Inverse, Seed, WholeResidual, as_seed, at_least_one, sample_patches
from pdevae.penalties.minipatches import Patches, patches
from pdevae.penalties.patch_residual import PatchTables, local_quadratic_form, patch_residuals, root_cover, whitenings


class LocalPart:
    """Σ_p (Dr)_pᵀ A_QQ⁻¹ (Dr)_p over the patches of a mesh, D² = 1/(number of patches that test a node)."""

    def __init__(self, weak: WeakForm, p: Patches):
        self.weak, self.patches = weak, p
        self.tables = PatchTables(p, weak.dtype)
        number = p.mesh.interior_number[p.nodes[:, : p.Q]]
        self.tests = tf.constant(np.where(p.is_test, number, 0), tf.int32)  # unused slots have no weight
        self.whitening = whitenings(PatchTables(p), root_cover(p), weak.dtype)

    @check_shapes("index: [P]", "return: [M, P, Q]")
    def whitened(self, mu, z: Any, index: tf.Tensor) -> tf.Tensor:
        """C⁻¹(Dr)_p for the patches ``index``, A_QQ = CCᵀ."""
        r = patch_residuals(self.weak, self.tables.batch(index), mu, z)[..., : self.tables.Q]
        return tf.einsum("pyq,mpq->mpy", tf.gather(self.whitening, index), r)

    def rows(self, mu, z, seed, P: int) -> tf.Tensor:
        """Of P patches drawn; of all where these are no more, or without a seed; [M, R]."""
        if seed is None or P >= self.tables.C:
            return self.rows_of(self.weak.residual(self.weak.values(mu, z), z), seed, P)
        return self._flat(self.whitened(mu, z, sample_patches(seed, P, self.tables.C)))

    def rows_of(self, r: tf.Tensor, seed, P: int) -> tf.Tensor:
        """The same where the residual r [M, N] of the whole mesh is at hand: patches overlap and share it."""
        everywhere = seed is None or P >= self.tables.C
        index = tf.range(self.tables.C) if everywhere else sample_patches(seed, P, self.tables.C)
        r = tf.gather(r, tf.gather(self.tests, index), axis=1)
        return self._flat(tf.einsum("pyq,mpq->mpy", tf.gather(self.whitening, index), r))

    def _flat(self, y: tf.Tensor) -> tf.Tensor:
        """Of some patches [M, P, Q], for all of them; [M, P·Q]."""
        _, P, Q = y.shape
        return tf.reshape(np.sqrt(self.tables.C / P) * y, [-1, P * Q])


class CoarsePart:
    """r_cᵀA_c⁻¹r_c with r_c = Πᵀr, the residual tested with the hats of a coarser mesh of the same region."""

    def __init__(self, mesh: Mesh, coarse: Mesh, dtype: tf.DType = tf.float64):
        self.mesh = coarse
        Pi = prolongation(coarse, mesh)
        self.Pi = Pi[:, np.flatnonzero(np.diff(Pi.indptr))]  # a hat may have no fine node under it
        self.inverse = Inverse(self.Pi.T @ stiffness(mesh) @ self.Pi, dtype)
        entries = self.Pi.tocoo()
        self.fine, self.hat = (tf.constant(i, tf.int32) for i in (entries.row, entries.col))
        self.weight = tf.constant(entries.data[:, None], dtype)

    def restricted(self, r: tf.Tensor) -> tf.Tensor:
        """Πᵀr for each row of r [M, N]."""
        under = self.weight * tf.gather(tf.transpose(r), self.fine)
        return tf.transpose(tf.math.unsorted_segment_sum(under, self.hat, self.Pi.shape[1]))

    def apply(self, r: np.ndarray) -> np.ndarray:
        return self.Pi @ self.inverse.factors.solve(self.Pi.T @ r)


class TwoLevelPenalty(WholeResidual):
    """``n_patches`` local solves with ``patch_nodes`` test nodes on average, and the coarse solve.

    Patches are drawn from a few that cover the mesh (``centres="covering"``), or from one around each interior node
    (``None``): nearly the same norm, with tables five times as large.

    >>> import pdevae
    >>> mesh, equation = pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0)
    >>> mu = lambda x, z: 0.5 * x[None, :, 0] * (1 - x[None, :, 0])  # −Δμ = 1, so that it has no residual
    >>> penalty = TwoLevelPenalty(mesh, equation, patch_nodes=16)
    >>> float(penalty(mu, None, seed=(0, 1))) < 1e-20
    True
    >>> twice = lambda x, z: 2 * mu(x, z)
    >>> round(float(penalty(twice, None, seed=(0, 1)) / pdevae.ExactPenalty(mesh, equation)(twice, None)))
    1
    """

    def __init__(
        self,
        mesh: Mesh,
        equation: Term,
        patch_nodes: int | None = 32,
        rho: float | None = None,
        n_patches: int = 16,
        boundary: Boundary = None,
        centres: np.ndarray | Literal["covering"] | None = "covering",
        dtype: tf.DType = tf.float64,
    ):
        at_least_one(n_patches=n_patches)
        self.weak = WeakForm(mesh, equation, boundary, dtype)
        self.local = LocalPart(self.weak, patches(mesh, rho, None if rho else patch_nodes, centres))
        self.coarse = CoarsePart(mesh, coarser(mesh, max_edge=self.local.patches.rho), self.weak.dtype)
        self.compiles = self.coarse.inverse.compiles
        self.n_patches = n_patches

    def __call__(self, mu: Field, z: Any, seed: Seed) -> tf.Tensor:
        r = self.residual(mu, z)
        local = self.local.rows_of(r, as_seed(seed), self.n_patches)
        coarse = self.coarse.inverse.norm(self.coarse.restricted(r))  # one solve where whitening would take two
        return tf.reduce_mean(tf.reduce_sum(local**2, axis=1) + coarse)

    def rows_of(self, r: tf.Tensor, seed: Seed | None = None) -> tf.Tensor:
        local = self.local.rows_of(r, seed, self.n_patches)
        return tf.concat([local, self.coarse.inverse.whiten(self.coarse.restricted(r))], axis=1)

    def quadratic_form(self):
        A = stiffness(self.weak.mesh)
        local = local_quadratic_form(self.local.patches, A)
        return LinearOperator(A.shape, matvec=lambda r: local @ r + self.coarse.apply(r), dtype=float)
