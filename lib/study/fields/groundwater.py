"""A groundwater field: log-conductivity between a river of known head and no-flow edges, from heads in wells.

−∇·(e^g ∇u) = f with u = the river's head along it and no flow through the rest of the outline; g is a Matérn field.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pdevae import (
    CVI,
    HMC,
    Diffusion,
    Forward,
    GaussianField,
    GaussianVI,
    InverseProblem,
    Laplace,
    Latents,
    Mesh,
    Posterior,
    Source,
    polygon,
)
from pdevae._tensorflow import graph, tf
from pdevae.fem.mesh import random_places
from pdevae.streams import random
from study.fields.experiment import decoder_error
from study.streams import Stream
from study.tables import columns, mesh_columns

OUTLINE = [(0.0, 0.0), (1.2, -0.1), (2.2, 0.3), (2.4, 1.1), (1.7, 1.6), (0.7, 1.4), (-0.1, 0.9)]  # km
RIVER = OUTLINE[:3]  # along the lower edge
RECHARGE = 1.0  # what rain adds, in units of conductivity × head / km²


def along(line: Sequence[tuple[float, float]], x: np.ndarray) -> np.ndarray:
    """Is a place [n, 2] on a line through these corners?"""
    corners = np.array(line)
    return np.any([_distance(x, a, b) < 1e-6 for a, b in zip(corners, corners[1:])], axis=0)


def river_head(x: np.ndarray) -> np.ndarray:
    """It falls by 0.2 m along a kilometre."""
    return 0.5 - 0.2 * x[:, 0]


def _distance(x: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    share = np.clip((x - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
    return np.linalg.norm(x - a - share[:, None] * (b - a), axis=1)


@lru_cache(maxsize=4)
def region(nodes: int) -> Mesh:
    return polygon(OUTLINE, nodes=nodes).no_flow(lambda x: ~along(RIVER, x))


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


@dataclass(frozen=True)
class Setting:
    """A problem with so many modes on a mesh of so many nodes; its truth on a finer one with more modes."""

    method: str
    nodes: int = 1000
    modes: int = 100
    truth_nodes: int = 20_000
    truth_modes: int = 200
    wells: int = 60
    noise: float = 0.02
    vi_steps: int = 500
    steps: int = 4000
    penalty: str = "two-level"
    draws: int = 400


METHODS: dict[str, Callable[[Setting], Callable[..., Posterior]]] = {
    "Laplace": lambda config: Laplace(),
    "GaussianVI, low-rank": lambda config: GaussianVI("low-rank", rank=30, steps=config.vi_steps),
    "CVI": lambda config: CVI(
        penalty=config.penalty, steps=config.steps, samples=8, width=96, spread=1.2, around=Laplace()
    ),
    "HMC": lambda config: HMC(chains=4, warm_up=config.draws // 2, most_draws=config.draws, ess=np.inf, leapfrogs=10),
}


def _problem(config: Setting, seed: int) -> tuple[Truth, InverseProblem]:
    truth = Truth.drawn(seed, config.truth_nodes, config.truth_modes, config.wells, config.noise)
    return truth, truth.on(config.nodes, config.modes)


def inferred(config: Setting, seed: int) -> dict:
    """Coverage of the true field by 90% intervals at the nodes, its error, seconds, and what the check says."""
    truth, problem = _problem(config, seed)
    found = METHODS[config.method](config)(problem, seed=seed)
    g, right = found.g(problem.mesh.points), truth.g(problem.mesh.points)
    return {
        "coverage": np.mean((right > g.low) & (right < g.high)),
        "error": np.sqrt(np.mean((g.mean - right) ** 2)),
        "width": np.mean(g.sd),
        "seconds": found.seconds,
        "k": found.check().k,
        "field": decoder_error(found),
        "r_hat": found.diagnostics.get("r_hat", np.nan),
    }


def mapped(config: Setting, seed: int) -> dict:
    """The true field, its posterior mean and sd and the head at the nodes; the wells."""
    truth, problem = _problem(config, seed)
    found = METHODS[config.method](config)(problem, seed=seed)
    x = problem.mesh.points
    g = found.g(x)
    at = {"truth": truth.g(x), "mean": g.mean, "sd": g.sd, "head": problem.solve(tf.constant(found.mean[None]))[0]}
    at["on_river"] = along(RIVER, x)
    wells = dict(kind="well", x=truth.wells[:, 0], y=truth.wells[:, 1], head=truth.readings)
    return columns(*mesh_columns(problem.mesh, **at), wells)


def cost(config: Setting, seed: int) -> dict:
    """Seconds of a step of CVI, multilevel, of an exact gradient of log p(y, z), and of Laplace's posterior.

    Compilation apart. A low-rank q: Laplace's coordinates would bring in solves.
    """
    _, problem = _problem(config, seed)
    found = CVI(steps=config.steps, family="low-rank", rank=30, samples=8)(problem, seed=seed)
    z = tf.constant(random(Stream.FIELDS, seed, 1).normal(size=(1, config.modes)))

    @graph
    def gradient(z):
        with tf.GradientTape() as tape:
            tape.watch(z)
            value = problem.log_joint(z)
        return tape.gradient(value, z)

    seconds = []
    for k in range(4):
        begun = time.perf_counter()
        gradient(z + 0.01 * k)
        seconds.append(time.perf_counter() - begun)
    step = (found.seconds - found.setup_seconds) / config.steps
    gradient, laplace = float(np.median(seconds[1:])), Laplace()(problem).seconds
    return {"step": step, "tables": found.setup_seconds, "gradient": gradient, "laplace": laplace}
