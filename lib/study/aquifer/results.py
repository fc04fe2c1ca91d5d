"""Scores of predictions, choices made by cross-validation, the pool, and the table beside the paper's."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from study import scoring
from study.aquifer.splits import FOLDS
from study.data.aquifer import Aquifer
from study.scoring import ensemble, greedy_pool, signed_rank

PAPER = {  # tab:aquifer_results: MAE and MSE with their ± 2 sd, standardised depth
    "GP 5/2": (0.224, 0.041, 0.107, 0.050),
    "deep GP": (0.193, 0.052, 0.081, 0.011),
    "GP-D": (0.160, 0.012, 0.044, 0.001),
    "GP-DT": (0.158, 0.001, 0.039, 0.001),
}
SETTINGS = ["log_a_sd", "log_a_length", "source_sd", "transport_sd", "trend", "covariate_sd", "eps_start", "eps_end"]
SETTINGS += ["source_length", "learning_rate", "cycles", "steps"]
BEST, ENSEMBLE, BEST_MAP = "best (ours)", "FEM ensemble", "FEM (ours)"
_BLOCK = 20.0  # km: wells of a block are resampled together


def cross_validated(table: pd.DataFrame) -> pd.DataFrame:
    """Held-out error (ft) of each setting, for the split it stands for: blocks for ``full``, rings for ``near``."""
    error = (table["median"] - table.y).abs()
    each = table.assign(error=error, split=np.where(table.member < FOLDS, "full", "near"))
    settings = [name for name in SETTINGS if name in each]
    by_member = each.groupby(["model", "response", "split", *settings, "member"], dropna=False, sort=False)
    pooled = by_member.error.agg(["sum", "size", "mean"]).reset_index()
    found = pooled.groupby(["model", "response", "split", *settings], dropna=False, sort=False)
    # folds of unequal size count by well, rings alike
    blocks = found["sum"].sum() / found["size"].sum()
    return pd.DataFrame({"blocks": blocks, "rings": found["mean"].mean()}).reset_index().pipe(_one_score)


def _one_score(found: pd.DataFrame) -> pd.DataFrame:
    return found.assign(mae=np.where(found.split == "full", found.blocks, found.rings)).drop(
        columns=["blocks", "rings"]
    )


def chosen(found: pd.DataFrame, model: str, response: str, split: str) -> dict:
    """The settings with the least held-out error."""
    mine = found[(found.model == model) & (found.response == response) & (found.split == split)]
    best = mine.loc[mine.mae.idxmin(), [name for name in SETTINGS if name in mine]].dropna().to_dict()
    return {name: int(v) if name in ("cycles", "steps") else v for name, v in best.items()}


def all_chosen(found: pd.DataFrame, models: dict[str, list[str]]) -> dict[tuple[str, str, str], dict]:
    """:func:`chosen` for the models of each response and for both splits."""
    splits = ("full", "near")
    return {(m, r, split): chosen(found, m, r, split) for r, of in models.items() for split in splits for m in of}


def picked(table: pd.DataFrame, model: str, settings: dict) -> pd.DataFrame:
    """The rows of a model with these settings."""
    keep = table.model == model
    for name, value in settings.items():
        keep &= table[name] == value
    return table[keep]


def as_head(table: pd.DataFrame, aquifer: Aquifer, units: dict[str, float], name: str) -> pd.DataFrame:
    """Predicted depths as predicted heads, land surface minus depth, in the units of the split's training heads."""
    return _turned(table, aquifer).assign(model=name, response="altitude", unit=table.split.map(units))


def depth_by_head(table: pd.DataFrame, aquifer: Aquifer, units: dict[str, float]) -> pd.DataFrame:
    """Predicted heads as predicted depths, in the units of the split's training depths."""
    return _turned(table, aquifer).assign(response="depth by head", unit=table.split.map(units))


def units(table: pd.DataFrame, response: str) -> dict[str, float]:
    """Feet of a standardised unit, by split."""
    return table[table.response == response].groupby("split").unit.first().to_dict()


def _turned(table: pd.DataFrame, aquifer: Aquifer) -> pd.DataFrame:
    land = aquifer.wells.land.to_numpy()[table.well]
    return table.assign(y=land - table.y, median=land - table["median"], pit=1 - table.pit)


def pool(held_out: pd.DataFrame, split: str) -> pd.Series:
    """Weights of models, from their predictions at held-out training wells."""
    mine = held_out[(held_out.member < FOLDS) == (split == "full")]
    site = 1000 * mine.member + mine.well
    return greedy_pool(ensemble(mine.assign(site=site), ["model", "site"]))


def pooled(table: pd.DataFrame, weights: pd.Series, name: str) -> pd.DataFrame:
    """One prediction per well from several models' ensembles."""
    return scoring.pooled(table, weights, ["split", "response", "well", "unit"]).assign(model=name, replicate=0)


def pools(
    held_out: pd.DataFrame, tested: pd.DataFrame, choice: dict, models: list[str], alone: list[str], even: list[str]
) -> tuple[dict[str, pd.Series], list[pd.DataFrame]]:
    """By split, the weights of the pool that held-out heads chose; predictions of that pool and of an even one.

    Of ``models`` the settings in ``choice`` count, those ``alone`` have none; ``even`` are pooled with equal weights.
    """
    weights, parts = {}, []
    for split in ("full", "near"):
        candidates = [picked(held_out, model, choice[model, "altitude", split]) for model in models]
        candidates.append(held_out[held_out.model.isin(alone)])
        weights[split], mine = pool(pd.concat(candidates), split), tested[tested.split == split]
        parts.append(pooled(mine, weights[split], BEST))
        parts.append(pooled(mine, pd.Series(1 / len(even), index=even), ENSEMBLE))
    return weights, parts


def scored(altitudes: pd.DataFrame, depths: pd.DataFrame, turned: list[str], aquifer: Aquifer) -> pd.DataFrame:
    """All predictions by subset; of the models ``turned``, heads serve as depths, too."""
    heads = altitudes[altitudes.model.isin(turned)]
    return subsets(pd.concat([altitudes, depths, depth_by_head(heads, aquifer, units(depths, "depth"))]), aquifer)


def subsets(table: pd.DataFrame, aquifer: Aquifer) -> pd.DataFrame:
    """Rows once for each subset they belong to: all wells of the second period, the new ones, those beyond 60 km."""
    new = aquifer.wells.depth_early.isna().to_numpy()[table.well]
    parts = [table[table.split == "full"].assign(subset="all")]
    parts.append(table[(table.split == "full") & new].assign(subset="new"))
    parts.append(table[table.split == "near"].assign(subset="beyond"))
    return pd.concat(parts, ignore_index=True)


def scores(table: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Standardised, and the mean error in feet too."""
    return scoring.scores(table, by).rename(columns={"error": "mae_feet"})


def summary(table: pd.DataFrame, aquifer: Aquifer, against: str = "GP 5/2") -> pd.DataFrame:
    """A row per response, subset and model: means over replicates, ± 2 sd, the paper's, the test against the GP."""
    by = ["response", "subset", "model"]
    each = scores(table, [*by, "replicate"]).groupby(by, sort=False)
    values = ["mae", "mse", "mae_feet", "nlpd", "coverage"]
    found = each[values].mean().assign(replicates=each.size())
    found = found.join(2 * each[["mae", "mse"]].std(ddof=1).fillna(0.0).add_suffix("_2sd")).reset_index()
    found = found.merge(paired(table, aquifer, against), on=by, how="left")
    in_paper = (found.response == "depth") & (found.subset == "all")
    paper = [PAPER.get(model, (np.nan,) * 4) if known else (np.nan,) * 4 for model, known in zip(found.model, in_paper)]
    found[["paper_mae", "paper_mae_2sd", "paper_mse", "paper_mse_2sd"]] = np.array(paper, float)
    return found


def paired(table: pd.DataFrame, aquifer: Aquifer, against: str) -> pd.DataFrame:
    """MAE over the GP's, its 95% interval when blocks of wells are drawn anew, and Wilcoxon's p over the wells."""
    error = table.assign(error=(table["median"] - table.y).abs() / table.unit)
    wells = error.groupby(["response", "subset", "model", "well"], sort=False).error.mean().reset_index()
    rows = []
    for (response, subset), part in wells.groupby(["response", "subset"], sort=False):
        wide = part.pivot(index="well", columns="model", values="error")
        rival = wide[against]
        draws = _block_draws(aquifer.places[wide.index])
        for model in wide.columns.drop(against):
            ratio = (draws @ wide[model].to_numpy()) / (draws @ rival.to_numpy())
            low, high = np.quantile(ratio, [0.025, 0.975])
            row = {"response": response, "subset": subset, "model": model, "ratio": wide[model].mean() / rival.mean()}
            p = signed_rank(wide[model] - rival) if len(wide) > 5 else np.nan
            rows.append(row | {"ratio_low": low, "ratio_high": high, "wilcoxon": p})
    return pd.DataFrame(rows)


def _block_draws(places: np.ndarray, count: int = 2000) -> np.ndarray:
    """[count, wells] how often each well is drawn when blocks are drawn with replacement: neighbours err together."""
    _, block = np.unique(np.floor(places / _BLOCK).astype(int), axis=0, return_inverse=True)
    rng, blocks = np.random.default_rng(91), block.max() + 1
    return rng.multinomial(blocks, np.full(blocks, 1 / blocks), size=count)[:, block.ravel()]


def by_distance(table: pd.DataFrame, aquifer: Aquifer, models: list[str]) -> pd.DataFrame:
    """New wells by distance to the nearest training well: mean error and how many wells, in four classes."""
    early = aquifer.wells.depth_early.notna().to_numpy()
    away, _ = cKDTree(aquifer.places[early]).query(aquifer.places[table.well])
    mine = table.assign(distance=away)[(table.subset == "new") & table.model.isin(models)]
    mine = mine.assign(error=(mine["median"] - mine.y).abs())
    edges = np.quantile(mine.groupby("well").distance.first(), [0, 0.25, 0.5, 0.75, 1.0])
    mine["class"] = pd.cut(mine.distance, edges, labels=False, include_lowest=True)
    mine = mine.sort_values("class", kind="stable")
    each = mine.groupby(["response", "model", "class"], sort=False)
    return each.agg(km=("distance", "mean"), mae_feet=("error", "mean"), wells=("well", "nunique")).reset_index()


def residuals(table: pd.DataFrame, aquifer: Aquifer, models: list[str]) -> pd.DataFrame:
    """Predicted minus seen (ft) at the test wells, ensembles of the replicates; places to 0.1 km."""
    mine = table[table.model.isin(models) & table.subset.isin(["all", "beyond"])]
    found = ensemble(mine, ["response", "subset", "model", "well"])
    x, y = aquifer.places[found.well].round(1).T
    new = aquifer.wells.depth_early.isna().to_numpy()[found.well]
    return found[["response", "subset", "model"]].assign(x=x, y=y, new=new, error=(found["median"] - found.y).round(1))
