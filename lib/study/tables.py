"""Meshes and other things of several kinds as one table of columns, which a CSV can hold."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pdevae.fem.mesh import Mesh


def columns(*tables: dict) -> dict[str, np.ndarray]:
    """Several small tables as one, a ``kind`` column telling them apart; absent values are NaN."""
    table = pd.concat([pd.DataFrame(t) for t in tables], ignore_index=True)
    return {name: table[name].to_numpy(str if name == "kind" else float) for name in table}


def mesh_columns(mesh: Mesh, **nodal) -> tuple[dict, dict]:
    """A mesh as two tables: nodes with their values, triangles by node number."""
    x, y = mesh.points.T
    i, j, k = mesh.triangles.T
    return {"kind": "node", "x": x, "y": y, **nodal}, {"kind": "triangle", "i": i, "j": j, "k": k}
