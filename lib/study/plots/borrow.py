"""Figures of one's own problem: maps of the diffusivity by method, and the other unknowns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from study.plots.style import mosaic, outline, panels, plain_ticks, scale_below, triangulation

_METHODS = ("NUTS", "Laplace", "GaussianVI", "CVI")


def fig_your_own_problem(table: pd.DataFrame) -> Figure:
    """The field with its readings above log D in truth; beside them log D by method, its mean above its sd."""
    figure, axes = mosaic([["u", *_METHODS], ["truth", *(f"sd {name}" for name in _METHODS)]], 11.2, 4.6)
    mesh, nodes = triangulation(table)
    readings = table[table.kind == "reading"]
    style = {"norm": LogNorm(nodes.u.min(), nodes.u.max()), "cmap": "viridis"}
    drawn = axes["u"].tripcolor(mesh, nodes.u, shading="gouraud", rasterized=True, **style)
    axes["u"].scatter(readings.x, readings.y, c=readings.u, s=14, edgecolor="w", lw=0.5, **style)
    _map(axes["u"], mesh, drawn, "$u$ in g/m³", f"True field, {len(readings)} readings\n")
    _scale_bar(axes["u"], mesh)
    means = ["truth", *(f"mean_{name}" for name in _METHODS)]
    low, high = nodes[means].min().min(), nodes[means].max().max()
    for name, column in zip(("truth", *_METHODS), means):
        drawn = axes[name].tripcolor(mesh, nodes[column], shading="gouraud", vmin=low, vmax=high, cmap="cividis")
        drawn.set_rasterized(True)
        off = np.sqrt(np.mean((nodes[column] - nodes.truth) ** 2))
        title = "Truth: log $D$\n" if name == "truth" else f"{name}: mean\nrms error {off:.2f}"
        _map(axes[name], mesh, drawn, "log $D$, $D$ in km²/day", title)
    sds = [f"sd_{name}" for name in _METHODS]
    high = nodes[sds].max().max()
    for name, column in zip(_METHODS, sds):
        ax = axes[f"sd {name}"]
        drawn = ax.tripcolor(mesh, nodes[column], shading="gouraud", vmin=0, vmax=high, cmap="magma", rasterized=True)
        ax.plot(readings.x, readings.y, ".", color="w", ms=2)
        covered = np.mean((nodes.truth > nodes[f"low_{name}"]) & (nodes.truth < nodes[f"high_{name}"]))
        _map(ax, mesh, drawn, "sd of log $D$", f"{name}: sd\n90% intervals hold {100 * covered:.0f}%")
    return figure


def _map(ax: Axes, mesh, drawn, label: str, title: str) -> None:
    outline(ax, mesh)
    scale_below(ax, drawn, label)
    ax.set_title(title)


def _scale_bar(ax: Axes, mesh) -> None:
    left, bottom = mesh.x.min(), mesh.y.min() - 0.05 * np.ptp(mesh.y)
    ax.plot([left, left + 2], [bottom, bottom], "k", lw=2, solid_capstyle="butt")
    ax.text(left + 1, bottom + 0.02 * np.ptp(mesh.y), "2 km", ha="center", va="bottom", fontsize=7)


def fig_your_own_unknowns(table: pd.DataFrame) -> Figure:
    """The current, and the decay rate, by method; and the seconds each took."""
    figure, ((a, b, c),) = panels(1, 3, 9.6, 3.2)
    truth, colours = table[table.method == "truth"].iloc[0], dict(zip(_METHODS, sns.color_palette("colorblind")))
    for name, colour in colours.items():
        some = table[table.method == name]
        a.plot(some.tau_1, some.tau_2, ".", ms=1.5, alpha=0.15, color=colour)
        sns.kdeplot(x=some.tau_1, y=some.tau_2, levels=[0.1, 0.5], ax=a, color=colour, linewidths=1.2)
        sns.kdeplot(some.k, ax=b, color=colour, label=name)
        c.plot(some.seconds.iloc[0], name, "o", color=colour)
        c.annotate(f"{some.seconds.iloc[0]:.0f} s", (some.seconds.iloc[0], name), (6, 6), textcoords="offset points")
    a.plot(truth.tau_1, truth.tau_2, "k*", ms=9, label="truth")
    b.axvline(truth.k, color="k", lw=1, label="truth")
    a.set(xlabel="τ₁ in km/day", ylabel="τ₂ in km/day", title="(a) Current: draws; 50% and 90%")
    b.set(xlabel="k in 1/day", ylabel="density", title="(b) Decay rate")
    c.set(xlabel="seconds", title="(c) Time", xscale="log")
    c.invert_yaxis()
    c.margins(x=0.3, y=0.2)
    plain_ticks(c.xaxis)
    a.legend(frameon=False, fontsize=7, loc="upper right")
    b.legend(frameon=False, fontsize=7)
    return figure
