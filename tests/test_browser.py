"""In a real browser: the explorer runs, is moved, pressed and dragged, and its pictures change; the report fits."""

import json

import pytest

from browser import CHROMIUM, chromium, lab
from machinery import report
from machinery.settings import project_root

pytestmark = pytest.mark.skipif(
    CHROMIUM is None, reason="no Chromium on the PATH: install it (Debian: apt install chromium) to test the explorer"
)
_ALL_RUN = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].every(p => /\\[\\d+\\]/.test(p.textContent))"
_PATIENCE = 240_000  # milliseconds: TensorFlow is loaded, meshes are made, on a busy machine


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def explorer(browser, tmp_path_factory):
    """The notebook with the sizes of the smoke profile, run to its end in JupyterLab."""
    folder = tmp_path_factory.mktemp("lab")
    notebook = json.loads((project_root() / "notebooks" / "00_explore.ipynb").read_text())
    for cell in notebook["cells"]:
        if "parameters" in cell["metadata"].get("tags", []):
            cell["source"] += "\npatch_mesh, forward_mesh, inverse_mesh, stages, decoder_steps = 100, 300, 100, 3, 100"
    (folder / "00_explore.ipynb").write_text(json.dumps(notebook))
    with lab(folder) as address:
        tab = browser.new_page(viewport={"width": 1280, "height": 1000})
        tab.goto(f"{address}/lab/tree/00_explore.ipynb?reset")
        tab.wait_for_selector(".jp-Notebook .jp-Cell", timeout=_PATIENCE)
        tab.wait_for_selector("text=Python 3", timeout=_PATIENCE)
        tab.get_by_role("button", name="No", exact=True).click(timeout=_PATIENCE)  # news? no
        tab.get_by_role("menuitem", name="Run", exact=True).click()
        tab.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        tab.wait_for_function("document.querySelectorAll('img.pdevae-picture').length == 4", timeout=_PATIENCE)
        tab.wait_for_function(_ALL_RUN, timeout=_PATIENCE)
        yield tab


def picture(tab, number):
    found = tab.locator("img.pdevae-picture").nth(number)
    found.scroll_into_view_if_needed()
    return found


def changes(tab, found, act):
    """``act`` has the picture drawn anew, and it looks different."""
    before, source = found.screenshot(), found.get_attribute("src")
    act()
    tab.wait_for_function("([image, old]) => image.src != old", arg=[found.element_handle(), source], timeout=60_000)
    tab.wait_for_timeout(500)
    return found.screenshot() != before


def keep(tab, name):
    folder = project_root() / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    tab.screenshot(path=folder / f"{name}.png")


def test_no_cell_ends_in_an_error(explorer):
    assert explorer.locator(".jp-RenderedText[data-mime-type*='stderr']").count() == 0
    assert explorer.locator("text=Traceback").count() == 0
    assert explorer.locator("text=Error displaying widget").count() == 0


@pytest.mark.parametrize(
    ("number", "name"), [(0, "radius ρ"), (1, "τ₁"), (3, "stage")], ids=["patch", "forward", "eps"]
)
def test_a_slider_moves_the_picture(explorer, number, name):
    found = picture(explorer, number)
    handle = explorer.locator(f".widget-slider:has-text('{name}') .noUi-handle").first

    def move():
        handle.focus()
        for _ in range(3):
            explorer.keyboard.press("ArrowRight")

    assert changes(explorer, found, move)
    keep(explorer, f"explore_{number}")


def press(tab, found, x, y):
    box = found.bounding_box()
    tab.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


def test_a_vertex_is_picked_by_pressing_it(explorer):
    found = picture(explorer, 0)
    assert changes(explorer, found, lambda: press(explorer, found, 0.28, 0.35))


def test_the_arrow_is_dragged(explorer):
    found = picture(explorer, 1)
    box = found.bounding_box()

    def drag():
        explorer.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.5 * box["height"])
        explorer.mouse.down()
        for k in range(8):
            explorer.mouse.move(box["x"] + (0.4 + 0.01 * k) * box["width"], box["y"] + (0.5 - 0.02 * k) * box["height"])
        explorer.mouse.up()

    assert changes(explorer, found, drag)
    keep(explorer, "explore_dragged")


def test_the_posterior_follows_a_dragged_sensor(explorer):
    """From a decoder that was trained in the background."""
    explorer.wait_for_selector("text=a decoder is trained", timeout=_PATIENCE)
    found = picture(explorer, 2)
    box = found.bounding_box()
    at = lambda x, y: (box["x"] + x * box["width"], box["y"] + y * box["height"])  # noqa: E731
    explorer.mouse.move(*at(0.24, 0.5))
    explorer.mouse.down()  # a sensor is placed and held
    explorer.wait_for_timeout(1000)
    assert changes(explorer, found, lambda: [explorer.mouse.move(*at(0.24, 0.5 - 0.01 * k)) for k in range(9)])
    keep(explorer, "explore_sensor_dragged")
    assert changes(explorer, found, explorer.mouse.up)  # the exact posterior


def test_a_sensor_is_placed_and_cvi_run(explorer):
    found = picture(explorer, 2)
    assert changes(explorer, found, lambda: press(explorer, found, 0.2, 0.42))
    assert changes(explorer, found, lambda: explorer.get_by_role("button", name="run CVI").click())
    keep(explorer, "explore_2")


@pytest.mark.parametrize(("width", "height", "device"), [(1280, 900, "desk"), (390, 844, "phone")])
def test_the_report_fits_the_screen_and_asks_nothing_of_the_network(browser, tmp_path, width, height, device):
    built = report.build(project_root() / "figures", tmp_path / "report")
    asked, tab = [], browser.new_page(viewport={"width": width, "height": height})
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(built.page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    keep(tab, f"report_{device}")
    assert all(address.startswith("file:") for address in asked)
