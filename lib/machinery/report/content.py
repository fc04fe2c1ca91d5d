"""What the report holds, gathered from a folder of figures: artefacts by notebook, claims, deviations."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup
from PIL import Image

from machinery import catalogue, claims, manifest
from machinery.artefacts import made_from_csv
from machinery.report import notebook_pages
from machinery.report.markdown import to_html
from machinery.settings import RunSettings, project_root
from pdevae.errors import UserError

VERDICTS = {"The paper’s claims": claims.PAPER_VERDICTS, "Our own targets": claims.BAR_VERDICTS}


@dataclass(frozen=True)
class Artefact:
    """A figure with its size in pixels, or a table as HTML; ``claims`` are rows of claims.csv."""

    name: str
    said: catalogue.Entry
    claims: list
    files: dict[str, Path]
    size: tuple[int, int] = (0, 0)
    table: Markup = Markup()


@dataclass(frozen=True)
class Section:
    """A notebook's part of the report."""

    book: str
    title: str
    record: dict
    artefacts: list[Artefact]
    notebook: Any = field(repr=False, default=None)

    @property
    def date(self) -> str:
        return notebook_pages.date(self.notebook)

    @property
    def reduced(self) -> str:
        """What was reduced; empty for the full experiment."""
        profile, overrides = self.record["profile"], self.record["overrides"]
        if RunSettings(profile=profile, overrides=overrides).is_full:
            return ""
        changed = ", ".join(f"{name}={value}" for name, value in overrides.items())
        return f"profile {profile}" + (f" with {changed}" if changed else "")


@dataclass(frozen=True)
class Content:
    sections: list[Section]
    claims: list
    others: dict[str, list]  # claims about what no notebook makes, by artefact
    deviations: Markup

    @property
    def counts(self) -> Counter:
        return Counter(row.verdict for row in self.claims)


def gather(figures: Path) -> Content:
    records = manifest.read(figures)
    if not records:
        raise UserError(f"nothing to report in {figures}: run ./run_all.sh first")
    entries, rows = catalogue.read(), sorted(claims.read(figures).itertuples(), key=lambda row: row.source == "bar")
    sections = [_section(figures, book, record, entries, rows) for book, record in records.items()]
    made = {name for record in records.values() for name in record["artefacts"]}
    others: dict[str, list] = {}
    for row in rows:
        if row.artefact not in made:
            others.setdefault(row.artefact, []).append(row)
    return Content(sections, rows, others, _deviations())


def _section(figures: Path, book: str, record: dict, entries: dict, rows: list) -> Section:
    artefacts = []
    for name in record["artefacts"]:
        about = [row for row in rows if row.artefact == name]
        make = _table if name.startswith("tab_") else _figure
        artefacts.append(make(figures, name, catalogue.entry(entries, name), about))
    return Section(book, notebook_pages.title(book), record, artefacts, notebook_pages.executed(book, record))


def _figure(figures: Path, name: str, said: catalogue.Entry, about: list) -> Artefact:
    files = _files(figures, name, ("png", "pdf", "csv"))
    try:
        with Image.open(files["png"]) as picture:
            size = picture.size
            picture.verify()
        if files["pdf"].read_bytes()[:5] != b"%PDF-":
            raise ValueError("the PDF is not one")
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError(f"{name} in {figures} is damaged ({error}): {_MEND}") from error
    return Artefact(name, said, about, files, size)


def _table(figures: Path, name: str, said: catalogue.Entry, about: list) -> Artefact:
    files = _files(figures, name, ("tex", "csv"))
    try:
        table: Any = made_from_csv(name, figures)
    except Exception as error:  # a damaged CSV fails in as many ways as there are columns
        raise UserError(f"{name}.csv in {figures} is damaged ({error!r}): {_MEND}") from error
    return Artefact(name, said, about, files, table=Markup(table.html()))


_MEND = (
    "run its notebook again (--only), draw it again (--redraw), or restore it from git; build/figures/ may be deleted"
)


def _files(figures: Path, name: str, endings: tuple[str, ...]) -> dict[str, Path]:
    files = {ending: figures / f"{name}.{ending}" for ending in endings}
    missing = [path.name for path in files.values() if not path.is_file()]
    if missing:
        raise UserError(f"{', '.join(missing)} missing from {figures}: {_MEND}")
    return files


def _deviations() -> Markup:
    """The page on them, so that it stands once."""
    path = project_root() / "docs" / "differences.md"
    _, _, text = (path.read_text(encoding="utf-8") if path.exists() else "").partition("\n")
    return Markup(to_html(text))
