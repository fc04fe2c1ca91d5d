"""Data files are read through here: what is wrong with one is said in one line."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pandas as pd
import pandera.pandas as pa

from pdevae.errors import UserError


def read_csv(path: Path, schema: pa.DataFrameSchema, sha256: str, mend: str) -> pd.DataFrame:
    """The table, if it fulfils the schema and is the known file; ``mend`` says how to get that back."""
    if not path.exists():
        raise UserError(f"{path} is missing: {mend}")
    try:
        table = schema.validate(pd.read_csv(path), lazy=True)
    except pa.errors.SchemaErrors as reason:
        raise UserError(f"{path.name}: {_in_words(reason.failure_cases)}: {mend}") from reason
    except ValueError as reason:  # no table at all
        raise UserError(f"{path.name} cannot be read ({reason}): {mend}") from reason
    if hashlib.sha256(path.read_bytes()).hexdigest() != sha256:
        raise UserError(f"{path.name} is not the file the results were made from (its SHA-256 differs): {mend}")
    return table


def _in_words(failures: pd.DataFrame) -> str:
    """The first kind of failure, with the lines of the file where it is (the header is line 1)."""
    first = failures.iloc[0]
    same = failures[(failures.check == first.check) & (failures.column == first.column)]
    lines = sorted({int(i) + 2 for i in same["index"] if str(i).isdigit()})[:5]  # lines too long have other indices
    where = f" (line {', '.join(map(str, lines))})" if lines else ""
    if first.check == "column_in_dataframe":
        return f"column {first.failure_case} is missing"
    if first.check == "multiple_fields_uniqueness":
        return f"a site stands twice{where}"
    if first.check == "not_nullable":
        return f"column {first.column}: a value is missing{where}"
    return f"column {first.column}: {first.failure_case!r} fails {first.check}{where}"
