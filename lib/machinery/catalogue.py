"""figures/catalogue.toml, what each artefact shows, and figures/README.md, written from it and the manifest."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields

from machinery import manifest
from machinery.files import write_text
from machinery.settings import project_root
from pdevae.errors import UserError

_USE = r"""
## In a document of your own

A table needs `booktabs`; its file holds the `tabular` (two, one under the other, for the Jura results):

```latex
\usepackage{booktabs,graphicx}
\graphicspath{{figures/}}
…
\begin{table}
  \centering \input{figures/tab_metals} \caption{…} \label{supp:tab:metals}
\end{table}
\begin{figure}
  \includegraphics[width=\linewidth]{fig_minipatch} \caption{…} \label{fig:minipatch}
\end{figure}
```

A wide one fits with `\resizebox{\linewidth}{!}{\input{…}}`. Captions are in [catalogue.toml](catalogue.toml). Next to
each artefact is the CSV it is drawn from: `./run_all.sh --redraw` redraws all of them from these alone.
[claims.csv](claims.csv) has every claim with its verdict, [manifest.json](manifest.json) what it was made with.
"""


@dataclass(frozen=True)
class Entry:
    """What is said about an artefact; ``label`` is the paper's, empty for an addition of ours."""

    label: str
    title: str
    caption: str
    differs: str


def read() -> dict[str, Entry]:
    """Artefact → entry; empty where a project has no catalogue."""
    path = project_root() / "figures" / "catalogue.toml"
    if not path.exists():
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}): repair it, or restore it from git") from error
    return {name: _entry(name, values) for name, values in content.items()}


def _entry(name: str, values: dict) -> Entry:
    wanted = [field.name for field in fields(Entry)]
    if sorted(values) != sorted(wanted) or not all(isinstance(value, str) for value in values.values()):
        raise UserError(f"catalogue.toml: [{name}] must have {', '.join(wanted)}, all of them text")
    return Entry(**values)


def entry(entries: dict[str, Entry], artefact: str) -> Entry:
    """What is said about it, or its bare name."""
    return entries.get(artefact, Entry("", artefact, "", ""))


def disagreements(entries: dict[str, Entry], records: dict) -> list[str]:
    """A line for each artefact of the manifest without an entry, and for each entry without an artefact."""
    made = [name for record in records.values() for name in record["artefacts"]]
    return [
        *(f"{name} is in manifest.json but not in catalogue.toml: describe it" for name in made if name not in entries),
        *(f"{name} is in catalogue.toml but no notebook makes it: remove it" for name in entries if name not in made),
    ]


def overview() -> str:
    """The text of figures/README.md."""
    entries, records = read(), manifest.read(project_root() / "figures")
    lines = [
        _line(name, entry(entries, name), book) for book, record in records.items() for name in record["artefacts"]
    ]
    head = [
        "# Figures and tables",
        "",
        "Written by the runner from `catalogue.toml` and `manifest.json`; `./run_all.sh --report` makes a page of it.",
        "",
        "| artefact | in place of the paper's | what it shows | made by |",
        "|---|---|---|---|",
    ]
    return "\n".join([*head, *lines]) + "\n" + _USE


def update() -> None:
    figures = project_root() / "figures"
    if (figures / "catalogue.toml").exists():
        write_text(figures / "README.md", overview())


def _line(name: str, said: Entry, book: str) -> str:
    endings = ("tex", "csv") if name.startswith("tab_") else ("png", "pdf", "csv")
    files = " ".join(f"[{ending}]({name}.{ending})" for ending in endings)
    label = f"`{said.label}`" if said.label else "(an addition)"
    return f"| `{name}` {files} | {label} | {said.title} | [{book}](../notebooks/{book}.ipynb) |"
