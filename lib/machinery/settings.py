"""Where things are, and what the runner tells a notebook it starts."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path

_VARIABLE = "PDEVAE_RUN"


def project_root() -> Path:
    return Path(os.environ.get("PDEVAE_ROOT") or Path(__file__).parents[2])


@dataclass(frozen=True)
class RunSettings:
    """What holds for one execution of a notebook; without a runner, that of a person in JupyterLab."""

    profile: str = "interactive"
    overrides: dict = field(default_factory=dict)
    parameters: dict = field(default_factory=dict)
    figures: str = ""
    jobs: int = 0
    scheduler: str = ""
    fresh: bool = False
    progress_file: str = ""  # where a notebook says how far it is
    record_file: str = ""  # and, at its end, what it has done

    @property
    def is_full(self) -> bool:
        """The paper profile with nothing changed."""
        return self.profile == "paper" and not self.overrides

    @property
    def figures_dir(self) -> Path:
        return Path(self.figures) if self.figures else project_root() / "build" / "figures"

    @property
    def worker_count(self) -> int:
        return self.jobs or os.cpu_count() or 1

    def environment(self) -> dict[str, str]:
        return {_VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def current(cls) -> RunSettings:
        return cls(**json.loads(os.environ.get(_VARIABLE, "{}")))
