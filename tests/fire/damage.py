"""Truncated and bit-flipped files: cache entries and data; and files from the future."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import time
from pathlib import Path

from pdevae.errors import UserError
from study.data import jura, mirror
from study.data.aquifer import FILES

from . import Tally, Unable
from .project import REPLICATES, entries, run, same, undisturbed

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
    """Half of the cache is from the future, half from 1970, some is missing."""
    tally = Tally()
    for number in range(count):
        project = shutil.copytree(undisturbed().folder, scratch / f"clock-{number}")
        with tally.trial(f"clock {number}"):
            paths = sorted(entries(project))
            for k, path in enumerate(paths):
                os.utime(path, (when := (0, time.time() + 86_400)[k % 2], when))
            for path in paths[: REPLICATES // 2]:
                path.unlink()
            code, text = run(project)
            assert code == 0, text
            assert not re.search(r" -\d+", text), f"a duration is negative: {text}"
            same(project)
    return tally


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
        if folder is not None and all((folder / "aquifer" / name).is_file() for name in FILES):
            return folder / "aquifer"
    raise Unable("the aquifer's files are not on this machine")


def aquifer_files(scratch: Path, count: int, seed: int = 0) -> Tally:
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
