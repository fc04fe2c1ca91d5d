"""Constrained variational inference (Section 3): a decoder μ(x, τ) and a Gaussian q(τ), fitted together.

F_ε = E_q[−log p(y | μ)] + KL(q ‖ p) + E[‖L[τ]μ − f‖²] / 2ε²   (eq:MC_cvi_sub_prob), ε annealed.

``serves`` says for which τ the last expectation is taken:

- ``"q"``: as printed. Its gradient reaches q and narrows it: the fewer τ a decoder must serve, the easier it obeys;
- ``"wider"``: the constraint is meant for *every* τ (eq:fem_constrained), so the penalty trains the decoder alone, on
  τ drawn ``spread`` times as wide as q;
- ``"prior"``: the decoder first, without readings, on τ drawn ``spread`` times as wide as the prior; q afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

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

_AT_A_TIME = 500  # steps between looks at the loss


class Diverged(UserError):
    """Loss or parameters became non-finite: a result about the method, not one to be saved as a posterior."""


@dataclass(frozen=True)
class Decoder:
    """Σ_k t_k(x) b_k(τ) / √K: a trunk of tanh layers in x, a branch in τ, so x costs the same for any M.

    The penalty multiplies it by the boundary factor w. ``weights`` is one flat vector: a training step is a pure
    function of it.
    """

    width: int
    depth: int

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        layers = [(2, self.width), *(self.depth - 1) * [(self.width, self.width)], (2, self.width), 2 * (self.width,)]
        return [shape for n, m in layers for shape in ((n, m), (m,))]

    def init(self, seed: int) -> tf.Tensor:
        rng = np.random.default_rng([seed, 13])
        scale = [1.2 / np.sqrt(s[0]) if len(s) == 2 else 0.3 for s in self.shapes]
        values = [by * rng.normal(size=shape).ravel() for by, shape in zip(scale, self.shapes)]
        return tf.constant(np.concatenate(values), tf.float32)

    def field(self, weights: tf.Tensor):
        """μ as a function of places x [n, 2] and τ [M, 2]; single precision inside, the type of x outside."""
        parts = tf.split(weights, [int(np.prod(shape)) for shape in self.shapes])
        layers = [tf.reshape(part, shape) for part, shape in zip(parts, self.shapes)]
        *trunk_layers, (w_1, b_1), (w_2, b_2) = list(zip(layers[::2], layers[1::2]))

        def mu(x, tau):
            trunk = tf.cast(x, tf.float32)
            for w, b in trunk_layers:
                trunk = tf.tanh(trunk @ w + b)
            branch = tf.tanh(tf.cast(tau, tf.float32) @ w_1 + b_1) @ w_2 + b_2
            return tf.cast(tf.matmul(branch, trunk, transpose_b=True) / np.sqrt(self.width), x.dtype)

        return mu


class Readings(NamedTuple):
    """What a step knows of the data: so that one compiled program serves every set of readings on a mesh."""

    nodes: tf.Tensor  # [S, 3] of the elements the sensors lie in
    weights: tf.Tensor  # [S, 3]
    y: tf.Tensor  # [S]
    sigma: tf.Tensor
    seed: tf.Tensor

    @classmethod
    def of(cls, problem: TransportProblem, penalty: Penalty, seed: int) -> Readings:
        nodes, weights = penalty.weak.corners_at(problem.sensors)
        y, sigma = (tf.constant(value, tf.float32) for value in (problem.y, problem.sigma))
        return cls(nodes, weights, y, sigma, tf.constant(seed))


class State(NamedTuple):
    """What a step takes and gives: the decoder's weights, q, and Adam's two moments of the gradient."""

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
    """``penalty`` makes the penalty, boundary values included, from mesh and equation.

    Hold ε at its end for the last third of the steps (``Geometric(0.03, 0.003, steps=7000)`` of 10,000): a schedule
    that shrinks to the last step leaves the decoder behind and q too wide. ``xla`` compiles the loop; not for a
    penalty that calls a sparse solver on the host (``Penalty.compiles``).
    """

    penalty: Callable[[Mesh, Term], Penalty]
    schedule: Geometric
    steps: int = 10_000
    samples: int = 4
    width: int = 48
    depth: int = 2
    learning_rate: float = 5e-3
    serves: Literal["q", "wider", "prior"] = "wider"
    spread: float = 1.5
    xla: bool = False
    precision: tf.DType = tf.float32  # the penalty's

    def __call__(self, problem: TransportProblem, seed: int = 0) -> Posterior:
        training = training_on(self, problem.mesh, problem.equation)
        penalty, readings = training.penalty, Readings.of(problem, training.penalty, seed)
        setup, begun = training.prepared(readings), time.perf_counter()
        state, history = training.run(readings)
        seconds = time.perf_counter() - begun
        mu, (m, C, _) = Decoder(self.width, self.depth).field(state.weights), _gaussian(state.q)
        predict = lambda x, tau: penalty.field_at(x)(mu, tf.constant(tau)).numpy()  # noqa: E731
        said = {"loss": float(np.mean(history[-4:]))}
        return gaussian_posterior(m, C, setup + seconds, setup, said, predict, seed)

    def start(self, seed: int) -> State:
        weights = Decoder(self.width, self.depth).init(seed)
        return State(weights, tf.zeros(5), *(tf.zeros(weights.shape[0] + 5) for _ in range(2)))


@lru_cache(maxsize=2)
def training_on(method: CVI, mesh: Mesh, equation: Term) -> Training:
    """Kept for the next readings on the same mesh: tables and compiled steps are the same."""
    begun = time.perf_counter()
    penalty = method.penalty(mesh, equation)
    return Training(method, penalty, time.perf_counter() - begun)


class Training:
    """The loop of :class:`CVI` for one mesh and penalty: compiled once, run for any readings and seed."""

    def __init__(self, method: CVI, penalty: Penalty, table_seconds: float = 0.0):
        self.method, self.penalty, self.setup_seconds, self.ready = method, penalty, table_seconds, False
        self.joint, self.decoder_alone, self.q_alone = (
            self._compiled(*how)
            for how in ((self._joint, 1.0, 1.0), (self._penalty_over_prior, 1.0, 0.0), (self._misfit_and_kl, 0.0, 1.0))
        )

    def prepared(self, readings: Readings) -> float:
        """Compile, and train the decoder if it is to serve any readings; seconds of all set-up, tables included."""
        if not self.ready:
            begun = time.perf_counter()
            last = self.q_alone if self.method.serves == "prior" else self.joint
            last(self.method.start(0), readings, tf.constant([0, 0, 1]))
            self.decoder = self._decoder_for_any_readings() if self.method.serves == "prior" else None
            self.ready, self.setup_seconds = True, self.setup_seconds + time.perf_counter() - begun
        return self.setup_seconds

    def run(self, readings: Readings) -> tuple[State, np.ndarray]:
        """The state after training and the mean loss over every 500 steps."""
        steps, start = self.method.steps, self.method.start(int(readings.seed))
        if self.method.serves != "prior":
            return self._descend(self.joint, start, readings, steps)
        return self._descend(self.q_alone, start._replace(weights=self.decoder), readings, steps)

    def _decoder_for_any_readings(self) -> tf.Tensor:
        """No readings enter, so one decoder serves them all; its seed is 0."""
        none = Readings(tf.zeros([1, 3], tf.int32), tf.zeros([1, 3]), tf.zeros([1]), tf.constant(1.0), tf.constant(0))
        return self._descend(self.decoder_alone, self.method.start(0), none, self.method.steps)[0].weights

    def _descend(self, block, state: State, readings: Readings, steps: int) -> tuple[State, np.ndarray]:
        history = []
        for start in tqdm(range(0, steps, _AT_A_TIME), "CVI", delay=3, leave=False):
            span = tf.constant([start, min(start + _AT_A_TIME, steps), steps])
            state, loss = block(state, readings, span)
            history.append(float(loss))
            if not all(np.isfinite(part).all() for part in (loss, state.weights, state.q)):
                raise Diverged(f"CVI diverged between steps {start} and {start + _AT_A_TIME} (loss {float(loss)})")
        return state, np.array(history)

    def _compiled(self, objective, moves_decoder: float, moves_q: float):
        """A function of state, readings and (first, last, all) steps: the state at the end, and the mean loss."""
        decoder = Decoder(self.method.width, self.method.depth)

        def step(number, state: State, total, readings: Readings, steps):
            with tf.GradientTape() as tape:
                tape.watch([state.weights, state.q])
                loss = objective(decoder.field(state.weights), state.q, number, readings)
            d_weights, d_q = tape.gradient(loss, [state.weights, state.q], unconnected_gradients="zero")
            gradient = tf.concat([moves_decoder * d_weights, moves_q * d_q], axis=0)
            state = self._adam(state, gradient, tf.cast(number, tf.float32), tf.cast(steps, tf.float32))
            return number + 1, state, total + loss

        @graph(jit_compile=self.method.xla)
        def block(state, readings, span):
            first, last, steps = tf.unstack(span)
            loop = lambda number, state, total: step(number, state, total, readings, steps)  # noqa: E731
            end = tf.while_loop(lambda number, *_: number < last, loop, (first, state, tf.constant(0.0)))
            return end[1], end[2] / tf.cast(last - first, tf.float32)

        return block

    def _adam(self, state: State, gradient: tf.Tensor, number: tf.Tensor, steps: tf.Tensor) -> State:
        """Kingma & Ba's step on the flat vector, the rate falling along a cosine to a hundredth."""
        first = 0.9 * state.first + 0.1 * gradient
        second = 0.999 * state.second + 0.001 * gradient**2
        rate = self.method.learning_rate * (0.505 + 0.495 * tf.cos(np.pi * number / steps))
        unbiased = [m / (1 - tf.pow(beta, number + 1)) for m, beta in ((first, 0.9), (second, 0.999))]
        move = rate * unbiased[0] / (tf.sqrt(unbiased[1]) + 1e-8)
        n = state.weights.shape[0]
        return State(state.weights - move[:n], state.q - move[n:], first, second)

    def _joint(self, mu, q: tf.Tensor, step, readings: Readings) -> tf.Tensor:
        m, C, _ = _gaussian(q)
        away = _pairs(self.method.samples, _key(step, readings)) @ tf.transpose(C)
        served = m + away if self.method.serves == "q" else tf.stop_gradient(m + self.method.spread * away)
        eps = tf.cast(self.method.schedule(step), tf.float32)
        return self._fit(mu, q, m + away, readings) + self._held(mu, served, step, readings) / (2 * eps**2)

    def _penalty_over_prior(self, mu, q: tf.Tensor, step, readings: Readings) -> tf.Tensor:
        return self._held(mu, self.method.spread * _pairs(self.method.samples, _key(step, readings)), step, readings)

    def _misfit_and_kl(self, mu, q: tf.Tensor, step, readings: Readings) -> tf.Tensor:
        m, C, _ = _gaussian(q)
        tau = m + _pairs(8 * self.method.samples, _key(step, readings)) @ tf.transpose(C)
        return self._fit(mu, q, tau, readings)

    def _fit(self, mu, q: tf.Tensor, tau: tf.Tensor, readings: Readings) -> tf.Tensor:
        """E_q[−log p(y | μ)] + KL(q ‖ p), up to a constant."""
        field = self.penalty.weak.read(mu, tau, readings.nodes, readings.weights)
        misfit = tf.reduce_sum((readings.y - tf.cast(field, tf.float32)) ** 2, axis=1)
        return tf.reduce_mean(misfit) / (2 * readings.sigma**2) + _gaussian(q)[2]

    def _held(self, mu, tau: tf.Tensor, step, readings: Readings) -> tf.Tensor:
        return tf.cast(self.penalty(mu, tf.cast(tau, self.method.precision), _key(step, readings)), tf.float32)


def _key(step: tf.Tensor, readings: Readings) -> tf.Tensor:
    return tf.stack([step, readings.seed])


def _pairs(samples: int, key: tf.Tensor) -> tf.Tensor:
    """Standard normal draws in pairs ±: an odd error cancels."""
    half = tf.random.stateless_normal([samples // 2, 2], key)
    return tf.concat([half, -half], axis=0)
