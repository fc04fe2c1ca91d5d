"""The exact posterior of up to three unknowns: a grid around Laplace's q, as wide as it must be."""

from __future__ import annotations

import time

import numpy as np

from .._tensorflow import tf
from ..errors import UserError
from .laplace import Laplace
from .posterior import Posterior
from .problem import InverseProblem

_POINTS = {1: 201, 2: 41, 3: 17}  # along each axis
_EDGE = 1e-4  # largest share of the mass allowed on the edge of the grid
_AT_A_TIME = 50


def exact(problem: InverseProblem, seed: int = 0, draws: int = 1000) -> Posterior:
    """Quadrature over z in Laplace's coordinates; d ≤ 3."""
    d = problem.size
    if d not in _POINTS:
        raise UserError(
            f"quadrature over {d} unknowns would need {20.0**d:.0g} solves: use NUTS, or at most 3 unknowns"
        )
    begun = time.perf_counter()
    m, H = Laplace().mode(problem)
    C = np.linalg.inv(np.linalg.cholesky(H)).T
    for width in (5.0, 8.0, 12.0, 20.0):
        axis = np.linspace(-width, width, _POINTS[d])
        v = np.stack(np.meshgrid(*d * [axis], indexing="ij"), axis=-1).reshape(-1, d)
        z = m + v @ C.T
        parts = [z[k : k + _AT_A_TIME] for k in range(0, len(z), _AT_A_TIME)]
        log_p = np.concatenate([problem.log_joint(tf.constant(part)).numpy() for part in parts])
        p = np.exp(log_p - log_p.max())
        p /= p.sum()
        if p[np.abs(v).max(axis=1) == width].sum() < _EDGE:
            break
    mean = p @ z
    S = (z - mean).T @ ((z - mean) * p[:, None])
    rng = np.random.default_rng([seed, 12])
    some = z[rng.choice(len(z), draws, p=p)]
    some = some + rng.uniform(-0.5, 0.5, size=some.shape) * (axis[1] - axis[0]) @ C.T  # within a cell
    said = {"r_hat": 1.0, "ess": float(draws), "width": width}
    return Posterior(problem, mean, S, some, time.perf_counter() - begun, diagnostics=said, gaussian=False)
