"""The default network of a decoder: a sum of functions of place times functions of z."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from pdevae._tensorflow import graph, tf
from pdevae.fem.mesh import Mesh
from pdevae.inference.gaussian import antithetic
from pdevae.penalties import Penalty
from pdevae.streams import Stream, random


class Separable(tf.Module):
    """Σ_k t_k(x) b_k(z) / √K · scale: a trunk of tanh layers in x, a branch in z, so x costs the same for any M."""

    def __init__(self, mesh: Mesh, latent: int, width: int = 48, depth: int = 2):
        super().__init__()
        low, high = mesh.points.min(axis=0), mesh.points.max(axis=0)
        self.centre, self.half, self.width = (low + high) / 2, (high - low).max() / 2, width
        self.sizes = [(2, width), *(depth - 1) * [(width, width)], (latent, width), (width, width)]
        self.scale = tf.Variable(1.0, trainable=False)
        self.layers = [tf.Variable(part) for part in self.start(0)]

    def start(self, seed: int) -> list[np.ndarray]:
        """Weights and biases, layer by layer."""
        rng = random(Stream.DECODER, seed)
        drawn = [(1.2 / np.sqrt(n) * rng.normal(size=(n, m)), 0.3 * rng.normal(size=m)) for n, m in self.sizes]
        return [part.astype(np.float32) for layer in drawn for part in layer]

    def __call__(self, x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        *_, w_1, b_1, w_2, b_2 = self.layers
        branch = tf.tanh(tf.cast(z, tf.float32) @ w_1 + b_1) @ w_2 + b_2
        trunk = trunk_at(x, self.centre, self.half, self.layers[:-4], tf.float32)
        u = self.scale / np.sqrt(self.width) * tf.matmul(branch, trunk, transpose_b=True)
        return tf.cast(u, x.dtype)


def trunk_at(x: tf.Tensor, centre: np.ndarray, half: float, layers: list, dtype: tf.DType) -> tf.Tensor:
    """t_k at places x [n, 2]: tanh layers, weights and biases in turn; [n, K]."""
    t = tf.cast((x - tf.constant(centre, x.dtype)) / tf.constant(half, x.dtype), dtype)
    for w, b in zip(layers[::2], layers[1::2]):
        t = tf.tanh(t @ tf.cast(w, dtype) + tf.cast(b, dtype))
    return t


def size_by_equation(penalty: Penalty, seen, d: int) -> float:
    """Of the constant network that comes nearest to the equation, over the prior."""
    below, none, above = (penalty_of(penalty, seen, d, c) for c in (-1.0, 0.0, 1.0))
    steep, curved = (above - below) / 2, above + below - 2 * none
    return abs(steep / curved) or 1.0 if curved > 0 else 1.0


def penalty_of(penalty: Penalty, seen, d: int, constant: float) -> float:
    """Mean of a few estimates, over the prior, for a network that is constant."""
    return float(np.mean([_estimate(penalty, seen, d)(tf.constant(constant), k) for k in tf.range(16)]))


@lru_cache(maxsize=1)
def _estimate(penalty: Penalty, seen, d: int):
    z = antithetic(32, [d], (0, int(Stream.PATCHES)), tf.float32)

    def estimate(constant, k):
        network = lambda x, z: tf.fill([32, x.shape[0]], tf.cast(constant, x.dtype))  # noqa: E731
        return penalty(network, seen(z), tf.stack([int(Stream.PATCHES), k]))

    return graph(estimate)
