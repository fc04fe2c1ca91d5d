"""The engineer's answer: the mode by Gauss–Newton, and a Gaussian of that curvature around it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pdevae.errors import UserError
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem


@dataclass(frozen=True)
class Laplace:
    """q = N(m, (JᵀJ/σ² + I)⁻¹), m the mode and J the readings' sensitivity there; d up to a thousand or so.

    >>> Laplace()(problem).a().mean.round(1).tolist()
    [2.0]
    """

    most_steps: int = 100
    tolerance: float = 1e-3  # posterior standard deviations

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        m, H = self.mode(problem)
        return Posterior.normal(problem, m, np.linalg.inv(H), time.perf_counter() - begun, seed)

    def mode(self, problem: InverseProblem) -> tuple[np.ndarray, np.ndarray]:
        """m [d] and the Gauss–Newton curvature there [d, d]; damped as Levenberg and Marquardt do."""
        z, damping = np.zeros(problem.size), 0.0
        r, J = self._whitened(problem, z)
        for _ in range(self.most_steps):
            H = J.T @ J + np.eye(len(z))
            slope = J.T @ r + z
            move = -np.linalg.solve(H + damping * np.diag(np.diag(H)), slope)
            if np.sqrt(slope @ np.linalg.solve(H, slope)) < self.tolerance:
                return z, H
            trial = z + move
            try:
                r_trial, J_trial = self._whitened(problem, trial)
                better = r_trial @ r_trial + trial @ trial < r @ r + z @ z
            except UserError:  # no solution that far out
                better = False
            if better:
                z, r, J, damping = trial, r_trial, J_trial, damping / 10 if damping > 1e-4 else 0.0
            else:
                damping = max(10 * damping, 1e-3)
        raise UserError(
            f"Gauss–Newton found no mode in {self.most_steps} steps: check the units of readings and noise, narrow the "
            "prior, or allow more with Laplace(most_steps=…)"
        )

    @staticmethod
    def _whitened(problem: InverseProblem, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(u − y)/σ and its Jacobian."""
        u, J = problem.sensitivity(z)
        sigma = np.broadcast_to(problem.noise, u.shape)
        return (u - problem.readings) / sigma, J / sigma[:, None]
