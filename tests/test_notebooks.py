"""Every notebook runs to its end on the smoke profile, and is committed as the style asks."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import readme_tables
import tables

from machinery import claims, manifest, notebooks
from machinery.files import sha256
from machinery.settings import project_root
from pdevae._tensorflow import tf

BOOKS = notebooks.notebooks()
PAGES = [f"docs/{path.name}" for path in sorted((project_root() / "docs").glob("*.md"))]


@pytest.fixture(scope="module")
def smoke(tmp_path_factory):
    """The project's notebooks, run in a folder of their own."""
    root = tmp_path_factory.mktemp("project")
    for folder in ("notebooks", "data"):
        shutil.copytree(project_root() / folder, root / folder)
    command = [sys.executable, "-m", "machinery.cli", "--profile", "smoke", "--jobs", "2"]
    done = subprocess.run(command, env=os.environ | {"PDEVAE_ROOT": str(root)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def test_the_smoke_profile_runs_every_notebook(smoke):
    assert set(manifest.read(smoke / "figures")) == {book.name for book in BOOKS}


@pytest.mark.parametrize("name", notebooks.PROFILES)
def test_a_size_is_timed_with_every_method(name):
    """Notebook 04 compares them there."""
    book = next(book for book in BOOKS if book.name == "04_runtime_scaling")
    own = {name: p.default for name, p in book.parameters.items()} | notebooks.profile(name).get(book.name, {})
    assert {*own["dense_sizes"]} & {*own["trained_sizes"]} & {*own["sizes"]}


# seconds, accuracy after a full training, a χ² test over a hundred problems
NOT_FOR_SMOKE = [
    "fig_time_compar",
    "fig_million",
    "fig_ladder",
    "fig_accuracy_exper",
    "fig_posterior_quality",
    "tab_boundary_factors",
    "fig_calibration",
    "tab_jura_results",
    "tab_aquifer_results",
    "fig_aquifer_twin",
    "fig_your_own_unknowns",
    "fig_benchmark",
    "tab_benchmark",
    "fig_groundwater",
    "fig_amortised",
    "fig_amortised_cost",
    "fig_next_sensor",
    "tab_trainers",
]


def test_every_figure_has_its_table_and_no_bar_is_missed(smoke):
    figures = smoke / "figures"
    assert all(path.with_suffix(".tex").exists() for path in figures.glob("tab_*.csv"))
    for path in figures.glob("fig_*.png"):
        assert path.with_suffix(".csv").exists()
        assert path.with_suffix(".pdf").exists()
    table = claims.read(figures)
    bars = table[(table.source == "bar") & ~table.artefact.isin(NOT_FOR_SMOKE)]
    assert "missed" not in set(bars.verdict), bars[bars.verdict == "missed"].to_string()
    assert set(table.verdict[table.paper_value == "reported"]) == {"reported"}  # without a target nothing is met
    assert set(table.profile) == {"smoke"}


def test_figures_can_be_redrawn_from_their_tables_alone(smoke, tmp_path):
    """Every fifth; the run has drawn them all with the same function, which sees a CSV and nothing else."""
    (tmp_path / "figures").mkdir()
    for table in sorted((smoke / "figures").glob("???_*.csv"))[::5]:
        shutil.copy(table, tmp_path / "figures")
    command = [sys.executable, "-m", "machinery.cli", "--redraw"]
    subprocess.run(command, env=os.environ | {"PDEVAE_ROOT": str(tmp_path)}, check=True)
    tables = {path.stem for path in (tmp_path / "figures").glob("*.csv")}
    wanted, made = (
        {path.name for path in (folder / "figures").iterdir() if path.suffix in (".png", ".pdf", ".tex")}
        for folder in (smoke, tmp_path)
    )
    assert made == {name for name in wanted if Path(name).stem in tables}
    assert {name[:3] for name in made} == {"fig", "tab"}


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_notebooks_are_committed_without_outputs_and_are_short(book):
    cells = [cell for cell in json.loads(book.path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells)
    lines = [line for cell in cells for line in "".join(cell["source"]).splitlines() if line.strip()]
    assert len(lines) <= 120
    assert "run.finish()" in lines[-1]


@pytest.mark.parametrize("name", notebooks.PROFILES)
def test_profiles_know_every_notebook_and_only_its_parameters(name):
    assert set(notebooks.profile(name)) == {book.name for book in BOOKS}
    notebooks.resolve(BOOKS, name, {})


def test_committed_figures_come_from_the_paper_profile():
    figures = project_root() / "figures"
    records = manifest.read(figures)
    assert set(records) == {book.name for book in BOOKS}
    for record in records.values():
        assert record["profile"] == "paper"
        assert record["overrides"] == {}
        for name, digest in record["artefacts"].items():
            assert digest == sha256(figures / f"{name}.csv")
    table = claims.read(figures)
    assert set(table.profile) <= {"paper", "benchmark"}
    assert not table.claim_id.duplicated().any()


def test_the_page_of_claims_shows_them_as_they_are():
    figures = project_root() / "figures"
    assert (figures / "claims.md").read_text() == claims.text(figures)


def test_the_readme_is_read_in_two_minutes():
    text = (project_root() / "README.md").read_text()
    assert len(text.splitlines()) <= 150
    assert len(text.split()) <= 1500


def test_the_code_in_the_readme_runs():
    solve, add = re.findall(r"```python\n(.*?)```", (project_root() / "README.md").read_text(), re.DOTALL)
    names = {"sensors": [[0.1, 0.2], [-0.3, 0.1]], "readings": [0.1, 0.12]}
    exec(solve.replace("2_000", "300"), names)
    assert names["posterior"].log_a([[0.0, 0.0]]).sd > 0
    network = [tf.keras.Input([4]), tf.keras.layers.Dense(8, "tanh"), tf.keras.layers.Dense(1)]
    names |= {"model": tf.keras.Sequential(network), "z": tf.zeros([3, 2], tf.float64), "step": 0, "eps": 0.01}
    exec(add, names | {"nll": lambda u: tf.reduce_mean((u - names["readings"]) ** 2)})


@pytest.mark.parametrize("page", ["README.md", "figures/claims.md", "figures/README.md", *PAGES])
def test_links_of_a_page_lead_somewhere(page):
    path = project_root() / page
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / link).exists(), link


def test_the_benchmarks_page_shows_their_tables_as_they_are():
    assert (project_root() / "benchmarks" / "README.md").read_text() == tables.text()
    assert (project_root() / "README.md").read_text() == readme_tables.text()


def test_conda_users_get_the_lock_file():
    text = (project_root() / "environment.yml").read_text()
    assert "-r requirements.lock" in text
    assert "python=3.11" in text


def test_claims_are_written_as_csv_and_as_markdown(tmp_path):
    row = claims.row("a", "bar", "x | y", 1, 2, "met", "paper", "fig_a")
    claims.merge(tmp_path, [row], ["fig_a"])
    other = claims.row("b", "eq:x", "z", 1, 2, "partly", "paper", "fig_b")
    claims.merge(tmp_path, [other], ["fig_b"])
    again = claims.row("a2", "bar", "x", 1, 3, "missed", "paper", "fig_a")
    claims.merge(tmp_path, [again], ["fig_a"])  # claim "a" is about the same artefact and was not made again
    assert pd.read_csv(tmp_path / "claims.csv").claim_id.tolist() == ["a2", "b"]
    page = (tmp_path / "claims.md").read_text()
    assert page.count("\n| ") == 4  # two claims under a head each
    parts = [page.index(part) for part in ("What the paper claims", "| z |", "Our own targets", "| x |")]
    assert parts == sorted(parts)
    assert Path(tmp_path / "claims.csv").read_text().startswith(",".join(claims.COLUMNS))
