"""The report: all of it is there, nothing comes from elsewhere, and a build that fails leaves the one before."""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from machinery import catalogue, claims, cli, manifest, report
from machinery.report.markdown import to_html
from machinery.settings import project_root
from pdevae.errors import UserError

ROOT = project_root()
FIGURES = ROOT / "figures"
BOOK = "02_minipatch_accuracy"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Page(HTMLParser):
    """Tags with their attributes, text by the nearest element with an id, and rows of tables likewise."""

    def __init__(self, path: Path):
        super().__init__()
        self.path, self.tags, self.ids, self.text, self.rows = path, [], [], {}, {}
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.append((tag, attributes))
        if "id" in attributes:
            self.ids.append(attributes["id"])
        if tag == "table":
            self.kind = attributes.get("class")
        if tag == "tr" and self.kind == "result":
            self.rows[self.ids[-1]] = self.rows.get(self.ids[-1], 0) + 1

    def handle_data(self, data):
        near = self.ids[-1] if self.ids else ""
        self.text[near] = self.text.get(near, "") + data

    def values(self, attribute: str) -> list[tuple[str, str]]:
        return [(tag, attributes[attribute]) for tag, attributes in self.tags if attributes.get(attribute)]


def executed() -> nbformat.NotebookNode:
    """A notebook as a run leaves it: a formula, a picture, a bar as a widget, noise on standard error."""
    bar = {"application/vnd.jupyter.widget-view+json": {"model_id": "1"}, "text/plain": "  0%| | 0/3 Loading"}
    picture = {"image/png": PIXEL, "text/plain": "<Figure size 640x480>"}
    outputs = [
        new_output("display_data", bar),
        new_output("stream", name="stderr", text="a noisy warning"),
        new_output("stream", name="stdout", text="said aloud"),
        new_output("execute_result", picture),
    ]
    formulas = r"$$R = r^\top A^{-1} r$$ and $\epsilon$, `$code$`, $\notknown{x}$"
    cells = [
        new_markdown_cell(f"# T\n\n{formulas} [a file](../figures/claims.md)"),
        new_code_cell('run.save("fig_mp_exper", table)', outputs=outputs),
    ]
    return new_notebook(cells=cells, metadata={"papermill": {"parameters": {}, "end_time": "2025-01-02T03:04:05"}})


def make_project(root: Path) -> Path:
    """The committed project's figures, and one executed notebook, in a folder of its own."""
    (root / "figures").mkdir()
    for path in FIGURES.iterdir():
        (root / "figures" / path.name).symlink_to(path)
    shutil.copytree(ROOT / "docs", root / "docs")  # its pages are written again
    for name in ("README.md", "notebooks", "benchmarks"):
        (root / name).symlink_to(ROOT / name)
    (root / "build" / "notebooks" / "paper").mkdir(parents=True)
    nbformat.write(executed(), root / "build" / "notebooks" / "paper" / f"{BOOK}.ipynb")
    return root


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.setenv("PDEVAE_ROOT", str(tmp_path))
    return make_project(tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = make_project(tmp_path_factory.mktemp("project"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PDEVAE_ROOT", str(root))
        return report.build(root / "figures", root / "build" / "report").page.parent


@pytest.fixture(scope="module")
def page(folder):
    return Page(folder / "index.html")


def build(project: Path, **more) -> report.Built:
    return report.build(project / "figures", project / "build" / "report", **more)


def replace(path: Path, content: bytes) -> None:
    path.unlink()
    path.write_bytes(content)


# What is on the page


def test_every_artefact_is_shown_with_its_title(page):
    shown = [src for tag, src in page.values("src") if tag == "img"]
    entries = catalogue.read()
    for record in manifest.read(FIGURES).values():
        for name in record["artefacts"]:
            assert name in page.ids
            assert entries[name].title in page.text[name]
            assert (f"figures/{name}.png" in shown) if name.startswith("fig_") else page.rows[name]
    assert all(attributes.get("alt") for tag, attributes in page.tags if tag == "img")


def test_tables_have_the_rows_of_the_latex(page):
    wanted = {path.stem: path.read_text().count(r" \\" + "\n") for path in FIGURES.glob("tab_*.tex")}
    assert page.rows == wanted


def test_every_claim_is_there_with_its_verdict(page):
    for row in claims.read(FIGURES).itertuples():
        said = page.text[f"claim-{row.claim_id}"]
        assert all(value in said for value in (row.claim, row.paper_value, row.our_value))
        assert re.search(rf"\b{row.verdict}\s*$", said)
    counted = re.findall(
        r"(not reproduced|not testable|reproduced|partly|met|missed|reported)\s+(\d+)", page.text["top"]
    )
    assert {verdict: int(n) for verdict, n in counted} == claims.read(FIGURES).verdict.value_counts().to_dict()


def test_deviations_come_from_their_page(page):
    deviations = (ROOT / "docs" / "differences.md").read_text()
    assert deviations.count("- **") > 5
    for name in re.findall(r"^- \*\*(.+?)\*\*", deviations, re.M):
        assert name in page.text["deviations"]


def test_the_full_experiment_has_no_banner_and_a_reduced_one_does(project):
    build(project)
    assert "Reduced profile" not in (project / "build/report/index.html").read_text()
    records = manifest.read(FIGURES)
    records[BOOK] |= {"profile": "quick", "overrides": {"nodes": 9}}
    replace(project / "figures" / "manifest.json", json.dumps(records).encode())
    built = build(project, failed={"03_accuracy": "it broke"})
    said = Page(built.page).text["top"]
    assert "profile quick with nodes=9" in said
    assert "03_accuracy failed" in said
    assert "it broke" in said


# Nothing from elsewhere


def test_every_link_leads_somewhere_and_no_asset_is_external(folder):
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    assert len(pages) == 2
    for path, found in pages.items():
        assert not {"script", "iframe", "object", "embed", "base"} & {tag for tag, _ in found.tags}
        assert len(found.ids) == len(set(found.ids))
        for tag, url in [*found.values("src"), *found.values("href"), *found.values("srcset")]:
            if url.startswith("data:") or (tag == "a" and url.startswith(("http:", "https:"))):
                continue
            file, _, anchor = unquote(url).partition("#")
            target = (path.parent / file).resolve() if file else path
            assert target.is_relative_to(folder), url
            assert target.is_file(), url
            assert not anchor or anchor in pages[target].ids, url
    assert not re.search(r"url\(|@import", (folder / "style.css").read_text())


def test_an_executed_notebook_becomes_plain_html(folder):
    text = (folder / "notebooks" / f"{BOOK}.html").read_text()
    assert text.count("<math") == 2
    assert "<code>$code$</code>" in text
    assert r"$\notknown{x}$" in text
    assert "said aloud" in text
    assert f"data:image/png;base64,{PIXEL}" in text
    assert ("img", catalogue.read()["fig_mp_exper"].title) in Page(folder / "notebooks" / f"{BOOK}.html").values("alt")
    assert not re.search("Loading|noisy warning|claims.md|MathJax|cdn", text)


@pytest.mark.parametrize("book", sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")), ids=lambda path: path.stem)
def test_formulas_of_the_notebooks_become_mathml(book):
    for cell in nbformat.read(book, as_version=4).cells:
        if cell.cell_type == "markdown":
            html = re.sub(r"<code>.*?</code>", "", to_html(cell.source))
            assert not re.search(r"\$|\\[a-zA-Z]", html), html


def test_an_executed_notebook_with_other_parameters_is_left_out(project):
    other = executed()
    other.metadata.papermill.parameters["nodes"] = 3
    nbformat.write(other, project / "build" / "notebooks" / "paper" / f"{BOOK}.ipynb")
    assert BOOK in build(project).without


# When something is wrong


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("fig_minipatch.png", None, "fig_minipatch.png missing"),
        ("fig_minipatch.png", b"no picture", "fig_minipatch in .* is damaged"),
        ("fig_minipatch.png", (FIGURES / "fig_minipatch.png").read_bytes()[:5000], "fig_minipatch in .* is damaged"),
        ("fig_minipatch.pdf", b"", "fig_minipatch in .* is damaged"),
        ("fig_minipatch.csv", None, "fig_minipatch.csv missing"),
        ("tab_metals.csv", b"nothing\n1\n", "tab_metals.csv in .* is damaged"),
        ("manifest.json", b"{", "manifest.json cannot be read"),
        ("manifest.json", None, "nothing to report"),
        ("catalogue.toml", b"[fig_a]\ntitle = 'x'\n", r"\[fig_a\] must have label, title, caption, differs"),
    ],
)
def test_a_report_that_cannot_be_made_says_why_and_leaves_the_one_before(project, capsys, name, content, says):
    before = project / "build" / "report"
    before.mkdir()
    (before / "index.html").write_text("the one before")
    (project / "figures" / name).unlink()
    if content is not None:
        (project / "figures" / name).write_bytes(content)
    assert cli.main(["--report"]) == 2
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert re.search(says, said[0])
    assert [path.name for path in before.iterdir()] == ["index.html"]
    assert not [path for path in before.parent.iterdir() if path.name.startswith(".report-")]


def test_a_build_killed_between_its_renames_is_put_right(project):
    old = project / "build" / ".report-old"
    old.mkdir()
    (old / "index.html").write_text("the one before")
    (project / "build" / ".report-new").mkdir()
    (project / "figures" / "fig_minipatch.png").unlink()
    with pytest.raises(UserError):
        build(project)
    assert (project / "build" / "report" / "index.html").read_text() == "the one before"


def test_the_command_ends_with_the_page_and_names_notebooks_that_were_not_executed(project, capsys):
    assert cli.main(["--report"]) == 0
    *_, without, last = capsys.readouterr().out.strip().splitlines()
    assert last == "report: build/report/index.html"
    assert "01_forward_problem" in without
    assert BOOK not in without


# The catalogue


def test_every_artefact_is_in_the_catalogue_and_every_entry_is_made():
    assert catalogue.disagreements(catalogue.read(), manifest.read(FIGURES)) == []


def test_a_catalogue_that_lags_behind_is_said():
    entries = {"fig_b": catalogue.Entry("", "b", "", "")}
    first, second = catalogue.disagreements(entries, {"01": {"artefacts": {"fig_a": ""}}})
    assert "fig_a is in manifest.json but not in catalogue.toml" in first
    assert "fig_b is in catalogue.toml but no notebook makes it" in second


def test_the_overview_of_the_figures_is_up_to_date():
    assert (FIGURES / "README.md").read_text() == catalogue.overview()
