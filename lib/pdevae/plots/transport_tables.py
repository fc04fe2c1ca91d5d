"""Tables of the transport inverse problem."""

from __future__ import annotations

import pandas as pd

from .tables import Table, bold

_FACTORS = {
    "poisson": "w from −Δw = 1 (the default)",
    "r-function": "R-function of edge distances",
    "distance": "distance to the boundary",
    "overwritten": "overwritten at the nodes",
}


def tab_boundary_factors(table: pd.DataFrame) -> Table:
    """Error of the field, per cent, after so many steps; the worst of the networks tried."""
    steps, regions = list(table.after.unique()), list(table.region.unique())
    worst = 100 * table.groupby(["factor", "region", "after"]).error.max()
    best = worst.groupby(["region", "after"]).min()

    def cell(factor, region, after):
        text = f"{worst[factor, region, after]:.1f}"
        return bold(text) if worst[factor, region, after] == best[region, after] else text

    rows = [[_FACTORS[factor], *(cell(factor, r, k) for r in regions for k in steps)] for factor in _FACTORS]
    heads = [f"{region}, {k:,} steps" for region in regions for k in steps]
    return Table("l" + "r" * len(heads), ["Boundary", *heads], [rows])


def tab_settings(table: pd.DataFrame) -> Table:
    """Effective sample size of the importance weights (share of draws), mean over regions; the chosen setting in bold.

    Three choices after one another: the size of a step, ε and Adam's rate, for the printed objective ε on each mesh.
    """
    blocks = []
    for _, tried in table.groupby(["choice", "nodes"], sort=False):
        keys = ["method", "nodes", "width", "samples", "tests", "eps", "rate", "chosen"]
        for _, one in tried.groupby("method", sort=False):
            rows = one.groupby(keys, sort=False)[["ess", "k"]].mean().reset_index()
            blocks.append([_setting(row) for row in rows.itertuples()])
    heads = ["Method", "nodes", "width", "samples", "test nodes", "last ε", "rate", "effective share", "Pareto k"]
    return Table("lrrrrrrrr", heads, blocks)


def _setting(row) -> list[str]:
    numbers = [f"{row.nodes:,}", row.width, row.samples, row.tests, f"{row.eps:g}", f"{row.rate:g}"]
    ess = f"{row.ess:.2f}"
    return [row.method.removeprefix("trained-"), *map(str, numbers), bold(ess) if row.chosen else ess, f"{row.k:.1f}"]
