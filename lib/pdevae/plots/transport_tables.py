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
    """Effective sample size of the importance weights (share of draws) by setting; the chosen one in bold."""
    mean = table.groupby(["method", "eps", "rate"], sort=False)[["ess", "k"]].mean()
    blocks = []
    for method in table.method.unique():
        one = mean.loc[method]
        rows = []
        for (eps, rate), row in one.iterrows():
            text = f"{row.ess:.2f}"
            ess = bold(text) if row.ess == one.ess.max() else text
            rows.append([method.removeprefix("trained-"), f"{eps:g}", f"{rate:g}", ess, f"{row.k:.1f}"])
        blocks.append(rows)
    return Table("lrrrr", ["Method", "last ε", "rate", "effective share", "Pareto k"], blocks)
