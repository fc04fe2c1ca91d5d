"""What is left to find once f, w and the boundary values are integrated out: log a (whitened at inducing points), τ and
the scales, by MAP, with Laplace's q around it; and, given those, head and source anywhere, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.linalg
import tensorflow_probability as tfp
from scipy.optimize import minimize

from pdevae._tensorflow import graph, tf
from pdevae.streams import random
from study.models.head import SCALES, OnMesh
from study.streams import Stream

_JITTER = 1e-8
_FARTHEST = 5.0  # prior standard deviations that a search or a draw may go


def fit(on: OnMesh, x: np.ndarray, y: np.ndarray, seed: int = 0, most: int = 300) -> Fitted:
    """MAP of the coefficients and scales from values y (standardised) at places x, from a start of its own."""
    objective = Objective(on, x, y)
    start = 0.3 * random(Stream.HEAD_START, seed).normal(size=on.n_fields + len(SCALES))
    found = minimize(
        objective.value_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=[(-_FARTHEST, _FARTHEST)] * len(start),
        options={"maxiter": most},
    )
    return Fitted(objective, found.x)


class Objective:
    """−log p(y, v, scales), up to a constant; scales as whitened logarithms."""

    def __init__(self, on: OnMesh, x: np.ndarray, y: np.ndarray):
        self.on, self.x, self.y = on, x, tf.constant(y)
        self.H = on.read(x)
        self.t = tf.constant(on.model.covariate_sd * on.covariate(x))
        self._graph = graph(self._value_and_gradient).get_concrete_function(
            tf.TensorSpec([on.n_fields + len(SCALES)], tf.float64)
        )

    def scales(self, p) -> dict[str, tf.Tensor]:
        priors = zip(self.on.model.scales.items(), tf.unstack(p[self.on.n_fields :]))
        return {name: median * tf.exp(width * v) for (name, (median, width)), v in priors}

    def covariance(self, p) -> tf.Tensor:
        """Of y."""
        s = self.scales(p)
        G, R = self.on.responses(p[: self.on.n_fields], self.H)
        K = tf.matmul(G @ self.on.load_covariance(s), G, transpose_b=True)
        K += tf.matmul(R @ self.on.edge_covariance(s), R, transpose_b=True) + self.t[:, None] * self.t
        return K + (s["noise"] ** 2 + _JITTER) * tf.eye(len(self.y), dtype=tf.float64)

    def __call__(self, p: tf.Tensor) -> tf.Tensor:
        C = tf.linalg.cholesky(self.covariance(p))
        white = tf.linalg.triangular_solve(C, self.y[:, None])
        return (
            0.5 * tf.reduce_sum(white**2) + tf.reduce_sum(tf.math.log(tf.linalg.diag_part(C))) + tf.reduce_sum(p**2) / 2
        )

    def within(self, p: tf.Tensor) -> tf.Tensor:
        """The same for any p: beyond ±5 sd a steep wall, so that a wild draw or trajectory is rejected, not a crash."""
        p = tf.where(tf.math.is_finite(p), p, 1e3)
        inside = tf.clip_by_value(p, -_FARTHEST, _FARTHEST)
        return self(inside) + 10 * tf.reduce_sum((p - inside) ** 2)

    def _value_and_gradient(self, p):
        return tfp.math.value_and_gradient(self, p)

    def value_and_gradient(self, p: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self._graph(tf.constant(p))
        return float(value), gradient.numpy()


class Conditional(NamedTuple):
    """Mean and standard deviation of the head (with noise, for ``sd``) at some places."""

    mean: np.ndarray
    sd: np.ndarray


@dataclass(frozen=True, eq=False)
class Fitted:
    """The mode ``p``: coefficients, then scales."""

    objective: Objective
    p: np.ndarray

    @property
    def on(self) -> OnMesh:
        return self.objective.on

    def carried_to(self, on: OnMesh) -> Fitted:
        """The same mode and readings on another mesh with the same inducing points."""
        return Fitted(Objective(on, self.objective.x, self.objective.y.numpy()), self.p)

    @cached_property
    def spread(self) -> np.ndarray:
        """C with q = N(p, CCᵀ): Laplace, the Hessian by differences of gradients; never wider than the prior."""
        step, d = 1e-3, len(self.p)
        slopes = [
            [self.objective.value_and_gradient(self.p + sign * step * e)[1] for sign in (1, -1)] for e in np.eye(d)
        ]
        H = np.stack([(up - down) / (2 * step) for up, down in slopes])
        values, vectors = np.linalg.eigh((H + H.T) / 2)
        return vectors / np.sqrt(np.maximum(values, 1.0))

    def at(self, x: np.ndarray, p: np.ndarray | None = None) -> Conditional:
        """Exact, given coefficients and scales."""
        p, H = tf.constant(self.p if p is None else p), self.on.read(x)
        s = {name: float(v) for name, v in self.objective.scales(p).items()}
        both = np.concatenate([self.objective.H, H])
        G, R = (v.numpy() for v in self.on.responses(p[: self.on.n_fields], both))
        t = self.on.model.covariate_sd * self.on.covariate(np.concatenate([self.objective.x, x]))
        K_b, K_e = self.on.load_covariance(s).numpy(), self.on.edge_covariance(s).numpy()
        n = len(self.objective.y)
        cross = G[n:] @ K_b @ G[:n].T + R[n:] @ K_e @ R[:n].T + np.outer(t[n:], t[:n])
        own = np.sum(G[n:] @ K_b * G[n:], axis=1) + np.sum(R[n:] @ K_e * R[n:], axis=1) + t[n:] ** 2
        factor = scipy.linalg.cho_factor(self.objective.covariance(p).numpy(), lower=True)
        mean = cross @ scipy.linalg.cho_solve(factor, self.objective.y)
        variance = own - np.sum(cross * scipy.linalg.cho_solve(factor, cross.T).T, axis=1)
        return Conditional(mean, np.sqrt(np.maximum(variance, 1e-12) + s["noise"] ** 2))

    def source(self, x: np.ndarray, p: np.ndarray | None = None) -> Conditional:
        """f at places x, given the rest; per unit of y."""
        p = tf.constant(self.p if p is None else p)
        s = {name: float(v) for name, v in self.objective.scales(p).items()}
        G, _ = (v.numpy() for v in self.on.responses(p[: self.on.n_fields], self.objective.H))
        cross = (self.on.source_covariance(s, x) * self.on.mass) @ G.T
        factor = scipy.linalg.cho_factor(self.objective.covariance(p).numpy(), lower=True)
        variance = s["source"] ** 2 - np.sum(cross * scipy.linalg.cho_solve(factor, cross.T).T, axis=1)
        return Conditional(
            cross @ scipy.linalg.cho_solve(factor, self.objective.y), np.sqrt(np.maximum(variance, 1e-12))
        )
