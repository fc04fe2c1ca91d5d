"""Progress bars: in the notebook or terminal, and in a file that the runner watches."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from tqdm.auto import tqdm

from machinery.settings import RunSettings


class Progress(tqdm):
    """A tqdm bar that also leaves its state where the runner looks."""

    def refresh(self, *args, **kwargs):
        super().refresh(*args, **kwargs)
        self._tell()

    def _tell(self):
        path = RunSettings.current().progress_file
        if path:
            state = {"description": (self.desc or "").strip(": "), "done": self.n, "total": self.total}
            with contextlib.suppress(OSError):  # a full disk is for those to report who write results
                Path(path).write_text(json.dumps(state), encoding="utf-8")


def read_progress(path: Path) -> str:
    """What a bar says and how far it is, or nothing where no bar has moved yet."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    return f"{state['description']} {state['done']}/{state['total']}"
