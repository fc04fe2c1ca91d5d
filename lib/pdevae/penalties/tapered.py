"""The paper's mini-patch penalty: A⁻¹ replaced by its taper Γ = A⁻¹ ∘ K (Section 4, supplement)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, aslinearoperator
from tqdm.auto import tqdm

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.factors import factorise
from pdevae.fem.fields import Field
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.fem.weak_form import Boundary, WeakForm, stiffness
from pdevae.penalties.base import Penalty, Seed, at_least_one, sample_patches
from pdevae.penalties.minipatches import Patches, patches
from pdevae.penalties.patch_residual import PatchTables, patch_residuals

TAPERS = {
    "hard": lambda s: np.where(s < 1, 1.0, 0.0),  # the supplement's choice
    "wendland": lambda s: np.where(s < 1, (1 - s) ** 4 * (4 * s + 1), 0.0),  # Wendland's C², positive definite
}


class TaperedPenalty(Penalty):
    """P rows of Σ_i r_i Σ_j Γ_ij r_j, Γ_ij = (A⁻¹)_ij K(|x_i − x_j| / ρ).

    ``normalisation="unbiased"`` scales by N/P and estimates the whole sum; ``"paper"`` by 1/P as printed in
    eq:mc_approx_to_reg, which estimates the sum divided by N. ``centres`` restricts the patches to some nodes:
    only their rows of A⁻¹ are computed.

    >>> import pdevae
    >>> mesh, equation = pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0)
    >>> mu = lambda x, z: 0.5 * x[None, :, 0] * (1 - x[None, :, 0])  # −Δμ = 1, so that it has no residual
    >>> penalty = TaperedPenalty(mesh, equation, patch_nodes=16, n_patches=64)
    >>> abs(float(penalty(mu, None, seed=(0, 1)))) < 1e-20
    True
    >>> B = penalty.quadratic_form()  # Γ, of which the step's patches are a sample
    >>> B.shape
    (324, 324)
    """

    def __init__(
        self,
        mesh: Mesh,
        equation: Term,
        rho: float | None = None,
        patch_nodes: int | None = None,
        n_patches: int = 1,
        taper: Literal["hard", "wendland"] = "hard",
        normalisation: Literal["unbiased", "paper"] = "unbiased",
        boundary: Boundary = None,
        centres: np.ndarray | None = None,
        dtype: tf.DType = tf.float64,
    ):
        if taper not in TAPERS:
            raise UserError(f"unknown taper {taper!r}: use one of {', '.join(TAPERS)}")
        if normalisation not in ("unbiased", "paper"):
            raise UserError(f"unknown normalisation {normalisation!r}: use unbiased or paper")
        at_least_one(n_patches=n_patches)
        self.weak = WeakForm(mesh, equation, boundary, dtype)
        if centres is None:
            self.patches, self.Gamma = _every_row(mesh, rho, patch_nodes, taper)
        else:
            self.patches = patches(mesh, rho, patch_nodes, centres)
            self.Gamma = tapered_rows(self.patches, taper)
        self.tables = PatchTables(self.patches, dtype)
        # the row of Γ by slot, zero at the slots that are no test nodes
        self.Gamma_slots = tf.constant(np.pad(self.Gamma, [(0, 0), (0, self.patches.K - self.patches.Q)]), dtype)
        self.n_patches = n_patches
        self.scale = len(mesh.interior) if normalisation == "unbiased" else 1.0

    def pair(self, mu: Field, z: Any, seed: Seed | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """w_i and Σ_j Γ_ij w_j, w = L[z]μ − f, by patch (eq:mc_approx_to_reg): no norm, so the two differ."""
        C = self.tables.C
        index = tf.range(C) if seed is None else sample_patches(seed, self.n_patches, C)
        w = patch_residuals(self.weak, self.tables.batch(index), mu, z)
        tested = tf.reduce_sum(tf.gather(self.Gamma_slots, index) * w, axis=-1)
        return self.scale / index.shape[0] * w[..., 0], tested

    def quadratic_form(self) -> LinearOperator:
        """Γ itself; needs all interior nodes as centres."""
        return aslinearoperator(gamma_matrix(self.patches, self.Gamma))


@lru_cache(maxsize=2)
def _every_row(mesh: Mesh, rho: float | None, patch_nodes: int | None, taper: str) -> tuple[Patches, np.ndarray]:
    """Kept: a solve for every node is most of the set-up, and the same for every schedule and number of patches."""
    p = patches(mesh, rho, patch_nodes)
    return p, tapered_rows(p, taper)


def tapered_rows(p: Patches, taper: str) -> np.ndarray:
    """[C, Q] the row Γ_i· of each centre at its test nodes; one solve with A per centre, in blocks."""
    number = p.mesh.interior_number
    factors = factorise(stiffness(p.mesh))
    N = len(p.mesh.interior)
    block = int(np.clip(2e5 // N, 8, 256))  # right-hand sides that stay in the processor's cache
    Gamma = np.zeros((len(p.centres), p.Q))
    for start in tqdm(range(0, len(p.centres), block), "rows of A⁻¹", delay=3, leave=False):
        rows = slice(start, start + block)
        centre = number[p.centres[rows]]
        unit = np.zeros((N, len(centre)))
        unit[centre, np.arange(len(centre))] = 1.0
        columns = factors.solve(unit)  # A⁻¹ e_i
        Gamma[rows] = columns[number[p.nodes[rows, : p.Q]], np.arange(len(centre))[:, None]]
    distance = np.linalg.norm(p.mesh.points[p.nodes[:, : p.Q]] - p.mesh.points[p.centres][:, None], axis=-1)
    return Gamma * TAPERS[taper](distance / p.rho) * p.is_test


def gamma_matrix(p: Patches, Gamma: np.ndarray) -> sp.csr_matrix:
    """Γ as a sparse matrix [N, N]."""
    if len(p.centres) != len(p.mesh.interior):
        raise UserError("Γ as a matrix needs every interior node as a centre: leave centres=None")
    like = p.test_matrix
    return sp.csr_matrix((Gamma[p.is_test], like.indices, like.indptr), shape=2 * (len(p.centres),))
