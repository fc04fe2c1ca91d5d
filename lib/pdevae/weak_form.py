"""An equation on a mesh: nodal values, residual rows L[z]u − f, and the matrices L[z], A and f."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from check_shapes import check_shapes

from ._tensorflow import constant_property, tf
from .elements import elements
from .fields import Field, values
from .mesh import Mesh
from .operators import Diffusion, Term, element_residual, require_equation, tested

Boundary = float | np.ndarray | Callable[[np.ndarray], np.ndarray] | None


class WeakForm:
    """``equation`` tested with the interior nodes of ``mesh`` (H¹₀).

    ``boundary`` is the Dirichlet value g, a number or a function of x [n, 2], put in place of u on the
    boundary; with None the boundary values are free.

    >>> import pdevae
    >>> weak = WeakForm(pdevae.square(nodes=25), pdevae.Diffusion(2.0) - pdevae.Source(1.0))
    >>> L, f = weak.matrix(), weak.load()
    >>> L.shape, round(float(f.sum()), 12)  # interior rows, all columns; ∫ f over the nine interior hats
    ((9, 25), 0.5625)
    >>> u = weak.values(lambda x, z: x[None, :, 0], z=None)
    >>> float(abs(weak.residual(u)[0] - (L @ u[0].numpy() - f)).numpy().max()) < 1e-12
    True
    """

    def __init__(self, mesh: Mesh, equation: Term, boundary: Boundary = None, dtype: tf.DType = tf.float64):
        self.mesh, self.equation, self.dtype = mesh, require_equation(equation), tf.as_dtype(dtype)
        self.x = tf.constant(mesh.points, self.dtype)
        self.is_boundary = tf.constant(mesh.is_boundary)
        g = boundary(mesh.points) if callable(boundary) else boundary
        self.g = None if g is None else tf.constant(np.broadcast_to(np.asarray(g), mesh.n_nodes), self.dtype)

    @constant_property
    def triangles(self) -> tf.Tensor:
        """Node numbers by corner; [3, E]."""
        return tf.constant(self.mesh.triangles.T)

    @constant_property
    def elements(self):
        return elements(tf.constant(self.mesh.points[self.mesh.triangles.T], self.dtype))

    @constant_property
    def _rows(self) -> tf.Tensor:
        """The row of each (element, corner); boundary corners fall into one row too many, then cut off."""
        number = self.mesh.interior_number[self.mesh.triangles.T.ravel()]
        return tf.constant(np.where(number < 0, len(self.mesh.interior), number), tf.int32)

    def values(self, mu: Field, z: Any) -> tf.Tensor:
        """μ at every node, g on the boundary; [M, n]."""
        return self.with_boundary(values(mu, self.x, z))

    def with_boundary(self, u: tf.Tensor, nodes: tf.Tensor | None = None) -> tf.Tensor:
        """g in place of u at those of ``nodes`` (default: all) that lie on the boundary."""
        if self.g is None:
            return u
        at = (lambda per_node: per_node) if nodes is None else (lambda per_node: tf.gather(per_node, nodes))
        return tf.where(at(self.is_boundary), at(self.g), u)

    @check_shapes("u: [M, n]", "return: [M, N]")
    def residual(self, u: tf.Tensor, z: Any = None) -> tf.Tensor:
        """(L[z]u − f)_i at the interior nodes."""
        u_k = [tf.gather(u, nodes, axis=1) for nodes in tf.unstack(self.triangles, num=3)]
        r = tf.concat(element_residual(self.equation, self.elements, u_k, z), axis=1)
        rows = tf.math.unsorted_segment_sum(tf.transpose(r), self._rows, len(self.mesh.interior) + 1)
        return tf.transpose(rows[:-1])

    def element_system(self, z: Any = None, samples: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
        """K [M, E, 3, 3] and f [M, E, 3] with r = K u − f on each element, for a linear equation."""
        e = self.elements
        third, zero = (tf.fill([samples, self.mesh.n_elements], tf.constant(v, self.dtype)) for v in (1 / 3, 0))
        grad_phi = tf.tile(tf.transpose(e.grad_phi, [1, 2, 0])[:, None], [1, samples, 1, 1])
        r_0 = tested(self.equation, e, zero, tf.zeros_like(grad_phi[0]), z)
        columns = [tested(self.equation, e, third, grad, z) for grad in tf.unstack(grad_phi, num=3)]
        K = tf.stack([column[k] - r_0[k] for k in range(3) for column in columns], axis=-1)
        return tf.reshape(K, [samples, -1, 3, 3]), -tf.stack(r_0, axis=-1)

    def matrix(self, z: Any = None) -> sp.csr_matrix:
        """L[z]: interior rows, all columns (eq:transport_assembly); for one sample of z."""
        K = self.element_system(z)[0][0].numpy()
        return assembled(K, self.mesh.triangles, self.mesh.n_nodes)[self.mesh.interior]

    def load(self, z: Any = None) -> np.ndarray:
        """f_i = ∫ f φ_i at the interior nodes (eq:stiffness_and_load_vector)."""
        f = self.element_system(z)[1][0].numpy()
        return np.bincount(self.mesh.triangles.ravel(), f.ravel(), self.mesh.n_nodes)[self.mesh.interior]


def assembled(K: np.ndarray, corners: np.ndarray, n: int) -> sp.csr_matrix:
    """The sum of element matrices [E, 3, 3] over elements with these corners [E, 3]; [n, n]."""
    row, column = (np.broadcast_to(i, K.shape).ravel() for i in (corners[:, :, None], corners[:, None, :]))
    return sp.csr_matrix((K.ravel(), (row, column)), shape=(n, n))


def stiffness(mesh: Mesh) -> sp.csc_matrix:
    """A_ij = ∫ ∇φ_j·∇φ_i over the interior nodes: the reference operator of the dual norm.

    >>> import pdevae
    >>> stiffness(pdevae.square(nodes=16)).toarray().round(12).tolist()  # four interior nodes, the five-point stencil
    [[4.0, -1.0, -1.0, 0.0], [-1.0, 4.0, 0.0, -1.0], [-1.0, 0.0, 4.0, -1.0], [0.0, -1.0, -1.0, 4.0]]
    """
    return WeakForm(mesh, Diffusion(1.0)).matrix()[:, mesh.interior].tocsc()
