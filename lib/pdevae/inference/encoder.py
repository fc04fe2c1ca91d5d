"""q(z | sensors, readings, noise) in one pass, for any number of readings at any places: the encoder of the title.

Readings enter as what they say of b (:class:`Evidence`, a sum over sensors), whatever their order. From there to the
mode of p(z | y) on the decoder is a few Gauss–Newton steps; in coordinates where the posterior would be N(0, I) if it
were Gaussian, a network sees by how much log p(y, z) differs from that at some places, and moves, widens and turns the
Gaussian. It is trained on readings that the decoder simulates.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import Any, Literal

import numpy as np

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError
from pdevae.fem.mesh import random_places
from pdevae.inference.conditioning import Conditioned, Evidence
from pdevae.inference.couplings import Couplings
from pdevae.inference.decoder import Decoder, refuse_surprise
from pdevae.inference.fit import fit
from pdevae.inference.gaussian import antithetic, cubature
from pdevae.inference.heads import Affine, Head
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.streams import Stream, random

_PLACES = 4000  # where simulated sensors stand
_AT_A_TIME = 128
_BATCH = 64
_DRAWS = 1000


class Encoder:
    """Made by :meth:`train`, which took ``seconds``; for ``noise`` in the given range.

    >>> import pdevae
    >>> decoder = pdevae.Decoder.train(problem.forward, penalty="exact", steps=500, width=16)
    >>> encoder = Encoder.train(decoder, noise=(0.001, 0.01), sensors=(3, 10), problems=256, steps=200)
    >>> found = encoder(problem.sensors, problem.readings, problem.noise)
    >>> found.a().mean.round(1).tolist()
    [2.0]
    """

    def __init__(self, decoder: Decoder, noise: tuple[float, float], head: Head):
        self.decoder, self.noise, self.head, self.seconds = decoder, noise, head, 0.0
        self.d = decoder.forward.latents.size
        points, _ = cubature(self.d, cheap=False)
        self.anchors = tf.constant(points[np.linalg.norm(points, axis=1) > 0])

    @classmethod
    def train(
        cls,
        decoder: Decoder,
        noise: tuple[float, float],
        sensors: tuple[int, int] = (10, 60),
        objective: Literal["reverse", "forward"] = "reverse",
        family: Literal["gaussian", "flow"] = "gaussian",
        problems: int = 8192,
        steps: int = 1000,
        width: int = 64,
        seed: int = 0,
    ) -> Encoder:
        """On simulated ``problems``: random places, numbers of ``sensors`` and ``noise`` from these ranges.

        ``objective``: E KL(q ‖ p(z | y)), the VAE's, or E KL(p(z | y) ‖ q), that of neural posterior estimation, which
        needs draws of z and y alone. ``family``: a full Gaussian, or a normalising flow (with TensorFlow Probability).
        """
        if not 0 < noise[0] <= noise[1] or not 1 <= sensors[0] <= sensors[1]:
            raise UserError(
                f"noise={noise} and sensors={sensors} must be (smallest, largest), above 0: noise=(0.002, 0.02), "
                "sensors=(10, 60)"
            )
        if objective not in ("forward", "reverse"):
            raise UserError(f"unknown objective {objective!r}: use forward or reverse")
        if family not in ("gaussian", "flow"):
            raise UserError(f"unknown family {family!r}: use gaussian or flow")
        begun, rng = time.perf_counter(), random(Stream.ENCODER, seed)
        d = decoder.forward.latents.size
        features = np.count_nonzero(np.linalg.norm(cubature(d, cheap=False)[0], axis=1))
        made = cls(decoder, noise, (Couplings if family == "flow" else Affine)(d, features, width, seed=seed))
        known = made._simulated(problems, sensors, rng)
        fit(getattr(made, f"_{objective}_loss")(*known), made.head.trainable_variables, steps, 3e-3, what="encoder")
        made.seconds = time.perf_counter() - begun
        return made

    def __call__(
        self, sensors: np.ndarray, readings: np.ndarray, noise: float | np.ndarray, seed: int = 0
    ) -> Posterior:
        """Readings that the prior cannot give, and noise it was not trained for, are refused."""
        begun = time.perf_counter()
        problem = InverseProblem.on(self.decoder.forward, sensors, readings, noise)
        self._refuse_noise(noise)
        evidence = self.decoder.evidence_of(problem)
        found = self._encoded_alone(tf.constant(evidence.H), tf.constant(evidence.h))
        mean, covariance, least, *start = (part.numpy() for part in found)
        surprise = float(evidence.surprise(least)[0])
        refuse_surprise(surprise)
        more: dict[str, Any] = {"diagnostics": {"surprise": surprise}, "surrogate": self.decoder.field}
        if isinstance(self.head, Affine):
            return Posterior.normal(problem, mean[0], covariance[0], time.perf_counter() - begun, seed, **more)
        normal = random(Stream.POSTERIOR, seed).normal(size=(_DRAWS, 1, self.d))
        z = start[0] + self._bend(tf.constant(normal), start[2]).numpy()[:, 0] @ start[1][0].T
        seconds, density = time.perf_counter() - begun, lambda z: self._log_q(z, *start)
        return Posterior(problem, mean[0], covariance[0], z, seconds, gaussian=False, density=density, **more)

    def many(self, sensors: np.ndarray, readings: np.ndarray, noise: float | np.ndarray) -> Conditioned:
        """For many sets of readings [B, S] at sensors [S, 2] that they share, or [B, S, 2]."""
        self._refuse_noise(noise)
        return self.of_evidence(self.decoder.evidence(sensors, readings, noise))

    def of_evidence(self, evidence: Evidence) -> Conditioned:
        return evidence.in_parts(_AT_A_TIME, self._some)

    def _refuse_noise(self, noise) -> None:
        low, high = np.min(noise), np.max(noise)
        if low < 0.999 * self.noise[0] or high > 1.001 * self.noise[1]:
            raise UserError(
                f"the encoder was trained for noise from {self.noise[0]:g} to {self.noise[1]:g}, not {low:g} to "
                f"{high:g}: use decoder.condition, or train an encoder for it"
            )

    def refine(self, posterior: Posterior) -> Posterior:
        """The Gaussian that is nearest on the decoder, for the readings of one that the encoder gave."""
        problem = posterior.problem
        return self.decoder.condition(problem.sensors, problem.readings, problem.noise)

    def _some(self, evidence: Evidence) -> Conditioned:
        mean, covariance, least, *_ = self._encoded(tf.constant(evidence.H), tf.constant(evidence.h))
        return Conditioned(mean.numpy(), covariance.numpy(), evidence.surprise(least.numpy()))

    @cached_property
    def _encoded(self):
        points, weights = (tf.constant(part) for part in cubature(self.d, cheap=True))

        def encoded(H, h):
            mode, C, features, least = self._start(H, h)
            v = self.head.forth(tf.repeat(points[:, None], h.shape[0], axis=1), features)[0]
            z = mode + tf.linalg.matvec(C, v)
            mean = tf.einsum("m,mbi->bi", weights, z)
            covariance = tf.einsum("m,mbi,mbj->bij", weights, z - mean, z - mean)
            return mean, covariance, least, mode, C, features

        return graph(encoded, jit_compile=True)

    @cached_property
    def _encoded_alone(self):
        """For one set of readings: which of the compiled functions it is need not be found out at each call."""
        K = self.decoder.branch.weights.shape[1]
        return self._encoded.get_concrete_function(
            tf.TensorSpec([1, K, K], tf.float64), tf.TensorSpec([1, K], tf.float64)
        )

    @cached_property
    def _bend(self):
        return graph(lambda xi, features: self.head.forth(xi, features)[0])

    @cached_property
    def _straighten(self):
        return graph(self.head.back)

    def _log_q(self, z: np.ndarray, mode: np.ndarray, C: np.ndarray, features: np.ndarray) -> np.ndarray:
        """log q [k] of z [k, d], for one set of readings."""
        v = np.linalg.solve(C[0], (z - mode[0]).T).T[:, None]
        xi, log_det = (part.numpy()[:, 0] for part in self._straighten(tf.constant(v), tf.constant(features)))
        normal = -0.5 * np.sum(xi**2, axis=1) - 0.5 * self.d * np.log(2 * np.pi)
        return normal + log_det - np.sum(np.log(np.diag(C[0])))

    def _start(self, H: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The mode, C with CCᵀ its inverse precision, what the network sees, and misfit + |mode|²."""
        mode, P = self.decoder.conditioner.to_mode(H, h)
        C = tf.linalg.cholesky(tf.linalg.inv(P))
        z = mode[:, None] + tf.einsum("bij,aj->bai", C, self.anchors)
        value = self.decoder.conditioner.energy(H, h, tf.concat([mode[:, None], z], axis=1))
        off = value[:, 1:] - value[:, :1] - 0.5 * tf.reduce_sum(self.anchors**2, axis=1)
        return mode, C, tf.tanh(off), 2 * value[:, 0]

    def _simulated(self, problems: int, sensors: tuple[int, int], rng: np.random.Generator):
        """z, H, h of each problem, and what :meth:`_start` makes of them."""
        x = random_places(self.decoder.forward.mesh, _PLACES, rng)
        base, phi = self.decoder.reader(x)
        parts = []
        start = graph(self._start)
        for _ in range(-(-problems // _AT_A_TIME)):
            z = rng.normal(size=(_AT_A_TIME, self.d))
            at = rng.integers(_PLACES, size=(_AT_A_TIME, sensors[1]))
            number = rng.integers(sensors[0], sensors[1] + 1, size=_AT_A_TIME)
            noise = np.exp(rng.uniform(np.log(self.noise[0]), np.log(self.noise[1]), (_AT_A_TIME, 1)))
            noise = np.repeat(noise, sensors[1], axis=1)
            b = self.decoder.branch(tf.constant(z)).numpy()
            y = base[at] + np.einsum("bsk,bk->bs", phi[at], b) + noise * rng.normal(size=noise.shape)
            noise[np.arange(sensors[1]) >= number[:, None]] = np.inf  # a sensor that is not there
            evidence = Evidence.of(base[at], phi[at], y, noise)
            H, h = tf.constant(evidence.H), tf.constant(evidence.h)
            parts.append((z, evidence.H, evidence.h, *(part.numpy() for part in start(H, h)[:3])))
        return tuple(tf.constant(np.concatenate(part)[:problems]) for part in zip(*parts))

    def _some_of(self, step, *known):
        drawn = tf.random.stateless_uniform([_BATCH], tf.stack([step, 1]), maxval=len(known[0]), dtype=tf.int32)
        return [tf.gather(part, drawn) for part in known]

    def _forward_loss(self, z, H, h, mode, C, features):
        """−E log q(z | y), up to a constant."""
        away = tf.linalg.triangular_solve(C, (z - mode)[..., None])[..., 0]

        def loss(step):
            xi, log_det = self.head.back(*self._some_of(step, away, features))
            return tf.reduce_mean(0.5 * tf.reduce_sum(xi**2, axis=-1) - log_det)

        return loss

    def _reverse_loss(self, z, H, h, mode, C, features, draws: int = 4):
        """E KL(q ‖ p(z | y)), up to a constant."""

        def loss(step):
            H_some, h_some, mode_some, C_some, seen = self._some_of(step, H, h, mode, C, features)
            v, log_det = self.head.forth(antithetic(draws, [_BATCH, self.d], tf.stack([step, 2])), seen)
            z = mode_some + tf.linalg.matvec(C_some, v)
            return tf.reduce_mean(self.decoder.conditioner.energy(H_some, h_some, tf.transpose(z, [1, 0, 2]))) - (
                tf.reduce_mean(log_det)
            )

        return loss
