"""JupyterLab with a notebook in headless Chromium, for the tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


@contextmanager
def lab(folder: Path) -> Iterator[str]:
    """A server for the notebooks in ``folder``; its address."""
    settings = ["--no-browser", "--allow-root", "--port=0", "--IdentityProvider.token=", "--LabApp.news_url="]
    settings += [f"--ServerApp.root_dir={folder}", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]
    variables = ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
    own = {name: str(folder / f".{name.lower()}") for name in variables} | {"PDEVAE_ROOT": str(folder)}
    log = folder / "lab.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *settings], env=os.environ | own, stdout=output, stderr=output
        )
        try:
            yield _address(log, process)
        finally:
            process.terminate()
            process.wait(timeout=30)


def _address(log: Path, process: subprocess.Popen) -> str:
    for _ in range(240):
        found = re.search(r"http://(?:localhost|127\.0\.0\.1):\d+", log.read_text())
        if found:
            return found.group()
        assert process.poll() is None, log.read_text()
        time.sleep(0.25)
    raise AssertionError(f"JupyterLab did not start: {log.read_text()}")


@contextmanager
def chromium():
    """The browser; ``new_page(viewport=…)`` opens a page of it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=CHROMIUM, args=_QUIET)
        try:
            yield browser
        finally:
            browser.close()
