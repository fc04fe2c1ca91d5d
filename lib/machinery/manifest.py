"""figures/manifest.json: for each notebook, what its last complete run was and what it wrote."""

from __future__ import annotations

import json
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path

from machinery.files import write_text
from machinery.settings import project_root
from pdevae.errors import UserError

_LIBRARIES = ("tensorflow", "tensorflow-probability", "gpflow", "scikit-fem", "numpy", "scipy", "pandas", "papermill")


def read(folder: Path) -> dict:
    """Notebook → record of its last complete run that wrote to this folder."""
    path = folder / "manifest.json"
    try:
        records = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        if not all({"profile", "overrides"} <= record.keys() for record in records.values()):
            raise ValueError("a notebook's profile is missing")
        return records
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{path} cannot be read ({error}): restore it from git, or delete it") from error


def update(folder: Path, notebook: str, record: dict) -> None:
    records = read(folder) | {notebook: record}
    write_text(folder / "manifest.json", json.dumps(dict(sorted(records.items())), indent=2) + "\n")


def circumstances() -> dict:
    """Code, versions and machine."""
    return {
        "revision": _revision(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _LIBRARIES},
        "machine": f"{platform.system()} {platform.machine()}",
    }


def _revision() -> str:
    """The commit, marked where code or notebooks differ from it."""

    def git(*words):
        asked = ["git", "-C", str(project_root()), *words]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--", "lib", "notebooks")
        return git("rev-parse", "--short=12", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
