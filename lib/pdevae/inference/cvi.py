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
from typing import NamedTuple

import numpy as np
from tqdm.auto import tqdm

from .._tensorflow import graph, tf
from ..errors import UserError
from ..mesh import Mesh
from ..operators import Term
from ..penalties import Penalty
from ..schedules import Geometric
from .gaussian import gaussian_posterior
from .problem import Posterior, TransportProblem

_AT_A_TIME = 250  # steps between looks at the loss


class Diverged(UserError):
    """Training left the numbers: a result about the method, not one to be saved as a posterior."""


@dataclass(frozen=True)
class Surrogate:
    """μ(x, τ) = Σ_k t_k(x) b_k(τ) / √K: a trunk of tanh layers in x, a branch in τ, so x costs the same for any M.

    ``weights`` is one flat vector: a training step is a pure function of it.
    """

    width: int

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        layers = [(2, self.width), (self.width, self.width), (self.width, self.width), (2, self.width)]
        return [shape for n, m in [*layers, (self.width, self.width)] for shape in ((n, m), (m,))]

    def init(self, seed: int) -> tf.Tensor:
        rng = np.random.default_rng([seed, 13])
        scale = [1.2 / np.sqrt(s[0]) if len(s) == 2 else 0.3 for s in self.shapes]
        values = [by * rng.normal(size=shape).ravel() for by, shape in zip(scale, self.shapes)]
        return tf.constant(np.concatenate(values), tf.float32)

    def field(self, weights: tf.Tensor):
        """μ as a function of places x [n, 2] and τ [M, 2]; single precision inside, the type of x outside."""
        parts = tf.split(weights, [int(np.prod(shape)) for shape in self.shapes])
        layers = [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes)]
        layers = list(zip(layers[::2], layers[1::2]))

        def mu(x, tau):
            trunk = tf.cast(x, tf.float32)
            for w, b in layers[:3]:
                trunk = tf.tanh(trunk @ w + b)
            (w_1, b_1), (w_2, b_2) = layers[3:]
            branch = tf.tanh(tf.cast(tau, tf.float32) @ w_1 + b_1) @ w_2 + b_2
            return tf.cast(tf.matmul(branch, trunk, transpose_b=True) / np.sqrt(self.width), x.dtype)

        return mu


class State(NamedTuple):
    """What a step takes and gives: the surrogate's weights, q, and Adam's two moments of the gradient."""

    weights: tf.Tensor
    q: tf.Tensor  # m₁, m₂, log C₁₁, log C₂₂, C₂₁; starts at the prior
    first: tf.Tensor
    second: tf.Tensor


def _gaussian(q: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """m, C and KL(q ‖ N(0, I)) of q = N(m, CCᵀ)."""
    m, log_diagonal = q[:2], q[2:4]
    C = tf.linalg.diag(tf.exp(log_diagonal)) + q[4] * tf.constant([[0.0, 0.0], [1.0, 0.0]])
    kl = 0.5 * (tf.reduce_sum(C**2) + tf.reduce_sum(m**2)) - tf.reduce_sum(log_diagonal) - 1.0
    return m, C, kl


@dataclass(frozen=True)
class CVI:
    """``penalty`` makes the penalty from mesh, equation and boundary value.

    Hold ε at its end for the last third of the steps (``Geometric(0.03, 0.003, steps=7000)`` of 10,000): a schedule
    that shrinks to the last step leaves the surrogate behind and q too wide. ``xla`` compiles the loop; not for the
    exact and two-level penalties, which call a sparse solver on the host.
    """

    penalty: Callable[[Mesh, Term, float], Penalty]
    schedule: Geometric
    steps: int = 10_000
    samples: int = 8
    width: int = 64
    learning_rate: float = 5e-3
    spread: float = 1.5
    coupled: bool = False
    xla: bool = False
    precision: tf.DType = tf.float32  # the penalty's

    def __call__(self, problem: TransportProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        penalty = self.penalty(problem.mesh, problem.equation, 0.0)
        ready = time.perf_counter()
        state, train = self.start(seed), self.trainer(problem, penalty, seed)
        for start in tqdm(range(0, self.steps, _AT_A_TIME), "CVI", delay=3, leave=False):
            state, loss = train(state, tf.constant(start), tf.constant(min(_AT_A_TIME, self.steps - start)))
            if not all(np.isfinite(part).all() for part in (loss, state.weights, state.q)):
                raise Diverged(f"CVI diverged between steps {start} and {start + _AT_A_TIME} (loss {float(loss)})")
        ended = time.perf_counter()
        mu, (m, C, _) = Surrogate(self.width).field(state.weights), _gaussian(state.q)
        predict = lambda x, tau: mu(tf.constant(x), tf.constant(tau)).numpy()  # noqa: E731
        return gaussian_posterior(m, C, ended - begun, ready - begun, {"loss": float(loss)}, predict, seed)

    def start(self, seed: int) -> State:
        weights = Surrogate(self.width).init(seed)
        return State(weights, tf.zeros(5), *(tf.zeros(weights.shape[0] + 5) for _ in range(2)))

    def trainer(self, problem: TransportProblem, penalty: Penalty, seed: int):
        """A compiled function of state, first step and count: the state that many steps later, and the last loss."""
        surrogate = Surrogate(self.width)

        def step(number, state: State, _):
            with tf.GradientTape() as tape:
                tape.watch([state.weights, state.q])
                loss = self._objective(problem, penalty, surrogate.field(state.weights), state.q, number, seed)
            gradient = tf.concat(tape.gradient(loss, [state.weights, state.q]), axis=0)
            return number + 1, self._adam(state, gradient, tf.cast(number, tf.float32)), loss

        @graph(jit_compile=self.xla)
        def train(state, start, count):
            going = lambda number, *_: number < start + count  # noqa: E731
            return tf.while_loop(going, step, (start, state, tf.constant(0.0)))[1:]

        return train

    def _adam(self, state: State, gradient: tf.Tensor, number: tf.Tensor) -> State:
        """Kingma & Ba's step on the flat vector, the rate falling along a cosine to a hundredth."""
        first = 0.9 * state.first + 0.1 * gradient
        second = 0.999 * state.second + 0.001 * gradient**2
        rate = self.learning_rate * (0.505 + 0.495 * tf.cos(np.pi * number / self.steps))
        unbiased = [m / (1 - tf.pow(beta, number + 1)) for m, beta in ((first, 0.9), (second, 0.999))]
        move = rate * unbiased[0] / (tf.sqrt(unbiased[1]) + 1e-8)
        n = state.weights.shape[0]
        return State(state.weights - move[:n], state.q - move[n:], first, second)

    def _objective(self, problem: TransportProblem, penalty: Penalty, mu, q: tf.Tensor, step, seed: int) -> tf.Tensor:
        key = tf.stack([tf.cast(step, tf.int32), seed])
        m, C, kl = _gaussian(q)
        half = tf.random.stateless_normal([self.samples // 2, 2], key)
        away = tf.concat([half, -half], axis=0) @ tf.transpose(C)  # in pairs: an odd error cancels
        misfit = tf.reduce_sum((problem.y - mu(tf.constant(problem.sensors), m + away)) ** 2, axis=1)
        nll = tf.cast(tf.reduce_mean(misfit), tf.float32) / (2 * problem.sigma**2)
        served = m + away if self.coupled else tf.stop_gradient(m + self.spread * away)
        held = tf.cast(penalty(mu, tf.cast(served, self.precision), key), tf.float32)
        return nll + kl + held / (2 * tf.cast(self.schedule(step), tf.float32) ** 2)
