"""Under fire, the long version: 100 kills, full disks, damage, nonsense and malice; how much of it is survived.

    .venv/bin/python benchmarks/under_fire.py    # all, about forty minutes on two cores; as root, for the disks
    .venv/bin/python benchmarks/under_fire.py --only runner_killed --only two_runs    # the others' rows stay
    .venv/bin/python benchmarks/under_fire.py --share 0.1    # a tenth of the trials, nothing written

Prints a table, writes benchmarks/under_fire.csv, and records the bars in figures/claims.csv. What a scenario does
and what counts as survived is said in tests/fire; the column *code* is a digest of all it ran with. Finished scenarios
are kept in build/under_fire for that code, so that a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import tempfile
import time
from pathlib import Path

import common
import pandas as pd

sys.path.insert(0, str(common.HERE.parent / "tests"))

from fire import Unable
from fire.scenarios import SCENARIOS, Scenario
from machinery.files import write_text


def code() -> str:
    """What the scenarios and all they run are made of."""
    root, made = common.HERE.parent, hashlib.sha256()
    for path in sorted([*root.glob("lib/**/*.py"), *root.glob("tests/fire/*.py")]):
        made.update(path.read_bytes())
    return made.hexdigest()[:12]


def full(scenario: Scenario) -> dict:
    """All its trials, or what they gave before."""
    kept = common.HERE.parent / "build" / "under_fire" / f"{scenario.name}-{code()}.json"
    if not kept.exists():
        row = attempt(scenario, 1.0)
        write_text(kept, json.dumps(row))
    return json.loads(kept.read_text()) | {"code": code()}


def attempt(scenario: Scenario, share: float) -> dict:
    row = {"scenario": scenario.name, "what": scenario.says, "tried": 0, "survived": 0, "lost": 0, "note": ""}
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="under-fire-") as scratch:
        try:
            tally = scenario.run(Path(scratch), math.ceil(share * scenario.many))
            row |= {"tried": tally.tried, "survived": tally.survived, "lost": len(tally.losses)}
            for loss in tally.losses:
                print(f"lost  {scenario.name}: {loss}", flush=True)
        except Unable as reason:
            row["note"] = f"not tried: {reason}"
    seconds = time.monotonic() - begun
    print(f"{scenario.name}: {row['survived']} of {row['tried']} survived, {seconds:.0f} s  {row['note']}", flush=True)
    return row | {"seconds": round(seconds, 1)}


def beside_others(table: pd.DataFrame) -> pd.DataFrame:
    """With the rows of scenarios that were not tried this time."""
    path = common.HERE / "under_fire.csv"
    before = pd.read_csv(path, keep_default_na=False) if path.exists() else table.head(0)
    every = pd.concat([table, before[~before.scenario.isin(table.scenario)]]).set_index("scenario")
    return every.loc[[s.name for s in SCENARIOS if s.name in every.index]].reset_index()


def bars(table: pd.DataFrame) -> None:
    """One for each scenario that could be tried."""
    made = common.Bars("under_fire")
    for row in table[table.tried > 0].itertuples():
        said = f"{row.lost} lost of {row.tried}"
        made.add(f"under_fire_{row.scenario}", f"Under fire: {row.what}", "0 lost", said, not row.lost)
    made.record()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the full number of trials; less records nothing")
    parser.add_argument("--only", action="append", choices=[s.name for s in SCENARIOS], help="a scenario, by name")
    options = parser.parse_args()
    chosen = [s for s in SCENARIOS if not options.only or s.name in options.only]
    table = pd.DataFrame([full(one) if options.share == 1 else attempt(one, options.share) for one in chosen])
    print(table.drop(columns="what").to_string(index=False))
    print(f"{table.lost.sum()} lost of {table.tried.sum()}")
    if options.share == 1:
        table = beside_others(table)
        common.save(table, "under_fire")
        bars(table)
    return 1 if table.lost.sum() else 0


if __name__ == "__main__":
    sys.exit(main())
