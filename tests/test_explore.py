"""What the explorer shows is what the library computes; what is pressed and moved changes it."""

import io
import json
import threading
from functools import cache

import numpy as np
import PIL.Image
import pytest

import pdevae
from pdevae import exact
from pdevae._tensorflow import tf
from pdevae.fem import domains
from pdevae.penalties.spectra import relative_eigenvalues
from pdevae.penalties.tapered import gamma_matrix
from study.explore import AnnealingPanel, ForwardPanel, InversePanel, PatchPanel
from study.explore.forward import DOMAINS, AffineSolver
from study.explore.patch import Forms


@pytest.fixture(scope="module", autouse=True)
def one_star():
    """The same mesh for all panels of a size: what is compiled for it serves them all."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(domains, "star", cache(domains.star))
        yield


@pytest.fixture(scope="module")
def forms():
    return Forms(pdevae.star(nodes=150))


@pytest.mark.parametrize("method", ["hard", "wendland", "two-level"])
def test_rows_and_eigenvalues_are_the_penalties_own(forms, method):
    rho, equation = 0.35, pdevae.Diffusion()
    if method == "two-level":
        B = pdevae.TwoLevelPenalty(forms.mesh, equation, rho=rho).quadratic_form()
        dense = B @ np.eye(len(forms.A))
    else:
        penalty = pdevae.TaperedPenalty(forms.mesh, equation, rho=rho, taper=method)
        B = penalty.quadratic_form()
        dense = gamma_matrix(penalty.patches, penalty.Gamma).toarray()
    np.testing.assert_allclose(forms.matrix(method, rho), dense, atol=1e-12)
    np.testing.assert_allclose(forms.eigenvalues(method, rho), relative_eigenvalues(B, forms.mesh), rtol=1e-3)


def test_a_patch_holds_its_disc_and_the_elements_that_touch_it(forms):
    centre, rho = forms.mesh.interior[40], 0.35
    patch = forms.patch(centre, rho)
    x = forms.mesh.points
    near = np.linalg.norm(x - x[centre], axis=1) < rho
    assert set(patch.tests) == set(np.flatnonzero(near & ~forms.mesh.is_boundary))
    assert set(patch.nodes) == set(forms.mesh.triangles[patch.active].ravel())


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_quick_solver_solves_the_equation(domain):
    mesh, a, tau = DOMAINS[domain](nodes=200), 0.7, [3.0, -5.0]
    equation = pdevae.Diffusion(a) + pdevae.Transport() - pdevae.Source(1.0)
    slow = pdevae.Solver(pdevae.WeakForm(mesh, equation, boundary=0.0)).solve(tf.constant([tau], tf.float64))
    np.testing.assert_allclose(AffineSolver(mesh)(a, tau), slow[0], atol=1e-12)


def pixels(panel):
    return np.asarray(PIL.Image.open(io.BytesIO(panel.picture.png)))


def pointed(panel, kind, axes, x, y, count=1):
    """As the browser tells it: shares of the picture from its upper left corner."""
    width, height = panel.figure.canvas.get_width_height()
    across, up = axes.transData.transform((x, y)) / (width, height)
    panel.picture.pointer = [kind, across, 1 - up, count]


def test_radius_and_test_nodes_move_together():
    panel = PatchPanel(nodes=120, patch_nodes=8)
    before = pixels(panel)
    panel.Q.value = 14
    assert panel.forms.mean_tests(panel.rho.value) == pytest.approx(14, abs=1)
    assert (pixels(panel) != before).any()
    panel.rho.value = panel.rho.min
    assert panel.Q.value == round(panel.forms.mean_tests(panel.rho.value))


def test_the_vertex_nearest_to_the_pointer_is_picked():
    panel = PatchPanel(nodes=120, patch_nodes=8)
    goal = panel.forms.mesh.points[panel.forms.mesh.interior[7]]
    pointed(panel, "press", panel.axes["patch"], *goal, count=3)
    assert panel.vertex.value == 7
    assert panel.picture.handled == 3


def test_dragging_sets_both_components_of_tau_in_one_drawing(monkeypatch):
    panel, drawings = ForwardPanel(nodes=200), []
    drawn = panel.draw
    monkeypatch.setattr(panel, "draw", lambda: (drawings.append(1), drawn()))
    pointed(panel, "drag", panel.axes, 0.3, -0.6)
    assert [t.value for t in panel.tau] == [10.0, -20.0]
    assert len(drawings) == 1
    panel.domain.value = "ring"
    assert panel.shown == "ring"


@pytest.mark.slow
def test_sensors_are_placed_and_taken_away_and_the_posterior_follows():
    panel = InversePanel(nodes=120, sensors=6)
    first = panel.exact.mean
    pointed(panel, "press", panel.region, 0.0, 0.05)
    assert len(panel.sensors) == 7
    pointed(panel, "release", panel.region, 0.0, 0.05, count=2)
    truth = exact(panel.problem)
    np.testing.assert_allclose(panel.exact.mean, truth.mean)
    assert not np.allclose(panel.exact.mean, first)
    pointed(panel, "press", panel.region, 0.0, 0.05, count=3)
    pointed(panel, "release", panel.region, 0.0, 0.05, count=4)
    assert len(panel.sensors) == 6
    np.testing.assert_allclose(panel.exact.mean, first)  # the others' noise stays
    pointed(panel, "press", panel.region, 1.3, 1.3, count=5)  # outside
    assert len(panel.sensors) == 6


@pytest.mark.slow
def test_the_posterior_follows_a_dragged_sensor_and_the_exact_one_a_release():
    panel = InversePanel(nodes=120, sensors=8, decoder_steps=300)
    assert panel.quick is None  # no decoder yet
    panel.train()
    assert "drag a sensor" in panel.status.value
    x, xi = panel.sensors[2].copy(), panel.xi.copy()
    pointed(panel, "press", panel.region, *x)
    seen = []
    for k in range(1, 4):
        pointed(panel, "drag", panel.region, 0.1 * k, 0.1, count=1 + k)
        assert panel.exact is None and panel.quick is not None
        seen.append(panel.quick.mean)
    assert not np.allclose(seen[0], seen[-1])
    np.testing.assert_allclose(panel.sensors[2], [0.3, 0.1], atol=0.01)
    np.testing.assert_array_equal(panel.xi, xi)  # noise goes with the sensor
    pointed(panel, "release", panel.region, 0.3, 0.1, count=5)
    assert len(panel.sensors) == 8
    assert np.all(np.abs(panel.quick.mean - panel.exact.mean) < 0.3 * panel.exact.sd)
    assert "decoder in" in panel.plane.get_title()

    before = panel.exact.mean
    pointed(panel, "press", panel.plane, *panel.experiment.tau, count=6)
    pointed(panel, "drag", panel.plane, *(panel.experiment.tau + [-0.4, 0.0]), count=7)
    pointed(panel, "release", panel.plane, 0.0, 0.0, count=8)
    assert panel.experiment.tau[0] == pytest.approx(1.6, abs=0.05)
    assert panel.exact.mean[0] < before[0]

    wide = panel.exact.sd
    panel.noise.value = 2 * panel.noise.value
    assert np.all(panel.quick.sd > wide) and np.all(panel.exact.sd > wide)


def test_a_thread_trains_the_decoder_when_the_panel_is_shown_in_a_notebook(monkeypatch):
    trained = threading.Event()
    monkeypatch.setattr(InversePanel, "train", lambda panel: trained.set())
    panel = InversePanel(nodes=120, sensors=6)
    assert not trained.is_set()
    panel._ipython_display_()
    assert trained.wait(10)


def test_too_few_sensors_are_refused_in_words_and_cvi_waits():
    panel = InversePanel(nodes=120, sensors=6)
    panel.infer()
    assert panel.found is not None
    panel.clear.click()
    assert "at least 4" in panel.message.value
    assert panel.exact is None
    assert panel.found is None
    panel.infer()
    assert "sensors first" in panel.message.value


@pytest.mark.slow
def test_along_the_annealing_misfit_is_traded_for_residual():
    panel = AnnealingPanel(nodes=120, stages=7)
    stages = panel.annealing.stages
    assert np.all(np.diff([s.misfit for s in stages]) > 0)
    assert stages[-1].residual < 0.5 * stages[0].residual
    truth, last = panel.annealing.exact, stages[-1]
    sd = np.sqrt(np.diag(truth.covariance))
    assert np.all(np.abs(last.mean - truth.mean) < 0.3 * sd)
    before = pixels(panel)
    panel.stage.value = 0
    assert (pixels(panel) != before).any()


def test_under_the_runner_a_panel_is_a_picture(monkeypatch):
    shown = []
    monkeypatch.setattr("study.explore.panel.display", shown.append)
    panel = ForwardPanel(nodes=150)
    panel._ipython_display_()
    monkeypatch.setenv("PDEVAE_RUN", json.dumps({"profile": "quick"}))
    panel._ipython_display_()
    assert [type(thing).__name__ for thing in shown] == ["VBox", "Image"]
