"""A decoder for the unit square that leaves nothing to its functions of place: sines, as many as the mesh has nodes."""

from __future__ import annotations

import numpy as np

from pdevae._tensorflow import tf
from pdevae.streams import random
from study.streams import Stream


class Sines(tf.Module):
    """Σ b_ij(z) sin(iπx) sin(jπy), i, j ≤ ``side``, scaled to equal energy; b by a network, beside it a linear part."""

    def __init__(self, latent: int, side: int = 31, width: int = 128, seed: int = 0):
        super().__init__()
        rng = random(Stream.FIELDS, seed, 2)
        self.number = np.arange(1.0, side + 1)
        energy = np.pi**2 * (self.number[:, None] ** 2 + self.number**2)
        self.scale = tf.constant((2 / np.sqrt(energy)).ravel(), tf.float32)
        drawn = [(rng.normal(size=(n, width)) / np.sqrt(n), 0.3 * rng.normal(size=width)) for n in (latent, width)]
        last = [np.zeros((width, side**2)), np.zeros((latent, side**2)), np.zeros(side**2)]
        self.weights = [tf.Variable(part.astype(np.float32)) for part in [*drawn[0], *drawn[1], *last]]

    def __call__(self, x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        w_1, b_1, w_2, b_2, out, linear, mean = self.weights
        sines = tf.sin(tf.cast(x, tf.float32)[..., None] * tf.constant(np.pi * self.number, tf.float32))  # [n, 2, side]
        trunk = tf.reshape(sines[:, 0, :, None] * sines[:, 1, None], [-1, len(self.number) ** 2]) * self.scale
        z = tf.cast(z, tf.float32)
        hidden = tf.tanh(tf.tanh(z @ w_1 + b_1) @ w_2 + b_2)
        b = mean + z @ linear + hidden @ out / np.sqrt(out.shape[0])
        return tf.cast(tf.matmul(b, trunk, transpose_b=True), x.dtype)
