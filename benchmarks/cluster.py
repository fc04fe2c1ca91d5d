"""Beyond one machine: replicates on a cluster of separate processes, against a local run.

    .venv/bin/python benchmarks/cluster.py            # all, about ten minutes on two idle cores
    .venv/bin/python benchmarks/cluster.py --trial    # a minute, nothing written

Are the results the same bits? How many times faster are several workers than one? What does the scheduler cost per
replicate? Prints a table, writes benchmarks/cluster.csv, and records the bars in figures/claims.csv. Numbers of workers
take turns and medians are compared, since clocks on shared machines drift; each worker has one replicate to warm up.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import numpy as np
import pandas as pd
from distributed import Client, wait

from machinery import cluster, replicates
from machinery.settings import RunSettings
from study.aquifer import fem
from study.jura import vae
from study.transport import experiment as transport

TESTS = common.HERE.parent / "tests"
WORKERS = 4  # of the cluster whose results are compared

STEP = dict(eps=0.003, rate=0.005, width=24, samples=2, tests=64)
TRANSPORT = dict(domain="star", a=1.0, sensors=40, noise=0.3) | STEP
JURA = dict(metal="Co", sets="corrected", split="cv", members=2, log=True, mesh_nodes=80, checkpoints=[10])
VAE_DT = dict(mechanism_name="DT", composite=True, beta=0.01, eps=0.1, prior_sd=0.3, penalty="exact")
AQUIFER = dict(survey="twin", split="full", response="altitude", mesh_nodes=100, trend="linear")
FEM_D = dict(log_a_sd=1.0, log_a_length=0.5, transport_sd=0.0, covariate_sd=0.0)

# Solved and trained: the test's
SMALL = [
    (transport.infer, TRANSPORT | dict(method="solved-two-level", nodes=300)),
    (transport.infer, TRANSPORT | dict(method="trained-hard-32", nodes=300, steps=100)),
]
# Minutes, not seconds: a model on the mesh, a VAE with a PDE, samplers, other penalties, larger meshes, more steps
MORE = [
    (fem.fem, AQUIFER | FEM_D),
    (vae.vae, JURA | VAE_DT),
    (transport.infer, TRANSPORT | dict(method="quadrature", nodes=500)),
    (transport.infer, TRANSPORT | dict(method="hmc-dense", nodes=100)),
    (transport.infer, TRANSPORT | dict(method="hmc-sparse", nodes=100)),
    (transport.infer, TRANSPORT | dict(method="hmc-sparse", nodes=500)),
    (transport.infer, TRANSPORT | dict(method="solved-exact", nodes=4000)),
    (transport.infer, TRANSPORT | dict(method="solved-two-level", nodes=4000)),
    (transport.infer, TRANSPORT | dict(method="trained-two-level", nodes=300, steps=300)),
    (transport.infer, TRANSPORT | dict(method="trained-hard-128", nodes=2000, steps=1000)),
    (vae.vae, JURA | VAE_DT | dict(mechanism_name="NLD", penalty="two-level", checkpoints=[50])),
    (fem.fem, AQUIFER | FEM_D | dict(transport_sd=1.0, mesh_nodes=300)),
]
TIMED = TRANSPORT | dict(method="hmc-sparse", nodes=200)  # a few seconds of one core, little memory

# What workers of another's cluster might be set to; the runner has to mend it
STRANGE = {
    "OMP_NUM_THREADS": "4",
    "OPENBLAS_NUM_THREADS": "4",
    "TF_NUM_INTRAOP_THREADS": "4",
    "TF_NUM_INTEROP_THREADS": "3",
    "TF_ENABLE_ONEDNN_OPTS": "1",
    "XLA_FLAGS": "--xla_cpu_enable_fast_math=true",
}


@contextlib.contextmanager
def separate_cluster(workers: int, environment: dict[str, str] | None = None, options=("--nthreads", "1")):
    """The address of a scheduler on loopback with this many workers, each a process started on its own."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    quiet = {"DASK_LOGGING__DISTRIBUTED": "error", "PYTHONPATH": path}
    stack = contextlib.ExitStack
    with tempfile.TemporaryDirectory() as folder, stack() as ends, stack() as asked:  # all are asked, then awaited
        file = Path(folder) / "scheduler.json"

        def start(module: str, *arguments: str) -> None:
            command = [sys.executable, "-m", f"distributed.cli.{module}", *arguments, "--scheduler-file", str(file)]
            surroundings = os.environ | (environment or {}) | quiet
            process = subprocess.Popen(command, env=surroundings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            ends.callback(ended, process)
            asked.callback(process.terminate)

        start("dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        for _ in range(workers):
            start("dask_worker", "--host", "127.0.0.1", "--local-directory", folder, *options)
        with Client(scheduler_file=str(_appeared(file)), timeout=60) as client:
            if workers:
                client.wait_for_workers(workers, timeout=120)
            address = client.scheduler.address
        yield address


def ended(process: subprocess.Popen, seconds: float = 20.0) -> None:
    """Waits for one that was asked to stop; a worker that loses its scheduler meanwhile may hang, and is killed."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _appeared(file: Path) -> Path:
    deadline = time.monotonic() + 60
    while not (file.exists() and file.read_text().strip()):
        if time.monotonic() > deadline:
            raise TimeoutError("the scheduler did not start")
        time.sleep(0.1)
    return file


@contextlib.contextmanager
def runner_set_to(**settings):
    """The runner's settings for a while, in a project of its own, so that no cache is used or left behind."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as after:
        (Path(folder) / "data").symlink_to(common.HERE.parent / "data")
        own = RunSettings(**settings).environment() | {"PDEVAE_ROOT": folder}
        before = {name: os.environ.get(name) for name in own}
        after.callback(
            lambda: [os.environ.pop(n) if v is None else os.environ.update({n: v}) for n, v in before.items()]
        )
        os.environ.update(own)
        yield


def results(work: list, seeds: int, **settings) -> list[pd.DataFrame]:
    """A table per configuration, without the columns that tell the time."""
    with runner_set_to(**settings):
        for function in dict.fromkeys(function for function, _ in work):  # a function's configurations together
            replicates.run(function, [config for same, config in work if same is function], range(seeds))
        tables = [replicates.run(function, [config], range(seeds)) for function, config in work]  # from the cache
        if settings.get("scheduler"):
            cluster.client().close()
    return [table[[name for name in table if "seconds" not in name]] for table in tables]


def same_bits(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    return list(one) == list(other) and all(
        one[name].to_numpy().tobytes() == other[name].to_numpy().tobytes()
        if one[name].dtype.kind in "fiub"
        else one[name].equals(other[name])
        for name in one
    )


def identical(work: list, seeds: int) -> list[dict]:
    """How many configurations give the same bits locally and on workers that were set otherwise."""
    local = results(work, seeds, jobs=os.cpu_count())
    with separate_cluster(WORKERS, STRANGE) as address:
        outside = results(work, seeds, scheduler=address)
    return [
        row(
            "identical",
            f"{function.__name__}, {config.get('method') or config.get('mechanism_name') or 'FEM'}",
            WORKERS,
        )
        | {"nodes": config.get("nodes", config.get("mesh_nodes")), "unit": "share", "value": float(same_bits(a, b))}
        for (function, config), a, b in zip(work, local, outside)
    ]


def scaling(counts: list[int], tasks: int, rounds: int) -> list[dict]:
    """Seconds for the same replicates on the first k workers of a cluster, the k taking turns."""
    seconds = {count: [] for count in counts}
    with separate_cluster(max(counts)) as address, cluster.open_cluster(address) as client:
        workers = sorted(client.scheduler_info(n_workers=-1)["workers"])
        wait([client.submit(transport.infer, TIMED, 0, workers=[one], pure=False) for one in workers])
        for _ in range(rounds):
            for count in counts:
                begun = time.perf_counter()
                wait(
                    [
                        client.submit(transport.infer, TIMED, s, workers=workers[:count], pure=False)
                        for s in range(tasks)
                    ]
                )
                seconds[count].append(time.perf_counter() - begun)
    return [
        row("scaling", TIMED["method"], count)
        | {"nodes": TIMED["nodes"], "unit": "s", "value": float(np.median(taken))}
        for count, taken in seconds.items()
    ]


def overhead(count: int) -> list[dict]:
    """Milliseconds per replicate that computes next to nothing: all that the runner, Dask and the cache add."""
    sys.path.insert(0, str(TESTS))
    import toy

    with separate_cluster(1) as address, runner_set_to(scheduler=address):
        replicates.run(toy.arrays, [{}], [0])
        begun = time.perf_counter()
        replicates.run(toy.arrays, [{}], range(1, count + 1))
        each = (time.perf_counter() - begun) / count
        cluster.client().close()
    return [row("overhead", "per replicate", 1) | {"unit": "ms", "value": 1e3 * each}]


def row(what: str, name: str, workers: int) -> dict:
    return {"what": what, "name": name, "workers": workers, "nodes": np.nan}


def bars(table: pd.DataFrame, tasks: int) -> common.Bars:
    made = common.Bars("cluster")
    bar = made.add
    same = table[table.what == "identical"].value
    bar(
        "cluster_identical",
        f"Configurations of the three experiments whose results on {WORKERS} separate workers, set to other threads "
        "and kernels, equal the local run's bit for bit",
        "all",
        f"{same.sum():.0f} of {len(same)}",
        same.all(),
    )
    seconds = table[table.what == "scaling"].set_index("workers").value
    speed_up = seconds[1] / seconds.drop(1)
    bar(
        "cluster_scaling",
        f"{tasks} replicates on k workers against one, k up to the cores of the machine (times faster)",
        "≥ 0.9 k",
        ", ".join(f"{times:.2f} on {count}" for count, times in speed_up.items()),
        (speed_up >= 0.9 * speed_up.index).all(),
    )
    each = table[table.what == "overhead"].value.item()
    share = each / 1e3 / (seconds[1] / tasks)
    bar(
        "cluster_overhead",
        f"Runner, scheduler and cache per replicate, against a replicate of {seconds[1] / tasks:.1f} s",
        "≤ 1%",
        f"{share:.2%} ({each:.0f} ms)",
        share <= 0.01,
    )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trial", action="store_true", help="little of everything; nothing is written")
    trial = parser.parse_args().trial
    cores = os.cpu_count() or 1
    counts = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= cores]
    tasks = 2 * max(counts) if trial else 8 * max(counts)
    rows = scaling(counts, tasks, rounds=1 if trial else 5) + overhead(50 if trial else 500)
    rows += identical(SMALL[:1] if trial else SMALL + MORE, seeds=1 if trial else 2)
    table = pd.DataFrame(rows)
    print(table.to_string(index=False))
    made = bars(table, tasks)
    print(made.text())
    if not trial:
        common.save(table, "cluster")
        made.record()


if __name__ == "__main__":
    main()
