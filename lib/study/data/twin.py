"""A simulated aquifer with known a, f and τ: what the notebook runs on without data, and a test of recovery."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import pandas as pd
from shapely import Point, Polygon

from pdevae.fem.domains import PolygonDomain
from pdevae.fem.mesh import Mesh
from pdevae.fem.transfer import interpolation
from pdevae.streams import random
from study.data.aquifer import Aquifer, Raster
from study.models.head import SCALES, HeadModel, OnMesh
from study.streams import Stream

CENTRE, LENGTH = np.array([170.0, 205.0]), 100.0  # km: the frame, in which lengths are about one
FEET = (4400.0, 300.0)  # of head 0 and of a unit of head
_OUTLINE = [  # hand-placed, km: a crescent some 300 km long that falls from north-east to south-west
    (25, 125), (60, 95), (110, 95), (150, 115), (190, 135), (230, 165), (265, 205), (300, 250), (312, 300),
    (270, 312), (235, 285), (195, 270), (150, 235), (105, 210), (60, 185), (30, 160),
]  # fmt: skip
_LABORATORY = [(185, 215), (210, 215), (210, 240), (185, 240)]
_NODES = 1500
MODEL = HeadModel(log_a_sd=0.7, log_a_length=0.6, transport_sd=1.0, trend="linear", trend_sd=1.0)
TRUE_SCALES = {
    "source": 2.0,
    "source_length": 0.4,
    "eps": 0.02,
    "edge": 0.3,
    "edge_length": 0.5,
    "noise": 0.02,
}


@dataclass(frozen=True, eq=False)
class Truth:
    """Nodal values on ``on.mesh`` (frame units): head, log a, f; and τ."""

    on: OnMesh
    head: np.ndarray
    v: np.ndarray  # whitened log a and τ
    source: np.ndarray

    @cached_property
    def log_a(self) -> np.ndarray:
        return self.on.log_a.basis(self.on.mesh.points) @ self.v[: self.on.model.n_inducing]

    @property
    def tau(self) -> np.ndarray:
        return self.on.model.transport_sd * self.v[-2:]

    def at(self, values: np.ndarray, x: np.ndarray) -> np.ndarray:
        """Nodal values at places in the frame."""
        return interpolation(self.on.mesh, x) @ values


@cache
def domain() -> PolygonDomain:
    """The outline in the frame's units."""
    return PolygonDomain.of((np.array(_OUTLINE) - CENTRE) / LENGTH)


@cache
def _mesh() -> Mesh:
    return domain().mesh(nodes=_NODES)


@cache
def truth(seed: int) -> Truth:
    """A draw of everything from the prior of :data:`MODEL` with :data:`TRUE_SCALES`."""
    assert TRUE_SCALES.keys() == SCALES.keys()
    rng, on = random(Stream.TWIN_TRUTH, seed), MODEL.on(_mesh())
    v = rng.normal(size=on.n_fields)
    inside = on.mesh.interior
    x = on.mesh.points
    source = _draw(rng, on.source_covariance(TRUE_SCALES, x[inside]))
    load = on.mass * source + TRUE_SCALES["eps"] * np.linalg.cholesky(on.stiffness) @ rng.normal(size=len(inside))
    edge = _draw(rng, on.edge_covariance(TRUE_SCALES).numpy())
    edge += 1.2 * (x[on.edge] @ np.array([0.6, 0.8]))  # down to the south-west
    L_ii, L_ib = (part.numpy() for part in on.matrix(on.coefficients(v)))
    head = np.empty(on.mesh.n_nodes)
    head[on.edge] = edge
    head[inside] = np.linalg.solve(L_ii, load - L_ib @ edge)
    whole = np.zeros(on.mesh.n_nodes)
    whole[inside] = source
    return Truth(on, head, v, whole)


@cache
def simulate(seed: int = 0) -> Aquifer:
    """As many wells as the real aquifer has in each period, most of them near the laboratory."""
    rng, known = random(Stream.TWIN_WELLS, seed), truth(seed)
    places = _well_places(rng, 313)
    x = (places - CENTRE) / LENGTH
    head = known.at(known.head, x) + TRUE_SCALES["noise"] * rng.normal(size=len(x))
    drift = 0.01 * rng.normal(size=len(x))
    land = _land(rng, known)
    surface = land.at(places)
    early, late = (surface - (FEET[0] + FEET[1] * level) for level in (head, head + drift))
    early[204:], late[203] = np.nan, np.nan
    wells = pd.DataFrame({"site": [f"twin{k:03d}" for k in range(len(x))], "x": places[:, 0], "y": places[:, 1]})
    wells = wells.assign(land=surface, depth_early=early, depth_late=late)
    return Aquifer(wells, Polygon(_OUTLINE), Polygon(_LABORATORY), land, simulated=True)


def _well_places(rng, count: int) -> np.ndarray:
    """Half of them around the laboratory, the rest anywhere; never on the very edge."""
    inner, centre = Polygon(_OUTLINE).buffer(-3), np.mean(_LABORATORY, axis=0)
    found = []
    while len(found) < count:
        near = rng.uniform() < 0.5
        place = centre + 25 * rng.normal(size=2) if near else rng.uniform([20, 90], [315, 315])
        if inner.contains(Point(place)):
            found.append(place)
    return np.array(found)


def _land(rng, known: Truth) -> Raster:
    """Above the head by 50 to 600 ft, more in the hills of the north-west; on a grid of 3 km."""
    x, y = np.arange(15, 325, 3.0), np.arange(85, 325, 3.0)
    cells = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    place = (cells - CENTRE) / LENGTH
    nearest = np.argmin(np.linalg.norm(place[:, None] - known.on.mesh.points[None, ::5], axis=-1), axis=1)
    wave = sum(np.sin(place @ rng.normal(scale=3.0, size=2) + rng.uniform(0, 6)) for _ in range(4))
    depth = 250 + 60 * wave + 80 * (place[:, 1] - place[:, 0])
    feet = FEET[0] + FEET[1] * known.head[::5][nearest] + np.maximum(depth, 30)
    return Raster(x, y, feet.reshape(len(y), len(x)))


def _draw(rng, covariance: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(covariance)
    return vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(values)))
