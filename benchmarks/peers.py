"""The transport inverse problem by what a user would pick instead, side by side, checked against the exact posterior.

    .venv/bin/python benchmarks/peers.py                  # all, about an hour and a half on an idle machine
    .venv/bin/python benchmarks/peers.py --sizes 1000 --seeds 1 --budget 60
    .venv/bin/python benchmarks/peers.py --only "CVI,"    # methods whose names begin so; the others' rows stay

Installs CUQIpy and DeepXDE into build/peers (versions in benchmarks/peers/*.txt), runs every method one after the other
with one thread, each run saved as it ends (build/peers/runs), writes benchmarks/peers.csv and peers.png and the bars.

Accuracy asked for: mean within 0.25 exact standard deviations, standard deviations within a factor 1.25. A sampler's
time to it is when its running moments come to stay inside; a method that gives a Gaussian at its end has its whole
time, compilation included; DeepXDE gives a point, which is asked for the mean alone. Beyond 10,000 nodes, and 4,000
with GaussianVI, only those are tried whose time would fit the budget on every problem, were it to grow as before; on no
mesh those that were over budget on the one before.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from functools import cache
from typing import NamedTuple

import common
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import tables
from tqdm import tqdm

import pdevae
from machinery.files import write_text
from pdevae.fem.domains import region_of
from pdevae.inference.fit import Diverged
from pdevae.inference.sampling import OverBudget
from study.transport.experiment import Setting, method_of, problem_of
from study.transport.problem import forward_on

BUILD = common.HERE.parent / "build" / "peers"
MEAN, RATIO = 0.25, 1.25
STEP = {"eps": 0.003, "rate": 0.005, "width": 24, "samples": 2, "tests": 64}
SETTING = {"domain": "star", "a": 1.0, "sensors": 40, "noise": 0.3, "steps": 10_000} | STEP
CHOSEN = {"trained-multilevel": {"rate": 0.01}, "trained-hard-32": {"eps": 0.001}}  # notebook 03, star, 2,000 nodes on
OURS = {
    "SolvedCVI, two-level (ours)": "solved-two-level",
    "SolvedCVI, exact penalty (ours)": "solved-exact",
    "SolvedCVI, hard taper": "solved-hard",
    "CVI, multilevel, trained (ours)": "trained-multilevel",
    "CVI, the paper's taper, uncoupled": "trained-hard-32",
    "HMC, sparse adjoint (ours)": "hmc-sparse",
    "HMC, dense solve (the paper's)": "hmc-dense",
    "Laplace, Gauss–Newton": "laplace",
    "GaussianVI, exact solves (ours)": pdevae.GaussianVI(),
    "Quadrature (the reference)": "quadrature",
}
PEERS = {"CUQIpy, NUTS": ("cuqipy", "cuqipy_nuts.py"), "DeepXDE, PINN": ("deepxde", "deepxde_pinn.py")}


class Exact(NamedTuple):
    """Moments of the exact posterior of τ."""

    mean: np.ndarray
    sd: np.ndarray


def install(peer: str) -> None:
    """Into a folder of its own, without dependencies: those are the project's."""
    if (BUILD / peer).exists():
        return
    listed = common.HERE / "peers" / f"{peer}.txt"
    target = BUILD / f".{peer}-new"
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", target, "-r", listed], check=True
    )
    os.replace(target, BUILD / peer)


def export(problem: pdevae.InverseProblem, path) -> None:
    """The discretised problem for programs that do not know pdevae."""
    mesh, inside = problem.mesh, problem.mesh.interior
    terms = [pdevae.Diffusion(SETTING["a"]), *(pdevae.Transport(e) for e in np.eye(2))]
    parts = [pdevae.WeakForm(mesh, term).matrix()[:, inside].tocsc() for term in terms]
    for part in parts:
        part.sort_indices()
    np.savez(
        path,
        **{f"data_{k}": part.data for k, part in enumerate(parts)},
        indices=parts[0].indices,
        indptr=parts[0].indptr,
        read=problem.read[:, inside].toarray(),
        y=problem.readings,
        sigma=problem.noise,
        a=SETTING["a"],
        sensors=problem.sensors,
        f=pdevae.WeakForm(mesh, pdevae.Diffusion() - pdevae.Source(1.0)).load(),
        source=1.0,
        outline=np.asarray(region_of(problem.mesh).shape.exterior.coords)[:-1],
    )


def run_peer(peer: str, script: str, problem: pdevae.InverseProblem, budget: float, write=export) -> dict:
    """Its process, with its own folder on the path; what it left behind."""
    given, left = BUILD / "problem.npz", BUILD / "left.npz"
    write(problem, given)
    left.unlink(missing_ok=True)
    command = [sys.executable, str(common.HERE / "peers" / script), str(given), str(left), str(budget)]
    environment = os.environ | {"PYTHONPATH": str(BUILD / peer), "TF_CPP_MIN_LOG_LEVEL": "3"}
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=3 * budget)
    except subprocess.TimeoutExpired:
        return {"status": "over budget", "note": "no answer within three times the budget"}
    if done.returncode:
        return {"status": "failed", "note": done.stderr.strip().splitlines()[-1][:200]}
    with np.load(left) as found:
        return {name: found[name] for name in found.files}


def moments(mean, sd, truth: Exact) -> dict:
    ratio = np.exp(np.abs(np.log(sd / truth.sd)).max()) if sd is not None else np.nan
    return {"mean_error": float(np.abs((mean - truth.mean) / truth.sd).max()), "sd_factor": float(ratio)}


def accurate(found: dict) -> bool:
    return found["mean_error"] <= MEAN and found["sd_factor"] <= RATIO


def when_accurate(draws: np.ndarray, times: np.ndarray, truth: Exact) -> float:
    """The time from which on the running moments stay inside; NaN if they never do."""
    looks = range(20, len(draws) + 1, 20)
    fine = [accurate(moments(draws[:k].mean(axis=0), draws[:k].std(axis=0), truth)) for k in looks]
    last_bad = max((k for k, ok in zip(looks, fine) if not ok), default=0)
    after = [k for k in looks if k > last_bad]
    return float(times[after[0] - 1]) if after else np.nan


def sampled(draws: np.ndarray, times: np.ndarray, setup: float, ess: float, truth: Exact) -> dict:
    found = moments(draws.mean(axis=0), draws.std(axis=0), truth)
    total = float(times[-1])
    more = {"setup": setup, "seconds": total, "to_accuracy": when_accurate(draws, times, truth)}
    return found | more | {"ess": ess, "ess_per_second": ess / (total - setup), "draws": len(draws)}


def _method(name: str, problem: pdevae.InverseProblem, budget: float):
    method = OURS[name]
    if not isinstance(method, str):
        return method
    setting = SETTING | CHOSEN.get(method, {})
    return method_of(Setting(**setting, nodes=problem.mesh.n_nodes, method=method, budget=budget))


def by_ours(name: str, problem: pdevae.InverseProblem, truth: Exact, seed: int, budget: float) -> dict:
    try:
        found = _method(name, problem, budget)(problem, seed)
    except (Diverged, OverBudget) as reason:
        status = "diverged" if isinstance(reason, Diverged) else "over budget"
        return {"status": status, "note": str(reason), "seconds": getattr(reason, "projected", np.nan)}
    if name.startswith("HMC"):
        said = found.diagnostics
        warm_up = pdevae.HMC().warm_up
        share = (warm_up + np.arange(1, said["draws"] + 1)) / (warm_up + said["draws"])  # steps cost alike
        times = found.setup_seconds + share * (found.seconds - found.setup_seconds)
        in_order = np.swapaxes(found.draws.reshape(found.chains, -1, found.draws.shape[1]), 0, 1).reshape(-1, 2)
        return sampled(in_order, np.repeat(times, found.chains), found.setup_seconds, said["ess"], truth)
    row = moments(found.mean, found.sd, truth) | {"setup": found.setup_seconds, "seconds": found.seconds}
    return row | {"to_accuracy": found.seconds if accurate(row) else np.nan}


def by_peer(name: str, problem: pdevae.InverseProblem, truth: Exact, budget: float) -> dict:
    import arviz

    left = run_peer(*PEERS[name], problem, budget)
    if "status" in left:
        return left
    if "draws" in left and not len(left["draws"]):
        return {"status": "over budget", "note": "no draw yet after its warm-up", "setup": float(left["setup"])}
    if "draws" in left:
        chain = {"tau": left["draws"][None]}
        ess = float(arviz.ess(arviz.convert_to_dataset(chain)).tau.min())
        return sampled(left["draws"], left["times"], float(left["setup"]), ess, truth)
    path, times = left["path"], left["times"]
    row = moments(path[-1], None, truth) | {"setup": float(left["setup"]), "seconds": float(times[-1])}
    bad = np.flatnonzero(np.abs((path - truth.mean) / truth.sd).max(axis=1) > MEAN)
    first = bad[-1] + 1 if len(bad) else 0
    return row | {"to_accuracy": float(times[first]) if first < len(times) else np.nan, "note": "mean only"}


@cache
def exact(nodes: int, seed: int) -> Exact:
    """By quadrature; kept, since it takes minutes on the largest mesh."""
    kept = BUILD / "runs" / f"exact-{nodes}-{seed}.json"
    if not kept.exists():
        problem = problem_of(Setting(**SETTING, nodes=nodes), seed)
        found = pdevae.exact(problem)
        write_text(kept, json.dumps({"mean": found.mean.tolist(), "sd": found.sd.tolist()}))
    return Exact(**{name: np.array(value) for name, value in json.loads(kept.read_text()).items()})


def goes_on(rows: list[dict], nodes: int, budget: float) -> bool:
    """Whether the time of a method that did ``rows`` fits the budget on so many nodes, were it to grow as it did."""
    if not rows:
        return True
    if any(row["status"] != "ok" for row in rows):
        return False
    known = [(np.log(row["nodes"]), np.log(row["seconds"])) for row in rows[-2:]]
    grows = (known[-1][1] - known[0][1]) / (known[-1][0] - known[0][0]) if len(known) == 2 else 1.0
    return known[-1][1] + max(grows, 1.0) * (np.log(nodes) - known[-1][0]) <= np.log(budget)


def all_sizes(name: str, sizes: list[int], seeds: int, budget: float, progress: tqdm) -> list[dict]:
    """On a mesh all problems are tried or none."""
    rows, free = [[] for _ in range(seeds)], 4000 if name.startswith("GaussianVI") else 10_000
    for nodes in sorted(sizes):
        over = any(of and of[-1]["status"] in ("over budget", "not tried") for of in rows)
        tried = not over and (nodes <= free or all(goes_on(of, nodes, budget) for of in rows))
        for seed, of in enumerate(rows):
            here = {"method": name, "nodes": nodes, "seed": seed}
            of.append(one(name, nodes, seed, budget) if tried else here | {"status": "not tried"})
            progress.update()
    return [row for of in rows for row in of]


def one(name: str, nodes: int, seed: int, budget: float) -> dict:
    """One method on one problem; kept, so that a run that was stopped goes on where it was."""
    kept = BUILD / "runs" / f"{name}-{nodes}-{seed}-{budget:g}.json".replace(" ", "_").replace("/", "_")
    if kept.exists():
        return json.loads(kept.read_text())
    truth = exact(nodes, seed)
    forward_on.cache_clear()  # a run compiles for itself: what a user waits for the first time
    problem = problem_of(Setting(**SETTING, nodes=nodes), seed)
    found = by_ours(name, problem, truth, seed, budget) if name in OURS else by_peer(name, problem, truth, budget)
    row = {"method": name, "nodes": nodes, "interior": len(problem.mesh.interior), "seed": seed, "status": "ok"} | found
    write_text(kept, json.dumps(row, default=float))
    return row


def draw(table: pd.DataFrame) -> None:
    """From the CSV alone."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    middle = tables.over_problems(table)
    colours = plt.colormaps["tab20"]([*range(0, 20, 2), *range(1, 20, 2)])
    for k, (name, part) in enumerate(middle.groupby("method", sort=False)):
        part = part.droplevel(0)
        style = dict(marker="osD^vP*Xd"[k % 9], color=colours[k], label=name, ms=5)
        left.loglog(part.index, part.to_accuracy, **style)
        right.loglog(part.seconds, part.mean_error, ls="", **style)
    left.set(xlabel="nodes", ylabel="seconds to the accuracy asked for", title="mean within 0.25 sd, sd within 1.25")
    right.axhline(MEAN, color="0.6", lw=0.8)
    right.set(xlabel="seconds in all", ylabel="error of the mean, exact sd", title="every size")
    right.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    figure.savefig(common.HERE / "peers.png", dpi=150)


def bars(table: pd.DataFrame) -> None:
    """Over the sizes from 4,000 nodes at which a method was tried; over all where it came no further."""
    made, middle = common.Bars("peers"), tables.over_problems(table[table.status != "not tried"])
    ours = middle.loc["SolvedCVI, two-level (ours)"].to_accuracy
    for name in [*PEERS, "HMC, sparse adjoint (ours)", "HMC, dense solve (the paper's)", "Laplace, Gauss–Newton"]:
        said, ahead = [], True
        tried = middle.loc[name]
        for nodes, row in (tried[tried.index >= 4000] if tried.index.max() >= 4000 else tried).iterrows():
            never = row.status if row.status != "ok" else "not reached"
            theirs = never if pd.isna(row.to_accuracy) else f"{row.to_accuracy:.3g} s"
            said.append(f"{nodes:,} nodes: {theirs} against {ours[nodes]:.3g} s")
            ahead &= bool(ours[nodes] < (np.inf if pd.isna(row.to_accuracy) else row.to_accuracy))
        key = name.split(",")[0].lower().replace(" ", "_")
        made.add(
            f"peers_{key}" + ("_dense" if "dense" in name else ""),
            f"SolvedCVI, two-level, ahead of {name}: time to a mean within 0.25 sd and an sd within 1.25, N ≥ 4,000",
            "less time",
            ", ".join(said),
            ahead,
        )
    made.record()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 4000, 10_000, 100_000])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--budget", type=float, default=150.0, help="seconds that a run may take")
    parser.add_argument("--only", default="", help="methods whose names begin so; the rows of the others stay")
    options = parser.parse_args()
    common.one_thread()
    if not (names := [name for name in [*OURS, *PEERS] if name.startswith(options.only)]):
        parser.error(f"no method's name begins with {options.only}: {', '.join([*OURS, *PEERS])}")
    for name in set(names) & set(PEERS):
        install(PEERS[name][0])
    with tqdm(total=len(names) * options.seeds * len(options.sizes), desc="runs") as progress:
        rows = [
            row for name in names for row in all_sizes(name, options.sizes, options.seeds, options.budget, progress)
        ]
    table = pd.DataFrame(rows)
    shown = ["method", "nodes", "seed", "setup", "seconds", "to_accuracy", "mean_error", "sd_factor", "ess_per_second"]
    print(table.reindex(columns=[*shown, "status"]).to_string(index=False, float_format="%.3g"))
    if max(options.sizes) >= 4000:
        if options.only:
            kept = pd.read_csv(common.HERE / "peers.csv")
            table = pd.concat([table, kept[~kept.method.isin(names)]])
            table = table.sort_values("method", key=lambda names: names.map([*OURS, *PEERS].index), kind="stable")
        common.save(table, "peers")
        draw(pd.read_csv(common.HERE / "peers.csv"))
        bars(table)


if __name__ == "__main__":
    main()
