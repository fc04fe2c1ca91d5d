"""What a borrower sees: every public name is documented by an example and typed, and importing costs nothing."""

import inspect
import subprocess
import sys
from importlib.resources import files

import pytest

import pdevae


@pytest.mark.parametrize("name", pdevae.__all__)
def test_every_public_name_is_documented_with_an_example_that_asserts_something(name):
    text = inspect.getdoc(getattr(pdevae, name))
    lines = text.splitlines()
    assert ">>> " in text
    examples = [i for i, line in enumerate(lines) if line.startswith((">>> ", "... "))]
    assert any(i + 1 < len(lines) and lines[i + 1].strip() and i + 1 not in examples for i in examples)


def _functions():
    """Public functions, and the constructors and calls of public classes, by name."""
    for name in pdevae.__all__:
        value = getattr(pdevae, name)
        methods = [value] if inspect.isfunction(value) else [vars(value).get(m) for m in ("__init__", "__call__")]
        for method in filter(None, methods):
            yield pytest.param(method, id=f"{name}.{method.__name__}")


@pytest.mark.parametrize("function", _functions())
def test_every_public_function_is_annotated(function):
    signature = inspect.signature(function)
    bare = [p.name for p in signature.parameters.values() if p.name != "self" and p.annotation is p.empty]
    assert not bare
    assert function.__name__ == "__init__" or signature.return_annotation is not signature.empty


def test_type_checkers_are_told():
    assert files("pdevae").joinpath("py.typed").is_file()


def test_importing_alone_brings_neither_tensorflow_nor_a_word():
    script = "import sys, pdevae; dir(pdevae); assert not {'tensorflow', 'numpy'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_unknown_name_is_an_ordinary_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Difusion'"):
        _ = pdevae.Difusion
