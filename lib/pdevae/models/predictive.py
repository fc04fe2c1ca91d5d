"""Predictive distributions as mixtures of Gaussians, on the raw or the log scale, and what they score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm


@dataclass(frozen=True)
class Predictive:
    """At each of n places K equally weighted Gaussians; with ``log`` they are for the logarithm of the response."""

    mean: np.ndarray  # [K, n]
    sd: np.ndarray  # [K, n]
    log: bool = False

    def cdf(self, y: np.ndarray) -> np.ndarray:
        return norm.cdf(self._inward(y), self.mean, self.sd).mean(axis=0)

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """log p(y) in the response's own units."""
        terms = norm.logpdf(self._inward(y), self.mean, self.sd)
        jacobian = -np.log(y) if self.log else 0.0
        return logsumexp(terms, axis=0) - np.log(len(terms)) + jacobian

    def quantile(self, p: float) -> np.ndarray:
        """By bisection of the mixture's distribution function, between its outermost components' quantiles."""
        each = norm.ppf(p, self.mean, self.sd)
        low, high = each.min(axis=0), each.max(axis=0)
        for _ in range(50):
            middle = 0.5 * (low + high)
            below = norm.cdf(middle, self.mean, self.sd).mean(axis=0) < p
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return np.exp(high) if self.log else high

    def at(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """What is kept of a prediction at sites with known y: enough for every score, and for pooling models."""
        return {"median": self.quantile(0.5), "pit": self.cdf(y), "log_density": self.log_density(y)}

    def _inward(self, y):
        return np.log(y) if self.log else y
