"""Constrained variational inference (Section 3): a surrogate μ(x, τ) and a Gaussian q(τ), fitted together.

F_ε = E_q[−log p(y | μ)] + KL(q ‖ p) + E[‖L[τ]μ − f‖²] / 2ε²   (eq:MC_cvi_sub_prob), ε annealed.

As printed, the last expectation is over q, and its gradient narrows q: a surrogate is the easier to keep on the
PDE the fewer τ it must serve. The constraint, though, is meant to hold for *every* τ (eq:fem_constrained). With
``coupled=False`` (the default) the penalty trains the surrogate alone, on τ drawn ``spread`` times as wide as q.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from tqdm.auto import tqdm

from .._tensorflow import tf
from ..errors import UserError
from ..mesh import Mesh
from ..operators import Term
from ..penalties import Penalty
from ..schedules import Geometric
from .problem import Posterior, TransportProblem

_AT_A_TIME = 250  # steps between looks at the loss


class Diverged(UserError):
    """Training left the numbers: a result about the method, not one to be saved as a posterior."""


class Surrogate(tf.Module):
    """μ(x, τ): a network with tanh layers, (x, τ) → width → width → width → 1."""

    def __init__(self, width: int, seed: int):
        super().__init__()
        rng = np.random.default_rng([seed, 13])
        shapes = [(4, width), (width, width), (width, width), (width, 1)]
        self.weights = [tf.Variable(rng.normal(size=shape) * 1.2 / np.sqrt(shape[0])) for shape in shapes]
        self.biases = [tf.Variable(0.3 * rng.normal(size=shape[1])) for shape in shapes]

    def __call__(self, x: tf.Tensor, tau: tf.Tensor) -> tf.Tensor:
        first = self.weights[0]
        h = tf.tanh((x @ first[:2])[None] + (tau @ first[2:])[:, None] + self.biases[0])  # [M, n, width]
        for w, b in zip(self.weights[1:-1], self.biases[1:-1]):
            h = tf.tanh(tf.tensordot(h, w, 1) + b)
        return (tf.tensordot(h, self.weights[-1], 1) + self.biases[-1])[..., 0]


class GaussianFactor(tf.Module):
    """q(τ) = N(m, CCᵀ), C lower triangular with a positive diagonal; starts at the prior."""

    def __init__(self):
        super().__init__()
        self.m = tf.Variable(np.zeros(2))
        self.log_diagonal = tf.Variable(np.zeros(2))
        self.below = tf.Variable(0.0, dtype=tf.float64)

    @property
    def C(self) -> tf.Tensor:
        return tf.linalg.diag(tf.exp(self.log_diagonal)) + self.below * tf.constant(
            [[0.0, 0.0], [1.0, 0.0]], tf.float64
        )

    def kl(self) -> tf.Tensor:
        """KL(q ‖ N(0, I))."""
        return 0.5 * (tf.reduce_sum(self.C**2) + tf.reduce_sum(self.m**2)) - tf.reduce_sum(self.log_diagonal) - 1.0


@dataclass(frozen=True)
class CVI:
    """``penalty`` makes the penalty from mesh, equation and boundary value.

    Hold ε at its end for the last third of the steps (``Geometric(0.03, 0.003, steps=7000)`` of 10,000): a schedule
    that shrinks to the last step leaves the surrogate behind and q too wide.
    """

    penalty: Callable[[Mesh, Term, float], Penalty]
    schedule: Geometric
    steps: int = 10_000
    samples: int = 4
    width: int = 32
    learning_rate: float = 1e-2
    spread: float = 1.5
    coupled: bool = False

    def __call__(self, problem: TransportProblem, seed: int = 0, draws: int = 1000) -> Posterior:
        begun = time.perf_counter()
        penalty = self.penalty(problem.mesh, problem.equation, 0.0)
        ready = time.perf_counter()
        mu, q = Surrogate(self.width, seed), GaussianFactor()
        train = self._trainer(problem, penalty, mu, q, seed)
        for start in tqdm(range(0, self.steps, _AT_A_TIME), "CVI", delay=3, leave=False):
            loss = float(train(start, min(_AT_A_TIME, self.steps - start)))
            if not np.isfinite(loss) or not np.isfinite(q.C.numpy()).all():
                raise Diverged(f"CVI diverged between steps {start} and {start + _AT_A_TIME} (loss {loss})")
        C, m = q.C.numpy(), q.m.numpy()
        normal = np.random.default_rng([seed, 14]).normal(size=(draws, 2))
        ended = time.perf_counter()
        return Posterior(m, C @ C.T, m + normal @ C.T, ended - begun, ready - begun, {"loss": loss})

    def _trainer(self, problem, penalty, mu: Surrogate, q: GaussianFactor, seed: int):
        """A compiled function that takes ``count`` steps from step ``start`` and returns the last loss."""
        networks, factors = list(mu.trainable_variables), list(q.trainable_variables)
        rate = tf.keras.optimizers.schedules.CosineDecay(self.learning_rate, self.steps, alpha=0.01)
        adam = tf.keras.optimizers.legacy.Adam(rate)

        @tf.function
        def train(start, count):
            last = tf.constant(0.0, tf.float64)
            for step in tf.range(start, start + count):
                with tf.GradientTape() as tape:
                    last = self._objective(problem, penalty, mu, q, step, seed)
                gradients = tape.gradient(last, networks + factors)
                adam.apply_gradients(zip(gradients, networks + factors))
            return last

        return lambda start, count: train(tf.constant(start), tf.constant(count))

    def _objective(
        self, problem: TransportProblem, penalty: Penalty, mu, q: GaussianFactor, step, seed: int
    ) -> tf.Tensor:
        key = tf.stack([tf.cast(step, tf.int32), seed])
        noise = tf.random.stateless_normal([self.samples, 2], key, dtype=tf.float64)
        away = noise @ tf.transpose(q.C)
        tau = q.m + away
        misfit = tf.reduce_sum((problem.y - mu(tf.constant(problem.sensors), tau)) ** 2, axis=1)
        nll = tf.reduce_mean(misfit) / (2 * problem.sigma**2)
        served = tau if self.coupled else tf.stop_gradient(q.m + self.spread * away)
        eps = self.schedule(step)
        return nll + q.kl() + penalty(mu, served, key) / (2 * eps**2)
