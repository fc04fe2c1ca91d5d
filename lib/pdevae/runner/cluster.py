"""Where replicates run: an existing Dask cluster, or one on this machine. One code path for both."""

from __future__ import annotations

import os
from functools import cache

import dask
from distributed import Client, LocalCluster

from ..errors import UserError
from .settings import RunSettings

# One thread each: the workers share the cores, and the order of sums does not depend on how many there are.
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")

# Dask has its workers give every freed block back to the system at once; a training step frees and takes megabytes, and
# more than a third of its time would go into page faults.
_MEMORY_VARIABLES = {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "1000000000"}


def client() -> Client:
    settings = RunSettings.current()
    return _connect(settings.scheduler) if settings.scheduler else _local(settings.worker_count)


@cache
def _connect(address: str) -> Client:
    try:
        connected = Client(address, timeout=10)
    except (OSError, TimeoutError, ValueError) as error:
        raise UserError(f"no Dask scheduler answers at {address}: start one, or leave --scheduler out") from error
    print(f"replicates run on {address}, dashboard {connected.dashboard_link}")
    return connected


@cache
def _local(workers: int) -> Client:
    # inherited by the workers; this process has its threads already
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    dask.config.set({"distributed.nanny.pre-spawn-environ": _MEMORY_VARIABLES})
    return Client(
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            memory_limit=0,
            dashboard_address=None,
            silence_logs="ERROR",
        )
    )
