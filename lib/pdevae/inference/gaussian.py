"""q(τ) = N(m, CCᵀ): what all variational methods share."""

from __future__ import annotations

import numpy as np

from .problem import Posterior


def gaussian_posterior(m, C, seconds, setup_seconds, diagnostics, predict, seed: int, draws: int = 1000) -> Posterior:
    m, C = np.asarray(m, float), np.asarray(C, float)
    normal = np.random.default_rng([seed, 14]).normal(size=(draws, 2))
    return Posterior(m, C @ C.T, m + normal @ C.T, seconds, setup_seconds, diagnostics, predict)
