"""Random hidden units and polynomials: the surrogate that solved CVI fits, and its rows in a penalty.

Rows of a penalty are linear in the last layer, so inner products of the units' rows are all that is needed of the mesh.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cached_property, lru_cache, partial
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import numpy as np
from tqdm.auto import tqdm

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh
from pdevae.inference.forward import Forward
from pdevae.penalties import Penalty
from pdevae.penalties.base import WholeResidual
from pdevae.streams import Stream, random

if TYPE_CHECKING:
    from pdevae.inference.solved import SolvedCVI

_AT_A_TIME = 64  # units whose rows are computed together


class HiddenUnits:
    """x ↦ tanh(w_k·(x − c_k)), w_k ~ N(0, s²I) with s = ``steepness`` over half the region's width, c_k at nodes."""

    def __init__(self, mesh: Mesh, K: int, steepness: float, seed: int):
        rng = random(Stream.HIDDEN_UNITS, seed)
        self.K = K
        self.w = rng.normal(size=(2, K)) * steepness / (np.ptp(mesh.points, axis=0).max() / 2)
        c = mesh.points[rng.integers(mesh.n_nodes, size=K)]
        self.b = np.einsum("kd,dk->k", c, self.w)

    def some(self, start: int, stop: int):
        """A field μ(x, z) that has unit k at sample k, from ``start``; the first of all is the field 0."""
        w, b = np.pad(self.w, [(0, 0), (1, 0)])[:, start:stop], np.pad(self.b, (1, 0))[start:stop]
        return units_field(tf.constant(w), tf.constant(b))

    def at(self, penalty: Penalty, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The boundary's values continued to places x [n], and the units there [n, K], as the penalty sees them."""
        u = penalty.field_at(x)(self.some(0, self.K + 1), None).numpy()
        return u[0], (u[1:] - u[0]).T


def units_field(w: tf.Tensor, b: tf.Tensor):
    """μ(x, z) with tanh(w_k·x − b_k) at sample k."""
    return lambda x, z: tf.tanh(tf.matmul(tf.cast(w, x.dtype), x, True, True) - tf.cast(b, x.dtype)[:, None])


@lru_cache(maxsize=2)
def pairs_of(method: SolvedCVI, forward: Forward) -> Pairs:
    """Kept for the next readings: the penalty's tables and the compiled function are the same."""
    return Pairs(method.penalty_for, forward)


class Pairs:
    """A penalty's pair of rows for some hidden units at one z: compiled once, for any units and patches.

    Where the penalty takes the residual of the whole mesh, that is a product with the sparse matrix of the equation,
    which is linear: far cheaper than element by element.
    """

    def __init__(self, penalty_for: Callable[[Forward], Penalty], forward: Forward):
        begun = time.perf_counter()
        self.penalty, self.latents = penalty_for(forward), forward.latents
        self._of_fields = graph(self._pair)
        self._of_values = graph(lambda w, b: self.penalty.weak.values(units_field(w, b), None))
        if isinstance(self.penalty, WholeResidual):
            self._of_residuals = graph(self.penalty.rows_of)
        if self.penalty.weak.edge:
            raise UserError(
                "SolvedCVI needs boundary= as a number, an array or a function of x; use CVI where it depends on "
                "latents"
            )
        self._refuse_nonlinear()
        self.setup_seconds = time.perf_counter() - begun

    def at(self, z: np.ndarray) -> Callable[..., tuple[tf.Tensor, tf.Tensor]]:
        """From w and b of some units, and a seed, to their rows."""
        if not isinstance(self.penalty, WholeResidual):
            return partial(self._of_fields, tf.constant(z))
        dtype = self.penalty.weak.dtype
        L, f = self.penalty.weak.system(self.latents.seen(tf.constant(z[None], dtype)))

        def rows(w, b, seed):
            r = (L @ self._of_values(w, b).numpy().T).T - f
            return 2 * (self._of_residuals(tf.constant(r, dtype), seed),)

        return rows

    def _pair(self, z: tf.Tensor, w: tf.Tensor, b: tf.Tensor, seed) -> tuple[tf.Tensor, tf.Tensor]:
        seen = self.latents.seen(tf.repeat(tf.cast(z, self.penalty.weak.dtype)[None], _AT_A_TIME, axis=0))
        return self.penalty.pair(units_field(w, b), seen, seed)

    def _refuse_nonlinear(self) -> None:
        """By the rows of the fields 0, t, t' and t + t'."""
        two = HiddenUnits(self.penalty.weak.mesh, 2, 3.0, 0).some(1, 3)
        zero = tf.zeros([4, self.latents.size], self.penalty.weak.dtype)

        def fields(x, z):
            t = two(x, z)
            return tf.concat([0 * t[:1], t, tf.reduce_sum(t, axis=0, keepdims=True)], axis=0)

        rows = graph(lambda: self.penalty.pair(fields, self.latents.seen(zero), (0, int(Stream.PATCHES)))[0])
        none, one, other, both = rows().numpy()
        if not np.allclose(both, one + other - none, atol=1e-4 * np.abs(both).max()):
            raise UserError("SolvedCVI needs an equation that is linear in u: use CVI")


class Rows:
    """Inner products of the units' rows for any z: [K + 1, K + 1], the first for what the boundary and f leave."""

    def __init__(self, pairs: Pairs, units: HiddenUnits, seed: tuple[int, int] | None):
        self.pairs, self.units, self.seed = pairs, units, None if seed is None else tf.constant(seed)

    def gram(self, z: np.ndarray) -> np.ndarray:
        """For each z [M, d]; [M, K + 1, K + 1]."""
        if self.affine is None:
            return np.stack([_symmetric(*self._rows(one)) for one in tqdm(z, "rows", delay=3, leave=False)])
        one_and_z = np.column_stack([np.ones(len(z)), z])
        return np.einsum("mi,mj,ikjl->mkl", one_and_z, one_and_z, self.affine, optimize=True)

    @cached_property
    def affine(self) -> np.ndarray | None:
        """Where rows are affine in z, the inner products of their d + 1 parts serve every z."""
        d = self.pairs.latents.size
        if d > 10:
            return None
        at_zero = self._rows(np.zeros(d))
        slopes = [[part - zero for part, zero in zip(self._rows(e), at_zero)] for e in np.eye(d)]
        parts = [np.stack(part) for part in zip(at_zero, *slopes)]  # a and b: [1 + d, K + 1, R]
        trial = np.random.default_rng(0).normal(size=d)
        for part, found in zip(parts, self._rows(trial, most=_AT_A_TIME)):
            expected = np.tensordot(np.r_[1.0, trial], part[:, : len(found)], 1)
            if not np.allclose(expected, found, atol=1e-8 * np.abs(found).max()):
                return None
        G = np.einsum("ikr,jlr->ikjl", *parts, optimize=True)
        return (G + G.transpose(2, 3, 0, 1)) / 2

    def _rows(self, z: np.ndarray, most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """a and b [K + 1, R] of the penalty's pair: of the field 0, and of each unit less that; the first ``most``."""
        count = min(self.units.K + 1, most or self.units.K + 1)
        padding = (1, -count % _AT_A_TIME)  # the field 0 first, and chunks of one size
        w, b = np.pad(self.units.w, [(0, 0), padding]), np.pad(self.units.b, padding)
        chunks = [slice(k, k + _AT_A_TIME) for k in range(0, count, _AT_A_TIME)]
        at_z = self.pairs.at(z)
        pairs = [at_z(tf.constant(w[:, some]), tf.constant(b[some]), self.seed) for some in chunks]
        rows = [np.concatenate([part.numpy() for part in parts])[:count].astype(float) for parts in zip(*pairs)]
        for part in rows:
            part[1:] -= part[0]
        return rows[0], rows[1]


class Polynomials:
    """All products of up to ``degree`` of the d coordinates of v; [n, count]."""

    def __init__(self, d: int, degree: int):
        self.powers = [p for k in range(degree + 1) for p in combinations_with_replacement(range(d), k)]
        self.count = len(self.powers)

    def __call__(self, v: np.ndarray) -> np.ndarray:
        return self.of_tensor(tf.constant(v)).numpy()

    def of_tensor(self, v: tf.Tensor) -> tf.Tensor:
        columns = [tf.ones_like(v[:, 0]), *tf.unstack(v, axis=1)]  # products of two at a time, the shorter ones first
        for power in self.powers[len(columns) :]:
            columns.append(columns[self.powers.index(power[:-1])] * columns[1 + power[-1]])
        return tf.stack(columns[: self.count], axis=1)


def _symmetric(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    G = a @ b.T
    return (G + G.T) / 2
