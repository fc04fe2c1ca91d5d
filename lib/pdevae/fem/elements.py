"""Geometry of P1 triangles, from the coordinates of their corners."""

from typing import NamedTuple

from check_shapes import check_shapes

from pdevae._tensorflow import tf


class Elements(NamedTuple):
    """Areas |e|, gradients ∇φ_k of the three nodal basis functions, centroids.

    The small axes of ``grad_phi`` come first: [direction, corner, E].
    """

    area: tf.Tensor  # [E]
    grad_phi: tf.Tensor  # [2, 3, E]
    centroid: tf.Tensor  # [E, 2]


@check_shapes("corners: [3, E, 2]")
def elements(corners: tf.Tensor) -> Elements:
    """Geometry of the triangles with these corners; a triangle of no area gets ∇φ = 0."""
    x_k, x_l, x_m = (tf.roll(corners, shift, axis=0) for shift in (0, -1, -2))
    opposite = x_m - x_l
    edge, other = (x_l - x_k)[0], (x_m - x_k)[0]
    twice_area = edge[..., 0] * other[..., 1] - edge[..., 1] * other[..., 0]
    turned = tf.stack([-opposite[..., 1], opposite[..., 0]])
    return Elements(
        area=tf.abs(twice_area) / 2,
        grad_phi=tf.math.divide_no_nan(turned, twice_area),  # ∇φ_k = R(x_m − x_l) / 2|e|
        centroid=tf.reduce_mean(corners, axis=0),
    )
