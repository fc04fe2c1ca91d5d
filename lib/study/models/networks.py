"""Dense networks for several members at once: one batched product per layer trains ten seeds or five folds together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdevae._tensorflow import tf


@dataclass(frozen=True)
class Network:
    """Dense layers of these sizes; the last is linear. Parameters are one flat vector per member."""

    sizes: tuple[int, ...]
    activation: str = "relu"
    starts_at_zero: bool = False  # its output: the last layer's weights are 0

    @property
    def layers(self) -> list[tuple[int, int]]:
        return list(zip(self.sizes, self.sizes[1:]))

    @property
    def n_parameters(self) -> int:
        return sum(n * m + m for n, m in self.layers)

    def init(self, seeds: list[int]) -> np.ndarray:
        """[S, n_parameters]: Glorot's uniform weights and zero biases, Keras' default; a member depends on its seed."""
        return np.stack([self._init(np.random.default_rng([seed, *self.sizes])) for seed in seeds])

    def _init(self, rng) -> np.ndarray:
        limits = [np.sqrt(6 / (n + m)) for n, m in self.layers]
        limits[-1] *= not self.starts_at_zero
        parts = [[rng.uniform(-by, by, n * m), np.zeros(m)] for by, (n, m) in zip(limits, self.layers)]
        return np.concatenate([v for pair in parts for v in pair]).astype(np.float32)

    def __call__(self, parameters: tf.Tensor, inputs: tf.Tensor) -> tf.Tensor:
        """[S, n, out] from [S, n, in]."""
        act = getattr(tf.nn, self.activation)
        split = tf.split(parameters, [size for n, m in self.layers for size in (n * m, m)], axis=1)
        S, y = parameters.shape[0], inputs
        for k, (n, m) in enumerate(self.layers):
            y = tf.matmul(y, tf.reshape(split[2 * k], [S, n, m])) + split[2 * k + 1][:, None]
            y = act(y) if k < len(self.layers) - 1 else y
        return y
