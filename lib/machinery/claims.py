"""Claims of the paper and our own bars, each a row with a verdict."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from machinery import manifest
from machinery.files import write_text
from pdevae.errors import UserError

COLUMNS = ["claim_id", "source", "claim", "paper_value", "our_value", "verdict", "profile", "artefact", "depends_on"]
PAPER_VERDICTS = ("reproduced", "partly", "not reproduced", "not testable")
BAR_VERDICTS = ("met", "missed", "reported")
_TITLES = {  # by a notebook's number
    "01": "The forward problem",
    "02": "Mini-patches: accuracy of the penalty",
    "03": "Accuracy of the posterior",
    "04": "Run time",
    "05": "Heavy metals in the Jura",
    "06": "The Snake River Plain aquifer",
    "07": "A problem of your own",
    "08": "Unknown fields",
    "09": "Train once, answer any readings",
    "10": "Choices the paper does not state",
}
_LETTERS = (
    "N: nodes; P: patches a step; Q, as in CVI_Q: test nodes of a patch; hard taper: the paper's; sd: standard "
    "deviation; sd ratio: q's over the reference's; k̂: Pareto shape of q's importance weights (good below 0.7)."
)
_HEAD = "| {} | {} | we found | verdict | shown in |\n|---|---|---|---|---|"


def row(claim_id, source, claim, paper_value, our_value, verdict, profile, artefact, depends_on="") -> dict[str, str]:
    """``depends_on``: a choice of ours, not stated in the paper, without which the verdict might be another."""
    allowed = BAR_VERDICTS if source == "bar" else PAPER_VERDICTS
    if verdict not in allowed:
        raise UserError(f"claim {claim_id}: verdict {verdict!r} is not one of {', '.join(allowed)}")
    values = (claim_id, source, claim, paper_value, our_value, verdict, profile, artefact, depends_on)
    return dict(zip(COLUMNS, map(str, values)))


def read(folder: Path) -> pd.DataFrame:
    path = folder / "claims.csv"
    if not path.exists():
        return pd.DataFrame(columns=COLUMNS, dtype=str)
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
        return pd.DataFrame({"depends_on": ""}, table.index).assign(**table)[COLUMNS]  # a column that older files lack
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path} cannot be read ({error}): restore it from git, or delete it") from error


def merge(folder: Path, rows: list[dict[str, str]], artefacts: list[str]) -> None:
    """Put these rows in place of those with the same id or about the same artefacts; write .csv and .md."""
    old = read(folder)
    new = pd.DataFrame(rows, columns=COLUMNS, dtype=str)
    old = old[~old.claim_id.isin(new.claim_id) & ~old.artefact.isin(artefacts)]
    table = pd.concat([old, new]).sort_values("claim_id", kind="stable")
    write_text(folder / "claims.csv", table.to_csv(index=False))
    write_page(folder)


def text(folder: Path) -> str:
    """Claims by section, then bars by section or benchmark."""
    table = read(folder)
    notebook = {name: book for book, record in manifest.read(folder).items() for name in record["artefacts"]}
    paper, bars = table[table.source != "bar"], table[table.source == "bar"]
    counts = ", ".join(f"{n} {verdict}" for verdict, n in paper.verdict.value_counts().items())
    parts = [
        "# Claims",
        f"Of the paper's claims: {counts}. Of our own targets: {(bars.verdict == 'met').sum()} met, "
        f"{(bars.verdict == 'missed').sum()} missed; {(bars.verdict == 'reported').sum()} more results have no target.",
        "To remake a row: `./run_all.sh --profile paper --only NN`, where NN is the number in its heading; "
        "for a benchmark, the script with the name of its CSV.",
        _LETTERS,
        "## What the paper claims",
        *_sections(paper, notebook, _HEAD.format("the paper says", "its value")),
        "## Our own targets",
        *_sections(bars, notebook, _HEAD.format("what", "target")),
    ]
    return "\n\n".join(parts) + "\n"


def write_page(folder: Path) -> None:
    """figures/claims.md, from the CSV and the manifest beside it."""
    write_text(folder / "claims.md", text(folder))


def _sections(table: pd.DataFrame, notebook: dict[str, str], head: str):
    key = table.artefact.map(lambda name: notebook.get(name, "benchmarks")[:2])
    for number, rows in table.groupby(key, sort=True):
        yield f"### {number} · {_TITLES[number]}" if number in _TITLES else "### Benchmarks"
        yield "\n".join([head, *(_line(row, notebook) for row in rows.itertuples())])


def _line(row, notebook: dict[str, str]) -> str:
    if row.artefact in notebook:
        ending = "tex" if row.artefact.startswith("tab_") else "png"
        source = f"[{row.artefact}]({row.artefact}.{ending})"
    else:
        source = f"[{row.artefact}](../{row.artefact})"
    ours = row.our_value + (f". Depends on: {row.depends_on}" if row.depends_on else "")
    cells = (row.claim, row.paper_value, ours, f"**{row.verdict}**", source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
