"""The training behind :class:`~pdevae.CVI`: a decoder and q on their way to F_ε's minimum, compiled once."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.fields import keras_field
from pdevae.inference.fit import Descent, falling_adam
from pdevae.inference.forward import Forward
from pdevae.inference.gauss_newton import GaussNewton
from pdevae.inference.gaussian import Gaussian, antithetic
from pdevae.inference.network import Separable, penalty_of, size_by_equation
from pdevae.inference.problem import InverseProblem
from pdevae.inference.schedules import Geometric

if TYPE_CHECKING:
    from pdevae.inference.cvi import CVI

_ROUNDS, _OF_Q = 20, 250  # turns of a decoder by Gauss–Newton and q by Adam, and steps of q in each


@lru_cache(maxsize=2)
def training_of(method: CVI, forward: Forward, sensors: int) -> Training:
    """Kept for the next readings of as many sensors: tables and compiled steps are the same."""
    return Training(method, forward, sensors)


class Training:
    """A decoder and a Gaussian on their way to F_ε's minimum: compiled once, run for any readings and seed."""

    def __init__(self, method: CVI, forward: Forward, sensors: int):
        begun = time.perf_counter()
        self.method, self.forward, self.size = method, forward, forward.latents.size
        self.penalty = method.penalty_for(forward)
        self.v = Gaussian.trainable(self.size, method.family, method.rank, dtype=tf.float32)
        self.centre, self.C = tf.Variable(tf.zeros([self.size])), tf.Variable(tf.eye(self.size))
        self.mu, self.decoder = self._decoder()
        self.start = [np.array(v) for v in self.decoder.trainable_variables]
        self.schedule = method.eps if callable(method.eps) else self._schedule(*method.eps)
        self.nodes = tf.Variable(tf.zeros([sensors, 3], tf.int32))  # of the elements the sensors lie in
        self.weights = tf.Variable(tf.zeros([sensors, 3], self.penalty.weak.dtype))
        self.readings, self.noise = tf.Variable(tf.zeros([sensors])), tf.Variable(tf.ones([sensors]))
        self.seed, self.log_factor = tf.Variable(0), tf.Variable(0.0)  # the latter of the noise
        self.descents = self._descents()
        for descent in self.descents:
            descent.compile()
        if method.serves == "prior":
            if isinstance(self.decoder, Separable):
                self.decoder.scale.assign(size_by_equation(self.penalty, self._seen, self.size))
            self.descents[0].run(method.steps)
        self.setup_seconds = time.perf_counter() - begun

    def _descents(self) -> list[Descent]:
        """One for all, or one for the decoder and then one for q."""
        decoder, q = self.decoder.trainable_variables, self._of_q
        steps, adam = self.method.steps, partial(falling_adam, self.method.learning_rate)
        optimiser = (self.method.trainer or adam)(steps)
        rows = isinstance(optimiser, GaussNewton)  # it is faster in a graph that XLA leaves alone
        compiled = self.method.compiled and self.penalty.compiles and (steps >= 500 or rows)
        if not rows and self.method.serves != "prior":
            return [Descent(self._joint, [*decoder, *q], optimiser, compiled, "CVI")]
        loss = self._decoder_rows if rows else self._over_prior
        self.q_steps = _ROUNDS * _OF_Q if rows else steps
        return [
            Descent(loss, decoder, optimiser, compiled and not rows, "decoder"),
            Descent(self._q_alone, q, adam(self.q_steps), compiled, "q"),
        ]

    def take(self, problem: InverseProblem, seed: int) -> None:
        """Begin again with these readings."""
        nodes, weights = self.penalty.weak.corners_at(problem.sensors)
        noise = np.broadcast_to(problem.noise, problem.readings.shape)
        for variable, value in (
            (self.nodes, nodes),
            (self.weights, weights),
            (self.readings, problem.readings),
            (self.noise, noise),
            (self.seed, seed),
        ):
            variable.assign(tf.cast(value, variable.dtype))
        if self.method.around is not None:
            near = self.method.around(problem, seed=seed)
            self.centre.assign(near.mean)
            self.C.assign(np.linalg.cholesky(near.covariance))
        q = [np.zeros(v.shape, np.float32) for v in self._of_q]
        if self.v.beside is not None:
            last = len(self.v.trainable_variables) - 1
            q[last] = np.array(Gaussian.trainable(self.size, "low-rank", self.method.rank).beside)
        start = self.start
        if isinstance(self.decoder, Separable) and self.method.serves != "prior":
            start = self.decoder.start(seed)
            self.decoder.scale.assign(self._typical_size(problem))
        if len(self.descents) == 1:
            return self.descents[0].begin_again([*start, *q])
        self.descents[1].begin_again(q)
        if self.method.serves != "prior":
            self.descents[0].begin_again(start)

    def run(self) -> np.ndarray:
        if len(self.descents) == 1:
            return self.descents[0].run(self.method.steps)
        if self.method.serves == "prior":
            return self.descents[1].run(self.q_steps)
        decoder, q = self.descents
        for k in range(1, _ROUNDS + 1):
            decoder.run(k * self.method.steps // _ROUNDS)
            history = q.run(k * _OF_Q)
        return history

    @property
    def _of_q(self) -> list[tf.Variable]:
        return [*self.v.trainable_variables, *([self.log_factor] if self.method.learns_noise else [])]

    @property
    def q(self) -> Gaussian:
        """Of z."""
        return self.v if self.method.around is None else self.v.moved(self.centre, self.C)

    def field(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """The decoder's u [k, n] at places for each z."""
        return self.penalty.field_at(x)(self.mu, self._seen(tf.constant(z, tf.float32))).numpy()

    def frozen_field(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """:meth:`field` as it is now: another run moves the decoder on."""
        variables = [*self.decoder.trainable_variables, self.centre, self.C]
        if isinstance(self.decoder, Separable):
            variables.append(self.decoder.scale)
        values = [np.array(v) for v in variables]

        def field(x, z):
            for variable, value in zip(variables, values):
                variable.assign(value)
            return self.field(x, z)

        return field

    def _decoder(self):
        """μ(x, seen) and what holds its variables."""
        given, d = self.method.decoder, self.size
        if given is None:
            given = Separable(self.forward.mesh, d, self.method.width, self.method.depth)
        field = keras_field(given) if isinstance(given, tf.keras.Model) else given
        if not callable(field) or not len(getattr(given, "trainable_variables", ())):
            raise UserError("decoder must be a Keras model, or a function of x and z with trainable_variables")
        u = field(tf.zeros([3, 2]), tf.zeros([2, d]))
        if u.shape != [2, 3]:
            raise UserError(f"the decoder gives {u.shape} for 3 places and 2 samples of z: it must give [2, 3]")
        return (lambda x, seen: field(x, self._standard(seen.whitened))), given

    def _standard(self, z: tf.Tensor) -> tf.Tensor:
        """z in the coordinates that it is looked for ``around``."""
        if self.method.around is None:
            return z
        away = tf.transpose(tf.cast(z, tf.float32) - self.centre)
        return tf.cast(tf.transpose(tf.linalg.triangular_solve(self.C, away)), z.dtype)

    def _typical_size(self, problem: InverseProblem) -> float:
        """About how large w·μ must be: the readings, less the boundary's values."""
        known = self.penalty.weak.known
        base = 0.0 if known is None else float(np.nanmean(known))
        return float(np.abs(problem.readings - base).max()) or 1.0

    def _schedule(self, first: float, last: float) -> Geometric:
        """Shares of the norm of what there is to explain: of the residual of the boundary's values continued."""
        load = np.sqrt(max(penalty_of(self.penalty, self._seen, self.size, 0.0), 1e-30))
        return Geometric(first * load, last * load, steps=max(int(0.7 * self.method.steps), 1))

    def _seen(self, z: tf.Tensor):
        return self.forward.latents.seen(tf.cast(z, self.penalty.weak.dtype))

    def _key(self, step) -> tf.Tensor:
        return tf.stack([step, self.seed])

    def _drawn(self, step, times: int = 1) -> tf.Tensor:
        return self.q.draw(antithetic(times * self.method.samples, self.v.noise_shape, self._key(step), tf.float32))

    def _joint(self, step) -> tf.Tensor:
        z, eps = self._drawn(step), tf.cast(self.schedule(step), tf.float32)
        return self._fit(z) + self._held(self._served(z), step) / (2 * eps**2)

    def _served(self, z: tf.Tensor) -> tf.Tensor:
        """Where the penalty is taken, for z drawn of q."""
        if self.method.serves == "q":
            return z
        return tf.stop_gradient(self.q.mean + self.method.spread * (z - self.q.mean))

    def _decoder_rows(self, number) -> tf.Tensor:
        """Of one z: rows whose squares sum to the penalty."""
        normal = tf.random.stateless_normal([1, *self.v.noise_shape], self._key(number))
        z = self.method.spread * normal if self.method.serves == "prior" else self._served(self.q.draw(normal))
        rows, other = self.penalty.pair(self.mu, self._seen(z), self._key(number))
        if rows is not other:
            raise UserError(
                f"Gauss–Newton needs a penalty that is a sum of squares, which {type(self.penalty).__name__} is not: "
                'use penalty="two-level"'
            )
        return tf.cast(rows[0], tf.float32) / tf.cast(self.schedule(0), tf.float32)

    def _over_prior(self, step) -> tf.Tensor:
        normal = antithetic(self.method.samples, [self.size], self._key(step), tf.float32)
        return self._held(self.method.spread * normal, step) / tf.cast(self.schedule(0), tf.float32) ** 2

    def _q_alone(self, step) -> tf.Tensor:
        return self._fit(self._drawn(step, 8))

    def _held(self, z: tf.Tensor, step) -> tf.Tensor:
        return tf.cast(self.penalty(self.mu, self._seen(z), self._key(step)), tf.float32)

    def _fit(self, z: tf.Tensor) -> tf.Tensor:
        """E_q[−log p(y | μ)] + KL(q ‖ p)."""
        u = tf.cast(self.penalty.weak.read(self.mu, self._seen(z), self.nodes, self.weights), tf.float32)
        sigma = self.noise * tf.exp(self.log_factor)
        misfit = tf.reduce_mean(tf.reduce_sum(((self.readings - u) / sigma) ** 2, axis=1))
        return 0.5 * misfit + self.readings.shape[0] * self.log_factor + self.q.kl()
