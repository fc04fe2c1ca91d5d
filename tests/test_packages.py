"""Three packages: who may import whom, and what each needs is declared."""

import ast
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest

from machinery.settings import project_root

LIB = project_root() / "lib"
PROJECT = tomllib.loads((project_root() / "pyproject.toml").read_text(encoding="utf-8"))["project"]
DISTRIBUTIONS = packages_distributions()


def imported(package: str) -> set[str]:
    """Top-level names of all import statements."""
    names = set()
    for path in (LIB / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names.add(node.module.partition(".")[0])
    return names


def declared(*extras: str) -> set[str]:
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
    return {line.partition("[")[0].partition("<")[0].partition(">")[0].strip().lower() for line in lines}


@pytest.mark.parametrize(
    ("package", "never"), [("pdevae", {"study", "machinery"}), ("machinery", {"study"})], ids=["method", "machinery"]
)
def test_arrows_point_one_way(package, never):
    assert not imported(package) & never


@pytest.mark.parametrize(
    ("package", "extras"),
    [("pdevae", ("sampling", "maps")), ("study", ("sampling", "maps", "study")), ("machinery", ("study",))],
)
def test_what_is_imported_is_declared(package, extras):
    others = imported(package) - set(sys.stdlib_module_names) - {"pdevae", "study", "machinery"}
    unknown = {
        name for name in others if not {dist.lower() for dist in DISTRIBUTIONS.get(name, [name])} & declared(*extras)
    }
    assert not unknown


@pytest.mark.slow
def test_importing_the_method_is_quick_and_leaves_the_environment_alone():
    """Nor does it bring what only the study needs, TensorFlow itself not before it is used."""
    script = """
import os, sys, time
UNWANTED = ("gpflow", "dask", "matplotlib", "arviz", "geopandas")
before, begun = dict(os.environ), time.perf_counter()
import pdevae
print(time.perf_counter() - begun < 1.0, dict(os.environ) == before, "tensorflow" in sys.modules)
pdevae.CVI, pdevae.InverseProblem, pdevae.MultilevelPenalty, pdevae.Solver
print(dict(os.environ) == before, [name for name in UNWANTED if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True True False", "True []"]
