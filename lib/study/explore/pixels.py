"""A field on a mesh as an image: drawn ten times as fast as triangles are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from pdevae.fem.mesh import Mesh
from pdevae.fem.transfer import interpolation

_SIDE = 240  # pixels


class Pixels(NamedTuple):
    """Of an image of the region, from above."""

    read: sp.csr_matrix  # [side², n]
    outside: np.ndarray  # [side, side]
    extent: tuple[float, float, float, float]

    @classmethod
    def of(cls, mesh: Mesh) -> Pixels:
        (left, bottom), (right, top) = mesh.points.min(axis=0), mesh.points.max(axis=0)
        x, y = np.meshgrid(np.linspace(left, right, _SIDE), np.linspace(top, bottom, _SIDE))
        read = interpolation(mesh, np.column_stack([x.ravel(), y.ravel()]))
        return cls(read, (np.diff(read.indptr) == 0).reshape(_SIDE, _SIDE), (left, right, bottom, top))

    def image(self, u: np.ndarray) -> np.ndarray:
        """Nodal values at the pixels, [side, side]."""
        return np.ma.masked_where(self.outside, (self.read @ u).reshape(self.outside.shape))
