"""What is unknown: named parts with priors, all of them maps of one whitened vector z ~ N(0, I).

    latents = Latents(log_a=GaussianField(sd=0.7, length=0.4), tau=Normal(2))
    equation = Diffusion(lambda x, z: tf.exp(z.log_a(x))) + Transport(lambda x, z: z.tau) - Source(1.0)

A coefficient sees ``z.log_a`` and ``z.tau``: a field is a function of places, a vector comes with an axis for places.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist

from pdevae._tensorflow import constant_property, tf
from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh

Transform = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True, eq=False)
class Normal:
    """``size`` numbers ~ N(mean, sd²), then ``transform``: [M, 1] for one number, [M, 1, size] for more.

    >>> z = Latents(tau=Normal(2, sd=3.0), k=Normal(mean=-1.0, transform=tf.exp))
    >>> seen = z.seen(tf.zeros([4, 3], tf.float64))
    >>> seen.tau.shape.as_list(), seen.k.shape.as_list(), round(float(seen.k[0, 0]), 4)
    ([4, 1, 2], [4, 1], 0.3679)
    """

    size: int = 1
    mean: float = 0.0
    sd: float = 1.0
    transform: Transform | None = None

    def on(self, mesh: Mesh) -> Normal:
        return self

    def seen(self, z: tf.Tensor) -> tf.Tensor:
        return _lifted(self, z if self.size == 1 else z[:, None])


@dataclass(frozen=True, eq=False)
class Cells:
    """A number ~ N(mean, sd²) on each of ``size`` cells, then ``transform``: a function of places.

    ``cell`` maps places [n, 2] to the numbers 0 … size − 1 of the cells they lie in.

    >>> halves = Cells(2, lambda x: tf.cast(x[:, 0] > 0.5, tf.int32))
    >>> z = Latents(a=halves).seen(tf.constant([[3.0, 5.0]], tf.float64))
    >>> z.a(tf.constant([[0.1, 0.0], [0.9, 0.0]], tf.float64)).numpy().tolist()
    [[3.0, 5.0]]
    """

    size: int
    cell: Callable[[tf.Tensor], tf.Tensor]
    mean: float = 0.0
    sd: float = 1.0
    transform: Transform | None = None

    def on(self, mesh: Mesh) -> Cells:
        return self

    def seen(self, z: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
        return lambda x: tf.cast(_lifted(self, tf.gather(z, self.cell(x), axis=1)), x.dtype)


_KERNELS = {
    "matern32": lambda r: (1 + 3**0.5 * r) * tf.exp(-(3**0.5) * r),
    "matern52": lambda r: (1 + 5**0.5 * r + 5 * r**2 / 3) * tf.exp(-(5**0.5) * r),
    "squared": lambda r: tf.exp(-0.5 * r**2),
}


@dataclass(frozen=True, eq=False)
class GaussianField:
    """A Gaussian process over the region, by the ``modes`` of its covariance that vary most: a function of places.

    The modes are those of the kernel at ``points`` places spread over the mesh (Nyström); ``left_out`` says what share
    of the variance they miss.

    >>> import pdevae
    >>> field = GaussianField(sd=0.5, length=0.5, modes=40).on(pdevae.disc(nodes=300))
    >>> bool(field.left_out(np.zeros([1, 2]))[0] < 0.02)
    True
    """

    sd: float = 1.0
    length: float = 0.3
    kernel: str = "matern52"
    modes: int = 40
    mean: float = 0.0
    transform: Transform | None = None
    points: int | None = None  # by default four times as many as modes
    places: np.ndarray | None = None  # set by ``on``

    def __post_init__(self):
        if self.kernel not in _KERNELS:
            raise UserError(f"unknown kernel {self.kernel!r}: use one of {', '.join(_KERNELS)}")
        if not self.length > 0:
            raise UserError(f"a Gaussian field needs a length above 0, not {self.length}")
        if self.modes < 1 or (self.points is not None and self.modes > self.points):
            most = "" if self.points is None else f" and at most points={self.points}"
            raise UserError(f"modes={self.modes} must be at least 1{most}")

    @property
    def size(self) -> int:
        return self.modes

    def on(self, mesh: Mesh) -> GaussianField:
        places = spread_out(mesh.points, self.points or max(4 * self.modes, 100))
        if len(places) < self.modes:
            raise UserError(f"a mesh of {len(places)} nodes cannot have {self.modes} modes: use fewer, or a finer mesh")
        return replace(self, places=places)

    @constant_property
    def _weights(self) -> np.ndarray:
        """U Λ^(−1/2) of the leading modes of the kernel at the places; [points, modes]."""
        distance = cdist(self.places, self.places) / self.length
        values, vectors = np.linalg.eigh(_KERNELS[self.kernel](tf.constant(distance)).numpy())
        leading = slice(-1, -self.modes - 1, -1)
        return vectors[:, leading] / np.sqrt(np.maximum(values[leading], 1e-10))

    def basis(self, x: tf.Tensor) -> tf.Tensor:
        """[n, modes]: the field at places x is mean + sd · basis @ z. A table where a graph always takes the same x."""
        known = None if tf.executing_eagerly() else tf.get_static_value(x)
        return self._basis(x) if known is None else self._table(known)

    def _table(self, x: np.ndarray) -> tf.Tensor:
        key = x.dtype, hashlib.blake2b(x.tobytes()).digest()
        if key not in self._tables:
            with tf.init_scope():
                self._tables[key] = self._basis(tf.constant(x))
        return self._tables[key]

    @cached_property
    def _tables(self) -> dict[tuple, tf.Tensor]:
        return {}

    def _basis(self, x: tf.Tensor) -> tf.Tensor:
        away = x[:, None] - tf.constant(self.places, x.dtype)
        distance = tf.sqrt(tf.reduce_sum(away**2, axis=-1) + 1e-16)
        return tf.matmul(_KERNELS[self.kernel](distance / self.length), tf.constant(self._weights, x.dtype))

    def left_out(self, x: np.ndarray) -> np.ndarray:
        return 1 - np.sum(self.basis(tf.constant(x, tf.float64)).numpy() ** 2, axis=1)

    def seen(self, z: tf.Tensor) -> Callable[[tf.Tensor], tf.Tensor]:
        return lambda x: _lifted(self, tf.matmul(tf.cast(z, x.dtype), self.basis(x), transpose_b=True))


Part = Normal | Cells | GaussianField


# what a posterior has names for, beside its latents
TAKEN = {"whitened", "problem", "mean", "covariance", "draws", "seconds", "setup_seconds", "diagnostics", "surrogate"}
TAKEN |= {"gaussian", "chains", "grid", "density", "flow", "normal", "sd", "part", "predict", "fields"}
TAKEN |= {"log_q", "from_normal", "check", "to_arviz"}


class Seen:
    """What coefficients see of z [M, d]: the parts by name, and ``whitened``, z itself."""

    def __init__(self, parts: dict[str, tf.Tensor | Callable], whitened: tf.Tensor):
        self.__dict__.update(parts)
        self.whitened = whitened


class Latents:
    """The parts by name, side by side in one vector z of ``size`` numbers.

    >>> Latents(log_a=GaussianField(modes=20), tau=Normal(size=2)).size
    22
    """

    def __init__(self, **parts: Part):
        if not parts:
            raise UserError("Latents() is empty: name what is unknown, as Latents(tau=Normal(size=2))")
        for name, part in parts.items():
            if not isinstance(part, Part):
                raise UserError(f"{name}={part!r} cannot be a latent: use Normal, GaussianField or Cells")
            if name in TAKEN or name.startswith("_"):
                raise UserError(f"a latent cannot be called {name!r}, which posteriors use: choose another name")
            if not np.all(np.asarray(part.sd) > 0):
                raise UserError(f"the prior of {name} has sd={part.sd}: it must be positive")
        self.parts = parts
        ends = np.cumsum([part.size for part in parts.values()])
        self.slices = {name: slice(int(end) - part.size, int(end)) for (name, part), end in zip(parts.items(), ends)}
        self.size = int(ends[-1])

    def on(self, mesh: Mesh) -> Latents:
        return Latents(**{name: part.on(mesh) for name, part in self.parts.items()})

    def seen(self, z: tf.Tensor) -> Seen:
        parts = {name: part.seen(z[:, self.slices[name]]) for name, part in self.parts.items()}
        return Seen(parts, z)


def _lifted(part: Part, standard: tf.Tensor) -> tf.Tensor:
    """transform(mean + sd · v)."""
    value = tf.cast(part.mean, standard.dtype) + tf.cast(part.sd, standard.dtype) * standard
    return value if part.transform is None else part.transform(value)


def spread_out(points: np.ndarray, count: int) -> np.ndarray:
    """``count`` of the points, the first the most central, each other the farthest from those before it.

    >>> spread_out(np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 0.0]]), 2)[:, 0].tolist()
    [1.0, 3.0]
    """
    chosen = [int(np.argmin(np.sum((points - points.mean(axis=0)) ** 2, axis=1)))]
    away = np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        away = np.minimum(away, np.linalg.norm(points - points[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(away)))
    return points[chosen]
