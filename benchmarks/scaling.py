"""How time and memory grow from 10³ to 3·10⁶ nodes: mesh, tables, step of every penalty; fitted exponents, the floor.

    .venv/bin/python benchmarks/scaling.py                    # about half an hour on an idle machine
    .venv/bin/python benchmarks/scaling.py --largest 1000000  # about a quarter

Each penalty and size runs in a process of its own, so that its memory is its own; a size is left out if the memory of
the size before, grown with N, is more than this machine has, or if it takes more than a quarter of an hour.

The floor of a step is what it cannot do without: the network at the nodes it looks at, forwards and backwards, at this
machine's rates of matrix products and of tanh, or the bytes of tables, factors and values it must touch, at this
machine's rate of copying. Writes benchmarks/scaling.csv, scaling.png and the bars.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import common
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import psutil
from core import EQUATION, N_PATCHES, PATCH_NODES, SAMPLES, SEED, TAPER_CENTRES, network, training_step
from tqdm import tqdm

import pdevae
from pdevae._tensorflow import tf

SIZES = (1000, 10_000, 100_000, 1_000_000, 3_000_000)
PENALTIES = ("exact", "tapered", "two-level", "multilevel")
STEPS, SECONDS = 20, 60.0  # timed: as many steps, or as long
DTYPE = tf.float32  # as CVI trains
MOST = 900.0  # seconds, for mesh, tables and steps of one


def penalty_of(name: str, mesh: pdevae.Mesh) -> pdevae.Penalty:
    patch = dict(patch_nodes=PATCH_NODES, n_patches=N_PATCHES, boundary=0.0, dtype=DTYPE)
    if name == "exact":
        return pdevae.ExactPenalty(mesh, EQUATION, boundary=0.0, dtype=DTYPE)
    if name == "two-level":
        return pdevae.TwoLevelPenalty(mesh, EQUATION, **patch)
    if name == "multilevel":
        return pdevae.MultilevelPenalty(mesh, EQUATION, **patch)
    centres = np.random.default_rng(0).permutation(mesh.interior)[:TAPER_CENTRES]
    return pdevae.TaperedPenalty(mesh, EQUATION, centres=centres, **patch)


def measured(name: str, nodes: int) -> dict:
    """Seconds of mesh, tables and step, and the process's largest memory."""
    begun = time.perf_counter()
    mesh = pdevae.star(nodes=nodes)
    meshed = time.perf_counter()
    before = _peak_gigabytes()
    penalty = penalty_of(name, mesh)
    tabled = time.perf_counter()
    weights, mu = network(DTYPE)
    z = tf.constant(np.random.default_rng(0).normal(size=(SAMPLES, 2)), DTYPE)
    step = training_step(lambda seed: penalty(mu, z, seed), weights, penalty.compiles)
    step()
    taken = []
    while len(taken) < STEPS and sum(taken) < SECONDS:
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    return {
        "penalty": name,
        "nodes": mesh.n_nodes,
        "mesh_seconds": meshed - begun,
        "tables_seconds": tabled - meshed,
        "step_seconds": float(np.median(taken)),
        "floor_seconds": floor(name, penalty, z),
        "mesh_gigabytes": before,
        "peak_gigabytes": _peak_gigabytes(),
    }


def _peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def floor(name: str, penalty: pdevae.Penalty, z: tf.Tensor) -> float:
    """The larger of arithmetic and traffic that a step cannot avoid, in seconds."""
    parameters = 4 * 32 + 32 * 64 + 64 * 64 + 64
    values = SAMPLES * _places(penalty, z)
    flops = 3 * 2 * parameters * values  # forwards once, backwards twice
    bytes_moved = DTYPE.size * 3 * (32 + 64 + 64) * values  # activations written, read back, their gradients
    if name == "exact":
        bytes_moved += 2 * 12 * (penalty.inverse.factors.L.nnz + penalty.inverse.factors.U.nnz) * SAMPLES
    flops_per_second, bytes_per_second, tanh_per_second = machine()
    arithmetic = flops / flops_per_second + (32 + 64 + 64) * values / tanh_per_second
    return max(arithmetic, bytes_moved / bytes_per_second)


def _places(penalty: pdevae.Penalty, z: tf.Tensor) -> int:
    """At how many places a step asks for the field."""
    asked = []

    def mu(x, z):
        asked.append(int(x.shape[0]))
        return tf.zeros([SAMPLES, x.shape[0]], x.dtype)

    penalty(mu, z, SEED)
    return sum(asked)


def machine() -> tuple[float, float, float]:
    """Floating-point operations, bytes and tanh per second of one core, by a matrix product, a copy and NumPy."""
    a = np.random.default_rng(0).normal(size=(1000, 1000)).astype(DTYPE.as_numpy_dtype)
    big = np.ones(20_000_000)
    into = np.empty_like(big)
    ways = {"product": lambda: a @ a, "copy": lambda: np.copyto(into, big), "tanh": lambda: np.tanh(a)}
    seconds = common.alternate(ways, 5)
    return 2e9 / seconds["product"], 2 * big.nbytes / seconds["copy"], a.size / seconds["tanh"]


def exponent(part: pd.DataFrame, column: str) -> float:
    """Least squares on logarithms from 10,000 nodes on, where fixed costs are over."""
    part = part[part.nodes > 5000]
    return float(np.polyfit(np.log(part.nodes), np.log(part[column]), 1)[0])


def draw(table: pd.DataFrame) -> None:
    """From the CSV alone."""
    figure, axes = plt.subplots(1, 4, figsize=(14, 3.8), layout="constrained")
    for k, (name, part) in enumerate(table.groupby("penalty", sort=False)):
        for ax, column in zip(axes, ("tables_seconds", "step_seconds", "peak_gigabytes")):
            label = f"{name}: N^{exponent(part, column):.2f}"
            ax.loglog(part.nodes, part[column], "o-", color=f"C{k}", ms=4, label=label)
        axes[1].loglog(part.nodes, part.floor_seconds, ":", color=f"C{k}")
    mesh = table[table.penalty == table.penalty.iloc[-1]]
    axes[3].loglog(mesh.nodes, mesh.mesh_seconds, "ko-", ms=4, label=f"N^{exponent(mesh, 'mesh_seconds'):.2f}")
    titles = (
        "tables: seconds",
        "a step with gradient: seconds\n(dotted: floor)",
        "largest memory: GB",
        "mesh: seconds",
    )
    for ax, title in zip(axes, titles):
        ax.set(xlabel="nodes", title=title)
        ax.legend(frameon=False, fontsize=7)
    figure.savefig(common.HERE / "scaling.png", dpi=150)


def bars(table: pd.DataFrame) -> None:
    made = common.Bars("scaling")
    for name, part in table.groupby("penalty", sort=False):
        small, large = part.iloc[0], part.iloc[-1]
        grows = exponent(part, "step_seconds")
        target = 1.3 if name in ("exact", "two-level") else 0.1
        made.add(
            f"scaling_step_{name.replace(', ', '_')}",
            f"{name}: exponent in N of a step's time, 10⁴ to {large.nodes:,.0f} nodes",
            f"≤ {target}",
            f"{grows:.2f} ({1e3 * small.step_seconds:.1f} ms at {small.nodes:,.0f}, {1e3 * large.step_seconds:.0f} ms; "
            f"{large.step_seconds / large.floor_seconds:.1f} times the floor; {large.peak_gigabytes:.1f} GB)",
            grows <= target,
        )
    million = table[table.nodes.between(9e5, 1.1e6)].set_index("penalty")
    some = million.loc["multilevel"]
    times = some.step_seconds / some.floor_seconds
    made.add(
        "scaling_floor",
        f"A step of the multilevel penalty with its gradient, {some.nodes:,.0f} nodes: times its floor (the "
        "network's arithmetic at the places it looks at, and bytes)",
        "≤ 3",
        f"{times:.1f} ({1e3 * some.step_seconds:.1f} ms against {1e3 * some.floor_seconds:.1f} ms)",
        times <= 3,
    )
    made.record()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=SIZES[-1])
    parser.add_argument("--again", nargs="+", choices=PENALTIES, help="these alone; the others' rows stay")
    parser.add_argument("--one", nargs=2, metavar=("PENALTY", "NODES"), help="measure this one and print it as JSON")
    options = parser.parse_args()
    common.one_thread()
    if options.one:
        print(json.dumps(measured(options.one[0], int(options.one[1]))))
        return
    measure = options.again or PENALTIES
    todo = [(name, nodes) for nodes in SIZES if nodes <= options.largest for name in measure]
    rows, gigabytes_per_node = [], {}
    for name, nodes in tqdm(todo, "sizes"):
        wanted = nodes * gigabytes_per_node.get(name, 0)
        if wanted > psutil.virtual_memory().total / 2**30:
            tqdm.write(f"{name} at {nodes:,} nodes would take {wanted:.0f} GB: left out")
            continue
        command = [sys.executable, __file__, "--one", name, str(nodes)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=MOST)
        except subprocess.TimeoutExpired:
            tqdm.write(f"{name} at {nodes:,} nodes takes more than {MOST / 60:.0f} minutes: left out")
            continue
        if done.returncode:
            tqdm.write(f"{name} at {nodes:,} nodes ended: {(done.stderr.strip().splitlines() or ['killed'])[-1]}")
            continue
        rows.append(json.loads(done.stdout.splitlines()[-1]))
        gigabytes_per_node[name] = rows[-1]["peak_gigabytes"] / rows[-1]["nodes"]
    table = pd.DataFrame(rows)
    if options.again:
        before = pd.read_csv(common.HERE / "scaling.csv")
        table = pd.concat([table, before[~before.penalty.isin(options.again)]])
    table = pd.concat([table[table.penalty == name] for name in PENALTIES])
    print(table.to_string(index=False, float_format="%.3g"))
    if options.largest >= 1_000_000:
        common.save(table, "scaling")
        draw(pd.read_csv(common.HERE / "scaling.csv"))
        bars(table)


if __name__ == "__main__":
    main()
