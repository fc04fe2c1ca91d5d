"""build/report/index.html: every artefact with its claims, on one page that needs nothing from the network.

The folder is made beside its place and then takes it, so a build that fails or is killed leaves the previous one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import jinja2
from filelock import FileLock
from markupsafe import Markup
from pygments.formatters import HtmlFormatter
from tqdm import tqdm

from machinery.files import write_text
from machinery.report import content, notebook_pages
from machinery.settings import project_root
from pdevae.errors import UserError

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Built:
    """The page, and the notebooks whose executed form was not there to go with it."""

    page: Path
    without: list[str]


def build(figures: Path, target: Path, failed: dict[str, str] | None = None) -> Built:
    """The report on what stands in ``figures``; ``failed``: notebooks that did not come to their end, and why."""
    with _replaced(target) as folder:
        found = content.gather(figures)
        copied = _copy_files(found, figures, folder)
        pages = _write_notebooks(found, folder)
        text = _template("report.html").render(
            found=found,
            copied=copied,
            pages=pages,
            failed=failed or {},
            made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            verdicts=content.VERDICTS,
        )
        write_text(folder / "index.html", text)
    without = [section.book for section in found.sections if section.book not in pages]
    return Built(target / "index.html", without)


def _copy_files(found: content.Content, figures: Path, folder: Path) -> set[str]:
    """Everything the page shows or links to; returns the names of the copies."""
    shown = [path for section in found.sections for artefact in section.artefacts for path in artefact.files.values()]
    copies = {f"figures/{path.name}": path for path in shown}
    copies |= {name: figures / name for name in ("manifest.json", "claims.csv") if (figures / name).is_file()}
    copies |= {name: project_root() / name for name in found.others if (project_root() / name).is_file()}
    for name, source in copies.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / name)
    styles = [(_HERE / "style.css").read_text(encoding="utf-8"), _code_colours()]
    write_text(folder / "style.css", "\n".join(styles))
    return set(copies)


def _write_notebooks(found: content.Content, folder: Path) -> dict[str, str]:
    """Notebook → its page, for those that were executed."""
    alternatives = {a.name: a.said.title for section in found.sections for a in section.artefacts}
    pages = {}
    for section in tqdm(found.sections, desc="report", unit="notebook", delay=2, leave=False, disable=None):
        if section.notebook:
            pages[section.book] = f"notebooks/{section.book}.html"
            body = Markup(notebook_pages.body(section.notebook, alternatives))
            write_text(folder / pages[section.book], _template("notebook.html").render(section=section, body=body))
    return pages


def _template(name: str) -> jinja2.Template:
    loader = jinja2.FileSystemLoader(_HERE)
    environment = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def _code_colours() -> str:
    light, dark = (HtmlFormatter(style=style).get_style_defs(".highlight") for style in ("default", "github-dark"))
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"


@contextmanager
def _replaced(target: Path) -> Iterator[Path]:
    """An empty folder that takes the place of ``target`` if the block succeeds."""
    new, old = (target.with_name(f".{target.name}-{age}") for age in ("new", "old"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(target.with_name(f".{target.name}.lock")):
            _put_back(old, target)
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            try:
                yield new
                if target.exists():
                    target.rename(old)
                new.rename(target)
            finally:
                _put_back(old, target)
                shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror or error}; free disk space or choose another folder"
        ) from error


def _put_back(old: Path, target: Path) -> None:
    """The previous folder takes its place again where there is no new one; otherwise it goes."""
    if old.exists() and not target.exists():
        old.rename(target)
    shutil.rmtree(old, ignore_errors=True)
