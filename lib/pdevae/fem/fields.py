"""Fields μ(x, z), as the penalties take them: any function from places [n, 2] and latent z to values [M, n]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pdevae._tensorflow import tf
from pdevae.errors import UserError, shape_text

Field = Callable[[tf.Tensor, Any], tf.Tensor]  # μ: x [n, 2], z [M, …] → [M, n]


def values(mu: Field, x: tf.Tensor, z: Any) -> tf.Tensor:
    """μ(x, z), refused unless it is [M, n]; the check is of static shapes and costs nothing in a graph."""
    u = mu(x, z)
    n, shape = x.shape[0], u.shape
    if shape.rank is not None and (shape.rank != 2 or None not in (n, shape[1]) and shape[1] != n):
        raise UserError(
            f"mu returned values of shape {shape_text(shape)} at {n} places: it must return [M, {n}], a row per z "
            "(for one sample return u[None]; wrap a Keras model in pdevae.keras_field)"
        )
    return u


def keras_field(model: tf.keras.Model) -> Field:
    """A Keras model as the ``mu(x, z)`` that penalties take.

    The model maps places [n, 2], or places and a latent of d numbers side by side [n, 2 + d], to one value each.
    Inside, it keeps its own dtype; outside, values have that of x. A model of places alone serves every sample of z.

    >>> from pdevae._tensorflow import tf
    >>> model = tf.keras.Sequential([tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)])
    >>> mu = keras_field(model)
    >>> x = tf.zeros([5, 2], tf.float64)
    >>> mu(x, None).shape.as_list(), mu(x, tf.zeros([3, 4])).shape.as_list(), mu(x, None).dtype.name
    ([1, 5], [3, 5], 'float64')
    """
    latent = _width(model) - 2
    _check_output(model, latent)
    dtype = getattr(model, "compute_dtype", None) or "float32"

    def mu(x: tf.Tensor, z: Any) -> tf.Tensor:
        z = getattr(z, "whitened", z)  # named latents side by side
        n, places = tf.shape(x)[0], tf.cast(x, dtype)
        if not latent:
            M = 1 if z is None else tf.shape(tf.nest.flatten(z)[0])[0]
            u = tf.repeat(tf.reshape(model(places), [1, -1]), M, axis=0)
        else:
            z = tf.cast(_latent(z, latent), dtype)
            M = tf.shape(z)[0]
            both = tf.concat([tf.tile(places, [M, 1]), tf.repeat(z, n, axis=0)], axis=1)
            u = tf.reshape(model(both), [M, -1])
        samples = 1 if z is None else tf.nest.flatten(z)[0].shape[0]
        return tf.ensure_shape(tf.cast(u, x.dtype), [samples, x.shape[0]])

    return mu


def _width(model: Any) -> int:
    """How many numbers per place the model takes; one that takes any will take 2."""
    if not callable(model) or not hasattr(type(model), "trainable_variables"):
        raise UserError(f"keras_field needs a Keras model, not a {type(model).__name__}: give a tf.keras.Model")
    shape = getattr(model, "input_shape", None) if getattr(model, "built", False) else None
    if shape is None or tuple(shape) == (None, None):
        return 2
    if not isinstance(shape, tuple) or len(shape) != 2 or shape[1] < 2:
        raise UserError(
            f"the Keras model takes inputs of shape {shape_text(shape)}, not places: its input must be [n, 2], "
            "or [n, 2 + d] with a latent of d numbers"
        )
    return shape[1]


def _check_output(model: Any, latent: int) -> None:
    try:
        shape = getattr(model(tf.zeros([3, 2 + latent])), "shape", None)  # builds a model that is not
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        raise UserError(f"the Keras model does not take places [n, {2 + latent}]: change its input shape") from None
    if shape is None or shape.as_list() not in ([3], [3, 1]):
        raise UserError(
            f"the Keras model returns {'no tensor' if shape is None else shape_text(shape)} for 3 places: "
            "it must return one value each, [n, 1]; end it in Dense(1)"
        )


def _latent(z: Any, d: int) -> tf.Tensor:
    shape = getattr(z, "shape", None)
    if shape is None or len(shape) != 2 or shape[1] not in (d, None):
        held = "None" if z is None else f"shape {shape_text(shape)}" if shape is not None else type(z).__name__
        raise UserError(f"the Keras model takes a place and a latent of {d}: z must be [M, {d}], not {held}")
    return z
