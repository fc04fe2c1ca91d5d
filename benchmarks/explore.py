"""How long a move in the explorer takes in the kernel: solve, draw, encode.

    .venv/bin/python benchmarks/explore.py

Prints a table, writes benchmarks/explore.csv, and records the bar in figures/claims.csv.
"""

from __future__ import annotations

import time

import common
import numpy as np
import pandas as pd

from study.explore import AnnealingPanel, ForwardPanel, PatchPanel
from study.explore.forward import solver_on

MOVES = 60
LIMIT = 100.0  # milliseconds


def milliseconds(move) -> np.ndarray:
    """Of each of many moves, the first few left out."""
    taken = []
    for k in range(MOVES + 5):
        begun = time.perf_counter()
        move(k)
        taken.append(1e3 * (time.perf_counter() - begun))
    return np.array(taken[5:])


def moves() -> dict:
    forward, patch, annealing = ForwardPanel(2000), PatchPanel(350), AnnealingPanel(500)
    solve = solver_on("star", 2000)
    return {
        "forward, 2,000 nodes: the solve alone": lambda k: solve(1.0, (0.5 * (k % 40), 3.0)),
        "forward, 2,000 nodes: τ moved, solved and drawn": lambda k: setattr(forward.tau[0], "value", 0.5 * (k % 40)),
        "mini-patch, 350 nodes: another vertex": lambda k: setattr(patch.vertex, "value", k),
        "ε: another stage": lambda k: setattr(annealing.stage, "value", k % 20),
    }


def bars(table: pd.DataFrame) -> None:
    ours, made = table.iloc[1], common.Bars("explore")
    made.add(
        "explore_move",
        "Explorer: τ moved on 2,000 nodes, solved and drawn (milliseconds in the kernel, 90th percentile of 60 moves)",
        f"< {LIMIT:.0f}",
        f"{ours.p90_ms:.0f} (median {ours.median_ms:.0f}, of which the solve {table.iloc[0].median_ms:.0f})",
        bool(ours.p90_ms < LIMIT),
    )
    made.record()


def main() -> None:
    rows = []
    for name, move in moves().items():
        taken = milliseconds(move)
        rows.append({"move": name, "median_ms": np.median(taken), "p90_ms": np.quantile(taken, 0.9)})
    table = pd.DataFrame(rows).round(1)
    print(table.to_string(index=False))
    common.save(table, "explore")
    bars(table)


if __name__ == "__main__":
    main()
