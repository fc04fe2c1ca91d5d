"""The engineer's answer: the mode by Gauss–Newton, three solves a step, and a Gaussian of that curvature around it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from ..errors import UserError
from ..posterior import TransportModel
from ..solve import factorise
from .gaussian import gaussian_posterior
from .problem import Posterior, TransportProblem


@dataclass(frozen=True)
class Laplace:
    """q = N(m, (JᵀJ/σ² + I)⁻¹), m the mode, J the sensors' sensitivity to τ there."""

    most_steps: int = 50
    tolerance: float = 1e-3  # posterior standard deviations

    def __call__(self, problem: TransportProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        model, sigma = problem.model, problem.sigma
        ready = time.perf_counter()
        tau, radius = np.zeros(2), 1.0
        read, J = sensitivity(model, tau)
        for _ in range(self.most_steps):
            curvature = J.T @ J / sigma**2 + np.eye(2)
            move = np.linalg.solve(curvature, J.T @ (problem.y - read) / sigma**2 - tau)
            if np.sqrt(move @ curvature @ move) < self.tolerance:
                break
            trial = tau + radius * move
            read_trial, J_trial = sensitivity(model, trial)
            if _energy(problem, read_trial, trial) < _energy(problem, read, tau):
                tau, read, J, radius = trial, read_trial, J_trial, 1.0
            else:
                radius /= 2  # the model of least squares reached too far
        else:
            raise UserError(f"Gauss–Newton found no mode in {self.most_steps} steps: use more sensors or less noise")
        C = np.linalg.cholesky(np.linalg.inv(curvature))
        seconds = time.perf_counter() - begun
        return gaussian_posterior(tau, C, seconds, ready - begun, {}, problem.solve_at, seed)


def sensitivity(model: TransportModel, tau: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Readings Ru and J = R ∂u/∂τ [S, 2]: one factorisation, three solves. L ∂u/∂τ_i = −C_i u."""
    factors = factorise(model.A + tau[0] * model.C[0] + tau[1] * model.C[1])
    u = factors.solve(model.f)
    slopes = factors.solve(np.column_stack([-C @ u for C in model.C]))
    return model.read @ u, model.read @ slopes


def _energy(problem: TransportProblem, read: np.ndarray, tau: np.ndarray) -> float:
    return float(np.sum((problem.y - read) ** 2) / (2 * problem.sigma**2) + tau @ tau / 2)
