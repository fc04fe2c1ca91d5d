"""Start one notebook in a process of its own, show how far it is, and say what came of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machinery import notebooks
from machinery.progress import read_progress
from machinery.settings import RunSettings, project_root


def execute(book: notebooks.Notebook, parameters: dict, settings: RunSettings, alone: bool = True) -> dict:
    """Run one notebook and report what came of it; ``alone``: no other run shares the terminal's last line."""
    target = project_root() / "build" / "notebooks" / settings.profile / book.path.name
    target.parent.mkdir(parents=True, exist_ok=True)
    progress, finished = Path(settings.progress_file), Path(settings.record_file)
    running = target.with_name(f"{progress.stem}-{target.name}")  # two runs at once do not share it
    started = time.monotonic()
    command = [sys.executable, "-m", "machinery.execute", str(book.path), str(running), json.dumps(parameters)]
    quiet = {"PYTHONWARNINGS": "ignore", "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, env=os.environ | settings.environment() | quiet, stdout=output, stderr=output
        )
        _watch(process, book.name, progress, started, alone and sys.stdout.isatty())
        output.seek(0)
        error = _error(process.returncode, output.read())
    progress.unlink(missing_ok=True)
    _put_in_place(running, target)
    record = json.loads(finished.read_text(encoding="utf-8")) if finished.exists() else {}
    finished.unlink(missing_ok=True)
    if not record:
        error = error or "the notebook ended without run.finish(): its artefacts are not accounted for"
    mark = "failed" if error else "done"
    say(f"{mark:>6}  {book.name}  {time.monotonic() - started:.0f} s" + (f"  {error}" if error else ""))
    return record | {"name": book.name, "seconds": time.monotonic() - started, "error": error}


def say(line: str) -> None:
    """A line with its end in one piece: notebooks side by side speak at once."""
    print(f"{line}\n", end="", flush=True)


def _put_in_place(executed: Path, target: Path) -> None:
    """The executed notebook, unless a full disk has cut it short."""
    try:
        json.loads(executed.read_text(encoding="utf-8"))
        os.replace(executed, target)
    except (OSError, ValueError):
        executed.unlink(missing_ok=True)


def _watch(process: subprocess.Popen, name: str, progress: Path, started: float, terminal: bool) -> None:
    """Show progress until the process ends: one changing line on a terminal, a line now and then elsewhere."""
    shown, told = "", 0.0
    say(f" start  {name}")
    while True:
        try:
            process.wait(timeout=0.25)
            break
        except subprocess.TimeoutExpired:
            state = read_progress(progress)
        if terminal:
            width = shutil.get_terminal_size().columns - 1
            print(
                f"\r\x1b[K{f'   ...  {name}  {time.monotonic() - started:.0f} s  {state}'[:width]}", end="", flush=True
            )
        elif state != shown and time.monotonic() - told > 10:
            say(f"   ...  {name}  {time.monotonic() - started:.0f} s  {state}")
            shown, told = state, time.monotonic()
    if terminal:
        print("\r\x1b[K", end="")


def _error(code: int, output: str) -> str:
    if code == 0:
        return ""
    last = (output.strip().splitlines() or [f"exit code {code}"])[-1]
    try:
        return json.loads(last)["error"]
    except (ValueError, KeyError, TypeError):
        return f"the notebook's process ended: {last}"
