#!/usr/bin/env bash
# Lint, types and stripped notebooks, then the tests, notebooks (smoke profile) included; --quick: without the slow ones.
# Other arguments go to pytest: ./run_tests.sh -k penalties
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE  # without bytecode imports take twice as long
export JUPYTER_PREFER_ENV_PATH=1 PYDEVD_DISABLE_FILE_VALIDATION=1
export PDEVAE_XLA=0  # at these sizes XLA compiles for longer than it saves; tests/test_compiled.py compares
python="$(python3 "$root/lib/make_environment.py")"
cd "$root"
"$python" -m ruff check .
"$python" -m ruff format --check .
"$python" -m nbstripout --verify --keep-id notebooks/*.ipynb
if [ $# = 0 ] || [ "$*" = --quick ]; then
    [ $# = 0 ] || set -- -m "not slow"
    set -- "$@" -n 2 --dist loadfile --no-loadscope-reorder  # two files at a time, the longest first,
    export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1  # a core each
fi
types="$(mktemp)"
trap 'rm -f "$types"' EXIT
"$python" -m mypy >"$types" 2>&1 &  # beside the tests, which have to import TensorFlow first
"$python" -m pytest "$@" && passed=0 || passed=$?
wait $! || passed=$?
cat "$types"
exit "$passed"
