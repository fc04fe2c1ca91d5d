"""Members of an experiment (folds, seeds, replicates) side by side: settings to try, lists padded, rows joined."""

from __future__ import annotations

from itertools import product

import numpy as np


def grid(**axes) -> list[dict]:
    """All combinations."""
    return [dict(zip(axes, values)) for values in product(*axes.values())]


def padded(lists: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The members' lists of numbers, the shorter ones filled up with their first, and weights: 0 where filled."""
    longest = max(map(len, lists))
    filled = np.stack([np.concatenate([some, np.full(longest - len(some), some[0])]) for some in lists])
    return filled, np.stack([np.arange(longest) < len(some) for some in lists]).astype(float)


def joined(rows: list[dict]) -> dict[str, np.ndarray]:
    return {name: np.concatenate([row[name] for row in rows]) for name in rows[0]}
