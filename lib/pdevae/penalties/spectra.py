"""How near an approximation B is to A⁻¹: the eigenvalues of B relative to A⁻¹, and shares by wavenumber."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from pdevae.fem.factors import factorise
from pdevae.fem.mesh import Mesh
from pdevae.fem.weak_form import stiffness


def relative_eigenvalues(B: LinearOperator, mesh: Mesh, tol: float = 1e-4) -> tuple[float, float]:
    """Smallest and largest λ with B v = λ A⁻¹ v: the constants in λmin rᵀA⁻¹r ≤ rᵀBr ≤ λmax rᵀA⁻¹r."""
    A = stiffness(mesh)
    inverse = LinearOperator(A.shape, matvec=factorise(A).solve, dtype=float)
    start = np.random.default_rng(0).normal(size=A.shape[0])
    ends = [
        eigsh(B, k=1, M=inverse, Minv=A, which=which, v0=start, tol=tol, ncv=40, return_eigenvectors=False)[0]
        for which in ("SA", "LA")
    ]
    return float(ends[0]), float(ends[1])


def captured_share(B: LinearOperator, mesh: Mesh, k: int) -> float:
    """rᵀBr / rᵀA⁻¹r for the residual r_i = sin(kπx_i) sin(kπy_i) on the unit square."""
    x, y = mesh.points[mesh.interior].T
    r = np.sin(k * np.pi * x) * np.sin(k * np.pi * y)
    return float(r @ B.matvec(r) / (r @ factorise(stiffness(mesh)).solve(r)))
