"""Figures of the forward problem."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from study.plots.style import bare, field, mosaic, outline, panels, scale_below, triangulation


def fig_pde_as_smoothers(table: pd.DataFrame) -> Figure:
    """Source, transport field, output, sensors, and the posterior of the transport vector."""
    figure, axes = mosaic([["a", "b", "c"], ["d", "e", "e"]], 7.2, 5.2)
    a, b, c, d, e = axes.values()
    mesh, nodes = triangulation(table)
    truth = table[table.kind == "truth"].iloc[0]
    sensors = table[table.kind == "sensor"]
    field(a, mesh, nodes.source, "source $f$", "magma")
    a.set_title("(a) Input source")
    _arrows(b, mesh, truth)
    b.set_title("(b) Transport vector field")
    field(c, mesh, nodes.u, "field $u$")
    c.set_title("(c) Output field")
    outline(d, mesh)
    shown = d.scatter(
        sensors.x,
        sensors.y,
        c=sensors.u,
        s=22,
        cmap="viridis",
        vmin=nodes.u.min(),
        vmax=nodes.u.max(),
        edgecolor="k",
        lw=0.4,
    )
    scale_below(d, shown, "reading $y$")
    d.set_title(f"(d) {len(sensors)} sensors")
    _posterior(e, table[table.kind == "posterior"], truth)
    for share, one in table[table.kind == "cvi contour"].groupby("share"):
        label = r"50% and 95% of CVI's $q(\tau)$ (two-level)" if share == 0.5 else None
        e.plot(one.x, one.y, color="tab:orange", lw=1.4, ls="--", label=label)
    e.set_title(r"(e) Posterior of $\tau$, exact and by CVI")
    e.legend(loc="center left", bbox_to_anchor=(1.03, 0.5), frameon=False, fontsize=6.5)
    return figure


def _arrows(ax, mesh: Triangulation, truth) -> None:
    finder = mesh.get_trifinder()
    ticks = np.linspace(-1.3, 1.3, 14)
    x, y = (v.ravel() for v in np.meshgrid(ticks, ticks))
    inside = finder(x, y) >= 0
    ax.quiver(x[inside], y[inside], truth.x, truth.y, pivot="mid", scale=24, width=0.008, headwidth=4, color="tab:blue")
    outline(ax, mesh)


def _posterior(ax, points: pd.DataFrame, truth) -> None:
    rng = np.random.default_rng(0)
    weight = points.weight / points.weight.sum()
    drawn = points.iloc[rng.choice(len(points), 60, p=weight)]
    zero = np.zeros(len(drawn))
    ax.quiver(
        zero, zero, drawn.x, drawn.y, angles="xy", scale_units="xy", scale=1, width=0.004, alpha=0.15, color="tab:blue",
        label="posterior draws",
    )  # fmt: skip
    levels = _mass_levels(points.weight.to_numpy(), (0.95, 0.5))
    ax.tricontour(points.x, points.y, points.weight, levels=levels, colors="k", linewidths=0.8)
    ax.plot([], [], "k", lw=0.8, label="50% and 95% of the exact posterior")
    ax.plot(truth.x, truth.y, "*", color="tab:red", ms=9, mec="w", mew=0.5, label="truth")
    ax.set(xlabel=r"$\tau_1$", ylabel=r"$\tau_2$")
    ax.set_aspect("equal", adjustable="box", anchor="W")


def _mass_levels(weight: np.ndarray, shares) -> list[float]:
    """Heights of the contours that enclose these shares of the mass."""
    falling = np.sort(weight)[::-1]
    return [falling[np.searchsorted(np.cumsum(falling), share)] for share in shares]


def fig_fem_explan(table: pd.DataFrame) -> Figure:
    """A mesh, a nodal basis function, the sparsity of the stiffness matrix."""
    figure, ((a, b, c),) = panels(1, 3, 7.2, 2.5)
    mesh, nodes = triangulation(table)
    a.triplot(mesh, color="tab:blue", lw=0.5)
    a.plot(nodes.x, nodes.y, "k.", ms=2)
    bare(a)
    a.set_title(f"(a) FEM mesh, {len(nodes)} nodes")
    field(b, mesh, nodes.phi, r"$\phi_i$", "Blues")
    b.triplot(mesh, color="0.6", lw=0.25)
    b.set_title(r"(b) A nodal basis function")
    entries = table[table.kind == "entry"]
    c.plot(entries.j, entries.i, "s", ms=0.9, color="tab:blue", mew=0)
    boundary = nodes.is_boundary.sum()
    c.axhline(boundary, color="tab:red", lw=0.6)
    c.axvline(boundary, color="tab:red", lw=0.6)
    c.set(xlabel="node", ylabel="node", xlim=(0, len(nodes)), ylim=(len(nodes), 0))
    c.set_aspect("equal")
    c.set_title("(c) Sparsity of $A$; boundary nodes first")
    return figure
