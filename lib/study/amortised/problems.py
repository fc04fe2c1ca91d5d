"""Forward problems whose posteriors are asked for again and again, fresh readings of them, and exact emulators."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm, qmc
from tqdm.auto import tqdm

from pdevae import Diffusion, Forward, GaussianField, InverseProblem, Latents, Normal, Source, Transport
from pdevae._tensorflow import tf
from pdevae.fem.mesh import random_places
from pdevae.inference.interpolant import Interpolant
from study.transport.problem import forward_on, mesh_of

_AT_A_TIME = 20
_LEFT = 1e-9  # of the variance of solutions: what their modes may leave


@dataclass(frozen=True)
class Readings:
    """How many sensors, at random places, and the sd of their noise: smallest and largest."""

    sensors: tuple[int, int] = (10, 60)
    noise: tuple[float, float] = (0.003, 0.02)


READINGS = {
    "transport": Readings(),  # the field is about 0.2 at most
    "field": Readings((30, 60)),
    "leak": Readings((3, 8), (0.02, 0.1)),  # the field is about 0.3 at most
}


@lru_cache(maxsize=8)
def forward_of(problem: str, domain: str, nodes: int, modes: int = 10) -> Forward:
    """``transport``: τ; ``field``: modes of log a, and τ; ``log a``: the modes alone; ``leak``: where a source is."""
    mesh = mesh_of(domain, nodes)
    if problem == "transport":
        return forward_on(mesh)
    if problem == "leak":
        return Forward(mesh, Diffusion(1.0) - Source(_leak), Latents(place=Normal(2)), 0.0)
    diffusion = Diffusion(lambda x, z: tf.exp(z.log_a(x)))
    log_a = GaussianField(sd=0.5, length=0.5, modes=modes)
    if problem == "log a":
        return Forward(mesh, diffusion - Source(1.0), Latents(log_a=log_a), 0.0)
    transport = Transport(lambda x, z: z.tau)
    return Forward(mesh, diffusion + transport - Source(1.0), Latents(log_a=log_a, tau=Normal(2)), 0.0)


def _leak(x, z):
    away = (tf.cast(x, z.place.dtype) - 0.35 * z.place) / 0.3
    return 5 * tf.exp(-0.5 * tf.reduce_sum(away**2, axis=-1))


def fresh(forward: Forward, readings: Readings, rng: np.random.Generator) -> tuple[InverseProblem, np.ndarray]:
    """z from the prior, readings by an exact solve on the mesh; and the z."""
    x = random_places(forward.mesh, int(rng.integers(readings.sensors[0], readings.sensors[1] + 1)), rng)
    z, noise = rng.normal(size=(1, forward.latents.size)), float(np.exp(rng.uniform(*np.log(readings.noise))))
    u = forward.reader(x) @ forward.solve(tf.constant(z)).numpy()[0]
    return InverseProblem.on(forward, x, u + noise * rng.normal(size=len(x)), noise), z[0]


class Emulated(Forward):
    """A forward map by interpolation of exact solves: the modes of solutions at some z, their sizes by kernels.

    What one does without the equation's help: the peer of a trained decoder. For two unknowns it is exact to 1e-5, so
    that quadrature on it gives the exact posteriors of a thousand problems with no more solves.
    """

    mean: np.ndarray
    modes: np.ndarray  # [K, n]
    branch: Interpolant
    seconds: float

    @classmethod
    def of(cls, forward: Forward, places: int, spread: float = 1.3) -> Emulated:
        begun = time.perf_counter()
        made = cls(forward.mesh, forward.equation, forward.latents, forward.boundary)
        d = forward.latents.size
        z = spread * norm.ppf(qmc.Sobol(d, seed=1).random(2 ** int(np.ceil(np.log2(places)))))[:places]
        starts = tqdm(range(0, places, _AT_A_TIME), "exact solves", delay=3, leave=False)
        u = np.concatenate([forward.solve(tf.constant(z[k : k + _AT_A_TIME])).numpy() for k in starts])
        made.mean = u.mean(axis=0)
        left, size, made.modes = _modes(u - made.mean)
        made.branch = Interpolant.through(z, left * size)
        made.seconds = time.perf_counter() - begun
        return made

    def solve(self, z: tf.Tensor) -> tf.Tensor:
        return self.mean + tf.matmul(self.branch(z), tf.constant(self.modes))

    def sensitivity(self, z: np.ndarray, read: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        k, phi = self.branch.kernel(tf.constant(z[None])).numpy()[0], read @ self.modes.T
        slope = self.branch.scale * (self.branch.places - z * self.branch.scale)
        b = self.branch.mean + k @ self.branch.weights
        return read @ self.mean + phi @ b, phi @ (self.branch.weights.T @ (k[:, None] * slope))

    def errors(self, forward: Forward, n: int = 20) -> tuple[float, float]:
        """Median and worst relative error of the field at n fresh draws of the prior."""
        z = tf.constant(np.random.default_rng(17).normal(size=(n, self.latents.size)))
        u = forward.solve(z).numpy()
        off = np.linalg.norm(self.solve(z).numpy() - u, axis=1) / np.linalg.norm(u, axis=1)
        return float(np.median(off)), float(off.max())


def _modes(u: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """u ≈ left · size · modes, by the eigenvectors of uuᵀ: there are fewer solutions than nodes."""
    value, left = np.linalg.eigh(u @ u.T)
    value, left = np.maximum(value[::-1], 0), left[:, ::-1]
    kept = np.cumsum(value[::-1])[::-1] > _LEFT * value.sum()
    size, left = np.sqrt(value[kept]), left[:, kept]
    return left, size, (left / size).T @ u


@lru_cache(maxsize=2)
def emulated(problem: str, domain: str, nodes: int, places: int) -> Emulated:
    return Emulated.of(forward_of(problem, domain, nodes), places)
