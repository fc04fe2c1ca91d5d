"""Truncated and bit-flipped files: cache entries, data, the lock file; and files from the future."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import os
import random
import re
import shutil
import subprocess
import sys
import time
import types
import zipfile
from pathlib import Path

from pdevae.data import jura, mirror
from pdevae.errors import UserError

from . import Tally, Unable
from .project import LIBRARY, REPLICATES, entries, run, same, undisturbed

ROOT = Path(__file__).parents[2]


def damaged(content: bytes, rng: random.Random) -> bytes:
    """Cut short, or with one bit flipped."""
    if rng.random() < 0.5:
        return content[: rng.randrange(len(content))]
    spoilt = bytearray(content)
    spoilt[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(spoilt)


def cache_entries(scratch: Path, count: int, seed: int = 0) -> Tally:
    """All entries but one are damaged; that one is reused, the others are computed again."""
    tally, rng = Tally(), random.Random(seed)
    while tally.tried < count:
        project = shutil.copytree(undisturbed().folder, scratch / f"cache-{tally.tried}")
        intact, *others = sorted(entries(project))
        kept = intact.stat().st_ino
        for path in others:
            path.write_bytes(damaged(path.read_bytes(), rng))
        with contextlib.ExitStack() as trials:
            for path in others:
                trials.enter_context(tally.trial(path.name))
            code, text = run(project)
            assert code == 0, text
            assert intact.stat().st_ino == kept, "an entry that was whole was computed again"
            same(project)
    return tally


def clock(scratch: Path, count: int, seed: int = 0) -> Tally:
    """Half of the cache is from the future, half from 1970, some is missing; time jumps back an hour, twice."""
    tally, rng = Tally(), random.Random(seed)
    for number in range(count):
        project = shutil.copytree(undisturbed().folder, scratch / f"clock-{number}")
        broken = scratch / f"clock-{number}-modules"
        broken.mkdir()
        (broken / "sitecustomize.py").write_text(_JUMPING_CLOCK.format(seconds=rng.uniform(0.5, 3.0)))
        with tally.trial(f"clock {number}"):
            paths = sorted(entries(project))
            for k, path in enumerate(paths):
                os.utime(path, (when := (0, time.time() + 86_400)[k % 2], when))
            for path in paths[: REPLICATES // 2]:
                path.unlink()
            code, text = run(project, first=(broken,))
            assert code == 0, text
            assert not re.search(r" -\d+", text), f"a duration is negative: {text}"
            same(project)
    return tally


_JUMPING_CLOCK = """import time
_time, _began = time.time, time.monotonic()
def _jumping():
    age = time.monotonic() - _began
    return _time() - 3600 * ((age > {seconds}) + (age > 2 * {seconds}))
time.time = _jumping
"""


def jura_files(scratch: Path, count: int, seed: int = 0) -> Tally:
    tally, rng = Tally(), random.Random(seed)
    source = ROOT / "data" / "jura"
    right = jura.load(source)
    for number in range(count):
        folder = shutil.copytree(source, scratch / f"jura-{number}")
        path = rng.choice(sorted(folder.glob("*.csv")))
        path.write_bytes(damaged(path.read_bytes(), rng))
        with tally.trial(f"{path.name} {number}"):
            try:
                found = jura.load(folder)
            except UserError as error:
                assert "\n" not in str(error)
                continue
            assert found.sites.equals(right.sites), "other data were taken for the right ones"
            assert found.grid.equals(right.grid), "other data were taken for the right ones"
    return tally


def mirror_folder() -> Path:
    """The aquifer's files as they are on this machine."""
    named = os.environ.get("PDEVAE_MIRROR")
    for folder in (ROOT / "data", Path(named) if named else None, ROOT.parent / "shared" / "data"):
        if folder is not None and (folder / "aquifer").is_dir():
            return folder / "aquifer"
    raise Unable("the aquifer's files are not on this machine")


def aquifer_files(scratch: Path, count: int, seed: int = 0) -> Tally:
    from pdevae.data.aquifer import FILES

    tally, rng = Tally(), random.Random(seed)
    source = mirror_folder()
    for number in range(count):
        folder = scratch / f"aquifer-{number}" / "data" / "aquifer"
        folder.mkdir(parents=True)
        for name in FILES:
            (folder / name).symlink_to(source / name)
        spoilt = folder / rng.choice(sorted(FILES))
        content = damaged(spoilt.read_bytes(), rng)
        spoilt.unlink()
        spoilt.write_bytes(content)
        with tally.trial(f"{spoilt.name} {number}"):
            try:
                mirror.locate("aquifer", FILES, folder.parents[1])
            except UserError as error:
                assert spoilt.name in str(error)
                continue
            raise AssertionError("a damaged file was taken for the right one")
    return tally


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
