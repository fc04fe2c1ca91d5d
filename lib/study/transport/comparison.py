"""Which runs of the transport problem a comparison needs, and how far each method's posterior is from the exact one."""

from __future__ import annotations

import numpy as np
import pandas as pd

from study.transport.choosing import setting


def configs(settings: dict, domains, sizes, methods, steps: int, budget: int, chosen: dict) -> list[dict]:
    """One configuration for each domain, mesh size and method."""

    def own(method: str, domain: str, nodes: int) -> dict:
        how, _, rest = method.partition("-")
        if how == "trained":
            return {"steps": steps} | setting(chosen, rest.rstrip("-0123456789"), domain, nodes)
        return {"budget": budget} if how == "hmc" else {}

    return [
        settings | {"domain": domain, "nodes": n, "method": method} | own(method, domain, n)
        for domain in domains
        for method in methods
        for n in sizes
    ]


def against_exact(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of ``infer`` with their distance to the quadrature's posterior of the same problem and mesh.

    ``mean_error`` in exact standard deviations and ``sd_ratio``, each the worse of the two components; ``w2`` the
    2-Wasserstein distance between the Gaussians with these moments, in exact standard deviations (root of the trace).
    """
    keys = ["domain", "nodes", "seed"]
    moments = ["mean_1", "mean_2", "cov_11", "cov_22", "cov_12"]
    truth = table[table.method == "quadrature"][keys + moments]
    both = table.merge(truth, on=keys, suffixes=("", "_exact"), validate="many_to_one")
    sd = [np.sqrt(both[f"cov_{i}{i}_exact"]) for i in (1, 2)]
    error = [np.abs(both[f"mean_{i}"] - both[f"mean_{i}_exact"]) / s for i, s in zip((1, 2), sd)]
    ratio = np.stack([np.sqrt(both[f"cov_{i}{i}"]) / s for i, s in zip((1, 2), sd)])
    worse = np.where(np.abs(np.log(ratio[0])) > np.abs(np.log(ratio[1])), *ratio)
    distance = both.apply(_wasserstein, axis=1)
    dropped = [f"{name}_exact" for name in moments]
    return both.assign(mean_error=np.maximum(*error), sd_ratio=worse, w2=distance).drop(columns=dropped)


def _wasserstein(row: pd.Series) -> float:
    """√(|m − m'|² + tr(S + S' − 2(S'^½ S S'^½)^½)) / √tr S'."""
    m = np.array([row.mean_1 - row.mean_1_exact, row.mean_2 - row.mean_2_exact])
    S, S_exact = (
        np.array([[row["cov_11" + of], row["cov_12" + of]], [row["cov_12" + of], row["cov_22" + of]]])
        for of in ("", "_exact")
    )
    if not np.isfinite(S).all():
        return np.nan
    # tr (S'^½ S S'^½)^½ from the eigenvalues of the similar matrix S S'
    cross = np.sqrt(np.maximum(np.linalg.eigvals(S @ S_exact).real, 0)).sum()
    return float(np.sqrt(max(m @ m + np.trace(S) + np.trace(S_exact) - 2 * cross, 0.0) / np.trace(S_exact)))


def together(*tables: pd.DataFrame) -> pd.DataFrame:
    """One table; runs that appear in several are kept once."""
    return pd.concat(tables, ignore_index=True).drop_duplicates(["domain", "nodes", "method", "seed"])


def shown(table: pd.DataFrame, measures: list[str]) -> pd.DataFrame:
    """What a figure needs."""
    return table[["domain", "nodes", "interior", "method", "seed", "status", *measures]]


def medians(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Methods by sizes."""
    return table.groupby(["method", "nodes"])[measure].median().unstack("nodes")


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """Medians over replicates for each method, domain and size, and how many runs gave no posterior."""
    by = table.assign(failed=table.status != "ok").groupby(["method", "domain", "nodes"])
    measures = by[["mean_error", "sd_ratio", "w2", "mae", "seconds"]].median()
    return measures.assign(failed=by.failed.sum())


def with_sampling(table: pd.DataFrame) -> pd.DataFrame:
    """The table with a method ``sampling``: HMC's runs, and draws of the exact posterior on meshes without."""
    where = ["domain", "nodes"]
    hmc, grid = (table[table.method == method] for method in ("hmc-sparse", "quadrature"))
    alone = ~pd.MultiIndex.from_frame(grid[where]).isin(pd.MultiIndex.from_frame(hmc[where]))
    return pd.concat([table, pd.concat([hmc, grid[alone]]).assign(method="sampling")], ignore_index=True)


def mae_against(table: pd.DataFrame, method: str) -> pd.Series:
    """Mean validation error less that of sampling, in the latter's standard errors, by domain and size."""
    by = with_sampling(table).groupby(["method", "domain", "nodes"]).mae.agg(["mean", "sem"])
    return (by.loc[method, "mean"] - by.loc["sampling", "mean"]) / by.loc["sampling", "sem"]


def by_size(values: pd.Series, form: str) -> str:
    """``1.2 (N=500), 3.4 (N=2,000)``."""
    return ", ".join(f"{form.format(value)} (N={int(n):,})" for n, value in values.dropna().items())


def typical_seconds(runs: pd.DataFrame) -> pd.DataFrame:
    """Median seconds, methods by sizes; what one gradient foretold where a run was over budget."""
    seconds = runs.seconds.fillna(runs.get("projected_seconds", np.nan))
    return runs.assign(seconds=seconds).groupby(["method", "nodes"]).seconds.median().unstack("nodes")


def exponent(runs: pd.DataFrame, method: str) -> float:
    """Slope of log seconds in log N, runs over budget with their projected time."""
    seconds = typical_seconds(runs).loc[method].dropna()
    return float(np.polyfit(np.log(seconds.index.to_numpy(float)), np.log(seconds), 1)[0])


def timings(runs: pd.DataFrame, cost: pd.DataFrame) -> pd.DataFrame:
    """Whole runs and single steps as one table."""
    keep = ["measure", "method", "nodes", "interior", "seed", "status", "seconds", "setup_seconds", "projected_seconds"]
    more = ["seconds_to_r_hat", "r_hat", "ess", "milliseconds"]
    return pd.concat([runs, cost], ignore_index=True).reindex(columns=[*keep, *more])
