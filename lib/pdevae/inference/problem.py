"""The transport inverse problem of Section 5: −a Δu + τ·∇u = f, u = 0 on the boundary, τ ~ N(0, I) from sensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import UserError
from ..hierarchy import around, read_at
from ..mesh import Mesh
from ..operators import Diffusion, Source, Term, Transport
from ..posterior import TransportModel, quadrature


@dataclass(frozen=True, eq=False)
class Posterior:
    """What a method found: draws [k, 2] of τ with their moments, the seconds it took, and what it says of itself."""

    mean: np.ndarray
    covariance: np.ndarray
    draws: np.ndarray
    seconds: float
    setup_seconds: float = 0.0
    diagnostics: dict = field(default_factory=dict)
    predict: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None  # places [n, 2], τ [k, 2] → u [k, n]

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))


@dataclass(frozen=True, eq=False)
class TransportProblem:
    """Readings y = u(sensors; τ) + noise, to be explained on ``mesh``."""

    mesh: Mesh
    a: float
    f: float
    sensors: np.ndarray  # [S, 2]
    y: np.ndarray  # [S]
    sigma: float
    tau: np.ndarray  # the truth, for judging only

    def __post_init__(self):
        read_at(around(self.mesh, self.sensors), self.sensors)  # refuses sensors outside
        if len(self.y) != len(self.sensors):
            raise UserError(f"{len(self.y)} readings for {len(self.sensors)} sensors: give one y for each sensor")
        if not self.sigma > 0:
            raise UserError(f"sigma={self.sigma} must be positive: it is the standard deviation of a reading's noise")

    @classmethod
    def simulate(
        cls, truth: Mesh, a: float, n_sensors: int, noise: float, seed: int, f: float = 1.0
    ) -> TransportProblem:
        """A problem with its own τ ~ N(0, I), sensors and noise, made on a mesh finer than any used for inference.

        ``noise`` is a share of the standard deviation over the sensors of the field at τ = 0, so that σ, which is
        known, says nothing about τ. Sensors lie a tenth of the way in from random nodes: off the nodes, and off
        the boundary, where u = 0 says nothing.
        """
        rng = np.random.default_rng([seed, 11])
        tau = rng.normal(size=2)
        sensors = 0.9 * truth.points[rng.choice(truth.interior, n_sensors, replace=False)]
        model = TransportModel.on(truth, a, f, sensors)
        clean, still = (model.read @ model.field(t) for t in (tau, np.zeros(2)))
        sigma = noise * float(still.std())
        return cls(truth, a, f, sensors, clean + sigma * rng.normal(size=n_sensors), sigma, tau)

    def on(self, mesh: Mesh) -> TransportProblem:
        """The same readings, explained on another mesh."""
        return replace(self, mesh=mesh)

    @property
    def equation(self) -> Term:
        return Diffusion(self.a) + Transport() - Source(self.f)

    @property
    def model(self) -> TransportModel:
        return TransportModel.on(self.mesh, self.a, self.f, self.sensors)

    def solve_at(self, x: np.ndarray, tau: np.ndarray) -> np.ndarray:
        """u at places x [n, 2] for each τ [k, 2], by a forward solve each; [k, n]."""
        model = TransportModel.on(self.mesh, self.a, self.f, x)
        return np.stack([model.read @ model.field(t) for t in tau])


def exact(problem: TransportProblem, seed: int = 0, draws: int = 1000) -> Posterior:
    """Quadrature over τ: the truth for all other methods."""
    begun = time.perf_counter()
    grid = quadrature(problem.model.log_joint(problem.y, problem.sigma))
    chosen = np.random.default_rng([seed, 12]).choice(len(grid.points), draws, p=grid.weights)
    seconds = time.perf_counter() - begun
    return Posterior(grid.mean, grid.covariance, grid.points[chosen], seconds, predict=problem.solve_at)
