"""Notebooks as Markdown pages that any Git host shows: text, code, small outputs, the committed figures by link.

What a page shows beyond the notebook's text comes from figures/, and from the executed notebook; where that is gone,
as in a fresh clone, what was printed is kept as the page has it.
Only what ran on the paper profile has a page.
"""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
from nbformat import NotebookNode

from machinery import catalogue, claims, manifest
from machinery.artefacts import made_from_csv
from machinery.files import write_text
from machinery.notebooks import PROFILES, Notebook
from machinery.report.notebook_pages import executed, read, title
from machinery.settings import project_root

FOLDER = Path("docs") / "notebooks"
_LONGEST = 40  # lines of an output that are shown
_WIDEST = 160  # characters of a line
_PRINTED = re.compile(r"```python\n(.*?)\n```((?:\n\n```text\n.*?\n```)*)", re.DOTALL)
_COUNTED = re.compile(r"^\w+: \d+ replicates: .*\n?", re.MULTILINE)  # what was reused and what computed: of that run
_SAVES = re.compile(r"""run\.save\(\s*["'](\w+)""")


def write_all() -> None:
    """A page for every notebook in the manifest, and their index."""
    root, records = project_root(), manifest.read(project_root() / "figures")
    records = {book: record for book, record in records.items() if record["profile"] == PROFILES[-1]}
    for book, record in records.items():
        write_text(root / FOLDER / f"{book}.md", page(book, record))
    write_text(root / FOLDER / "README.md", index(records))


def index(records: dict) -> str:
    lines = [f"| [{title(book)}]({book}.md) | {_counts(record)} |" for book, record in sorted(records.items())]
    head = ["# Notebooks", "", "As run on the paper profile, with their figures and verdicts.", "", "| | verdicts |"]
    return "\n".join([*head, "|---|---|", *lines]) + "\n"


def page(book: str, record: dict) -> str:
    """Text and code as they are now, with the outputs of the cells that were executed as they stand."""
    notebook, printed = read(project_root() / "notebooks" / f"{book}.ipynb"), _printed(book, record)
    parts = [part for cell in notebook.cells for part in _cell(cell, printed)]
    source = f"[notebook](../../notebooks/{book}.ipynb)"
    made = f"{source}, profile {record['profile']}, revision `{record['revision']}`, [all notebooks](README.md)"
    made += _changed_since(book, record)
    head, *rest = parts
    return (
        "\n\n".join([head.partition("\n")[0], made, head.partition("\n")[2].strip(), *rest, *_verdicts(record)]) + "\n"
    )


def _changed_since(book: str, record: dict) -> str:
    """Parameters that the figures were made with, where the notebook has others by now."""
    path, ran = project_root() / "notebooks" / f"{book}.ipynb", record["parameters"]
    now = {name: parameter.default for name, parameter in Notebook(path).parameters.items()}
    other = [f"{name} = {ran.get(name, '(new since)')}" for name, value in now.items() if ran.get(name) != value]
    return f"\n\n**Run before the notebook was changed**, with `{'; '.join(other)}`." if other else ""


def _printed(book: str, record: dict) -> dict[str, list[str]]:
    """A cell's source → what it printed, ready for the page."""
    if ran := executed(book, record):
        return {cell.source.strip(): [*map(_fenced, _texts(cell.get("outputs", [])))] for cell in ran.cells}
    path = project_root() / FOLDER / f"{book}.md"
    found = _PRINTED.findall(path.read_text(encoding="utf-8")) if path.exists() else []
    return {source: [texts.strip()] if texts else [] for source, texts in found}


def _cell(cell: NotebookNode, printed: dict[str, list[str]]) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    source = cell.source.strip()
    if cell.cell_type != "code" or not source or "injected-parameters" in cell.metadata.get("tags", []):
        return []
    saved = _SAVES.findall(source)
    if "run.claim(" in source or "run.bar(" in source:  # the page ends with them
        return [f"```python\n{source}\n```"]
    shown = [_artefact(name) for name in saved] or printed.get(source, [])
    return [f"```python\n{source}\n```", *shown]


def _artefact(name: str) -> str:
    folder = project_root() / "figures"
    said = catalogue.entry(catalogue.read(), name)
    files = f"[csv](../../figures/{name}.csv)"
    caption = f"*{said.title}.* {said.caption} ({files})"
    if name.startswith("fig_"):
        return f"![{said.title}](../../figures/{name}.png)\n\n{caption}"
    return f"{caption}\n\n{_fenced(str(made_from_csv(name, folder)))}"


def _texts(outputs: list[NotebookNode]) -> list[str]:
    """What was printed about results, and tables."""
    found = []
    for output in outputs:
        if output.output_type == "stream" and output.name == "stdout":
            found.append(_COUNTED.sub("", output.text))
        elif output.output_type == "execute_result":
            found.append(output.data.get("text/plain", ""))
    return [text for text in found if text.strip()]


def _fenced(text: str) -> str:
    lines = [line[:_WIDEST].rstrip() for line in text.strip("\n").splitlines()]
    if len(lines) > _LONGEST:
        lines = [*lines[:_LONGEST], f"… {len(lines) - _LONGEST} more lines"]
    return "\n".join(["```text", *lines, "```"])


def _verdicts(record: dict) -> list[str]:
    """The claims about what this notebook made."""
    table = claims.read(project_root() / "figures")
    mine = table[table.artefact.isin(record["artefacts"])]
    if mine.empty:
        return []
    rows = [f"| {_plain(row.claim)} | {_plain(row.our_value)} | **{row.verdict}** |" for row in mine.itertuples()]
    return ["## Verdicts", "\n".join(["| claim or target | found | |", "|---|---|---|", *rows])]


def _plain(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _counts(record: dict) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in pd.Series(record["claims"]).items()) or "–"
