"""How long the explorer takes to answer a drag, on the kernel's side: readings, posterior and picture."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from study.explore.inverse import InversePanel


@dataclass(frozen=True)
class Dragging:
    nodes: int = 500
    sensors: int = 15
    steps: int = 3000
    drags: int = 60


def dragged(config: Dragging, seed: int) -> dict:
    """Milliseconds of each move of a sensor along a circle."""
    panel = InversePanel(config.nodes, config.sensors, decoder_steps=config.steps)
    panel.train()
    panel.press(panel.region, *panel.sensors[seed])
    milliseconds = []
    for angle in np.linspace(0, 2 * np.pi, config.drags):
        begun = time.perf_counter()
        panel.drag(panel.region, 0.5 * np.cos(angle), 0.5 * np.sin(angle))
        milliseconds.append(1e3 * (time.perf_counter() - begun))
    return {"milliseconds": np.array(milliseconds)}
