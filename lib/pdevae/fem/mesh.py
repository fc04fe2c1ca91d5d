"""A triangle mesh: nodes, elements, and at which nodes of the boundary u is held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree
from shapely import STRtree, box
from skfem import MeshTri

from pdevae.errors import UserError


class Domain(Protocol):
    """A region that can be meshed at any size."""

    def mesh(self, nodes: int | None = None, max_edge: float | None = None, coarse: bool = False) -> Mesh:
        """A mesh of about so many nodes, or with edges of about this length; for a coarse space the outline
        may be simplified to what edges of that length can follow."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """P1 mesh with n nodes and E elements.

    ``points`` [n, 2], ``triangles`` [E, 3]; ``domain`` can mesh the same region again at another size, which is
    how coarse spaces are made. A mesh from elsewhere needs none: its outline is taken from its boundary edges.
    u is fixed on the whole boundary except where it is ``natural``: see :meth:`no_flow`.

    >>> points = [(0, 0), (1, 0), (1, 1), (0, 1), (0.5, 0.5)]
    >>> mesh = Mesh(points, [(0, 1, 4), (1, 2, 4), (2, 3, 4), (3, 0, 4)])
    >>> mesh.n_nodes, mesh.n_elements, mesh.interior.tolist(), mesh.max_edge
    (5, 4, [4], 1.0)
    """

    points: np.ndarray
    triangles: np.ndarray
    domain: Domain | None = None
    natural: Callable[[np.ndarray], np.ndarray] | None = None  # of places [k, 2]

    def __post_init__(self):
        object.__setattr__(self, "points", np.ascontiguousarray(self.points, dtype=np.float64))
        object.__setattr__(self, "triangles", np.ascontiguousarray(self.triangles, dtype=np.int32))
        if self.points.ndim != 2 or self.points.shape[1] != 2 or not np.isfinite(self.points).all():
            raise UserError(f"a mesh's points must be finite numbers [n, 2]; got shape {list(self.points.shape)}")
        t = self.triangles
        if t.ndim != 2 or t.shape[1] != 3 or not len(t) or t.min() < 0 or t.max() >= self.n_nodes:
            raise UserError(
                f"a mesh's triangles must be node numbers [E, 3] from 0 to {self.n_nodes - 1}; "
                f"got shape {list(t.shape)}" + (f", numbers {t.min()} to {t.max()}" if t.size else "")
            )
        if not len(self.interior):
            raise UserError(
                f"the mesh has {self.n_nodes} nodes, none of them interior: ask for more nodes or a smaller max_edge"
            )
        if not self.is_boundary.any():
            raise UserError(
                "the whole boundary is no-flow, so u is known only up to a constant: leave some node out of no_flow"
            )

    def no_flow(self, where: Callable[[np.ndarray], np.ndarray]) -> Mesh:
        """The same mesh with no flux through the boundary where ``where`` (places [k, 2] to truth values) says so.

        That is the weak form's natural condition F·n = 0: its nodes are tested like those inside, and u is free there.
        A node between two edges is without flow if ``where`` holds at it.

        >>> import pdevae
        >>> mesh = pdevae.square(nodes=25)
        >>> open_right = mesh.no_flow(lambda x: (x[:, 0] == 1) & (x[:, 1] > 0) & (x[:, 1] < 1))
        >>> len(mesh.interior), len(open_right.interior)
        (9, 12)
        """
        return replace(self, natural=where)

    @property
    def n_nodes(self) -> int:
        return len(self.points)

    @property
    def n_elements(self) -> int:
        return len(self.triangles)

    @cached_property
    def edges(self) -> np.ndarray:
        """Every edge once, as node pairs i < j; [n_edges, 2]."""
        return self._edges_and_counts[0]

    @cached_property
    def _edges_and_counts(self) -> tuple[np.ndarray, np.ndarray]:
        pairs = np.sort(np.concatenate([self.triangles[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))]), axis=1)
        codes, counts = np.unique(pairs[:, 0].astype(np.int64) * self.n_nodes + pairs[:, 1], return_counts=True)
        return np.stack([codes // self.n_nodes, codes % self.n_nodes], axis=1), counts

    @cached_property
    def boundary_edges(self) -> np.ndarray:
        """The edges that belong to one element only."""
        edges, counts = self._edges_and_counts
        return edges[counts == 1]

    @cached_property
    def is_boundary(self) -> np.ndarray:
        """[n] True at nodes on the boundary, but for those without flow."""
        flags = self.on_edge.copy()
        if self.natural is not None:
            flags[flags] = ~np.asarray(self.natural(self.points[flags]), bool)
        return flags

    @cached_property
    def on_edge(self) -> np.ndarray:
        """[n] True at nodes on the boundary, whatever is known there."""
        flags = np.zeros(self.n_nodes, bool)
        flags[self.boundary_edges] = True
        return flags

    @cached_property
    def interior(self) -> np.ndarray:
        """Node numbers of the N nodes that are tested (H¹₀): all but those where u is held."""
        return np.flatnonzero(~self.is_boundary)

    @cached_property
    def interior_number(self) -> np.ndarray:
        """[n] position of a node among the interior ones, −1 on the boundary."""
        number = np.full(self.n_nodes, -1, np.int64)
        number[self.interior] = np.arange(len(self.interior))
        return number

    @cached_property
    def edge_lengths(self) -> np.ndarray:
        return np.linalg.norm(self.points[self.edges[:, 0]] - self.points[self.edges[:, 1]], axis=1)

    @cached_property
    def max_edge(self) -> float:
        return float(self.edge_lengths.max())

    @cached_property
    def interior_tree(self) -> cKDTree:
        """Finds interior nodes near a place."""
        return cKDTree(self.points[self.interior])

    @cached_property
    def tree(self) -> cKDTree:
        """Finds nodes near a place."""
        return cKDTree(self.points)

    @cached_property
    def boxes(self) -> STRtree:
        """Finds elements whose bounding box holds a place."""
        corners = self.points[self.triangles]
        return STRtree(box(*corners.min(axis=1).T, *corners.max(axis=1).T))

    @cached_property
    def elements_at(self) -> sp.csr_matrix:
        """[n, E] True where the node is a corner of the element."""
        element = np.repeat(np.arange(self.n_elements), 3)
        one = np.ones(len(element), bool)
        return sp.csr_matrix((one, (self.triangles.ravel(), element)), shape=(self.n_nodes, self.n_elements))

    @cached_property
    def skfem(self) -> MeshTri:
        """The same mesh as scikit-fem sees it."""
        return MeshTri(self.points.T.copy(), self.triangles.T.copy())


def rings(mesh: Mesh) -> np.ndarray:
    """[N, V] the neighbours of each tested node in order around it; unused places repeat the first.

    Node j and two consecutive neighbours (the last and the first too) are the elements that meet in j. Around a node on
    an edge the ring is open: it begins behind the gap, and j itself, which makes elements of no area, fills it up.
    """
    i, j = np.concatenate([mesh.edges, mesh.edges[:, ::-1]]).T
    keep = ~mesh.is_boundary[i]
    i, j = mesh.interior_number[i[keep]], j[keep]
    away = mesh.points[j] - mesh.points[mesh.interior[i]]
    angle = np.arctan2(away[:, 1], away[:, 0])
    is_open = mesh.on_edge[mesh.interior]
    angle = np.where(is_open[i], (angle - _behind_gap(mesh)[i]) % (2 * np.pi) - np.pi, angle)
    order = np.argsort(i + angle / 7)  # by node, then by angle: π / 7 < 1/2
    i, j = i[order], j[order]
    indptr = np.searchsorted(i, np.arange(len(mesh.interior) + 1))
    filling = np.where(is_open, mesh.interior, j[indptr[:-1]])
    table = np.repeat(filling[:, None], (np.diff(indptr) + is_open).max(), axis=1)
    table[i, np.arange(len(i)) - indptr[i]] = j
    return table.astype(np.int32)


def _behind_gap(mesh: Mesh) -> np.ndarray:
    """[N] of tested nodes on an edge, the angle at which the elements around them begin, a little before; else 0."""
    t, x = mesh.triangles, mesh.points
    a, b, c = np.moveaxis(x[t], 1, 0)
    turned = np.cross(b - a, c - a) < 0
    t = np.where(turned[:, None], t[:, [0, 2, 1]], t)  # all anticlockwise: the edge of an element comes before it
    along = np.concatenate([t[:, [0, 1]], t[:, [1, 2]], t[:, [2, 0]]])
    code = along.astype(np.int64) @ [mesh.n_nodes, 1]
    outer = along[~np.isin(code, along[:, ::-1].astype(np.int64) @ [mesh.n_nodes, 1])]
    outer = outer[~mesh.is_boundary[outer[:, 0]]]
    away = x[outer[:, 1]] - x[outer[:, 0]]
    begin = np.zeros(len(mesh.interior))
    begin[mesh.interior_number[outer[:, 0]]] = np.arctan2(away[:, 1], away[:, 0]) - 1e-6
    return begin


def random_places(mesh: Mesh, count: int, rng: np.random.Generator) -> np.ndarray:
    """Uniformly over the region; [count, 2]."""
    a, b, c = np.moveaxis(mesh.points[mesh.triangles], 1, 0)
    area = np.abs((b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0]))
    e = rng.choice(len(area), count, p=area / area.sum())
    share = rng.dirichlet([1.0, 1.0, 1.0], count)
    return share[:, :1] * a[e] + share[:, 1:2] * b[e] + share[:, 2:] * c[e]
