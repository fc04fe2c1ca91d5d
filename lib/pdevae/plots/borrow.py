"""Figures of one's own problem: the fields and their residuals, and how ε, Q and P are chosen."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .style import mosaic, outline, panels, plain_ticks, scale_below, triangulation


def fig_your_own_problem(table: pd.DataFrame) -> Figure:
    """Truth with readings, the network without and with the PDE on one scale; mesh, and the residuals of both."""
    figure, axes = mosaic([["a", "b", "c"], ["d", "e", "f"]], 7.2, 4.4)
    mesh, nodes = triangulation(table)
    readings = table[table.kind == "reading"]
    shown = ("truth", "alone", "regularised")
    low, high = nodes[list(shown)].min().min(), nodes[list(shown)].max().max()
    titles = ("(a) Truth, and readings", "(b) Network alone", "(c) Network with the PDE")
    for letter, name, title in zip("abc", shown, titles):
        drawn = axes[letter].tripcolor(mesh, nodes[name], shading="gouraud", vmin=low, vmax=high, rasterized=True)
        wrong = np.sqrt(np.mean((nodes[name] - nodes.truth) ** 2))
        _map(axes[letter], mesh, drawn, "$u$ in g/m³", title + (f"\nrms error {wrong:.3f} g/m³" if wrong else "\n"))
    axes["a"].scatter(readings.x, readings.y, c=readings.truth, vmin=low, vmax=high, s=16, edgecolor="w", lw=0.6)
    _mesh_and_sensors(axes["d"], mesh, readings)
    most = float(np.quantile(np.abs(nodes.alone_residual), 0.98))
    for letter, name, title in zip("ef", shown[1:], ("(e) Residual, network alone", "(f) Residual with the PDE")):
        values = nodes[f"{name}_residual"]
        drawn = axes[letter].tripcolor(mesh, values, shading="gouraud", cmap="RdBu_r", vmin=-most, vmax=most)
        drawn.set_rasterized(True)
        rms = np.sqrt(np.mean(values**2))
        _map(axes[letter], mesh, drawn, r"$L\mu - f$ in g/m³ per day", f"{title}\nrms {rms:.2g} g/m³ per day")
    return figure


def _map(ax: Axes, mesh, drawn, label: str, title: str) -> None:
    outline(ax, mesh)
    scale_below(ax, drawn, label)
    ax.set_title(title)


def _mesh_and_sensors(ax: Axes, mesh, readings: pd.DataFrame) -> None:
    ax.triplot(mesh, color="0.7", lw=0.3)
    ax.plot(readings.x, readings.y, "o", ms=3, color="tab:red", mec="w", mew=0.4)
    outline(ax, mesh)
    left, bottom = mesh.x.min(), mesh.y.min() - 0.09 * np.ptp(mesh.y)
    ax.plot([left, left + 2], [bottom, bottom], "k", lw=2, solid_capstyle="butt")
    ax.text(left + 1, bottom - 0.03 * np.ptp(mesh.y), "2 km", ha="center", va="top", fontsize=7)
    ax.set_title(f"(d) Mesh, {len(mesh.x)} nodes,\nand {len(readings)} sensors")


def fig_your_own_choice(table: pd.DataFrame) -> Figure:
    """Errors against ε, held out and in truth; noise of the penalty against its time; errors by number of readings."""
    figure, ((a, b, c),) = panels(1, 3, 10.2, 3.4)
    _epsilon(a, table)
    _patches(b, table[table.kind == "patches"])
    _readings(c, table[table.kind == "readings"])
    return figure


def _readings(ax: Axes, table: pd.DataFrame) -> None:
    for name, label, colour in (("alone", "network alone", "0.4"), ("regularised", "with the PDE", "tab:blue")):
        ax.plot(table.readings, table[name], "o-", ms=4, color=colour, label=label)
    ax.set(xscale="log", yscale="log", xlabel="readings", ylabel="rms error of the field in g/m³")
    ax.set_title("(c) What the PDE buys")
    ax.set_xticks(table.readings, [f"{count:g}" for count in table.readings])
    ax.set_xticks([], minor=True)
    plain_ticks(ax.yaxis)
    ax.legend(frameon=False, fontsize=6.5)


def _epsilon(ax: Axes, table: pd.DataFrame) -> None:
    sweep, (blue, orange) = table[table.kind == "eps"], sns.color_palette("colorblind")[:2]
    mean = sweep.groupby("eps").mean(numeric_only=True)
    alone, mean = mean.loc[np.inf], mean[np.isfinite(mean.index)]
    ax.plot(sweep.eps, sweep.held_out, "o", ms=3, alpha=0.4, mew=0, color=blue, label="each held-out part")
    ax.plot(mean.index, mean.held_out, color=blue, label="their mean: decides")
    ax.plot(mean.index, mean.field, "--", color=orange, label="whole field (known only here)")
    for value, colour in ((alone.held_out, blue), (alone.field, orange)):
        ax.axhline(value, color=colour, lw=0.8, ls=":")
    ax.plot([], [], color="0.4", lw=0.8, ls=":", label="the same without the PDE")
    ax.axvline(table.loc[table.kind == "chosen", "eps"].iloc[0], color="k", lw=0.8, label="chosen")
    ax.set(xscale="log", yscale="log", xlabel="ε", ylabel="rms error in g/m³", title="(a) The choice of ε")
    plain_ticks(ax.yaxis)
    ax.set_xticks(mean.index, [f"{eps:g}" for eps in mean.index])
    ax.set_xticks([], minor=True)
    ax.legend(frameon=False, fontsize=6.5, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=2)


def _patches(ax: Axes, table: pd.DataFrame) -> None:
    patches = table[table.penalty == "two-level"]
    colours = dict(zip(sorted(patches.P.unique()), sns.color_palette("viridis", patches.P.nunique())))
    markers = dict(zip(sorted(patches.Q.unique()), "os^Dv<>"))
    for row in patches.itertuples():
        ax.plot(row.ms, row.noise, marker=markers[row.Q], ms=5, color=colours[row.P], mec="w", mew=0.4, ls="")
    for P, colour in colours.items():
        ax.plot([], [], "o", color=colour, ms=5, label=f"P = {P:g}")
    for Q, marker in markers.items():
        ax.plot([], [], marker=marker, color="0.5", ms=5, ls="", label=f"Q = {Q:g}")
    exact = table[table.penalty == "exact"].ms.iloc[0]
    ax.axvline(exact, color="0.4", lw=0.8, ls=":", label="exact penalty: no noise")
    ax.set(xlabel="ms for the penalty and its gradient", ylabel="noise of the estimate (sd/mean)", yscale="log")
    ax.set_xlim(left=0)
    plain_ticks(ax.yaxis)
    ax.set_title("(b) P patches a step, of Q nodes each")
    ax.legend(frameon=False, fontsize=6.5, loc="upper left", bbox_to_anchor=(0, -0.2), ncols=3)
