"""Settings by what a practitioner has: the effective size of q's importance weights from a few exact solves.

Choices for each family of rungs, one after the other, on a problem of the same region that no figure shows: ε and
Adam's rate with the smallest step, on one mesh; then on each mesh how large a step is, and ε again with such steps;
and where that is not good yet, all pairs of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pandas as pd

from study.transport import experiment as transport

# Whose trials choose a rung's last ε (the first is ten times it), Adam's rate and the size of a step
CHOSEN_BY = {
    "trained-printed-32": ("printed", "overwritten", "coupled"),
    "trained-hard-32": ("hard", "wendland"),
    "trained-multilevel": ("multilevel", "prior", "exact", "two-level"),
    "trained-pointwise": ("pointwise",),
    "trained-pointwise-soft": ("pointwise-soft",),
}
_ONE_MESH = ("trained-pointwise", "trained-pointwise-soft")  # they know no mesh
# N/P is there so that one ε serves all meshes; the step of the other two grows with the mesh
_FIRST_CHOICE = ("coupled", "exact", "two-level")
_ENOUGH = 0.02  # effective share by which a larger step must be better to be taken
_GOOD = 0.9  # effective share below which all pairs of a step's size and ε are tried
_SEED = 1002  # of the problems tried


def choose(run: Callable, problem: dict, steps: int, tried: dict) -> tuple[pd.DataFrame, dict]:
    """All trials as a table, and the chosen settings by rung, region and nodes (``None``: those of the first choice).

    ``run`` takes a function, configurations and seeds (``replicates.run``). ``tried`` has ``domains``, ``nodes`` (of
    the first choice), ``meshes``, ``steps`` (lists of width, samples of τ and test nodes, cheapest first), ``eps`` (by
    method, or ``others``) and ``rates``; if not all families are asked for, ``families``.
    """
    families = tried.get("families", tuple(CHOSEN_BY))
    sizes = [dict(zip(("width", "samples", "tests"), step)) for step in tried["steps"]]
    eps = {method: tried["eps"].get(method, tried["eps"]["others"]) for method in families}
    tables = []

    def best(choice: str, options: list[dict], by: list[str], enough: float = 0.0) -> dict[tuple, tuple[dict, float]]:
        """By the columns ``by``: the first of the options whose effective share is within ``enough`` of the best, and
        that share."""
        table = run(transport.trial, [problem | {"steps": steps} | option for option in options], [_SEED])
        table = table[["domain", "nodes", "method", *transport.SETTINGS, "ess", "k", "loss"]]
        good = table[table.ess >= table.groupby(by).ess.transform("max") - enough]
        taken = good.drop_duplicates(by)
        tables.append(table.assign(choice=choice, chosen=table.index.isin(taken.index)))
        settings = taken[list(transport.SETTINGS)].to_dict("records")
        return dict(zip(taken[by].itertuples(index=False, name=None), zip(settings, taken.ess)))

    first = {"nodes": tried["nodes"]} | sizes[0]
    options = [
        first | {"method": method, "domain": domain, "eps": e, "rate": rate}
        for method, domain in product(families, tried["domains"])
        for e, rate in product(eps[method], tried["rates"])
    ]
    found = {(*key, None): value for key, value in best("ε and rate", options, ["method", "domain"]).items()}

    each = ["method", "domain", "nodes"]
    places = [
        (method, domain, nodes)
        for method, domain in product(families, tried["domains"])
        for nodes in ([tried["nodes"]] if method in _ONE_MESH else tried["meshes"])
    ]
    start = {place: dict(zip(each, place)) | found[*place[:2], None][0] for place in places}
    if places and len(sizes) > 1:
        sized = [start[place] | size for place in places for size in sizes]
        start |= {place: start[place] | s for place, (s, _) in best("size of a step", sized, each, _ENOUGH).items()}
    if places and max(map(len, eps.values())) > 1:
        found |= best("ε on each mesh", [start[place] | {"eps": e} for place in places for e in eps[place[0]]], each)
        poor = [place for place in places if found[place][1] < _GOOD] if len(sizes) > 1 else []
        pairs = [start[place] | size | {"eps": e} for place in poor for size in sizes for e in eps[place[0]]]
        found |= best("size and ε", pairs, each) if pairs else {}
    chosen = {
        (rung, *place): value
        for (method, *place), (value, _) in found.items()
        for rung in CHOSEN_BY[method]
        if place[1] is None or rung not in _FIRST_CHOICE
    }
    return pd.concat(tables, ignore_index=True), chosen


def setting(chosen: dict, rung: str, domain: str, nodes: int) -> dict:
    """What was chosen for a rung on this mesh, or on the mesh of the first choice."""
    return chosen.get((rung, domain, nodes), chosen[rung, domain, None])
