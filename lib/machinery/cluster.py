"""Where replicates run: an existing Dask cluster, or one on this machine. One code path for both.

The same configuration and seed give the same bits on either. How sums are split among threads, and which kernels
TensorFlow picks, decides the last bits, and libraries read that from the environment when they are loaded, before any
task of ours could set it. So a plugin goes to the nanny of each worker, which starts the worker's process (again) with
the environment below; workers that join later get it as they start. A replicate that finds itself in another
environment, or beside others in one process, refuses. What is left is the processor: libraries choose instructions
by its kind, so workers of another kind than this machine are pointed out.
"""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.util import find_spec

import dask
import numpy as np
from distributed import Client, LocalCluster, Nanny, Security, get_worker
from distributed.diagnostics.plugin import NannyPlugin

from machinery.settings import RunSettings
from pdevae.errors import UserError

ENVIRONMENT = {
    # One thread each: the workers share the cores, and the order of sums does not depend on how many there are.
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "1",
    # The same kernels, whatever the machine's owner prefers; a GPU sums in an order of its own.
    "TF_ENABLE_ONEDNN_OPTS": "0",
    "TF_USE_LEGACY_KERAS": "1",
    "TF_XLA_FLAGS": "",
    "XLA_FLAGS": "",
    "CUDA_VISIBLE_DEVICES": "-1",
}

# Dask has its workers give every freed block back to the system at once; a training step frees and takes megabytes, and
# more than a third of its time would go into page faults.
_AT_START = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}
# The notebook that asks shows how far it is; a worker's own bars and warnings would be printed over the runner's lines.
_AT_START |= {"TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore"}


def client() -> Client:
    """Made once; again where the connection was lost."""
    made = _made(RunSettings.current())
    if made.status in ("running", "newly-created"):
        return made
    _connect.cache_clear()
    _local.cache_clear()
    return _made(RunSettings.current())


def _made(settings: RunSettings) -> Client:
    return _connect(settings.scheduler) if settings.scheduler else _local(settings.worker_count)


def describe(address: str) -> str:
    """The cluster in a line or two: how many workers, where to watch them. Its workers are made ready on the way."""
    with open_cluster(address) as connected:
        return _description(address, connected)


def check_worker() -> None:
    """Raise unless a replicate that runs here gives the bits it gives everywhere."""
    wrong = sorted(name for name, value in ENVIRONMENT.items() if os.environ.get(name) != value)
    if wrong:
        raise UserError(
            f"this worker was started with a different {', '.join(wrong)} and has no nanny to correct it: start it "
            "without --no-nanny, or with " + " ".join(f"{name}={ENVIRONMENT[name]}" for name in wrong)
        )
    threads = get_worker().state.nthreads
    if threads != 1:
        raise UserError(
            f"this worker runs {threads} replicates in one process: start it with --nthreads 1 --nworkers {threads}"
        )


class SameEnvironment(NannyPlugin):
    """Has a nanny start its worker with our environment; a worker that has it already is left alone."""

    name = "pdevae-environment"
    idempotent = True  # each notebook connects anew, and must not restart the workers of another

    def setup(self, nanny: Nanny) -> None:
        wanted = ENVIRONMENT | _AT_START
        present = os.environ | nanny.env
        self.restart = nanny.process is not None and any(present.get(name) != wanted[name] for name in wanted)
        for environment in (nanny.pre_spawn_env, nanny.env):  # until the process starts, and from then on
            environment.update(wanted)


def open_cluster(address: str) -> Client:
    """A client of an existing cluster, the workers made ready."""
    # Asked first: a client without certificates fails half made, and its deletion can block the next one for ever.
    if address.startswith("tls://") and not Security().get_connection_args("client")["ssl_context"]:
        raise UserError(
            f"{address} needs certificates: source the environment that benchmarks/cluster/certificates.sh made"
        )
    try:
        connected = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"no Dask scheduler answers at {address}: start one, or leave --scheduler out") from error
    try:
        connected.register_plugin(SameEnvironment())
    except ModuleNotFoundError as error:
        connected.close()
        raise UserError(
            f"a worker of {address} lacks {error.name}: start it from this checkout's environment (.venv/bin/dask)"
        ) from error
    return connected


@cache
def _connect(address: str) -> Client:
    connected = open_cluster(address)
    try:
        connected.wait_for_workers(1, timeout=60)
    except TimeoutError as error:
        connected.close()
        raise UserError(f"the Dask scheduler at {address} has no worker: start one with `dask worker`") from error
    return connected


def _description(address: str, connected: Client) -> str:
    kinds = list(connected.run(processor).values())
    workers = f"{len(kinds)} worker{'s' * (len(kinds) != 1)}" if kinds else "no workers yet; waiting for them"
    others = sum(kind != processor() for kind in kinds)
    note = f"\n{others} of them have a different kind of processor from this machine's: last bits may differ"
    return f"replicates run on {address}: {workers}, dashboard {_dashboard(connected)}" + note * bool(others)


def _dashboard(connected: Client) -> str:
    """Without Bokeh a scheduler serves plain pages only."""
    link = connected.dashboard_link
    return link if find_spec("bokeh") else link.replace("/status", "/info/main/workers.html")


def processor() -> str:
    """Its kind, as far as numerical libraries choose their instructions by it."""
    simd = np.show_config("dicts")["SIMD Extensions"]  # type: ignore  # its stub is out of date
    return " ".join([platform.machine(), *simd.get("found", [])])


@cache
def _local(workers: int) -> Client:
    return Client(local_cluster(workers))


def local_cluster(workers: int) -> LocalCluster:
    """One-thread workers on this machine, set as every worker is."""
    os.environ.update(ENVIRONMENT)  # inherited by the workers; this process has its threads already
    dask.config.set({"distributed.nanny.pre-spawn-environ": _AT_START})
    # In Python 3.11 a profile of all threads that meets a garbage collection can block a worker for ever.
    dask.config.set({"distributed.worker.profile.enabled": False})
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, memory_limit=0, dashboard_address=None, silence_logs="ERROR"
    )
