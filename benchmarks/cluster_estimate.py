"""What the full grid of the transport experiment needs on many cores: all methods, ten replicates, meshes to 10⁶ nodes.

    .venv/bin/python benchmarks/cluster_estimate.py            # measures memory too: some minutes
    .venv/bin/python benchmarks/cluster_estimate.py --trial    # memory at small sizes, nothing written

Where notebook 4 timed a run (figures/fig_time_compar.csv), its median is the cost. Beyond, set-up and the rest each
follow a power of the number of nodes, fitted by least squares of logarithms to the sizes within a decade of the largest
timed; a fitted exponent below 0 counts as 0. The range: exponents two standard errors down, and up by two standard
errors or to what theory says of the algorithm at worst, whichever is more (sparse LU in the plane 1.5, a solve for
every row of A⁻¹ 2, dense LU 3); from two timings alone, which leave no residual, as far down as up. Memory is the peak
of a process that runs the method at two sizes, and a straight line beyond. Prints the table and writes
benchmarks/cluster_estimate.csv; its rows "all" are the sums, with the hours on all cores.
"""

from __future__ import annotations

import argparse
import heapq
import json
import subprocess
import sys
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

HERE = Path(__file__).parent
CORES, REPLICATES = 100, 10
SIZES = (500, 2_000, 10_000, 100_000, 1_000_000)
STEPS = 10_000  # of a method trained by descent
LARGEST_WORKER = 64.0  # GB; what needs more is listed, not summed

# Exponents of theory at worst: of a run's main part (1.5 where none is named), and of a set-up apart from it
WORST = {
    "hmc-dense": 3.0,
    "trained-printed-32": 0.0,
    "trained-printed-128": 0.0,
    "trained-two-level": 1.5,
    "trained-exact": 1.5,
}
WORST_SETUP = {"trained-printed-32": 2.0, "trained-printed-128": 2.0, "trained-two-level": 1.5, "trained-exact": 1.5}
# Not timed: main part as that of the first, set-up as that of the second
PRICED_AS = {
    "trained-printed-64": ("trained-printed-32", "trained-printed-128"),
    "trained-wendland-32": ("trained-printed-32", "trained-printed-32"),
    "trained-pointwise": ("trained-printed-32", None),
    "solved-hard": ("solved-exact", "trained-printed-32"),
}
# Whose memory is measured, and who is like them: factors of L[τ], of A, patches, rows of A⁻¹
MEASURED = ("quadrature", "solved-exact", "solved-two-level", "trained-printed-32", "trained-two-level")
MEMORY_AS = {"hmc-sparse": "quadrature", "trained-exact": "solved-exact", "trained-pointwise": "solved-two-level"}
CONFIG = dict(domain="star", a=1.0, sensors=40, noise=0.3, steps=20, eps=0.003, rate=0.005)
ONE_REPLICATE = """import json, resource, sys
from study.transport import experiment as transport
transport.infer(transport.Setting(**json.loads(sys.argv[1])), 0)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"""


@dataclass(frozen=True)
class PowerLaw:
    """Medians where they were measured, between them by interpolation, and a power of the nodes beyond."""

    measured: dict[int, float]
    exponent: float
    error: float  # standard error of the exponent
    worst: float  # exponent of theory

    @classmethod
    def fitted(cls, nodes: pd.Series, seconds: pd.Series, worst: float) -> PowerLaw:
        top = nodes >= nodes.max() / 10
        x, y = np.log(nodes[top].to_numpy(float)), np.log(seconds[top].to_numpy(float))
        slope, intercept = np.polyfit(x, y, 1)
        spread = np.sum((y - slope * x - intercept) ** 2) / max(len(x) - 2, 1)
        error = np.sqrt(spread / np.sum((x - x.mean()) ** 2)) if len(x) > 2 else max(worst - slope, 0.0) / 2
        return cls(seconds.groupby(nodes).median().sort_index().to_dict(), max(slope, 0.0), error, worst)

    def at(self, nodes: int) -> np.ndarray:
        """Seconds: low, middle, high."""
        sizes, seconds = map(np.array, zip(*self.measured.items()))
        if nodes <= sizes[-1]:
            return np.full(3, np.exp(np.interp(np.log(nodes), np.log(sizes), np.log(seconds))))
        return seconds[-1] * (nodes / sizes[-1]) ** np.array(self.exponents)

    @property
    def exponents(self) -> tuple[float, float, float]:
        away = 2 * self.error
        return max(self.exponent - away, 0.0), self.exponent, max(self.exponent + away, self.worst)


def laws(timings: pd.DataFrame) -> dict[str, list[PowerLaw]]:
    """Method → what adds up to a run: its main part and, where the two grow differently, the set-up."""
    main, setup = {}, {}
    for method, part in timings[timings.measure == "run"].groupby("method"):
        seconds = part.seconds.fillna(part.projected_seconds)  # what one gradient foretold where a run was over budget
        if method in WORST_SETUP:
            seconds = seconds - part.setup_seconds
            setup[method] = PowerLaw.fitted(part.nodes, part.setup_seconds, WORST_SETUP[method])
        main[method] = PowerLaw.fitted(part.nodes, seconds, WORST.get(method, 1.5))
    for penalty in ("two-level", "exact"):
        part, method = timings[(timings.measure == "step") & (timings.method == penalty)], f"trained-{penalty}"
        main[method] = PowerLaw.fitted(part.nodes, part.milliseconds * STEPS / 1e3, WORST[method])
        setup[method] = PowerLaw.fitted(part.nodes, part.setup_seconds, WORST_SETUP[method])
    found = {method: [main[method], *filter(None, [setup.get(method)])] for method in main}
    return found | {name: [main[m], *([setup[s]] if s else [])] for name, (m, s) in PRICED_AS.items()}


def peak_memory(method: str, nodes: int) -> float:
    """GB at the peak of a process that runs one replicate."""
    config = json.dumps(CONFIG | {"method": method, "nodes": nodes})
    done = subprocess.run([sys.executable, "-c", ONE_REPLICATE, config], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * (1 if sys.platform == "darwin" else 1024) / 1e9  # macOS counts bytes


def memory(sizes: tuple[int, int]) -> dict[str, np.ndarray]:
    """Method → GB at zero nodes, and per node."""
    asked = [(method, nodes) for method in MEASURED for nodes in sizes]
    peaks = np.array([peak_memory(*one) for one in tqdm(asked, "memory")]).reshape(-1, 2)
    slopes = np.maximum(np.diff(peaks, axis=1)[:, 0] / (sizes[1] - sizes[0]), 0.0)
    return {
        method: np.array([peak[1] - slope * sizes[1], slope]) for method, peak, slope in zip(MEASURED, peaks, slopes)
    }


def gigabytes(method: str, nodes: int, lines: dict[str, np.ndarray]) -> float:
    if method == "hmc-dense":  # besides what any process needs, L[τ] and its factors
        return lines["quadrature"][0] + 2 * 8 * nodes**2 / 1e9
    like = MEMORY_AS.get(method, method if method in lines else "trained-printed-32")
    return float(lines[like] @ [1, nodes])


def grid(timings: pd.DataFrame, lines: dict[str, np.ndarray]) -> pd.DataFrame:
    """A row per method and mesh: exponents, hours of a replicate, hours of all, memory of a worker."""
    rows = []
    for method, parts in laws(timings).items():
        for nodes in SIZES:
            hours = sum(part.at(nodes) for part in parts) / 3600
            leading = max(parts, key=lambda part: part.at(nodes)[1])
            rows.append(
                {"method": method, "nodes": nodes, "replicates": REPLICATES, "timed_to": max(leading.measured)}
                | dict(zip(("exponent_low", "exponent", "exponent_high"), leading.exponents))
                | dict(zip(("replicate_hours_low", "replicate_hours", "replicate_hours_high"), hours))
                | dict(zip(("cpu_hours_low", "cpu_hours", "cpu_hours_high"), REPLICATES * hours))
                | {"memory_gb": gigabytes(method, nodes, lines)}
            )
    return pd.DataFrame(rows)


def makespan(hours: np.ndarray) -> float:
    """Hours until all are done on the cores, the longest begun first."""
    free = [0.0] * CORES
    for one in sorted(hours, reverse=True):
        heapq.heapreplace(free, free[0] + one)
    return max(free)


def sums(table: pd.DataFrame) -> list[dict]:
    """Of the meshes up to each of the larger ones, what fits into a worker; with the dense solve and without."""
    rows = []
    for largest, (name, without) in product(SIZES[2:], (("all", ""), ("all but hmc-dense", "hmc-dense"))):
        counted = table[(table.nodes <= largest) & (table.memory_gb <= LARGEST_WORKER) & (table.method != without)]
        row = {"method": name, "nodes": largest, "replicates": REPLICATES * len(counted)}
        for end in ("_low", "", "_high"):
            each = counted[f"replicate_hours{end}"].to_numpy()
            row[f"replicate_hours{end}"] = each.max()  # the floor of the next
            row[f"wall_hours{end}"] = makespan(np.repeat(each, REPLICATES))
            row[f"cpu_hours{end}"] = REPLICATES * each.sum()
        rows.append(row | {"cores": CORES, "memory_gb": counted.memory_gb.max()})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trial", action="store_true", help="memory at small sizes; nothing is written")
    trial = parser.parse_args().trial
    timings = pd.read_csv(HERE.parent / "figures" / "fig_time_compar.csv")
    table = grid(timings, memory((300, 600) if trial else (2_000, 10_000)))
    table = pd.concat([table, pd.DataFrame(sums(table))], ignore_index=True)
    print(table.drop(columns=["replicates", "timed_to"]).to_string(index=False, float_format="%.3g", na_rep=""))
    left_out = table[table.memory_gb > LARGEST_WORKER]
    print("more than", LARGEST_WORKER, "GB:", ", ".join(f"{r.method} at {r.nodes:,}" for r in left_out.itertuples()))
    if not trial:
        table.to_csv(HERE / "cluster_estimate.csv", index=False)


if __name__ == "__main__":
    main()
