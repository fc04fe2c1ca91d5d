"""Penalties as quadratic forms on many fields at once, for an affine equation: to be solved rather than descended.

L[z] = L₀ + z₁L₁ + z₂L₂, so the residual of Σ_k c_k t_k is linear in c, and all of a penalty that a fit needs is the
Gram matrix of (−f, L_i t_k). A form is a sum of parts, each with its own tests: all nodes, mini-patches drawn once,
the hats of a coarser mesh. Mini-patches are a fixed number per mesh, whatever its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

from ._tensorflow import tf
from .hierarchy import coarser
from .mesh import Mesh
from .minipatches import Patches, patches
from .operators import Term
from .penalties.patch_residual import PatchTables, local_factors
from .penalties.tapered import TaperedPenalty
from .penalties.two_level import CoarsePart
from .solve import factorise
from .weak_form import WeakForm, assembled, stiffness

Features = Callable[[np.ndarray], np.ndarray]  # places [n, 2] → values [n, K]


@dataclass(frozen=True, eq=False)
class Part:
    """Residuals L[z]u − f as seen by some tests, and the inverse that weighs them; u = 0 on the boundary."""

    L: tuple[sp.csr_matrix, ...]  # L₀, L₁, L₂: [tests, n]
    f: np.ndarray  # [tests]
    x: np.ndarray  # [n, 2] the places whose values u the columns of L take
    inverse: Callable[[np.ndarray], np.ndarray]

    def gram(self, features: Features) -> np.ndarray:
        """⟨v_a, v_b⟩ of the columns (−f, L₀t, L₁t, L₂t); [1 + 3K, 1 + 3K]."""
        t = features(self.x)
        v = np.hstack([-self.f[:, None], *(L @ t for L in self.L)])
        return v.T @ self.inverse(v)


Form = list[Part]


def gram(form: Form, features: Features) -> np.ndarray:
    return sum(part.gram(features) for part in form)


def exact_form(mesh: Mesh, equation: Term) -> Form:
    """rᵀA⁻¹r."""
    return [_whole(mesh, equation, factorise(stiffness(mesh)).solve)]


def tapered_form(mesh: Mesh, equation: Term, patch_nodes: int, taper: str = "hard") -> Form:
    """rᵀΓr over all rows: what the paper's penalty is without the noise of sampling; it may be indefinite."""
    Gamma = TaperedPenalty(mesh, equation, patch_nodes=patch_nodes, taper=taper).quadratic_form()
    return [_whole(mesh, equation, Gamma.matmat)]


def two_level_form(
    mesh: Mesh, equation: Term, patch_nodes: int = 32, n_patches: int = 128, coarsest: int = 1000, seed: int = 0
) -> Form:
    """Mini-patches drawn once, and a coarse solve with H ≈ ρ on r_c = Πᵀr, as long as that mesh is small.

    A coarse mesh of more than ``coarsest`` nodes gets mini-patches in its turn, and so on down to one that is small
    enough to be solved. The levels below the first then test their own interpolant of the field, so nothing ever
    touches all fine nodes; the smooth part of the field is held to the equation as the coarsest mesh discretises it.
    """
    p = _some_patches(mesh, patch_nodes, n_patches, seed)
    coarse_mesh = coarser(mesh, max_edge=p.rho)
    if coarse_mesh.n_nodes <= coarsest:
        coarse = CoarsePart(mesh, coarse_mesh)
        whole, restrict = _whole(mesh, equation, coarse.inverse.factors.solve), coarse.Pi.T.tocsr()
        return [_on_patches(p, equation), replace(whole, L=tuple(restrict @ L for L in whole.L), f=restrict @ whole.f)]
    parts, nodes = [_on_patches(p, equation)], mesh.n_nodes / 16
    while nodes > coarsest:
        level = coarser(mesh, nodes=round(nodes))
        parts, nodes = [*parts, _on_patches(_some_patches(level, patch_nodes, n_patches, seed), equation)], nodes / 16
    return parts + exact_form(coarser(mesh, nodes=coarsest), equation)


def _whole(mesh: Mesh, equation: Term, inverse) -> Part:
    """All interior nodes as tests."""
    *L, f = _affine(WeakForm(mesh, equation).element_system)
    t, inside = mesh.triangles, mesh.interior
    matrices = tuple(assembled(L_i, t, mesh.n_nodes)[inside][:, inside].tocsr() for L_i in L)
    load = np.bincount(t.ravel(), f.ravel(), mesh.n_nodes)[inside]
    return Part(matrices, load, mesh.points[inside], inverse)


def _affine(element_system) -> list[np.ndarray]:
    """K₀, K₁, K₂ [E, 3, 3] and f [E, 3] of an equation whose element matrices are affine in z."""
    at = [element_system(tf.constant([z], tf.float64)) for z in ([0.0, 0.0], [1.0, 0.0], [0.0, 1.0])]
    (K_0, f), (K_1, _), (K_2, _) = ((K.numpy()[0], f.numpy()[0]) for K, f in at)
    return [K_0, K_1 - K_0, K_2 - K_0, f]


def _some_patches(mesh: Mesh, patch_nodes: int, count: int, seed: int) -> Patches:
    """``count`` of the patches around interior nodes, without repetition; all of them if there are fewer.

    The radius is that of a disc with ``patch_nodes`` nodes in it at the mesh's mean density.
    """
    chosen = np.random.default_rng([seed, 17]).permutation(mesh.interior)[:count]
    a, b, c = (mesh.points[mesh.triangles[:, k]] for k in range(3))
    (x, y), (v, w) = (b - a).T, (c - a).T
    area = np.abs(x * w - y * v).sum() / 2
    return patches(mesh, rho=np.sqrt(patch_nodes * area / (np.pi * mesh.n_nodes)), centres=chosen)


def _on_patches(p: Patches, equation: Term) -> Part:
    """N/P Σ_p (Dr)_pᵀ A_QQ⁻¹ (Dr)_p over P of the N patches, D² = 1/(how many of the N patches test a node).

    The patches are laid out side by side as a mesh of their own, P·K nodes.
    """
    (P, Q), K, mesh = p.is_test.shape, p.K, p.mesh
    corners = np.moveaxis(p.corners.astype(int) + K * np.arange(P)[:, None, None], 1, 2).reshape(-1, 3)
    corners = corners[corners[:, 0] != corners[:, 1]]  # unused slots
    side_by_side = Mesh(mesh.points[p.nodes].reshape(-1, 2), corners)
    *L, f = _affine(WeakForm(side_by_side, equation).element_system)
    D = sp.diags(_weights(p).ravel())
    tests = (K * np.arange(P)[:, None] + np.arange(Q)).ravel()
    inside = ~mesh.is_boundary[p.nodes].ravel()
    rows = tuple((D @ assembled(L_i, corners, P * K)[tests][:, inside]).tocsr() for L_i in L)
    load = D @ np.bincount(corners.ravel(), f.ravel(), P * K)[tests]
    return Part(rows, load, side_by_side.points[inside], _local_solve(p))


def _weights(p: Patches) -> np.ndarray:
    """√(N / (P · cover)) at the test nodes, 0 at unused slots; [P, Q]."""
    P, Q = p.is_test.shape
    at = p.mesh.points[p.mesh.interior]
    nodes, place = np.unique(p.nodes[:, :Q], return_inverse=True)
    cover = cKDTree(at).query_ball_point(p.mesh.points[nodes], np.nextafter(p.rho, 0), return_length=True)
    return np.where(p.is_test, np.sqrt(len(at) / (P * cover[place.reshape(P, Q)])), 0.0)


def _local_solve(p: Patches) -> Callable[[np.ndarray], np.ndarray]:
    P, Q = p.is_test.shape
    tables = PatchTables(p)
    batch = tables.batch(tf.range(P))
    factors = local_factors(batch, tables.is_test)
    return lambda v: tf.linalg.cholesky_solve(factors, v.reshape(P, Q, -1)).numpy().reshape(P * Q, -1)
