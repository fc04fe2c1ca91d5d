"""The explorer's inverse problem: readings of a field with a known τ, and the methods that explain them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pdevae import CVI, InverseProblem, SolvedCVI
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem import domains
from pdevae.fem.mesh import Mesh
from pdevae.penalties import named
from pdevae.streams import random
from study.streams import Stream
from study.transport.problem import forward_on

LEAST_SENSORS = 4  # fewer leave a posterior that a grid around one mode cannot hold


@dataclass(frozen=True, eq=False)
class Experiment:
    """A field with a known τ on a fine mesh; readings of it anywhere, to be explained on a coarser mesh."""

    truth: Mesh
    mesh: Mesh
    tau: np.ndarray
    u: np.ndarray  # nodal values on the fine mesh
    typical: float  # sd of the field at τ = 0

    @classmethod
    def on_star(cls, nodes: int, tau) -> Experiment:
        truth, tau = domains.star(nodes=4 * nodes), np.asarray(tau, float)
        u = forward_on(truth).solve(tf.constant(np.stack([tau, 0 * tau]))).numpy()
        return cls(truth, domains.star(nodes=nodes), tau, u[0], float(u[1].std()))

    def with_truth(self, tau) -> Experiment:
        """Another τ; the meshes stay."""
        tau = np.asarray(tau, float)
        return replace(self, tau=tau, u=forward_on(self.truth).solve(tf.constant(tau[None])).numpy()[0])

    def problem(self, sensors: np.ndarray, xi: np.ndarray, noise: float) -> InverseProblem:
        """Readings with noise ``xi``, in units of a share of the field's standard deviation at τ = 0."""
        if len(sensors) < LEAST_SENSORS:
            raise UserError(f"{len(sensors)} sensors: place at least {LEAST_SENSORS} by pressing on the region")
        sigma = noise * self.typical
        clean = forward_on(self.truth).reader(sensors) @ self.u
        return InverseProblem.on(forward_on(self.mesh), sensors, clean + sigma * xi, sigma)

    def scatter(self, count: int, seed: int) -> np.ndarray:
        rng = random(Stream.EXPLORER, seed)
        return 0.9 * self.truth.points[rng.choice(self.truth.interior, count, replace=False)]


def _trained(penalty: str, steps: int) -> CVI:
    """CVI by descent, a short run of it."""
    return CVI(penalty=partial(named, penalty, n_patches=8, boundary=0.0, dtype=tf.float32), steps=steps)


METHODS = {
    "solved, two-level (ours)": lambda steps: SolvedCVI(),
    "trained, two-level (ours)": lambda steps: _trained("two-level", steps),
    "trained, hard taper (the paper's)": lambda steps: _trained("hard", steps),
}


def noise_of(sensors: np.ndarray) -> np.ndarray:
    """Of each sensor, from where it is first placed."""
    return np.array([np.random.default_rng(np.abs(x * 1e6).astype(int)).normal() for x in sensors.reshape(-1, 2)])
