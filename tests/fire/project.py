"""A small project under fire: making it, running it, and telling whether it is as an undisturbed run leaves it."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

import nbformat
import psutil

import pdevae
from machinery.cache import _read

TESTS, LIBRARY = Path(__file__).parents[1], Path(pdevae.__file__).parents[1]
ARGUMENTS = ("--profile", "paper", "--jobs", "1")
TWO_WORKERS = (*ARGUMENTS[:-1], "2")
REPLICATES = 8
BOOKS = ("01_toy", "02_toy")
_PARAMETERS = f"count = {REPLICATES}  # how many\nseconds = 0.15\nscale = 1.0\nname = 'x'\nsizes = [1, 2]\nflag = False"
_WORK = """import sys, types
from fire import replicate
from machinery import replicates
from machinery.artefacts import Run
sys.modules["study.plots"] = types.SimpleNamespace({figure}=replicate.figure)  # the real ones take long to import
run = Run("{book}", artefacts=["{figure}"])
table = replicates.run(replicate.steady, [dict(seconds=seconds, book="{book}")], range(count))
run.save("{figure}", table)
run.bar("{book}_bar", "a bar", "≥ 0", table.value.max(), True, "{figure}")
run.finish()"""


def make(folder: Path, books: tuple[str, ...] = BOOKS[:1]) -> Path:
    profiles = folder / "notebooks" / "profiles"
    profiles.mkdir(parents=True)
    for name in ("smoke", "quick", "paper"):
        (profiles / f"{name}.toml").write_text("".join(f"[{book}]\n" for book in books))
    for book in books:
        cells = [_PARAMETERS, _WORK.format(book=book, figure=f"fig_{book}")]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.cells[0].metadata["tags"] = ["parameters"]
        for number, cell in enumerate(notebook.cells):
            cell.id = f"cell-{number}"
        nbformat.write(notebook, folder / "notebooks" / f"{book}.ipynb")
    return folder


def environment(project: Path, *first: Path) -> dict[str, str]:
    """With these folders, then the tests and the library, where Python looks for modules."""
    path = os.pathsep.join(map(str, [*first, TESTS, LIBRARY]))
    return os.environ | {"PDEVAE_ROOT": str(project), "PYTHONPATH": path}


def start(project: Path, *arguments: str, first: tuple[Path, ...] = ()) -> subprocess.Popen:
    """A run of the project in a session of its own; what it prints goes to said(project)."""
    with (project.parent / f"{project.name}.said").open("w") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "machinery.cli", *(arguments or ARGUMENTS)],
            env=environment(project, *first),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )


def said(project: Path) -> str:
    return (project.parent / f"{project.name}.said").read_text()


def until(condition, seconds: float = 60.0):
    """What the condition gives once that is true of it; None at the deadline."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return answer or None


def run(project: Path, *arguments: str, first: tuple[Path, ...] = ()) -> tuple[int, str]:
    """Exit code, and what was printed; an error must be one clear line."""
    code = start(project, *arguments, first=first).wait(timeout=240)
    return code, clear(code, said(project))


def clear(code: int, text: str) -> str:
    assert "Traceback" not in text, text
    complaints = [line for line in text.splitlines() if line.startswith(("error: ", "failed  ", "stopped; "))]
    assert len(complaints) == (0 if code == 0 else 1), (code, text)
    return text


def processes(project: Path) -> list[psutil.Process]:
    """All that work for the project: runner, papermill, kernel, workers."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("PDEVAE_ROOT") == str(project) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.Error, OSError):
            continue
    return found


def nothing_runs(project: Path) -> None:
    until(lambda: not processes(project), seconds=20)
    left = [" ".join(process.cmdline())[:80] for process in processes(project)]
    assert not left, f"still running: {left}"


def entries(project: Path) -> dict[Path, tuple[int, int]]:
    """Finished replicates, each one whole: inode and time, to see whether one was written again."""
    paths = [path for path in (project / "build" / "cache").rglob("*.result") if not path.name.startswith(".")]
    assert all(_read(path) is not None for path in paths), "a cache entry is damaged"
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def contents(project: Path) -> dict[str, bytes]:
    """Artefacts, claims, manifest and cache, without what differs between any two runs: seconds."""
    kept = {}
    for folder in (project / "figures", project / "build" / "cache"):
        for path in filter(Path.is_file, folder.rglob("[!.]*")):
            kept[str(path.relative_to(project))] = path.read_bytes()
    records = json.loads(kept.pop("figures/manifest.json"))
    assert all(record.pop("last_run_seconds") >= 0 for record in records.values()), "time ran backwards"
    return kept | {"manifest": json.dumps(records).encode()}


class Undisturbed(NamedTuple):
    folder: Path
    contents: dict[str, bytes]
    seconds: float


@cache
def undisturbed(books: tuple[str, ...] = BOOKS[:1]) -> Undisturbed:
    """What a run leaves that nothing happens to, and how long it takes."""
    folder = Path(tempfile.mkdtemp(prefix="undisturbed-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    project = make(folder / "project", books)
    begun = time.monotonic()
    code, text = run(project)
    assert code == 0, text
    return Undisturbed(project, contents(project), time.monotonic() - begun)


def completes(project: Path, books: tuple[str, ...] = BOOKS[:1]) -> None:
    """Run again: it ends well, reuses what was there, and leaves what an undisturbed run leaves."""
    before = entries(project)
    code, text = run(project)
    assert code == 0, text
    after = entries(project)
    assert before.items() <= after.items(), "a finished replicate was computed again"
    same(project, books)
    nothing_runs(project)


def same(project: Path, books: tuple[str, ...] = BOOKS[:1]) -> None:
    wanted, found = undisturbed(books).contents, contents(project)
    different = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    assert not different, f"not as an undisturbed run leaves it: {different}"
