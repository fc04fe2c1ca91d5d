"""The same decoder by different trainers in the same time: how far its field is from exact solves."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.optimize

from pdevae import Decoder, Forward, GaussNewton, keras_field
from pdevae._tensorflow import graph, tf
from pdevae.inference.fit import Descent, falling_adam
from pdevae.inference.gaussian import antithetic
from pdevae.inference.network import Separable, penalty_of, size_by_equation
from pdevae.penalties import Penalty, named
from pdevae.streams import random
from study.amortised.problems import Emulated, forward_of
from study.streams import Stream

_SPREAD = 1.3  # of z, in the prior's sd
_SAMPLES = 8  # z in a step of Adam
_FIXED = 64  # z that L-BFGS sees
_UNITS = 1000  # random features
_RATE = 5e-3
_FRESH = 64  # draws that judge
_MOST = 1.1  # of the time that a trainer has


@dataclass(frozen=True)
class Trainer:
    """``problem`` transport, or log a with so many ``modes``; a network of two layers of ``width``."""

    problem: str
    nodes: int
    method: str
    modes: int = 0
    width: int = 48
    seconds: float = 30.0
    domain: str = "star"


def trained_by(config: Trainer, seed: int) -> dict:
    """Median and worst relative error of the field at fresh draws of the prior, and seconds, compilation apart."""
    forward = forward_of(config.problem, config.domain, config.nodes, config.modes)
    field, seconds, steps = METHODS[config.method](forward, config, seed)
    z = random(Stream.AMORTISED, seed, 2).normal(size=(_FRESH, forward.latents.size))
    parts = np.array_split(z, 8)
    u = np.concatenate([forward.solve(tf.constant(part)).numpy() for part in parts])
    off = np.linalg.norm(field(z) - u, axis=1) / np.linalg.norm(u, axis=1)
    return {"median": np.median(off), "worst": off.max(), "used": seconds, "steps": steps}


class Network:
    """A network, the penalty that trains it, and its scale by the equation."""

    def __init__(self, forward: Forward, model, mu: Callable):
        self.forward, self.model, d = forward, model, forward.latents.size
        self.d = d
        self.penalty: Penalty = named("exact", forward.mesh, forward.equation, boundary=0.0, dtype=tf.float32)
        self.scale = size_by_equation(self.penalty, self.seen, d)
        self.load = penalty_of(self.penalty, self.seen, d, 0.0)
        self.mu = lambda x, seen: tf.cast(self.scale * tf.cast(mu(x, seen.whitened), tf.float32), x.dtype)

    @classmethod
    def plain(cls, forward: Forward, width: int, seed: int) -> Network:
        """A Keras network of a place and z side by side."""
        tf.keras.utils.set_random_seed(seed)
        hidden = [tf.keras.layers.Dense(width, "tanh") for _ in range(2)]
        d = forward.latents.size
        model = tf.keras.Sequential([tf.keras.Input([2 + d]), *hidden, tf.keras.layers.Dense(1)])
        return cls(forward, model, keras_field(model))

    @classmethod
    def separable(cls, forward: Forward, width: int, seed: int) -> Network:
        model = Separable(forward.mesh, forward.latents.size, width)
        for variable, value in zip(model.layers, model.start(seed)):
            variable.assign(value)
        return cls(forward, model, model)

    @property
    def variables(self) -> list[tf.Variable]:
        return list(self.model.trainable_variables)

    def seen(self, z: tf.Tensor):
        return self.forward.latents.seen(tf.cast(z, self.penalty.weak.dtype))

    def loss(self, z: tf.Tensor, seed) -> tf.Tensor:
        return self.penalty(self.mu, self.seen(z), seed) / self.load

    def rows(self, z: tf.Tensor, seed) -> tf.Tensor:
        a, _ = self.penalty.pair(self.mu, self.seen(z), seed)
        return tf.reshape(a, [-1]) / np.sqrt(self.load * z.shape[0])

    def field(self, z: np.ndarray) -> np.ndarray:
        parts = [self.seen(tf.constant(part, tf.float32)) for part in np.array_split(z, 8)]
        return np.concatenate([self.penalty.weak.values(self.mu, part).numpy() for part in parts])


def _adam(network: Network, config: Trainer, seed: int):
    def loss(step):
        z = _SPREAD * antithetic(_SAMPLES, [network.d], tf.stack([step, seed]), tf.float32)
        return network.loss(z, tf.stack([step, seed]))

    make = lambda steps: Descent(loss, network.variables, falling_adam(_RATE, steps), network.penalty.compiles)  # noqa: E731
    return _for_seconds(network, make, 250, config.seconds)


def _gauss_newton(network: Network, config: Trainer, seed: int):
    def rows(number):
        z = _SPREAD * tf.random.stateless_normal([1, network.d], tf.stack([number, seed]))
        return network.rows(z, tf.stack([number, seed]))

    make = lambda steps: Descent(rows, network.variables, GaussNewton(steps))  # noqa: E731
    return _for_seconds(network, make, 5, config.seconds)


def _for_seconds(network: Network, make: Callable[[int], Descent], pilot: int, seconds: float):
    """As many steps as there is time for, told by what fits into a tenth of it."""
    start = [np.array(v) for v in network.variables]
    trial = make(pilot)
    trial.compile()
    begun, done, used = time.perf_counter(), 0, 0.0
    while used < seconds / 10:
        trial.begin_again(start)
        trial.run(pilot)
        done, used = done + pilot, time.perf_counter() - begun
    steps = max(int(done * seconds / used), 1)
    descent = make(steps)
    descent.begin_again(start)
    descent.compile()
    begun = time.perf_counter()
    descent.run(steps)
    return network.field, time.perf_counter() - begun, steps


def _lbfgs(network: Network, config: Trainer, seed: int):
    """On a fixed sample of z, by SciPy: it cannot follow a loss that changes from step to step."""
    z = _SPREAD * antithetic(_FIXED, [network.d], (seed, 3), tf.float32)
    sizes = [int(np.prod(v.shape)) for v in network.variables]

    @graph
    def slope():
        with tf.GradientTape() as tape:
            value = network.loss(z, (0, 0))
        return value, tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(value, network.variables)], axis=0)

    def at(weights):
        for variable, part in zip(network.variables, np.split(weights, np.cumsum(sizes)[:-1])):
            variable.assign(part.reshape(variable.shape))
        return tuple(np.asarray(part, float) for part in slope())

    slope()
    start, begun, steps = np.concatenate([np.ravel(v) for v in network.variables]), time.perf_counter(), 0

    def watch(_):
        nonlocal steps
        steps += 1
        if time.perf_counter() - begun > config.seconds:
            raise StopIteration

    options = {"maxiter": 10**6, "maxfun": 10**6, "maxcor": 50}
    scipy.optimize.minimize(at, start, jac=True, method="L-BFGS-B", callback=watch, options=options)
    return network.field, time.perf_counter() - begun, steps


def _features(forward: Forward, config: Trainer, seed: int):
    """Σ c_k tanh(a_k·(x, z) + b_k) with a and b drawn: the c by least squares over as many z as there is time for."""
    network, rng = Network.plain(forward, 1, seed), random(Stream.AMORTISED, seed, 3)
    a, b = rng.normal(size=(2 + network.d, _UNITS)), rng.uniform(-1, 1, _UNITS)
    a[2:] *= 0.5 / np.sqrt(network.d / 2)
    a, b = tf.constant(a, tf.float32), tf.constant(b, tf.float32)

    def units(x, z):
        return tf.tanh(tf.transpose(tf.cast(x, tf.float32) @ a[:2] + z @ a[2:] + b))

    @graph
    def rows(z):
        """Of no field at all, and of each unit."""
        fields = lambda x, seen: tf.pad(tf.cast(units(x, z[:1]), x.dtype), [[1, 0], [0, 0]])  # noqa: E731
        return network.penalty.pair(fields, network.seen(tf.repeat(z[:1], _UNITS + 1, axis=0)), (0, 0))[0]

    G, g, begun, count = np.zeros((_UNITS, _UNITS)), np.zeros(_UNITS), 0.0, 0
    while not count or time.perf_counter() - begun < 0.9 * config.seconds:
        r = rows(tf.constant(_SPREAD * rng.normal(size=(1, network.d)), tf.float32)).numpy().astype(float)
        begun = begun or time.perf_counter()  # the first traces
        B = r[1:] - r[:1]
        G, g, count = G + B @ B.T, g - B @ r[0], count + 1
    c = np.linalg.solve(G + 1e-8 * np.trace(G) / _UNITS * np.eye(_UNITS), g)
    seconds = time.perf_counter() - begun

    def field(z):
        weights = tf.constant(c[None], tf.float32)
        one = lambda zed: network.penalty.weak.values(  # noqa: E731
            lambda x, seen: tf.cast(weights @ units(x, tf.constant(zed[None], tf.float32)), x.dtype),
            network.seen(tf.constant(zed[None], tf.float32)),
        )
        return np.concatenate([one(zed).numpy() for zed in z])

    return field, seconds, count


def _branch(forward: Forward, config: Trainer, seed: int):
    """Decoder.train, its steps by what two short runs take; fewer where that took too long."""
    train = lambda steps: Decoder.train(forward, "exact", steps, width=config.width, seed=seed)  # noqa: E731
    few, last = (max(int(per_second * config.seconds), 20) for per_second in (500 / 30, 3500 / 30))
    least, used = train(few).seconds, train(last).seconds
    for _ in range(4):
        each = max(used - least, 1e-3) / (last - few)
        last = max(int((config.seconds - least) / each) + few, few + 1)
        decoder = train(last)
        if (used := decoder.seconds) < _MOST * config.seconds or last == few + 1:
            break
    base, at_nodes = decoder.reader(forward.mesh.points)
    return (lambda z: base + decoder.branch(tf.constant(z)).numpy() @ at_nodes.T), used, last


def _solutions(forward: Forward, config: Trainer, seed: int):
    """The peer that solves: modes of exact solutions at as many z as our branch is solved for, kernels between them."""
    made = Emulated.of(forward, 200 * forward.latents.size)
    return (lambda z: made.solve(tf.constant(z)).numpy()), made.seconds, 200 * forward.latents.size


def _on(make: Callable, train: Callable) -> Callable:
    return lambda forward, config, seed: train(make(forward, config.width, seed), config, seed)


METHODS = {
    "plain network, Adam": _on(Network.plain, _adam),
    "plain network, L-BFGS": _on(Network.plain, _lbfgs),
    "plain network, Gauss–Newton": _on(Network.plain, _gauss_newton),
    "separable network, Adam": _on(Network.separable, _adam),
    "separable network, Gauss–Newton": _on(Network.separable, _gauss_newton),
    "random features, solved": _features,
    "trunk by Adam, branch solved": _branch,
    "exact solutions, kernels": _solutions,
}
