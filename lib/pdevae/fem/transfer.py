"""Coarse spaces: hats of a coarser mesh, interpolated at the nodes of the fine one. Meshes need not be nested."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from shapely import points

from pdevae.errors import UserError
from pdevae.fem.domains import Curve, region_of
from pdevae.fem.mesh import Mesh

_FEW = 2000  # places
_ROUNDING = 1e-12  # of barycentric coordinates


def interpolation(mesh: Mesh, x: np.ndarray) -> sp.csr_matrix:
    """[k, n] the values at places x [k, 2] from those at the nodes; a place outside the mesh has a row of zeros."""
    in_a_box = lambda x: mesh.boxes.query(points(x))  # noqa: E731
    found = tuple(np.empty(shape, kind) for shape, kind in ((0, int), (0, int), ((0, 3), float)))
    missing = np.arange(len(x))
    for pairs in (lambda x: _near(mesh, x, 3), lambda x: _near(mesh, x, 12), in_a_box)[0 if len(x) <= _FEW else 2 :]:
        place, element, weights = _deepest(mesh, x[missing], *pairs(x[missing]))
        found = tuple(np.concatenate(both) for both in zip(found, (missing[place], element, weights)))
        missing = np.delete(missing, place)
        if not len(missing):
            break
    place, element, weights = found
    nodes = mesh.triangles[element]
    rows = np.broadcast_to(place[:, None], nodes.shape)
    keep = weights > _ROUNDING
    return sp.csr_matrix((weights[keep], (rows[keep], nodes[keep])), shape=(len(x), mesh.n_nodes))


def _deepest(mesh: Mesh, x: np.ndarray, place: np.ndarray, element: np.ndarray):
    """Of pairs of a place and an element, for each place that lies in one: the one it lies deepest in, and weights."""
    weights = _barycentric(mesh.points[mesh.triangles[element]], x[place])
    depth = weights.min(axis=1)
    best = np.lexsort([-depth, place])  # by place, the element it lies deepest in first
    best = best[np.unique(place[best], return_index=True)[1]]
    best = best[depth[best] >= -_ROUNDING]
    return place[best], element[best], np.clip(weights[best], 0.0, 1.0)


def _near(mesh: Mesh, x: np.ndarray, among: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a place and an element at one of its nearest nodes: for a few places, in a large mesh too."""
    nodes = mesh.tree.query(x, k=np.arange(1, min(among, mesh.n_nodes) + 1))[1]
    elements = mesh.elements_at[nodes.ravel()]
    return np.repeat(np.repeat(np.arange(len(x)), nodes.shape[1]), np.diff(elements.indptr)), elements.indices


def read_at(mesh: Mesh, x: np.ndarray) -> sp.csr_matrix:
    """[k, n] reads nodal values at places x [k, 2]; places outside the region are refused.

    A curved outline is cut by the mesh's edges: a place between the two is read at the nearest point of the edge.

    >>> import pdevae
    >>> mesh = pdevae.square(nodes=9)
    >>> (read_at(mesh, [[0.25, 0.5], [0.9, 0.2]]) @ mesh.points).tolist()  # x itself is linear: read exactly
    [[0.25, 0.5], [0.9, 0.2]]
    """
    x = _places(x)
    read = interpolation(mesh, x)
    outside = np.flatnonzero(np.diff(read.indptr) == 0)
    if not len(outside):
        return read
    nodes, weights, distance = _nearest_on_boundary(mesh, x[outside])
    slack = 0.25 * mesh.max_edge if isinstance(mesh.domain, Curve) else 1e-9 * np.ptp(mesh.points)
    far = outside[distance > slack]
    if len(far):
        raise UserError(
            f"{len(far)} of {len(x)} places lie outside the domain, the first (number {far[0]}) at ({x[far[0], 0]:g}, "
            f"{x[far[0], 1]:g}): remove them, or check their order (x, y), projection and unit of length"
        )
    rows = np.repeat(outside, 2)
    return read + sp.csr_matrix((weights.ravel(), (rows, nodes.ravel())), shape=read.shape)


def _places(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x, float)
    if x.ndim != 2 or x.shape[1] != 2 or not np.isfinite(x).all():
        raise UserError(f"places must be finite numbers [k, 2], a row (x, y) each; got shape {list(x.shape)}")
    return x


def _nearest_on_boundary(mesh: Mesh, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each place the nearest boundary edge [k, 2], the weights of its ends [k, 2], and the distance [k]."""
    a, b = (mesh.points[mesh.boundary_edges[:, end]] for end in (0, 1))
    along = b - a
    t = np.clip(np.einsum("ked,ed->ke", x[:, None] - a, along) / np.sum(along**2, axis=1), 0.0, 1.0)
    distance = np.linalg.norm(a + t[..., None] * along - x[:, None], axis=-1)
    nearest = distance.argmin(axis=1)
    share = t[np.arange(len(x)), nearest]
    return mesh.boundary_edges[nearest], np.stack([1 - share, share], axis=1), distance.min(axis=1)


def prolongation(coarse: Mesh, fine: Mesh) -> sp.csc_matrix:
    """Π [N, N_c]: the coarse interior hats at the fine interior nodes.

    A fine node outside the coarse mesh (they may cut a curved outline differently) gets no coarse value.
    """
    return interpolation(coarse, fine.points[fine.interior])[:, coarse.interior].tocsc()


def _barycentric(corners: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Barycentric coordinates [n, 3] of x in the triangles with these corners [n, 3, 2]."""
    a, b, c = (corners[:, k] for k in range(3))
    (bx, by), (cx, cy), (px, py) = (b - a).T, (c - a).T, (x - a).T
    det = bx * cy - by * cx
    l_b, l_c = (px * cy - py * cx) / det, (bx * py - by * px) / det
    return np.stack([1 - l_b - l_c, l_b, l_c], axis=1)


def coarser(mesh: Mesh, nodes: int | None = None, max_edge: float | None = None) -> Mesh:
    """The same region meshed at a larger size, for a coarse space."""
    made = (mesh.domain or region_of(mesh)).mesh(nodes=nodes, max_edge=max_edge, coarse=True)
    return made if mesh.natural is None else made.no_flow(mesh.natural)


_SMALLEST = 30  # nodes below which a mesh may have none inside


def coarser_meshes(mesh: Mesh, factor: float, coarsest: int) -> list[Mesh]:
    """Meshes of the same region, each ``factor`` times as wide as the one before, down to ``coarsest`` nodes inside.

    At least one; the last is the first that is small enough, or as small as a mesh can be.
    """
    meshes: list[Mesh] = []
    nodes = mesh.n_nodes
    while not meshes or (len(meshes[-1].interior) > coarsest and nodes > _SMALLEST):
        nodes = max(round(nodes / factor**2), _SMALLEST)
        meshes.append(coarser(mesh, nodes=nodes))
    return meshes
