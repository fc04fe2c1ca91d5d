"""The numbered notebooks and their parameters; values are checked against the notebook's own defaults."""

from __future__ import annotations

import ast
import json
import math
import tomllib
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from machinery.settings import project_root
from pdevae.errors import UserError

PROFILES = ("smoke", "quick", "paper")  # from the least to the fullest


@dataclass(frozen=True)
class Parameter:
    """A name assigned in the cell tagged ``parameters``; the comment behind it explains it."""

    name: str
    default: object
    comment: str

    def checked(self, value: object) -> object:
        """``value``, if it is of the default's kind; a whole number passes where a real one is wanted."""
        if not _same_kind(self.default, value):
            raise UserError(
                f"parameter {self.name}={_shown(value)} has the wrong type: expected something like {self.default!r}"
            )
        if not _in_range(self.default, value):
            raise UserError(
                f"parameter {self.name}={_shown(value)} is out of range: expected sizes and counts above zero"
            )
        if not _plain(value):
            raise UserError(f"parameter {self.name}={_shown(value)} must consist of finite numbers, words and lists")
        return value


@dataclass(frozen=True)
class Notebook:
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def parameters(self) -> dict[str, Parameter]:
        try:
            cells = json.loads(self.path.read_text(encoding="utf-8"))["cells"]  # nbformat takes two seconds to import
            sources = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.path.name} is not a notebook ({error!r}): restore it from git") from error
        if not sources:
            raise UserError(f"{self.path.name} has no cell tagged 'parameters': tag the one with its settings")
        try:
            return {parameter.name: parameter for parameter in _assignments(sources[0])}
        except (ValueError, SyntaxError) as error:
            raise UserError(f"{self.path.name}: a parameter is not a plain value ({error}): write it out") from error


def notebooks() -> list[Notebook]:
    return [Notebook(path) for path in sorted((project_root() / "notebooks").glob("[0-9][0-9]_*.ipynb"))]


def select(only: list[str]) -> list[Notebook]:
    """Notebooks by number or name; all where nothing is asked."""
    known = notebooks()
    chosen = []
    for wanted in only:
        match = [book for book in known if wanted in (book.name, book.name.split("_")[0])]
        if not match:
            names = ", ".join(book.name for book in known)
            raise UserError(f"no notebook {wanted!r}: choose from {names}")
        chosen += match
    return [book for book in known if book in chosen] if only else known


def profile(name: str) -> dict[str, dict]:
    """A profile's sections, one per notebook."""
    folder = project_root() / "notebooks" / "profiles"
    if name not in PROFILES:
        raise UserError(f"no profile {name!r}: choose from {', '.join(PROFILES)}")
    try:
        sections = tomllib.loads((folder / f"{name}.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"profile {name} cannot be read from {folder}: {error}") from error
    for section, values in sections.items():
        if not isinstance(values, dict):
            raise UserError(f"profile {name} sets {section!r} outside any notebook: put it under [NN_name]")
    return sections


def resolve(chosen: list[Notebook], profile_name: str, overrides: dict[str, object]) -> dict[str, dict]:
    """Parameters to pass to each notebook; anything no notebook knows is refused."""
    sections = profile(profile_name)
    known = sorted({name for book in chosen for name in book.parameters})
    for name in overrides:
        if name not in known:
            raise UserError(f"no chosen notebook has a parameter {name!r}: choose from {', '.join(known)}")
    passed = {}
    for book in chosen:
        section = sections.get(book.name, {})
        for name in section:
            if name not in book.parameters:
                raise UserError(f"profile {profile_name} sets {name!r}, which {book.name} does not have: remove it")
        mine = section | {name: value for name, value in overrides.items() if name in book.parameters}
        passed[book.name] = {name: book.parameters[name].checked(value) for name, value in mine.items()}
    return passed


def parse_override(text: str) -> tuple[str, object]:
    """``name=value``; the value as Python writes it, or a bare word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip().isidentifier():
        raise UserError(f"-p {text!r} is not of the form name=value")
    try:
        with warnings.catch_warnings(action="ignore"):  # a backslash in a word is no mistake
            return name.strip(), ast.literal_eval(value.strip())
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):  # the last two: nested too deeply
        return name.strip(), value.strip()


def _assignments(source: str) -> list[Parameter]:
    lines = source.splitlines()
    found = []
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            comment = lines[(statement.end_lineno or 1) - 1][statement.end_col_offset :].strip(" #")
            found.append(Parameter(statement.targets[0].id, ast.literal_eval(statement.value), comment))
    return found


def _in_range(default: object, value: Any) -> bool:
    """A number that is positive by default is never negative, one of a list of counts never below one."""
    if isinstance(default, list | tuple):
        counts = default and all(isinstance(item, int) and item > 0 for item in default)
        return not counts or all(item > 0 for item in value)
    return not isinstance(default, int | float) or default <= 0 or value >= 0


def _plain(value: object) -> bool:
    """Can it be handed to a notebook and be part of a key?"""
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return value.isprintable()
    return isinstance(value, bool | int | None)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def _same_kind(default: object, value: object) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(default, bool) and isinstance(value, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    if isinstance(default, list | tuple):
        return isinstance(value, list | tuple) and all(_same_kind(default[0], item) for item in value if default)
    return isinstance(value, type(default))
