"""Drag τ and a, and see u: −a∇²u + τ·∇u = 1, u = 0 on the boundary."""

from __future__ import annotations

import time
from functools import cache

import ipywidgets as widgets
import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as sparse_linalg
from matplotlib.patheffects import Normal, Stroke
from matplotlib.tri import Triangulation

from pdevae.fem import domains
from pdevae.fem.factors import factorise
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion, Source, Transport
from pdevae.fem.weak_form import WeakForm, stiffness
from study.explore.panel import Panel, slider
from study.plots.style import outline

_L_SHAPE = [(-1, -1), (1, -1), (1, 0), (0, 0), (0, 1), (-1, 1)]
DOMAINS = {
    "star": domains.star,
    "disc": domains.disc,
    "L": lambda nodes: domains.polygon(_L_SHAPE, nodes=nodes),
    "ring": lambda nodes: domains.polygon(_circle(1.0), [_circle(0.4)], nodes=nodes),
}
_LONGEST = 30.0  # τ


def _circle(radius: float) -> np.ndarray:
    angle = np.linspace(0, 2 * np.pi, 48, endpoint=False)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


class AffineSolver:
    """u of −a∇²u + τ·∇u = f for any a and τ: what does not depend on them is done once.

    L = aA + τ₁C₁ + τ₂C₂ has one pattern, so adding up is a sum of three vectors, and one fill-reducing order.
    """

    def __init__(self, mesh: Mesh, f: float = 1.0):
        self.mesh, inside = mesh, mesh.interior
        A = stiffness(mesh)
        C = [WeakForm(mesh, Transport(e)).matrix()[:, inside] for e in np.eye(2)]
        self.order = np.argsort(factorise(A).perm_c)
        parts = [part.tocsc()[self.order][:, self.order] for part in (A, *C)]
        for part in parts:
            part.sort_indices()
        self.data = [part.data for part in parts]
        self.indices, self.indptr = parts[0].indices, parts[0].indptr
        self.f = WeakForm(mesh, Diffusion() - Source(f)).load()[self.order]

    def __call__(self, a: float, tau) -> np.ndarray:
        """Nodal values [n]."""
        values = a * self.data[0] + tau[0] * self.data[1] + tau[1] * self.data[2]
        L = sp.csc_matrix((values, self.indices, self.indptr), shape=2 * (len(self.f),))
        factors = sparse_linalg.splu(
            L, permc_spec="NATURAL", diag_pivot_thresh=0.0, options={"SymmetricMode": True, "Equil": False}
        )
        u = np.zeros(self.mesh.n_nodes)
        u[self.mesh.interior[self.order]] = factors.solve(self.f)
        return u


@cache
def solver_on(domain: str, nodes: int) -> AffineSolver:
    return AffineSolver(DOMAINS[domain](nodes=nodes))


class ForwardPanel(Panel):
    """Sliders for a and τ, or drag the arrow's head; the colours follow the field's own range."""

    size = (6.4, 4.8)
    alt = "The field u over the region, and the transport vector as an arrow"

    def __init__(self, nodes: int = 2000, domain: str = "star", tau=(8.0, 4.0), a: float = 1.0):
        self.nodes, self.shown = nodes, None
        self.domain = widgets.Dropdown(options=list(DOMAINS), value=domain, description="domain")
        self.a = slider(widgets.FloatLogSlider, "a", a, -1.5, 1.5, 0.05, base=10, readout_format=".2g")
        self.tau = [
            slider(widgets.FloatSlider, name, value, -_LONGEST, _LONGEST, 0.5) for name, value in zip(("τ₁", "τ₂"), tau)
        ]
        super().__init__([[self.domain, self.a], self.tau])
        self.on(self.domain, self.a, *self.tau)

    def arrange(self):
        self.axes = self.figure.add_subplot()

    def draw(self):
        solve, tau = solver_on(self.domain.value, self.nodes), np.array([t.value for t in self.tau])
        begun = time.perf_counter()
        u = solve(self.a.value, tau)
        took = 1e3 * (time.perf_counter() - begun)
        if self.shown != self.domain.value:
            self._region(solve.mesh, u)
        self.field.set_array(u)
        self.field.set_clim(0, u.max())
        head = self.scale * tau
        self.arrow.set_data([0, head[0]], [0, head[1]])
        self.head.set_data([head[0]], [head[1]])
        self.axes.set_title(  # no formulas in it: to typeset them takes longer than to solve
            f"a = {self.a.value:.2g},  τ = ({tau[0]:g}, {tau[1]:g}),  largest u = {u.max():.3g}\n"
            f"{len(solve.f):,} unknowns solved in {took:.0f} ms"
        )

    def _region(self, mesh: Mesh, u: np.ndarray) -> None:
        """Another domain: new axes."""
        self.figure.clear()
        self.axes = self.figure.add_subplot()
        triangles = Triangulation(*mesh.points.T, mesh.triangles)
        self.field = self.axes.tripcolor(triangles, u, shading="gouraud", cmap="viridis")
        outline(self.axes, triangles)
        self.figure.colorbar(self.field, ax=self.axes, label="u", shrink=0.8)
        self.scale = 0.9 / _LONGEST
        edged = {"path_effects": [Stroke(linewidth=4, foreground="k"), Normal()]}
        (self.arrow,) = self.axes.plot([0, 0], [0, 0], color="w", lw=2, **edged)
        (self.head,) = self.axes.plot([0], [0], "o", color="w", mec="k", ms=9)
        self.axes.set(xlim=(-1.35, 1.35), ylim=(-1.35, 1.35))
        self.figure.suptitle(
            r"$-a\nabla^2 u + \tau\cdot\nabla u = 1$, u = 0 on the boundary: drag the white dot, which is τ"
        )
        self.shown = self.domain.value

    def press(self, axes, x, y):
        self.drag(axes, x, y)

    def drag(self, axes, x, y):
        if axes is not self.axes:
            return
        goal = np.clip(np.array([x, y]) / self.scale, -_LONGEST, _LONGEST)
        with self.one_drawing():
            for control, value in zip(self.tau, goal):
                control.value = 0.5 * round(2 * value)
