"""The forward map from latents to a field: what a problem's methods differentiate."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp
import skfem

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.basis_form import BasisForm
from pdevae.fem.boundary import Boundary
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term, flux_and_volume
from pdevae.fem.solve import Solver
from pdevae.fem.weak_form import WeakForm
from pdevae.inference.latents import Latents

_MOST_CONTRAST = 1e14


class Forward:
    """``equation`` on ``mesh`` for every z of the ``latents``, with what is known of u on the boundary.

    Instead of a mesh, a basis of scikit-fem: then u is solved for in it, and decoders, which need triangles, refuse.

    An inverse problem without readings: what a :class:`~pdevae.inference.decoder.Decoder` is trained for.

    >>> import pdevae
    >>> equation = pdevae.Diffusion(lambda x, z: z.a) - pdevae.Source(1.0)  # on the disc, u = (1 − |x|²)/4a
    >>> latents = pdevae.Latents(a=pdevae.Normal(transform=tf.exp))
    >>> forward = Forward(pdevae.disc(nodes=150), equation, latents, boundary=0.0)
    >>> u = forward.solve(tf.constant([[0.0], [1.0]], tf.float64)).numpy()  # a = 1 and a = e
    >>> (u @ forward.reader([[0.0, 0.0]]).T).round(2).tolist()
    [[0.25], [0.09]]
    """

    def __init__(self, mesh: Mesh | skfem.CellBasis, equation: Term, latents: Latents, boundary: Boundary):
        self.form = (BasisForm if isinstance(mesh, skfem.CellBasis) else WeakForm)(mesh, equation, boundary)
        self.mesh, self.equation, self.boundary = self.form.mesh, equation, boundary
        self.latents = latents.on(self.mesh)
        self._refuse_odd_coefficients()

    @cached_property
    def solver(self) -> Solver:
        try:
            return Solver(self.form, self.latents.seen)
        except UserError as error:
            raise UserError(f"{error}, or use CVI, which needs no solve") from None

    def solve(self, z: tf.Tensor) -> tf.Tensor:
        """u [M, n] at the nodes for each z [M, d]."""
        return self.solver.solve(z)

    def sensitivity(self, z: np.ndarray, read: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
        """Readings [S] at one z [d] and their Jacobian [S, d]."""
        return self.solver.sensitivity(z, read)

    def reader(self, x: np.ndarray) -> sp.csr_matrix:
        """[k, n] reads nodal values at places x [k, 2]; places outside are refused."""
        return self.form.reader(x)

    @property
    def weak(self) -> WeakForm:
        """On triangles: what penalties need."""
        if not isinstance(self.form, WeakForm):
            raise UserError("decoders need a Mesh of triangles, not a scikit-fem basis: use a method that solves")
        return self.form

    def _refuse_odd_coefficients(self) -> None:
        """A latent that nothing uses, a diffusion that is not positive: said here, not after an hour of sampling."""
        z = tf.constant(np.random.default_rng(0).normal(size=(4, self.latents.size)))
        u = tf.constant(np.random.default_rng(1).normal(size=(4, self.form.size)))
        with tf.GradientTape() as tape:
            tape.watch(z)
            seen = self.latents.seen(z)
            edge = tf.reduce_sum(self.form.edge_values(seen, 4) ** 2) if self.form.known is not None else 0.0
            total = tf.reduce_sum(self.form.residual(u, seen) ** 2) + edge
        slope = tape.gradient(total, z, unconnected_gradients="zero").numpy()
        for name, part in self.latents.slices.items():
            if not np.any(slope[:, part]):
                raise UserError(f"no term of the equation uses the latent {name}: use z.{name} in one, or leave it out")
        x, seen = self.form.places, self.latents.seen(z)
        for axis in np.eye(2):
            grad = tf.constant(np.broadcast_to(axis, (4, len(x), 2)))
            F, _ = flux_and_volume(self.equation, x, seen, tf.zeros(grad.shape[:2], tf.float64), grad)
            if F is None:
                continue
            a = (F * grad).numpy().sum(axis=-1)
            if np.any(a < 0) or np.isnan(a).any():
                raise UserError(
                    "the diffusion coefficient is not positive for all z: let it be tf.exp of a latent, or give the "
                    "latent a transform such as tf.exp or tf.nn.softplus"
                )
            if not a.max() < _MOST_CONTRAST * a.min():
                raise UserError(
                    f"the diffusion coefficient ranges from {a.min():.0e} to {a.max():.0e} over draws of the prior, "
                    "too wide a range to solve: give its latent a smaller sd"
                )
