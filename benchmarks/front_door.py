"""What a newcomer waits for: a fresh clone in an empty folder, the README's two commands, nothing else at work.

    .venv/bin/python benchmarks/front_door.py             # as long as it says

Writes benchmarks/front_door.csv and the bars. Packages come from wherever pip fetches them: its share is a row.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import time
from pathlib import Path

import common
import pandas as pd

TARGETS = {  # minutes
    "first picture": ("./run_all.sh, cold: until the first picture's path is on the screen", 4),
    "all": ("./run_all.sh, cold: every notebook and the report, installation included", 12),
    "tests": ("./run_tests.sh: lint, types, all tests", 10),
    "quick tests": ("./run_tests.sh --quick", 5),
}


def timed(command: list[str], folder: Path, marks: dict[str, str]) -> dict[str, float]:
    """Seconds until a line that matches each of ``marks``, and ``end``."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PDEVAE", "PYTHON", "VIRTUAL"))}
    begun, found = time.perf_counter(), {}
    process = subprocess.Popen(
        command, cwd=folder, env=clean, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    for line in process.stdout:
        print(line, end="", flush=True)
        for name, pattern in marks.items():
            if name not in found and re.search(pattern, line):
                found[name] = time.perf_counter() - begun
    if process.wait():
        raise SystemExit(f"{' '.join(command)} failed")
    return found | {"end": time.perf_counter() - begun}


def main() -> None:
    with tempfile.TemporaryDirectory() as empty:
        clone = Path(empty) / "clone"
        subprocess.run(["git", "clone", "-q", common.HERE.parent, clone], check=True)
        marks = {"environment made": r"^replicates run on", "first picture": r"fig_\w+\.png$"}
        run = timed(["./run_all.sh"], clone, marks)
        tests = timed(["./run_tests.sh"], clone, {})
        quick = timed(["./run_tests.sh", "--quick"], clone, {})
    seconds = {"environment made": run["environment made"], "first picture": run["first picture"], "all": run["end"]}
    seconds |= {"tests": tests["end"], "quick tests": quick["end"]}
    common.save(pd.DataFrame({"what": list(seconds), "seconds": list(seconds.values())}), "front_door")
    bars = common.Bars("front_door")
    for name, (claim, minutes) in TARGETS.items():
        key = f"front_door_{name.replace(' ', '_')}"
        said = f"{seconds[name] / 60:.1f} min"
        bars.add(key, claim, f"≤ {minutes} min on two cores", said, seconds[name] <= 60 * minutes)
    bars.record()


if __name__ == "__main__":
    main()
