"""Files that are whole or not there: written beside their place, synced, then renamed into it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pdevae.errors import UserError

UNFINISHED = ".part-"  # how the names of files begin that are still being written


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path with the same ending that takes the place of ``path`` if the block succeeds."""
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=UNFINISHED, suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def cannot_write(path: Path, error: OSError) -> UserError:
    return UserError(f"cannot write {path}: {error.strerror or error}; free disk space or choose another folder")


def check_writable(folder: Path) -> None:
    """Better said before the work than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise cannot_write(folder, error) from error


def write_text(path: Path, text: str) -> None:
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
