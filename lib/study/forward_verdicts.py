"""Verdicts of notebook 01: the posterior of τ, the rates of P1 elements, and assembly against scikit-fem's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import gamma


def recovers(posteriors: pd.DataFrame, tau: list[float]) -> tuple:
    """Whether the posterior of τ is narrow, and as far from the truth as its spread says."""
    half_squares, spreads = [], []
    for _, one in posteriors.groupby("seed"):
        points, weight = one[["x", "y"]].to_numpy(), one.weight.to_numpy()
        away = points - weight @ points
        covariance = (weight[:, None] * away).T @ away
        miss = np.array(tau) - weight @ points
        half_squares.append(miss @ np.linalg.solve(covariance, miss) / 2)
        spreads.append(np.sqrt(np.diag(covariance)))
    n, distance, spread = len(half_squares), np.mean(half_squares), np.mean(spreads)
    low, high = gamma.ppf([0.0005, 0.9995], n, scale=1 / n)
    return (
        "bip_recovers_tau",
        "fig:pde_as_smoothers",
        "Readings at finitely many sensors recover the posterior of the transport vector",
        "posterior around the true direction (picture)",
        f"over {n} problems the posterior sd is {spread:.3f} (prior: 1) and half the squared distance "
        f"of the truth, in sd, averages {distance:.2f} (calibrated: 1, within {low:.2f} to {high:.2f})",
        "reproduced" if low < distance < high and spread < 0.5 else "not reproduced",
        "fig_pde_as_smoothers",
    )


def bars(errors: pd.DataFrame, differences: pd.DataFrame) -> Iterator[tuple]:
    """Rates over the three finest meshes, and the largest difference of assembled numbers."""
    fine = errors.sort_values("h")[:3]
    for norm, expected in (("L2", 2.0), ("H1", 1.0)):
        rate = np.polyfit(np.log(fine.h), np.log(fine[norm]), 1)[0]
        yield (
            f"p1_rate_{norm}",
            f"P1 elements converge in {norm} at the rate of theory",
            f"{expected:g} ± 0.1",
            f"{rate:.3f}",
            abs(rate - expected) < 0.1,
            "fig_fem_explan",
        )
    difference = differences[["matrix", "rows", "load"]].max().max()
    yield (
        "assembly_equals_scikit_fem",
        "Residuals, matrix and load equal scikit-fem's for random coefficients (largest difference)",
        "≤ 1e-12",
        f"{difference:.1e}",
        difference <= 1e-12,
        "fig_fem_explan",
    )
