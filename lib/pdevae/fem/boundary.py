"""Known boundary values met by construction: u = g + w·μ with w = 0 on the boundary, smooth and positive inside.

w solves −Δw = 1, scaled to a maximum of 1, and g solves −Δg = 0 with the given values; ∂w/∂n = ∂g/∂n = 0 where none
is known. So u meets the values whatever μ is, and μ has no corner's singularity to learn: w has it. Overwriting u at
the boundary nodes instead leaves a kink one element wide, a residual of order 1/h that goes only as μ itself learns to
vanish there.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
import skfem
from scipy.sparse.linalg import cg
from scipy.spatial import cKDTree
from skfem.models.poisson import laplace, unit_load

from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh
from pdevae.fem.transfer import coarser, interpolation

Boundary: TypeAlias = float | np.ndarray | Callable | tuple[np.ndarray, np.ndarray] | None

_SOLVED = 20_000  # nodes; a larger mesh starts from the g and w of a mesh of this size
_SMOOTHING = 60  # steps of conjugate gradients from there


def of_latents(boundary: Boundary) -> bool:
    """Is it a function of place and latents?"""
    return callable(boundary) and len(inspect.signature(boundary).parameters) == 2


def boundary_values(mesh: Mesh, boundary: Boundary) -> np.ndarray | None:
    """[n] the known values at boundary nodes, NaN elsewhere; None if there are none."""
    if boundary is None:
        return None
    if isinstance(boundary, tuple):
        g, w = boundary
        return np.where(mesh.is_boundary & (np.asarray(w) == 0), g, np.nan)
    given = boundary(mesh.points) if callable(boundary) else boundary
    try:
        known = np.where(mesh.is_boundary, np.broadcast_to(np.asarray(given, float), mesh.n_nodes), np.nan)
    except ValueError:
        raise UserError(
            f"boundary has shape {list(np.shape(given))}: give a number, an array of {mesh.n_nodes} values (NaN where "
            "unknown), or a function of x [n, 2]"
        ) from None
    if np.isnan(known[mesh.is_boundary]).all():
        raise UserError("boundary is NaN at every boundary node: give boundary=None if no value is known")
    return known


def lift(mesh: Mesh, boundary: Boundary) -> tuple[np.ndarray, np.ndarray] | None:
    """g and w [n], exact at the boundary nodes; None where nothing is known. A pair (g, w) of one's own is kept.

    >>> import pdevae
    >>> mesh = pdevae.disc(nodes=2000)
    >>> g, w = lift(mesh, lambda x: x[:, 0])
    >>> bool(abs(g - mesh.points[:, 0]).max() < 1e-12)  # x is harmonic
    True
    >>> bool(abs(w - (1 - (mesh.points**2).sum(axis=1))).max() < 5e-3), float(abs(w[mesh.is_boundary]).max())
    (True, 0.0)
    """
    if isinstance(boundary, tuple):
        g, w = (np.broadcast_to(np.asarray(part, float), mesh.n_nodes) for part in boundary)
        return g, w
    known = boundary_values(mesh, boundary)
    if known is None:
        return None
    g, w = _unscaled(mesh, known)
    return g, w / w.max()


def _unscaled(mesh: Mesh, known: np.ndarray, direct: bool = False) -> tuple[np.ndarray, np.ndarray]:
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1())
    A, one, held = laplace.assemble(basis), unit_load.assemble(basis), np.flatnonzero(~np.isnan(known))
    start_g, start_w = (None, None) if direct or mesh.n_nodes <= _SOLVED else _start(mesh, known)
    w = _solved(A, one, held, np.zeros(len(held)), start_w)
    if np.ptp(known[held]) == 0:
        return np.full(mesh.n_nodes, known[held[0]]), w
    return _solved(A, 0 * one, held, known[held], start_g), w


def _start(mesh: Mesh, known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """g and w of a coarser mesh read at the nodes of a large one."""
    rough = coarser(mesh, nodes=_SOLVED)
    edge = np.flatnonzero(mesh.is_boundary)
    nearest = edge[cKDTree(mesh.points[edge]).query(rough.points)[1]]
    read = interpolation(rough, mesh.points)
    g, w = _unscaled(rough, np.where(rough.is_boundary, known[nearest], np.nan), True)
    return read @ g, read @ w


def _solved(A: sp.csr_matrix, b: np.ndarray, held: np.ndarray, values: np.ndarray, start: np.ndarray | None):
    """Au = b off the nodes ``held``; with a start, to where no kink of the coarser mesh is left."""
    u = np.zeros(len(b))
    u[held] = values
    A, b, _, free = skfem.condense(A, b, x=u, D=held)
    u[free] = skfem.solve(A, b) if start is None else cg(A, b, start[free], maxiter=_SMOOTHING, rtol=1e-10)[0]
    return u
