"""An equation on a mesh: nodal values, residual rows L[z]u − f, and the matrices L[z], A and f."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from check_shapes import check_shapes

from pdevae._tensorflow import constant_property, tf
from pdevae.fem.boundary import Boundary, boundary_values, lift, of_latents
from pdevae.fem.elements import Elements, elements
from pdevae.fem.fields import Field, values
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion, Term, element_residual, require_equation, tested
from pdevae.fem.transfer import read_at


class WeakForm:
    """``equation`` tested with the interior nodes of ``mesh`` (H¹₀).

    ``boundary`` is what is known of u on the boundary: a number, an array [n] or a function of x [n, 2], NaN where
    nothing is. A field μ is then taken as g + w·μ (:mod:`pdevae.fem.boundary`), which has those values whatever μ is; a
    pair (g, w) of arrays [n] gives both. A function of x and z is g itself, inside the region too.
    With None the boundary values are free, and a field is taken as it is.

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
        self.boundary = boundary
        self.edge: Any = boundary if of_latents(boundary) else None
        self._given = 0.0 if self.edge else boundary
        self.known = boundary_values(mesh, self._given)  # [n], NaN where nothing is known

    @property
    def size(self) -> int:
        return self.mesh.n_nodes

    @property
    def held(self) -> np.ndarray:
        """[n] True at nodes where u is known, and not tested."""
        return self.mesh.is_boundary

    @property
    def inside(self) -> np.ndarray:
        """Numbers of the nodes that are tested."""
        return self.mesh.interior

    @property
    def corners(self) -> np.ndarray:
        """[3, E]"""
        return self.mesh.triangles.T

    @property
    def places(self) -> tf.Tensor:
        """Where coefficients are taken; [E, 2]."""
        return self.elements.centroid

    def element_residual(self, u: list[tf.Tensor], z: Any) -> list[tf.Tensor]:
        """r_ek for the values ``u`` at the three corners, each [M, E]; so are the residuals."""
        return element_residual(self.equation, self.elements, u, z)

    def reader(self, x: np.ndarray) -> sp.csr_matrix:
        """[k, n] reads nodal values at places x [k, 2]; places outside are refused."""
        return read_at(self.mesh, x).tocsr()

    @constant_property
    def g_and_w(self) -> tuple[tf.Tensor, tf.Tensor]:
        """A field μ is taken as g + w·μ; [n] each."""
        g, w = lift(self.mesh, self._given) or (0.0, 1.0)
        return tf.constant(g, self.dtype), tf.constant(w, self.dtype)

    def edge_values(self, z: Any, samples: int) -> tf.Tensor:
        """Known values at the boundary nodes, 0 at the others; [M, n]."""
        if self.edge:
            return tf.where(self.mesh.is_boundary, self._edge_at(self.x, z), 0.0)
        assert self.known is not None
        known = np.where(self.mesh.is_boundary, self.known, 0.0)
        return tf.tile(tf.constant(known, self.dtype)[None], [samples, 1])

    def _edge_at(self, x: tf.Tensor, z: Any) -> tf.Tensor:
        return tf.cast(self.edge(x, z), self.dtype)

    @constant_property
    def triangles(self) -> tf.Tensor:
        """Node numbers by corner; [3, E]."""
        return tf.constant(self.mesh.triangles.T)

    @constant_property
    def elements(self):
        return elements(tf.constant(self.mesh.points[self.mesh.triangles.T], self.dtype))

    @constant_property
    def _rows(self) -> tf.Tensor:
        """The row of each corner [3, E]; boundary corners fall into one row too many, then cut off."""
        number = self.mesh.interior_number[self.mesh.triangles.T]
        return tf.constant(np.where(number < 0, len(self.mesh.interior), number), tf.int32)

    def values(self, mu: Field, z: Any) -> tf.Tensor:
        """The field at every node; [M, n]."""
        return self.with_boundary(values(mu, self.x, z), z)

    def with_boundary(self, u: tf.Tensor, z: Any, nodes: tf.Tensor | None = None) -> tf.Tensor:
        """g + w·u at ``nodes`` (default: all); u itself where the boundary is free."""
        if self.known is None:
            return u
        g, w = self.g_and_w if nodes is None else (tf.gather(part, nodes) for part in self.g_and_w)
        if self.edge:
            g = self._edge_at(self.x if nodes is None else tf.gather(self.x, nodes), z)
        return g + w * u

    def corners_at(self, x: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        """Nodes and weights [k, 3] that read the field at places x [k, 2]; an unused corner has no weight."""
        read = read_at(self.mesh, x).tocsr()
        row, place = np.repeat(np.arange(len(x)), np.diff(read.indptr)), _rank(read.indptr)
        nodes, weights = np.zeros((len(x), 3), np.int32), np.zeros((len(x), 3))
        nodes[row, place], weights[row, place] = read.indices, read.data
        return tf.constant(nodes), tf.constant(weights, self.dtype)

    @check_shapes("nodes: [k, 3]", "weights: [k, 3]", "return: [M, k]")
    def read(self, mu: Field, z: Any, nodes: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """The field between the nodes, as elements interpolate it: what the penalties know of it."""
        flat = tf.reshape(nodes, [-1])
        u = self.with_boundary(values(mu, tf.gather(self.x, flat), z), z, flat)
        return tf.reduce_sum(tf.reshape(u, [-1, *nodes.shape]) * weights, axis=-1)

    @check_shapes("u: [M, n]", "return: [M, N]")
    def residual(self, u: tf.Tensor, z: Any = None) -> tf.Tensor:
        """(L[z]u − f)_i at the interior nodes."""
        n = len(self.mesh.interior)
        return corner_sums(self.equation, self.elements, self.triangles, u, z, n + 1, self._rows)[:, :n]

    def element_system(self, z: Any = None, samples: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
        """K [M, E, 3, 3] and f [M, E, 3] with r = K u − f on each element, for a linear equation."""
        e = self.elements
        third, zero = (tf.fill([samples, self.mesh.n_elements], tf.constant(v, self.dtype)) for v in (1 / 3, 0))
        grad_phi = tf.tile(tf.transpose(e.grad_phi, [1, 2, 0])[:, None], [1, samples, 1, 1])
        r_0 = tested(self.equation, e, zero, tf.zeros_like(grad_phi[0]), z)
        columns = [tested(self.equation, e, third, grad, z) for grad in tf.unstack(grad_phi, num=3)]
        K = tf.stack([column[k] - r_0[k] for k in range(3) for column in columns], axis=-1)
        return tf.reshape(K, [samples, -1, 3, 3]), -tf.stack(r_0, axis=-1)

    def system(self, z: Any = None) -> tuple[sp.csr_matrix, np.ndarray]:
        """L[z], interior rows and all columns (eq:transport_assembly), and f_i = ∫ f φ_i at the interior nodes
        (eq:stiffness_and_load_vector); for one sample of z.
        """
        K, f = (part[0].numpy() for part in self.element_system(z))
        L = assembled(K, self.mesh.triangles, self.mesh.n_nodes)
        f = np.bincount(self.mesh.triangles.ravel(), f.ravel(), self.mesh.n_nodes)
        return L[self.mesh.interior], f[self.mesh.interior]

    def matrix(self, z: Any = None) -> sp.csr_matrix:
        return self.system(z)[0]

    def load(self, z: Any = None) -> np.ndarray:
        return self.system(z)[1]


def corner_sums(equation: Term, e: Elements, corners, u: tf.Tensor, z: Any, n: int, rows=None) -> tf.Tensor:
    """Σ r_ek over the elements and corners with row i, from values u [M, *] at their ``corners`` [3, E]; [M, n].

    ``rows`` [3, E] are the corners unless given.
    """
    # nodes first for gather and sum, where the samples lie together; samples first for the equation
    u_k = tf.transpose(tf.gather(tf.transpose(u), corners), [0, 2, 1])
    r = tf.stack(element_residual(equation, e, tf.unstack(u_k, num=3), z))  # [3, M, E]
    return tf.transpose(tf.math.unsorted_segment_sum(tf.transpose(r, [0, 2, 1]), corners if rows is None else rows, n))


def assembled(K: np.ndarray, corners: np.ndarray, n: int) -> sp.csr_matrix:
    """The sum of element matrices [E, 3, 3] over elements with these corners [E, 3]; [n, n]."""
    row, column = (np.broadcast_to(i, K.shape).ravel() for i in (corners[:, :, None], corners[:, None, :]))
    return sp.csr_matrix((K.ravel(), (row, column)), shape=(n, n))


def _rank(indptr: np.ndarray) -> np.ndarray:
    """0, 1, 2, … within each row of a compressed matrix."""
    return np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr))


def stiffness(mesh: Mesh) -> sp.csc_matrix:
    """A_ij = ∫ ∇φ_j·∇φ_i over the interior nodes: the reference operator of the dual norm.

    >>> import pdevae
    >>> stiffness(pdevae.square(nodes=16)).toarray().round(12).tolist()  # four interior nodes, the five-point stencil
    [[4.0, -1.0, -1.0, 0.0], [-1.0, 4.0, 0.0, -1.0], [-1.0, 0.0, 4.0, -1.0], [0.0, -1.0, -1.0, 4.0]]
    """
    return WeakForm(mesh, Diffusion(1.0)).matrix()[:, mesh.interior].tocsc()
