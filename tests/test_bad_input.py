"""What is wrong with an input is said in one line that names the remedy, and nothing comes out."""

import json
import re
from contextlib import suppress

import numpy as np
import pytest

import pdevae
from pdevae._tensorflow import tf
from study.transport.problem import forward_on

SQUARE = [[11.0, 47.0], [11.1, 47.0], [11.1, 47.1], [11.0, 47.1], [11.0, 47.0]]
AWAY = [[x + 1, y] for x, y in SQUARE]
BOW_TIE = [SQUARE[0], SQUARE[2], SQUARE[1], SQUARE[3], SQUARE[0]]
UTM = "EPSG:32632"


def refused(remedy, make, *arguments, **named):
    """``make`` must raise one line that matches the remedy."""
    with pytest.raises(pdevae.UserError, match=remedy) as caught:
        made = make(*arguments, **named)
        pytest.fail(f"came out: {made}")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def geometry(kind, coordinates):
    return {"type": kind, "coordinates": coordinates}


def collection(*geometries):
    features = [{"type": "Feature", "properties": {}, "geometry": g} for g in geometries]
    return {"type": "FeatureCollection", "features": features}


@pytest.fixture
def file(tmp_path):
    def write(content):
        path = tmp_path / "lake.geojson"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


FILES = {
    "not JSON": ("outline: 1 2 3", "is not JSON .* export the polygon as GeoJSON"),
    "not GeoJSON": ({"outline": SQUARE}, "not GeoJSON: export"),
    "a line": (geometry("LineString", SQUARE), "a LineString, not a Polygon: draw .* closed Polygon"),
    "points": (collection(geometry("Point", [11, 47]), geometry("Point", [11, 48])), "a Point, not a Polygon: draw"),
    "nothing": (collection(), "holds nothing, not a Polygon: draw"),
    "several": (collection(*(geometry("Polygon", [ring]) for ring in (SQUARE, AWAY))), "2 polygons: keep one"),
    "multi": (geometry("MultiPolygon", [[SQUARE], [AWAY]]), "2 polygons: keep one"),
    "crossing edges": (geometry("Polygon", [BOW_TIE]), "Self-intersection.*: reorder or remove corners"),
    "hole outside": (geometry("Polygon", [SQUARE, AWAY]), "Hole lies outside shell.*: reorder or remove corners"),
    "metres as degrees": (
        geometry("Polygon", [[[1e5 * x, 1e5 * y] for x, y in SQUARE]]),
        "says it is in degrees .* export it in longitude and latitude",
    ),
}


@pytest.mark.parametrize("content, remedy", FILES.values(), ids=FILES)
def test_a_file_that_holds_no_single_polygon(file, content, remedy):
    refused(remedy, pdevae.read_polygon, file(content), crs=UTM)


def test_a_file_that_is_not_there(tmp_path):
    refused("no file .*gone.geojson: check the path", pdevae.read_polygon, tmp_path / "gone.geojson")


PROJECTIONS = {
    "degrees, no crs": (None, 'is in degrees: give a projection in metres, .*crs="EPSG:32632"'),
    "a geographic crs": ("EPSG:4326", 'not in lengths .*crs="EPSG:32632"'),
    "an unknown crs": ("EPSG:999999", "unknown crs.*EPSG code"),
    "no crs at all": ("metres please", "unknown crs.*EPSG code"),
}


@pytest.mark.parametrize("crs, remedy", PROJECTIONS.values(), ids=PROJECTIONS)
def test_a_projection_that_gives_no_lengths(file, crs, remedy):
    refused(remedy, pdevae.read_polygon, file(geometry("Polygon", [SQUARE])), crs=crs)


def test_a_unit_of_no_length(file):
    refused("positive number of metres", pdevae.read_polygon, file(geometry("Polygon", [SQUARE])), crs=UTM, unit=0.0)


def test_a_polygon_survives_altitudes_a_part_of_its_own_and_another_unit(file):
    read = lambda content, crs: pdevae.read_polygon(file(content), 100, crs=crs, unit=1000.0).domain.shape  # noqa: E731
    flat = read(geometry("Polygon", [SQUARE]), UTM)
    high = [[x, y, 600.0] for x, y in SQUARE]
    assert read(geometry("MultiPolygon", [[high]]), UTM).equals(flat)
    feet = read(geometry("Polygon", [SQUARE]), "EPSG:2272")  # US survey feet
    assert 0.1 < feet.area / flat.area < 10


PLACES = {
    "outside": ([[0.5, 0.5], [1.5, 0.5]], r"1 of 2 places lie outside .* \(number 1\) at \(1.5, 0.5\): remove them"),
    "just outside": ([[1.001, 0.5]], "outside the domain"),
    "one number each": ([0.5, 0.5], r"\[k, 2\], a row \(x, y\) each"),
    "not finite": ([[0.5, np.nan]], "finite numbers"),
}


@pytest.mark.parametrize("x, remedy", PLACES.values(), ids=PLACES)
def test_places_that_cannot_be_read(x, remedy):
    mesh = pdevae.square(nodes=100)
    refused(remedy, pdevae.read_at, mesh, x)
    forward = forward_on(mesh)
    refused(remedy, forward.reader, x)
    if np.ndim(x) == 2:
        refused(remedy, pdevae.InverseProblem.on, forward, x, np.zeros(len(x)), 0.1)


def test_a_hole_is_outside_but_the_shore_is_not():
    ring = np.array([(0, 0), (3, 0), (3, 3), (0, 3)], float)
    mesh = pdevae.polygon(ring, [ring / 3 + 1], nodes=200)
    refused("outside the domain", pdevae.read_at, mesh, [[1.5, 1.5]])
    on_shore = mesh.points[mesh.is_boundary] * (1 + 1e-15)
    np.testing.assert_allclose(pdevae.read_at(mesh, on_shore) @ mesh.points, on_shore, atol=1e-12)


def test_a_place_between_a_curve_and_its_chord_is_inside():
    mesh, angle = pdevae.disc(nodes=60), np.linspace(0, 6, 40)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    read = pdevae.read_at(mesh, circle)
    np.testing.assert_allclose(read.sum(axis=1), 1.0)
    assert np.linalg.norm(read @ mesh.points - circle, axis=1).max() < 0.25 * mesh.max_edge
    refused("outside the domain", pdevae.read_at, mesh, 1.3 * circle)


def test_readings_that_do_not_fit_their_sensors():
    mesh, at = pdevae.square(nodes=100), np.full((2, 2), 0.5)
    refused("one reading for each sensor", pdevae.InverseProblem.on, forward_on(mesh), at, np.zeros(3), 0.1)
    refused("noise=0 must be positive", pdevae.InverseProblem.on, forward_on(mesh), at, np.zeros(2), 0)


def operator(name, **methods):
    return type(
        name, (pdevae.Term,), {part: lambda self, x, z, u, grad, f=f: f(u, grad) for part, f in methods.items()}
    )()


OPERATORS = {
    "flux without direction": (operator("Spread", flux=lambda u, grad: u), r"Spread.flux returned .*\[M, n, 2\]"),
    "flux of the coefficient": (operator("Spread", flux=lambda u, grad: u[..., None]), r"Spread.flux .*\[M, n, 2\]"),
    "flux of one number": (
        operator("Spread", flux=lambda u, grad: 2.0),
        r"Spread.flux returned a float: .*\[M, n, 2\]",
    ),
    "volume with direction": (operator("Decay", volume=lambda u, grad: grad), r"Decay.volume returned .*\[M, n\]"),
    "volume of a column": (
        operator("Decay", volume=lambda u, grad: tf.transpose(u)),
        r"Decay.volume returned shape .*, 1\].* \[M, n\]",
    ),
    "forgot to return": (operator("Decay", volume=lambda u, grad: None), "Decay has neither .* return its value"),
    "no method": (operator("Empty"), "Empty has neither flux nor volume: define one of them"),
}
PENALTIES = {
    "exact": pdevae.ExactPenalty,
    "tapered": lambda *a: pdevae.TaperedPenalty(*a, patch_nodes=8),
    "two-level": lambda *a: pdevae.TwoLevelPenalty(*a, patch_nodes=8),
    "multilevel": lambda *a: pdevae.MultilevelPenalty(*a, patch_nodes=8),
    "pointwise": pdevae.PointwisePenalty,
}
MESH = pdevae.square(nodes=100)
LAPLACE = pdevae.Diffusion() - pdevae.Source(1.0)


def flat(x, z):
    return 0.0 * x[None, :, 0]


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("wrong, remedy", OPERATORS.values(), ids=OPERATORS)
def test_an_operator_of_the_wrong_shape_is_named_though_it_is_one_of_a_sum(kind, wrong, remedy):
    penalty = PENALTIES[kind](MESH, LAPLACE - wrong + pdevae.Transport(np.ones(2)))
    refused(remedy, penalty, flat, None, (0, 0))


def test_the_shapes_of_an_operator_are_checked_while_tracing_only():
    calls = []
    looked_at = operator("Decay", volume=lambda u, grad: calls.append(u.shape) or u)
    penalty = tf.function(pdevae.TwoLevelPenalty(MESH, LAPLACE + looked_at, patch_nodes=8))
    for step in range(3):
        penalty(flat, None, tf.constant([0, step]))
    assert len(calls) == 1  # traced once; patches and coarse part share the residual


NO_EQUATION = {
    "a number": (lambda: pdevae.Diffusion() - 1.0, r"write a number or function f as Source\(f\)"),
    "a class": (lambda: pdevae.WeakForm(MESH, pdevae.Diffusion), "give a term or a sum"),
    "for places": (lambda: pdevae.PointwisePenalty(MESH, "u = 0"), "give a term or a sum"),
}


@pytest.mark.parametrize("make, remedy", NO_EQUATION.values(), ids=NO_EQUATION)
def test_what_is_no_equation(make, remedy):
    refused(remedy, make)


FIELDS = {
    "a vector": (lambda x, z: x[:, 0], r"mu returned values of shape \[\d+\] .*for one sample return u\[None\]"),
    "a column": (lambda x, z: x[:, :1], r"shape \[\d+, 1\] .*keras_field"),
    "a stack": (lambda x, z: x[None], r"shape \[1, \d+, 2\] .* must return \[M, \d+\]"),
}


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("mu, remedy", FIELDS.values(), ids=FIELDS)
def test_a_field_without_samples(kind, mu, remedy):
    refused(remedy, PENALTIES[kind](MESH, LAPLACE), mu, None, (0, 0))


@pytest.mark.parametrize("kind", [kind for kind in PENALTIES if kind != "exact"])
@pytest.mark.parametrize("seed", [3, None, (1, 2, 3), (0.5, 1.0), "seed"], ids=str)
def test_a_seed_that_is_no_pair(kind, seed):
    refused(r"must be a pair of integers, as \(0, step\)", PENALTIES[kind](MESH, LAPLACE), flat, None, seed)


def dense(*sizes, inputs=None):
    first = [] if inputs is None else [tf.keras.layers.InputLayer(inputs)]
    return tf.keras.Sequential([*first, *(tf.keras.layers.Dense(size) for size in sizes)])


MODELS = {
    "two outputs": (lambda: dense(4, 2), r"returns \[3, 2\] for 3 places: .* end it in Dense\(1\)"),
    "one input": (lambda: dense(4, 1, inputs=(1,)), r"its input must be \[n, 2\], or \[n, 2 \+ d\]"),
    "an image": (lambda: dense(1, inputs=(8, 8)), r"inputs of shape \[\?, 8, 8\], not places"),
    "a function": (lambda: lambda x: x[:, :1], "a Keras model, not a function: give a tf.keras.Model"),
    "nothing": (lambda: None, "a Keras model, not a NoneType"),
}


@pytest.mark.parametrize("model, remedy", MODELS.values(), ids=MODELS)
def test_a_keras_model_that_is_no_field(model, remedy):
    refused(remedy, lambda: pdevae.keras_field(model()))


def test_a_latent_that_does_not_fit_the_keras_model():
    mu, x = pdevae.keras_field(dense(4, 1, inputs=(5,))), tf.zeros([7, 2], tf.float64)
    assert mu(x, tf.zeros([4, 3])).shape == [4, 7]
    assert mu(x, pdevae.Latents(a=pdevae.Normal(3)).seen(tf.zeros([4, 3]))).shape == [4, 7]
    refused(r"z must be \[M, 3\], not None", mu, x, None)
    refused(r"z must be \[M, 3\], not shape \[4, 2\]", mu, x, tf.zeros([4, 2]))


SIZES = {
    "eps": (lambda: pdevae.Constant(0.0), "needs eps > 0"),
    "end": (lambda: pdevae.Geometric(1.0, -0.1, steps=10), "needs end > 0"),
    "patch nodes": (lambda: pdevae.TwoLevelPenalty(MESH, LAPLACE, patch_nodes=65), "64 interior nodes: use 2 to 64"),
    "patches": (lambda: pdevae.TwoLevelPenalty(MESH, LAPLACE, patch_nodes=8, n_patches=0), "n_patches of at least 1"),
    "centres": (lambda: pdevae.MultilevelPenalty(MESH, LAPLACE, 8, centres="some"), "unknown centres='some'"),
    "places": (lambda: pdevae.PointwisePenalty(MESH, LAPLACE, n_points=0), "n_points of at least 1"),
    "triangles": (lambda: pdevae.Mesh(MESH.points, MESH.triangles + 50), "triangles .* 0 to 99"),
    "points": (lambda: pdevae.Mesh(MESH.points.T, MESH.triangles), r"points .* \[n, 2\]"),
}


@pytest.mark.parametrize("make, remedy", SIZES.values(), ids=SIZES)
def test_sizes_that_cannot_be(make, remedy):
    refused(remedy, make)


def test_nothing_is_left_behind(file, tmp_path):
    path = file("no JSON")
    with suppress(pdevae.UserError):
        pdevae.read_polygon(path)
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


def test_a_message_is_one_line_however_it_was_written():
    assert not re.search(r"\s\s|\n", str(pdevae.UserError("two\n   lines")))
