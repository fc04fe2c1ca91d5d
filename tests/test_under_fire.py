"""Under fire, the short version: every scenario a few times (benchmarks/under_fire.py: many times)."""

import os

import pytest

from fire import Tally, Unable, project
from fire.scenarios import SCENARIOS
from machinery import leftovers


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_survives(scenario, tmp_path):
    try:
        tally = scenario.run(tmp_path, scenario.few)
    except Unable as reason:
        pytest.skip(str(reason))
    assert tally.tried > 0
    assert not tally.losses, "\n".join(tally.losses)


def test_a_loss_is_counted():
    tally = Tally()
    for number in range(3):
        with tally.trial(f"trial {number}"):
            assert number != 1
    assert (tally.tried, tally.survived) == (3, 2)
    assert tally.losses[0].startswith("trial 1: AssertionError")


def test_what_killed_runs_left_is_cleared_away_by_the_next(tmp_path):
    made = project.make(tmp_path / "project")
    names = ("figures/.part-a.png", "build/cache/f/.part-b.result", "build/.run-c.json", ".part-d.md")
    for name in names:
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text("")
        os.utime(made / name, (0, 0))
    (made / "figures" / ".part-young.csv").write_text("")
    with leftovers.running(made):
        assert not any((made / name).exists() for name in names)
        (made / ".part-mine").write_text("")
        os.utime(made / ".part-mine", (0, 0))
        with leftovers.running(made):  # a second run at the same time leaves the first one's alone
            assert (made / ".part-mine").exists()
    assert (made / "figures" / ".part-young.csv").exists()  # perhaps of a notebook run by hand
