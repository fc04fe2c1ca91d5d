"""An inverse problem: an equation on a mesh, what is unknown in it, and noisy readings of its solution."""

from __future__ import annotations

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.boundary import Boundary
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.inference.forward import Forward
from pdevae.inference.latents import Latents


class InverseProblem:
    """``readings`` [S] at ``sensors`` [S, 2] of the u that solves ``equation`` for some z ~ N(0, I), with noise.

    ``noise`` is the standard deviation of a reading, one number or one for each; ``boundary`` what u is known to be on
    the boundary (as for penalties): 0 unless given, perhaps a function of place and latents, or None where nothing is
    known, which ``CVI`` alone can use.

    >>> import pdevae
    >>> equation = pdevae.Diffusion(lambda x, z: z.a) - pdevae.Source(1.0)  # on the disc, u = (1 − |x|²)/4a
    >>> latents = pdevae.Latents(a=pdevae.Normal(transform=tf.exp))
    >>> at = np.array([[0.0, 0.0], [0.3, 0.2], [-0.5, 0.1]])
    >>> u = (1 - np.sum(at**2, axis=1)) / 8  # a = 2
    >>> problem = InverseProblem(pdevae.disc(nodes=150), equation, latents, at, u, noise=0.002, boundary=0.0)
    >>> problem.predict(tf.zeros([1, 1], tf.float64)).numpy().round(2).tolist()  # a = 1
    [[0.25, 0.21, 0.18]]
    """

    def __init__(
        self,
        mesh: Mesh,
        equation: Term,
        latents: Latents,
        sensors: np.ndarray,
        readings: np.ndarray,
        noise: float | np.ndarray,
        boundary: Boundary = 0.0,
    ):
        self.forward = Forward(mesh, equation, latents, boundary)
        self._take(sensors, readings, noise)

    def with_readings(self, readings, sensors=None, noise=None) -> InverseProblem:
        """The same equation and mesh, what is compiled for them included, with other readings."""
        sensors, noise = self.sensors if sensors is None else sensors, self.noise if noise is None else noise
        return self.on(self.forward, sensors, readings, noise)

    @classmethod
    def on(cls, forward: Forward, sensors, readings, noise) -> InverseProblem:
        """Readings of what ``forward`` gives."""
        made = cls.__new__(cls)
        made.forward = forward
        made._take(sensors, readings, noise)
        return made

    def _take(self, sensors, readings, noise) -> None:
        self.sensors, self.readings = np.atleast_2d(np.asarray(sensors, float)), np.asarray(readings, float)
        if not self.sensors.size:
            raise UserError("there are no sensors: give at least one place and its reading")
        if self.readings.shape != (len(self.sensors),):
            raise UserError(
                f"{self.readings.size} readings for {len(self.sensors)} sensors: give one reading for each sensor"
            )
        if not np.isfinite(self.readings).all():
            number = np.flatnonzero(~np.isfinite(self.readings))[0]
            raise UserError(f"reading {number} is {self.readings[number]}: leave it out, with its sensor")
        self.noise = np.asarray(noise, float)
        if self.noise.shape not in ((), self.readings.shape):
            raise UserError(
                f"noise has shape {list(self.noise.shape)} for {self.readings.size} readings: give one number, or one "
                "for each reading"
            )
        if not np.all(self.noise > 0):
            raise UserError(f"noise={noise} must be positive: it is the standard deviation of a reading")
        self.read = self.forward.reader(self.sensors)  # refuses sensors outside

    @property
    def mesh(self) -> Mesh:
        return self.forward.mesh

    @property
    def latents(self) -> Latents:
        return self.forward.latents

    @property
    def size(self) -> int:
        """d, the length of z."""
        return self.latents.size

    def solve(self, z: tf.Tensor) -> tf.Tensor:
        """u [M, n] at the nodes for each z [M, d]."""
        return self.forward.solve(z)

    def predict(self, z: tf.Tensor, x: np.ndarray | None = None) -> tf.Tensor:
        """u [M, k] at places x [k, 2], by default the sensors."""
        read = self.read if x is None else self.forward.reader(x)
        used = np.flatnonzero(np.diff(read.tocsc().indptr))
        u = tf.gather(self.solve(z), used, axis=1)
        return tf.matmul(u, tf.constant(read[:, used].toarray()), transpose_b=True)

    def log_likelihood(self, z: tf.Tensor) -> tf.Tensor:
        """log p(y | z) [M], up to a constant."""
        return self.fit_of(self.predict(z))

    def fit_of(self, u: tf.Tensor) -> tf.Tensor:
        """log p(y | u) [M] of values u [M, S] at the sensors, up to a constant."""
        away = (u - tf.constant(self.readings, u.dtype)) / tf.constant(self.noise, u.dtype)
        return -0.5 * tf.reduce_sum(away**2, axis=1)

    def log_joint(self, z: tf.Tensor) -> tf.Tensor:
        """log p(y, z) [M], up to a constant."""
        return self.log_likelihood(z) - 0.5 * tf.reduce_sum(z**2, axis=1)

    def sensitivity(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Readings [S] at one z [d] and their Jacobian [S, d], by an adjoint solve for each sensor."""
        return self.forward.sensitivity(np.asarray(z, float), self.read)
