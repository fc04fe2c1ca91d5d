"""Which models are averaged, decided on held-out training data; and tests of many pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd


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


def ensemble(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Members pooled place by place: the mean of their medians, their densities and distribution functions."""
    pooled = table.assign(density=np.exp(table.log_density)).groupby(by, sort=False)
    found = pooled[["y", "median", "pit", "density"]].mean().reset_index()
    return found.assign(log_density=np.log(found.density)).drop(columns="density")
