"""Spoilt data files: a loader gives the right data or one line that says what is wrong."""

from __future__ import annotations

import gzip
import hashlib
import io
from pathlib import Path

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from pdevae.errors import UserError
from study.data import aquifer, checks, jura

from . import Tally
from .damage import ROOT, mirror_folder
from .fuzz import many


def _swapped(lines: list[str], separator: str, order) -> list[str]:
    """Columns in another order, dropped or doubled."""
    return [separator.join(cells[k % len(cells)] for k in order) for cells in (line.split(separator) for line in lines)]


def _cell(lines: list[str], separator: str, row: int, column: int, value: str) -> list[str]:
    cells = lines[row % len(lines)].split(separator)
    cells[column % len(cells)] = value
    return [*lines[: row % len(lines)], separator.join(cells), *lines[row % len(lines) + 1 :]]


def spoilt(text: bytes, separator: str):
    """Ways to spoil a table."""
    lines, number = text.decode().splitlines(), st.integers(0, 10**6)
    joined = lambda found: "\n".join(found).encode(errors="surrogatepass") + b"\n"  # noqa: E731
    values = st.sampled_from(
        ["nan", "", "-1", "0", "1e300", "inf", "-inf", "abc", "9" * 400, "\x00", '"', "é", "1,2", "None", "3.5.1"]
    )
    return st.one_of(
        st.tuples(number, st.binary(max_size=3)).map(
            lambda v: text[: v[0] % len(text)] + v[1] + text[v[0] % len(text) + 1 :]
        ),
        st.tuples(number, number, values).map(lambda v: joined(_cell(lines, separator, *v))),
        st.lists(st.integers(0, 30), max_size=14).map(lambda order: joined(_swapped(lines, separator, order))),
        st.tuples(number, number).map(lambda v: joined([*lines, *lines[v[0] % len(lines) :][: v[1] % 4]])),
        st.sampled_from(
            [b"", b"\n", b"\x00" * 50, text.decode().encode("utf-16"), text.replace(b"\n", b"\r\n"), b"\xff\xfe" + text]
        ),
        st.sampled_from(
            [text.replace(b".", b","), b"\xef\xbb\xbf" + text, text[:-20], text + b"\x1a", text.upper(), b"PK\x03\x04"]
        ),
        st.permutations(range(len(lines[0].split(separator)))).map(
            lambda order: joined(_swapped(lines, separator, order))
        ),
    )


def jura_tables(scratch: Path, count: int, seed: int = 0) -> Tally:
    """As the schema sees them, and with the hash: then only the right data pass."""
    path = scratch / "jura_prediction.csv"
    text = (ROOT / "data" / "jura" / path.name).read_bytes()
    right = pd.read_csv(io.BytesIO(text))
    tally = Tally()

    def each(content):
        path.write_bytes(content)
        with tally.trial(f"{content[:60]!r}… of {len(content)} bytes"):
            found = _table_or_line(
                lambda: checks.read_csv(path, jura._SITES, hashlib.sha256(content).hexdigest(), "mend it")
            )
            assert found is None or _sensible(found[[*jura._SITES.columns]].select_dtypes(float), 9)
            found = _table_or_line(lambda: jura._read(path, jura._SITES))
            assert found is None or found.equals(right)

    many(spoilt(text, ","), count, each)
    return tally


def aquifer_tables(scratch: Path, count: int, seed: int = 0) -> Tally:
    """The first readings, spoilt before they are compressed and after."""
    with gzip.open(mirror_folder() / "ESRP_NWIS.txt.gz") as file:
        text = b"".join(file.readline() for _ in range(60))
    packed, path, tally = gzip.compress(text, mtime=0), scratch / "ESRP_NWIS.txt.gz", Tally()
    bytes_of = st.tuples(st.integers(0, len(packed) - 1), st.binary(max_size=3), st.booleans())
    cut = bytes_of.map(lambda v: packed[: v[0]] + v[1] + (packed[v[0] + 1 :] if v[2] else b""))

    def each(content):
        path.write_bytes(content)
        with tally.trial(f"{content[:60]!r}… of {len(content)} bytes"):
            found = _table_or_line(lambda: aquifer.read(path))
            assert found is None or _sensible(found[["DEC_LONG_VA", "DEC_LAT_VA", "ALT_VA"]], 3)

    many(st.one_of(spoilt(text, "\t").map(lambda content: gzip.compress(content, mtime=0)), cut), count, each)
    return tally


def _table_or_line(read) -> pd.DataFrame | None:
    try:
        return read()
    except UserError as error:
        assert "\n" not in str(error)
        return None


def _sensible(numbers: pd.DataFrame, columns: int) -> bool:
    """All there, finite, none beyond what can be."""
    return (
        numbers.shape[1] == columns and bool(np.isfinite(numbers).all(axis=None)) and numbers.abs().max(axis=None) < 1e6
    )
