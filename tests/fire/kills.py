"""SIGKILL and SIGTERM at random moments: the runner, a worker, the scheduler of a cluster outside."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from machinery.cluster import ENVIRONMENT

from . import Tally, Unable
from .project import (
    ARGUMENTS,
    TWO_WORKERS,
    clear,
    completes,
    entries,
    environment,
    make,
    nothing_runs,
    processes,
    said,
    start,
    undisturbed,
    until,
)


def runner(scratch: Path, count: int, seed: int = 0) -> Tally:
    return _stopped(scratch, count, seed, signal.SIGKILL)


def told_to_stop(scratch: Path, count: int, seed: int = 0) -> Tally:
    """SIGTERM: the same, and a line that says so."""
    return _stopped(scratch, count, seed, signal.SIGTERM)


def _stopped(scratch: Path, count: int, seed: int, how: signal.Signals) -> Tally:
    tally, rng = Tally(), random.Random(seed)
    for number in range(count):
        project = make(scratch / f"{how.name}-{number}")
        with tally.trial(f"{how.name} {number}"):
            process = start(project, *TWO_WORKERS)
            _await_moment(project, process, rng, number)
            process.send_signal(how)
            code = process.wait(timeout=60)
            if how == signal.SIGTERM and code != -how:  # Python itself was still starting
                assert code in (130, 0), code
                clear(code, said(project))
            nothing_runs(project)
            completes(project)
    return tally


def _await_moment(project: Path, process: subprocess.Popen, rng: random.Random, number: int) -> None:
    """Every other time any moment of a run, else one at which replicates are being finished."""
    if number % 2:
        time.sleep(rng.uniform(0, undisturbed().seconds))
    else:
        until(lambda: process.poll() is not None or entries(project))
        time.sleep(rng.uniform(0, 1.5))


def worker(scratch: Path, count: int, seed: int = 0) -> Tally:
    """A worker dies: another takes its place, and the run goes on."""
    tally, rng = Tally(), random.Random(seed)
    for number in range(count):
        project = make(scratch / f"worker-{number}")
        with tally.trial(f"worker {number}"):
            process = start(project, *TWO_WORKERS)
            workers = until(lambda project=project, process=process: _workers(project) or process.poll() is not None)
            time.sleep(rng.uniform(0, 2.0))
            for victim in rng.sample(_workers(project) or workers or [], 1):
                victim.kill()
            code = process.wait(timeout=240)
            clear(code, said(project))
            completes(project)
    return tally


def _workers(project: Path) -> list[psutil.Process]:
    def is_worker(process):
        try:
            return "spawn_main" in " ".join(process.cmdline())
        except psutil.Error:
            return False

    return list(filter(is_worker, processes(project)))


def scheduler(scratch: Path, count: int, seed: int = 0) -> Tally:
    """The scheduler of a cluster outside dies: one line, and a rerun without it goes on."""
    tally, rng = Tally(), random.Random(seed)
    for number in range(count):
        project = make(scratch / f"scheduler-{number}")
        with tally.trial(f"scheduler {number}"), outside_cluster(project) as (address, scheduler):
            process = start(project, *ARGUMENTS, "--scheduler", address)
            _await_moment(project, process, rng, number)
            scheduler.kill()
            code = process.wait(timeout=240)
            text = clear(code, said(project))
            assert code == 0 or "is gone" in text or "no Dask scheduler answers" in text, text
            completes(project)
    return tally


@contextmanager
def outside_cluster(project: Path, *first: Path) -> Iterator[tuple[str, subprocess.Popen]]:
    """A scheduler with one worker, its modules looked for in the folders ``first``; address and scheduler."""
    known = project / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    dask, common = [sys.executable, "-m"], ["--no-dashboard", "--scheduler-file", str(known)]
    command = [*dask, "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common]
    started = [subprocess.Popen(command, env=_apart(project), **quiet)]
    try:
        if not until(lambda: known.exists() and known.read_text().endswith("}")):  # whole: Dask writes it in place
            raise Unable("no Dask scheduler could be started")
        command = [*dask, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common]
        started.append(subprocess.Popen(command, env=_apart(project, *first), **quiet))
        yield json.loads(known.read_text())["address"], started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()


def _apart(project: Path, *first: Path) -> dict[str, str]:
    """Not one of the project's own processes; a worker without a nanny must have the runner's environment itself."""
    return environment(project, *first) | ENVIRONMENT | {"PDEVAE_ROOT": str(project / "outside")}
