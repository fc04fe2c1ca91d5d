"""What killed runs leave behind: files half-written beside their place, cleared away when no other run is under way."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from machinery.files import UNFINISHED, cannot_write

OF_A_RUN = ".run-"  # how the names of files begin that last as long as the run of a notebook
_SECONDS = 10  # younger ones may be those of a notebook that is run by hand


@contextmanager
def running(root: Path) -> Iterator[None]:
    """Held during a run; the system lets go when the process ends, however it ends."""
    path = root / "build" / ".lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        guard = path.open("w")
    except OSError as error:
        raise cannot_write(path, error) from error
    with guard:
        if _alone(guard):
            clear(root)
        fcntl.flock(guard, fcntl.LOCK_SH)
        yield


def clear(root: Path) -> None:
    candidates = [*root.glob(f"{UNFINISHED}*"), *(root / "figures").glob(f"{UNFINISHED}*")]
    for beginning in (UNFINISHED, OF_A_RUN):
        candidates += (root / "build").rglob(f"{beginning}*")
    for path in candidates:
        if abs(time.time() - path.stat().st_mtime) > _SECONDS:
            path.unlink()


def _alone(guard) -> bool:
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
