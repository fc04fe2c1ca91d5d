"""The exact posterior of a constant transport vector, by quadrature: the truth that other methods are held to.

L[τ] = aA + τ₁C₁ + τ₂C₂ is affine in τ, so one sparse solve gives the likelihood at a point, and a grid over the
plane gives every integral.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize

from .errors import UserError
from .hierarchy import read_at
from .mesh import Mesh
from .operators import Diffusion, Source, Transport
from .solve import factorise
from .weak_form import WeakForm, stiffness


@dataclass(frozen=True, eq=False)
class TransportModel:
    """−a Δu + τ·∇u = f on a mesh with u = 0 on its boundary, read at sensors."""

    A: sp.csc_matrix
    C: tuple[sp.csc_matrix, sp.csc_matrix]
    f: np.ndarray
    read: sp.csr_matrix  # [sensors, N] values at the sensors from values at the interior nodes

    @classmethod
    def on(cls, mesh: Mesh, a: float, source, sensors: np.ndarray) -> TransportModel:
        unit = np.eye(2)
        C = tuple(WeakForm(mesh, Transport(e)).matrix()[:, mesh.interior].tocsc() for e in unit)
        f = WeakForm(mesh, Diffusion() - Source(source)).load()
        return cls(a * stiffness(mesh), C, f, read_at(mesh, sensors)[:, mesh.interior])

    def field(self, tau: np.ndarray) -> np.ndarray:
        """u at the interior nodes."""
        return factorise(self.A + tau[0] * self.C[0] + tau[1] * self.C[1]).solve(self.f)

    def log_joint_and_gradient(self, y: np.ndarray, sigma: float, tau: np.ndarray) -> tuple[float, np.ndarray]:
        """The same with its gradient by the adjoint equation: one factorisation for both solves."""
        factors = factorise(self.A + tau[0] * self.C[0] + tau[1] * self.C[1])
        u = factors.solve(self.f)
        misfit = y - self.read @ u
        # L[τ]ᵀλ = Rᵀ(y − Ru)/σ²;  ∂ log p/∂τ_i = −λᵀC_i u
        adjoint = factors.solve(self.read.T @ misfit / sigma**2, trans="T")
        value = -0.5 * np.sum(misfit**2) / sigma**2 - 0.5 * np.sum(tau**2)
        return float(value), np.array([-adjoint @ (C @ u) for C in self.C]) - tau

    def log_joint(self, y: np.ndarray, sigma: float) -> Callable[[np.ndarray], float]:
        """log p(y | τ) + log p(τ) up to a constant, τ ~ N(0, I)."""
        return lambda tau: float(
            -0.5 * np.sum((y - self.read @ self.field(tau)) ** 2) / sigma**2 - 0.5 * np.sum(tau**2)
        )


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """A density on the plane as points [n, 2] and weights [n] that sum to one."""

    points: np.ndarray
    weights: np.ndarray

    @property
    def mean(self) -> np.ndarray:
        return self.weights @ self.points

    @property
    def covariance(self) -> np.ndarray:
        away = self.points - self.mean
        return (self.weights[:, None] * away).T @ away


def quadrature(log_density: Callable[[np.ndarray], float], tol: float = 1e-3, width: float = 5.0) -> GridPosterior:
    """Trapezoidal rule on a grid around the mode, halved and widened until mean and spread stand still.

    The grid follows the curvature at the mode. ``tol`` is in posterior standard deviations.
    """
    mode = minimize(lambda tau: -log_density(tau), np.zeros(2), method="BFGS", options={"gtol": 1e-4})
    axes = np.linalg.cholesky(mode.hess_inv + 1e-12 * np.eye(2))
    known: dict[tuple[float, float], float] = {}
    previous = None
    for spacing, reach in ((1.0, width), (0.5, width), (0.5, 1.6 * width), (0.25, 1.6 * width), (0.125, 1.6 * width)):
        ticks = np.arange(-round(reach / spacing), round(reach / spacing) + 1) * spacing
        grid = [(s, t) for s in ticks for t in ticks]
        for place in grid:
            if place not in known:
                known[place] = log_density(mode.x + axes @ np.array(place))
        logs = np.array([known[place] for place in grid])
        weights = np.exp(logs - logs.max())
        found = GridPosterior(mode.x + np.array(grid) @ axes.T, weights / weights.sum())
        if previous is not None and _change(previous, found) < tol:
            return found
        previous = found
    raise UserError("the posterior is too far from Gaussian for this grid: use more sensors or less noise")


def _change(one: GridPosterior, other: GridPosterior) -> float:
    sd = np.sqrt(np.diag(other.covariance))
    spread = np.abs(np.sqrt(np.diag(one.covariance)) / sd - 1)
    return float(max((np.abs(one.mean - other.mean) / sd).max(), spread.max()))
