"""Nonsense: parameters and profiles, and settings of real notebooks. Refused in one line, or resolved."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import string
from pathlib import Path
from unittest import mock

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from machinery import cli, lanes, notebooks, replicates
from pdevae.errors import UserError

from . import Tally
from .damage import ROOT
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

    ran = lambda book, passed, _, alone: {"name": book.name, "seconds": 0.0, "error": "", "passed": passed}  # noqa: E731
    with mock.patch.dict(os.environ, {"PDEVAE_ROOT": str(project)}), mock.patch.object(lanes, "execute", ran):
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
                    refused(getattr(importlib.import_module(f"study.{module}"), function), usual | change, seed)
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
