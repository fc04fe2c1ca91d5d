"""Under fire: kills, full disks, damage, nonsense and malice, each tried many times and counted.

Survived means: a right answer, or one clear line and a non-zero exit; what was finished before is kept and reused;
nothing half-written; a rerun gives, bit for bit, what an undisturbed run gives. Lost is anything else.

tests/test_under_fire.py tries each scenario a few times, benchmarks/under_fire.py many times.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class Unable(Exception):
    """This machine does not allow the scenario; the message says why."""


@dataclass
class Tally:
    """How often something was tried, and what was lost."""

    tried: int = 0
    losses: list[str] = field(default_factory=list)

    @property
    def survived(self) -> int:
        return self.tried - len(self.losses)

    @contextmanager
    def trial(self, what: str) -> Iterator[None]:
        self.tried += 1
        try:
            yield
        except Unable:
            raise
        except Exception as loss:  # an assertion of ours, or what should not have escaped
            self.losses.append(f"{what}: {type(loss).__name__}: {loss}")
