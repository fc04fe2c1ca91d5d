"""The exact posterior of up to three unknowns: a grid in Laplace's coordinates where it counts, refined to a stand."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.inference.laplace import Laplace
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.streams import Stream, random

_MOST = 3  # unknowns
_FINEST, _REFINEMENTS = 1 / 8, 4  # spacing in Laplace's standard deviations, and how often the first one is halved
_CUT = 12.0  # a place counts if log p is within this of the largest: beyond, 1e-4 of a Gaussian in three dimensions
_MOST_FAR = 0.03  # of a variance, from places that only just count: more would come from beyond
_MOST_SOLVES = 30_000
_AT_A_TIME = 32
_TOO_FAR = "the posterior is too far from Gaussian for a grid: use NUTS, more sensors or less noise"


def exact(problem: InverseProblem, seed: int = 0, draws: int = 1000, tolerance: float = 5e-3) -> Posterior:
    """Quadrature over z, d ≤ 3, until halving the spacing moves mean and sd by at most ``tolerance`` sd.

    The error that is left is far smaller: that of a sum over a grid falls faster than any power of the spacing.

    >>> exact(problem).a().mean.round(1).tolist()
    [2.0]
    """
    d = problem.size
    if d > _MOST:
        raise UserError(
            f"quadrature over {d} unknowns would need {20.0**d:.0g} solves: use NUTS; quadrature takes at most "
            f"{_MOST} unknowns"
        )
    begun = time.perf_counter()
    m, H = Laplace().mode(problem)
    C = np.linalg.inv(np.linalg.cholesky(H)).T
    log_joint = lambda v: problem.log_joint(tf.constant(m + v @ C.T)).numpy()  # noqa: E731
    known, before = {d * (0,): float(log_joint(np.zeros((_AT_A_TIME, d)))[0])}, None
    for halvings in range(_REFINEMENTS):
        step = 2 ** (_REFINEMENTS - 1 - halvings)
        _spread(known, step, log_joint)
        v, spacing = _FINEST * np.array(list(known)), _FINEST * step
        p = np.exp(np.array(list(known.values())) - max(known.values()))
        p /= p.sum()
        mean = p @ v
        S = (v - mean).T @ ((v - mean) * p[:, None])
        if before is not None and _change(before, (mean, S)) < tolerance:
            break
        before = mean, S
    else:
        raise UserError(_TOO_FAR)
    far = p < np.exp(2 - _CUT) * p.max()
    if (p[far] @ (v[far] - mean) ** 2 > _MOST_FAR * np.diag(S)).any():
        raise UserError(_TOO_FAR)
    rng = random(Stream.QUADRATURE, seed)
    some = v[rng.choice(len(v), draws, p=p)] + rng.uniform(-0.5, 0.5, size=(draws, d)) * spacing  # within a cell
    cell = float(spacing**d * abs(np.linalg.det(C)))  # of the grid
    said = {"r_hat": 1.0, "ess": float(draws), "solves": len(known), "cell": cell}
    seconds = time.perf_counter() - begun
    return Posterior(
        problem,
        m + C @ mean,
        C @ S @ C.T,
        m + some @ C.T,
        seconds,
        diagnostics=said,
        gaussian=False,
        grid=(m + v @ C.T, p),
    )


def _spread(known: dict[tuple[int, ...], float], step: int, log_joint: Callable[[np.ndarray], np.ndarray]) -> None:
    """From the places that count to their neighbours a step away, as long as there are new ones that count."""
    (d,) = {len(place) for place in known}
    steps = [tuple(sign * step * e) for e in np.eye(d, dtype=int) for sign in (1, -1)]
    front = list(known)
    while front:
        least = max(known.values()) - _CUT
        around = {tuple(map(sum, zip(place, one))) for place in front if known[place] > least for one in steps}
        front = sorted(around - known.keys())
        if len(known) + len(front) > _MOST_SOLVES:
            raise UserError(_TOO_FAR)
        for k in range(0, len(front), _AT_A_TIME):
            some = np.array(front[k : k + _AT_A_TIME])
            padded = np.concatenate([some, np.zeros((_AT_A_TIME - len(some), d))])  # one shape, compiled once
            known.update(zip(front[k:], log_joint(_FINEST * padded)[: len(some)].tolist()))


def _change(one: tuple, other: tuple) -> float:
    sd, sd_other = (np.sqrt(np.diag(S)) for _, S in (one, other))
    return float(max((np.abs(one[0] - other[0]) / sd_other).max(), np.abs(sd / sd_other - 1).max()))
