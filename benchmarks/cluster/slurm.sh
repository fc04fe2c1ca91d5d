#!/usr/bin/env bash
# The replicates on SLURM, as one job: a scheduler and the notebooks on its first core, a worker on each other core.
#
#     ./run_all.sh --list                                   # once, where packages can be fetched: makes .venv
#     sbatch benchmarks/cluster/slurm.sh --profile paper    # from the checkout; arguments are those of run_all.sh
#
# The checkout lies on a file system that all nodes share. A job that ends early loses only what was being computed:
# submit it again. `sbatch --ntasks 400 …` overrides what stands here.
#SBATCH --job-name=pdevae
#SBATCH --ntasks=100
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=24:00:00
#SBATCH --output=build/slurm-%j.log
set -euo pipefail

cd "${SLURM_SUBMIT_DIR:?start this with sbatch, from the checkout}"
if [[ ! -x .venv/bin/dask ]]; then
    echo "error: no environment here: run ./run_all.sh --list once, where packages can be fetched" >&2
    exit 2
fi
mkdir -p build
file="$PWD/build/scheduler-$SLURM_JOB_ID.json"
trap 'rm -f "$file"; kill $(jobs -p) 2>/dev/null || true' EXIT

.venv/bin/dask scheduler --port 0 --scheduler-file "$file" &
srun --ntasks="$((SLURM_NTASKS - 1))" --cpus-per-task=1 .venv/bin/dask worker --scheduler-file "$file" \
    --nthreads 1 --memory-limit 0 --death-timeout 120 --local-directory "${TMPDIR:-/tmp}" &

read_address='import json, sys; print(json.load(open(sys.argv[1]))["address"])'
for _ in {1..120}; do # the file may be there and not yet whole
    address="$(.venv/bin/python -c "$read_address" "$file" 2>/dev/null)" && break
    sleep 1
done
: "${address:?no scheduler has started}"
./run_all.sh --scheduler "$address" "$@"
