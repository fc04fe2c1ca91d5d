"""Constrained variational inference with the surrogate's last layer solved instead of descended.

μ(x, z) = Σ_kj W_kj tanh(w_k·x + b_k) h_j(z): random hidden units in x, polynomials in the whitened z. Where the
equation is linear in u, F_ε (eq:MC_cvi_sub_prob) is quadratic in W for given q, and all it needs of the mesh are inner
products of the rows that the units' residuals have in the penalty. So W and q are fitted in turn, each to its optimum,
while ε falls: a dozen small dense solves, no step sizes. From the prior W is fitted to the equation alone, until q is
about where it belongs: readings that are sharp against the prior would else bend the surrogate for every z.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.linalg
from scipy.optimize import minimize

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.inference.fit import Diverged
from pdevae.inference.forward import Forward
from pdevae.inference.gaussian import Gaussian, cubature
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.inference.units import HiddenUnits, Polynomials, Rows, pairs_of
from pdevae.penalties import Penalty, named
from pdevae.streams import Stream

Moments: TypeAlias = tuple[np.ndarray, np.ndarray]  # m and C of N(m, CCᵀ)

_RIDGE = 1e-10  # of the scaled normal matrix: neighbouring hidden units are nearly the same
_MOST_UNKNOWNS = 6000  # of the last layer: its normal matrix is dense
_NEAR = 0.5  # standard deviations that q moves in a round, from where on readings help to fit the surrogate
_STALE = 0.3  # standard deviations that q moves, from where on rows that cost are computed anew


@dataclass(frozen=True)
class SolvedCVI:
    """``penalty``: a name, or a function from mesh and equation to a penalty with the problem's boundary in it.

    ``eps`` is the annealing, as shares of the load's norm; ``degree`` of the polynomials in z, by default 2 or, where
    that would be too many, 1. ``sampled``: ``n_patches`` of the penalty's patches, drawn once; otherwise all are used.

    >>> SolvedCVI(units=32)(problem).a().mean.round(1).tolist()
    [2.0]
    """

    penalty: str | Callable[[Mesh, Term], Penalty] = "two-level"
    eps: tuple[float, ...] = (0.1, 0.03, 0.01, 0.003)
    units: int = 256
    steepness: float = 3.0
    degree: int | None = None
    spread: float = 1.5
    sampled: bool = True
    n_patches: int = 128
    most_rounds: int = 30
    tolerance: float = 0.01  # posterior standard deviations

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        pairs, d = pairs_of(self, problem.forward), problem.size
        begun = time.perf_counter()
        units = HiddenUnits(problem.mesh, self.units, self.steepness, seed)
        rows = Rows(pairs, units, (seed, int(Stream.PATCHES)) if self.sampled else None)
        h = Polynomials(d, self._degree(d))
        F = Objective(problem, rows, units.at(pairs.penalty, problem.sensors), h, self.spread)
        q = whitened = np.zeros(d), np.eye(d)  # what the polynomials whiten: q, or q of some rounds ago
        rounds, annealed, moved = 0, 0, np.inf
        while rounds < self.most_rounds and (annealed < len(self.eps) or moved > self.tolerance):
            annealed += bool(annealed) or moved < _NEAR
            eps = self.eps[min(annealed, len(self.eps)) - 1] * np.sqrt(F.load) if annealed else 0.0
            if rows.affine is not None or _moved(*whitened, *q) > _STALE:
                whitened = q
            W, before = F.best_surrogate(whitened, eps), q
            q = F.best_gaussian(W, whitened, before)
            rounds, moved = rounds + 1, _moved(*before, *q)
        m, C = q

        def predict(x, z):
            base, of_units = units.at(pairs.penalty, x)
            return base + h(_whiten(z, *whitened)) @ (of_units @ W).T

        return Posterior.normal(
            problem,
            m,
            C @ C.T,
            pairs.setup_seconds + time.perf_counter() - begun,
            seed,
            setup_seconds=pairs.setup_seconds,
            diagnostics={"rounds": rounds},
            surrogate=predict,
        )

    def penalty_for(self, forward: Forward) -> Penalty:
        if callable(self.penalty):
            return self.penalty(forward.weak.mesh, forward.equation)
        options = {} if self.penalty == "exact" else {"n_patches": self.n_patches}
        return named(self.penalty, forward.weak.mesh, forward.equation, boundary=forward.boundary, **options)

    def _degree(self, d: int) -> int:
        for degree in (2, 1) if self.degree is None else (self.degree,):
            if self.units * Polynomials(d, degree).count <= _MOST_UNKNOWNS:
                return degree
        raise UserError(f"{self.units} units are too many for {d} unknowns: use fewer, or CVI")


class Objective:
    """F_ε(W, q), expectations over q by cubature; the penalty is taken ``spread`` times as wide as q."""

    def __init__(self, problem: InverseProblem, rows: Rows, at_sensors, h: Polynomials, spread: float):
        self.rows, self.h, self.spread = rows, h, spread
        self._kept: tuple[Moments, np.ndarray] | None = None
        base, units = at_sensors
        noise = np.broadcast_to(problem.noise, problem.readings.shape)
        self.T, self.y = units / noise[:, None], (problem.readings - base) / noise
        self.normal, self.weight = cubature(problem.size, rows.affine is not None)
        self.load = float(self.weight @ rows.gram(self.normal)[:, 0, 0])

    def best_surrogate(self, whitened: Moments, eps: float) -> np.ndarray:
        """argmin over W; [K, J]. The polynomials are those of C⁻¹(z − m). At ε = 0 the readings have no say."""
        w, h, h_data = self.weight, self.h(self.spread * self.normal), self.h(self.normal)
        K, J = self.T.shape[1], self.h.count
        G = self._gram(whitened)
        H = np.einsum("mkl,ma,mb->kalb", w[:, None, None] * G[:, 1:, 1:], h, h, optimize=True)
        H += eps**2 * np.einsum("kl,ab->kalb", self.T.T @ self.T, (w * h_data.T) @ h_data)
        b = -np.einsum("mk,ma->ka", w[:, None] * G[:, 0, 1:], h)
        b += eps**2 * np.outer(self.T.T @ self.y, w @ h_data)
        return _solve(H.reshape(K * J, K * J), b.ravel()).reshape(K, J)

    def _gram(self, whitened: Moments) -> np.ndarray:
        """Where the penalty is taken; kept as long as q is whitened in one way."""
        if self._kept is None or self._kept[0] is not whitened:
            m, C = whitened
            self._kept = whitened, self.rows.gram(m + self.spread * self.normal @ C.T)
        return self._kept[1]

    def best_gaussian(self, W: np.ndarray, whitened: Moments, start: Moments) -> Moments:
        """argmin over q = N(m', C'C'ᵀ) of E_q[−log p(y | μ)] + KL(q ‖ p), by quasi-Newton with exact gradients."""
        (m, C), (m_start, C_start) = whitened, start
        d, lower = len(m), np.tril_indices(len(m), -1)
        fixed = [tf.constant(value) for value in (self.T @ W, m, np.linalg.inv(C))]
        both = lambda p: tuple(part.numpy() for part in self._elbo(tf.constant(p), *fixed))  # noqa: E731
        first = np.concatenate([m_start, np.log(np.diag(C_start)), C_start[lower]])
        p = minimize(both, first, method="BFGS", jac=True, options={"gtol": 1e-4}).x
        C_new = np.diag(np.exp(p[d : 2 * d]))
        C_new[lower] = p[2 * d :]
        return p[:d], C_new

    @cached_property
    def _elbo(self):
        """A function of q's parameters, the surrogate at the sensors, and the q in whose coordinates that is."""
        normal, weight, y = (tf.constant(value) for value in (self.normal, self.weight, self.y))
        d = self.normal.shape[1]
        below_diagonal = np.stack(np.tril_indices(d, -1), axis=1)

        @graph
        def value_and_slope(p, TW, m, inverse):
            with tf.GradientTape() as tape:
                tape.watch(p)
                q = Gaussian(p[:d], p[d : 2 * d], tf.scatter_nd(below_diagonal, p[2 * d :], [d, d]))
                v = tf.matmul(q.draw(normal) - m, inverse, transpose_b=True)
                misfit = tf.reduce_sum((y - tf.matmul(self.h.of_tensor(v), TW, transpose_b=True)) ** 2, axis=1)
                value = 0.5 * tf.reduce_sum(weight * misfit) + q.kl()
            return value, tape.gradient(value, p)

        return value_and_slope


def _whiten(z: np.ndarray, m: np.ndarray, C: np.ndarray) -> np.ndarray:
    return scipy.linalg.solve_triangular(C, (z - m).T, lower=True).T


def _solve(H: np.ndarray, b: np.ndarray) -> np.ndarray:
    """H⁻¹b, scaled to a unit diagonal; an indefinite H means that F_ε has no minimum."""
    diagonal = np.diag(H)
    if diagonal.min() > 0:
        scale = 1 / np.sqrt(diagonal)
        try:
            factor = scipy.linalg.cho_factor(H * scale[:, None] * scale + _RIDGE * np.eye(len(H)))
            return scipy.linalg.cho_solve(factor, b * scale) * scale
        except scipy.linalg.LinAlgError:
            pass
    raise Diverged(
        'F_ε is unbounded below, since the penalty is negative for some fields: use penalty="two-level" or "exact"'
    )


def _moved(m: np.ndarray, C: np.ndarray, m_new: np.ndarray, C_new: np.ndarray) -> float:
    """How far q went, in its own standard deviations."""
    sd, sd_new = (np.sqrt(np.sum(c**2, axis=1)) for c in (C, C_new))
    return float(max(np.abs((m_new - m) / sd_new).max(), np.abs(sd / sd_new - 1).max()))
