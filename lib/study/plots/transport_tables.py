"""Tables of the transport inverse problem."""

from __future__ import annotations

import pandas as pd

from study.plots.tables import Table, bold

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
    """What was chosen on each mesh, and the effective share of q's importance weights: the chosen setting's and the
    range over all that was tried there."""
    blocks = []
    for method, of_method in table.groupby("method", sort=False):
        rows = [_chosen(domain, nodes, one) for (domain, nodes), one in of_method.groupby(["domain", "nodes"])]
        blocks.append([[method.removeprefix("trained-"), *row] for row in rows])
    heads = ["Method", "region", "nodes", "tried", "width", "samples", "test nodes", "last ε", "rate"]
    return Table("llrrrrrrrrrr", [*heads, "effective share", "of all tried", "Pareto k"], blocks)


def _chosen(domain: str, nodes: int, tried: pd.DataFrame) -> list[str]:
    row = tried[tried.chosen].iloc[-1]  # of the last choice
    settings = [f"{row.width}", f"{row.samples}", f"{row.tests}", f"{row.eps:g}", f"{row.rate:g}"]
    count = len(tried.drop_duplicates(["eps", "rate", "width", "samples", "tests"]))
    spread = f"{tried.ess.min():.2f} to {tried.ess.max():.2f}"
    return [domain, f"{nodes:,}", f"{count}", *settings, bold(f"{row.ess:.2f}"), spread, f"{row.k:.1f}"]
