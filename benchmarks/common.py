"""What benchmarks share: alternating clocks, bars, and where tables go."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import tables

from machinery import claims
from machinery.files import write_text

HERE = Path(__file__).parent
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def one_thread() -> None:
    """Start this program again with one thread, if it has more: libraries count them when they are loaded."""
    wanted = dict.fromkeys(_THREADS, "1")
    if any(os.environ.get(name) != "1" for name in wanted):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | wanted)


def alternate(calls: dict, repeats: int) -> dict[str, float]:
    """Median seconds of each call, the calls taking turns; the first round warms up."""
    seconds = {name: [] for name in calls}
    for round_number in range(repeats + 1):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(taken)) for name, taken in seconds.items()}


class Bars:
    """Rows of claims.csv about one benchmark's table."""

    def __init__(self, table: str):
        self.artefact, self.rows = f"benchmarks/{table}.csv", []

    def add(self, claim_id: str, claim: str, target: str, ours: str, met: bool) -> None:
        verdict = "met" if met else "missed"
        self.rows.append(claims.row(claim_id, "bar", claim, target, ours, verdict, "benchmark", self.artefact))

    def record(self) -> None:
        claims.merge(HERE.parent / "figures", self.rows, [self.artefact])
        tables.update()
        print(self.text())

    def text(self) -> str:
        return pd.DataFrame(self.rows)[["claim_id", "paper_value", "our_value", "verdict"]].to_string(index=False)


def save(table: pd.DataFrame, name: str) -> None:
    write_text(HERE / f"{name}.csv", table.to_csv(index=False, float_format="%.6g"))
