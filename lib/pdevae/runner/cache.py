"""Results of replicates on disk: one checked file each, no pickle, never half-written."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .files import atomic

Result = dict[str, np.ndarray]


def digest(value) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Key:
    """What a result depends on: which function, its configuration and seed, and the code behind it."""

    function: str
    config: dict
    seed: int
    code: dict[str, str]

    @property
    def stem(self) -> str:
        return digest([self.function, self.config, self.seed])

    def path(self, folder: Path) -> Path:
        return folder / self.function / f"{self.stem}-{digest(self.code)}.npz"

    def as_json(self) -> str:
        return json.dumps(vars(self), sort_keys=True)


def save(folder: Path, key: Key, result: Result) -> None:
    with atomic(key.path(folder)) as temporary, temporary.open("wb") as file:
        np.savez(file, __key__=np.array(key.as_json()), **result)


def load(folder: Path, key: Key) -> tuple[Result | None, str]:
    """The stored result and "reused", or None and why not."""
    path = key.path(folder)
    if not path.exists():
        return None, _why_missing(folder, key)
    try:
        stored = _read(path)
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, EOFError) as error:
        return None, f"its file was damaged ({type(error).__name__})"
    if stored.pop("__key__").item() != key.as_json():
        return None, "its file belongs to another key"
    return stored, "reused"


def _read(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:  # each member has a checksum, checked as it is read
        if archive.zip.testzip() is not None:
            raise zipfile.BadZipFile(path)
        return {name: archive[name] for name in archive.files}


def _why_missing(folder: Path, key: Key) -> str:
    """Was it never computed, or with other code? Then which."""
    others = sorted((folder / key.function).glob(f"{key.stem}-*.npz"), key=lambda path: path.stat().st_mtime)
    if not others:
        return "not computed before"
    try:
        code = json.loads(_read(others[-1])["__key__"].item())["code"]
    except (zipfile.BadZipFile, OSError, ValueError, KeyError, EOFError):
        return "not computed before with this code"
    changed = sorted(name for name in code.keys() | key.code.keys() if code.get(name) != key.code.get(name))
    return "changed since: " + ", ".join(changed)
