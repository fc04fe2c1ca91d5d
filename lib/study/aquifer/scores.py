"""Scores of the aquifer's table, by response, test wells and model."""

from __future__ import annotations

import pandas as pd

TABLE = "tab_aquifer_results"
PLAIN_GP = "GP 5/2"
SUBSETS = {"all": "all test wells", "new": "new wells", "beyond": "beyond 60 km"}


def of(table: pd.DataFrame, response: str, subset: str, value: str) -> pd.Series:
    mine = table[(table.response == response) & (table.subset == subset)]
    return mine.set_index("model")[value]


def score(table: pd.DataFrame, response: str, subset: str, model: str) -> tuple[float, float]:
    return tuple(float(of(table, response, subset, value)[model]) for value in ("mae", "mse"))


def ratio(table: pd.DataFrame, response: str, subset: str, ours: str, theirs: str) -> tuple[float, float]:
    a, b = (score(table, response, subset, model) for model in (ours, theirs))
    return a[0] / b[0], a[1] / b[1]
