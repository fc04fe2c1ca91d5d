"""Others at work on the same project: a second run, and a worker that has a different version of the code."""

from __future__ import annotations

import shutil
from pathlib import Path

from . import Tally
from .kills import outside_cluster
from .project import ARGUMENTS, BOOKS, LIBRARY, clear, completes, entries, make, nothing_runs, run, said, same, start

_PAIRS = (
    (BOOKS[:1], ((), ("--fresh",))),
    (BOOKS, ((), ())),
    (BOOKS, (("--only", "01"), ("--only", "02"))),
)


def two_runs(scratch: Path, count: int, seed: int = 0) -> Tally:
    """The same notebooks, different ones, and one run that computes afresh what the other finds."""
    tally = Tally()
    for number in range(count):
        books, both = _PAIRS[number % len(_PAIRS)]
        project = make(scratch / f"pair-{number}", books)
        with tally.trial(f"pair {number}"):
            started = [start(project, *ARGUMENTS, *more) for more in both]
            assert [process.wait(timeout=240) for process in started] == [0, 0], said(project)
            same(project, books)
            nothing_runs(project)
    return tally


def other_code(scratch: Path, count: int, seed: int = 0) -> Tally:
    """A worker whose library differs by one line is refused, and nothing it computed is kept."""
    tally = Tally()
    changed = shutil.copytree(LIBRARY, scratch / "lib", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    with (changed / "pdevae" / "errors.py").open("a") as module:
        module.write("OTHER = True\n")
    for number in range(count):
        project = make(scratch / f"other-{number}")
        with tally.trial(f"other code {number}"):
            with outside_cluster(project, changed) as (address, _):
                code, text = run(project, *ARGUMENTS, "--scheduler", address)
            assert code == 1, text
            assert "this worker has a different version of the code" in clear(code, text), text
            assert not entries(project)
            completes(project)
    return tally
