"""A full disk and a read-only one, under build/ and under figures/: small tmpfs mounts, where they are allowed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import Tally, Unable
from .project import completes, entries, make, run, said, start, until

_KILOBYTES = {"build": (8, 44), "figures": (4, 60)}  # a run needs more: executed notebook and cache; PNG and PDF


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    try:
        mount = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True)
    except OSError as error:
        raise Unable(f"there is no mount command: {error}") from error
    if mount.returncode:
        raise Unable("mounting a tmpfs needs root with the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def remount(folder: Path, options: str) -> bool:
    done = subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], capture_output=True)
    return done.returncode == 0


def full(scratch: Path, count: int, place: str) -> Tally:
    """The disk of build/ or figures/ fills up, the first time at the very end of a run; then there is room again."""
    tally, (least, most) = Tally(), _KILOBYTES[place]
    for number in range(count):
        project = make(scratch / f"full-{place}-{number}")
        kilobytes = most - (most - least) * number // count
        with tally.trial(f"{kilobytes} kB for {place}"), mounted(project / place, f"size={kilobytes}k"):
            code, text = run(project)
            assert code, "it should not have fitted"
            assert "No space left on device" in text, text
            entries(project)
            assert remount(project / place, "size=64m")
            completes(project)
    return tally


def read_only(scratch: Path, count: int, seed: int = 0) -> Tally:
    """figures/ cannot be written: at once every other time, else from the middle of the run on."""
    tally = Tally()
    for number in range(count):
        project = make(scratch / f"read-only-{number}")
        with tally.trial(f"read-only {number}"), _lockable(project / "figures") as lock:
            if number % 2 == 0:
                lock(True)
            process = start(project)
            until(lambda process=process, project=project: process.poll() is not None or entries(project))
            lock(True)
            code = process.wait(timeout=240)
            text = said(project)
            assert code, text
            assert text.count("cannot write") == 1, text
            assert bool(entries(project)) == bool(number % 2), "it should be noticed before the work where it can be"
            lock(False)
            completes(project)
    return tally


@contextmanager
def _lockable(folder: Path) -> Iterator:
    """A folder and the function that makes it read-only: by mounting for root, whom permissions do not bind."""
    folder.mkdir()
    if os.geteuid():
        yield lambda locked: folder.chmod(0o555 if locked else 0o755)
        return
    with mounted(folder, "size=64m"):
        yield lambda locked: until(lambda: remount(folder, "ro" if locked else "rw"))
