"""Random streams by name: one seed gives each of them numbers of its own."""

from __future__ import annotations

from enum import IntEnum

import numpy as np


class Stream(IntEnum):
    """What the method draws."""

    QUADRATURE = 12
    DECODER = 13
    POSTERIOR = 14
    CHAINS = 16
    PATCHES = 17
    HIDDEN_UNITS = 18
    ENCODER = 19
    SKETCH = 21


def random(stream: IntEnum, *seed: int) -> np.random.Generator:
    return np.random.default_rng([*seed, int(stream)])
