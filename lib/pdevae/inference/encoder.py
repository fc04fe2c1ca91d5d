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
from pdevae.fem.mesh import Mesh
from pdevae.inference.conditioning import Conditioned, Evidence
from pdevae.inference.decoder import Decoder, refuse_surprise
from pdevae.inference.fit import fit
from pdevae.inference.gaussian import Gaussian, antithetic, cubature
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.streams import Stream, random

_PLACES = 4000  # where simulated sensors stand
_AT_A_TIME = 128
_BATCH = 64


class Encoder:
    """Trained by :meth:`train` for ``noise`` between two numbers.

    >>> import pdevae
    >>> decoder = pdevae.Decoder.train(problem.forward, penalty="exact", steps=500, width=16)
    >>> encoder = Encoder.train(decoder, noise=(0.001, 0.01), sensors=(3, 10), problems=256, steps=200)
    >>> found = encoder(problem.sensors, problem.readings, problem.noise)
    >>> found.a().mean.round(1).tolist()
    [2.0]
    """

    def __init__(self, decoder: Decoder, noise: tuple[float, float], layers: list[Any]):
        self.decoder, self.noise, self.layers = decoder, noise, layers
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
        problems: int = 8192,
        steps: int = 1000,
        width: int = 64,
        seed: int = 0,
    ) -> Encoder:
        """On ``problems`` with so many ``sensors`` at random places and ``noise`` between two numbers.

        ``objective``: E KL(q ‖ p(z | y)), the VAE's, or E KL(p(z | y) ‖ q), that of neural posterior estimation, which
        needs draws of z and y alone.
        """
        if not 0 < noise[0] <= noise[1] or not 1 <= sensors[0] <= sensors[1]:
            raise UserError(f"noise={noise} and sensors={sensors} must each be a smallest and a largest, above 0")
        if objective not in ("forward", "reverse"):
            raise UserError(f"unknown objective {objective!r}: use forward or reverse")
        rng = random(Stream.ENCODER, seed)
        made = cls(decoder, noise, [])
        sizes = [len(made.anchors), width, width, made.d + made.d * (made.d + 1) // 2]
        scales = [1 / np.sqrt(n) for n in sizes[:2]] + [0.0]  # starts as Laplace's approximation
        for n, m, scale in zip(sizes, sizes[1:], scales):
            made.layers += [tf.Variable(scale * rng.normal(size=(n, m))), tf.Variable(np.zeros(m))]
        known = made._simulated(problems, sensors, rng)
        loss = made._forward_loss(*known) if objective == "forward" else made._reverse_loss(*known)
        fit(loss, made.layers, steps, 3e-3, what="encoder")
        return made

    def __call__(
        self, sensors: np.ndarray, readings: np.ndarray, noise: float | np.ndarray, seed: int = 0
    ) -> Posterior:
        """Readings that the prior cannot give, and noise it was not trained for, are refused."""
        begun = time.perf_counter()
        problem = InverseProblem.on(self.decoder.forward, sensors, readings, noise)
        self._refuse_noise(noise)
        found = self._some(self.decoder.evidence_of(problem))
        refuse_surprise(found.surprise[0])
        moments = found.mean[0], found.covariance[0]
        seconds = time.perf_counter() - begun
        said = {"surprise": float(found.surprise[0])}
        return Posterior.normal(problem, *moments, seconds, seed, diagnostics=said, surrogate=self.decoder.field)

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
        H, h = tf.constant(evidence.H), tf.constant(evidence.h)
        mean, covariance, least = self._encoded(H, h)
        return Conditioned(mean.numpy(), covariance.numpy(), evidence.surprise(least.numpy()))

    @cached_property
    def _encoded(self):
        def encoded(H, h):
            mode, C, features, least = self._start(H, h)
            q = self._corrected(mode, C, features)
            return q.mean, q.covariance(), least

        return graph(encoded)

    def _start(self, H: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """The mode, C with CCᵀ its inverse precision, what the network sees, and misfit + |mode|²."""
        mode, P = self.decoder.conditioner.to_mode(H, h)
        C = tf.linalg.cholesky(tf.linalg.inv(P))
        z = mode[:, None] + tf.einsum("bij,aj->bai", C, self.anchors)
        value = self.decoder.conditioner.energy(H, h, tf.concat([mode[:, None], z], axis=1))
        off = value[:, 1:] - value[:, :1] - 0.5 * tf.reduce_sum(self.anchors**2, axis=1)
        return mode, C, tf.tanh(off), 2 * value[:, 0]

    def _corrected(self, mode: tf.Tensor, C: tf.Tensor, features: tf.Tensor) -> Gaussian:
        """q = mode + C·N(δ, DDᵀ), δ and D by the network."""
        w_1, b_1, w_2, b_2, w_3, b_3 = self.layers
        out = tf.tanh(tf.tanh(features @ w_1 + b_1) @ w_2 + b_2) @ w_3 + b_3
        delta, log_scale, below = tf.split(out, [self.d, self.d, self.d * (self.d - 1) // 2], axis=1)
        corner = np.stack(np.tril_indices(self.d, -1), axis=1)
        D = tf.linalg.diag(tf.exp(log_scale))
        if len(corner):
            D += tf.transpose(tf.scatter_nd(corner, tf.transpose(below), [self.d, self.d, out.shape[0]]), [2, 0, 1])
        full = tf.matmul(C, D)
        return Gaussian(mode + tf.linalg.matvec(C, delta), tf.math.log(tf.linalg.diag_part(full)), full)

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
        """−E log q(z | y)."""

        def loss(step):
            truth, *start = self._some_of(step, z, mode, C, features)
            q = self._corrected(*start)
            away = tf.linalg.triangular_solve(q.factor(), (truth - q.mean)[..., None])[..., 0]
            return tf.reduce_mean(0.5 * tf.reduce_sum(away**2, axis=1) + tf.reduce_sum(q.log_scale, axis=1))

        return loss

    def _reverse_loss(self, z, H, h, mode, C, features, draws: int = 4):
        """E KL(q ‖ p(z | y)), up to a constant."""

        def loss(step):
            H_some, h_some, *start = self._some_of(step, H, h, mode, C, features)
            q = self._corrected(*start)
            normal = antithetic(draws, [_BATCH, self.d], tf.stack([step, 2]))
            misfit = self.decoder.conditioner.misfit(H_some, h_some, tf.transpose(q.draw(normal), [1, 0, 2]))
            return tf.reduce_mean(misfit) + tf.reduce_mean(q.kl())

        return loss


def random_places(mesh: Mesh, count: int, rng: np.random.Generator) -> np.ndarray:
    """Uniformly over the region; [count, 2]."""
    a, b, c = np.moveaxis(mesh.points[mesh.triangles], 1, 0)
    area = np.abs((b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0]))
    e = rng.choice(len(area), count, p=area / area.sum())
    share = rng.dirichlet([1.0, 1.0, 1.0], count)
    return share[:, :1] * a[e] + share[:, 1:2] * b[e] + share[:, 2:] * c[e]
