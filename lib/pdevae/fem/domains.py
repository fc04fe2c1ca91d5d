"""Regions of the plane and their meshes: square, disc, star, any polygon with holes.

Triangle (through meshpy) does the meshing: size control, holes, and no angle under 30°.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain

import meshpy.triangle
import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial import cKDTree
from shapely import LineString, Polygon
from shapely.ops import polygonize
from shapely.validation import explain_validity
from skfem import MeshTri

from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh

# Triangle's meshes keep elements of about this share of the largest allowed area; only a first guess.
_MEAN_TO_MAX_AREA = 0.63


def square(nodes: int | None = None, max_edge: float | None = None) -> Mesh:
    """The unit square, a regular grid cut along one diagonal.

    >>> square(nodes=25).n_elements
    32
    """
    return Square().mesh(nodes=nodes, max_edge=max_edge)


def disc(nodes: int | None = None, max_edge: float | None = None, radius: float = 1.0) -> Mesh:
    """The disc around the origin.

    >>> mesh = disc(max_edge=0.2, radius=2.0)
    >>> float(abs(mesh.points).max().round(1))
    2.0
    """
    return Curve(lambda angle: np.full_like(angle, radius)).mesh(nodes=nodes, max_edge=max_edge)


def star(nodes: int | None = None, max_edge: float | None = None, arms: int = 5, depth: float = 0.3) -> Mesh:
    """The star-shaped region r(θ) = 1 + depth·cos(arms·(θ − π/2)), one arm up (fig:pde_as_smoothers).

    >>> mesh = star(nodes=500)
    >>> abs(mesh.n_nodes - 500) < 50, float(mesh.points[:, 1].max().round(1))
    (True, 1.3)
    """
    if not 0 <= depth < 1:
        raise UserError(f"depth={depth} of the star must lie in [0, 1)")
    return Curve(lambda angle: 1 + depth * np.cos(arms * (angle - np.pi / 2))).mesh(nodes=nodes, max_edge=max_edge)


def polygon(
    outline: ArrayLike | Polygon,
    holes: Sequence[ArrayLike] = (),
    nodes: int | None = None,
    max_edge: float | None = None,
) -> Mesh:
    """Any polygon, given by its corners [k, 2], less the polygons in ``holes``; or shapely's ``Polygon``.

    >>> ring = np.array([(0, 0), (3, 0), (3, 3), (0, 3)])
    >>> mesh = polygon(ring, holes=[1 + ring / 3], max_edge=0.5)
    >>> int((abs(mesh.points - 1.5).max(axis=1) < 0.49).sum())  # no node in the hole
    0
    >>> polygon(Polygon(ring).difference(Polygon(1 + ring / 3)), max_edge=0.5).n_nodes == mesh.n_nodes
    True
    """
    return PolygonDomain.of(outline, holes).mesh(nodes=nodes, max_edge=max_edge)


@dataclass(frozen=True)
class Square:
    """[0, 1]²."""

    def mesh(self, nodes=None, max_edge=None, coarse=False) -> Mesh:
        _one_size(nodes, max_edge)
        cells = round(np.sqrt(nodes)) - 1 if nodes else int(np.ceil(np.sqrt(2) / max_edge))
        ticks = np.linspace(0.0, 1.0, max(cells, 1) + 1)
        grid = MeshTri.init_tensor(ticks, ticks)
        return Mesh(grid.p.T, grid.t.T, self)


class _Outlined:
    """A region known by its outline, meshed by Triangle."""

    def outline(self, max_edge: float, tolerance: float | None) -> Polygon:
        raise NotImplementedError

    def mesh(self, nodes=None, max_edge=None, coarse=False) -> Mesh:
        _one_size(nodes, max_edge)
        if nodes is not None:
            return self._mesh_with(nodes, coarse)
        shape = self.outline(max_edge, 0.25 * max_edge if coarse else None)
        finer = None if coarse else self.grading(max_edge)
        return Mesh(*_triangulate(shape, np.sqrt(3) / 4 * max_edge**2, finer), self)

    def grading(self, max_edge: float) -> Callable[[np.ndarray], float] | None:
        """Where the mesh shall be finer: a place's share of ``max_edge``."""
        return None

    def _mesh_with(self, nodes: int, coarse: bool) -> Mesh:
        """Meshes, each nearer to the wanted number of nodes; a large one is calibrated on a small one."""
        if nodes < 4:
            raise UserError(f"nodes={nodes} is too few for a mesh: use 10 or more")
        h, tried = self._first_guess(nodes), list[Mesh]()
        if nodes > 40_000:
            h *= np.sqrt(self.mesh(max_edge=self._first_guess(20_000)).n_nodes / 20_000)
        while len(tried) < 6 and (not tried or abs(tried[-1].n_nodes - nodes) > 0.01 * nodes):
            tried.append(self.mesh(max_edge=h, coarse=coarse))
            h *= np.sqrt(tried[-1].n_nodes / nodes)
        return min(tried, key=lambda mesh: abs(mesh.n_nodes - nodes))

    def _first_guess(self, nodes: int) -> float:
        area = self.outline(np.inf, None).area  # a planar mesh has about two elements per node
        return np.sqrt(4 / np.sqrt(3) * area / (2 * _MEAN_TO_MAX_AREA * nodes))


@dataclass(frozen=True)
class PolygonDomain(_Outlined):
    """A polygon with holes; ``shape`` is shapely's."""

    shape: Polygon

    @classmethod
    def of(cls, outline, holes=()) -> PolygonDomain:
        if isinstance(outline, Polygon):
            outline, holes = (outline.exterior.coords, [*(hole.coords for hole in outline.interiors), *holes])
        corners = np.asarray(outline, float)
        if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
            raise UserError(f"a polygon needs at least three finite corners (x, y); got shape {corners.shape}")
        shape = Polygon(corners, [np.asarray(hole, float) for hole in holes])
        if not shape.is_valid:
            raise UserError(f"the polygon is not simple ({explain_validity(shape)}): reorder or remove corners")
        return cls(shape)

    def outline(self, max_edge, tolerance):
        return self.shape if tolerance is None else self.shape.simplify(tolerance)


@dataclass(frozen=True, eq=False)
class GradedDomain(PolygonDomain):
    """A polygon meshed more finely near some places [k, 2]: edges grow from ``finest`` of the largest to all of it."""

    towards: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))
    finest: float = 0.4
    reach: float = 3.0  # edges: how far from a place the largest is allowed

    def grading(self, max_edge):
        tree = cKDTree(self.towards)
        return lambda x: min(1.0, self.finest + (1 - self.finest) * tree.query(x)[0] / (self.reach * max_edge))


@dataclass(frozen=True)
class Curve(_Outlined):
    """The region inside a smooth closed curve r(θ) around the origin, redrawn at each mesh size."""

    radius: Callable[[np.ndarray], np.ndarray]

    def outline(self, max_edge, tolerance):
        angle = np.linspace(0.0, 2 * np.pi, 16384)
        line = self.radius(angle)[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
        length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])
        sides = max(int(np.ceil(length[-1] / max_edge)), 16)
        even = np.linspace(0.0, length[-1], sides, endpoint=False)
        return Polygon(np.stack([np.interp(even, length, line[:, d]) for d in (0, 1)], axis=1))


def region_of(mesh: Mesh) -> PolygonDomain:
    """The polygon whose outline and holes are a mesh's boundary edges."""
    pieces = list(polygonize(LineString(edge) for edge in mesh.points[mesh.boundary_edges]))
    return PolygonDomain(max(pieces, key=lambda piece: piece.area))


def _one_size(nodes, max_edge) -> None:
    if (nodes is None) == (max_edge is None):
        raise UserError("set the size of the mesh by one of nodes=… and max_edge=…")
    if not (max_edge if nodes is None else nodes) > 0:
        raise UserError(f"a mesh cannot have nodes={nodes}, max_edge={max_edge}: the size must be positive")


def _triangulate(shape: Polygon, max_area: float, finer=None) -> tuple[np.ndarray, np.ndarray]:
    rings = [np.asarray(ring.coords)[:-1] for ring in (shape.exterior, *shape.interiors)]
    starts = np.cumsum([0] + [len(ring) for ring in rings])
    facets = [
        np.stack([np.arange(k), np.roll(np.arange(k), -1)], axis=1) + start for k, start in zip(map(len, rings), starts)
    ]
    info = meshpy.triangle.MeshInfo()
    info.set_points(np.concatenate(rings).tolist())
    info.set_facets(np.concatenate(facets).tolist())
    info.set_holes([Polygon(ring).representative_point().coords[0] for ring in rings[1:]])
    too_large = None
    if finer is not None:
        too_large = lambda corners, area: area > max_area * finer([sum(v) / 3 for v in zip(*corners)]) ** 2  # noqa: E731
    built = meshpy.triangle.build(info, max_volume=max_area, min_angle=30, refinement_func=too_large)
    return _rows(built.points, float), _rows(built.elements, int)


def _rows(given, dtype: type) -> np.ndarray:
    """Triangle's points or elements; np.array takes ten times as long, looking for the type of each row."""
    values = chain.from_iterable(map(given.__getitem__, range(len(given))))
    return np.fromiter(values, dtype, count=len(given) * given.unit).reshape(-1, given.unit)
