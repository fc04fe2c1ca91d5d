"""What code a function depends on: its module and those beside this package that one imports, in turn.

Comments, layout, docstrings and what errors say do not count, so editing them costs no recomputation.
"""

from __future__ import annotations

import ast
import hashlib
import os
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec, resolve_name
from pathlib import Path

_OURS = Path(__file__).parents[1]  # the folder of our packages
_LIBRARIES = ("numpy", "scipy", "tensorflow", "tensorflow-probability", "scikit-fem", "meshpy", "gpflow")


def fingerprint(module: str) -> dict[str, str]:
    """Name → short hash for the module and what it imports of ours; the libraries' versions, and XLA or not."""
    hashes: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in hashes:
            hashes[name], imported = _hash_and_imports(name)
            waiting += imported
    return dict(sorted(hashes.items())) | _versions() | {"XLA": os.environ.get("PDEVAE_XLA", "1")}


@cache
def _versions() -> dict[str, str]:
    return {library: version(library) for library in _LIBRARIES}


@cache
def _hash_and_imports(module: str) -> tuple[str, tuple[str, ...]]:
    spec = find_spec(module)
    assert spec is not None and spec.origin is not None, module
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    package = module if spec.submodule_search_locations else module.rpartition(".")[0]
    imported = [found for node in ast.walk(tree) for found in _modules(node, package)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            node.exc = node.exc.func
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16], tuple(imported)


def _modules(node: ast.AST, package: str) -> list[str]:
    """Our modules that an import statement names; ``from a import b`` may mean module a.b."""
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        base = resolve_name("." * node.level + (node.module or ""), package) if node.level else node.module or ""
        names = [base] + [f"{base}.{alias.name}" for alias in node.names]
    else:
        return []
    return [name for name in names if (_OURS / name.split(".")[0]).is_dir() and _is_module(name)]


@cache
def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # the parent is a module, not a package
        return False
