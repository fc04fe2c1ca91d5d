"""Results of replicates on disk: one file each, a SHA-256 and then a NumPy archive; no pickle, never half-written."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from machinery.files import atomic

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
        return folder / self.function / f"{self.stem}-{digest(self.code)}.result"

    def as_json(self) -> str:
        return json.dumps(vars(self), sort_keys=True)


def save(folder: Path, key: Key, result: Result) -> None:
    archive = io.BytesIO()
    np.savez(archive, __key__=np.array(key.as_json()), **result)
    content = archive.getvalue()
    with atomic(key.path(folder)) as temporary:
        temporary.write_bytes(hashlib.sha256(content).digest() + content)


def load(folder: Path, key: Key) -> tuple[Result | None, str]:
    """The stored result and "reused", or None and why not."""
    path = key.path(folder)
    if not path.exists():
        return None, _why_missing(folder, key)
    stored = _read(path)
    if stored is None:
        return None, "its file was damaged"
    if str(stored.pop("__key__")) != key.as_json():
        return None, "its file belongs to another key"
    return stored, "reused"


def _read(path: Path) -> Result | None:
    """The archive's arrays; None where the file is not what was written."""
    try:
        content = path.read_bytes()
        if hashlib.sha256(content[32:]).digest() != content[:32]:
            return None
        with np.load(io.BytesIO(content[32:]), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
            return arrays if arrays["__key__"].dtype.kind == "U" else None
    except (OSError, ValueError, TypeError, KeyError, zipfile.BadZipFile):
        return None


def _why_missing(folder: Path, key: Key) -> str:
    """Was it never computed, or with other code? Then which."""
    others = sorted((folder / key.function).glob(f"{key.stem}-*.result"), key=lambda path: path.stat().st_mtime)
    if not others:
        return "not computed before"
    newest = _read(others[-1])
    if newest is None:
        return "not computed before with this code"
    code = json.loads(str(newest["__key__"]))["code"]
    changed = sorted(name for name in code.keys() | key.code.keys() if code.get(name) != key.code.get(name))
    return "changed since: " + ", ".join(changed)
