"""Groundwater head as a random field that a PDE ties together, without a network: ours.

    −∇·(a∇u) + τ·∇u = f + w,   log a ~ GP,  τ ~ N(0, s²I),  f ~ GP,  ‖w‖ = ε in the dual norm,
    u on the boundary ~ trend + GP,   y = u(wells) + noise

On a mesh, u is Gaussian given a, τ and a handful of scales; :mod:`.head_fit` finds those.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from pdevae import spread_out
from pdevae._tensorflow import constant_property, tf
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion, Transport
from pdevae.fem.transfer import interpolation
from pdevae.fem.weak_form import WeakForm, stiffness
from study.models.kernels import InducedField, matern32, matern52

# scales and their log-normal priors (median, sd of the logarithm); heads are standardised, 100 km is one
SCALES = {
    "source": (1.0, 1.5),
    "source_length": (0.3, 0.5),
    "eps": (0.05, 1.0),
    "edge": (0.5, 1.0),
    "edge_length": (0.5, 0.7),
    "noise": (0.03, 1.0),
}


class Coefficients(NamedTuple):
    """z of the equation: log a at the elements [M, E] and τ [M, 2]."""

    log_a: tf.Tensor
    tau: tf.Tensor


EQUATION = Diffusion(lambda x, z: tf.exp(z.log_a)) + Transport(  # on lines of their own, or AutoGraph complains
    lambda x, z: z.tau[:, None]
)


@dataclass(frozen=True)
class HeadModel:
    """Settings that are not learned. ``log_a_sd`` 0 means a = 1, ``transport_sd`` 0 no transport."""

    log_a_sd: float = 0.0
    log_a_length: float = 0.5
    transport_sd: float = 0.0
    trend: str = "linear"  # of the boundary values: "constant", "linear"
    trend_sd: float = 2.0
    covariate_sd: float = 0.0  # of the coefficient of a known surface added to the field
    n_inducing: int = 50
    scales: dict[str, tuple[float, float]] = field(default_factory=lambda: SCALES)

    def on(self, mesh: Mesh, covariate: Callable[[np.ndarray], np.ndarray] | None = None, inducing=None) -> OnMesh:
        """On a mesh; ``inducing`` points [k, 2] of log a (default: spread over its nodes), to compare meshes."""
        points = spread_out(mesh.points, self.n_inducing) if inducing is None else inducing
        return OnMesh(self, mesh, covariate or (lambda x: np.zeros(len(x))), points)


@dataclass(frozen=True, eq=False)
class OnMesh:
    """The model's matrices on a mesh. ``covariate``: the known surface, at places [n, 2], about standardised."""

    model: HeadModel
    mesh: Mesh
    covariate: Callable[[np.ndarray], np.ndarray]
    inducing: np.ndarray

    @cached_property
    def weak(self) -> WeakForm:
        return WeakForm(self.mesh, EQUATION)

    @constant_property
    def log_a(self) -> InducedField:
        return InducedField(self.inducing, self.model.log_a_sd, self.model.log_a_length)

    @constant_property
    def _log_a_basis(self) -> tf.Tensor:
        return tf.constant(self.log_a.basis(self.weak.elements.centroid.numpy()))

    @cached_property
    def n_fields(self) -> int:
        """Unknowns of the coefficients: whitened log a, whitened τ."""
        return (self.model.n_inducing if self.model.log_a_sd else 0) + (2 if self.model.transport_sd else 0)

    def coefficients(self, v: tf.Tensor) -> Coefficients:
        """From whitened unknowns [n_fields]."""
        log_a, tau = tf.zeros([1, self.mesh.n_elements], tf.float64), tf.zeros([1, 2], tf.float64)
        if self.model.log_a_sd:
            log_a = tf.linalg.matvec(self._log_a_basis, v[: self.model.n_inducing])[None]
        if self.model.transport_sd:
            tau = self.model.transport_sd * v[None, -2:]
        return Coefficients(log_a, tau)

    def matrix(self, z: Coefficients) -> tuple[tf.Tensor, tf.Tensor]:
        """L[z], dense: interior rows by interior and by boundary columns."""
        K, n, t = self.weak.element_system(z)[0][0], self.mesh.n_nodes, self._triangles
        pairs = tf.reshape(t[:, :, None] * n + t[:, None, :], [-1])
        L = tf.reshape(tf.math.unsorted_segment_sum(tf.reshape(K, [-1]), pairs, n * n), [n, n])
        L = tf.gather(L, self.mesh.interior)
        return tf.gather(L, self.mesh.interior, axis=1), tf.gather(L, self.edge, axis=1)

    @constant_property
    def _triangles(self):
        return tf.constant(self.mesh.triangles, tf.int64)

    @cached_property
    def edge(self) -> np.ndarray:
        return np.flatnonzero(self.mesh.is_boundary)

    @constant_property
    def mass(self) -> np.ndarray:
        """Lumped, at the interior nodes: f's load is mass · f."""
        area = self.weak.elements.area.numpy()
        return np.bincount(self.mesh.triangles.ravel(), np.repeat(area / 3, 3), self.mesh.n_nodes)[self.mesh.interior]

    @constant_property
    def _interior_distance(self) -> np.ndarray:
        x = self.mesh.points[self.mesh.interior]
        return cdist(x, x)

    @constant_property
    def _edge_distance(self):
        x = self.mesh.points[self.edge]
        return tf.constant(cdist(x, x))

    @constant_property
    def stiffness(self) -> np.ndarray:
        return stiffness(self.mesh).toarray()

    @constant_property
    def _trend(self):
        """Constant and slopes at the boundary nodes, with their prior sd."""
        x = self.mesh.points[self.edge]
        basis = np.column_stack([np.ones(len(x)), x]) if self.model.trend == "linear" else np.ones((len(x), 1))
        return tf.constant(self.model.trend_sd * basis)

    def source_covariance(self, s: dict, x: np.ndarray) -> np.ndarray:
        """Of f at places [n, 2] and at the interior nodes; [n, N]."""
        return s["source"] ** 2 * matern52(cdist(x, self.mesh.points[self.mesh.interior]) / s["source_length"]).numpy()

    def load_covariance(self, s: dict[str, tf.Tensor]) -> tf.Tensor:
        """Of f and w, tested with the interior nodes: M K_f M + ε²A."""
        K_f = s["source"] ** 2 * matern52(self._interior_distance / s["source_length"])
        return self.mass[:, None] * K_f * self.mass + s["eps"] ** 2 * self.stiffness

    def edge_covariance(self, s: dict[str, tf.Tensor]) -> tf.Tensor:
        K = s["edge"] ** 2 * matern32(self._edge_distance / s["edge_length"])
        return K + tf.matmul(self._trend, self._trend, transpose_b=True)

    def responses(self, v: tf.Tensor, H: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
        """u read by the rows of H [k, n]: its dependence on the loads, H_i L⁻¹, and on the boundary values."""
        L_ii, L_ib = self.matrix(self.coefficients(v))
        G = tf.transpose(tf.linalg.solve(L_ii, tf.constant(H[:, self.mesh.interior].T), adjoint=True))
        return G, tf.constant(H[:, self.edge]) - tf.matmul(G, L_ib)

    def read(self, x: np.ndarray) -> np.ndarray:
        return interpolation(self.mesh, x).toarray()
