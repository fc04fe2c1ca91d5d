"""A groundwater field by what a user would pick instead, against long chains: seconds, moments, coverage.

    .venv/bin/python benchmarks/peers_fields.py           # about 20 minutes on an idle machine
    .venv/bin/python benchmarks/peers_fields.py --seeds 1 --nodes 300 --modes 20 --draws 200 --budget 60

Notebook 08's problem. One thread each, one after the other, each run saved as it ends (build/peers/runs); writes
benchmarks/peers_fields.csv and the bars. CUQIpy samples in Laplace's coordinates; its linear-RTO needs a forward map
that is linear in z, which this is not. CVI with either penalty takes the ε, and the z that the penalty sees, of twelve
tried whose q has the largest evidence bound, by exact solves, on a problem that is not judged.
"""

from __future__ import annotations

import argparse
import json

import common
import numpy as np
import pandas as pd
import peers
from tqdm import tqdm
from virtual_observables import VirtualObservables

import pdevae
from machinery.files import write_text
from pdevae import CVI, HMC, GaussianVI, InverseProblem, Laplace
from pdevae._tensorflow import tf
from study.fields import groundwater

CUQI = "CUQIpy, NUTS"
MEDIAN = 0.25  # accuracy asked for: median error of the means, in the chains' standard deviations
SOLVED = {"Laplace": Laplace(), "GaussianVI, low-rank": GaussianVI("low-rank", rank=30)}
TRAINED = {
    "CVI, two-level, trained (ours)": "two-level",
    "virtual observables (WNVI's idea)": lambda mesh, equation: VirtualObservables(
        mesh, equation, groundwater.river_head
    ),
}
LAST_EPS = (0.5, 0.15, 0.05, 0.015, 0.005, 0.0015)  # from ten times as much
SERVES = ({"serves": "q"}, {"serves": "wider", "spread": 1.2})
CHOSEN_ON = 100  # seed of the problem on which settings are chosen


def export(problem: InverseProblem, path) -> None:
    """The discretised problem for programs that do not know pdevae."""
    mesh, latents = problem.mesh, problem.latents
    seen = latents.seen(tf.constant(np.eye(problem.size)))
    unit = pdevae.WeakForm(mesh, pdevae.Diffusion(1.0) - pdevae.Source(groundwater.RECHARGE))
    np.savez(
        path,
        b=0.0,
        B=seen.g(problem.forward.form.places).numpy().T,
        K=unit.element_system()[0][0].numpy(),
        cells=mesh.triangles,
        inside=mesh.interior,
        known=np.where(mesh.is_boundary, problem.forward.form.known, 0.0),
        f=unit.load(),
        read=problem.read.toarray(),
        y=problem.readings,
        at_0=problem.predict(tf.zeros([1, problem.size], tf.float64))[0],
        sigma=problem.noise,
    )


def judged(z: np.ndarray, reference: dict) -> dict:
    """Draws z [k, d] against the chains' moments."""
    mean, sd = np.array(reference["mean"]), np.array(reference["sd"])
    off, ratio = np.abs(z.mean(axis=0) - mean) / sd, z.std(axis=0) / sd
    return {
        "median_error": np.median(off),
        "worst_error": off.max(),
        "least_ratio": ratio.min(),
        "largest_ratio": ratio.max(),
    }


def covered(z: np.ndarray, truth: groundwater.Truth, problem: InverseProblem) -> float:
    """The share of the true field that 90% intervals of the draws hold."""
    g = problem.latents.seen(tf.constant(z)).g(tf.constant(problem.mesh.points)).numpy()
    low, high = np.quantile(g, [0.05, 0.95], axis=0)
    right = truth.g(problem.mesh.points)
    return float(np.mean((right > low) & (right < high)))


def kept(name: str, run) -> dict:
    """What ``run`` gave before, or gives now."""
    path = peers.BUILD / "runs" / f"field-{name}.json".replace(" ", "_")
    if not path.exists():
        write_text(path, json.dumps(run(), default=lambda value: np.asarray(value).tolist()))
    return json.loads(path.read_text())


def trained(name: str, eps: float, serves: dict) -> CVI:
    common = {"steps": 4000, "samples": 8, "width": 96, "around": Laplace()}
    return CVI(penalty=TRAINED[name], eps=(10 * eps, eps), **serves, **common)


def bound(method, problem: InverseProblem) -> float:
    """The evidence bound of the q that ``method`` finds, by exact solves."""
    z = (found := method(problem, seed=0)).draws[:200]
    return float(np.mean(problem.log_joint(tf.constant(z)).numpy() - found.log_q(z)))


def chosen(name: str, options) -> CVI:
    problem = posed(CHOSEN_ON, options)[1]
    tried = [(eps, serves) for eps in LAST_EPS for serves in SERVES]
    bounds = [
        kept(
            f"bound-{name}-{eps}-{serves['serves']}-{options.nodes}-{options.modes}",
            lambda eps=eps, serves=serves: {"bound": bound(trained(name, eps, serves), problem)},
        )["bound"]
        for eps, serves in tried
    ]
    return trained(name, *tried[int(np.nanargmax(bounds))])


def chains(problem: InverseProblem, draws: int, seed: int) -> dict:
    found = HMC(warm_up=draws // 2, most_draws=draws, ess=np.inf, leapfrogs=10)(problem, seed)
    said = found.diagnostics
    more = {"seconds": found.seconds, "r_hat": said["r_hat"], "ess": said["ess"]}
    return {"mean": found.mean, "sd": found.sd, **more}


def by(name: str, problem: InverseProblem, options, seed: int) -> tuple[np.ndarray, np.ndarray, dict]:
    """Draws, the second at which each was there, and more to say of the run."""
    if name == CUQI:
        left = peers.run_peer("cuqipy", "cuqipy_field.py", problem, options.budget, export)
        if "status" in left:
            return np.empty((0, problem.size)), np.empty(0), left
        return left["draws"], left["times"], {}
    method = SOLVED.get(name) or chosen(name, options)
    found = method(problem, seed=seed)
    settings = {"last_eps": method.eps[1], "serves": method.serves} if name in TRAINED else {}
    return found.draws, np.full(len(found.draws), found.seconds), settings


def when_accurate(draws: np.ndarray, times: np.ndarray, reference: dict, share: float = 0.5) -> float:
    """The time from which on this share of the running means stays as near as asked; NaN if it never does."""
    count = np.arange(1, len(draws) + 1)[:, None]
    means = np.cumsum(draws, axis=0) / count
    off = np.quantile(np.abs(means - np.array(reference["mean"])) / reference["sd"], share, axis=1)
    if times[0] == times[-1]:  # all draws came at once
        off = off[-1:].repeat(len(off))
    first = np.flatnonzero(off > MEDIAN)[-1] + 1 if (off > MEDIAN).any() else 0
    return float(times[first]) if first < len(times) else np.nan


def posed(seed: int, options) -> tuple[groundwater.Truth, InverseProblem]:
    truth = groundwater.Truth.drawn(seed, 20 * options.nodes, 2 * options.modes, 60, 0.02)
    return truth, truth.on(options.nodes, options.modes)


def one(name: str, seed: int, options) -> dict:
    truth, problem = posed(seed, options)  # anew for each method: the first compiles
    tag = f"{options.nodes}-{options.modes}-{seed}-{options.draws}"
    reference = kept(f"chains-{tag}", lambda: chains(posed(seed, options)[1], options.draws, seed))

    def run():
        draws, times, said = by(name, problem, options, seed)
        if not len(draws):
            return {"seconds": options.budget} | said
        found = {"seconds": float(times[-1]), "to_accuracy": when_accurate(draws, times, reference)}
        return said | found | judged(draws, reference) | {"coverage": covered(draws, truth, problem)}

    known = {"method": name, "nodes": options.nodes, "modes": options.modes, "seed": seed, "status": "ok"}
    chain = {f"chains_{key}": reference[key] for key in ("seconds", "r_hat", "ess")}
    return known | kept(f"{name}-{tag}-{options.budget:g}", run) | chain


def _when(row: pd.Series) -> str:
    return "not there" if pd.isna(row.to_accuracy) else f"there after {row.to_accuracy:.0f} s"


def bars(table: pd.DataFrame) -> None:
    made, table = common.Bars("peers_fields"), table.assign(to_accuracy=table.to_accuracy.fillna(np.inf))
    middle = table.groupby("method", sort=False).median(numeric_only=True).replace(np.inf, np.nan)
    said = lambda row: f"{row.median_error:.2f} sd (worst {row.worst_error:.2f}), {row.seconds:.0f} s"  # noqa: E731
    ours, weak = (middle.loc[name] for name in TRAINED)
    size = f"groundwater, {int(ours.modes)} modes, {int(ours.nodes):,} nodes"
    made.add(
        "fields_virtual_observables",
        f"CVI nearer to the chains' means than with virtual observables (WNVI's idea) in as many steps, {size}",
        "nearer",
        f"{said(ours)}; virtual observables {said(weak)}",
        bool(ours.median_error < weak.median_error),
    )
    theirs = middle.loc[CUQI]
    made.add(
        "fields_cuqipy",
        f"CVI ahead of CUQIpy's NUTS in Laplace's coordinates, time to a median error of {MEDIAN} sd, {size}",
        "less time",
        f"CVI {_when(ours)}, in all {said(ours)}; CUQIpy {_when(theirs)}, in all {said(theirs)}",
        bool(ours.to_accuracy < (np.inf if pd.isna(theirs.to_accuracy) else theirs.to_accuracy)),
    )
    made.record()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--modes", type=int, default=100)
    parser.add_argument("--draws", type=int, default=800, help="of each of the four chains to compare with")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds that CUQIpy may take")
    options = parser.parse_args()
    common.one_thread()
    peers.install("cuqipy")
    todo = [(name, seed) for seed in range(options.seeds) for name in [*SOLVED, *TRAINED, CUQI]]
    table = pd.DataFrame([one(name, seed, options) for name, seed in tqdm(todo, desc="runs")])
    print(table.to_string(index=False, float_format="%.3g"))
    if options.nodes >= 1000:
        common.save(table, "peers_fields")
        bars(table)


if __name__ == "__main__":
    main()
