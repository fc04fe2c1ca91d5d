"""Predictive distributions, what they score, and which models are averaged: the same for Jura and the aquifer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import logsumexp
from scipy.stats import norm, wilcoxon


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
        """What is kept of a prediction at places with known y: enough for every score, and for pooling models."""
        return {"median": self.quantile(0.5), "pit": self.cdf(y), "log_density": self.log_density(y)}

    def _inward(self, y):
        return np.log(y) if self.log else y


@dataclass(frozen=True)
class Scale:
    """What brings training values, or their logarithms, to zero mean and unit sd, column by column; and back."""

    centre: float | np.ndarray
    spread: float | np.ndarray
    log: bool = False

    @classmethod
    def of(cls, training: np.ndarray, log: bool = False) -> Scale:
        inward = np.log(training) if log else training
        return cls(inward.mean(axis=0), inward.std(axis=0), log)

    def standardised(self, values: np.ndarray) -> np.ndarray:
        return ((np.log(values) if self.log else values) - self.centre) / self.spread

    def back(self, mean: np.ndarray, sd: np.ndarray) -> Predictive:
        """[K, n] standardised Gaussians, in the response's own units."""
        return Predictive(self.centre + self.spread * mean, self.spread * sd, self.log)


def scores(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """MAE, MSE and negative log density in the table's ``unit`` (or the response's own), coverage of the central 90%.

    ``error`` is the MAE in the response's own units whatever the unit.
    """
    unit = table.unit if "unit" in table else 1.0
    error = (table["median"] - table.y).abs()
    each = table[by].assign(
        mae=error / unit,
        mse=(error / unit) ** 2,
        error=error,
        nlpd=-table.log_density - np.log(unit),
        coverage=table.pit.between(0.05, 0.95).astype(float),
    )
    return each.groupby(by, dropna=False, sort=False).mean().reset_index()


def ensemble(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Members pooled place by place: the mean of their medians, their densities and distribution functions."""
    pooled = table.assign(density=np.exp(table.log_density)).groupby(by, sort=False)
    found = pooled[["y", "median", "pit", "density"]].mean().reset_index()
    return found.assign(log_density=np.log(found.density)).drop(columns="density")


def pooled(table: pd.DataFrame, weights: pd.Series, by: list[str]) -> pd.DataFrame:
    """One prediction per place from several models' ensembles, weighted."""
    parts = [ensemble(table[table.model == name], by).assign(weight=weight) for name, weight in weights.items()]
    each = pd.concat(parts, ignore_index=True)
    each = each.assign(density=np.exp(each.log_density))
    weighted = each[by].join(each[["y", "median", "pit", "density"]].mul(each.weight, axis=0))
    found = weighted.groupby(by, sort=False).sum().reset_index()
    return found.assign(log_density=np.log(found.density)).drop(columns="density")


def greedy_pool(held_out: pd.DataFrame, picks: int = 10) -> pd.Series:
    """Weights of models (Caruana et al., 2004): add, with replacement, whichever lowers the pool's MAE most."""
    medians = held_out.pivot(index="site", columns="model", values="median").dropna()
    y = held_out.groupby("site").y.first()[medians.index]
    total, best, picked = 0.0, (np.inf, None), []
    for count in range(1, picks + 1):
        errors = {name: np.abs((total + medians[name]) / count - y).mean() for name in medians}
        picked.append(min(errors, key=errors.get))
        total = total + medians[picked[-1]]
        if errors[picked[-1]] < best[0]:
            best = (errors[picked[-1]], count)
    return pd.Series(picked[: best[1]]).value_counts(normalize=True)


def signed_rank(gain: np.ndarray) -> float:
    """p of Wilcoxon's test; 1 where nothing differs."""
    return float(wilcoxon(gain).pvalue) if np.any(gain != 0) else 1.0


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment."""
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(len(p), 0, -1)))
    return adjusted[np.argsort(order)]
