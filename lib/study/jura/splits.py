"""Who trains on which sites, and what standardisation belongs to them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from machinery.settings import project_root
from pdevae.streams import random
from study.data import jura
from study.scoring import Predictive, Scale
from study.streams import Stream

FOLDS = 5


def data() -> jura.Jura:
    return jura.load(project_root() / "data" / "jura")


@cache
def frame() -> tuple[np.ndarray, float]:
    """Centre and length (km) that bring places to about unit scale: the region's, so no site's value enters."""
    cells = data().grid[["Xloc", "Yloc"]].to_numpy()
    return cells.mean(axis=0), float(np.sqrt(cells.var(axis=0).mean()))


def members(split: str, count: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Training and test sites (numbers) of each member.

    ``cv``: five grouped folds of the training sites, dealt anew after every fifth; ``validation``: the published
    split, ``count`` times (seeds); ``resplit``: random splits of all sites, of the same sizes.
    """
    n, total = data().n_training, len(data().sites)
    if split == "cv":
        dealt = [jura.grouped_folds(data().places[:n], FOLDS, seed) for seed in range(-(-count // FOLDS))]
        held = [dealt[k // FOLDS] == k % FOLDS for k in range(count)]
        return [(np.flatnonzero(~out), np.flatnonzero(out)) for out in held]
    if split == "validation":
        return [(np.arange(n), np.arange(n, total))] * count
    shuffled = [random(Stream.JURA_RESPLITS, k).permutation(total) for k in range(count)]
    return [(np.sort(order[:n]), np.sort(order[n:])) for order in shuffled]


@dataclass(frozen=True)
class Standardised:
    """Response and inputs of one member, brought to zero mean and unit sd by its training sites alone."""

    y: np.ndarray  # [sites]
    s: np.ndarray  # [sites, secondaries]
    response: Scale
    secondaries: Scale

    @classmethod
    def of(cls, metal: str, sets: str, log: bool, training: np.ndarray) -> Standardised:
        y, s = data().sites[metal].to_numpy(), data().secondaries(metal, sets)
        of_y, of_s = (Scale.of(values[training], log) for values in (y, s))
        return cls(of_y.standardised(y), of_s.standardised(s), of_y, of_s)


def places() -> np.ndarray:
    """[sites, 2] in the frame's units."""
    centre, length = frame()
    return (data().places - centre) / length


def scored(found: Predictive, metal: str, test: np.ndarray, member: int) -> dict[str, np.ndarray]:
    y = data().sites[metal].to_numpy()[test]
    return {"member": np.full(len(test), member), "site": test, "y": y} | found.at(y)


def distances(folds: int) -> dict[str, float]:
    """Median distance (km) from held-out sites to the nearest training site, by fold and for the validation sites."""
    sites, pairs = data().places, {f"fold {k}": pair for k, pair in enumerate(members("cv", folds))}
    pairs["validation"] = members("validation", 1)[0]
    away = {name: jura.distance_to_training(sites[test], sites[training]) for name, (training, test) in pairs.items()}
    return {name: round(float(np.median(d)), 2) for name, d in away.items()}
