"""Executed notebooks as plain HTML: no scripts, pictures inside, progress bars left out."""

from __future__ import annotations

import json
import re
from functools import cache, lru_cache
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter
from nbformat import NotebookNode

from machinery.report.markdown import to_html
from machinery.settings import project_root
from pdevae.errors import UserError

_WIDGET = "application/vnd.jupyter.widget-view+json"
_SCRIPTED = ("application/javascript", _WIDGET)


def executed(book: str, record: dict) -> NotebookNode | None:
    """The notebook as this run left it; None where it is not there, or is of a run with other parameters."""
    path = project_root() / "build" / "notebooks" / record["profile"] / f"{book}.ipynb"
    if not path.exists():
        return None
    notebook = read(path)
    passed = notebook.metadata.get("papermill", {}).get("parameters", {})
    return notebook if all(record["parameters"].get(name) == value for name, value in passed.items()) else None


def read(path: Path) -> NotebookNode:
    try:
        return nbformat.read(path, as_version=4)
    except (OSError, ValueError, nbformat.ValidationError) as error:
        raise UserError(f"{path} is not a notebook ({error}): delete it, or run it again") from error


def title(book: str) -> str:
    """The notebook's first heading, or its name."""
    path = project_root() / "notebooks" / f"{book}.ipynb"
    cells = read(path).cells if path.exists() else []
    found = re.search(r"^# (.+)$", "\n".join(cell.source for cell in cells if cell.cell_type == "markdown"), re.M)
    return found.group(1) if found else book


def date(notebook: NotebookNode | None) -> str:
    """The day of the run, as papermill noted it."""
    return (notebook.metadata.get("papermill", {}).get("end_time") or "")[:10] if notebook else ""


def body(notebook: NotebookNode, alternatives: dict[str, str]) -> str:
    """The cells as HTML; ``alternatives``: what the picture of an artefact shows, by its name."""
    saved = {name for cell in notebook.cells if (name := _saved(cell))}
    return _body(json.dumps(notebook), tuple((name, said) for name, said in alternatives.items() if name in saved))


@lru_cache(maxsize=100)
def _body(notebook: str, alternatives: tuple[tuple[str, str], ...]) -> str:
    """Kept: while a run goes on, most of a report is as it was in the one before."""
    read = nbformat.from_dict(json.loads(notebook))
    for cell in read.cells:
        if cell.cell_type == "code":
            cell.outputs = [kept for output in cell.outputs if (kept := _static(output))]
            cell.metadata["alt"] = dict(alternatives).get(_saved(cell), "picture made by the cell above")
    return _exporter().from_notebook_node(read)[0]


def _saved(cell: NotebookNode) -> str:
    """The artefact that the cell saves, or nothing."""
    found = re.search(r"""run\.save\(\s*["'](\w+)""", cell.source)
    return found.group(1) if found else ""


@cache
def _exporter() -> HTMLExporter:
    """Made once: it compiles its templates."""
    exporter = HTMLExporter(template_name="basic", filters={"markdown2html": to_html})
    exporter.exclude_input_prompt = exporter.exclude_output_prompt = True
    return exporter


def _static(output: NotebookNode) -> NotebookNode | None:
    """What can be shown without a kernel: no standard error, no bars, a widget only by its other representation."""
    if output.output_type == "stream":
        return output if output.name == "stdout" else None
    if output.output_type in ("display_data", "execute_result"):
        rest = {kind: data for kind, data in output.data.items() if kind not in _SCRIPTED}
        if not rest or (_WIDGET in output.data and set(rest) == {"text/plain"}):
            return None
        output.data = nbformat.from_dict(rest)
    return output
