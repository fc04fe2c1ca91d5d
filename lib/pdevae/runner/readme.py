"""The table of claims in README.md, written from figures/claims.csv so that it cannot drift."""

from __future__ import annotations

import re

from . import claims, manifest
from .files import write_text
from .settings import project_root

_BEGIN, _END = "<!-- claims: written by the runner from figures/claims.csv -->", "<!-- end of claims -->"


def updated(text: str) -> str:
    """``text`` with the tables of claims and bars between its markers brought up to date."""
    figures = project_root() / "figures"
    table = claims.read(figures)
    notebook = {name: book for book, record in manifest.read(figures).items() for name in record["artefacts"]}
    paper, bars = table[table.source != "bar"], table[table.source == "bar"]
    parts = [
        "| claim | paper | ours | verdict | command → notebook → artefact |\n|---|---|---|---|---|",
        *(_line(row, notebook) for row in paper.itertuples()),
        "\nOur own bars:\n\n| bar | target | ours | verdict | command → notebook → artefact |\n|---|---|---|---|---|",
        *(_line(row, notebook) for row in bars.itertuples()),
    ]
    block = "\n".join([_BEGIN, "", *parts, "", _END])
    return re.sub(re.escape(_BEGIN) + ".*" + re.escape(_END), lambda _: block, text, flags=re.DOTALL)


def update() -> None:
    path = project_root() / "README.md"
    text = path.read_text(encoding="utf-8")
    if updated(text) != text:
        write_text(path, updated(text))


def _line(row, notebook: dict[str, str]) -> str:
    if row.artefact in notebook:
        book = notebook[row.artefact]
        number = book.split("_")[0]
        source = (
            f"`./run_all.sh --profile paper --only {number}` → [{book}](notebooks/{book}.ipynb) → "
            f"[{row.artefact}](figures/{row.artefact}.{'tex' if row.artefact.startswith('tab_') else 'png'})"
        )
    else:
        script = row.artefact.replace(".csv", ".py")
        source = f"`.venv/bin/python {script}` → [{row.artefact}]({row.artefact})"
    cells = (row.claim, row.paper_value, row.our_value, f"**{row.verdict}**", source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
