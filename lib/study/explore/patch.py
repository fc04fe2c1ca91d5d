"""A mini-patch under the glass: its nodes and elements, its row of Γ, and what the rows add up to."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import NamedTuple

import ipywidgets as widgets
import numpy as np
import scipy.linalg
from matplotlib.collections import PolyCollection
from matplotlib.colors import PowerNorm
from matplotlib.tri import Triangulation
from scipy.spatial.distance import cdist

from pdevae.fem import domains
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion
from pdevae.fem.weak_form import stiffness
from pdevae.penalties import TwoLevelPenalty
from pdevae.penalties.minipatches import patches, radius_for
from pdevae.penalties.tapered import TAPERS
from study.explore.panel import Panel, slider
from study.plots.style import bare, outline

NAMES = {
    "exact": "exact: A⁻¹",
    "hard": "hard taper (the paper's)",
    "wendland": "Wendland taper",
    "two-level": "two-level (ours)",
}


class Patch(NamedTuple):
    """nei_Γ of a centre, all nodes of its patch, and its active elements."""

    tests: np.ndarray
    nodes: np.ndarray
    active: np.ndarray


class Forms:
    """A⁻¹ and what stands in for it on one mesh, as dense matrices [N, N]; for meshes of a few hundred nodes."""

    def __init__(self, mesh: Mesh):
        self.mesh = mesh
        self.A = stiffness(mesh).toarray()
        x = mesh.points[mesh.interior]
        self.distance = cdist(x, x)

    @cached_property
    def inverse(self) -> np.ndarray:
        return np.linalg.inv(self.A)

    @lru_cache(maxsize=64)  # noqa: B019  one per mesh, which lives as long as its panel
    def matrix(self, method: str, rho: float) -> np.ndarray:
        if method == "exact":
            return self.inverse
        if method == "two-level":
            form = TwoLevelPenalty(self.mesh, Diffusion(), rho=rho).quadratic_form()
            return form @ np.eye(len(self.A))
        return self.inverse * TAPERS[method](self.distance / rho)

    @lru_cache(maxsize=64)  # noqa: B019
    def eigenvalues(self, method: str, rho: float) -> tuple[float, float]:
        """Least and greatest λ with Bv = λA⁻¹v."""
        C = np.linalg.cholesky(self.A)
        values = scipy.linalg.eigvalsh(C.T @ self.matrix(method, rho) @ C)
        return float(values[0]), float(values[-1])

    def patch(self, centre: int, rho: float) -> Patch:
        found = patches(self.mesh, rho=rho, centres=np.array([centre]))
        tests = found.nodes[0, : found.Q][found.is_test[0]]
        return Patch(tests, np.unique(found.nodes[0]), np.isin(self.mesh.triangles, tests).any(axis=1))

    def mean_tests(self, rho: float) -> float:
        """Q: interior nodes within ρ, on average."""
        return float((self.distance < rho).sum(axis=1).mean())


class PatchPanel(Panel):
    """Drag ρ or Q, press a vertex."""

    size = (10.4, 6.0)
    alt = "A mini-patch on the star, and its row of A⁻¹, of the two tapers and of the two-level form"

    def __init__(self, nodes: int = 350, patch_nodes: int = 16):
        self.forms = Forms(domains.star(nodes=nodes))
        mesh = self.forms.mesh
        low, high = 1.05 * mesh.max_edge, 0.5 * float(np.ptp(mesh.points, axis=0).max())
        most = int(self.forms.mean_tests(high))
        rho = radius_for(mesh, patch_nodes)
        slow = {"continuous_update": False}  # eigenvalues take a moment
        self.rho = slider(widgets.FloatSlider, "radius ρ", rho, low, high, 0.005, readout_format=".3f", **slow)
        self.Q = slider(widgets.IntSlider, "test nodes Q", patch_nodes, 4, most, **slow)
        middle = int(np.argmin(np.linalg.norm(mesh.points[mesh.interior] - [0.25, 0.1], axis=1)))
        self.vertex = slider(widgets.IntSlider, "vertex i", middle, 0, len(mesh.interior) - 1)
        super().__init__([[self.rho, self.Q], [self.vertex]])
        self.on(self.vertex)
        self.rho.observe(self._rho_moved, "value")
        self.Q.observe(self._Q_moved, "value")

    def _rho_moved(self, change):
        if not self.held:
            with self.one_drawing():
                self.Q.value = round(self.forms.mean_tests(change["new"]))

    def _Q_moved(self, change):
        if not self.held:
            with self.one_drawing():
                self.rho.value = radius_for(self.forms.mesh, change["new"])

    def arrange(self):
        mesh = self.forms.mesh
        layout = [["patch", "patch", "exact", "hard"], ["patch", "patch", "wendland", "two-level"]]
        self.axes = self.figure.subplot_mosaic(layout)
        ax, triangles = self.axes["patch"], Triangulation(*mesh.points.T, mesh.triangles)
        ax.triplot(triangles, color="0.8", lw=0.4)
        self.elements = ax.add_collection(PolyCollection([], facecolor="#cfe3f5", edgecolor="#4c7fb0", lw=0.6))
        (self.around,) = ax.plot([], [], "o", mfc="w", mec="#4c7fb0", ms=4, label="other nodes of the patch")
        (self.tests,) = ax.plot([], [], "o", color="#1f4e79", ms=4, label=r"$\mathrm{nei}_\Gamma(i)$: test nodes")
        (self.centre,) = ax.plot([], [], "*", color="#d62728", ms=11, label="vertex i (press another)")
        (self.circle,) = ax.plot([], [], "--", color="#d62728", lw=0.9, label="radius ρ")
        ax.legend(loc="upper left", bbox_to_anchor=(0, 0.06), ncols=2, frameon=False)
        bare(ax)
        scale = PowerNorm(0.5, vmin=0, vmax=self.forms.inverse.max())
        self.rows_drawn = {}
        for name in NAMES:
            zero = np.zeros(mesh.n_nodes)
            drawn = self.axes[name].tripcolor(triangles, zero, shading="gouraud", cmap="magma_r", norm=scale)
            outline(self.axes[name], triangles)
            self.rows_drawn[name] = drawn
        places = [self.axes[name] for name in NAMES]
        self.figure.colorbar(drawn, ax=places, shrink=0.6, label="row i of A⁻¹ or of its stand-in")

    def draw(self):
        mesh, rho = self.forms.mesh, self.rho.value
        centre = mesh.interior[self.vertex.value]
        patch = self.forms.patch(centre, rho)
        self.elements.set_verts(mesh.points[mesh.triangles[patch.active]])
        around = np.setdiff1d(patch.nodes, patch.tests)
        for line, nodes in ((self.around, around), (self.tests, patch.tests), (self.centre, [centre])):
            line.set_data(*mesh.points[nodes].T)
        angle = np.linspace(0, 2 * np.pi, 100)
        x, y = mesh.points[centre]
        self.circle.set_data(x + rho * np.cos(angle), y + rho * np.sin(angle))
        self.axes["patch"].set_title(
            f"vertex {self.vertex.value}, ρ = {rho:.3f}: {len(patch.tests)} test nodes, {len(patch.nodes)} nodes,\n"
            f"{patch.active.sum()} active elements ({patch.active.mean():.0%} of the mesh)"
        )
        for name, label in NAMES.items():
            row = np.zeros(mesh.n_nodes)
            row[mesh.interior] = self.forms.matrix(name, rho)[self.vertex.value]
            self.rows_drawn[name].set_array(row)
            low, high = self.forms.eigenvalues(name, rho)
            warning = "  indefinite!" if low < 0 else ""
            self.axes[name].set_title(
                f"{label}\nλ: {low:.2f} … {high:.2f}{warning}", color="#b2182b" if low < 0 else "k"
            )

    def press(self, axes, x, y):
        if axes in self.axes.values():
            points = self.forms.mesh.points[self.forms.mesh.interior]
            self.vertex.value = int(np.argmin(np.linalg.norm(points - [x, y], axis=1)))

    drag = press
