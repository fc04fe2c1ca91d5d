"""The table of claims in README.md, written from figures/claims.csv so that it cannot drift."""

from __future__ import annotations

import re

from machinery import claims, manifest
from machinery.files import write_text
from machinery.settings import project_root

_BEGIN, _END = "<!-- claims: written by the runner from figures/claims.csv -->", "<!-- end of claims -->"


def updated(text: str) -> str:
    """``text`` with the tables of claims and bars between its markers brought up to date."""
    figures = project_root() / "figures"
    table = claims.read(figures)
    notebook = {name: book for book, record in manifest.read(figures).items() for name in record["artefacts"]}
    table = table.sort_values("artefact", key=lambda names: names.map(notebook).fillna("zz"), kind="stable")
    paper, bars = table[table.source != "bar"], table[table.source == "bar"]
    met = (bars.verdict == "met").sum()
    parts = [
        "| claim | paper | ours | verdict | notebook → artefact |\n|---|---|---|---|---|",
        *(_line(row, notebook) for row in paper.itertuples()),
        f"\n<details><summary>Our own bars: {met} of {len(bars)} met</summary>\n",
        "| bar | target | ours | verdict | notebook or benchmark → artefact |\n|---|---|---|---|---|",
        *(_line(row, notebook) for row in bars.itertuples()),
        "\n</details>\n\nEach row is remade by `./run_all.sh --profile paper --only NN`, NN the notebook's number.",
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
        ending = "tex" if row.artefact.startswith("tab_") else "png"
        source = f"[{book[:2]}](notebooks/{book}.ipynb) → [{row.artefact}](figures/{row.artefact}.{ending})"
    else:
        script = row.artefact.replace(".csv", ".py")
        source = f"[{script}]({script}) → [{row.artefact}]({row.artefact})"
    ours = row.our_value + (f". Hangs on: {row.depends_on}" if row.depends_on else "")
    cells = (row.claim, row.paper_value, ours, f"**{row.verdict}**", source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
