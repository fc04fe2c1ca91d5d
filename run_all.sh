#!/usr/bin/env bash
# Regenerate every figure and table. ./run_all.sh --help lists the options.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
unset PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE  # without bytecode imports take twice as long
export JUPYTER_PREFER_ENV_PATH=1 PYDEVD_DISABLE_FILE_VALIDATION=1
python="$(python3 "$root/lib/make_environment.py")"
exec "$python" -m machinery.cli "$@"
