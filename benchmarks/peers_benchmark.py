"""The published benchmark of 64 coefficients by CUQIpy's NUTS and by our methods: seconds to an accuracy.

    .venv/bin/python benchmarks/peers_benchmark.py        # about ten minutes on an idle machine

Aristoff & Bangerth's problem as in notebook 08, with its bilinear elements; judged by the chains of that notebook
(figures/fig_benchmark.csv). One thread each, one after the other; writes benchmarks/peers_benchmark.csv and the bar.
"""

from __future__ import annotations

import argparse

import common
import numpy as np
import pandas as pd
import peers
from peers_fields import CUQI, MEDIAN, judged, kept, when_accurate
from tqdm import tqdm

from pdevae import InverseProblem
from pdevae._tensorflow import tf
from study.fields import benchmark, experiment

OURS = ("Laplace", "GaussianVI, full", "GaussianVI, low-rank", "FlowVI")
NEAR = 58 / 64  # of the means are to be near the chains'


def export(problem: InverseProblem, path) -> None:
    """The discretised problem for programs that do not know pdevae."""
    form = problem.forward.form
    grad, weight = np.stack(form.grad_phi), form.weight.numpy()  # [k, E, q, 2], [E, q]
    loads = benchmark.LOAD * np.einsum("eq,keq->ke", weight, np.stack(form.phi))
    cell = benchmark.cell(tf.constant(form.basis.mesh.p[:, form.basis.mesh.t].mean(axis=1).T)).numpy()
    np.savez(
        path,
        b=benchmark.MEAN,
        B=benchmark.SD * np.eye(benchmark.SIDE**2)[cell],
        K=np.einsum("eq,ieqd,jeqd->eij", weight, grad, grad),
        cells=form.corners.T,
        inside=form.inside,
        known=form.edge_values(None, 1)[0],
        f=np.bincount(form.corners.ravel(), loads.ravel())[form.inside],
        read=problem.read.toarray(),
        y=problem.readings,
        at_0=problem.predict(tf.zeros([1, problem.size], tf.float64))[0],
        sigma=problem.noise,
    )


def chains() -> dict:
    """Moments of z by notebook 08's chains."""
    table = pd.read_csv(common.HERE.parent / "figures" / "fig_benchmark.csv", low_memory=False)
    cells = table[(table.kind == "cell") & (table.elements == "Q1") & table.r_hat.notna()].sort_values("cell")
    mean, sd = cells["mean"].to_numpy(), cells["sd"].to_numpy()
    return {"mean": (mean - benchmark.MEAN) / benchmark.SD, "sd": sd / benchmark.SD}


def one(name: str, options) -> dict:
    def run() -> dict:
        problem = benchmark.problem(experiment.readings(256))
        if name == CUQI:
            left = peers.run_peer("cuqipy", "cuqipy_field.py", problem, options.budget, export)
            if "status" in left:
                return {"status": left["status"]}
            draws, times = left["draws"], left["times"]
        else:
            found = experiment.METHODS[name](experiment.Method(name))(problem, seed=0)
            draws, times = found.draws, np.full(len(found.draws), found.seconds)
        reference = chains()
        there = when_accurate(draws, times, reference, NEAR)
        return {"seconds": float(times[-1]), "to_accuracy": there} | judged(draws, reference)

    return {"method": name, "status": "ok"} | kept(f"benchmark-{name}-{options.budget:g}", run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--budget", type=float, default=300.0, help="seconds that CUQIpy may take")
    options = parser.parse_args()
    common.one_thread()
    peers.install("cuqipy")
    table = pd.DataFrame([one(name, options) for name in tqdm([*OURS, CUQI], desc="runs")])
    common.save(table, "peers_benchmark")
    at = table.set_index("method").to_accuracy
    bars = common.Bars("peers_benchmark")
    bars.add(
        "benchmark_cuqipy",
        "FlowVI ahead of CUQIpy's NUTS in Laplace's coordinates on the benchmark of 64 coefficients: seconds until 58 "
        f"means are within {MEDIAN} sd of the chains'",
        "less time",
        ", ".join(f"{name} {'not there' if pd.isna(s) else f'{s:.0f} s'}" for name, s in at.items()),
        bool(at["FlowVI"] < (np.inf if pd.isna(at[CUQI]) else at[CUQI])),
    )
    bars.record()


if __name__ == "__main__":
    main()
