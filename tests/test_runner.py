"""The runner on a small project of its own: what it refuses, what survives, what it leaves behind."""

import json
import os
import resource
import string
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import nbformat
import pytest

import study.plots
from machinery import artefacts, claims, lanes, launch, manifest
from machinery.settings import RunSettings
from pdevae.errors import UserError

TESTS = Path(__file__).parent
PARAMETERS = "count = 3  # how many\nscale = 1.0\nname = 'x'\nsizes = [1, 2]\nlog = ''\nseconds = 0.0"
START = """import os, sys, types
import pandas as pd, toy
from machinery import replicates
from machinery.artefacts import Run
drawn = lambda table: table.plot("seed", "value").figure
sys.modules["study.plots"] = types.SimpleNamespace(fig_toy=drawn)  # the real ones take long to import
run = Run("01_toy", artefacts=["fig_toy"])
print("XLA:", os.environ.get("PDEVAE_XLA"))"""
WORK = """table = replicates.run(toy.slow_square, [dict(log=log, seconds=seconds, offset=0)], range(count))
run.save("fig_toy", table)
run.bar("toy_bar", "a bar", "≥ 0", table.value.max(), True, "fig_toy")"""


def write_notebook(path: Path, *cells: str) -> None:
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in cells])
    book.cells[0].metadata["tags"] = ["parameters"]
    nbformat.write(book, path)


def make(folder: Path) -> Path:
    profiles = folder / "notebooks" / "profiles"
    profiles.mkdir(parents=True)
    for name in ("smoke", "quick", "paper"):
        (profiles / f"{name}.toml").write_text("[01_toy]\n" + ("count = 2\n" if name == "quick" else ""))
    write_notebook(folder / "notebooks" / "01_toy.ipynb", PARAMETERS, START, WORK, "run.finish()")
    return folder


@pytest.fixture
def project(tmp_path):
    return make(tmp_path)


def command(project: Path, *arguments: str) -> dict:
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    return {
        "args": [sys.executable, "-m", "machinery.cli", *arguments],
        "env": os.environ | {"PDEVAE_ROOT": str(project), "PYTHONPATH": path},
        "text": True,
    }


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(**command(project, *arguments), capture_output=True, timeout=240)


def refused(project: Path, *arguments: str) -> str:
    """The one line of a refusal; nothing is left behind."""
    done = run(project, *arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 2, done
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert not (project / "figures").exists()
    assert not (project / "build" / "figures").exists()
    return lines[0]


def test_a_run_leaves_artefacts_claims_and_manifest(project, monkeypatch):
    monkeypatch.delenv("PDEVAE_XLA", raising=False)
    done = run(project, "--profile", "paper", "-p", f"log='{project}/log'", "--jobs", "1")
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[-1] == "report: build/report/index.html"
    assert "Reduced profile" in (project / "build" / "report" / "index.html").read_text()
    figures = project / "figures"
    assert {p.name for p in figures.glob("fig_toy.*")} == {"fig_toy.csv", "fig_toy.png", "fig_toy.pdf"}
    record = manifest.read(figures)["01_toy"]
    assert record["parameters"]["count"] == 3
    assert record["artefacts"]["fig_toy"] == artefacts.sha256(figures / "fig_toy.csv")
    assert claims.read(figures).loc[0, "verdict"] == "met"
    assert "| a bar |" in (figures / "claims.md").read_text()
    assert "XLA: None" in (project / "build" / "notebooks" / "paper" / "01_toy.ipynb").read_text()
    assert "01_toy" in done.stdout
    assert "1 met" in done.stdout


def test_side_by_side_the_notebooks_that_take_longest_do_not_come_last():
    books = [1, 2, 3, 4, 5]
    assert lanes.in_turn(books, 1) == books
    assert lanes.in_turn(books, 3) == [1, 2, 5, 4, 3]


FAULTS = {  # what the cells after START do, and what the runner says of it
    "raises": (["1 / 0", "run.finish()"], "ZeroDivisionError: division by zero (at In [4]"),
    "leaves out an artefact": (["run.finish()"], "declares fig_toy but did not write it"),
    "writes an artefact undeclared": (
        ['run.save("fig_other", pd.DataFrame({"a": [1]}))'],
        "saves fig_other without declaring it",
    ),
    "does not finish": ([WORK], "without run.finish()"),
    "gives a wrong verdict": (
        ['run.claim("c", "eq:1", "x", 1, 2, "met", "fig_toy")'],
        "verdict 'met' is not one of reproduced",
    ),
    "kills its kernel": (["import os; os._exit(3)"], ""),
}


@pytest.fixture(scope="module")
def side_by_side(tmp_path_factory):
    """Four sound notebooks and six faulty ones on two workers: the project, and what the run said."""
    project = make(tmp_path_factory.mktemp("project"))
    with (project / "notebooks" / "profiles" / "quick.toml").open("a") as profile:
        for number in (2, 3, 4):
            own = {"fig_toy": f"fig_toy{number}", "toy_bar": f"bar_{number}", "offset=0": f"offset={number}"}
            cells = [START.replace("01_toy", f"0{number}_toy"), WORK]
            for old, new in own.items():
                cells = [cell.replace(old, new) for cell in cells]
            write_notebook(project / "notebooks" / f"0{number}_toy.ipynb", PARAMETERS, *cells, "run.finish()")
            profile.write(f"[0{number}_toy]\n")
        for number, (cells, _) in enumerate(FAULTS.values(), start=11):
            write_notebook(project / "notebooks" / f"{number}_faulty.ipynb", PARAMETERS, START, *cells)
            profile.write(f"[{number}_faulty]\n")
    return project, run(project, "-p", f"log='{project}/log'", "-p", "seconds=2.0", "--jobs", "2")


def test_three_notebooks_at_a_time_share_two_workers(side_by_side):
    project, done = side_by_side
    lines = done.stdout.splitlines()
    changes = [{" start ": 1, "  done ": -1, "failed ": -1}.get(line[:7], 0) for line in lines]
    assert max(accumulate(changes)) == 3
    first_end, last_start = changes.index(-1), max(k for k, change in enumerate(changes) if change == 1)
    assert first_end < last_start
    ends = [k for k, line in enumerate(lines) if line.startswith("  done ")]
    assert any(line.strip().endswith("figures/fig_toy.png") for line in lines[: ends[3]])
    assert set(manifest.read(project / "figures")) == {"01_toy", "02_toy", "03_toy", "04_toy"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_notebook_fails_the_run_in_one_line_and_leaves_no_record(side_by_side, fault):
    project, done = side_by_side
    name = f"{11 + [*FAULTS].index(fault)}_faulty"
    assert done.returncode == 1, done
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"failed  {name}")]
    assert FAULTS[fault][1] in line
    (row,) = [line for line in done.stdout.splitlines() if line.startswith(name)]
    assert "FAILED" in row
    assert name not in manifest.read(project / "figures")


def test_a_line_is_said_in_one_piece(monkeypatch):
    """Or those of notebooks side by side run into one another."""
    pieces = []
    monkeypatch.setattr("sys.stdout", SimpleNamespace(write=pieces.append, flush=lambda: None))
    launch.say(" start  01_toy")
    assert [piece for piece in pieces if piece] == [" start  01_toy\n"]


def test_profiles_set_parameters_the_command_line_wins_and_fuller_figures_stay(project, monkeypatch):
    monkeypatch.delenv("PDEVAE_XLA", raising=False)
    log, figures = f"log='{project}/log'", project / "figures"
    figures.mkdir()
    full = {"01_toy": {"profile": "paper", "overrides": {}}}
    (figures / "manifest.json").write_text(json.dumps(full))
    done = run(project, "--profile", "quick", "-p", log, "--jobs", "1")
    assert done.returncode == 0, done
    assert len((project / "log").read_text().split()) == 2
    assert "XLA: 0" in (project / "build" / "notebooks" / "quick" / "01_toy.ipynb").read_text()
    assert "figures/ holds a fuller profile" in done.stdout
    assert not (figures / "fig_toy.csv").exists()
    assert (project / "build" / "figures" / "fig_toy.csv").exists()
    run(project, "--profile", "quick", "-p", log, "-p", "count=4", "--jobs", "1", "--overwrite")
    assert len((project / "log").read_text().split()) == 4  # two of the four were there
    assert (figures / "fig_toy.csv").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--only", "09"], "no notebook '09': choose from 01_toy"),
        (["--profile", "big"], "no profile 'big': choose from smoke, quick, paper"),
        (["-p", "cuont=3"], "no chosen notebook has a parameter 'cuont': choose from count"),
        (["-p", "count=three"], "count='three' has the wrong type: expected something like 3"),
        (["-p", "count=1.5"], "wrong type"),
        (["-p", "count=True"], "wrong type"),
        (["-p", "sizes=[1, 'a']"], "wrong type"),
        (["-p", "sizes=3"], "wrong type"),
        (["-p", "count"], "not of the form name=value"),
        (["--jobs", "-1"], "use 1 to"),
        (["--jobs", "100000"], "use 1 to"),
        (["--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler answers at tcp://127.0.0.1:9"),
        (["--scheduler", "nonsense"], "no Dask scheduler answers at nonsense"),
    ],
)
def test_bad_requests_are_refused_in_one_line(project, arguments, says):
    assert says in refused(project, *arguments)


def test_a_profile_with_an_unknown_parameter_is_refused(project):
    (project / "notebooks" / "profiles" / "quick.toml").write_text("[01_toy]\nwidth = 3\n")
    assert "profile quick sets 'width', which 01_toy does not have" in refused(project)


def test_a_broken_profile_is_refused(project):
    (project / "notebooks" / "profiles" / "quick.toml").write_text("[01_toy\n")
    assert "profile quick cannot be read" in refused(project)


def test_a_notebook_without_parameters_is_refused(project):
    nbformat.write(nbformat.v4.new_notebook(cells=[]), project / "notebooks" / "02_bare.ipynb")
    assert "02_bare.ipynb has no cell tagged 'parameters'" in refused(project)


def test_a_damaged_manifest_is_said(project):
    (project / "figures").mkdir()
    (project / "figures" / "manifest.json").write_text('{"01_toy": ')
    done = run(project)
    assert done.returncode == 2
    assert "manifest.json cannot be read" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_list_shows_notebooks_parameters_and_profiles(project):
    shown = run(project, "--list").stdout
    assert "\n    count = 3 (quick: 2)    how many\n" in shown
    assert "profiles: smoke, quick, paper" in shown


def test_a_figure_that_does_not_fit_the_disk_is_said_in_one_line(tmp_path, monkeypatch):
    """The system refuses larger files, wherever in the PDF; Matplotlib would hide the reason in some places."""
    figure = plt.figure(figsize=(1, 1))
    figure.text(0, 0, string.printable.strip().replace("$", ""), fontsize=1)  # fonts come last
    monkeypatch.setattr(study.plots, "fig_large", lambda table: figure, raising=False)
    (tmp_path / "fig_large.csv").write_text("x\n1\n")
    artefacts.draw("fig_large", tmp_path)
    png, pdf = (tmp_path / f"fig_large.{ending}" for ending in ("png", "pdf"))
    least, size, before = png.stat().st_size, pdf.stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    assert size > 1.5 * least
    for allowed in range(least, size, (size - least) // 8):
        pdf.unlink(missing_ok=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (allowed, before[1]))
        try:
            with pytest.raises(UserError, match=r"cannot write .*fig_large.pdf: File too large"):
                artefacts.draw("fig_large", tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fig_large.csv", "fig_large.png"]


def test_figures_of_a_reduced_profile_say_so_on_their_face():
    assert RunSettings(profile="paper").is_full
    assert not RunSettings(profile="paper", overrides={"count": 1}).is_full
    drawn = artefacts.Run.__new__(artefacts.Run)
    drawn.settings = RunSettings(profile="quick", overrides={"count": 1})
    assert drawn.note == "reduced profile: quick (count=1)"
