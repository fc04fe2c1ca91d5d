"""The aquifer: data and where they come from, the mesh of the plain, the models, recovery on the twin."""

import hashlib

import numpy as np
import pandas as pd
import pooch
import pytest
import requests
from pyproj import Transformer
from shapely import Polygon

from pdevae import spread_out
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.domains import GradedDomain
from pdevae.fem.transfer import interpolation
from pdevae.fem.weak_form import WeakForm, stiffness
from study import choices, plots
from study.aquifer import bars, core, maps, networks, protocol, recovery, results, scenery, splits, verdicts
from study.data import aquifer, mirror, twin
from study.models.deep_gp import deep_gp
from study.models.head import SCALES, HeadModel
from study.models.head_fit import fit
from study.models.kernels import InducedField
from study.models.surrogate import NETWORK, MechanismSamples, WellSurrogate, _gaussian
from study.models.variational import refine

real = pytest.mark.skipif(
    aquifer.find()[0] is None, reason="no USGS files: not in data/aquifer, no mirror, no download"
)


# ------------------------------------------------------------------------------------------------------------ data


@real
def test_counts_are_those_of_the_raw_file():
    readings = aquifer.read(aquifer.find()[0] / "ESRP_NWIS.txt.gz")
    wells = aquifer.load().wells
    early, late = wells.depth_early.notna(), wells.depth_late.notna()
    assert (len(readings), early.sum(), late.sum(), (late & ~early).sum()) == (128_946, 204, 312, 109)
    assert len(aquifer.load().outline.interiors) == 3  # the buttes


@real
def test_a_level_is_the_median_of_the_period_and_head_is_land_minus_depth():
    readings = aquifer.read(aquifer.find()[0] / "ESRP_NWIS.txt.gz")
    found = aquifer.load()
    k = int(np.flatnonzero(found.wells.depth_late.notna())[17])
    mine = readings[(found.wells.site[k] == readings.SITE_NO) & readings.LEV_DT.dt.year.between(1980, 1999)]
    assert found.level("depth", "late")[k] == pytest.approx(mine.LEV_VA.median())
    assert found.level("altitude", "late")[k] == pytest.approx(mine.ALT_VA.iloc[0] - mine.LEV_VA.median())


@real
def test_projection_there_and_back_and_the_land_surface_agrees_with_the_wells():
    found = aquifer.load()
    back = Transformer.from_crs(aquifer.PLAIN, "EPSG:4269", always_xy=True)
    degrees = np.stack(back.transform(*found.places.T), axis=1)
    np.testing.assert_allclose(degrees, found.wells[["longitude", "latitude"]], atol=1e-7)
    assert found.outline.area == pytest.approx(28_088, rel=0.005)  # km²
    assert np.median(np.abs(found.land.at(found.places) - found.wells.land)) < 5  # ft
    assert (found.land.base_level(found.places) < found.land.at(found.places) + 60).all()


@real
def test_suspect_wells_are_listed():
    assert "441740111540201" in set(aquifer.load().suspects().site)


def _raw(tmp_path, **changes) -> str:
    table = pd.DataFrame(
        {
            "SITE_NO": ["431642114013002"] * 2,
            "DEC_LONG_VA": [-114.0, -114.0],
            "DEC_LAT_VA": [43.3, 43.3],
            "ALT_VA": [4793.0, 4793.0],
            "ALT_DATUM_CD": ["NAVD88"] * 2,
            "LEV_DT": ["1970-01-02 12:00:00", "1990-01-02 12:00:00"],
            "LEV_VA": [140.0, np.nan],
        }
    ).assign(**changes)
    path = tmp_path / "ESRP_NWIS.txt.gz"
    table.drop(columns=[c for c in table if table[c].isna().all()]).to_csv(path, sep="\t", index=False)
    return path


def test_a_good_raw_file_is_read(tmp_path):
    assert len(aquifer.read(_raw(tmp_path))) == 2


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"ALT_VA": [1461.0, 1461.0]}, "ALT_VA"),  # metres
        ({"LEV_VA": [np.nan, np.nan]}, "LEV_VA is missing"),
        ({"LEV_VA": ["deep", "deeper"]}, "LEV_VA"),
        ({"LEV_VA": [1e5, 3.0]}, "LEV_VA"),
        ({"DEC_LONG_VA": [114.0, 114.0]}, "DEC_LONG_VA"),
        ({"ALT_DATUM_CD": ["NGVD29"] * 2}, "ALT_DATUM_CD"),
        ({"SITE_NO": ["12", "13"]}, "SITE_NO"),
    ],
)
def test_a_bad_raw_file_is_refused_in_one_line(tmp_path, changes, said):
    with pytest.raises(UserError, match=said) as caught:
        aquifer.read(_raw(tmp_path, **changes))
    assert "\n" not in str(caught.value)


def test_a_cut_off_raw_file_is_refused_in_one_line(tmp_path):
    path = _raw(tmp_path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="cannot be read"):
        aquifer.read(path)


# ---------------------------------------------------------------------------------------- where the files come from

CONTENT = {"a.txt": b"one", "b.txt": b"two"}
FILES = {
    name: mirror.Remote(hashlib.sha256(text).hexdigest(), f"https://example.org/{name}")
    for name, text in CONTENT.items()
}


@pytest.fixture
def offline(monkeypatch):
    monkeypatch.delenv("PDEVAE_MIRROR", raising=False)

    def refuse(*_, **__):
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(pooch, "retrieve", refuse)


def _put(folder, **changed):
    folder.mkdir(parents=True)
    for name, text in (CONTENT | changed).items():
        (folder / name).write_bytes(text)
    return folder


def test_own_folder_comes_before_the_mirror(tmp_path, offline):
    root = tmp_path / "project"
    far = _put(tmp_path / "shared" / "data" / "wells")
    assert mirror.locate("wells", FILES, root)[0] == far
    own = _put(root / "data" / "wells")
    assert mirror.locate("wells", FILES, root)[0] == own


def test_a_named_mirror_is_used_and_must_exist(tmp_path, offline, monkeypatch):
    monkeypatch.setenv("PDEVAE_MIRROR", str(tmp_path / "there"))
    with pytest.raises(UserError, match="PDEVAE_MIRROR"):
        mirror.locate("wells", FILES, tmp_path / "project")
    folder = _put(tmp_path / "there" / "wells")
    assert mirror.locate("wells", FILES, tmp_path / "project")[0] == folder


def test_without_network_there_is_no_folder_but_a_reason(tmp_path, offline):
    folder, why = mirror.locate("wells", FILES, tmp_path / "project")
    assert folder is None
    assert "no download (ConnectionError" in why


@pytest.mark.parametrize("name", CONTENT)
def test_a_missing_or_altered_file_is_one_line(tmp_path, offline, name):
    folder = _put(tmp_path / "project" / "data" / "wells", **{name: b"other"})
    with pytest.raises(UserError, match=f"{name} is not the file") as caught:
        mirror.locate("wells", FILES, tmp_path / "project")
    assert "\n" not in str(caught.value)
    (folder / name).unlink()
    with pytest.raises(UserError, match=f"lacks {name}"):
        mirror.locate("wells", FILES, tmp_path / "project")


def test_a_download_is_kept_only_if_its_hash_is_right(tmp_path, monkeypatch):
    monkeypatch.delenv("PDEVAE_MIRROR", raising=False)
    sent = dict(CONTENT)

    def fetch(self, url, output, downloader):
        with open(output, "wb") as file:
            file.write(sent[url.rpartition("/")[2]])

    monkeypatch.setattr(pooch.HTTPDownloader, "__call__", fetch)
    assert mirror.locate("wells", FILES, tmp_path / "one")[0] == tmp_path / "one" / "data" / "wells"
    sent["b.txt"] = b"tampered"
    with pytest.raises(UserError, match=r"b\.txt is not the file"):
        mirror.locate("wells", FILES, tmp_path / "two")
    assert not (tmp_path / "two" / "data" / "wells" / "b.txt").exists()


def test_without_files_the_twin_stands_in_and_the_real_one_is_refused(tmp_path, offline, monkeypatch):
    monkeypatch.setenv("PDEVAE_ROOT", str(tmp_path / "project"))
    aquifer.find.cache_clear()
    aquifer.load.cache_clear()
    try:
        assert splits.available()[0] == "twin"
        with pytest.raises(UserError, match="simulated twin"):
            aquifer.load()
    finally:
        aquifer.find.cache_clear()


# ------------------------------------------------------------------------------------------------- splits and mesh


@pytest.mark.parametrize("source", ["twin", pytest.param("usgs", marks=real)])
def test_nobody_is_tested_on_what_they_were_trained_on(source):
    found = splits.data(source)
    (full,), (near,) = splits.members(source, "full"), splits.members(source, "near")
    assert (len(full.training), len(full.test)) == (204, 312)
    assert (found.to_laboratory[near.training] < 60).all()
    assert (found.to_laboratory[near.test] >= 60).all()
    held = splits.members(source, "cv")
    for member in held:
        assert not set(member.training) & set(member.test)
        assert set(member.training) | set(member.test) <= set(full.training)
        assert member.tested_in == "early"
    assert set(np.concatenate([m.test for m in held[:5]])) == set(full.training)
    for member in held[5:]:  # rings stand for the stress test: nothing from beyond 60 km
        assert set(member.training) | set(member.test) <= set(near.training)


def test_standardisation_knows_training_wells_only():
    (member,) = splits.members("twin", "near")
    known = splits.Standardised.of("twin", "altitude", member)
    assert (known.y.mean(), known.y.std()) == (pytest.approx(0, abs=1e-9), pytest.approx(1))
    back = known.feet.back(known.y[None], np.ones((1, len(known.y))))
    np.testing.assert_allclose(back.mean[0], splits.data("twin").level("altitude", "early")[member.training])


def _angles(mesh) -> np.ndarray:
    corners = mesh.points[mesh.triangles]
    sides = [np.roll(corners, -k, axis=1)[:, 1] - np.roll(corners, -k, axis=1)[:, 0] for k in range(3)]
    sides = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in sides]
    cosines = [-np.sum(a * b, axis=1) for a, b in zip(sides, sides[1:] + sides[:1])]
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))


@pytest.mark.parametrize("source", ["twin", pytest.param("usgs", marks=real)])
def test_the_mesh_has_no_sharp_angle_and_covers_the_plain(source):
    mesh, found = splits.plain(source, 600), splits.data(source)
    assert abs(mesh.n_nodes - 600) < 30
    assert _angles(mesh).min() > 29.5
    x, y = np.moveaxis(mesh.points[mesh.triangles], -1, 0)
    area = np.abs((x[:, 1] - x[:, 0]) * (y[:, 2] - y[:, 0]) - (x[:, 2] - x[:, 0]) * (y[:, 1] - y[:, 0])).sum() / 2
    assert area * 1e4 == pytest.approx(found.outline.area, rel=1e-6)
    inside = interpolation(mesh, splits.frame(found.places)).sum(axis=1)
    np.testing.assert_allclose(inside, 1.0)  # every well lies in an element: none in a hole


def test_a_graded_mesh_is_finer_near_the_places():
    square = Polygon([(0, 0), (1, 0), (1, 1), (0, 1)], [[(0.7, 0.7), (0.8, 0.7), (0.8, 0.8)]])
    mesh = GradedDomain(square, np.array([[0.2, 0.2]])).mesh(nodes=500)
    centre = mesh.points[mesh.edges].mean(axis=1)
    near = np.linalg.norm(centre - 0.2, axis=1) < 0.05
    far = np.linalg.norm(centre - 0.2, axis=1) > 0.5
    assert mesh.edge_lengths[near].mean() < 0.6 * mesh.edge_lengths[far].mean()


# --------------------------------------------------------------------------------------------- the model on the mesh

MODEL = HeadModel(log_a_sd=1.0, transport_sd=1.0, covariate_sd=1.0, n_inducing=12)


@pytest.fixture(scope="module")
def on():
    return MODEL.on(twin.domain().mesh(nodes=90), covariate=lambda x: np.sin(x[:, 0]))


@pytest.fixture(scope="module")
def wells():
    found = splits.data("twin")
    (member,) = splits.members("twin", "full")
    x = splits.frame(found.places[member.training])[::4]
    return x, splits.Standardised.of("twin", "altitude", member).y[::4]


@pytest.fixture(scope="module")
def fitted(on, wells):
    return fit(on, *wells, most=40)


def test_without_load_a_linear_boundary_gives_a_linear_head(wells):
    """a = 1, τ = 0: harmonic, so the values at wells are those of the same plane."""
    plain = HeadModel().on(twin.domain().mesh(nodes=90))
    plane = lambda x: 1 + x @ [2.0, -3.0]  # noqa: E731
    _, R = plain.responses(tf.zeros([0], tf.float64), plain.read(wells[0]))
    np.testing.assert_allclose(R.numpy() @ plane(plain.mesh.points[plain.edge]), plane(wells[0]), atol=1e-9)


def test_responses_are_those_of_the_weak_form(on, wells):
    """H u for a given load and boundary, by the library's own matrices and a sparse solve."""
    rng = np.random.default_rng(0)
    v = tf.constant(rng.normal(size=on.n_fields))
    load, edge = rng.normal(size=len(on.mesh.interior)), rng.normal(size=len(on.edge))
    G, R = (part.numpy() for part in on.responses(v, on.read(wells[0])))
    L = WeakForm(on.mesh, on.weak.equation).matrix(on.coefficients(v))
    u = np.zeros(on.mesh.n_nodes)
    u[on.edge] = edge
    u[on.mesh.interior] = np.linalg.solve(L[:, on.mesh.interior].toarray(), load - L[:, on.edge] @ edge)
    np.testing.assert_allclose(G @ load + R @ edge, on.read(wells[0]) @ u, atol=1e-9)


def test_every_covariance_is_positive_definite(on, fitted):
    objective = fitted.objective
    for seed in range(5):
        p = tf.constant(np.random.default_rng(seed).normal(size=on.n_fields + len(SCALES)))
        s = objective.scales(p)
        for K in (on.load_covariance(s), on.edge_covariance(s), objective.covariance(p)):
            K = K.numpy()
            np.testing.assert_allclose(K, K.T, atol=1e-9 * np.abs(K).max())
            assert np.linalg.eigvalsh(K).min() > -1e-10 * np.linalg.eigvalsh(K).max()
        assert np.linalg.eigvalsh(objective.covariance(p).numpy()).min() > 0


def test_a_load_is_source_and_perturbation(on):
    """M K_f M + ε²A: the perturbation's covariance is the dual norm's."""
    s = {name: median for name, (median, _) in SCALES.items()}
    x = on.mesh.points[on.mesh.interior]
    expected = on.mass[:, None] * on.source_covariance(s, x) * on.mass + s["eps"] ** 2 * stiffness(on.mesh).toarray()
    np.testing.assert_allclose(on.load_covariance(s), expected, atol=1e-12)
    area = Polygon(twin.domain().shape).area
    assert 0.7 * area < on.mass.sum() < area  # nodes inside


def test_the_objective_is_the_marginal_likelihood_and_its_gradient_is_right(on, wells, fitted):
    from scipy.stats import multivariate_normal

    objective = fitted.objective
    p = 0.3 * np.random.default_rng(1).normal(size=on.n_fields + len(SCALES))
    value, gradient = objective.value_and_gradient(p)
    K = objective.covariance(tf.constant(p)).numpy()
    log_p = multivariate_normal(np.zeros(len(K)), K, allow_singular=False).logpdf(wells[1])
    assert value == pytest.approx(-log_p - len(K) / 2 * np.log(2 * np.pi) + p @ p / 2)
    for k in (0, 5, on.n_fields - 1, on.n_fields, len(p) - 1):
        step = 1e-5 * np.eye(len(p))[k]
        slope = (objective.value_and_gradient(p + step)[0] - objective.value_and_gradient(p - step)[0]) / 2e-5
        assert gradient[k] == pytest.approx(slope, rel=1e-4, abs=1e-5)


def test_predictions_are_the_gaussian_conditional(on, wells, fitted):
    """Against the joint covariance of wells and new places, conditioned by the textbook."""
    joint, n = fitted.objective, len(wells[0]) - 5
    (x, new), y = np.split(wells[0], [n]), wells[1][:n]
    fitted = fit(on, x, y, most=3)
    K = joint.covariance(tf.constant(fitted.p)).numpy()
    mean = K[n:, :n] @ np.linalg.solve(K[:n, :n], y)
    variance = np.diag(K[n:, n:] - K[n:, :n] @ np.linalg.solve(K[:n, :n], K[:n, n:]))
    found = fitted.at(new)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(found.sd, np.sqrt(variance), rtol=1e-4)


def test_the_source_found_explains_the_head_found(wells):
    """With ε next to nothing and the boundary known, f is what the head's own residual says it is."""
    scales = SCALES | {"eps": (1e-4, 0.01), "edge": (1e-3, 0.01), "noise": (1e-3, 0.01), "source": (2.0, 0.01)}
    model = HeadModel(scales=scales, trend_sd=1.0).on(twin.domain().mesh(nodes=90))
    fitted = fit(model, *wells, most=20)
    inside = model.mesh.points[model.mesh.interior]
    u = fitted.at(model.mesh.points).mean
    residual = model.weak.matrix(model.coefficients(tf.zeros([0], tf.float64))) @ u / model.mass
    f = fitted.source(inside).mean
    assert np.corrcoef(residual, f)[0, 1] > 0.99


def test_inducing_points_determine_a_long_field_and_say_when_they_do_not():
    mesh = twin.domain().mesh(nodes=300)
    points = spread_out(mesh.points, 50)
    assert len(np.unique(points, axis=0)) == 50
    assert InducedField(points, 1.0, 0.5).left_out(mesh.points).max() < 0.1
    assert InducedField(points, 1.0, 0.02).left_out(mesh.points).max() > 0.5
    field = InducedField(points, 2.0, 0.5)
    np.testing.assert_allclose(np.sum(field.basis(points) ** 2, axis=1), 4.0, rtol=1e-3)  # the prior's variance
    np.testing.assert_allclose(field.basis_at(tf.constant(mesh.points)), field.basis(mesh.points), atol=1e-6)


# --------------------------------------------------------------------------------------------------- GP-D and GP-DT


def test_the_surrogate_has_the_papers_parameters():
    assert NETWORK.n_parameters == 6433
    assert [n * m + m for n, m in NETWORK.layers] == [96, 2112, 4160, 65]


@pytest.mark.parametrize("mechanism", ["GP-D", "GP-DT"])
def test_the_penalty_sees_the_equation(mechanism):
    """A network's residual, against the matrix with the same coefficients."""
    mesh = twin.domain().mesh(nodes=60)
    model = WellSurrogate(mechanism, n_inducing=10)
    rng = np.random.default_rng(2)
    z = MechanismSamples(
        tf.constant(6 * NETWORK.init([3])),  # steep enough for ∇u to matter
        *(tf.constant(rng.normal(size=(1, size)), tf.float32) for size in (10, 10, 2)),
    )
    from study.models.surrogate import surrogate

    penalty = model.make_penalty(mesh)
    r = penalty.weak.residual(penalty.weak.values(surrogate, z), z)[0].numpy()
    g, f = model.fields(mesh)
    head = HeadModel(log_a_sd=g.sd, log_a_length=g.length, transport_sd=1.0, n_inducing=10).on(mesh)
    tau = z.tau[0].numpy() * (mechanism == "GP-DT")
    L = head.weak.matrix(head.coefficients(tf.constant(np.r_[z.log_a[0], tau], tf.float64)))
    u = surrogate(tf.constant(mesh.points), z)[0].numpy()
    at = head.weak.elements.centroid.numpy()
    per_element = np.repeat(head.weak.elements.area.numpy() * (f.basis(at) @ z.f[0].numpy()) / 3, 3)
    load = np.bincount(mesh.triangles.ravel(), per_element, mesh.n_nodes)[mesh.interior]
    np.testing.assert_allclose(r, L @ u - load, atol=1e-3 * np.abs(r).max())


def test_kl_is_that_of_gaussians():
    import tensorflow_probability as tfp

    model, rng = WellSurrogate("GP-D", n_inducing=4), np.random.default_rng(3)
    parameters = {name: tf.constant(rng.normal(size=(2, 4))) for name in ("log_a", "f")}
    parameters |= {f"{name}_T": tf.constant(rng.normal(size=(2, 4, 4))) for name in ("log_a", "f")}
    normal = tfp.distributions.MultivariateNormalTriL
    prior = normal(tf.zeros([4], tf.float64), tf.eye(4, dtype=tf.float64))
    each = [normal(parameters[n], _gaussian(parameters, n).factor()).kl_divergence(prior) for n in ("log_a", "f")]
    assert float(model._kl(parameters)) == pytest.approx(float(tf.reduce_sum(each)))


def test_members_train_as_they_would_alone_and_an_unknown_mechanism_is_refused():
    mesh = splits.plain("twin", 120)
    each = splits.members("twin", "cv")[5:7]
    known = [splits.Standardised.of("twin", "altitude", m) for m in each]
    model = WellSurrogate("none", period=20)
    x = splits.places("twin", each[0].test)
    (both,) = model.fit(networks.stacked("twin", each, known), mesh, [1], [7, 8])
    (alone,) = model.fit(networks.stacked("twin", each[:1], known[:1]), mesh, [1], [7])
    np.testing.assert_allclose(both.predict(x)[0][0], alone.predict(x)[0][0], atol=2e-3)
    with pytest.raises(UserError, match="unknown mechanism"):
        WellSurrogate("magic")


@pytest.mark.parametrize("name", ["GP-DT", "GP-DT, two-level", "GP-DT, taper P=1", "network, Laplacian"])
def test_every_penalty_trains(name):
    config = {"survey": "twin", "split": "near", "response": "depth", "repeats": 2, "mesh_nodes": 120, "period": 10}
    found = networks.network(protocol.NETWORKS[name] | config | {"cycles_seen": [1, 2]}, 0)
    assert set(found["cycles"]) == {1, 2}
    assert np.isfinite(found["median"]).all()
    assert set(found["member"]) == {0, 1}


def test_the_deep_gp_learns_and_repeats_itself():
    x = splits.places("twin", splits.members("twin", "full")[0].training)[:60]
    y = np.sin(3 * x[:, 0])
    found = [deep_gp(x, y, x, seed=1, steps=60, n_inducing=15) for _ in range(2)]
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert np.abs(found[0][0].mean(axis=0) - y).mean() < 0.5 * np.abs(y - y.mean()).mean()


# --------------------------------------------------------------------------------------------------------- the twin


def test_the_twin_is_as_large_as_the_real_one_and_repeats_itself():
    found = twin.simulate(0)
    early, late = found.wells.depth_early.notna(), found.wells.depth_late.notna()
    assert (early.sum(), late.sum(), (late & ~early).sum()) == (204, 312, 109)
    assert found.simulated
    pd.testing.assert_frame_equal(found.wells, twin.simulate.__wrapped__(0).wells)


def test_the_twins_head_solves_its_equation():
    truth = twin.truth(3)
    L = truth.on.weak.matrix(truth.on.coefficients(tf.constant(truth.v)))
    load = L @ truth.head - truth.on.mass * truth.source[truth.on.mesh.interior]
    # what is left is w: its dual norm is ε per degree of freedom
    size = load @ np.linalg.solve(truth.on.stiffness, load) / len(load)
    assert np.sqrt(size) == pytest.approx(twin.TRUE_SCALES["eps"], rel=0.1)


def test_recovery_at_test_size():
    found = recovery.on_mesh({"mesh_nodes": 300, "draws": 60, "steps": 25, "exact": 0}, 3)
    assert found["log_a_correlation"] > 0.6
    assert found["f_correlation"] > 0.5
    assert min(found["log_a_covered"], found["f_covered"]) > 0.6


def test_the_best_gaussian_has_no_less_evidence_than_laplaces(fitted):
    m, C = refine(fitted, steps=60, samples=2, seed=1)

    def bound(m, C):
        drawn = m + np.random.default_rng(5).normal(size=(200, len(m))) @ C.T
        energy = np.mean([fitted.objective.value_and_gradient(np.clip(p, -5, 5))[0] for p in drawn])
        return np.linalg.slogdet(C)[1] - energy

    assert bound(m, C) > bound(fitted.p, fitted.spread) - 0.5


# ----------------------------------------------------------------------------------------------- tables and verdicts


def _rows(model, split, well, y, median, response="altitude", member=0, pit=0.5):
    values = {"model": model, "split": split, "response": response, "member": member, "well": well, "y": y}
    return pd.DataFrame(values | {"median": median, "pit": pit, "log_density": -1.0, "unit": 2.0, "replicate": 0})


def test_depth_by_head_has_the_heads_error_and_the_way_back_is_the_way():
    found = splits.data("twin")
    table = _rows("A", "full", np.array([3, 5]), np.array([4000.0, 4100.0]), np.array([4010.0, 4080.0]), pit=0.2)
    depth = results.depth_by_head(table, found, {"full": 7.0})
    np.testing.assert_allclose(depth["median"] - depth.y, -(table["median"] - table.y))
    assert (depth.unit == 7.0).all()
    np.testing.assert_allclose(depth.pit, 0.8)
    back = results.as_head(depth, found, results.units(table, "altitude"), "B")
    np.testing.assert_allclose(back["median"], table["median"])
    np.testing.assert_allclose(back.unit, table.unit)


def test_scores_are_the_textbooks_and_subsets_are_the_new_wells():
    found = splits.data("twin")
    new = int(np.flatnonzero(found.wells.depth_early.isna())[0])
    table = _rows("A", "full", np.array([0, new]), np.array([0.0, 0.0]), np.array([2.0, -6.0]))
    scored = results.scores(results.subsets(table, found), ["subset"]).set_index("subset")
    assert (scored.mae["all"], scored.mse["all"]) == (2.0, 5.0)  # errors 1 and 3 units
    assert (scored.mae["new"], scored.mse["new"]) == (3.0, 9.0)
    assert scored.nlpd["all"] == pytest.approx(1.0 - np.log(2.0))


def test_settings_are_chosen_for_each_split_by_its_own_folds():
    def rows(setting, block_error, ring_error):
        parts = [_rows("A", "cv", np.arange(3), 0.0, block_error, member=k) for k in range(5)]
        parts += [_rows("A", "cv", np.arange(3), 0.0, ring_error, member=k) for k in range(5, 8)]
        return pd.concat(parts).assign(source_sd=setting, cycles=3.0)

    found = results.cross_validated(pd.concat([rows(1.0, 5.0, 1.0), rows(3.0, 2.0, 9.0)], ignore_index=True))
    assert results.chosen(found, "A", "altitude", "full") == {"source_sd": 3.0, "cycles": 3}
    assert results.chosen(found, "A", "altitude", "near") == {"source_sd": 1.0, "cycles": 3}


def test_the_pool_averages_what_was_picked():
    table = pd.concat([_rows("A", "full", np.arange(2), 1.0, 3.0), _rows("B", "full", np.arange(2), 1.0, 0.0)])
    found = results.pooled(table, pd.Series({"A": 0.25, "B": 0.75}), "pool")
    np.testing.assert_allclose(found["median"], 0.75)
    np.testing.assert_allclose(found.y, 1.0)
    held = pd.concat([_rows("A", "cv", np.arange(4), 1.0, 3.0), _rows("B", "cv", np.arange(4), 1.0, 0.5)])
    assert results.pool(held, "full").idxmax() == "B"


def _summary() -> pd.DataFrame:
    rows = []
    for response in ("altitude", "depth", "depth by head"):
        for subset in ("all", "new", "beyond"):
            names = ["GP 5/2", "deep GP", "GP-D", "GP-DT", "GP 3/2 + linear", "best (ours)", results.ENSEMBLE]
            for k, model in enumerate(names):
                score = 0.2 - 0.03 * k
                rows.append({"response": response, "subset": subset, "model": model, "mae": score, "mse": score**2})
            for model in ("network, no PDE", "network, Laplacian", "GP-DT, on the core", "FEM-D", "FEM-D, Laplace"):
                rows.append({"response": response, "subset": subset, "model": model, "mae": 0.3, "mse": 0.1})
    return pd.DataFrame(rows).assign(mae_2sd=0.01, coverage=0.9, nlpd=-1.5)


def _fields() -> pd.DataFrame:
    node = {"response": "altitude", "source_mean": [1.0, 0.0], "a": [2.0, 1.0], "flow_x": -1.0, "flow_y": -1.0}
    return pd.concat([pd.DataFrame(node | {"model": model}) for model in ("GP-DT", results.BEST_MAP)])


def test_verdicts_follow_the_numbers_and_the_twin_can_say_nothing_of_the_paper():
    said = {row[0]: row[5] for row in verdicts.claims(_summary(), _fields(), simulated=False)}
    assert said["aquifer_order"] == said["aquifer_picture"] == "reproduced"
    assert said["aquifer_gain"] == "reproduced"
    worse = _summary()
    worse.loc[worse.model == "GP-DT", ["mae", "mse"]] = 0.9
    said = {row[0]: row[5] for row in verdicts.claims(worse, _fields(), simulated=False)}
    assert said["aquifer_order"] == said["aquifer_extrapolates"] == said["aquifer_mechanism"] == "not reproduced"
    assert {row[5] for row in verdicts.claims(worse, _fields(), simulated=True)} == {"not testable"}
    met = {row[0]: row[4] for row in bars.of_scores(worse, {"full": "A"})}
    assert not met["aquifer_gpdt_new"]
    assert met["aquifer_coverage"]
    ours = {row[0]: row[3] for row in bars.of_scores(worse, {"full": "A"})}
    assert ours["aquifer_core"].startswith("GP-DT, all test wells: 0.300 against 0.900; ")
    assert ours["aquifer_posterior"] == "FEM-D: -1.50, 90% against -1.50, 90%; GP-DT: -1.50, 90%"


def test_a_verdict_that_hangs_on_a_choice_is_partly_and_has_both_numbers():
    away = np.array([1.0, 50.0])
    zero, not_zero = ({"source_mean": [1.0, far], "a": [2.0, 2.0**far]} for far in (0.0, 1.0))
    fields = {"short": pd.DataFrame(zero), "long": pd.DataFrame(not_zero)}
    ((_, _, _, _, ours, verdict, _, depends_on),) = choices.zero_away(fields, away, simulated=False)
    assert verdict == "partly"
    assert "short: f 0.00, log a 0.00; long: f 1.00, log a 1.00" in ours
    assert "lengths of the kernels" in depends_on
    (same,) = choices.zero_away({"short": fields["short"], "again": fields["short"]}, away, simulated=False)
    assert (same[5], same[7]) == ("reproduced", "")


def test_a_twins_map_says_simulated_across_its_face():
    mesh = splits.plain("twin", 120)
    table = scenery.map_table("twin", 120, gp=mesh.points[:, 0], gp_dt=mesh.points[:, 1])
    texts = {text.get_text() for text in plots.fig_aquifer_comparison(table).texts}
    assert "simulated" in texts
    clean = plots.fig_aquifer_comparison(table.assign(simulated=False))
    assert "simulated" not in {text.get_text() for text in clean.texts}


def test_flow_runs_down_the_head():
    mesh = splits.plain("twin", 120)
    grad = maps._gradient(mesh, mesh.points @ [2.0, -1.0])
    np.testing.assert_allclose(grad, np.tile([2.0, -1.0], (mesh.n_nodes, 1)), atol=1e-9)


def test_the_general_core_holds_the_same_model_and_learns_it():
    member = splits.members("twin", "full")[0]
    known, mesh = splits.Standardised.of("twin", "altitude", member), splits.plain("twin", 200)
    model = WellSurrogate("GP-DT", n_inducing=12, period=600)
    problem = core.problem(model, "twin", 200, member, known)
    assert problem.size == 2 * 12 + 2
    for name, field in zip(("log_a", "f"), model.fields(mesh)):  # other coordinates of the same prior
        part, there = problem.latents.parts[name], field.basis(mesh.points)
        basis = part.sd * part.basis(tf.constant(mesh.points)).numpy()
        np.testing.assert_allclose(basis @ basis.T, there @ there.T, atol=1e-3 * part.sd**2)
    found = core.method(model, 1, 0)(problem)
    u = found.predict(splits.places("twin", member.training))
    assert np.mean(np.abs(u.mean - known.y)) < 0.3
    assert 0.01 < found.diagnostics["noise"] < 1
    assert u.sd.max() < 1e-5  # a network of the place alone


@pytest.mark.parametrize(("mae", "spread", "verdict"), [(0.1, 0.005, "reproduced"), (0.1, 0.02, "partly")])
@pytest.mark.parametrize("more", [0.0, 0.045, 0.2])
def test_transport_is_judged_by_the_spread_of_replicates(mae, spread, verdict, more):
    table = _summary()  # GP-D: 0.14 ± 0.01
    row = (table.model == "GP-DT") & (table.response == "depth") & (table.subset == "all")
    table.loc[row, ["mae", "mae_2sd"]] = [mae + more, spread]
    expected = {0.0: verdict, 0.045: "partly", 0.2: "not reproduced"}[more]
    said = {row[0]: row[5] for row in verdicts.claims(table, _fields(), simulated=False)}
    assert said["aquifer_transport"] == expected
