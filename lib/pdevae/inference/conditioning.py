"""Gaussians that come nearest to posteriors on a decoder: many sets of readings at once, by Newton's method.

With u = base + Φb(z) at the sensors, readings of any number come down to H = ΦᵀN⁻¹Φ and h = ΦᵀN⁻¹(y − base):
−log p(y | z) = ½ bᵀHb − hᵀb + constant. N(m, P⁻¹) minimises KL(q ‖ p(z | y)) where P = I − E_q ∇² log p(y | z) and
m = E_q ∇ log p(y | z): from the mode, each of the two is moved to what the other gives, the step halved where the
bound would fall.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pdevae._tensorflow import graph, tf
from pdevae.inference.gaussian import cubature
from pdevae.inference.interpolant import Interpolant

_TO_MODE, _TO_GAUSSIAN = 20, 20  # steps at most
_ENOUGH = 2e-3  # standard deviations moved


class Evidence(NamedTuple):
    """What readings say of b, for B sets of them."""

    H: np.ndarray  # [B, K, K]
    h: np.ndarray  # [B, K]
    square: np.ndarray  # [B] Σ ((y − base)/noise)²
    number: np.ndarray  # [B] of readings

    @classmethod
    def of(cls, base: np.ndarray, phi: np.ndarray, readings: np.ndarray, noise: np.ndarray) -> Evidence:
        """B sets of readings [B, S] at the same sensors, where u = base [S] + phi [S, K] @ b; or bases [B, S], …"""
        phi, y = phi / noise[..., None], (readings - base) / noise
        H = np.swapaxes(phi, -1, -2) @ phi
        h = np.einsum("...sk,...s->...k", phi, y)
        B = np.broadcast_shapes(H.shape[:-2], h.shape[:-1])
        H, h = np.broadcast_to(H, [*B, *H.shape[-2:]]), np.broadcast_to(h, [*B, h.shape[-1]])
        return cls(H, h, np.sum(y**2, axis=-1), np.broadcast_to(np.sum(np.isfinite(noise), axis=-1), B))

    def surprise(self, least: np.ndarray) -> np.ndarray:
        """How far readings are from what the prior gives, from the least of misfit + |z|²: about χ², in its sd."""
        return (least + self.square - self.number) / np.sqrt(2 * self.number)

    def in_parts(self, at_a_time: int, apply: Callable[[Evidence], Conditioned]) -> Conditioned:
        """``apply`` to some sets at a time; the last part is filled up, so that one compiled function serves all."""
        B = len(self.h)
        size = min(B, at_a_time)
        number = np.minimum(np.arange(-(-B // size) * size), B - 1).reshape(-1, size)
        parts = [apply(Evidence(*(part[some] for part in self))) for some in number]
        return Conditioned(*(np.concatenate(part)[:B] for part in zip(*parts)))


class Conditioned(NamedTuple):
    """N(mean, covariance) for each set of readings, and how far these are from what the prior gives."""

    mean: np.ndarray  # [B, d]
    covariance: np.ndarray  # [B, d, d]
    surprise: np.ndarray  # [B] standard deviations


class Conditioner:
    """Compiled for one branch b(z)."""

    def __init__(self, branch: Interpolant):
        self.branch, self.d = branch, len(branch.scale)
        points, weights = cubature(self.d, True)
        self.points, self.weights = tf.constant(points), tf.constant(weights)
        S = len(branch.places)
        self.scale, self.places, self.W = (tf.constant(v) for v in (branch.scale, branch.places, branch.weights))
        outer = branch.places[:, :, None] * branch.places[:, None]
        self.moments = tf.constant(np.concatenate([np.ones((S, 1)), branch.places, outer.reshape(S, -1)], axis=1))
        K = branch.weights.shape[1]
        self.times = tf.constant((branch.places[:, :, None] * branch.weights[:, None]).reshape(S, self.d * K))

    def __call__(self, evidence: Evidence, at_a_time: int = 64) -> Conditioned:
        return evidence.in_parts(at_a_time, self._some)

    def _some(self, evidence: Evidence) -> Conditioned:
        H, h = tf.constant(evidence.H), tf.constant(evidence.h)
        mode, P = self.to_mode(H, h)
        least = 2 * self.energy(H, h, mode[:, None])[:, 0]
        m, P = self.to_gaussian(H, h, mode, P)
        return Conditioned(m.numpy(), np.linalg.inv(P.numpy()), evidence.surprise(least.numpy()))

    @cached_property
    def to_mode(self):
        """argmax of log p(y, z) by damped Gauss–Newton, and the precision there."""

        def steps(H, h):
            B = h.shape[0]
            eye = tf.eye(self.d, dtype=tf.float64)
            value = lambda z: self.energy(H, h, z[:, None])[:, 0]  # noqa: E731
            derivatives = lambda z: [part[:, 0] for part in self._derivatives(H, h, z[:, None])]  # noqa: E731

            def step(k, z, F, damping, _):
                _, g, GN, _ = derivatives(z)
                A = GN + (1 + damping)[:, None, None] * eye
                move = -tf.linalg.solve(A, (g + z)[..., None])[..., 0]
                F_new = value(z + move)
                better = F_new < F
                sds = tf.sqrt(-tf.reduce_sum((g + z) * move, axis=1))  # about
                z = tf.where(better[:, None], z + move, z)
                damping = tf.where(better, damping / 10, tf.maximum(10 * damping, 1.0))
                return k + 1, z, tf.where(better, F_new, F), damping, tf.reduce_max(sds)

            z = tf.zeros([B, self.d], tf.float64)
            none = tf.zeros([B], tf.float64)
            start = (tf.constant(0), z, value(z), none, tf.constant(1.0, tf.float64))
            goes_on = lambda k, z, F, damping, moved: (k < _TO_MODE) & (moved > _ENOUGH)  # noqa: E731
            z = tf.while_loop(goes_on, step, start)[1]
            return z, derivatives(z)[2] + eye

        return graph(steps)

    @cached_property
    def to_gaussian(self):
        """From mode and precision to the m and P that hold of each other."""

        def steps(H, h, m, P):
            B, eye = h.shape[0], tf.eye(self.d, dtype=tf.float64)

            def at(m, P):
                """The bound, E g and E of the curvature under N(m, P⁻¹)."""
                C = tf.linalg.cholesky(P)  # z = m + C⁻ᵀξ
                xi = tf.repeat(tf.transpose(self.points)[None], B, axis=0)
                z = m[:, None] + tf.linalg.matrix_transpose(tf.linalg.triangular_solve(C, xi, adjoint=True))
                means = [tf.einsum("m,bm...->b...", self.weights, part) for part in self._derivatives(H, h, z)]
                log_det = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(C)), axis=1)
                spread = tf.linalg.trace(tf.linalg.cholesky_solve(C, tf.repeat(eye[None], B, axis=0)))
                kl = 0.5 * (spread + tf.reduce_sum(m**2, axis=1) + log_det)
                return (means[0] + kl, *means[1:])

            def step(k, m, P, F, g, GN, curved, rate, _):
                full = eye + GN + curved
                full = tf.where((tf.linalg.eigvalsh(full)[:, 0] > 0.1)[:, None, None], full, eye + GN)
                P_new = (1 - rate)[:, None, None] * P + rate[:, None, None] * full
                move = -rate[:, None] * tf.linalg.solve(P_new, (g + m)[..., None])[..., 0]
                F_new, *rest = at(m + move, P_new)
                better = F_new < F + 1e-9 * tf.abs(F)
                chosen = [
                    tf.where(tf.reshape(better, [-1] + [1] * (new.shape.rank - 1)), new, old)
                    for new, old in zip((m + move, P_new, F_new, *rest), (m, P, F, g, GN, curved))
                ]
                scaled = tf.linalg.matvec(tf.linalg.cholesky(P_new), move, adjoint_a=True)
                change = tf.reduce_max(tf.abs(tf.linalg.diag_part(P_new) / tf.linalg.diag_part(P) - 1), axis=1)
                moved = tf.where(better, tf.maximum(tf.norm(scaled, axis=1), change), rate)
                rate = tf.where(better, tf.minimum(2 * rate, 1.0), rate / 2)
                return (k + 1, *chosen, rate, tf.reduce_max(moved))

            start = (tf.constant(0), m, P, *at(m, P), tf.ones([B], tf.float64), tf.constant(1.0, tf.float64))
            goes_on = lambda k, *state: (k < _TO_GAUSSIAN) & (state[-1] > _ENOUGH)  # noqa: E731
            return tf.while_loop(goes_on, step, start)[1:3]

        return graph(steps)

    def misfit(self, H: tf.Tensor, h: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """½ bᵀHb − hᵀb for each z [B, M, d]; [B, M]."""
        return self._misfit(H, h, tf.reshape(self.branch(tf.reshape(z, [-1, self.d])), [*z.shape[:2], -1]))

    def energy(self, H: tf.Tensor, h: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """−log p(y, z) for each z [B, M, d], up to a constant; [B, M]."""
        return self.misfit(H, h, z) + 0.5 * tf.reduce_sum(z**2, axis=-1)

    def _misfit(self, H: tf.Tensor, h: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum((0.5 * tf.matmul(b, H) - h[:, None]) * b, axis=-1)

    def _derivatives(self, H: tf.Tensor, h: tf.Tensor, z: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """At z [B, M, d]: the misfit [B, M], its slope [B, M, d], JᵀHJ and the rest of its curvature [B, M, d, d]."""
        (B, M, d), v = z.shape, z * self.scale
        k = self.branch.kernel(tf.reshape(z, [-1, d]))
        shaped = lambda t, *last: tf.reshape(t, [B, M, *last])  # noqa: E731
        b_0 = shaped(tf.matmul(k, self.W), -1)
        b = self.branch.mean + b_0
        J = self.scale[:, None] * (shaped(tf.matmul(k, self.times), d, b.shape[-1]) - v[..., None] * b_0[:, :, None])
        out = tf.matmul(b, H) - h[:, None]
        JH = shaped(tf.matmul(tf.reshape(J, [B, M * d, -1]), H), d, b.shape[-1])
        c = k * tf.reshape(tf.matmul(out, self.W, transpose_b=True), k.shape)
        one, first, second = tf.split(shaped(tf.matmul(c, self.moments), 1 + d + d * d), [1, d, d * d], axis=-1)
        cross = v[..., None] * first[:, :, None]
        curved = shaped(second, d, d) - cross - tf.linalg.matrix_transpose(cross)
        curved += one[..., None] * (v[..., None] * v[:, :, None] - tf.eye(d, dtype=tf.float64))
        curved *= self.scale[:, None] * self.scale
        return self._misfit(H, h, b), tf.linalg.matvec(J, out), tf.matmul(JH, J, transpose_b=True), curved
