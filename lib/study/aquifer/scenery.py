"""Maps as tables: nodes with their values, triangles, wells, laboratory, rivers."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.spatial import cKDTree

from study.aquifer.splits import data, members, plain
from study.data import aquifer
from study.data.twin import CENTRE, LENGTH
from study.models.surrogate import NETWORK


def map_table(survey: str, nodes: int, **values: np.ndarray) -> pd.DataFrame:
    """``values`` at the nodes of the plain's mesh; lengths in km."""
    mesh, found = plain(survey, nodes), data(survey)
    x, y = (mesh.points * LENGTH + CENTRE).round(2).T
    i, j, k = mesh.triangles.T
    parts = [pd.DataFrame({"kind": "node", "x": x, "y": y} | values)]
    parts.append(pd.DataFrame({"kind": "triangle", "i": i, "j": j, "k": k}))
    early = found.wells.depth_early.notna().to_numpy()
    for kind, wells in (("training", early), ("new", ~early)):
        parts.append(pd.DataFrame(found.places[wells].round(1), columns=["x", "y"]).assign(kind=kind))
    edge = np.asarray(found.laboratory.exterior.coords).round(1)
    parts.append(pd.DataFrame(edge[:, :2], columns=["x", "y"]).assign(kind="laboratory"))
    parts.append(pd.DataFrame(columns=["x", "y", "part"], dtype=float) if found.simulated else _rivers())
    return pd.concat(parts, ignore_index=True).assign(simulated=found.simulated)


def land(survey: str, nodes: int) -> np.ndarray:
    """Land surface (ft) at the nodes."""
    return data(survey).land.at(plain(survey, nodes).points * LENGTH + CENTRE)


def to_wells(survey: str, nodes: int) -> np.ndarray:
    """km from each node to the nearest training well."""
    found = data(survey)
    wells = found.places[found.wells.depth_early.notna()]
    return cKDTree(wells).query(plain(survey, nodes).points * LENGTH + CENTRE)[0]


def _rivers() -> pd.DataFrame:
    """The larger rivers near the plain, simplified at 1 km; a ``part`` for each line."""
    lines = aquifer.rivers().geometry.line_merge().simplify(1.0).explode()
    lines = lines[lines.length > 5]
    rows = [
        pd.DataFrame(np.asarray(line.coords).round(1)[:, :2], columns=["x", "y"]).assign(part=number)
        for number, line in enumerate(lines)
    ]
    return pd.concat(rows, ignore_index=True).assign(kind="river")


def layers() -> pd.DataFrame:
    """Of the paper's forward surrogate."""
    rows = [(k + 1, n, m, "sigmoid" if k < 3 else "none", n * m + m) for k, (n, m) in enumerate(NETWORK.layers)]
    return pd.DataFrame(rows, columns=["layer", "inputs", "outputs", "activation", "parameters"])


def said(survey: str) -> str:
    """How many wells train and test."""
    wells = data(survey).wells
    early, late = wells.depth_early.notna(), wells.depth_late.notna()
    near = len(members(survey, "near")[0].training)
    return (
        f"{early.sum()} training wells, {late.sum()} test wells, {(~early).sum()} new; "
        f"stress test: {near} training wells within 60 km of the laboratory"
    )
