"""A normalising flow: standard normal numbers bent, layer by layer, by a network that sees what they depend on.

Half of the variables are shifted, scaled, skewed and given other tails by what the network makes of the other half:
RealNVP (Dinh et al., 2017) with Jones and Pewsey's sinh-arcsinh (2009) in place of a Gaussian.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError


class Couplings:
    """``layers`` of them for d variables and so many ``features``; at first nothing is bent.

    >>> xi, features = tf.random.normal([4, 5, 3], dtype=tf.float64), tf.zeros([5, 2], tf.float64)
    >>> v, log_det = Couplings(3, features=2, width=8).forth(xi, features)
    >>> bool(tf.reduce_all(abs(v - xi) < 1e-12)), log_det.shape.as_list()
    (True, [4, 5])
    """

    def __init__(self, d: int, features: int, width: int = 64, layers: int = 4, seed: int = 0):
        if d < 2:
            raise UserError("a flow needs at least two latents: with one, use a Gaussian")
        self.d, self.kept = d, d // 2
        rng = np.random.default_rng(seed)
        sizes = (self.kept + features, width, 4 * (d - self.kept))
        self.layers = [
            [
                tf.Variable(scale * rng.normal(size=shape))
                for n, m, scale in zip(sizes, sizes[1:], (1 / np.sqrt(sizes[0]), 0.0))
                for shape, scale in (((n, m), scale), ((m,), 0.0))
            ]
            for _ in range(layers)
        ]

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        return [variable for layer in self.layers for variable in layer]

    def forth(self, xi: tf.Tensor, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """T(ξ) for ξ [..., B, d] and features [B, F], and log |∂T/∂ξ| [..., B]."""
        bijector = self._bijector(features)
        return bijector.forward(xi), bijector.forward_log_det_jacobian(xi, 1)

    def back(self, v: tf.Tensor, features: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """ξ with T(ξ) = v, and log |∂ξ/∂v|."""
        bijector = self._bijector(features)
        return bijector.inverse(v), bijector.inverse_log_det_jacobian(v, 1)

    def _bijector(self, features: tf.Tensor) -> Any:
        tfb = _bijectors()
        turned = tfb.Permute(np.roll(np.arange(self.d), self.kept))
        couplings = [tfb.RealNVP(self.kept, bijector_fn=_network(layer, features)) for layer in self.layers]
        parts = [part for coupling in couplings for part in (turned, coupling)]
        back = tfb.Permute(np.roll(np.arange(self.d), -self.kept * len(couplings)))  # untrained, it is the identity
        return tfb.Chain([back, *parts])


def bent(skewness: tf.Tensor, log_tail: tf.Tensor) -> Any:
    """Skew and tails for each variable, none where both are 0; kept within bounds."""
    return _bijectors().SinhArcsinh(_bounded(skewness, 1.0), tf.exp(_bounded(log_tail, 0.7)))


def _network(layer: list[tf.Variable], features: tf.Tensor):
    def bijector(x: tf.Tensor, units: int):
        w_1, b_1, w_2, b_2 = layer
        seen = tf.broadcast_to(features, [*x.shape[:-1], features.shape[-1]])
        hidden = tf.tanh(tf.concat([x, seen], axis=-1) @ w_1 + b_1)
        shift, log_scale, skewness, log_tail = tf.split(hidden @ w_2 + b_2, 4, axis=-1)
        tfb = _bijectors()
        return tfb.Chain([tfb.Shift(shift), tfb.Scale(log_scale=_bounded(log_scale, 2.0)), bent(skewness, log_tail)])

    return bijector


def _bounded(x: tf.Tensor, most: float) -> tf.Tensor:
    return most * tf.tanh(x / most)


def _bijectors() -> Any:
    try:
        import tensorflow_probability as tfp  # takes seconds
    except ModuleNotFoundError:
        raise UserError("a flow needs TensorFlow Probability: pip install '.[sampling]'") from None
    return tfp.bijectors
