"""Heavy metals in the topsoil of the Swiss Jura (Goovaerts): sites, secondary metals, splits, the study region."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pandera.pandas as pa
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial import cKDTree
from shapely import Polygon, box, union_all

from pdevae.errors import UserError
from pdevae.streams import random
from study.data.checks import read_csv
from study.streams import Stream

METALS = ("Cd", "Co", "Cr", "Cu", "Ni", "Pb", "Zn")
PRIMARIES = ("Cd", "Cu", "Pb", "Co")
SECONDARIES = {
    # supp:tab:metals has Cd and Cu swapped against the published loader of the comparison method, and Co leaks
    "corrected": {"Cd": ("Ni", "Zn"), "Cu": ("Pb", "Ni", "Zn"), "Pb": ("Cu", "Ni", "Zn"), "Co": ("Ni", "Zn")},
    # as printed, but never the target as its own secondary: Co ← Ni instead of Ni, Co
    "printed": {"Cd": ("Pb", "Ni", "Zn"), "Cu": ("Ni", "Zn"), "Pb": ("Cu", "Ni", "Zn"), "Co": ("Ni",)},
}
_SHA256 = {
    "jura_prediction.csv": "2eee2e4cb009b49d26109a8d85a2d2e9a4d97fb42b33615cc110aedd14d5fcf9",
    "jura_validation.csv": "6a576aa58bcafd3b037c44bf65a414c57e0bbf5ee5a6ba9fc52d79451cda848c",
    "jura_grid.csv": "2c7c22882fffcf89e48c31cd2af49be9b817a2630e90046a0ddedcab96d6a7ed",
}
_PLACE = {"Xloc": pa.Column(float, pa.Check.in_range(0, 6)), "Yloc": pa.Column(float, pa.Check.in_range(0, 6))}
_CLASSES = {"Landuse": pa.Column(str), "Rock": pa.Column(str)}
_SITES = pa.DataFrameSchema(
    _PLACE | _CLASSES | {metal: pa.Column(float, [pa.Check.gt(0), pa.Check.lt(1e6)]) for metal in METALS},
    unique=["Xloc", "Yloc"],
    coerce=True,
)
_GRID = pa.DataFrameSchema(_PLACE | _CLASSES, unique=["Xloc", "Yloc"], coerce=True)


@dataclass(frozen=True)
class Jura:
    """``sites``: the 259 training sites, then the 100 validation sites; ``grid``: the region in cells of 50 m."""

    sites: pd.DataFrame
    grid: pd.DataFrame
    n_training: int

    @property
    def places(self) -> np.ndarray:
        """[n, 2] in km."""
        return self.sites[["Xloc", "Yloc"]].to_numpy()

    def secondaries(self, primary: str, sets: str) -> np.ndarray:
        """[n, S] in mg/kg."""
        return self.sites[list(SECONDARIES[sets][primary])].to_numpy()

    def region(self, margin: float = 0.06) -> Polygon:
        """The outline of the grid's cells, smoothed; every site lies inside. In km."""
        x, y = self.grid.Xloc.to_numpy(), self.grid.Yloc.to_numpy()
        cells = union_all(box(x - 0.025, y - 0.025, x + 0.025, y + 0.025))
        whole = cells.buffer(0.15).buffer(-0.15 + margin).simplify(0.05)
        return Polygon(max(getattr(whole, "geoms", [whole]), key=lambda piece: piece.area).exterior)


@cache
def load(folder: Path) -> Jura:
    """The three files, checked: columns, types, positive values, no site twice, and that they are the known ones."""
    training, validation = (_read(folder / f"jura_{name}.csv", _SITES) for name in ("prediction", "validation"))
    sites = pd.concat([training, validation], ignore_index=True)
    _no_site_twice(sites, "jura_prediction.csv and jura_validation.csv")
    return Jura(sites, _read(folder / "jura_grid.csv", _GRID), len(training))


def _read(path: Path, schema: pa.DataFrameSchema) -> pd.DataFrame:
    mend = "restore it with `git checkout -- data/jura` (copies with typing errors are about)"
    return read_csv(path, schema, _SHA256[path.name], mend)


def _no_site_twice(sites: pd.DataFrame, where: str) -> None:
    twice = sites[sites.duplicated(["Xloc", "Yloc"])]
    if len(twice):
        raise UserError(f"site ({twice.Xloc.iloc[0]}, {twice.Yloc.iloc[0]}) appears in both {where}: remove one")


def grouped_folds(places: np.ndarray, n_folds: int, seed: int = 0, linked: float = 0.11) -> np.ndarray:
    """[n] fold of each site; sites linked by steps under ``linked`` km share one.

    The sites come in clusters some tens of metres wide. Folds that split clusters hold sites out 40 m from training,
    where validation sites lie 250 m away, and so choose badly. Groups go to the smallest fold, largest group first.
    Distances are taken one operation at a time: a processor that fuses them breaks ties between links, and so deals
    the groups, in another way.
    """
    first, second = np.triu_indices(len(places), 1)
    x, y = (places[first, k] - places[second, k] for k in (0, 1))
    group = fcluster(linkage(np.sqrt(x * x + y * y), "single"), linked, "distance")
    sizes = np.bincount(group)
    shuffled = random(Stream.JURA_FOLDS, seed).permutation(np.arange(1, len(sizes)))
    fold_of, filled = np.zeros(len(sizes), int), np.zeros(n_folds, int)
    for g in sorted(shuffled, key=lambda g: -sizes[g]):
        fold_of[g] = np.argmin(filled)
        filled[fold_of[g]] += sizes[g]
    return fold_of[group]


def distance_to_training(places: np.ndarray, training: np.ndarray) -> np.ndarray:
    """From each place to the nearest training site."""
    return cKDTree(training).query(places)[0]
