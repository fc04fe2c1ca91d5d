"""Tables of the Jura experiment."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from study.plots.tables import Cell, Table, bold, dagger, under


def tab_metals(table: pd.DataFrame) -> Table:
    wide = table.pivot(index="primary", columns="sets", values="secondaries").loc[table.primary.unique()]
    rows = [[metal, wide.printed[metal], wide.corrected[metal]] for metal in wide.index]
    return Table("lll", ["Primary", "Secondary, as printed", "Secondary, corrected"], [rows])


def tab_vae_networks(table: pd.DataFrame) -> Table:
    blocks = []
    for name, part in table.groupby("network", sort=False):
        rows = [
            [f"{name} dense {r.layer}", f"{r.inputs}", f"{r.outputs}", f"{r.parameters:,}"] for r in part.itertuples()
        ]
        blocks.append([*rows, [f"{name}, total", "", "", f"{part.parameters.sum():,}"]])
    return Table("lrrr", ["Layer", "inputs", "outputs", "parameters"], blocks)


def tab_jura_results(table: pd.DataFrame) -> Table:
    return replace(_mae(table), below=_others(table))


def tab_jura_printed_sets(table: pd.DataFrame) -> Table:
    return replace(_mae(table), below=_others(table))


def _mae(table: pd.DataFrame) -> Table:
    """Mean absolute error, the paper's beneath ours; bold: below GPDK, Wilcoxon p < 0.05; dagger: above."""
    metals, rows = table.metal.unique(), []
    for model, part in table.groupby("model", sort=False):
        by_metal = part.set_index("metal")
        rows.append([model, *(_cell(by_metal.loc[metal]) for metal in metals)])
        if by_metal.paper.notna().any():
            paper = [f"{_digits(m, by_metal.paper[m])} ± {_digits(m, by_metal.paper_sd[m])}" for m in metals]
            rows.append([under("in the paper"), *paper])
    note = "MAE, mean ± sd over seeds. Bold: below GPDK, dagger: above it (Wilcoxon, p < 0.05)."
    return Table("lcccc", ["", *metals], [rows], note)


def _cell(row: pd.Series) -> str | Cell:
    spread = f" ± {_digits(row.name, row.mae_sd)}" if row.mae_sd > 0 else ""
    text = _digits(row.name, row.mae) + spread
    if row.p_gpdk < 0.05:
        return bold(text) if row.against_gpdk < 0 else dagger(text)
    return text


def _others(table: pd.DataFrame) -> Table:
    """RMSE, negative log predictive density, coverage of 90% intervals."""
    metals, rows = table.metal.unique(), []
    heads = ["", *(f"{metal} RMSE/NLPD/cover" for metal in metals)]
    for model, part in table.groupby("model", sort=False):
        by_metal = part.set_index("metal")
        cells = [by_metal.loc[metal] for metal in metals]
        rows.append([model, *(f"{_digits(r.name, r.rmse)}/{r.nlpd:.2f}/{r.coverage:.2f}" for r in cells)])
    return Table("lcccc", heads, [rows])


def _digits(metal: str, value: float) -> str:
    return f"{value:.3f}" if metal in ("Cd", "Co") else f"{value:.2f}"
