"""The replicates on SLURM through dask-jobqueue, which asks for workers one by one: for queues that favour small jobs.

    .venv/bin/pip install dask-jobqueue
    .venv/bin/python benchmarks/cluster/jobqueue.py --workers 100 -- --profile paper
    .venv/bin/python benchmarks/cluster/jobqueue.py --script                           # only show a worker's job script

Run it where jobs are submitted, from the checkout, on a file system that all nodes share. The scheduler and the
notebooks run here; workers come and go, and a replicate whose worker is gone is begun again on another. What follows --
goes to run_all.sh.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def slurm(options: argparse.Namespace):
    """The cluster, without workers yet: each is a job of one core."""
    try:
        from dask_jobqueue import SLURMCluster
    except ModuleNotFoundError:
        sys.exit("error: dask-jobqueue is not installed: .venv/bin/pip install dask-jobqueue")
    return SLURMCluster(
        job_name="pdevae-worker",
        queue=options.queue,
        account=options.account,
        cores=1,
        processes=1,
        memory=options.memory,
        walltime=options.walltime,
        python=str(ROOT / ".venv" / "bin" / "python"),
        local_directory="/tmp",
        log_directory=str(ROOT / "build" / "slurm"),
        death_timeout=120,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=100, help="jobs of one core each (default: 100)")
    parser.add_argument("--memory", default="4GB", help="of a worker (default: 4GB)")
    parser.add_argument("--walltime", default="24:00:00", help="of a worker (default: 24:00:00)")
    parser.add_argument("--queue", help="partition")
    parser.add_argument("--account", help="to charge")
    parser.add_argument("--script", action="store_true", help="show a worker's job script, and end")
    parser.add_argument("arguments", nargs="*", help="after --, for run_all.sh")
    options = parser.parse_args()
    with slurm(options) as cluster:
        if options.script:
            print(cluster.job_script())
            return 0
        cluster.scale(jobs=options.workers)
        command = [str(ROOT / "run_all.sh"), "--scheduler", cluster.scheduler_address, *options.arguments]
        return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main())
