"""Choices made on held-out training sites: a model's settings, and which models are pooled."""

from __future__ import annotations

import pandas as pd

from study.scoring import greedy_pool, scores  # noqa: F401  the first for the notebook

_SETTINGS = [
    "beta",
    "eps",
    "prior_sd",
    "log",
    "penalty",
    "mesh_nodes",
    "forces",
    "own",
    "starts",
    "iterations",
    "steps",
]


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


def tried(found: pd.DataFrame) -> pd.Series:
    """How many settings of each model were scored on held-out training sites."""
    settings = [name for name in _SETTINGS if name in found]
    return found.drop_duplicates(["model", *settings]).groupby("model", sort=False).size()


def chosen(found: pd.DataFrame, model: str) -> dict:
    """One choice for all metals: four choices of one's own would fit the noise of 259 sites."""
    best = ranking(found, model).iloc[0].drop("relative").to_dict()
    as_python = {name: value.item() if hasattr(value, "item") else value for name, value in best.items()}
    return as_python | {
        name: int(as_python[name])
        for name in ("steps", "mesh_nodes", "forces", "starts", "iterations")
        if name in as_python
    }
