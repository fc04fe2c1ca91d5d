"""∫|∇μ|²: a smoothness penalty that is no PDE, the control for those that are."""

from __future__ import annotations

from pdevae._tensorflow import tf
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion
from pdevae.fem.weak_form import WeakForm
from pdevae.penalties.base import Penalty


class GradientPenalty(Penalty):
    """The Dirichlet energy Σ_e |e| |∇u_e|² on the whole mesh; ``seed`` is not used.

    On fields that vanish at the boundary it equals the exact penalty of −Δu = 0, ‖Δu‖² in H⁻¹: the same ε is the same
    strength. Where the two differ is on harmonic fields, which the PDE leaves free and this one does not.
    """

    def __init__(self, mesh: Mesh, dtype: tf.DType = tf.float64):
        self.weak = WeakForm(mesh, Diffusion(1.0), None, dtype)

    def __call__(self, mu, z, seed=None):
        u = self.weak.values(mu, z)
        corners = tf.gather(u, tf.transpose(self.weak.triangles), axis=1)  # [M, E, 3]
        grad = tf.einsum("mek,dke->med", corners, self.weak.elements.grad_phi)
        energy = tf.reduce_sum(self.weak.elements.area * tf.reduce_sum(grad**2, axis=-1), axis=1)
        return tf.reduce_mean(energy)
