"""Files are data: nothing in a cache entry is ever run, and nothing is put in place before its hash is right."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import re
import threading
from collections.abc import Iterator
from functools import partial
from http.server import HTTPServer, SimpleHTTPRequestHandler
from pathlib import Path
from unittest import mock

import numpy as np

from machinery import cache
from pdevae.errors import UserError
from study.data import mirror

from . import Tally
from .project import LIBRARY


class Trap:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path):
        self.mark = str(mark)

    def __reduce__(self):
        return (Path.touch, (Path(self.mark),))


def pickles(scratch: Path, count: int, seed: int = 0) -> Tally:
    """In every shape a cache entry could have, hash and all."""
    tally, mark = Tally(), scratch / "mark"
    for number in range(count):
        key = cache.Key("toy.f", {"a": number}, seed, {"toy": "x"})
        for shape, content in _traps(key, mark).items():
            path = key.path(scratch)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content)
            with tally.trial(f"{shape} {number}"):
                assert cache.load(scratch, key)[0] is None, "it was taken for a result"
                other = cache.Key(key.function, key.config, key.seed, {"toy": "y"})
                assert cache.load(scratch, other)[0] is None
                assert not mark.exists(), "a pickle was run"
    pickle.loads(pickle.dumps(Trap(mark)))
    assert mark.exists(), "the trap does not work"
    return tally


def _traps(key: cache.Key, mark: Path) -> dict[str, bytes]:
    objects = np.array([Trap(mark)], dtype=object)
    archives = {}
    for shape, arrays in {
        "value": {"__key__": np.array(key.as_json()), "value": objects},
        "key": {"__key__": objects, "value": np.array(1.0)},
        "no key": {"value": np.array(1.0)},
        "key of another kind": {"__key__": np.arange(3), "value": np.array(1.0)},
    }.items():
        archive = io.BytesIO()
        np.savez(archive, **arrays)
        archives[shape] = archive.getvalue()
    archives["bare pickle"] = pickle.dumps(Trap(mark))
    archives["no archive"] = b"PK\x03\x04 and no more"
    for shape, single in (("array of objects", objects), ("array", np.arange(3))):
        array = io.BytesIO()
        np.save(array, single)
        archives[shape] = array.getvalue()
    return {shape: hashlib.sha256(content).digest() + content for shape, content in archives.items()}


def no_unpickling(scratch: Path, count: int, seed: int = 0) -> Tally:
    """No module of the library has a word for it."""
    tally = Tally()
    for path in sorted(LIBRARY.rglob("*.py")):
        with tally.trial(path.name):
            found = re.findall(
                r"import pickle|pickle\.loads?\(|allow_pickle=True|read_pickle|joblib|\beval\(|\bexec\(",
                path.read_text(),
            )
            assert not found, found
    return tally


def downloads(scratch: Path, count: int, seed: int = 0) -> Tally:
    """A server that sends the right file, an altered one, a short one, or none."""
    tally, right = Tally(), b"the right content\n" * 100
    served = {"right": right, "altered": b"X" + right[1:], "short": right[:-30], "empty": b""}
    folder = scratch / "served"
    folder.mkdir()
    for name, content in served.items():
        (folder / name).write_bytes(content)
    with _server(folder) as address, mock.patch.dict(os.environ):
        os.environ.pop("PDEVAE_MIRROR", None)
        for number in range(count):
            for name in (*served, "missing"):
                root = scratch / f"{name}-{number}"
                files = {"file.txt": mirror.Remote(hashlib.sha256(right).hexdigest(), f"{address}/{name}")}
                with tally.trial(f"{name} {number}"):
                    _fetched(root, files, whole=name == "right")
    return tally


def _fetched(root: Path, files: dict, whole: bool) -> None:
    try:
        found = mirror.locate("data", files, root)[0]
    except UserError as error:
        assert "\n" not in str(error)
        found = None
    present = [path for path in root.rglob("*") if path.is_file()]
    assert (found is not None) == whole
    assert len(present) == whole, f"left in place: {present}"


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
