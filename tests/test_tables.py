"""Tables: the same rows in LaTeX and in HTML, and LaTeX that a plain document can read."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from machinery.artefacts import made_from_csv
from machinery.settings import project_root
from study.plots.tables import Table, bold, dagger, italic, under

FIGURES = project_root() / "figures"
TABLES = sorted(path.stem for path in FIGURES.glob("tab_*.csv"))
DOCUMENT = r"""\documentclass{article}
\usepackage[utf8]{inputenc}
\usepackage{booktabs}
\begin{document}
%s
\end{document}
"""


class Rows(HTMLParser):
    """The cells of each row of the tables in a piece of HTML."""

    def __init__(self, html: str):
        super().__init__()
        self.rows: list[list[str]] = []
        self.inside = False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.rows[-1][-1] += data


def latex_rows(text: str) -> list[list[str]]:
    return [line.removesuffix(r" \\").split(" & ") for line in text.splitlines() if line.endswith(r" \\")]


@pytest.mark.parametrize("name", TABLES)
def test_committed_latex_and_html_hold_the_same_rows(name):
    table = made_from_csv(name, FIGURES)
    text = (FIGURES / f"{name}.tex").read_text()
    assert table.latex() == text
    rows, wanted = Rows(table.html()).rows, latex_rows(text)
    assert [len(row) for row in rows] == [len(row) for row in wanted]
    assert not re.search(r"[\\$]", table.html())


def test_a_table_says_the_same_in_all_three():
    rows = [[italic("all"), ""], ["a & b_1", bold("1 ± 2")], [under("in the paper"), dagger("−3")]]
    table = Table("lr", ["", "MAE < 1"], [rows], note="of 50%\nof all", below=Table("l", ["x"], [[["y"]]]))
    assert latex_rows(table.latex())[2:4] == [
        [r"a \& b\_1", r"\textbf{1 $\pm$ 2}"],
        [r"\quad in the paper", r"$-$3$^\dagger$"],
    ]
    assert Rows(table.html()).rows[1:4] == [["all", ""], ["a & b_1", "1 ± 2"], ["in the paper", "−3†"]]
    assert "MAE &lt; 1" in table.html()
    assert table.latex().startswith("% of 50%\n% of all\n")
    assert str(table).splitlines()[3].split() == ["a", "&", "b_1", "*1", "±", "2*"]
    assert table.latex().count("tabular") == table.html().count("table>") * 2 == 4


def compile_latex(body: str, folder: Path) -> str:
    """What pdflatex has to complain about; nothing where all is well."""
    (folder / "all.tex").write_text(DOCUMENT % body, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-no-shell-escape", "all.tex"],
        cwd=folder,
        capture_output=True,
        timeout=120,
    )
    log = (folder / "all.log").read_text(encoding="utf-8", errors="replace")
    wrong = [line for line in log.splitlines() if line.startswith("!") or "Missing character" in line]
    return "\n".join(wrong) or ("" if done.returncode == 0 else log[-2000:])


needs_latex = pytest.mark.skipif(
    shutil.which("pdflatex") is None,
    reason="pdflatex is not installed (Debian: texlive-latex-recommended), so the tables are not compiled",
)


@needs_latex
def test_every_committed_table_compiles_with_booktabs_alone(tmp_path):
    for name in TABLES:
        shutil.copy(FIGURES / f"{name}.tex", tmp_path)
    assert TABLES
    assert compile_latex("\n\n".join(rf"\input{{{name}}}" for name in TABLES), tmp_path) == ""


@needs_latex
def test_the_compilation_notices_what_latex_cannot_set(tmp_path):
    assert "Unicode character" in compile_latex("τ → 0", tmp_path)
    assert "Undefined control sequence" in compile_latex(r"\nosuchthing", tmp_path)


@needs_latex
def test_cells_may_hold_the_signs_that_latex_reads_otherwise(tmp_path):
    signs = "a & b % c # d _ e $ f {g} \\ ± ← → − × ~ ^ < > | ≤ ≥ ∇ τ ε ρ μ σ λ Γ Δ ² ³ é"
    assert compile_latex(Table("ll", ["", signs], [[[signs, bold(signs)]]]).latex(), tmp_path) == ""
