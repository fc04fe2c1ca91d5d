"""Coarse spaces: hats of a coarser mesh, interpolated at the nodes of the fine one. Meshes need not be nested."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from matplotlib.tri import Triangulation

from .domains import region_of
from .mesh import Mesh


def interpolation(mesh: Mesh, x: np.ndarray) -> sp.csr_matrix:
    """[k, n] the values at places x [k, 2] from those at the nodes; a place outside the mesh has a row of zeros."""
    finder = Triangulation(*mesh.points.T, mesh.triangles).get_trifinder()
    element = np.asarray(finder(*x.T))
    inside = np.flatnonzero(element >= 0)
    nodes = mesh.triangles[element[inside]]
    weights = _barycentric(mesh.points[nodes], x[inside])
    rows = np.broadcast_to(inside[:, None], nodes.shape)
    keep = weights > 1e-12
    return sp.csr_matrix((weights[keep], (rows[keep], nodes[keep])), shape=(len(x), mesh.n_nodes))


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
    return np.clip(np.stack([1 - l_b - l_c, l_b, l_c], axis=1), 0.0, 1.0)


def coarser(mesh: Mesh, nodes: int | None = None, max_edge: float | None = None) -> Mesh:
    """The same region meshed at a larger size, for a coarse space."""
    return (mesh.domain or region_of(mesh)).mesh(nodes=nodes, max_edge=max_edge, coarse=True)


_SMALLEST = 30  # nodes below which a mesh may have none inside


def coarser_meshes(mesh: Mesh, factor: float, coarsest: int) -> list[Mesh]:
    """Meshes of the same region, each ``factor`` times as wide as the one before, down to ``coarsest`` nodes inside.

    At least one; the last is the first that is small enough, or as small as a mesh can be.
    """
    meshes, nodes = [], mesh.n_nodes
    while not meshes or (len(meshes[-1].interior) > coarsest and nodes > _SMALLEST):
        nodes = max(round(nodes / factor**2), _SMALLEST)
        meshes.append(coarser(mesh, nodes=nodes))
    return meshes
