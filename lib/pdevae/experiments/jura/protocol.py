"""Who is compared with whom: models by name, cross-validated choice of their settings, scores, tests."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
from scipy.stats import wilcoxon

from ...data.jura import PRIMARIES
from ...runner import replicates
from . import gp, vae

VAES = {  # what a row's name means; all share encoder and decoder
    "VAE": {"mechanism_name": "", "composite": True},
    "VAE-DT": {"mechanism_name": "DT", "composite": True},
    "VAE-NLD": {"mechanism_name": "NLD", "composite": True},
    "VAE-NLD (network)": {"mechanism_name": "NLD-net", "composite": True},
    "VAE-DT, faithful": {"mechanism_name": "DT", "composite": False},
    "VAE-NLD, faithful": {"mechanism_name": "NLD", "composite": False},
    "VAE + Laplacian": {"mechanism_name": "Laplace", "composite": True},
    "VAE + gradient": {"mechanism_name": "gradient", "composite": True},
}
_SETTINGS = ["beta", "eps", "prior_sd", "log", "penalty", "mesh_nodes", "forces", "own", "steps"]
PER_SITE = ["median", "pit", "log_density"]


def grid(**axes) -> list[dict]:
    """All combinations."""
    return [dict(zip(axes, values)) for values in product(*axes.values())]


def run_vae(
    rows: dict[str, list[dict]], split: str, members: int, sets="corrected", seeds=(0,), metals=PRIMARIES
) -> pd.DataFrame:
    """Each named row with each of its settings, on each metal. ``steps`` may be a list: where to look on the way."""
    configs = [
        {k: v for k, v in settings.items() if k != "steps"}
        | VAES[name.partition(" @ ")[0]]
        | {"model": name, "metal": metal, "sets": sets, "split": split, "members": members}
        | {"checkpoints": list(np.atleast_1d(settings["steps"]).tolist())}
        for name, choices in rows.items()
        for settings in choices
        for metal in metals
    ]
    return replicates.run(vae.vae, configs, seeds)


def run_gpdk(variants: list[dict], split: str, members: int, sets="corrected", metals=PRIMARIES) -> pd.DataFrame:
    common = {"model": "GPDK", "sets": sets, "split": split, "members": members}
    configs = [common | variant | {"metal": metal} for variant in variants for metal in metals]
    return replicates.run(gp.diffusion_kernel, configs, range(members))


def run_references(split: str, members: int, sets="corrected", metals=PRIMARIES) -> pd.DataFrame:
    """Training mean, least squares and GP, each on the raw and the log scale."""
    common = {"sets": sets, "split": split, "members": members}
    axes = grid(model=["mean", "ols", "gp"], log=[False, True], metal=metals)
    table = replicates.run(gp.reference, [common | one for one in axes], [0])
    names = {"mean": "training mean", "ols": "least squares", "gp": "GP"}
    return table.assign(model=table.model.map(names) + np.where(table.log, ", log", ""))


def scores(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """MAE, RMSE, negative log predictive density, coverage of the central 90%."""
    error = (table["median"] - table.y).abs()
    covered = table.pit.between(0.05, 0.95)
    each = table[by].assign(mae=error, squared=error**2, nlpd=-table.log_density, coverage=covered.astype(float))
    found = each.groupby(by, dropna=False, sort=False).mean().reset_index()
    return found.assign(rmse=np.sqrt(found.squared)).drop(columns="squared")


def cross_validated(table: pd.DataFrame, baseline: pd.DataFrame) -> pd.DataFrame:
    """Scores on the held-out sites; ``relative``: MAE over the training mean's in the same folds."""
    settings = [name for name in _SETTINGS if name in table]
    found = scores(table, ["model", "metal", *settings])
    by_metal = scores(baseline[baseline.model == "training mean"], ["metal"]).set_index("metal").mae
    return found.assign(relative=found.mae / found.metal.map(by_metal))


def ranking(found: pd.DataFrame, model: str) -> pd.DataFrame:
    """The settings of a model, best first: by relative MAE, averaged over the metals."""
    mine = found[found.model == model].dropna(axis=1, how="all")
    settings = [name for name in _SETTINGS if name in mine]
    return mine.groupby(settings).relative.mean().sort_values(kind="stable").reset_index()


def chosen(found: pd.DataFrame, model: str) -> dict:
    """One choice for all metals: four choices of one's own would fit the noise of 259 sites."""
    best = ranking(found, model).iloc[0].drop("relative").to_dict()
    as_python = {name: value.item() if hasattr(value, "item") else value for name, value in best.items()}
    return as_python | {name: int(as_python[name]) for name in ("steps", "mesh_nodes", "forces") if name in as_python}


def best_starts(table: pd.DataFrame, among: int = 3) -> pd.DataFrame:
    """Repetition k of GPDK: the likeliest of the fits k, k + 1, … from their own random starts."""
    likelihood = table.groupby(["metal", "member"]).log_likelihood.first().unstack()
    count, repetitions = likelihood.shape[1], []
    for metal, values in likelihood.iterrows():
        for k in range(count):
            group = [(k + j) % count for j in range(min(among, count))]
            best = max(group, key=lambda start: values[start])
            repetitions.append(table[(table.metal == metal) & (table.member == best)].assign(member=k))
    return pd.concat(repetitions, ignore_index=True)


def ensemble(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Members pooled site by site: the mean of their medians, their densities and distribution functions."""
    pooled = table.assign(density=np.exp(table.log_density)).groupby(by, sort=False)
    found = pooled[["y", "median", "pit", "density"]].mean().reset_index()
    return found.assign(log_density=np.log(found.density)).drop(columns="density")


def greedy_pool(held_out: pd.DataFrame, picks: int = 10) -> pd.Series:
    """Weights of models (Caruana et al., 2004): add, with replacement, whichever lowers the pool's MAE most."""
    medians = held_out.pivot(index="site", columns="model", values="median").dropna(axis=1)
    y = held_out.groupby("site").y.first()
    total, best, picked = 0.0, (np.inf, None), []
    for count in range(1, picks + 1):
        errors = {name: np.abs((total + medians[name]) / count - y).mean() for name in medians}
        picked.append(min(errors, key=errors.get))
        total = total + medians[picked[-1]]
        if errors[picked[-1]] < best[0]:
            best = (errors[picked[-1]], count)
    return pd.Series(picked[: best[1]]).value_counts(normalize=True)


def pooled(table: pd.DataFrame, weights: dict[str, pd.Series]) -> pd.DataFrame:
    """One prediction per metal and site from several models' ensembles, weighted by metal."""
    each = [
        ensemble(part[part.model == name], ["metal", "site"]).assign(weight=weight)
        for metal, part in table.groupby("metal", sort=False)
        for name, weight in weights[metal].items()
    ]
    each = pd.concat(each)
    each = each.assign(density=np.exp(each.log_density))
    weighted = {name: each[name] * each.weight for name in ("y", "median", "pit", "density")}
    found = pd.concat([each[["metal", "site"]], pd.DataFrame(weighted)], axis=1)
    found = found.groupby(["metal", "site"], sort=False).sum().reset_index()
    return found.assign(log_density=np.log(found.density)).drop(columns="density")


def paired_tests(by_member: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Wilcoxon's signed-rank test of the members' MAE, per metal and pair; p-values after Holm for all of them."""
    mae = by_member.pivot_table(index=["metal", "member"], columns="model", values="mae")
    rows = []
    for metal, part in mae.groupby("metal", sort=False):
        for ours, theirs in pairs:
            gain = (part[ours] - part[theirs]).dropna()
            p = wilcoxon(gain).pvalue if (gain != 0).any() else 1.0
            rows.append({"metal": metal, "model": ours, "against": theirs, "difference": gain.mean(), "p": p})
    found = pd.DataFrame(rows)
    return found.assign(p_holm=holm(found.p.to_numpy()))


def holm(p: np.ndarray) -> np.ndarray:
    """Holm's step-down adjustment."""
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(len(p), 0, -1)))
    return adjusted[np.argsort(order)]
