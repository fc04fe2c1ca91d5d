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
_STARTS, _WIDER = 31, 1.3  # z from which the best is climbed; how much wider than the prior they are known


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
        self.scale, self.W = tf.constant(branch.scale), tf.constant(branch.weights)
        starts = np.concatenate([np.zeros((1, self.d)), branch.places[:_STARTS] / branch.scale / _WIDER])
        self.starts, self.start_b = tf.constant(starts), branch(tf.constant(starts))
        self.one_and_places = tf.constant(np.column_stack([np.ones(len(branch.places)), branch.places]))

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

            def step(k, z, F, g, P, damping, _):
                move = -tf.linalg.solve(P + damping[:, :, None] * eye, g[..., None])[..., 0]
                new = (z + move, *self._expanded(H, h, z + move))
                better = new[1] < F
                sds = tf.sqrt(-tf.reduce_sum(g * move, axis=1))  # about
                damping = tf.where(better, damping / 10, tf.maximum(10 * damping, 1.0))
                return k + 1, *chosen(better, new, (z, F, g, P)), damping, tf.reduce_max(sds)

            z, none = self._likeliest(H, h), tf.zeros([B, 1], tf.float64)
            start = (tf.constant(0), z, *self._expanded(H, h, z), none, tf.constant(1.0, tf.float64))
            goes_on = lambda k, *state: (k < _TO_MODE) & (state[-1] > _ENOUGH)  # noqa: E731
            _, z, _, _, P, *_ = tf.while_loop(goes_on, step, start)
            return z, P

        return graph(steps, jit_compile=True)

    @cached_property
    def to_gaussian(self):
        """From mode and precision to the m and P that hold of each other."""

        def steps(H, h, m, at_mode):
            B, eye = h.shape[0], tf.eye(self.d, dtype=tf.float64)

            def at(m, P):
                """The bound, E g and E of the curvature under N(m, P⁻¹), which is E[g (z − m)ᵀ]P."""
                C = tf.linalg.cholesky(P)  # z = m + C⁻ᵀξ
                xi = tf.repeat(tf.transpose(self.points)[None], B, axis=0)
                z = m[:, None] + tf.linalg.matrix_transpose(tf.linalg.triangular_solve(C, xi, adjoint=True))
                value, g = self.slope(H, h, z)
                curved = tf.einsum("m,bmi,mj,bkj->bik", self.weights, g, self.points, C)
                curved = (curved + tf.linalg.matrix_transpose(curved)) / 2
                log_det = 2 * tf.reduce_sum(tf.math.log(tf.linalg.diag_part(C)), axis=1)
                spread = tf.linalg.trace(tf.linalg.cholesky_solve(C, tf.repeat(eye[None], B, axis=0)))
                kl = 0.5 * (spread + tf.reduce_sum(m**2, axis=1) + log_det)
                return value @ self.weights[:, None] + kl[:, None], tf.einsum("m,bmi->bi", self.weights, g), curved

            def step(k, m, P, F, g, curved, rate, _):
                full = eye + curved
                full = tf.where((tf.linalg.eigvalsh(full)[:, 0] > 0.1)[:, None, None], full, at_mode)
                P_new = P + rate[:, :, None] * (full - P)
                move = -rate * tf.linalg.solve(P_new, (g + m)[..., None])[..., 0]
                new = (m + move, P_new, *at(m + move, P_new))
                better = new[2] < F + 1e-9 * tf.abs(F)
                sds = tf.sqrt(tf.einsum("bi,bij,bj->b", move, P_new, move))[:, None]
                wider = tf.abs(tf.linalg.diag_part(P_new) / tf.linalg.diag_part(P) - 1)
                moved = tf.where(better, tf.maximum(sds, tf.reduce_max(wider, axis=1, keepdims=True)), rate)
                rate = tf.where(better, tf.minimum(2 * rate, 1.0), rate / 2)
                return (k + 1, *chosen(better, new, (m, P, F, g, curved)), rate, tf.reduce_max(moved))

            one = tf.constant(1.0, tf.float64)
            start = (tf.constant(0), m, at_mode, *at(m, at_mode), tf.ones([B, 1], tf.float64), one)
            goes_on = lambda k, *state: (k < _TO_GAUSSIAN) & (state[-1] > _ENOUGH)  # noqa: E731
            return tf.while_loop(goes_on, step, start)[1:3]

        return graph(steps, jit_compile=True)

    def _likeliest(self, H: tf.Tensor, h: tf.Tensor) -> tf.Tensor:
        """Of some z of the prior, for each set of readings: not every hill leads to the highest."""
        square = tf.einsum("mk,bkl,ml->bm", self.start_b, H, self.start_b)
        value = 0.5 * square - tf.matmul(h, self.start_b, transpose_b=True)
        value += 0.5 * tf.reduce_sum(self.starts**2, axis=1)
        return tf.gather(self.starts, tf.argmin(value, axis=1))

    def misfit(self, H: tf.Tensor, h: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """½ bᵀHb − hᵀb for each z [B, M, d]; [B, M]."""
        return self._misfit(H, h, tf.reshape(self.branch(tf.reshape(z, [-1, self.d])), [*z.shape[:2], -1]))

    def energy(self, H: tf.Tensor, h: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        """−log p(y, z) for each z [B, M, d], up to a constant; [B, M]."""
        return self.misfit(H, h, z) + 0.5 * tf.reduce_sum(z**2, axis=-1)

    def _misfit(self, H: tf.Tensor, h: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum((0.5 * tf.matmul(b, H) - h[:, None]) * b, axis=-1)

    def slope(self, H: tf.Tensor, h: tf.Tensor, z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """The misfit [B, M] at z [B, M, d], and its slope in z [B, M, d]."""
        B, M, d = z.shape
        k = self.branch.kernel(tf.reshape(z, [-1, d]))
        b = self.branch.mean + tf.reshape(tf.matmul(k, self.W), [B, M, -1])
        out = tf.matmul(b, H) - h[:, None]
        c = k * tf.reshape(tf.matmul(out, self.W, transpose_b=True), k.shape)
        one, places = tf.split(tf.reshape(tf.matmul(c, self.one_and_places), [B, M, 1 + d]), [1, d], axis=-1)
        return self._misfit(H, h, b), self.scale * (places - z * self.scale * one)

    def _expanded(self, H: tf.Tensor, h: tf.Tensor, z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """−log p(y, z) [B, 1] at z [B, d], its slope [B, d] and I + JᵀHJ [B, d, d], J the slopes of b."""
        k, v = self.branch.kernel(z), z * self.scale
        away = tf.transpose(self.one_and_places)[None, 1:] - v[..., None]  # [B, d, S]
        J = self.scale[:, None] * tf.matmul(k[:, None] * away, self.W)
        b = self.branch.mean + tf.matmul(k, self.W)
        Hb = tf.linalg.matvec(H, b)
        value = tf.reduce_sum((0.5 * Hb - h) * b, axis=1) + 0.5 * tf.reduce_sum(z**2, axis=1)
        P = tf.eye(self.d, dtype=tf.float64) + tf.matmul(tf.matmul(J, H), J, transpose_b=True)
        return value[:, None], tf.linalg.matvec(J, Hb - h) + z, P


def chosen(better: tf.Tensor, new: tuple, old: tuple) -> list[tf.Tensor]:
    """Where ``better`` [B, 1], the new ones."""
    return [tf.where(tf.reshape(better, [-1] + [1] * (one.shape.rank - 1)), one, other) for one, other in zip(new, old)]
