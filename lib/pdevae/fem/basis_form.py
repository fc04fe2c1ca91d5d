"""An equation in any basis of scikit-fem (bilinear, quadratic, …): residual rows, as a solver takes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import skfem

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.boundary import Boundary
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term, flux_and_volume, require_equation


class BasisForm:
    """``equation`` tested with the functions of a scalar ``basis`` that vanish on the boundary, where u is known.

    Coefficients are taken at the basis's points of quadrature. ``mesh`` has triangles between the same vertices.

    >>> import pdevae
    >>> basis = skfem.Basis(skfem.MeshQuad.init_tensor(*2 * [np.linspace(0, 1, 9)]), skfem.ElementQuad2())
    >>> form = BasisForm(basis, pdevae.Diffusion(1.0) - pdevae.Source(1.0), 0.0)
    >>> round(float(pdevae.Solver(form).solve().numpy().max()), 4)  # in truth 0.0737
    0.0737
    """

    edge = None

    def __init__(self, basis: skfem.CellBasis, equation: Term, boundary: Boundary, dtype: tf.DType = tf.float64):
        self.basis, self.equation, self.dtype = basis, require_equation(equation), tf.as_dtype(dtype)
        triangles = basis.mesh.to_meshtri() if isinstance(basis.mesh, skfem.MeshQuad) else basis.mesh
        self.mesh = Mesh(triangles.p.T, triangles.t[:3].T)
        self.size, self.corners = basis.N, basis.element_dofs  # [k, E]
        self.held = np.zeros(self.size, bool)
        self.held[basis.get_dofs().all()] = True
        self.inside = np.flatnonzero(~self.held)
        self.known = self._known(boundary)
        self.places = tf.constant(basis.global_coordinates().value.reshape(2, -1).T, self.dtype)  # [E·q, 2]
        shape = [basis.nelems, basis.X.shape[-1]]
        self.phi = [tf.constant(np.broadcast_to(one[0].value, shape), self.dtype) for one in basis.basis]
        grads = [np.broadcast_to(one[0].grad, [2, *shape]) for one in basis.basis]
        self.grad_phi = [tf.constant(np.moveaxis(grad, 0, -1), self.dtype) for grad in grads]  # [E, q, 2]
        self.weight = tf.constant(basis.dx, self.dtype)  # [E, q]
        number = np.full(self.size, len(self.inside))
        number[self.inside] = np.arange(len(self.inside))
        self._rows = tf.constant(number[self.corners], tf.int32)

    def _known(self, boundary: Boundary) -> np.ndarray:
        if boundary is None or isinstance(boundary, tuple):
            raise UserError("a scikit-fem basis needs boundary= as a number, an array or a function of x [n, 2]")
        x = self.basis.doflocs.T
        given = boundary(x) if callable(boundary) else boundary
        return np.where(self.held, np.broadcast_to(np.asarray(given, float), self.size), np.nan)

    def edge_values(self, z: Any, samples: int) -> tf.Tensor:
        """Known values at the boundary, 0 inside; [M, n]."""
        return tf.tile(tf.constant(np.where(self.held, self.known, 0.0), self.dtype)[None], [samples, 1])

    def element_residual(self, u: list[tf.Tensor], z: Any) -> list[tf.Tensor]:
        """r_ek for the coefficients ``u`` of the element's k functions, each [M, E]; so are the residuals."""
        (E, q), M = self.weight.shape, u[0].shape[0]
        at = tf.add_n([one[..., None] * phi for one, phi in zip(u, self.phi)])
        grad = tf.add_n([one[..., None, None] * phi for one, phi in zip(u, self.grad_phi)])
        F, G = flux_and_volume(
            self.equation, self.places, z, tf.reshape(at, [M, E * q]), tf.reshape(grad, [M, E * q, 2])
        )
        r = [tf.zeros([M, E], self.dtype)] * len(u)
        if F is not None:
            F = tf.reshape(tf.broadcast_to(F, [M, E * q, 2]), [M, E, q, 2]) * self.weight[..., None]
            r = [r_k + tf.reduce_sum(F * phi, axis=[-2, -1]) for r_k, phi in zip(r, self.grad_phi)]
        if G is not None:
            G = tf.reshape(tf.broadcast_to(G, [M, E * q]), [M, E, q]) * self.weight
            r = [r_k + tf.reduce_sum(G * phi, axis=-1) for r_k, phi in zip(r, self.phi)]
        return r

    def residual(self, u: tf.Tensor, z: Any = None) -> tf.Tensor:
        """Rows of the functions inside; [M, N]."""
        n = len(self.inside)
        r = tf.stack(self.element_residual([tf.gather(u, k, axis=1) for k in self.corners], z))
        rows = tf.math.unsorted_segment_sum(tf.transpose(r, [0, 2, 1]), self._rows, n + 1)
        return tf.transpose(rows[:n])

    def reader(self, x: np.ndarray) -> sp.csr_matrix:
        """[k, n] reads the field at places x [k, 2]; places outside are refused."""
        try:
            return self.basis.probes(np.asarray(x, float).T).tocsr()
        except ValueError:
            raise UserError("a place lies outside the basis's mesh: remove it, or check its order (x, y)") from None
