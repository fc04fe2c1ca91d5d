"""Make .venv from requirements.lock if it is not there or out of date; print the path of its Python.

Only the standard library, and any Python 3: it runs before anything is installed. Two runs at once wait for each
other; one that is killed half-way is begun anew.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
PYTHON = os.path.join(VENV, "bin", "python")
STAMP = os.path.join(VENV, "made-from")
LOCK = os.path.join(ROOT, "requirements.lock")
OLDEST, NEWEST = (3, 11), (3, 12)


def main():
    try:
        prepare()
    except OSError as error:
        fail(f"the environment cannot be made: {error}")
    print(PYTHON)


def prepare():
    with open(os.path.join(ROOT, ".venv.lock"), "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        wanted = fingerprint()
        if not (os.path.exists(PYTHON) and stamp() == wanted):
            make(find_python(), wanted)


def fingerprint():
    """What the environment is made from: the lock, the project file, and the place (editable install)."""
    made_from = read(LOCK) + read(os.path.join(ROOT, "pyproject.toml")) + ROOT
    return hashlib.sha256(made_from.encode()).hexdigest()


def stamp():
    """What the environment there was made from; nothing where that is not known."""
    try:
        with open(STAMP, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as error:
        fail(f"{path} cannot be read ({error}): restore it with `git checkout -- {os.path.basename(path)}`")


def find_python():
    """A Python of a version that the lock file covers."""
    for name in (sys.executable, "python3", "python3.12", "python3.11"):
        path = shutil.which(name)
        question = "import sys; print(sys.version_info[0], sys.version_info[1])"
        answer = path and subprocess.run([path, "-c", question], capture_output=True, text=True)
        if answer and answer.returncode == 0 and OLDEST <= tuple(map(int, answer.stdout.split())) <= NEWEST:
            return path
    fail("this needs Python 3.11 or 3.12 and found none: install one and put it on the PATH")


def make(python, wanted):
    say("making the environment in .venv: once, about 3 GB and a minute or two")
    if subprocess.run([python, "-m", "venv", "--clear", VENV], stdout=subprocess.DEVNULL).returncode:
        fail("python -m venv failed: install your system's python3-venv package")
    install_all()
    install(["--no-deps", "--no-build-isolation", "-e", ROOT])
    with open(STAMP, "w") as file:
        file.write(wanted)


def install_all():
    """What the lock file names: by uv, which is several times faster, or by pip, which may know other mirrors."""
    locked = ["--require-hashes", "--no-deps", "-r"]
    with tempfile.NamedTemporaryFile("w", suffix=".lock") as alone:
        alone.write(only("uv"))
        alone.flush()
        install([*locked, alone.name])
    uv = [os.path.join(VENV, "bin", "uv"), "pip", "install", "--no-config", "--python", PYTHON]
    command = [*uv, "--compile-bytecode", *locked, LOCK]  # or the first processes would each compile what they import
    if not logged(command):
        install([*locked, LOCK], total=count_packages())


def only(package):
    """The lines of one package in the lock file."""
    found = re.search(rf"^{package}==(.*\\\n)*.*\n", read(LOCK), re.MULTILINE)
    return found.group() if found else ""


def count_packages():
    return sum("==" in line for line in read(LOCK).splitlines())


def install(arguments, total=0):
    """By pip, or the run ends here."""
    if not logged([PYTHON, "-m", "pip", "install", "--disable-pip-version-check", *arguments], total):
        fail(f"pip could not install the environment: the reason is at the end of {log_path()}")


def log_path():
    return os.path.join(ROOT, "build", "install.log")


def logged(command, total=0):
    """Whether the command succeeds; what it says goes to the log."""
    os.makedirs(os.path.dirname(log_path()), exist_ok=True)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    with open(log_path(), "a") as log:
        pip = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        done = 0
        for line in pip.stdout:
            log.write(line)
            done += line.startswith("Collecting ")
            if total and sys.stderr.isatty():
                sys.stderr.write(f"\r  fetching packages {done} of up to {total}   ")
            if line.startswith("Installing collected"):
                say("\n  installing" if sys.stderr.isatty() else "  installing")
        return pip.wait() == 0


def say(text):
    print(text, file=sys.stderr, flush=True)


def fail(text):
    say(f"error: {text}")
    sys.exit(2)


if __name__ == "__main__":
    main()
