"""The full dual-norm penalty rᵀA⁻¹r (eq:cvi_sub_prob): A does not depend on z, so it is factorised once."""

from __future__ import annotations

from typing import Any

from scipy.sparse.linalg import LinearOperator

from pdevae._tensorflow import tf
from pdevae.fem.fields import Field
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.fem.weak_form import Boundary, WeakForm, stiffness
from pdevae.penalties.base import Inverse, Seed, WholeResidual


class ExactPenalty(WholeResidual):
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
        return tf.reduce_mean(self.inverse.norm(self.residual(mu, z)))

    def rows_of(self, r: tf.Tensor, seed: Seed | None = None) -> tf.Tensor:
        return self.inverse.whiten(r)

    def quadratic_form(self):
        return LinearOperator(self.inverse.shape, matvec=self.inverse.factors.solve, dtype=float)
