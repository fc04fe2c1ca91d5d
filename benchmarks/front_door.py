"""What a newcomer waits for: a fresh clone in an empty folder, the README's two commands, nothing else at work.

    .venv/bin/python benchmarks/front_door.py                   # as long as it says
    .venv/bin/python benchmarks/front_door.py run_all tests     # some of its parts; the others' times stay

Writes benchmarks/front_door.csv and the bars, after each command. Packages come from wherever pip fetches them: their
share is a row.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common
import pandas as pd

COMMANDS = {"run_all": ["./run_all.sh"], "tests": ["./run_tests.sh"], "quick": ["./run_tests.sh", "--quick"]}
MARKS = {"environment made": r"^replicates run on", "first picture": r"fig_\w+\.png$"}  # lines of run_all
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


def measured(part: str, clone: Path) -> dict[str, float]:
    taken = timed(COMMANDS[part], clone, MARKS if part == "run_all" else {})
    end = taken.pop("end")
    return taken | {{"run_all": "all", "tests": "tests", "quick": "quick tests"}[part]: end}


def record(seconds: dict[str, float]) -> None:
    common.save(pd.DataFrame({"what": list(seconds), "seconds": list(seconds.values())}), "front_door")
    bars = common.Bars("front_door")
    for name, (claim, minutes) in TARGETS.items():
        if name in seconds:
            key, said = f"front_door_{name.replace(' ', '_')}", f"{seconds[name] / 60:.1f} min"
            bars.add(key, claim, f"≤ {minutes} min on two cores", said, seconds[name] <= 60 * minutes)
    bars.record()


def main(parts: list[str]) -> None:
    kept = common.HERE / "front_door.csv"
    seconds = pd.read_csv(kept).set_index("what").seconds.to_dict() if kept.exists() else {}
    with tempfile.TemporaryDirectory() as empty:
        clone = Path(empty) / "clone"
        subprocess.run(["git", "clone", "-q", common.HERE.parent, clone], check=True)
        if "run_all" not in parts:  # the first start installs, and that is counted there
            subprocess.run(["python3", "lib/make_environment.py"], cwd=clone, check=True)
        for part in parts:
            seconds |= measured(part, clone)
            record(seconds)


if __name__ == "__main__":
    main(sys.argv[1:] or list(COMMANDS))
