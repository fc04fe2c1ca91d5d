"""Sparse matrices of element tangents, and their factors, for many samples at once.

Host code: the solver calls it from within its graphs.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sparse_linalg

from pdevae.fem.band import Band, BandFactors

_MOST_KEPT = 300_000  # unknowns
# SuperLU frees memory only on the thread that took it, so each thread keeps to its samples
_THREADS = [ThreadPoolExecutor(1) for _ in range(int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1))]


def factorise(A: sp.spmatrix) -> sparse_linalg.SuperLU:
    """Sparse LU with a symmetric fill-reducing order and no pivoting unless it must: right for FEM matrices."""
    return sparse_linalg.splu(
        A.tocsc(), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
    )


class Factors:
    """Of matrices of one pattern: those of the unknowns ``inside`` among ``corners`` [k, E]; ``size`` nodes in all.

    ``number`` maps a node to its unknown; a node that is none has the number of unknowns itself.
    """

    def __init__(self, corners: np.ndarray, inside: np.ndarray, size: int):
        self.corners, self.unknowns = corners, len(inside)
        self.number = np.full(size, self.unknowns)
        self.number[inside] = np.arange(self.unknowns)
        self._kept: list[dict[str, Any]] = [{} for _ in _THREADS]
        for thread, kept in zip(_THREADS, self._kept):
            weakref.finalize(self, thread.submit, kept.clear).atexit = False

    def solve(self, K: np.ndarray, b: np.ndarray, transposed: bool) -> np.ndarray:
        """For each sample, b [M, N] or [M, rows, N]; a thread takes every so many of them."""
        how, x = "T" if transposed else "N", np.full_like(b, np.nan)

        def share(k, kept):
            for m, factors in zip(range(k, len(K), len(_THREADS)), self._factors(K[k :: len(_THREADS)], kept)):
                if factors is not None:
                    x[m] = factors.solve(b[m].T, how).T

        workers = enumerate(zip(_THREADS[: len(K)], self._kept))
        for working in [thread.submit(share, k, kept) for k, (thread, kept) in workers]:
            working.result()
        return x

    def _factors(self, K: np.ndarray, kept: dict[str, Any]) -> Iterable:
        """Of the matrix of each sample; the last ones are kept, for the adjoint comes right after the solve.

        Not those of a large mesh, which take gigabytes each: these come one after the other.
        """
        if self.unknowns > _MOST_KEPT:
            return (self._factored(self.matrix(K_m)) for K_m in K)
        if "K" not in kept or not np.array_equal(K, kept["K"]):
            kept.clear()
            kept["K"], kept["factors"] = K.copy(), [self._factored(self.matrix(K_m)) for K_m in K]
        return kept["factors"]

    def _factored(self, A: sp.csc_matrix) -> sparse_linalg.SuperLU | BandFactors | None:
        """None where the matrix is singular, or no matrix of numbers."""
        if not np.isfinite(A.data).all():
            return None
        try:
            return (self._band and self._band.factors(A)) or factorise(A)
        except RuntimeError:
            return None

    @cached_property
    def _band(self) -> Band | None:
        _, _, indices, indptr = self._pattern
        return Band.of(indices, indptr)

    @cached_property
    def _pattern(self):
        """Where the entries of interior pairs go in the data of a compressed matrix."""
        t, N = self.number[self.corners.T], self.unknowns
        row, column = (np.broadcast_to(i, (*t.shape, t.shape[1])).ravel() for i in (t[:, :, None], t[:, None, :]))
        inside = np.flatnonzero((row < N) & (column < N))
        codes, position = np.unique(column[inside].astype(np.int64) * N + row[inside], return_inverse=True)
        return inside, position, codes % N, np.searchsorted(codes, np.arange(N + 1) * N)

    def matrix(self, K: np.ndarray) -> sp.csc_matrix:
        inside, position, indices, indptr = self._pattern
        data = np.bincount(position, K.ravel()[inside], len(indices))
        return sp.csc_matrix((data, indices, indptr), shape=2 * (len(indptr) - 1,))
