"""Tables of the aquifer experiment."""

from __future__ import annotations

import pandas as pd

from study.plots.tables import Table, italic, under

_SUBSETS = ("all", "new", "beyond")


def tab_fwd_surrogate(table: pd.DataFrame) -> Table:
    rows = [
        [f"dense {r.layer}", f"{r.inputs}", f"{r.outputs}", r.activation, f"{r.parameters:,}"]
        for r in table.itertuples()
    ]
    total = ["total", "", "", "", f"{table.parameters.sum():,}"]
    return Table("lrrlr", ["Layer", "inputs", "outputs", "activation", "parameters"], [[*rows, total]])


def tab_aquifer_results(table: pd.DataFrame) -> Table:
    """A block per response: MAE and MSE on three sets of wells, the paper's beneath ours."""
    note = "MAE / MSE, standardised by the training wells, mean ± 2 sd over replicates; then NLPD and coverage of 90%."
    if table.simulated.any():
        note += "\nSIMULATED: made on the twin, not on USGS data."
    head = ["", "all: MAE", "MSE", "new: MAE", "MSE", "beyond 60 km: MAE", "MSE", "new: NLPD", "cover"]
    blocks = []
    for response, part in table.groupby("response", sort=False):
        rows = [[italic(response), *[""] * 8]]
        for model, mine in part.groupby("model", sort=False):
            by_subset = mine.set_index("subset")
            cells = [_cell(by_subset, subset, value) for subset in _SUBSETS for value in ("mae", "mse")]
            new = by_subset.loc["new"] if "new" in by_subset.index else None
            more = ["", ""] if new is None else [f"{new.nlpd:.2f}", f"{new.coverage:.2f}"]
            rows.append([model, *cells, *more])
            if by_subset.paper_mae.notna().any():
                p = by_subset.loc["all"]
                said = [f"{p.paper_mae:.3f} ± {p.paper_mae_2sd:.3f}", f"{p.paper_mse:.3f} ± {p.paper_mse_2sd:.3f}"]
                rows.append([under("in the paper"), *said, *[""] * 6])
        blocks.append(rows)
    return Table("lcccccccc", head, blocks, note)


def _cell(by_subset: pd.DataFrame, subset: str, value: str) -> str:
    if subset not in by_subset.index:
        return ""
    row = by_subset.loc[subset]
    spread = f" ± {row[f'{value}_2sd']:.3f}" if row[f"{value}_2sd"] >= 5e-4 else ""
    return f"{row[value]:.3f}{spread}"
