"""Tables of what the paper leaves open."""

from __future__ import annotations

import pandas as pd

from study.plots.tables import Table, bold


def tab_choices(table: pd.DataFrame) -> Table:
    heads = ["Experiment", "Choice", "Paper", "Ours", "Tried instead", "Where", "Verdicts that hang on it"]
    blocks = [one.fillna("").values.tolist() for _, one in table.groupby("experiment", sort=False)]
    return Table("lllllll", heads, blocks)


def tab_choices_tested(table: pd.DataFrame) -> Table:
    """Held-out error by option; the least of each measure in bold."""
    blocks = []
    for _, one in table.fillna("").groupby(["experiment", "measure"], sort=False):
        best, digits = one.error.min(), 3 if one.error.max() < 5 else 1
        blocks.append(
            [
                [
                    row.experiment,
                    row.option,
                    row.measure or "relative to the training mean",
                    _shown(row.error, best, digits),
                ]
                for row in one.itertuples()
            ]
        )
    return Table("lllr", ["Experiment", "Option", "Held-out error", ""], blocks)


def _shown(error: float, best: float, digits: int) -> str:
    text = f"{error:.{digits}f}"
    return bold(text) if error == best else text
