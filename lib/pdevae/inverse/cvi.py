"""Constrained variational inference (Section 3) for any inverse problem: a decoder μ(x, z) and a Gaussian q(z).

F_ε = E_q[−log p(y | μ)] + KL(q ‖ p) + E[‖L[z]μ − f‖²] / 2ε²   (eq:MC_cvi_sub_prob), ε annealed.

``serves`` says for which z the last expectation is taken: ``"q"``, as printed, which narrows q; ``"wider"``, z drawn
``spread`` times as wide as q, for the decoder alone; ``"prior"``, the decoder first, without readings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .._tensorflow import tf
from ..errors import UserError
from ..fields import keras_field
from ..mesh import Mesh
from ..operators import Term
from ..penalties import ExactPenalty, MultilevelPenalty, Penalty, TaperedPenalty, TwoLevelPenalty
from ..schedules import Geometric
from .fit import fit
from .gaussian import Family, Gaussian, antithetic
from .posterior import Posterior
from .problem import InverseProblem

PENALTIES: dict[str, type[Penalty]] = {
    "exact": ExactPenalty,
    "two-level": TwoLevelPenalty,
    "multilevel": MultilevelPenalty,
    "tapered": TaperedPenalty,
}


class Decoder(tf.Module):
    """Σ_k t_k(x) b_k(z) / √K · scale: a trunk of tanh layers in x, a branch in z, so x costs the same for any M."""

    def __init__(self, mesh: Mesh, latent: int, scale: float = 1.0, width: int = 48, depth: int = 2, seed: int = 0):
        super().__init__()
        low, high = mesh.points.min(axis=0), mesh.points.max(axis=0)
        self.centre, self.half, self.scale, self.width = (low + high) / 2, (high - low).max() / 2, scale, width
        layers = [(2, width), *(depth - 1) * [(width, width)], (latent, width), (width, width)]
        rng = np.random.default_rng([seed, 13])
        self.layers = [
            (_variable(1.2 / np.sqrt(n) * rng.normal(size=(n, m))), _variable(0.3 * rng.normal(size=m)))
            for n, m in layers
        ]

    def __call__(self, x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        *trunk_layers, (w_1, b_1), (w_2, b_2) = self.layers
        trunk = tf.cast((x - tf.constant(self.centre, x.dtype)) / tf.constant(self.half, x.dtype), tf.float32)
        for w, b in trunk_layers:
            trunk = tf.tanh(trunk @ w + b)
        branch = tf.tanh(tf.cast(z, tf.float32) @ w_1 + b_1) @ w_2 + b_2
        return tf.cast(self.scale / np.sqrt(self.width) * tf.matmul(branch, trunk, transpose_b=True), x.dtype)


def _variable(value: np.ndarray) -> tf.Variable:
    return tf.Variable(value.astype(np.float32))


@dataclass(frozen=True)
class CVI:
    """``penalty``: a name, or a function from mesh and equation to a penalty with the problem's boundary in it.

    ``decoder``: a Keras model of a place and a latent side by side [n, 2 + d], or any μ(x, z) with
    ``trainable_variables``; by default a :class:`Decoder`. ``eps``: first and last ε, as shares of the load's norm.
    """

    decoder: Any = None
    penalty: str | Callable[[Mesh, Term], Penalty] = "multilevel"
    steps: int = 10_000
    samples: int = 4
    eps: tuple[float, float] = (0.05, 0.005)
    learning_rate: float = 5e-3
    serves: Literal["q", "wider", "prior"] = "wider"
    spread: float = 1.5
    family: Family = "full"
    rank: int = 10
    compiled: bool = True

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        training = Training(self, problem, seed)
        ready = time.perf_counter()
        history = training.run()
        q, seconds = training.q, time.perf_counter() - begun
        said = {"loss": float(history[-1])}
        moments = q.mean.numpy().astype(float), q.covariance().numpy().astype(float)
        return Posterior.normal(
            problem, *moments, seconds, seed, setup_seconds=ready - begun, diagnostics=said, surrogate=training.field
        )

    def penalty_for(self, problem: InverseProblem) -> Penalty:
        if callable(self.penalty):
            return self.penalty(problem.mesh, problem.equation)
        if self.penalty not in PENALTIES:
            raise UserError(f"unknown penalty {self.penalty!r}: use one of {', '.join(PENALTIES)}, or a function")
        return PENALTIES[self.penalty](problem.mesh, problem.equation, boundary=problem.boundary, dtype=tf.float32)


class Training:
    """A decoder and a Gaussian on their way to F_ε's minimum."""

    def __init__(self, method: CVI, problem: InverseProblem, seed: int):
        self.method, self.problem, self.seed = method, problem, seed
        self.penalty = method.penalty_for(problem)
        self.q = Gaussian(problem.size, method.family, method.rank, dtype=tf.float32)
        self.load = self._load()
        self.mu, self.variables = self._decoder()
        self.read = self.penalty.field_at(problem.sensors)
        first, last = (share * np.sqrt(self.load) for share in method.eps)
        self.schedule = Geometric(first, last, steps=max(int(0.7 * method.steps), 1))

    def run(self) -> np.ndarray:
        steps, rate, compiled = self.method.steps, self.method.learning_rate, self._compiles
        options = {"learning_rate": rate, "compiled": compiled}
        if self.method.serves != "prior":
            return fit(self._joint, [*self.variables, *self.q.trainable_variables], steps, what="CVI", **options)
        fit(self._over_prior, self.variables, steps, what="decoder", **options)
        return fit(lambda step: self._fit(self._drawn(step, 8)), self.q.trainable_variables, steps, what="q", **options)

    def field(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The decoder's u [k, n] at places for each z."""
        return self.penalty.field_at(x)(self.mu, self._seen(tf.constant(z, tf.float32))).numpy()

    @property
    def _compiles(self) -> bool:
        return self.method.compiled and self.penalty.compiles and self.method.steps >= 500

    def _decoder(self):
        """μ(x, seen) and its variables."""
        given, d = self.method.decoder, self.problem.size
        if given is None:
            given = Decoder(self.problem.mesh, d, scale=self._scale(), seed=self.seed)
        field = keras_field(given) if isinstance(given, tf.keras.Model) else given
        if not callable(field) or not len(getattr(given, "trainable_variables", ())):
            raise UserError("decoder must be a Keras model, or a function of x and z with trainable_variables")
        u = field(tf.zeros([3, 2]), tf.zeros([2, d]))
        if u.shape != [2, 3]:
            raise UserError(f"the decoder gives {u.shape} for 3 places and 2 samples of z: it must give [2, 3]")
        return (lambda x, seen: field(x, seen.whitened)), given.trainable_variables

    def _scale(self) -> float:
        """About how large w·μ must be: the readings, less the boundary's values."""
        known = self.penalty.weak.known
        base = 0.0 if known is None else float(np.nanmean(known))
        return float(np.abs(self.problem.readings - base).max()) or 1.0

    def _load(self) -> float:
        """The penalty of the field that is the boundary's values continued: what there is to explain."""
        z = antithetic(32, (self.problem.size,), (0, 17), tf.float32)
        nothing = lambda x, seen: tf.zeros([32, x.shape[0]], x.dtype)  # noqa: E731
        several = [float(self.penalty(nothing, self._seen(z), (17, k))) for k in range(16)]
        return max(float(np.mean(several)), 1e-30)

    def _seen(self, z: tf.Tensor):
        return self.problem.latents.seen(z)

    def _key(self, step) -> tf.Tensor:
        return tf.stack([step, tf.constant(self.seed)])

    def _drawn(self, step, times: int = 1) -> tf.Tensor:
        return self.q.draw(antithetic(times * self.method.samples, self.q.noise_shape, self._key(step), tf.float32))

    def _joint(self, step) -> tf.Tensor:
        z = self._drawn(step)
        served = z
        if self.method.serves == "wider":
            served = tf.stop_gradient(self.q.mean + self.method.spread * (z - self.q.mean))
        eps = tf.cast(self.schedule(step), tf.float32)
        return self._fit(z) + self._held(served, step) / (2 * eps**2)

    def _over_prior(self, step) -> tf.Tensor:
        normal = antithetic(self.method.samples, (self.problem.size,), self._key(step), tf.float32)
        return self._held(self.method.spread * normal, step) / self.load

    def _held(self, z: tf.Tensor, step) -> tf.Tensor:
        return self.penalty(self.mu, self._seen(z), self._key(step))

    def _fit(self, z: tf.Tensor) -> tf.Tensor:
        """E_q[−log p(y | μ)] + KL(q ‖ p)."""
        return self.q.kl() - tf.reduce_mean(self.problem.fit_of(self.read(self.mu, self._seen(z))))
