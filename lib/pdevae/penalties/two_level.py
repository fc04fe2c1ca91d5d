"""Two-level mini-patches: local solves on patches plus a coarse solve (overlapping additive Schwarz).

Replaces the taper. Average over patches of r_Qᵀ A_QQ⁻¹ r_Q, plus r_cᵀ A_c⁻¹ r_c with r_c = Πᵀr on a coarse
mesh with H ≈ ρ: positive definite, and equivalent to rᵀA⁻¹r with constants that do not depend on N.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from check_shapes import check_shapes
from scipy.sparse.linalg import LinearOperator

from .._tensorflow import tf
from ..fields import Field
from ..hierarchy import coarser, prolongation
from ..mesh import Mesh
from ..minipatches import Patches, patches
from ..operators import Term
from ..weak_form import Boundary, WeakForm, stiffness
from .base import Inverse, Penalty, Seed, as_seed, at_least_one, sample_patches
from .patch_residual import PatchTables, local_quadratic_form, patch_residuals, whitenings


class LocalPart:
    """Σ_p (Dr)_pᵀ A_QQ⁻¹ (Dr)_p over the patches of a mesh, D² = 1/(number of patches that test a node)."""

    def __init__(self, weak: WeakForm, p: Patches):
        self.weak, self.patches = weak, p
        self.tables = PatchTables(p, weak.dtype)
        self.whitening = whitenings(PatchTables(p), root_cover(p), weak.dtype)

    @check_shapes("index: [P]", "return: [M, P]")
    def terms(self, mu, z: Any, index: tf.Tensor) -> tf.Tensor:
        """(Dr)_pᵀ A_QQ⁻¹ (Dr)_p for the patches ``index``."""
        r = patch_residuals(self.weak, self.tables.batch(index), mu, z)[..., : self.tables.Q]
        return tf.reduce_sum(tf.einsum("pyq,mpq->mpy", tf.gather(self.whitening, index), r) ** 2, axis=-1)

    def estimate(self, mu, z, seed, P: int) -> tf.Tensor:
        C = self.tables.C
        return C * tf.reduce_mean(self.terms(mu, z, sample_patches(seed, P, C)))


def root_cover(p: Patches) -> np.ndarray:
    """[n] D = 1/√(number of patches that test the node); 0 on the boundary."""
    D = np.zeros(p.mesh.n_nodes)
    D[p.mesh.interior] = 1 / np.sqrt(np.maximum(p.cover, 1))  # given centres may leave nodes untested
    return D


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

    def value(self, r: tf.Tensor) -> tf.Tensor:
        """For each row of r [M, N]."""
        under = self.weight * tf.gather(tf.transpose(r), self.fine)
        return self.inverse.norm(tf.transpose(tf.math.unsorted_segment_sum(under, self.hat, self.Pi.shape[1])))

    def apply(self, r: np.ndarray) -> np.ndarray:
        return self.Pi @ self.inverse.factors.solve(self.Pi.T @ r)


class TwoLevelPenalty(Penalty):
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
        r = self.weak.residual(self.weak.values(mu, z), z)
        coarse = tf.reduce_mean(self.coarse.value(r))
        return self.local.estimate(mu, z, as_seed(seed), self.n_patches) + coarse

    def quadratic_form(self):
        A = stiffness(self.weak.mesh)
        local = local_quadratic_form(self.local.patches, A)
        return LinearOperator(A.shape, matvec=lambda r: local @ r + self.coarse.apply(r), dtype=float)
