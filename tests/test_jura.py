"""The Jura experiment: data, splits, models and the protocol that compares them."""

import hashlib
import shutil

import gpflow
import numpy as np
import pandas as pd
import pytest
import shapely
import tensorflow_probability as tfp

from machinery.settings import project_root
from pdevae import ExactPenalty
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.operators import Diffusion, NonlinearDiffusion, Source, Transport
from pdevae.penalties.gradient import GradientPenalty
from study.data import jura
from study.jura import protocol, results, selection, splits, structure, vae
from study.models import gpdk
from study.models.mechanisms import LATENT, MECHANISMS
from study.models.vae import VAE, SiteFields, decoder, encoder
from study.scoring import Predictive, holm

DATA = project_root() / "data" / "jura"
TINY = {"metal": "Co", "sets": "corrected", "split": "cv", "members": 2, "log": True, "checkpoints": [5], "beta": 0.01}


# data


def test_the_region_holds_every_site():
    region = splits.data().region()
    assert region.is_valid
    assert shapely.contains_xy(region, *splits.data().places.T).all()


@pytest.mark.parametrize("sets", jura.SECONDARIES)
def test_no_metal_is_its_own_secondary(sets):
    assert all(primary not in of for primary, of in jura.SECONDARIES[sets].items())


def spoil(table: pd.DataFrame, how: str) -> pd.DataFrame:
    if how == "column Cd is missing":
        return table.drop(columns="Cd")
    if how == "column Pb: a value is missing":
        table.loc[3, "Pb"] = np.nan
    if how == "a site stands twice":
        table.loc[4, ["Xloc", "Yloc"]] = table.loc[3, ["Xloc", "Yloc"]].to_numpy()
    if how == "column Zn: -1.0 fails greater_than":
        table.loc[5, "Zn"] = -1.0
    if how == "column Ni: 'abc' fails":
        table = table.astype({"Ni": object})
        table.loc[5, "Ni"] = "abc"
    if how == "is not the file":
        table.loc[6, "Cu"] += 0.01
    return table


FAULTS = ["column Cd is missing", "column Pb: a value is missing", "a site stands twice", "is not the file"]
FAULTS += ["column Zn: -1.0 fails greater_than", "column Ni: 'abc' fails"]


@pytest.mark.parametrize("how", FAULTS)
def test_bad_data_give_one_clear_line(tmp_path, how):
    folder = tmp_path / "jura"
    shutil.copytree(DATA, folder)
    path = folder / "jura_prediction.csv"
    spoil(pd.read_csv(path), how).to_csv(path, index=False)
    with pytest.raises(UserError, match=how) as caught:
        jura.load(folder)
    assert "git checkout" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_text_that_is_no_table_give_one_clear_line(tmp_path):
    with pytest.raises(UserError, match="is missing"):
        jura.load(tmp_path)
    folder = tmp_path / "jura"
    shutil.copytree(DATA, folder)
    (folder / "jura_grid.csv").write_text('a,b\n"unclosed\n')
    with pytest.raises(UserError, match=r"jura_grid\.csv"):
        jura.load(folder)


# splits


def test_grouped_folds_hold_out_sites_as_far_from_training_as_validation_sites_are():
    x = splits.data().places
    for training, test in splits.members("cv", 5):
        distance = jura.distance_to_training(x[test], x[training])
        assert 0.2 < np.median(distance) < 0.3
        assert distance.min() > 0.11  # no cluster is split
    ((training, validation),) = splits.members("validation", 1)
    assert 0.2 < np.median(jura.distance_to_training(x[validation], x[training])) < 0.3


@pytest.mark.parametrize(("seed", "digest"), [(0, "061b2dc9f0b2"), (1, "77214abd8809")])
def test_folds_are_those_of_the_committed_tables_on_any_processor(seed, digest):
    training = splits.data().places[: splits.data().n_training]
    folds = jura.grouped_folds(training, splits.FOLDS, seed).astype(np.uint8)
    assert hashlib.sha256(folds.tobytes()).hexdigest().startswith(digest)


def test_every_site_is_held_out_once_and_none_is_in_both():
    held = np.concatenate([test for _, test in splits.members("cv", 5)])
    assert sorted(held) == list(range(259))
    for split in ("cv", "validation", "resplit"):
        for training, test in splits.members(split, 3):
            assert not set(training) & set(test)
    assert all(len(training) == 259 and len(test) == 100 for training, test in splits.members("resplit", 3))


def test_standardisation_knows_the_training_sites_only(monkeypatch):
    training, test = splits.members("cv", 1)[0]
    before = splits.Standardised.of("Cd", "corrected", True, training)
    changed = splits.data().sites.copy()
    changed.loc[test, ["Cd", "Ni", "Zn"]] *= 3
    altered = jura.Jura(changed, splits.data().grid, 259)
    monkeypatch.setattr(splits, "data", lambda: altered)
    after = splits.Standardised.of("Cd", "corrected", True, training)
    assert before.response == after.response
    np.testing.assert_array_equal(before.s[training], after.s[training])


# VAE


def test_networks_are_the_papers():
    assert encoder(3).n_parameters == 42_177
    assert decoder().n_parameters == 1_474
    assert structure.network_table().groupby("network").parameters.sum().to_dict() == {
        "encoder": 42177,
        "decoder": 1474,
    }


def test_the_encoder_never_receives_the_target(monkeypatch):
    """Permuting the target at the held-out sites changes no prediction there, though it is scored on others."""
    before = vae.vae(TINY, 0)
    sites = splits.data().sites.copy()
    _, test = splits.members("cv", 1)[0]
    sites.loc[test, "Co"] = sites.loc[test[::-1], "Co"].to_numpy()
    altered = jura.Jura(sites, splits.data().grid, 259)
    monkeypatch.setattr(splits, "data", lambda: altered)
    after = vae.vae(TINY, 0)
    mine = before["member"] == 0
    np.testing.assert_array_equal(before["median"][mine], after["median"][mine])
    assert (before["y"][mine] != after["y"][mine]).any()
    assert (before["median"][~mine] != after["median"][~mine]).any()  # member 1 trained on them


def test_sites_of_weight_zero_teach_nothing():
    training = [training for training, _ in splits.members("cv", 5)]
    each = [splits.Standardised.of("Co", "corrected", True, t) for t in training]
    sites = vae.stacked(each, training)
    assert (sites.weight == 0).any()
    seeds = list(range(5))
    fit = lambda y: VAE().fit(sites._replace(y=y), None, [3], seeds)[0].parameters["decoder"]  # noqa: E731
    np.testing.assert_array_equal(fit(sites.y), fit(np.where(sites.weight == 0, 99.0, sites.y)))


def test_kl_and_draws_are_those_of_a_gaussian_with_the_encoder_s_factor():
    rng = np.random.default_rng(0)
    parameters = {"encoder": tf.constant(3 * encoder(2).init([0]))}
    q = VAE().encode(parameters, tf.constant(rng.normal(size=(1, 3, 4)), tf.float32))
    same = tfp.distributions.MultivariateNormalTriL(q.mean, q.factor())
    p = tfp.distributions.MultivariateNormalDiag(tf.zeros([LATENT]))
    np.testing.assert_allclose(q.kl(), tfp.distributions.kl_divergence(same, p), rtol=1e-4)
    xi = rng.normal(size=(5, 1, 3, LATENT)).astype(np.float32)
    expected = q.mean + np.einsum("snij,ksnj->ksni", q.factor(), xi)
    np.testing.assert_allclose(q.draw(xi), expected, rtol=1e-4, atol=1e-5)


def test_the_encoders_factor_has_a_positive_diagonal_and_is_free_below_it():
    model = VAE()
    parameters = {"encoder": tf.constant(encoder(2).init([0]))}
    inputs = tf.constant(np.random.default_rng(0).normal(size=(1, 50, 4)), tf.float32)
    C = model.encode(parameters, inputs).factor().numpy()
    assert (np.diagonal(C, axis1=-2, axis2=-1) > 0).all()
    assert (C[..., *np.tril_indices(LATENT, -1)] < 0).any()
    assert not C[..., *np.triu_indices(LATENT, 1)].any()


def drawn(model: VAE, fields: int = 2) -> SiteFields:
    """Fields of an untrained model."""
    rng = np.random.default_rng(1)
    parameters = {name: tf.constant(net.init([0])) for name, net in model.networks(2).items()}
    s, x, xi = (tf.constant(rng.normal(size=(1, fields, d)), tf.float32) for d in (2, 2, LATENT))
    q = model.encode(parameters, tf.concat([s, x], axis=-1))
    return SiteFields(model, parameters, s, x, xi, q.draw(xi))


@pytest.mark.parametrize("composite", [True, False])
def test_a_field_asks_the_encoder_at_every_place_or_keeps_the_sites_latent(composite):
    """Field 0 at the place of site 1; at its own place both forms are the decoder's output."""
    model = VAE("DT", composite)
    draw = drawn(model)
    field = draw.mu(draw.x[0])  # [fields, places]
    np.testing.assert_allclose(np.diag(field), model.decode(draw.parameters, draw.x, draw.z)[0][0], rtol=1e-5)
    z = draw.z[:, :1]
    if composite:
        q = model.encode(draw.parameters, tf.concat([draw.s[:, :1], draw.x[:, 1:]], axis=-1))
        z = q.draw(draw.xi[:, :1])
    np.testing.assert_allclose(field[0, 1], model.decode(draw.parameters, draw.x[:, 1:], z)[0][0, 0], rtol=1e-5)


@pytest.mark.parametrize("name", ["DT", "Laplace"])
def test_a_mechanism_starts_as_the_laplacian(name):
    draw = drawn(VAE(name))
    mesh = vae.region_mesh(80)
    mu = lambda x, z: z.mu(x)  # noqa: E731
    penalty = MECHANISMS[name].penalty(mesh, "exact", 32, 1)(mu, draw, None)
    laplacian = ExactPenalty(mesh, Diffusion(1.0), dtype=tf.float32)(mu, draw)
    np.testing.assert_allclose(penalty, laplacian, rtol=1e-4)


EQUATIONS = {  # with log a or log c, τ and f constant
    "DT": Diffusion(np.exp(0.2)) + Transport(tf.constant([0.7, -0.4])) - Source(0.3),
    "NLD": NonlinearDiffusion(lambda x, z, u, g: np.exp(0.2) / tf.sqrt(tf.reduce_sum(g**2, -1) + 0.25)) - Source(0.3),
    "NLD-net": Diffusion(np.exp(0.2)) - Source(0.3),
}


@pytest.mark.parametrize("name", EQUATIONS)
def test_a_mechanism_is_its_equation(name):
    """Heads that give constants (their last biases), scaled by the prior sd."""
    draw = drawn(VAE(name, prior_sd=0.5))
    for name_, bias in {"log a": [0.2], "log c": [0.2], "τ": [0.7, -0.4], "f": [0.3]}.items():
        if name_ in draw.parameters:
            weights = draw.parameters[name_].numpy()
            weights[:, -len(bias) :] = np.array(bias) / 0.5
            draw.parameters[name_] = tf.constant(weights)
    mu, mesh = (lambda x, z: z.mu(x)), vae.region_mesh(80)
    found = MECHANISMS[name].penalty(mesh, "exact", 32, 1)(mu, draw, None)
    np.testing.assert_allclose(found, ExactPenalty(mesh, EQUATIONS[name], dtype=tf.float32)(mu, draw), rtol=1e-3)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_strong_penalty_is_obeyed(name):
    """Forty steps at a small ε leave less of a residual than forty without."""
    training, _ = splits.members("cv", 1)[0]
    known = splits.Standardised.of("Co", "corrected", True, training)
    sites, mesh = vae.stacked([known], [training]), vae.region_mesh(80)
    held = MECHANISMS[name].penalty(mesh, "exact", 32, 1)

    def residual(eps: float) -> float:
        model = VAE(name, eps=eps, learning_rate=3e-3)
        (trained,) = model.fit(sites, mesh, [40], [0])
        s, x = (tf.constant(v[:, :20], tf.float32) for v in (sites.s, sites.x))
        parameters = {key: tf.constant(v) for key, v in trained.parameters.items()}
        xi = tf.random.stateless_normal([1, 20, LATENT], [0, 0])
        q = model.encode(parameters, tf.concat([s, x], axis=-1))
        draw = SiteFields(model, parameters, s, x, xi, q.draw(xi))
        return float(held(lambda x, z: z.mu(x), draw, [0, 0]))

    assert residual(0.03) < 0.3 * residual(1e3)


def test_the_gradient_penalty_equals_the_laplacians_where_the_field_vanishes_at_the_boundary():
    mesh = vae.region_mesh(200)
    bump = tf.constant(np.where(mesh.is_boundary, 0.0, np.random.default_rng(0).normal(size=mesh.n_nodes))[None])
    mu = lambda x, z: bump  # noqa: E731
    exact = ExactPenalty(mesh, Diffusion(1.0))(mu, None)
    np.testing.assert_allclose(GradientPenalty(mesh)(mu, None), exact, rtol=1e-9)
    flat = lambda x, z: tf.ones([1, x.shape[0]], x.dtype) * x[:, 0]  # noqa: E731  harmonic, not flat
    assert float(ExactPenalty(mesh, Diffusion(1.0))(flat, None)) < 1e-9 < float(GradientPenalty(mesh)(flat, None))


def test_graphs_show_the_coefficients_the_code_has():
    graph = structure.graph("VAE-DT")
    coefficients = set(graph.name[graph.role == "coefficient"])
    assert coefficients == set(MECHANISMS["DT"].networks)
    assert structure.graph("VAE").role.isin(["coefficient", "constraint"]).sum() == 0


# GPDK


@pytest.fixture
def kernel():
    return gpdk.DiffusionKernel(3, forces=2, rng=np.random.default_rng(0), own=True)


def test_the_diffusion_kernel_is_positive_definite_and_knows_its_diagonal(kernel):
    rng = np.random.default_rng(1)
    X = np.column_stack([rng.uniform(-1, 1, (60, 2)), rng.integers(0, 3, 60)])
    K = kernel(X).numpy()
    np.testing.assert_allclose(np.diag(K), kernel(X, full_cov=False), rtol=1e-10)
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K).min() > -1e-9


def test_the_diffusion_kernel_is_the_forces_convolved_with_the_outputs_heat_kernels():
    """∬ G_d(x − u) k(u − u′) G_d′(x′ − u′) du du′ by the trapezoidal rule, one axis at a time."""
    kernel = gpdk.DiffusionKernel(2, forces=1, rng=np.random.default_rng(2), own=False)
    P, Lambda = kernel.P.numpy(), kernel.Lambda.numpy()[0]
    density = lambda t, v: np.exp(-(t**2) / (2 * v)) / np.sqrt(2 * np.pi * v)  # noqa: E731
    u = np.linspace(-4, 4, 1601)
    h = u[1] - u[0]
    x, x_other = np.array([0.1, -0.2]), np.array([-0.15, 0.3])
    factors = [
        density(a - u, P[0]) @ density(u[:, None] - u, Lambda) @ density(b - u, P[1]) * h**2 for a, b in zip(x, x_other)
    ]
    S = kernel.w.numpy()[0] * np.sqrt(2 * P + Lambda)
    found = kernel(np.array([[*x, 0.0]]), np.array([[*x_other, 1.0]])).numpy()[0, 0]
    np.testing.assert_allclose(found, 2 * np.pi * S[0] * S[1] * np.prod(factors), rtol=1e-6)


def test_the_closed_form_gradient_is_gpflows(kernel):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.uniform(-1, 1, (40, 2)), rng.integers(0, 3, 40)])
    y = rng.normal(size=(40, 1))
    noise = gpflow.likelihoods.Gaussian(gpdk.PerOutput(3))
    values, gradients = [], []
    for kind in (gpdk.Regression, gpflow.models.GPR):
        model = kind((X, y), kernel, likelihood=noise)
        with tf.GradientTape() as tape:
            loss = model.training_loss()
        values.append(loss)
        gradients.append(tape.gradient(loss, model.trainable_variables))
    np.testing.assert_allclose(*values, rtol=1e-10)
    for ours, theirs in zip(*gradients):
        np.testing.assert_allclose(ours, theirs, rtol=1e-7, atol=1e-9)


def test_gpdk_learns_a_field_from_a_correlated_one():
    rng = np.random.default_rng(4)
    x = rng.uniform(-1, 1, (60, 2))
    field = np.sin(3 * x[:, 0]) + np.cos(2 * x[:, 1])
    noise = 0.05 * rng.normal(size=(2, 60))
    fitted = gpdk.fit(
        [(x[:20], (field + noise[0])[:20]), (x, -field + noise[1])], forces=1, own=False, starts=2, seed=0
    )
    mean, sd = fitted.predict(x[20:])
    assert np.abs(mean - field[20:]).mean() < 0.15
    assert (np.abs(mean - field[20:]) < 3 * sd).mean() > 0.9


# predictions and protocol


@pytest.mark.parametrize("log", [False, True])
def test_a_predictive_distribution_is_one(log):
    rng = np.random.default_rng(5)
    found = Predictive(rng.normal(1, 0.5, (7, 1)), rng.uniform(0.2, 0.5, (7, 1)), log)
    y = np.linspace(1e-4, 60, 400_000) if log else np.linspace(-8, 10, 400_000)
    density = np.exp(Predictive(found.mean, found.sd, log).log_density(y))
    assert abs(np.sum(density) * (y[1] - y[0]) - 1) < 1e-3
    for p in (0.05, 0.5, 0.95):
        np.testing.assert_allclose(found.cdf(found.quantile(p)), p, atol=1e-9)


def test_holms_adjustment():
    np.testing.assert_allclose(holm(np.array([0.01, 0.04, 0.03, 0.5])), [0.04, 0.09, 0.09, 0.5])


def rows(model, median, y, **more):
    columns = {"model": model, "metal": "Cd", "site": range(len(y)), "y": y, "median": median, "pit": 0.5}
    return pd.DataFrame(columns | {"log_density": 0.0, "member": 0} | more)


def test_the_pool_takes_what_lowers_the_error_and_is_never_worse_than_its_best_member():
    y = np.arange(1.0, 21.0)
    high, low, bad = rows("high", y + 1, y), rows("low", y - 0.8, y), rows("bad", y + 9, y)
    table = pd.concat([high, low, bad], ignore_index=True)
    weights = selection.greedy_pool(table)
    assert set(weights.index) == {"high", "low"}
    best = results.pooled(table, {"Cd": weights})
    assert np.abs(best["median"] - best.y).mean() < 0.1


def test_settings_are_chosen_by_the_mean_over_metals():
    found = pd.DataFrame(
        [
            {"model": "VAE", "metal": metal, "beta": beta, "log": True, "steps": steps, "relative": value}
            for beta, steps, values in ((0.1, 50, (0.5, 0.9)), (0.1, 100, (0.6, 0.7)), (1.0, 50, (0.9, 0.8)))
            for metal, value in zip(("Cd", "Cu"), values)
        ]
    )
    assert selection.chosen(found, "VAE") == {"beta": 0.1, "log": True, "steps": 100}


def test_repetitions_of_gpdk_take_the_likeliest_of_their_starts():
    y = np.ones(2)
    table = pd.concat([rows("GPDK", y * k, y, member=k, log_likelihood=-abs(k - 2.0)) for k in range(5)])
    best = results.best_starts(table, among=3)
    assert best.groupby("member")["median"].first().to_dict() == {0: 2, 1: 2, 2: 2, 3: 3, 4: 1}


def test_scores_of_a_known_case():
    y = np.array([1.0, 2.0, 3.0, 4.0])
    table = rows("m", y + [1, -1, 3, 1], y, pit=[0.01, 0.5, 0.5, 0.99], log_density=-1.5)
    found = results.scores(table, ["model"]).iloc[0]
    assert (found.mae, found.mse, found.nlpd, found.coverage) == (1.5, 3.0, 1.5, 0.5)


def test_every_row_of_the_table_shares_the_networks():
    for settings in protocol.VAES.values():
        networks = VAE(**settings).networks(3)
        assert (networks["encoder"].n_parameters, networks["decoder"].n_parameters) == (42_177, 1_474)
