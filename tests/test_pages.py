"""The pages of notebooks, as committed and as the runner writes them; the site that Sphinx makes of all pages."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from browser import CHROMIUM, chromium
from machinery import manifest, notebooks, pages
from machinery.settings import project_root

ROOT = project_root()
BOOKS = notebooks.notebooks()


@pytest.mark.parametrize("book", BOOKS, ids=lambda book: book.name)
def test_a_notebooks_page_holds_its_text_and_code_and_is_small(book):
    path = ROOT / pages.FOLDER / f"{book.name}.md"
    page = path.read_text()
    assert path.stat().st_size < 60_000
    for cell in nbformat.read(book.path, as_version=4).cells:
        for line in cell.source.splitlines():
            assert line in page, f"{path.name} is older than its notebook: ./run_all.sh --report writes it again"
    for link in re.findall(r"\]\(([^)#]+)\)", page):
        assert (path.parent / link).exists(), link


def test_every_page_is_in_the_index():
    text = (ROOT / pages.FOLDER / "README.md").read_text()
    assert text == pages.index(manifest.read(ROOT / "figures"))
    assert all(f"({book.name}.md)" in text for book in BOOKS)


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project with one notebook, executed on the paper profile."""
    monkeypatch.setenv("PDEVAE_ROOT", str(tmp_path))
    for folder in ("notebooks", "figures", "build/notebooks/paper"):
        (tmp_path / folder).mkdir(parents=True)
    lines = ["infer: 5 replicates: 2 reused, 3 to compute (not computed before)", *(f"line {k}" for k in range(100))]
    printed = new_output("stream", name="stdout", text="\n".join(lines))
    cells = [
        new_markdown_cell("# A toy\n\nWith $x^2$."),
        new_code_cell("count = 3", metadata={"tags": ["parameters"]}),
        new_code_cell("print(lines)", outputs=[printed, new_output("stream", name="stderr", text="a warning")]),
        new_code_cell('run.save("fig_toy", table)'),
        new_code_cell("run.bar(*bar)", outputs=[new_output("stream", name="stdout", text="  met  a bar")]),
    ]
    nbformat.write(new_notebook(cells=cells), tmp_path / "build/notebooks/paper/01_toy.ipynb")
    for cell in cells[1:]:
        cell.outputs = []
    nbformat.write(new_notebook(cells=cells), tmp_path / "notebooks/01_toy.ipynb")
    record = {
        "profile": "paper",
        "overrides": {},
        "parameters": {"count": 3},
        "artefacts": {"fig_toy": ""},
        "claims": {"met": 1},
        "revision": "r",
    }
    manifest.update(tmp_path / "figures", "01_toy", record)
    manifest.update(tmp_path / "figures", "02_quick", record | {"profile": "quick"})
    return tmp_path


def test_a_page_has_outputs_cut_to_size_and_links_its_figures(project):
    pages.write_all()
    page = (project / "docs/notebooks/01_toy.md").read_text()
    assert page.startswith("# A toy\n\n[notebook](../../notebooks/01_toy.ipynb), profile paper")
    assert "line 39\n… 60 more lines" in page
    assert "](../../figures/fig_toy.png)" in page
    assert "a warning" not in page
    assert "5 replicates" not in page
    assert "  met  a bar" not in page


def test_a_page_says_which_parameters_have_changed_since(project):
    record = manifest.read(project / "figures")["01_toy"]
    assert "Run before" not in pages.page("01_toy", record)
    assert "with `count = 2`" in pages.page("01_toy", record | {"parameters": {"count": 2}})


def test_only_what_ran_on_the_paper_profile_has_a_page(project):
    pages.write_all()
    assert sorted(path.name for path in (project / "docs/notebooks").iterdir()) == ["01_toy.md", "README.md"]


def test_a_notebook_that_was_not_executed_here_is_shown_from_its_source(project):
    (project / "build/notebooks/paper/01_toy.ipynb").unlink()
    pages.write_all()
    page = (project / "docs/notebooks/01_toy.md").read_text()
    assert "print(lines)" in page
    assert "line 39" not in page


def test_what_was_printed_stays_on_the_page_where_the_executed_notebook_is_gone(project):
    pages.write_all()
    path = project / "docs/notebooks/01_toy.md"
    before = path.read_text()
    (project / "build/notebooks/paper/01_toy.ipynb").unlink()
    pages.write_all()
    assert path.read_text() == before


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built without the network; a warning, such as a link that leads nowhere, is an error."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "-c", ROOT / "docs", ROOT, target]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


class Links(HTMLParser):
    def __init__(self, text: str):
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("href", "src") and value]


@pytest.mark.slow
def test_links_of_the_site_lead_somewhere_and_nothing_comes_from_elsewhere(site):
    assert (site / "index.html").exists()
    for page in site.rglob("*.html"):
        for link in Links(page.read_text()).found:
            assert not re.match(r"(https?:)?//.*\.(js|css)", link), f"{page.name} needs {link}"
            if re.match(r"https?:|mailto:|data:|#|//", link):
                continue
            assert (page.parent / unquote(re.split("[?#]", link)[0])).exists(), f"{page.relative_to(site)}: {link}"


@pytest.mark.slow
def test_formulas_are_drawn_without_scripts(site):
    page = (site / "docs/notebooks/02_minipatch_accuracy.html").read_text()
    assert "<math" in page
    assert "\\Gamma" not in page


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_the_site_fits_a_desk_and_a_phone_and_can_be_searched(site):
    shown = ["index.html", "figures/claims.html", "docs/notebooks/05_jura_table.html", "docs/your-problem.html"]
    with chromium() as browser:
        for width in (1280, 390):
            for name in shown:
                page = browser.new_page(viewport={"width": width, "height": 900})
                page.goto((site / name).as_uri())
                assert page.evaluate("document.documentElement.scrollWidth") <= width, (name, width)
                assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)"), name
        page.goto((site / "search.html").as_uri() + "?q=mini-patches")
        page.wait_for_selector("#search-results li", timeout=20_000)
        assert "Mini-patches" in page.inner_text("#search-results")
