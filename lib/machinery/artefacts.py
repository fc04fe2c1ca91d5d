"""What a notebook leaves behind: figures and tables with the CSV they are drawn from, claims, the manifest.

run = Run("02_minipatch_accuracy", artefacts=["fig_mp_exper"])
run.save("fig_mp_exper", table)          # fig_mp_exper.csv, then .png and .pdf drawn from that CSV
run.claim("taper_small_error", ...)
run.finish()                             # all declared? then claims and manifest are brought up to date
"""

from __future__ import annotations

import importlib
import io
import json
import time
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from filelock import FileLock
from matplotlib.figure import Figure

from machinery import claims, manifest
from machinery.files import atomic, sha256, write_text
from machinery.settings import RunSettings, project_root
from pdevae.errors import UserError

_DPI, _MARGIN = 200, 0.1  # of a figure's files; inches around it


class Table(Protocol):
    """A typeset table."""

    def latex(self) -> str: ...


class Run:
    """One execution of a notebook, by the runner or by hand."""

    def __init__(self, notebook: str, artefacts: list[str], data: dict[str, str] | None = None):
        """``data``: SHA-256 by name of files used that are not the project's own."""
        self.notebook, self.declared, self.data = notebook, list(artefacts), data or {}
        self.settings = RunSettings.current()
        self.folder = self.settings.figures_dir
        self.started = time.monotonic()
        self.written: dict[str, str] = {}
        self.rows: list[dict[str, str]] = []
        if self.settings.profile == "interactive":
            print(f"run by hand: figures go to {self.folder}")

    def save(self, name: str, table: pd.DataFrame) -> Figure | Table:
        """Write ``name``.csv, then draw or typeset it from that file; returns what was made, to be looked at."""
        if name not in self.declared:
            raise UserError(f"{self.notebook} saves {name} without declaring it: add it to Run(artefacts=[…])")
        with atomic(self.folder / f"{name}.csv") as temporary:
            table.to_csv(temporary, index=False)
        made = draw(name, self.folder, self.note)
        self.written[name] = sha256(self.folder / f"{name}.csv")
        return made

    def claim(
        self, claim_id: str, source: str, claim: str, paper_value, our_value, verdict: str, artefact: str, depends_on=""
    ):
        """One row of claims.csv; ``source`` is a label of the paper, or "bar" for a target of our own."""
        profile = self.profile_name
        row = claims.row(claim_id, source, claim, paper_value, our_value, verdict, profile, artefact, depends_on)
        self.rows.append(row)
        print(f"{row['verdict']:>14}  {row['claim_id']}: {row['our_value']}")

    def bar(self, claim_id: str, claim: str, target, our_value, met: bool, artefact: str):
        verdict = "reported" if target == "reported" else "met" if met else "missed"
        self.claim(claim_id, "bar", claim, target, our_value, verdict, artefact)

    def finish(self):
        missing = [name for name in self.declared if name not in self.written]
        if missing:
            raise UserError(f"{self.notebook} declares {', '.join(missing)} but did not write it")
        record = self._record()
        with FileLock(self.folder / ".lock"):  # killed between these, a rerun, all from the cache, puts them right
            claims.merge(self.folder, self.rows, self.declared)
            manifest.update(self.folder, self.notebook, record)
            claims.write_page(self.folder)
        if self.settings.record_file:
            write_text(Path(self.settings.record_file), json.dumps(record))

    @property
    def profile_name(self) -> str:
        return self.settings.profile + ("*" if self.settings.overrides else "")

    @property
    def note(self) -> str:
        """What a figure that is not from the full profile says on its face."""
        if self.settings.is_full:
            return ""
        changed = ", ".join(f"{name}={value}" for name, value in self.settings.overrides.items())
        return f"reduced profile: {self.settings.profile}" + (f" ({changed})" if changed else "")

    def _record(self) -> dict:
        return {
            "profile": self.settings.profile,
            "overrides": self.settings.overrides,
            "parameters": self.settings.parameters,
            "last_run_seconds": round(time.monotonic() - self.started, 1),
            "artefacts": self.written,
            "claims": pd.Series([row["verdict"] for row in self.rows], dtype=str).value_counts().to_dict(),
            "data": {path.name: sha256(path) for path in _own_data()} | self.data,
            **manifest.circumstances(),
        }


def _own_data() -> list[Path]:
    """The data files of the project."""
    return sorted(path for path in (project_root() / "data").rglob("*") if path.suffix in (".csv", ".geojson"))


def draw(name: str, folder: Path, note: str = "") -> Figure | Table:
    """Draw (fig_…) or typeset (tab_…) an artefact from its CSV, with the drawing function of that name."""
    np.random.seed(0)  # noqa: NPY002  seaborn's jitter draws from it: the same table, the same picture
    made = made_from_csv(name, folder)
    if isinstance(made, Figure):
        _save(made, folder / name, note)
    else:
        write_text(folder / f"{name}.tex", (f"% {note}\n" if note else "") + made.latex())
    return made


def made_from_csv(name: str, folder: Path) -> Figure | Table:
    """By the module that the installed project names as entry point ``machinery.plots``."""
    (plots,) = entry_points(group="machinery.plots")
    maker = getattr(importlib.import_module(plots.module), name)
    return maker(pd.read_csv(folder / f"{name}.csv"))


def _save(figure: Figure, stem: Path, note: str) -> None:
    if note:
        figure.text(0.5, 0.5, note, color="firebrick", alpha=0.25, fontsize=22, ha="center", va="center", rotation=20)
    shown = figure.dpi
    figure.set_dpi(_DPI)
    figure.draw_without_rendering()  # lays it out: once for both files and for whoever looks at it afterwards
    figure.set_layout_engine("none")
    around = figure.get_tightbbox().padded(_MARGIN)
    for ending, metadata in (("png", None), ("pdf", {"CreationDate": None})):
        drawn = io.BytesIO()  # not the file: on a full disk Matplotlib's PDF fails with an error of its own
        with matplotlib.rc_context({"pdf.fonttype": 42}):
            figure.savefig(drawn, format=ending, dpi=_DPI, metadata=metadata, bbox_inches=around)
        with atomic(stem.with_name(f"{stem.name}.{ending}")) as temporary:
            temporary.write_bytes(drawn.getvalue())
    figure.set_dpi(shown)
    plt.close(figure)
