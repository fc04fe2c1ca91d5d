"""A groundwater field: log-conductivity between a river of known head and edges without flow, from heads in wells.

−∇·(e^g ∇u) = f with u = the river's head along it and no flow through the rest of the outline; g is a Matérn field.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pdevae import Diffusion, Forward, GaussianField, InverseProblem, Latents, Mesh, Source, polygon
from pdevae._tensorflow import tf
from pdevae.inference.encoder import random_places
from pdevae.streams import random
from study.streams import Stream

OUTLINE = [(0.0, 0.0), (1.2, -0.1), (2.2, 0.3), (2.4, 1.1), (1.7, 1.6), (0.7, 1.4), (-0.1, 0.9)]  # km
RECHARGE = 1.0  # what rain adds, in units of conductivity × head / km²


def along_river(x: np.ndarray) -> np.ndarray:
    """Is a place on the lower edge, between the first three corners?"""
    a, b, c = np.array(OUTLINE[:3])
    return (_distance(x, a, b) < 1e-6) | (_distance(x, b, c) < 1e-6)


def river_head(x: np.ndarray) -> np.ndarray:
    """It falls by 0.2 m along a kilometre."""
    return 0.5 - 0.2 * x[:, 0]


def _distance(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    share = np.clip((x - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
    return np.linalg.norm(x - a - share[:, None] * (b - a), axis=1)


@lru_cache(maxsize=4)
def region(nodes: int) -> Mesh:
    return polygon(OUTLINE, nodes=nodes).no_flow(lambda x: ~along_river(x))


@lru_cache(maxsize=4)
def forward(nodes: int, modes: int, sd: float = 1.0, length: float = 0.6) -> Forward:
    latents = Latents(g=GaussianField(sd=sd, length=length, kernel="matern32", modes=modes))
    equation = Diffusion(lambda x, z: tf.exp(z.g(x))) - Source(RECHARGE)
    return Forward(region(nodes), equation, latents, river_head)


@dataclass(frozen=True)
class Truth:
    """A field drawn from the prior with more modes than are inferred, its heads on a finer mesh, and the wells."""

    forward: Forward
    z: np.ndarray
    wells: np.ndarray
    readings: np.ndarray
    noise: float

    @classmethod
    def drawn(cls, seed: int, nodes: int, modes: int, wells: int, noise: float) -> Truth:
        made, rng = forward(nodes, modes), random(Stream.FIELDS, seed)
        z = rng.normal(size=modes)
        at = random_places(made.mesh, wells, rng)
        clean = made.reader(at) @ made.solve(tf.constant(z[None])).numpy()[0]
        return cls(made, z, at, clean + noise * rng.normal(size=wells), noise)

    def g(self, x: np.ndarray) -> np.ndarray:
        return self.forward.latents.seen(tf.constant(self.z[None])).g(tf.constant(x)).numpy()[0]

    def on(self, nodes: int, modes: int) -> InverseProblem:
        return InverseProblem.on(forward(nodes, modes), self.wells, self.readings, self.noise)
