"""A decoder that obeys the equation over the whole prior: trained once, without readings, for any readings.

u(x, z) = g(x) + w(x) Σ_k φ_k(x) b_k(z). The functions φ of place are a network's trunk, trained with a penalty on z
drawn a little wider than the prior. For given z the equation is then K numbers b for as many tests, so that b(z) is
solved for at some thousand z and interpolated between them, which comes much nearer than a branch that descends.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from pdevae._tensorflow import constant_property, tf
from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.inference.basis import Basis, normal_points, solved_branch, trained_over_prior
from pdevae.inference.conditioning import Conditioned, Conditioner, Evidence
from pdevae.inference.forward import Forward
from pdevae.inference.interpolant import Interpolant
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.inference.signature import Signature, differences, signature_of
from pdevae.penalties import Penalty
from pdevae.streams import Stream

_MOST_PLACES = 4000  # z at which b is solved for
_TOO_FAR = 20.0  # standard deviations of χ²: what no set of readings should be from its prediction


class Errors(NamedTuple):
    """Of a decoder at fresh draws of the prior: relative error of the field in the mean square, by exact solves."""

    median: float
    worst: float


class Decoder:
    """``basis`` and ``branch`` of u over the prior of ``forward``; :meth:`train` makes one.

    >>> decoder = Decoder.train(problem.forward, penalty="exact", steps=500, width=16)
    >>> at = np.array([[0.0, 0.0], [0.3, 0.2]])
    >>> bool(abs(decoder.field(at, np.zeros([1, 1])) / [0.25, 0.2175] - 1).max() < 0.02)  # a = 1
    True
    """

    def __init__(self, forward: Forward, basis: Basis, branch: Interpolant, seconds: float = np.nan):
        _refuse_open_boundary(forward)
        self.forward, self.basis, self.branch, self.seconds = forward, basis, branch, seconds

    @classmethod
    def train(
        cls,
        forward: Forward,
        penalty: str | Callable[[Mesh, Term], Penalty] = "multilevel",
        steps: int = 4000,
        samples: int = 8,
        width: int = 64,
        spread: float = 1.3,
        places: int | None = None,
        learning_rate: float = 5e-3,
        seed: int = 0,
        progress: bool = True,
    ) -> Decoder:
        """``penalty`` trains the functions of place, on ``samples`` z a step, ``spread`` times as wide as the prior.

        ``places``: at how many z the branch is solved for, by default 200 for each latent, at most 4,000.
        """
        begun = time.perf_counter()
        _refuse_open_boundary(forward)
        how = (steps, samples, width, spread, learning_rate, seed, progress)
        network = trained_over_prior(forward, penalty, *how)
        d = forward.latents.size
        z = spread * normal_points(min(200 * d, _MOST_PLACES) if places is None else places, d, seed)
        basis, b = solved_branch(forward, network, z, progress)
        return cls(forward, basis, Interpolant.through(z, b), time.perf_counter() - begun)

    def __call__(self, x: tf.Tensor, seen: Any) -> tf.Tensor:
        """μ(x, z) for penalties: u without its boundary values; [M, n]."""
        return self.basis.sums(self.branch(seen.whitened))(x, seen)

    def field(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """u [M, k] at places x [k, 2] for each z [M, d]."""
        base, at_places = self.reader(x)
        return base + self.branch(tf.constant(np.asarray(z, float))).numpy() @ at_places.T

    def reader(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """u at places x [k, 2] is the first [k] + the second [k, K] @ b(z)."""
        return self._through(self.forward.reader(np.atleast_2d(np.asarray(x, float))))

    def _through(self, read: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        used, places = np.unique(read.indices, return_inverse=True)
        read = sp.csr_matrix((read.data, places, read.indptr), shape=(read.shape[0], len(used)))
        g, w = (np.broadcast_to(part, self.forward.mesh.n_nodes)[used] for part in self.forward.weak.g_and_w)
        return read @ g, read @ (w[:, None] * self.basis.at(self.forward.mesh.points[used]))

    def condition(
        self, sensors: np.ndarray, readings: np.ndarray, noise: float | np.ndarray, seed: int = 0
    ) -> Posterior:
        """The Gaussian that comes nearest to p(z | readings) on this decoder: milliseconds, no solve.

        Readings that the prior cannot give are refused.
        """
        begun = time.perf_counter()
        problem = InverseProblem.on(self.forward, sensors, readings, noise)
        found = self.conditioner(self.evidence_of(problem))
        refuse_surprise(found.surprise[0])
        return Posterior.normal(
            problem,
            found.mean[0],
            found.covariance[0],
            time.perf_counter() - begun,
            seed,
            setup_seconds=self.seconds,
            diagnostics={"surprise": float(found.surprise[0])},
            surrogate=self.field,
        )

    def condition_many(self, sensors: np.ndarray, readings: np.ndarray, noise: float | np.ndarray) -> Conditioned:
        """The same for many sets of readings [B, S] at sensors [S, 2] that they share, or [B, S, 2]."""
        return self.conditioner(self.evidence(sensors, readings, noise))

    def evidence_of(self, problem: InverseProblem) -> Evidence:
        noise = np.broadcast_to(problem.noise, problem.readings.shape)
        return Evidence.of(*self._through(problem.read), problem.readings[None], noise[None])

    def evidence(self, sensors: np.ndarray, readings: np.ndarray, noise: float | np.ndarray) -> Evidence:
        sensors, readings = np.asarray(sensors, float), np.asarray(readings, float)
        if readings.ndim != 2 or sensors.shape[-2:] != (readings.shape[1], 2):
            raise UserError(
                f"readings have shape {readings.shape} for sensors {sensors.shape}: give readings [sets, S] and "
                "sensors [S, 2] or [sets, S, 2]"
            )
        base, phi = self.reader(sensors.reshape(-1, 2))
        base, phi = base.reshape(sensors.shape[:-1]), phi.reshape(*sensors.shape[:-1], -1)
        return Evidence.of(base, phi, readings, np.broadcast_to(noise, readings.shape))

    @constant_property
    def conditioner(self) -> Conditioner:
        return Conditioner(self.branch)

    def save(self, path: str | Path) -> None:
        """Everything that :meth:`load` needs but the equation, as plain arrays."""
        layers = {f"layer_{k}": layer for k, layer in enumerate(self.basis.layers)}
        parts = {**self.basis._asdict(), **self.branch._asdict(), "seconds": self.seconds, **layers}
        del parts["layers"]
        trained_for = {f"for_{name}": value for name, value in signature_of(self.forward)._asdict().items()}
        with open(path, "wb") as file:  # under this very name
            np.savez(file, **parts, **trained_for)

    @classmethod
    def load(cls, path: str | Path, forward: Forward) -> Decoder:
        """What :meth:`save` wrote, for the equation, prior and region it was trained for, on any mesh of it."""
        try:
            with np.load(path) as kept:
                parts = dict(kept)
            trained_for = Signature(**{name: parts[f"for_{name}"] for name in Signature._fields})
            layers = tuple(parts[f"layer_{k}"] for k in range(sum(name.startswith("layer_") for name in parts)))
            basis = Basis(parts["centre"], float(parts["half"]), layers, parts["V"])
            branch = Interpolant(**{name: parts[name] for name in Interpolant._fields})
        except (OSError, ValueError, KeyError) as error:
            raise UserError(
                f"{path} is not a saved decoder ({error}): check the path, or train one and save it there"
            ) from None
        different = differences(trained_for, forward)
        if different:
            raise UserError(f"the decoder in {path} was trained for another {different}: train one for this problem")
        return cls(forward, basis, branch, float(parts["seconds"]))

    def errors(self, n: int = 20, seed: int = 0) -> Errors:
        """At n fresh draws of the prior, by exact solves."""
        z = np.random.default_rng([seed, int(Stream.DECODER), n]).normal(size=(n, self.forward.latents.size))
        base, at_nodes = self.reader(self.forward.mesh.points)
        u = np.concatenate([self.forward.solve(tf.constant(part)).numpy() for part in np.array_split(z, -(-n // 20))])
        off = base + self.branch(tf.constant(z)).numpy() @ at_nodes.T - u
        relative = np.linalg.norm(off, axis=1) / np.linalg.norm(u, axis=1)
        return Errors(float(np.median(relative)), float(relative.max()))


def refuse_surprise(surprise: float) -> None:
    if surprise > _TOO_FAR:
        raise UserError(
            f"the readings lie {surprise:.0f} standard deviations from what the prior can give: are their units, the "
            "noise and the equation right? If so, widen the prior and train again"
        )


def _refuse_open_boundary(forward: Forward) -> None:
    if forward.weak.known is None or forward.weak.edge:
        raise UserError(
            "a decoder needs boundary= as a number, an array or a function of x; if it is not known, or depends on "
            "latents, use CVI"
        )
