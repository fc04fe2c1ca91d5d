"""Constrained variational inference with the surrogate's last layer solved instead of descended.

μ(x, τ) = Σ_kj W_kj tanh(w_k·x + b_k) h_j(τ): random hidden units in x, polynomials in the whitened τ. For given q,
F_ε (eq:MC_cvi_sub_prob) is quadratic in W, and the Gram matrix of the units' residuals is all it needs of the mesh.
So W and q are fitted in turn, each to its optimum, while ε falls: a dozen small dense solves, no step sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.polynomial.hermite_e import hermegauss
from scipy.optimize import minimize

from ..forms import Form, gram
from ..hierarchy import around, read_at
from ..mesh import Mesh
from ..operators import Term
from .cvi import Diverged
from .gaussian import gaussian_posterior
from .problem import Posterior, TransportProblem

_RIDGE = 1e-10  # of the scaled normal matrix: neighbouring hidden units are nearly the same


@dataclass(frozen=True)
class SolvedCVI:
    """``form`` makes the penalty's quadratic form from mesh, equation and seed; ``eps`` is the annealing."""

    form: Callable[[Mesh, Term, int], Form]
    eps: tuple[float, ...] = (0.03, 0.01, 0.003, 0.001)
    units: int = 256
    steepness: float = 3.0
    degree: int = 2
    spread: float = 1.5
    most_rounds: int = 12
    tolerance: float = 0.01  # posterior standard deviations

    def __call__(self, problem: TransportProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        form = self.form(problem.mesh, problem.equation, seed)
        ready = time.perf_counter()
        hidden = hidden_units(problem.mesh, self.units, self.steepness, seed)
        at = interpolated(hidden, problem.mesh)
        F = Objective(gram(form, hidden), at(problem.sensors), problem.y, problem.sigma, self.degree, self.spread)
        m, C, rounds = np.zeros(2), np.eye(2), 0
        while rounds < self.most_rounds:
            eps = self.eps[min(rounds, len(self.eps) - 1)]
            W, whitened = F.best_surrogate(m, C, eps), (m, C)
            m, C = F.best_gaussian(W, *whitened)
            rounds += 1
            if rounds >= len(self.eps) and _moved(*whitened, m, C) < self.tolerance:
                break
        predict = lambda x, tau: polynomials(_whiten(tau, *whitened), self.degree) @ (at(x) @ W).T  # noqa: E731
        seconds = time.perf_counter() - begun
        return gaussian_posterior(m, C, seconds, ready - begun, {"rounds": rounds}, predict, seed)


def hidden_units(mesh: Mesh, K: int, steepness: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """x ↦ tanh(w_k·(x − c_k)), w_k ~ N(0, s²I) with s = ``steepness`` over half the region's width, c_k at nodes."""
    rng = np.random.default_rng([seed, 18])
    w = rng.normal(size=(2, K)) * steepness / (np.ptp(mesh.points, axis=0).max() / 2)
    c = mesh.points[rng.integers(mesh.n_nodes, size=K)]
    return lambda x: np.tanh(x @ w - np.einsum("kd,dk->k", c, w))


def interpolated(hidden: Callable[[np.ndarray], np.ndarray], mesh: Mesh) -> Callable[[np.ndarray], np.ndarray]:
    """The units' finite-element interpolants, 0 on the boundary: the penalty sees nothing between the nodes."""

    def at(x):
        read = read_at(around(mesh, x), x)[:, mesh.interior].tocsc()
        used = np.flatnonzero(np.diff(read.indptr))
        return read[:, used] @ hidden(mesh.points[mesh.interior[used]])

    return at


def polynomials(z: np.ndarray, degree: int) -> np.ndarray:
    """Monomials of total degree at most ``degree``; [M, J]."""
    return np.stack([z[:, 0] ** i * z[:, 1] ** j for i in range(degree + 1) for j in range(degree + 1 - i)], axis=1)


class Objective:
    """F_ε(W, q), expectations over q by Gauss–Hermite cubature; the penalty is taken ``spread`` times as wide as q."""

    def __init__(self, G: np.ndarray, at_sensors: np.ndarray, y: np.ndarray, sigma: float, degree: int, spread: float):
        K = at_sensors.shape[1]
        self.G, self.g = G[1:, 1:].reshape(3, K, 3, K), G[0, 1:].reshape(3, K)
        self.T, self.y, self.sigma, self.degree, self.spread = at_sensors, y, sigma, degree, spread
        x, w = hermegauss(7)
        self.normal = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
        self.weight = np.outer(w, w).ravel() / w.sum() ** 2

    def best_surrogate(self, m: np.ndarray, C: np.ndarray, eps: float) -> np.ndarray:
        """argmin over W; [K, J]. The polynomials are those of C⁻¹(τ − m)."""
        w, wide = self.weight, self.spread * self.normal
        h, h_data = polynomials(wide, self.degree), polynomials(self.normal, self.degree)
        K, J = self.T.shape[1], h.shape[1]
        tau = np.column_stack([np.ones(len(wide)), m + wide @ C.T])  # (1, τ₁, τ₂): L[τ] = Σ τ_i L_i
        S = np.einsum("m,mi,mj,ma,mb->ijab", w, tau, tau, h, h, optimize=True)
        H = np.einsum("ikjl,ijab->kalb", self.G, S, optimize=True) / eps**2
        H += np.einsum("kl,ab->kalb", self.T.T @ self.T, (w * h_data.T) @ h_data) / self.sigma**2
        b = -np.einsum("ik,mi,ma,m->ka", self.g, tau, h, w, optimize=True) / eps**2
        b += np.outer(self.T.T @ self.y, w @ h_data) / self.sigma**2
        return _solve(H.reshape(K * J, K * J), b.ravel()).reshape(K, J)

    def best_gaussian(self, W: np.ndarray, m: np.ndarray, C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """argmin over q = N(m', C'C'ᵀ) of E_q[−log p(y | μ)] + KL(q ‖ p)."""
        TW = self.T @ W

        def value(p):
            m_new, C_new = _unpack(p)
            mu = polynomials(_whiten(m_new + self.normal @ C_new.T, m, C), self.degree) @ TW.T
            misfit = self.weight @ np.sum((self.y - mu) ** 2, axis=1)
            kl = 0.5 * (np.sum(C_new**2) + np.sum(m_new**2)) - p[2] - p[3]
            return misfit / (2 * self.sigma**2) + kl

        start = np.array([*m, *np.log(np.diag(C)), C[1, 0]])
        return _unpack(minimize(value, start, method="BFGS", options={"gtol": 1e-4}).x)


def _unpack(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return p[:2], np.array([[np.exp(p[2]), 0.0], [p[4], np.exp(p[3])]])


def _whiten(tau: np.ndarray, m: np.ndarray, C: np.ndarray) -> np.ndarray:
    return scipy.linalg.solve_triangular(C, (tau - m).T, lower=True).T


def _solve(H: np.ndarray, b: np.ndarray) -> np.ndarray:
    """H⁻¹b, scaled to a unit diagonal; an indefinite H means that F_ε has no minimum."""
    diagonal = np.diag(H)
    if diagonal.min() > 0:
        scale = 1 / np.sqrt(diagonal)
        try:
            factor = scipy.linalg.cho_factor(H * scale[:, None] * scale + _RIDGE * np.eye(len(H)))
            return scipy.linalg.cho_solve(factor, b * scale) * scale
        except scipy.linalg.LinAlgError:
            pass
    raise Diverged("F_ε is unbounded below: the penalty is negative for some fields")


def _moved(m: np.ndarray, C: np.ndarray, m_new: np.ndarray, C_new: np.ndarray) -> float:
    """How far q went, in its own standard deviations."""
    sd, sd_new = (np.sqrt(np.sum(c**2, axis=1)) for c in (C, C_new))
    return float(max(np.abs((m_new - m) / sd_new).max(), np.abs(sd / sd_new - 1).max()))
