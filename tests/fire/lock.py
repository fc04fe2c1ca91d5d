"""A damaged requirements.lock: the environment is made anew, or refused in one line; pip refuses other hashes."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import random
import subprocess
import sys
import types
import zipfile
from pathlib import Path

from . import Tally
from .damage import ROOT, damaged
from .project import LIBRARY


def lock_file(scratch: Path, count: int, seed: int = 0) -> Tally:
    """A damaged requirements.lock has the environment made anew, or is refused in one line."""
    tally, rng = Tally(), random.Random(seed)
    right = (ROOT / "requirements.lock").read_bytes()
    maker, made = _maker(scratch)
    for number in range(count):
        (scratch / "requirements.lock").write_bytes(right)
        maker.main()
        (scratch / "requirements.lock").write_bytes(damaged(right, rng))
        before, errors = len(made), io.StringIO()
        with tally.trial(f"lock file {number}"), contextlib.redirect_stderr(errors):
            with contextlib.suppress(SystemExit):
                maker.main()
            refused = errors.getvalue().startswith("error: ") and errors.getvalue().count("\n") == 1
            assert refused or len(made) > before, "a damaged lock file went unnoticed"
    return tally


def _maker(root: Path) -> tuple[types.ModuleType, list]:
    """make_environment for a scratch folder; what it would install is recorded, not installed."""
    spec = importlib.util.spec_from_file_location("make_environment", LIBRARY / "make_environment.py")
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    (root / "pyproject.toml").write_text("")
    made = []

    def pretend(python, wanted):
        made.append(wanted)
        (root / "python").write_text("")
        (root / "stamp").write_text(wanted)

    maker.ROOT, maker.LOCK, maker.make = str(root), str(root / "requirements.lock"), pretend
    maker.PYTHON, maker.STAMP, maker.find_python = str(root / "python"), str(root / "stamp"), lambda: sys.executable
    maker.print = lambda text, file=sys.stdout, flush=False: file is sys.stderr and print(text, file=file)
    return maker, made


def lock_hashes(scratch: Path, count: int, seed: int = 0) -> Tally:
    """pip, asked as make_environment asks it, takes the right hash and refuses a flipped digit or none at all."""
    tally, rng = Tally(), random.Random(seed)
    wheel = _tiny_wheel(scratch)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    for number in range(count):
        place = rng.randrange(64)
        flipped = digest[:place] + ("0" if digest[place] != "0" else "1") + digest[place + 1 :]
        for hashes, code in ((f" --hash=sha256:{digest}", 0), (f" --hash=sha256:{flipped}", 1), ("", 1)):
            with tally.trial(f"hash {number}: {hashes}"):
                assert _pip(scratch, f"tiny==1.0{hashes}\n") == code
    return tally


def _pip(folder: Path, lock: str) -> int:
    (folder / "tiny.lock").write_text(lock)
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-index", "--find-links", str(folder)]
    command += ["--target", str(folder / "nowhere"), "--require-hashes", "--no-deps", "-r", str(folder / "tiny.lock")]
    return subprocess.run(command, capture_output=True).returncode


def _tiny_wheel(folder: Path) -> Path:
    path = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return path
