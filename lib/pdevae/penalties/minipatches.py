"""Mini-patches: for each centre its test nodes, the nodes around them, and the active elements.

A patch around node i tests with the interior nodes within ρ of it, nei_Γ(i); its elements are those that touch
a test node (𝕋^active), its nodes all their corners. Tables have static shapes: C centres, at most Q test nodes,
K nodes and E elements, so that a step gathers P rows and runs on dense blocks. Slots 0…Q−1 are test nodes,
slots Q…K−1 the others, slot 0 the centre; unused slots repeat it, and so do unused elements' corners, which
leaves them without area.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import scipy.sparse as sp
from tqdm.auto import tqdm

from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh

_MOST_TESTS = 20_000  # slots are 16-bit numbers, and the nodes around need some
_CHUNK = 65_536  # centres tabulated at a time: bounds the memory of intermediate results


@dataclass(frozen=True, eq=False)
class Patches:
    """Patch tables of ``mesh`` for the centres given (node numbers); :func:`patches` makes them.

    >>> import pdevae
    >>> p = pdevae.patches(pdevae.square(nodes=100), rho=0.12)
    >>> p.nodes.shape == (64, p.K), p.Q, int(p.n_tests.min())  # a node and its four neighbours, fewer at the boundary
    (True, 5, 3)
    """

    mesh: Mesh
    rho: float
    centres: np.ndarray  # [C] node number
    nodes: np.ndarray  # [C, K] node number
    n_tests: np.ndarray  # [C] how many of the first Q slots are in use
    Q: int
    corners: np.ndarray  # [C, 3, E] slot of each corner

    @property
    def K(self) -> int:
        return self.nodes.shape[1]

    @cached_property
    def is_test(self) -> np.ndarray:
        """[C, Q]"""
        return np.arange(self.Q) < self.n_tests[:, None]

    @cached_property
    def test_matrix(self) -> sp.csr_matrix:
        """[C, N] 1 where an interior node is a test node of the patch."""
        columns = self.mesh.interior_number[self.nodes[:, : self.Q][self.is_test]]
        indptr = np.concatenate([[0], np.cumsum(self.n_tests)])
        shape = (len(self.centres), len(self.mesh.interior))
        return sp.csr_matrix((np.ones(len(columns)), columns, indptr), shape=shape)

    @cached_property
    def cover(self) -> np.ndarray:
        """[N] in how many patches each interior node is tested."""
        return np.asarray(self.test_matrix.sum(axis=0)).ravel()

    @cached_property
    def coverage(self) -> float:
        """Mean share of the mesh's elements that a patch activates (supp:fig:rad_vs_cov)."""
        return float((self.corners[:, 0] != self.corners[:, 1]).sum(axis=1).mean() / self.mesh.n_elements)


def patches(
    mesh: Mesh,
    rho: float | None = None,
    patch_nodes: int | None = None,
    centres: np.ndarray | Literal["covering"] | None = None,
) -> Patches:
    """Patches of radius ``rho``, or of the radius that gives ``patch_nodes`` test nodes on average.

    Default centres are all interior nodes; ``"covering"`` takes a few, so that each node is still tested.

    >>> import pdevae
    >>> p = patches(pdevae.star(nodes=500), patch_nodes=16)
    >>> bool(abs(p.n_tests.mean() - 16) < 0.5)
    True
    """
    rho = radius_for(mesh, patch_nodes) if rho is None else float(rho)
    shortest = mesh.edge_lengths.min()
    if rho <= shortest:
        raise UserError(
            f"taper radius rho={rho:g} is not longer than the mesh's shortest edge ({shortest:.3g}): "
            "no patch would reach a neighbour; use a larger rho"
        )
    if centres is None:
        centres = mesh.interior
    elif isinstance(centres, str):
        if centres != "covering":
            raise UserError(f"unknown centres={centres!r}: use covering, node numbers, or leave it out for all nodes")
        centres = covering(mesh, rho)
    centres = np.asarray(centres)
    tree = mesh.interior_tree
    counts = tree.query_ball_point(mesh.points[centres], np.nextafter(rho, 0), return_length=True, workers=-1)
    Q = int(counts.max())
    if Q > _MOST_TESTS:
        raise UserError(f"a patch of radius rho={rho:g} has {Q} test nodes, more than {_MOST_TESTS}: use a smaller rho")
    touches, has_corner = _incidence(mesh)
    parts = [
        _tabulate(mesh, tree, touches, has_corner, centres[i : i + _CHUNK], rho, Q)
        for i in tqdm(range(0, len(centres), _CHUNK), "patch tables", delay=3, leave=False)
    ]
    nodes, n_tests, corners = (_stack_padded(part) for part in zip(*parts))
    nodes = np.where(nodes < 0, centres[:, None], nodes)
    return Patches(mesh, rho, centres, nodes, n_tests, Q, corners)


def covering(mesh: Mesh, rho: float) -> np.ndarray:
    """Interior nodes such that each other one is nearer than ``rho`` to one of them.

    One node from each square with diagonal ``rho``, the nearest to its middle.

    >>> import pdevae
    >>> mesh = pdevae.star(nodes=1000)
    >>> some = patches(mesh, patch_nodes=32, centres="covering")
    >>> len(some.centres) < len(mesh.interior) / 4, bool((some.cover > 0).all())
    (True, True)
    """
    x = mesh.points[mesh.interior] / (rho / np.sqrt(2) * (1 - 1e-9))
    square = np.floor(x)
    off_middle = np.linalg.norm(x - square - 0.5, axis=1)
    order = np.lexsort([off_middle, *square.T])
    first = np.any(np.diff(square[order], axis=0, prepend=np.inf) != 0, axis=1)
    return mesh.interior[np.sort(order[first])]


def merge(parts: list[Patches]) -> Patches:
    """The patches of several meshes as those of one mesh, their disjoint union; patch order is kept."""
    points, triangles = _union([part.mesh for part in parts])
    first = np.cumsum([0] + [part.mesh.n_nodes for part in parts])
    Q = max(part.Q for part in parts)
    K = Q + max(part.K - part.Q for part in parts)
    E = max(part.corners.shape[-1] for part in parts)
    nodes, corners = [], []
    for part, start in zip(parts, first):
        tests, others = np.split(part.nodes + np.int32(start), [part.Q], axis=1)
        fill = [np.repeat(tests[:, :1], width, axis=1) for width in (Q - part.Q, K - Q - (part.K - part.Q))]
        nodes.append(np.concatenate([tests, fill[0], others, fill[1]], axis=1))
        slots = np.where(part.corners < part.Q, part.corners, part.corners + np.int16(Q - part.Q))
        corners.append(np.pad(slots, [(0, 0), (0, 0), (0, E - slots.shape[-1])]))
    return Patches(
        mesh=Mesh(points, triangles, parts[0].mesh.domain, parts[0].mesh.natural),
        rho=max(part.rho for part in parts),
        centres=np.concatenate([part.centres + start for part, start in zip(parts, first)]),
        nodes=np.concatenate(nodes),
        n_tests=np.concatenate([part.n_tests for part in parts]),
        Q=Q,
        corners=np.concatenate(corners),
    )


def _union(meshes: list[Mesh]) -> tuple[np.ndarray, np.ndarray]:
    first = np.cumsum([0] + [mesh.n_nodes for mesh in meshes])
    triangles = [mesh.triangles + start for mesh, start in zip(meshes, first)]
    return np.concatenate([mesh.points for mesh in meshes]), np.concatenate(triangles)


def radius_for(mesh: Mesh, patch_nodes: int | None) -> float:
    """The ρ at which a patch tests with ``patch_nodes`` interior nodes on average."""
    N = len(mesh.interior)
    if patch_nodes is None:
        raise UserError("set the size of a patch: rho=… or patch_nodes=…")
    if not 1 < patch_nodes <= N:
        raise UserError(f"patch_nodes={patch_nodes} does not fit a mesh with {N} interior nodes: use 2 to {N}")
    tree = mesh.interior_tree
    some = tree.data[np.random.default_rng(0).permutation(N)[:2000]]
    enough = tree.query(some, k=[int(np.ceil(patch_nodes))], workers=-1)[0].max()  # all have as many so near
    low, high = 0.0, float(np.linalg.norm(np.ptp(mesh.points, axis=0))) * (1 + 1e-9)
    for _ in range(40):
        rho = (low + high) / 2
        if rho < enough and tree.query_ball_point(some, rho, return_length=True, workers=-1).mean() < patch_nodes:
            low = rho
        else:
            high = rho
    return high


def _incidence(mesh: Mesh) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Interior node × element, and element × node: 1 where the node is a corner of the element."""
    E = mesh.n_elements
    element = np.repeat(np.arange(E), 3)
    ones = np.ones(3 * E, np.int16)
    has_corner = sp.csr_matrix((ones, (element, mesh.triangles.ravel())), shape=(E, mesh.n_nodes))
    return has_corner.T.tocsr()[mesh.interior], has_corner


def _tabulate(mesh, tree, touches, has_corner, centres, rho, Q):
    """Rows of the three tables for some centres: sparse products give the sets, look-ups in their rows the slots."""
    C, n = len(centres), mesh.n_nodes
    _, near = tree.query(mesh.points[centres], k=Q, distance_upper_bound=rho, workers=-1)
    near = near.reshape(C, Q)
    found = near < tree.n
    tests = sp.csr_matrix((np.ones(found.sum(), np.int16), near[found], _indptr(found)), shape=(C, tree.n))
    active = tests @ touches
    active.sort_indices()
    slots = active @ has_corner
    slots.sort_indices()

    rank = (1 + _rank(tests.indptr)).astype(np.int16)
    test_rank = sp.csr_matrix((rank, mesh.interior[tests.indices], tests.indptr), shape=(C, n))
    test_rank.sort_indices()
    patch = np.repeat(np.arange(C), np.diff(slots.indptr))
    slots.data = _entries(test_rank, patch, slots.indices) - 1
    is_other = slots.data < 0
    others = np.concatenate([[0], np.cumsum(is_other)])[slots.indptr]
    slots.data[is_other] = Q + _rank(others)
    nodes = np.full((C, Q + int(np.diff(others).max())), -1, np.int32)
    nodes[patch, slots.data] = slots.indices

    element_patch = np.repeat(np.arange(C), np.diff(active.indptr))
    corners = np.full((C, 3, int(np.diff(active.indptr).max())), 0, np.int16)
    for k in range(3):
        corner = mesh.triangles[active.indices, k]
        corners[element_patch, k, _rank(active.indptr)] = _entries(slots, element_patch, corner)
    return nodes, np.diff(tests.indptr).astype(np.int32), corners


def _entries(table: sp.csr_matrix, row: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Entries of a sparse matrix, 0 where there is none: a binary search within each row."""
    return np.asarray(table[row, column]).ravel()


def _indptr(found: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(found.sum(axis=1))])


def _rank(indptr: np.ndarray) -> np.ndarray:
    """0, 1, 2, … within each row of a compressed matrix."""
    return np.arange(indptr[-1]) - np.repeat(indptr[:-1], np.diff(indptr))


def _stack_padded(parts) -> np.ndarray:
    """Chunks stacked; a chunk with a shorter last axis is filled up with its 'unused' value."""
    if parts[0].ndim == 1:
        return np.concatenate(parts)
    longest = max(part.shape[-1] for part in parts)
    fill = 0 if parts[0].dtype == np.int16 else -1  # slots: the centre's; nodes: none
    widths = [[(0, 0)] * (part.ndim - 1) + [(0, longest - part.shape[-1])] for part in parts]
    return np.concatenate([np.pad(p, w, constant_values=fill) for p, w in zip(parts, widths)])
