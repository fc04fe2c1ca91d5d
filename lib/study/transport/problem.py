"""The transport inverse problem of Section 5, with readings made on a finer mesh than any used for inference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from pdevae import Diffusion, InverseProblem, Latents, Normal, Source, Term, Transport
from pdevae._tensorflow import tf
from pdevae.fem import domains
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Coefficient
from pdevae.inference.forward import Forward
from pdevae.streams import random
from study.streams import Stream


def equation(a: float, source: Coefficient = 1.0) -> Term:
    return Diffusion(a) + Transport(lambda x, z: z.tau) - Source(source)


@cache
def mesh_of(domain: str, nodes: int) -> Mesh:
    return getattr(domains, domain)(nodes=nodes)


@lru_cache(maxsize=16)
def forward_on(mesh: Mesh, a: float = 1.0) -> Forward:
    """τ → u; z is τ itself. Kept, since what is compiled for a mesh serves all readings."""
    return Forward(mesh, equation(a), Latents(tau=Normal(2)), boundary=0.0)


@dataclass(frozen=True, eq=False)
class Truth:
    """Readings y = u(sensors; τ) + noise, and the τ behind them, for judging only."""

    sensors: np.ndarray  # [S, 2]
    y: np.ndarray  # [S]
    sigma: float
    tau: np.ndarray
    a: float

    @classmethod
    def simulate(cls, mesh: Mesh, a: float, n_sensors: int, noise: float, seed: int) -> Truth:
        """Its own τ ~ N(0, I), sensors and noise, made on ``mesh``.

        ``noise`` is a share of the standard deviation over the sensors of the field at τ = 0, so that σ, which is
        known, says nothing about τ. Sensors lie a tenth of the way in from random nodes: off the nodes, and off
        the boundary, where u = 0 says nothing.
        """
        rng = random(Stream.READINGS, seed)
        tau = rng.normal(size=2)
        sensors = 0.9 * mesh.points[rng.choice(mesh.interior, n_sensors, replace=False)]
        clean, still = field_at(mesh, a, sensors, np.stack([tau, np.zeros(2)]))
        sigma = noise * float(still.std())
        return cls(sensors, clean + sigma * rng.normal(size=n_sensors), sigma, tau, a)

    def on(self, mesh: Mesh) -> InverseProblem:
        """To be explained on a mesh."""
        return InverseProblem.on(forward_on(mesh, self.a), self.sensors, self.y, self.sigma)


def field_at(mesh: Mesh, a: float, x: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """u at places x [n, 2] for each τ [k, 2]; [k, n]."""
    forward = forward_on(mesh, a)
    return (forward.reader(x) @ forward.solve(tf.constant(tau)).numpy().T).T
