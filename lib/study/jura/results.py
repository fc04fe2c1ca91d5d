"""Scores of predictions, ensembles and pools of them, tests, and the table beside the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd

from study import scoring
from study.scoring import ensemble, holm, scores, signed_rank

PAPER = {  # tab:jura_results: MAE and its ±
    "GPDK": {"Cd": (0.451, 0.013), "Cu": (7.168, 0.347), "Pb": (10.101, 0.284), "Co": (1.755, 0.090)},
    "VAE": {"Cd": (0.569, 0.115), "Cu": (7.752, 0.341), "Pb": (15.69, 0.294), "Co": (1.820, 0.102)},
    "VAE-DT": {"Cd": (0.478, 0.048), "Cu": (7.218, 0.315), "Pb": (10.058, 0.297), "Co": (1.801, 0.173)},
    "VAE-NLD": {"Cd": (0.549, 0.173), "Cu": (7.625, 0.201), "Pb": (9.722, 0.251), "Co": (1.692, 0.083)},
}
BEST_IN_PAPER = {"Cd": 0.451, "Cu": 7.168, "Pb": 9.722, "Co": 1.692}


def best_starts(table: pd.DataFrame, among: int = 3) -> pd.DataFrame:
    """Repetition k of GPDK: the likeliest of the fits k, k + 1, … from their own random starts."""
    likelihood = table.groupby(["metal", "member"]).log_likelihood.first().unstack()
    count, repetitions = likelihood.shape[1], []
    for metal, values in likelihood.loc[table.metal.unique()].iterrows():
        for k in range(count):
            group = [(k + j) % count for j in range(min(among, count))]
            best = max(group, key=lambda start: values[start])
            repetitions.append(table[(table.metal == metal) & (table.member == best)].assign(member=k))
    return pd.concat(repetitions, ignore_index=True)


def pooled(table: pd.DataFrame, weights: dict[str, pd.Series]) -> pd.DataFrame:
    """One prediction per metal and site from several models' ensembles, weighted by metal."""
    parts = [
        scoring.pooled(part, weights[metal], ["metal", "site"]) for metal, part in table.groupby("metal", sort=False)
    ]
    return pd.concat(parts, ignore_index=True)


def paired_tests(by_member: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Wilcoxon's signed-rank test of the members' MAE, per metal and pair; p-values after Holm for all of them."""
    mae = by_member.pivot_table(index=["metal", "member"], columns="model", values="mae")
    rows = []
    for metal, part in mae.groupby("metal", sort=False):
        for ours, theirs in pairs:
            gain = (part[ours] - part[theirs]).dropna()
            rows.append(
                {"metal": metal, "model": ours, "against": theirs, "difference": gain.mean(), "p": signed_rank(gain)}
            )
    found = pd.DataFrame(rows)
    return found.assign(p_holm=holm(found.p.to_numpy()))


def summary(table: pd.DataFrame) -> pd.DataFrame:
    """One row per model and metal: scores over repetitions, the paper's numbers, Wilcoxon against GPDK."""
    by_member = scores(table, ["model", "metal", "member"])
    by_member = by_member.assign(rmse=np.sqrt(by_member.mse))
    each = by_member.groupby(["model", "metal"], sort=False)
    found = each[["mae", "rmse", "nlpd", "coverage"]].mean()
    found = found.assign(mae_sd=each.mae.std().fillna(0.0), repetitions=each.size()).reset_index()
    pairs = [(name, "GPDK") for name in found.model[found.repetitions > 1].unique() if name.startswith("VAE")]
    tests = paired_tests(by_member, pairs).set_index(["model", "metal"])
    key = pd.MultiIndex.from_frame(found[["model", "metal"]])
    paper = [PAPER.get(model, {}).get(metal, (np.nan, np.nan)) for model, metal in key]
    found[["paper", "paper_sd"]] = np.array(paper, float)
    return found.assign(p_gpdk=tests.p.reindex(key).to_numpy(), against_gpdk=tests.difference.reindex(key).to_numpy())


def differences(by_member: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """MAE of one model over another's on the same split, in per cent; one row per metal, split and pair."""
    mae = by_member.pivot_table(index=["metal", "member"], columns="model", values="mae", sort=False)
    rows = [
        (100 * (mae[ours] / mae[theirs] - 1)).dropna().rename("gain").reset_index().assign(model=ours, against=theirs)
        for ours, theirs in pairs
    ]
    return pd.concat(rows, ignore_index=True)


def map_table(region: pd.DataFrame, data, metals: list[str]) -> pd.DataFrame:
    """Cells with their quantiles, and the sites with what was observed there."""
    cells = region[["metal", "x", "y", "q05", "q50", "q95"]].assign(kind="cell")
    kind = np.where(np.arange(len(data.sites)) < data.n_training, "training", "validation")
    where = pd.DataFrame({"x": data.places[:, 0], "y": data.places[:, 1], "kind": kind})
    return pd.concat(
        [cells, *(where.assign(metal=m, value=data.sites[m].to_numpy()) for m in metals)], ignore_index=True
    )


def error_table(predictions: pd.DataFrame, best: pd.DataFrame, places: np.ndarray, models: list[str]) -> pd.DataFrame:
    """Observed and predicted at the validation sites; a model's repetitions as one ensemble."""
    some = predictions[predictions.model.isin(models)]
    table = pd.concat([ensemble(some, ["model", "metal", "site"]), best], ignore_index=True)
    table = table.assign(x=places[table.site, 0], y_place=places[table.site, 1], observed=table.y)
    return table[["model", "metal", "site", "x", "y_place", "observed", "median", "pit"]].rename(
        columns={"y_place": "y"}
    )
