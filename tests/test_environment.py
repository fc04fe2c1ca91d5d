"""Making the environment, and what a user sees on importing the package."""

import importlib.util
import os
import subprocess
import sys

import pytest

from machinery.settings import project_root


@pytest.fixture
def maker(tmp_path, monkeypatch):
    """make_environment on a scratch project; pip and venv are recorded, not run."""
    spec = importlib.util.spec_from_file_location("make_environment", project_root() / "lib" / "make_environment.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_text("a==1\n")
    paths = {
        "ROOT": ".",
        "VENV": ".venv",
        "PYTHON": ".venv/python",
        "STAMP": ".venv/stamp",
        "LOCK": "requirements.lock",
    }
    for name, path in paths.items():
        monkeypatch.setattr(module, name, str(tmp_path / path))
    module.calls = []

    def pretend(arguments, total=0):
        module.calls.append(arguments)
        (tmp_path / ".venv" / "python").write_text("")

    monkeypatch.setattr(module, "install", pretend)
    monkeypatch.setattr(module, "install_all", lambda: pretend([module.LOCK]))
    monkeypatch.setattr(module, "find_python", lambda: sys.executable)
    made = lambda *a, **k: (tmp_path / ".venv").mkdir(exist_ok=True) or subprocess.CompletedProcess(a, 0)  # noqa: E731
    monkeypatch.setattr(module.subprocess, "run", made)
    return module


def test_the_environment_is_made_once(maker, capsys):
    maker.main()
    assert len(maker.calls) == 2  # the lock file, then the package
    maker.main()
    assert len(maker.calls) == 2
    assert capsys.readouterr().out.splitlines() == [maker.PYTHON, maker.PYTHON]


def test_a_changed_lock_file_makes_it_anew(maker):
    maker.main()
    with open(maker.LOCK, "a") as lock:
        lock.write("b==2\n")
    maker.main()
    assert len(maker.calls) == 4


def test_one_that_was_interrupted_is_made_anew(maker):
    maker.main()
    os.unlink(maker.STAMP)
    maker.main()
    assert len(maker.calls) == 4


def test_the_lock_is_installed_by_uv_and_by_pip_where_uv_fails(maker, monkeypatch):
    source = project_root() / "requirements.lock"
    monkeypatch.undo()
    monkeypatch.setattr(maker, "LOCK", str(source))
    calls, works = [], True
    monkeypatch.setattr(
        maker, "logged", lambda command, total=0: calls.append(command) or "uv" not in command[0] or works
    )
    maker.install_all()
    assert [command[-1] == str(source) for command in calls] == [False, True]  # pip brings uv, uv the rest
    alone = maker.only("uv")
    assert alone.startswith("uv==")
    assert [line[:2] for line in alone.splitlines() if not line.startswith(" ")] == ["uv"]
    assert "--hash=sha256:" in alone
    works = False
    maker.install_all()
    assert [command[1] for command in calls[2:]] == ["-m", "pip", "-m"]
    assert calls[-1][-1] == str(source)


def test_an_unsuitable_python_is_said_in_one_line(maker, monkeypatch, capsys):
    monkeypatch.undo()
    monkeypatch.setattr(maker, "OLDEST", (9, 0))
    with pytest.raises(SystemExit):
        maker.find_python()
    assert "needs Python 3.11 or 3.12" in capsys.readouterr().err


@pytest.mark.slow
def test_importing_is_quick_and_silent():
    script = "import time; t = time.time(); import pdevae; assert time.time() - t < 1; pdevae.Diffusion(1.0)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_runner_imports_papermill_and_nbconvert_without_grammars():
    script = (
        "import sys; from machinery.imports import without_address_grammars; without_address_grammars(); "
        "import papermill, nbconvert; assert 'jsonschema' in sys.modules and 'lark' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_lock_file_pins_and_hashes_every_package():
    lines = (project_root() / "requirements.lock").read_text().splitlines()
    packages = [line for line in lines if line and not line.startswith((" ", "#"))]
    assert all("==" in line and line.endswith("\\") for line in packages)
    assert len(packages) > 100
