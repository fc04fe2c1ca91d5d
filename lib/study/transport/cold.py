"""Runs whose seconds do not depend on which came before: what was compiled or factorised for a mesh is made anew."""

from __future__ import annotations

from study.transport import experiment
from study.transport.experiment import Setting
from study.transport.problem import forward_on


def infer(config: Setting, seed: int) -> dict:
    """``experiment.infer`` from a cold start: seconds as a user waits for them the first time."""
    forward_on.cache_clear()
    return experiment.infer(config, seed)
