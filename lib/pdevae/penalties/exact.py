"""The full dual-norm penalty rᵀA⁻¹r (eq:cvi_sub_prob): A does not depend on z, so it is factorised once."""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import LinearOperator

from pdevae._tensorflow import graph, tf
from pdevae.fem.fields import Field
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.fem.weak_form import Boundary, WeakForm, stiffness
from pdevae.penalties.base import Inverse, Penalty, Seed


class ExactPenalty(Penalty):
    """‖L[z]μ − f‖²_A = rᵀA⁻¹r on the whole mesh; ``seed`` is not used.

    >>> import pdevae
    >>> mesh, equation = pdevae.square(nodes=400), pdevae.Diffusion(1.0) - pdevae.Source(1.0)
    >>> mu = lambda x, z: 0.5 * x[None, :, 0] * (1 - x[None, :, 0])  # −Δμ = 1, so that it has no residual
    >>> float(ExactPenalty(mesh, equation)(mu, None)) < 1e-20
    True
    >>> round(float(ExactPenalty(mesh, equation)(lambda x, z: 2 * mu(x, z), None)), 3)  # ‖1‖² in H⁻¹ is 0.0351
    0.035
    """

    def __init__(self, mesh: Mesh, equation: Term, boundary: Boundary = None, dtype: tf.DType = tf.float64):
        self.weak = WeakForm(mesh, equation, boundary, dtype)
        self.inverse = Inverse(stiffness(mesh), self.weak.dtype)
        self.compiles = self.inverse.compiles

    def __call__(self, mu: Field, z: Any, seed: Seed | None = None) -> tf.Tensor:
        r = self._residual(mu, z)
        return tf.reduce_mean(self.inverse.norm(r))

    def pair(self, mu: Field, z: Any, seed: Seed | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        rows = self.inverse.whiten(self._residual(mu, z))
        return rows, rows

    def _residual(self, mu: Field, z: Any) -> tf.Tensor:
        """Compiled on its own in a graph that the solve on the host keeps from being compiled as a whole."""
        rows = lambda z: self.weak.residual(self.weak.values(mu, z), z)  # noqa: E731
        return rows(z) if self.compiles or tf.executing_eagerly() else graph(rows, jit_compile=True)(z)

    def quadratic_form(self):
        return LinearOperator(self.inverse.shape, matvec=self.inverse.factors.solve, dtype=float)
