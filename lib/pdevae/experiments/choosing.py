"""Settings by what a practitioner has: the effective size of q's importance weights from a few exact solves.

Three choices, one after the other, on problems of their own: how large a training step is, for all; ε and Adam's rate,
for each family of rungs; and for the objective as printed, an estimate of R/N that no one ε suits, ε on each mesh.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pandas as pd

from . import transport

# Whose trials choose a rung's last ε (the first is ten times it) and Adam's rate
CHOSEN_BY = {
    "trained-printed-32": ("printed", "overwritten", "coupled"),
    "trained-hard-32": ("hard", "wendland"),
    "trained-multilevel": ("exact", "two-level", "multilevel", "prior"),
    "trained-pointwise": ("pointwise",),
}
_ON_EACH_MESH = ("printed", "overwritten")
_SIZED_BY = ("trained-hard-32", "trained-multilevel")
_MIDDLE = {"eps": 0.003, "rate": 0.005}  # while the size of a step is chosen
_ENOUGH = 0.02  # effective share by which a larger step must be better to be taken
_SEED = 1002  # of the problems tried, which no figure shows


def choose(run: Callable, problem: dict, steps: int, tried: dict) -> tuple[pd.DataFrame, dict]:
    """All trials as a table, and the chosen settings by rung, or by rung and nodes.

    ``run`` takes a function, configurations and seeds (``replicates.run``). ``tried`` has ``domains``, ``nodes``,
    ``steps`` (lists of width, samples of τ and test nodes, cheapest first), ``eps`` (by method, or ``others``),
    ``rates`` and ``meshes``, where ε is chosen again.
    """
    common = problem | {"steps": steps}

    def judged(choice: str, options: list[dict]) -> pd.DataFrame:
        configs = [common | option | {"domain": domain} for option in options for domain in tried["domains"]]
        table = run(transport.trial, configs, [_SEED]).assign(choice=choice)
        return table[["choice", "domain", "nodes", "method", *transport.SETTINGS, "ess", "k", "loss"]]

    at = {"nodes": tried["nodes"]}
    sizes = [dict(zip(("width", "samples", "tests"), step)) for step in tried["steps"]]
    by_size = judged("step", [at | _MIDDLE | size | {"method": m} for m in _SIZED_BY for size in sizes])
    mean = by_size.groupby(["width", "samples", "tests"], sort=False).ess.mean()
    size = _named(mean.index.names, mean[mean >= mean.max() - _ENOUGH].index[0])

    eps = {method: tried["eps"].get(method, tried["eps"]["others"]) for method in CHOSEN_BY}
    pairs = [(method, e, rate) for method in CHOSEN_BY for e, rate in product(eps[method], tried["rates"])]
    by_eps = judged("ε and rate", [at | size | {"method": m, "eps": e, "rate": rate} for m, e, rate in pairs])
    mean = by_eps.groupby(["method", "eps", "rate"]).ess.mean()
    best = {method: size | _named(["eps", "rate"], mean[method].idxmax()) for method in CHOSEN_BY}
    chosen = {rung: best[method] for method, rungs in CHOSEN_BY.items() for rung in rungs}

    printed = "trained-printed-32"
    meshes = [n for n in tried["meshes"] if n != tried["nodes"]]
    options = [best[printed] | {"method": printed, "nodes": n, "eps": e} for n in meshes for e in eps[printed]]
    by_mesh = judged("ε on each mesh", options) if options else by_eps.iloc[:0]
    for nodes, one in by_mesh.groupby("nodes"):
        setting = best[printed] | {"eps": float(one.groupby("eps").ess.mean().idxmax())}
        chosen |= {(rung, int(nodes)): setting for rung in _ON_EACH_MESH}
    taken = [
        by_size[list(size)].eq(pd.Series(size)).all(axis=1),
        pd.Series(
            [row.eps == best[row.method]["eps"] and row.rate == best[row.method]["rate"] for row in by_eps.itertuples()]
        ),
        pd.Series([row.eps == chosen["printed", row.nodes]["eps"] for row in by_mesh.itertuples()], dtype=bool),
    ]
    table = pd.concat([by_size, by_eps, by_mesh], ignore_index=True)
    return table.assign(chosen=pd.concat(taken, ignore_index=True)), chosen


def _named(names: list[str], values: tuple) -> dict:
    return {name: value.item() if hasattr(value, "item") else value for name, value in zip(names, values)}
