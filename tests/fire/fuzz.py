"""Nonsense: parameters and profiles, settings of real notebooks, data files. Refused in one line, or right."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import importlib
import io
import os
import string
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pdevae.data import aquifer, checks, jura
from pdevae.errors import UserError
from pdevae.runner import cli, notebooks, replicates

from . import Tally
from .damage import ROOT, mirror_folder
from .project import make
from .replicate import steady

_NAMES = st.sampled_from(["count", "seconds", "scale", "name", "sizes", "flag", "cuont", "", "a b", "1x", "ü", "--x"])
_WORDS = st.one_of(
    st.sampled_from(["nan", "inf", "-inf", "1e999", "-1", "0", "10**9", "9" * 400, "9" * 5000, "0x10", "1_000", "1j"]),
    st.sampled_from(["", " ", "None", "True", "[]", "[[]]", "()", "{}", "{[]: 1}", "{1, 2}", "b'x'", "'\\d'", "[nan]"]),
    st.sampled_from(
        ["$(touch x)", "`id`", "; rm -rf /", "a|b", "'", '"', "\\", "%s{0}", "\x00", "\n", "é", "数", "\ud800"]
    ),
    st.sampled_from(
        ["[" * 300 + "]" * 300, "(" * 5000, "-" * 9999 + "1", "[1, 'a']", "[1.5]", "{'a': [1]}", "lambda: 0"]
    ),
    st.text(max_size=30),
    st.integers().map(str),
    st.floats().map(repr),
    st.recursive(st.integers() | st.text(max_size=5), lambda inner: st.lists(inner, max_size=3), max_leaves=6).map(
        repr
    ),
)
_TOML = st.one_of(
    st.binary(max_size=60),
    st.text(string.printable, max_size=80).map(str.encode),
    st.tuples(
        st.sampled_from(["[01_toy]", "", "[[01_toy]]", "[nobody]", "01_toy = 3", "[01_toy.count]"]), _NAMES, _WORDS
    ).map(lambda parts: f"{parts[0]}\n{parts[1]} = {parts[2]}\n".encode(errors="surrogatepass")),
    st.sampled_from(
        [b"[01_toy]\ncount = " + b"[" * 5000, b"[01_toy]\ncount = 1979-05-27\n", b"[01_toy]\nscale = nan\n"]
    ),
)


def many(strategy, count: int, each) -> None:
    """``each`` with this many values of the strategy, always the same ones."""
    fixed = settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    fixed(given(strategy)(lambda value: each(value)))()


def parameters(scratch: Path, count: int, seed: int = 0) -> Tally:
    """Half of them on the command line, half in a profile."""
    tally, project = Tally(), make(scratch / "parameters")
    profile = project / "notebooks" / "profiles" / "quick.toml"

    def on_the_command_line(parts):
        with tally.trial(f"-p {parts!r}"):
            _resolved_or_refused(["--profile", "paper", f"-p{parts[0]}={parts[1]}"])

    def in_a_profile(text):
        profile.write_bytes(text)
        with tally.trial(f"profile {text!r}"):
            _resolved_or_refused(["--profile", "quick"])

    ran = lambda book, passed, settings: {"name": book.name, "seconds": 0.0, "error": "", "passed": passed}  # noqa: E731
    with mock.patch.dict(os.environ, {"PDEVAE_ROOT": str(project)}), mock.patch.object(cli, "execute", ran):
        many(st.tuples(_NAMES, _WORDS), count // 2, on_the_command_line)
        many(_TOML, count - count // 2, in_a_profile)
    return tally


def _resolved_or_refused(arguments: list[str]) -> None:
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = cli.main(arguments)
    lines = errors.getvalue().splitlines()
    if code == 0:
        assert not lines, lines
    else:
        assert code == 2, code
        assert len(lines) == 1, lines
        assert lines[0].startswith("error: "), lines


_FORWARD = dict(
    nodes=100, data_nodes=300, a=0.2, tau=[1.5, 1.0], sensors=10, noise=0.2, source_length=0.3, source_sd=1.0
)
_PERTURBED = dict(domain="square", nodes=49, eps=0.1, reading="load", radii=3, P=[1])
_SPECTRUM = dict(domain="square", nodes=49, method="two-level", patch_nodes=9, wavenumbers=[1])
_NOISE = dict(domain="square", nodes=49, method="two-level", patch_nodes=9, P=[1], draws=3)
_FORWARD_CHANGES = (
    *(dict(nodes=n) for n in (-5, 0, 1)),
    *(dict(data_nodes=n) for n in (-5, 0)),
    *(dict(noise=n) for n in (-1.0, 0.0)),
    *(dict(sensors=n) for n in (-1, 0, 10**6)),
    *(dict(tau=t) for t in ([], [1.0])),
    *(dict(a=a) for a in (0.0, -1.0)),
    *(dict(source_length=length) for length in (0.0, -1.0)),
    dict(source_sd=-1.0),
)
# replicate, a configuration that makes sense, what is changed, and how the notebook's parameter is called
NONSENSE = [("01", "forward.transport_example", _FORWARD, change, {}) for change in _FORWARD_CHANGES]
NONSENSE += [("01", "forward.convergence", {}, dict(nodes=n), dict(mesh_sizes=[n])) for n in (-5, 0)]
NONSENSE += [
    ("02", "minipatch.perturbation_errors", _PERTURBED, dict(P=P), dict(patches_sampled=P)) for P in ([0], [-1])
]
NONSENSE += [("02", "minipatch.perturbation_errors", _PERTURBED, dict(radii=n), {}) for n in (0, -1)]
NONSENSE += [("02", "minipatch.perturbation_errors", _PERTURBED, dict(nodes=n), {}) for n in (0, -5)]
NONSENSE += [("02", "minipatch.spectrum", _SPECTRUM, dict(nodes=n), dict(spectrum_nodes=[n])) for n in (0, -5)]
NONSENSE += [("02", "minipatch.spectrum", _SPECTRUM, dict(patch_nodes=n), {}) for n in (0, -1)]
NONSENSE += [("02", "minipatch.gradient_noise", _NOISE, dict(P=P), dict(noise_patches=P)) for P in ([], [0])]
NONSENSE += [("02", "minipatch.gradient_noise", _NOISE, dict(draws=n), dict(noise_draws=n)) for n in (0, -1)]


def real_notebooks(scratch: Path, count: int, seed: int = 0) -> Tally:
    """Settings of notebooks 01 and 02 that have the right type and make no sense: refused at the door or inside."""
    from .training import refused, workers_here

    tally = Tally()
    with workers_here(scratch):
        for book, name, usual, change, called in NONSENSE[:: max(1, len(NONSENSE) // count)]:
            with tally.trial(f"{name} {change}"):
                if _accepted(book, called or change):
                    module, function = name.split(".")
                    refused(
                        getattr(importlib.import_module(f"pdevae.experiments.{module}"), function), usual | change, seed
                    )
        for configs, seeds in (([], [0]), ([_FORWARD], [])):
            with tally.trial("no replicates"), contextlib.suppress(UserError):
                replicates.run(steady, configs, seeds)
                raise AssertionError("nothing was computed, and taken for a result")
    return tally


def _accepted(book: str, changes: dict) -> bool:
    with mock.patch.dict(os.environ, {"PDEVAE_ROOT": str(ROOT)}):
        try:
            return bool(notebooks.resolve(notebooks.select([book]), "paper", changes))
        except UserError as error:
            assert "\n" not in str(error)
            return False


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
