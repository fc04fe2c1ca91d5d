"""The full dual-norm penalty rᵀA⁻¹r (eq:cvi_sub_prob): A does not depend on z, so it is factorised once."""

from __future__ import annotations

from scipy.sparse.linalg import LinearOperator

from .._tensorflow import tf
from ..mesh import Mesh
from ..operators import Term
from ..solve import factorise
from ..weak_form import Boundary, WeakForm, stiffness
from .base import Penalty, quadratic


class ExactPenalty(Penalty):
    """‖L[z]μ − f‖²_A = rᵀA⁻¹r on the whole mesh; ``seed`` is not used."""

    def __init__(self, mesh: Mesh, equation: Term, boundary: Boundary = None, dtype: tf.DType = tf.float64):
        self.weak = WeakForm(mesh, equation, boundary, dtype)
        self.factors = factorise(stiffness(mesh))

    def __call__(self, mu, z, seed=None):
        r = self.weak.residual(self.weak.values(mu, z), z)
        return tf.reduce_mean(quadratic(r, self.factors.solve))

    def quadratic_form(self):
        return LinearOperator(self.factors.shape, matvec=self.factors.solve, dtype=float)
