"""Speed of the core: rates, floors, and how a training step's cost grows from 10³ to 10⁶ nodes.

    .venv/bin/python benchmarks/core.py            # all, about ten minutes
    .venv/bin/python benchmarks/core.py --largest 100000

Prints a table, writes benchmarks/core.csv, and records the bars in figures/claims.csv. Ratios are taken between
medians of runs that alternate, since clocks on shared machines drift.
"""

from __future__ import annotations

import argparse
import time

import common
import numpy as np
import pandas as pd
import skfem
from common import alternate
from skfem.helpers import dot, grad
from tqdm import tqdm

import pdevae
from pdevae._tensorflow import tf

EQUATION = pdevae.Diffusion(0.3) + pdevae.Transport() - pdevae.Source(1.0)
PATCH_NODES, N_PATCHES, SAMPLES = 32, 16, 4
TAPER_CENTRES = 256  # rows of A⁻¹ computed on large meshes: one solve each
SEED = tf.constant([0, 1])
tf.get_logger().setLevel("ERROR")  # each timed step is a graph of its own, on purpose


def network(dtype=tf.float64):
    """The surrogate of the experiments: (x, τ) → 32 → 64 → 64 → 1."""
    rng = np.random.default_rng(0)
    shapes = ((4, 32), (32, 64), (64, 64), (64, 1))
    weights = [tf.Variable(rng.normal(size=shape) / np.sqrt(shape[0]), dtype=dtype) for shape in shapes]

    def mu(x, z):
        h = tf.tanh((x @ weights[0][:2])[None] + (z @ weights[0][2:])[:, None])
        for w in weights[1:-1]:
            h = tf.tanh(tf.tensordot(h, w, 1))
        return tf.tensordot(h, weights[-1], 1)[..., 0]

    return weights, mu


def training_step(loss, weights, compiled: bool = False):
    @tf.function(jit_compile=compiled)
    def step(seed):
        with tf.GradientTape() as tape:
            value = loss(seed)
        return tape.gradient(value, weights)

    return lambda: step(SEED)


def element_rate() -> list[dict]:
    """Elements per second: our residuals for a batch of z, against scikit-fem's assembly of L[z], one z at a time."""
    mesh = pdevae.square(nodes=65_536)
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1(), intorder=0)
    form = skfem.BilinearForm(lambda u, v, w: 0.3 * dot(grad(u), grad(v)) + (w.t0 * grad(u)[0] + w.t1 * grad(u)[1]) * v)
    weak = pdevae.WeakForm(mesh, EQUATION)
    batch = 8
    z, u = tf.random.normal([batch, 2], dtype=tf.float64), tf.random.normal([batch, mesh.n_nodes], dtype=tf.float64)
    residual = tf.function(weak.residual)
    seconds = alternate(
        {"pdevae": lambda: residual(u, z), "scikit-fem": lambda: form.assemble(basis, t0=1.0, t1=2.0)}, 7
    )
    rates = {
        "pdevae": batch * mesh.n_elements / seconds["pdevae"],
        "scikit-fem": mesh.n_elements / seconds["scikit-fem"],
    }
    return [row("element rate", name, mesh, "elements/s", rate) for name, rate in rates.items()]


def exact_against_floor() -> list[dict]:
    """The exact penalty with its gradient, against the network on all nodes plus one prefactorised solve."""
    mesh = pdevae.square(nodes=16_384)
    penalty = pdevae.ExactPenalty(mesh, EQUATION, boundary=0.0)
    weights, mu = network()
    z, x = tf.random.normal([1, 2], dtype=tf.float64), tf.constant(mesh.points)
    r = np.random.default_rng(0).normal(size=len(mesh.interior))
    net = training_step(lambda seed: tf.reduce_sum(mu(x, z) ** 2), weights)
    seconds = alternate(
        {
            "exact penalty": training_step(lambda seed: penalty(mu, z), weights),
            "floor": lambda: (net(), penalty.inverse.factors.solve(r)),
        },
        15,
    )
    return [row("exact penalty with gradient", name, mesh, "s", value) for name, value in seconds.items()]


def steps_by_size(sizes: list[int]) -> list[dict]:
    """Seconds to build tables and per step, by number of nodes; all sizes take turns in one run."""
    weights, mu = network()
    z = tf.constant(np.random.default_rng(0).normal(size=(SAMPLES, 2)))
    rows, calls, meshes = [], {}, {}
    for nodes in tqdm(sizes, "tables"):
        start = time.perf_counter()
        mesh = meshes[nodes] = pdevae.square(nodes=nodes)
        rows.append(row("mesh", "square", mesh, "s", time.perf_counter() - start))
        for name, make in penalties(mesh).items():
            start = time.perf_counter()
            estimate = make()
            rows.append(row("tables", name, mesh, "s", time.perf_counter() - start))
            calls[name, nodes] = training_step(lambda seed, e=estimate: e(mu, z, seed), weights)
    seconds = alternate(calls, 40)
    return rows + [row("step", name, meshes[nodes], "s", value) for (name, nodes), value in seconds.items()]


def penalties(mesh: pdevae.Mesh) -> dict:
    some = np.random.default_rng(0).choice(mesh.interior, min(TAPER_CENTRES, len(mesh.interior)), replace=False)
    common = dict(patch_nodes=PATCH_NODES, n_patches=N_PATCHES, boundary=0.0)

    def local_part():
        penalty = pdevae.TwoLevelPenalty(mesh, EQUATION, **common)
        return lambda mu, z, seed: tf.reduce_sum(penalty.local.rows(mu, z, seed, N_PATCHES) ** 2)

    return {
        "tapered": lambda: pdevae.TaperedPenalty(mesh, EQUATION, **common, centres=some),
        "two-level (local part)": local_part,
        "multilevel": lambda: pdevae.MultilevelPenalty(mesh, EQUATION, **common),
    }


def row(what: str, name: str, mesh: pdevae.Mesh, unit: str, value: float) -> dict:
    return {"what": what, "name": name, "nodes": mesh.n_nodes, "unit": unit, "value": value}


def bars(table: pd.DataFrame) -> None:
    value = table.set_index(["what", "name", "nodes"]).value.sort_index()
    small, large = table[table.what == "step"].nodes.agg(["min", "max"])
    made = common.Bars("core")
    bar = made.add
    rate = value["element rate"].groupby("name").first()
    speed_up = rate["pdevae"] / rate["scikit-fem"]
    bar(
        "speed_elements",
        "Element residuals for a batch of z against scikit-fem's re-assembly, 65k nodes (elements per second, ratio)",
        "≥ 5",
        f"{speed_up:.1f} ({rate['pdevae'] / 1e6:.1f} against {rate['scikit-fem'] / 1e6:.2f} million/s)",
        speed_up >= 5,
    )
    exact = value["exact penalty with gradient"].groupby("name").first()
    over = exact["exact penalty"] / exact["floor"]
    bar(
        "speed_exact",
        "Exact penalty with gradient at 16k nodes against its floor: network on all nodes plus one solve (ratio)",
        "≤ 3",
        f"{over:.2f} ({1e3 * exact['exact penalty']:.0f} ms)",
        over <= 3,
    )
    for name, limit in (("tapered", 1.3), ("two-level (local part)", 1.3), ("multilevel", 1.5)):
        step = value["step", name]
        growth = step[large] / step[small]
        bar(
            f"speed_step_{name.split()[0]}",
            f"{name}: step time at {large:,} nodes against {small:,}, Q=32, P=16 (ratio)",
            f"≤ {limit}",
            f"{growth:.2f} ({1e3 * step[small]:.1f} ms → {1e3 * step[large]:.1f} ms)",
            growth <= limit,
        )
        built = value["tables", name, large]
        bar(
            f"speed_tables_{name.split()[0]}",
            f"{name}: building the tables at {large:,} nodes",
            "< 120 s",
            f"{built:.0f} s" + (f" ({TAPER_CENTRES} rows of A⁻¹)" if name == "tapered" else ""),
            built < 120,
        )
    made.record()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000, help="nodes of the largest mesh")
    largest = parser.parse_args().largest
    sizes = [nodes for nodes in (1024, 10_000, 99_856, 1_000_000) if nodes <= largest]
    table = pd.DataFrame(element_rate() + exact_against_floor() + steps_by_size(sizes))
    print(table.to_string(index=False))
    if largest >= 1_000_000:
        common.save(table, "core")
        bars(table)


if __name__ == "__main__":
    main()
