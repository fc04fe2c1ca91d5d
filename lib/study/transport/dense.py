"""The paper's forward map: a dense solve, differentiated by TensorFlow."""

from __future__ import annotations

from typing import Any

from pdevae._tensorflow import tf
from pdevae.fem.weak_form import WeakForm
from pdevae.inference.forward import Forward


class DenseForward(Forward):
    """u [M, n] by a dense solve in O(N³). Linear equations only."""

    @classmethod
    def of(cls, forward: Forward) -> DenseForward:
        return cls(forward.mesh, forward.equation, forward.latents, forward.boundary)

    def solve(self, z: tf.Tensor) -> tf.Tensor:
        assert isinstance(self.solver.weak, WeakForm)
        return dense_solve(self.solver.weak, self.solver.seen(tf.cast(z, tf.float64)), z.shape[0])


def dense_solve(weak: WeakForm, z: Any, M: int) -> tf.Tensor:
    """For M samples of what the coefficients see."""
    n, inside = weak.size, weak.inside
    K, f = weak.element_system(z, M)
    t = tf.constant(weak.mesh.triangles, tf.int64)
    pair = tf.reshape(t[:, :, None] * n + t[:, None, :], [-1])
    L = tf.math.unsorted_segment_sum(tf.transpose(tf.reshape(K, [M, -1])), pair, n * n)
    b = tf.math.unsorted_segment_sum(tf.transpose(tf.reshape(f, [M, -1])), tf.reshape(t, [-1]), n)
    L, b = tf.reshape(tf.transpose(L), [M, n, n]), tf.transpose(b)
    g = weak.edge_values(z, M)
    L_i = tf.gather(L, inside, axis=1)
    b_i = tf.gather(b, inside, axis=1) - tf.linalg.matvec(L_i, g)
    u_i = tf.linalg.solve(tf.gather(L_i, inside, axis=2), b_i[..., None])[..., 0]
    return g + tf.transpose(tf.scatter_nd(inside[:, None], tf.transpose(u_i), [n, M]))
