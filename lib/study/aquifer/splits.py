"""Who trains on which wells, what standardisation belongs to them, and the mesh of the plain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from shapely import affinity

from pdevae.fem.domains import GradedDomain
from pdevae.fem.mesh import Mesh
from study.data import aquifer, twin
from study.data.twin import CENTRE, LENGTH
from study.scoring import Predictive, Scale

BLOCK = 6.0  # km: wells of a block are held out together
FOLDS = 5
NEAR = 60.0  # km from the laboratory: the stress test trains within, and is scored beyond
RINGS = (0.1, 25.0, 40.0)  # km: the same in small, inside the stress test's training wells


@cache
def data(survey: str) -> aquifer.Aquifer:
    """``usgs``, or ``twin`` (or twin:SEED)."""
    if survey == "usgs":
        return aquifer.load()
    return twin.simulate(int(survey.partition(":")[2] or 0))


def available() -> tuple[str, str]:
    """The survey to use, and a line that says why."""
    folder, where = aquifer.find()
    return ("usgs", where) if folder else ("twin", f"{where}: the figures show a simulated twin")


@dataclass(frozen=True, eq=False)
class Member:
    """Training wells (numbers) with their levels in the first period, and test wells with theirs."""

    training: np.ndarray
    test: np.ndarray
    tested_in: str = "late"


@cache
def members(survey: str, split: str) -> tuple[Member, ...]:
    """``full``: all wells of the first period → all of the second; ``near``: the stress test.

    ``cv``: five folds of blocks, then three rings, all inside the training wells: the first five stand for ``full``,
    the rings for ``near``.
    """
    found = data(survey)
    early, late = (np.flatnonzero(found.wells[f"depth_{period}"].notna()) for period in ("early", "late"))
    away = found.to_laboratory
    if split == "full":
        return (Member(early, late),)
    inner = early[away[early] < NEAR]
    if split == "near":
        return (Member(inner, late[away[late] >= NEAR]),)
    fold = _folds(found.places[early])
    blocks = [Member(early[fold != k], early[fold == k], "early") for k in range(FOLDS)]
    rings = [Member(inner[away[inner] < r], inner[away[inner] >= r], "early") for r in RINGS]
    return (*blocks, *rings)


def _folds(places: np.ndarray) -> np.ndarray:
    """Blocks of the grid, dealt to folds."""
    _, block = np.unique(np.floor(places / BLOCK).astype(int), axis=0, return_inverse=True)
    return (np.random.default_rng(0).permutation(block.max() + 1) % FOLDS)[block.ravel()]


@dataclass(frozen=True)
class Standardised:
    """Training levels at zero mean and unit sd, and the way back to feet."""

    y: np.ndarray
    feet: Scale

    @classmethod
    def of(cls, survey: str, response: str, member: Member) -> Standardised:
        feet = data(survey).level(response, "early")[member.training]
        scale = Scale.of(feet)
        return cls(scale.standardised(feet), scale)


def frame(places: np.ndarray) -> np.ndarray:
    """km to the units in which the plain is about three long."""
    return (places - CENTRE) / LENGTH


def places(survey: str, wells: np.ndarray) -> np.ndarray:
    return frame(data(survey).places[wells])


def base_level(survey: str, known: Standardised) -> Callable[[np.ndarray], np.ndarray]:
    """The covariate: the level the land drains to, in the units of the training levels; of places in the frame."""
    land = data(survey).land
    return lambda x: known.feet.standardised(land.base_level(x * LENGTH + CENTRE))


@cache
def plain(survey: str, nodes: int) -> Mesh:
    """The plain with its buttes as holes, in the frame; finer towards the wells of the first period."""
    found = data(survey)
    moved = affinity.translate(found.outline, *-CENTRE)
    shape = affinity.scale(moved, 1 / LENGTH, 1 / LENGTH, origin=(0, 0))
    wells = found.wells.depth_early.notna().to_numpy()
    return GradedDomain(shape, frame(found.places[wells])).mesh(nodes=nodes)


def scored(survey: str, response: str, found: Predictive, known: Standardised, member: Member, number: int) -> dict:
    """A row per test well: what was seen (ft), what was predicted, and the unit of the split's standardisation."""
    feet = data(survey).level(response, member.tested_in)[member.test]
    count = len(member.test)
    return {
        "member": np.full(count, number),
        "well": member.test,
        "y": feet,
        "unit": np.full(count, known.feet.spread),
    } | found.at(feet)
