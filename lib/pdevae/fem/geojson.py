"""A region from a GeoJSON file: read, checked, and projected to lengths."""

from __future__ import annotations

import json
from pathlib import Path

import geopandas
import numpy as np
import shapely
from pyogrio.errors import DataLayerError, DataSourceError
from pyproj import CRS
from pyproj.exceptions import CRSError

from pdevae.errors import UserError
from pdevae.fem.domains import PolygonDomain
from pdevae.fem.mesh import Mesh


def read_polygon(
    path: str | Path,
    nodes: int | None = None,
    max_edge: float | None = None,
    crs: str | int | None = None,
    unit: float = 1.0,
) -> Mesh:
    """A mesh of the one polygon of a GeoJSON file, holes included, of about so many nodes or with such edges.

    The same region at another size: ``mesh.domain.mesh(nodes=…)``.

    ``crs`` is a projection (as "EPSG:32632", the UTM zone of the place) to bring degrees to lengths; a file that is
    projected already needs none. ``unit`` is the length of a unit in metres: 1000.0 gives km.

    >>> import pathlib, tempfile
    >>> corners = [[11.0, 47.0], [11.1, 47.0], [11.1, 47.1], [11.0, 47.1], [11.0, 47.0]]
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "field.geojson"
    >>> _ = file.write_text(json.dumps({"type": "Polygon", "coordinates": [corners]}))
    >>> field = read_polygon(file, max_edge=2.0, crs="EPSG:32632", unit=1000.0)
    >>> round(field.domain.shape.area), field.max_edge < 3.0  # km², km
    (84, True)
    """
    path = Path(path)
    table = _read(path)
    shape = _only_polygon(table.geometry, path)
    projected = _projected(geopandas.GeoSeries([shape], crs=table.crs), crs, path)
    metres = projected.crs.axis_info[0].unit_conversion_factor
    rings = [np.array(ring.coords)[:-1] * metres / _positive(unit) for ring in _rings(projected.iloc[0])]
    return PolygonDomain.of(rings[0], rings[1:]).mesh(nodes, max_edge)


def _read(path: Path) -> geopandas.GeoDataFrame:
    if not path.is_file():
        raise UserError(f"there is no file {path}: check the path of the GeoJSON file")
    try:
        json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no text
        raise UserError(f"{path.name} is not JSON ({error}): export the polygon as GeoJSON again") from None
    try:
        return geopandas.read_file(path)
    except (DataSourceError, DataLayerError):
        raise UserError(f"{path.name} is JSON but not GeoJSON: export the polygon as GeoJSON") from None


def _only_polygon(geometry: geopandas.GeoSeries, path: Path) -> shapely.Polygon:
    """The polygon without altitudes; a MultiPolygon of one part is that part."""
    parts = shapely.get_parts(shapely.force_2d(np.array([shape for shape in geometry if shape is not None], object)))
    kinds = sorted({part.geom_type for part in parts})
    if kinds != ["Polygon"]:
        held = " and ".join(f"a {kind}" for kind in kinds) or "nothing"
        raise UserError(f"{path.name} holds {held}, not a Polygon: draw the region's outline as one closed Polygon")
    if len(parts) > 1:
        raise UserError(f"{path.name} holds {len(parts)} polygons: keep one (islands are holes of it), or join them")
    return parts[0]


def _projected(series: geopandas.GeoSeries, crs: str | int | None, path: Path) -> geopandas.GeoSeries:
    if series.crs.is_geographic and not np.abs(series.total_bounds).max() <= 360:
        raise UserError(
            f"{path.name} says it is in degrees (GeoJSON's default) but has coordinates up to "
            f"{np.abs(series.total_bounds).max():g}: export it in longitude and latitude (EPSG:4326)"
        )
    if crs is None:
        if series.crs.is_geographic:
            raise UserError(f"{path.name} is in degrees: give a projection in metres, {_suggestion(series)}")
        return series
    target = _crs(crs)
    if not target.is_projected:
        raise UserError(f"crs={crs} is not in lengths ({target.name}): give one in metres, {_suggestion(series)}")
    projected = series.to_crs(target)
    if not np.isfinite(projected.total_bounds).all():
        raise UserError(f"{path.name} lies outside the area where crs={crs} is defined: use {_suggestion(series)}")
    return projected


def _crs(crs: str | int) -> CRS:
    try:
        return CRS.from_user_input(crs)
    except CRSError:
        raise UserError(f"unknown crs={crs!r}: give an EPSG code such as 'EPSG:32632' (see epsg.io)") from None


def _suggestion(series: geopandas.GeoSeries) -> str:
    return f'for this place crs="EPSG:{series.estimate_utm_crs().to_epsg()}"'


def _rings(shape: shapely.Polygon) -> list[shapely.LinearRing]:
    return [shape.exterior, *shape.interiors]


def _positive(unit: float) -> float:
    if not unit > 0:
        raise UserError(f"unit={unit} must be a positive number of metres: 1.0 for metres, 1000.0 for km")
    return unit
