"""Claims of the paper and our own bars, each a row with a verdict."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from machinery.files import write_text
from pdevae.errors import UserError

COLUMNS = ["claim_id", "source", "claim", "paper_value", "our_value", "verdict", "profile", "artefact", "depends_on"]
PAPER_VERDICTS = ("reproduced", "partly", "not reproduced", "not testable")
BAR_VERDICTS = ("met", "missed")


def row(claim_id, source, claim, paper_value, our_value, verdict, profile, artefact, depends_on="") -> dict[str, str]:
    """``depends_on``: a choice of ours, not stated in the paper, without which the verdict might be another."""
    allowed = BAR_VERDICTS if source == "bar" else PAPER_VERDICTS
    if verdict not in allowed:
        raise UserError(f"claim {claim_id}: verdict {verdict!r} is none of {', '.join(allowed)}")
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
    write_text(folder / "claims.md", "# Claims\n\n" + as_markdown(table))


def as_markdown(table: pd.DataFrame) -> str:
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(value.replace("|", "\\|") for value in line) + " |" for line in table[COLUMNS].values]
    return "\n".join(lines) + "\n"
