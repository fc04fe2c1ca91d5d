"""Groundwater of the Eastern Snake River Plain, Idaho: wells, outline, laboratory, land surface, rivers (USGS).

Readings come from the raw file of the USGS package ObsNetwork. Lengths are in km in an Albers projection of the plain,
levels in feet. A well's level in a period is the median of its readings there; head = land surface − depth to water.
"""

from __future__ import annotations

import warnings
import zlib
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pandera.pandas as pa
import rdata
from pyproj import CRS, Transformer
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import gaussian_filter, minimum_filter
from scipy.spatial import cKDTree
from shapely import LineString, Polygon

from machinery.settings import project_root
from pdevae.errors import UserError
from study.data.mirror import Remote, locate

PERIODS = {"early": (1960, 1979), "late": (1980, 1999)}
FEET_PER_METRE = 1 / 0.3048
_NAD83 = CRS("EPSG:4269")
_ALBERS = "+proj=aea +lat_1=42.83333333333333 +lat_2=44.16666666666666 +lat_0=41.5 +lon_0=-113 +x_0=200000 +y_0=0"
PLAIN = CRS(f"{_ALBERS} +datum=NAD83 +units=km")  # of everything here
_GRID = CRS(f"{_ALBERS} +datum=NAD27 +units=m")  # of the land surface's cells
_OUTLINE_TOLERANCE = 1.5  # km

_READINGS, _SHAPES = "80abf1fc3353d7b21009584a97568d4e65c2fd53", "6ac2236eeef9049a4a3c174e8591049ca64bcfa0"


def _remote(commit: str, path: str, sha256: str) -> tuple[str, Remote]:
    url = f"https://raw.githubusercontent.com/jfisher-usgs/ObsNetwork/{commit}/{path}"
    return path.rpartition("/")[2], Remote(sha256, url)


_OUTLINE = "inst/extdata/ESRP_Boundary/ESRP_Boundary"
FILES = dict(
    _remote(commit, path, sha256)
    for commit, path, sha256 in (
        (
            _READINGS,
            "inst/extdata/ESRP_NWIS.txt.gz",
            "8344ac13b07cc32b01ffa53dfb20894d6dcdff803253b35c24c597c7e556a74d",
        ),
        (_SHAPES, f"{_OUTLINE}.shp", "4d84ac2c5da2d8bd4d1c4966075f84dbe1e4f0e2d6bd27d317ed8b0ef71ecf05"),
        (_SHAPES, f"{_OUTLINE}.shx", "18a147a3de740d1af3d5dba33711d5e3a14c91f08a0fb612353ef0c09fcab399"),
        (_SHAPES, f"{_OUTLINE}.dbf", "b47497a72ce423bccbd3e7c6552ce9058c56c2ca45aa65bdae83a7b83f8e128b"),
        (_SHAPES, f"{_OUTLINE}.prj", "84cf5b9a3c1a444f83ac30ff76f8c5035990223027ba69b2f4d628388adcbd65"),
        (_SHAPES, "data/INL_Boundary.rda", "4421df328c78ad019d49b31e03b3d714980d71741a251a57b125f9bed65835ff"),
        (_SHAPES, "data/ESRP_Rivers.rda", "12effb69c791f84983822d58f263a6e341eb21da718b788682e0fe742eb18d2b"),
        (_SHAPES, "data/ESRP_NED.rda", "1ba365629612fc3a03604c3e81ac81f6c30e5d8d4793b36262711c389894be8f"),
    )
)
_SCHEMA = pa.DataFrameSchema(
    {
        "SITE_NO": pa.Column(str, pa.Check.str_matches(r"^\d{15}$")),
        "DEC_LONG_VA": pa.Column(float, pa.Check.in_range(-116, -110)),
        "DEC_LAT_VA": pa.Column(float, pa.Check.in_range(42, 45)),
        "ALT_VA": pa.Column(float, pa.Check.in_range(2000, 8000)),  # feet; metres would be under 2,000
        "ALT_DATUM_CD": pa.Column(str, pa.Check.equal_to("NAVD88")),
        "LEV_DT": pa.Column("datetime64[ns]"),
        "LEV_VA": pa.Column(float, pa.Check.in_range(-200, 2000), nullable=True),
    },
    coerce=True,
)


@dataclass(frozen=True)
class Raster:
    """Land surface on a regular grid; ``values`` [rows, columns] in feet, first row south, ``x``, ``y`` its lines."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    crs: CRS = PLAIN

    def at(self, places: np.ndarray) -> np.ndarray:
        """Feet at places [n, 2] (km); outside the grid, its nearest cell."""
        return self._read(self.values, places)

    def base_level(self, places: np.ndarray, km: float = 10.0) -> np.ndarray:
        """The lowest land within ``km`` (a square), smoothed over half of it: where the land drains to."""
        step = (self.x[1] - self.x[0]) * (1e-3 if self.crs is not PLAIN else 1.0)
        lowest = minimum_filter(self.values, size=2 * round(km / step) + 1, mode="nearest")
        return self._read(gaussian_filter(lowest, km / step / 2, mode="nearest"), places)

    def _read(self, values: np.ndarray, places: np.ndarray) -> np.ndarray:
        x, y = _projection(PLAIN, self.crs).transform(*np.asarray(places, float).T)
        inside = np.clip(y, self.y[0], self.y[-1]), np.clip(x, self.x[0], self.x[-1])
        return RegularGridInterpolator((self.y, self.x), values)(np.stack(inside, axis=1))


@dataclass(frozen=True, eq=False)
class Aquifer:
    """``wells``: one row per well with readings in a period.

    Columns site, longitude, latitude, x, y (km), land, depth_early, depth_late (ft, NaN without readings).
    """

    wells: pd.DataFrame
    outline: Polygon  # km, with its holes
    laboratory: Polygon
    land: Raster
    simulated: bool = False
    rivers: geopandas.GeoDataFrame | None = None

    @property
    def places(self) -> np.ndarray:
        """[wells, 2] in km."""
        return self.wells[["x", "y"]].to_numpy()

    def level(self, response: str, period: str) -> np.ndarray:
        """``altitude`` (head) or ``depth``, in feet."""
        depth = self.wells[f"depth_{period}"].to_numpy()
        return depth if response == "depth" else self.wells.land.to_numpy() - depth

    @cached_property
    def to_laboratory(self) -> np.ndarray:
        """km from each well."""
        return self.laboratory.distance(geopandas.points_from_xy(*self.places.T))

    def suspects(self) -> pd.DataFrame:
        """Wells whose head lies more than 500 ft off the plane through their eight nearest others.

        They are listed, not removed: the rule cannot tell an error from perched water or a steep edge.
        """
        head = np.where(self.wells.depth_late.notna(), self.level("altitude", "late"), self.level("altitude", "early"))
        _, near = cKDTree(self.places).query(self.places, k=9)
        off = np.empty(len(head))
        for k, (own, *others) in enumerate(near):
            plane = np.column_stack([np.ones(8), self.places[others] - self.places[own]])
            off[k] = head[own] - np.linalg.lstsq(plane, head[others], rcond=None)[0][0]
        found = self.wells[["site", "x", "y", "land"]].assign(head=head, off_plane=off)
        return found[np.abs(off) > 500]


@cache
def find() -> tuple[Path | None, str]:
    return locate("aquifer", FILES, project_root())


@cache
def load() -> Aquifer:
    """The real aquifer."""
    folder, where = find()
    if folder is None:
        raise UserError(f"{where}: put the files there, or run on the simulated twin")
    outline = geopandas.read_file(folder / "ESRP_Boundary.shp").to_crs(PLAIN).geometry.iloc[0]
    return Aquifer(
        _wells(read(folder / "ESRP_NWIS.txt.gz")),
        outline.simplify(_OUTLINE_TOLERANCE),
        Polygon(_project(_r_object(folder / "INL_Boundary.rda").polygons[0].Polygons[0].coords)),
        _land(_r_object(folder / "ESRP_NED.rda")),
    )


@cache
def rivers() -> geopandas.GeoDataFrame:
    """Named rivers near the plain, in km; of the real aquifer, for its maps."""
    lines = _r_object(find()[0] / "ESRP_Rivers.rda")
    names = lines.data["FEAT_NAME"].astype(str).to_numpy()
    shapes = [LineString(_project(line.Lines[0].coords)) for line in lines.lines]
    table = geopandas.GeoDataFrame({"name": names}, geometry=shapes, crs=PLAIN)
    return table[table.intersects(load().outline.buffer(10))].dissolve("name").reset_index()


def read(path: Path) -> pd.DataFrame:
    """The raw readings, checked; those without a level (dry, obstructed) are kept and have none."""
    try:
        table = pd.read_csv(path, sep="\t", dtype={"SITE_NO": str}, parse_dates=["LEV_DT"])
        return _SCHEMA.validate(table, lazy=True)
    except pa.errors.SchemaErrors as reason:
        first = reason.failure_cases.iloc[0]
        what = f"column {first.column}: {first.failure_case!r} fails {first.check}"
        if first.check == "column_in_dataframe":
            what = f"column {first.failure_case} is missing"
        raise UserError(f"{path.name}: {what}: fetch it again") from reason
    except (ValueError, OSError, EOFError, zlib.error) as reason:
        raise UserError(f"{path.name} cannot be read ({reason}): fetch it again") from reason


def _wells(readings: pd.DataFrame) -> pd.DataFrame:
    readings = readings.dropna(subset=["LEV_VA"])
    year = readings.LEV_DT.dt.year
    by_site = readings.groupby("SITE_NO")
    wells = by_site[["DEC_LONG_VA", "DEC_LAT_VA", "ALT_VA"]].first().set_axis(["longitude", "latitude", "land"], axis=1)
    for period, (first, last) in PERIODS.items():
        during = readings[year.between(first, last)].groupby("SITE_NO").LEV_VA
        wells[f"depth_{period}"], wells[f"readings_{period}"] = during.median(), during.size()
    wells = wells.dropna(subset=["depth_early", "depth_late"], how="all").rename_axis("site").reset_index()
    x, y = _project(wells[["longitude", "latitude"]].to_numpy()).T
    return wells.assign(x=x, y=y)


def _project(degrees: np.ndarray) -> np.ndarray:
    """NAD83 longitude and latitude to km; [n, 2]."""
    return np.stack(_projection(_NAD83, PLAIN).transform(*np.asarray(degrees, float).T), axis=1)


@cache
def _projection(source: CRS, target: CRS) -> Transformer:
    return Transformer.from_crs(source, target, always_xy=True)


def _r_object(path: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rdata has no constructors for sp's classes: plain attributes will do
        return next(iter(rdata.read_rda(path).values()))


def _land(grid) -> Raster:
    """Cells by row from the north, in metres."""
    shape = vars(grid.grid)
    columns, rows = (int(v) for v in shape["cells.dim"])
    x, y = (
        float(corner) + float(step) * np.arange(count)
        for corner, step, count in zip(shape["cellcentre.offset"], shape["cellsize"], (columns, rows))
    )
    metres = grid.data.iloc[:, 0].to_numpy(float).reshape(rows, columns)[::-1]
    return Raster(x, y, metres * FEET_PER_METRE, _GRID)
