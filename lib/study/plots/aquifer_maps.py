"""Maps of the aquifer. A table from a simulated aquifer has ``simulated`` set, and its figure says so."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.tri import LinearTriInterpolator

from study.plots.style import marked, outline, panels, scale_below, triangulation


def fig_aquifer(table: pd.DataFrame) -> Figure:
    """Depth to water in feet: GP-DT trained on depth (the paper's), and land surface minus the head of our model."""
    figure, (row,) = panels(1, 2, 10.5, 5.2)
    nodes = table[table.kind == "node"]
    limits = np.nanquantile(nodes[["depth", "depth_by_head"]], [0.01, 0.99])
    titles = {"depth": "GP-DT, trained on depth", "depth_by_head": "land surface − modelled head (ours)"}
    for ax, (column, title) in zip(row, titles.items()):
        mesh, at = _map(ax, table, column, "depth to water, ft", "viridis_r", limits)
        lines = ax.tricontour(mesh, at.land, levels=np.arange(2500, 9000, 500), colors="0.25", linewidths=0.4)
        for label in ax.clabel(lines, fontsize=6, fmt="%d"):
            label.set_path_effects([withStroke(linewidth=1.5, foreground="w")])
        _scenery(ax, table)
        ax.use_sticky_edges = False
        ax.margins(0.02)
        ax.set_title(f"{title}; grey: land surface, ft")
    _decorations(row[0])
    _legend(figure, row[0])
    return marked(figure, table)


def fig_aquifer_add_figures(table: pd.DataFrame) -> Figure:
    """Wells and mesh; mean source; mean diffusion coefficient of GP-DT."""
    figure, (row,) = panels(1, 3, 13.0, 4.4)
    mesh, nodes = triangulation(table)
    row[0].triplot(mesh, color="0.75", lw=0.3)
    outline(row[0], mesh)
    _scenery(row[0], table, rivers=False)
    row[0].set_title(f"wells and mesh ({len(nodes):,} nodes)")
    _decorations(row[0])
    limit = np.abs(nodes.source_mean).quantile(0.98)
    _map(row[1], table, "source_mean", "mean source E[f], sd of head per (100 km)²", "RdBu", (-limit, limit))
    row[1].set_title("mean source of GP-DT")
    limits = nodes.a.quantile([0.01, 0.99])
    _map(row[2], table, "a", "mean diffusion coefficient E[a]", "magma", limits, LogNorm)
    row[2].set_title("mean diffusion coefficient of GP-DT")
    for ax in row[1:]:
        _wells(ax, table)
    _legend(figure, row[0])
    return marked(figure, table)


def fig_aquifer_comparison(table: pd.DataFrame) -> Figure:
    """GP and GP-DT on one colour scale, trained on all wells of the first period."""
    nodes = table[table.kind == "node"]
    limits = np.quantile(nodes[["gp", "gp_dt"]], [0.005, 0.995])
    titles = {"gp": "GP, Matérn 5/2", "gp_dt": "GP-DT"}
    figure, row = _pair(table, titles, "water-level altitude, ft", "viridis", limits)
    mesh, _ = triangulation(table)
    levels = np.arange(2500, 6500, 100)
    for ax, column in zip(row, titles):
        lines = ax.tricontour(mesh, nodes[column], levels=levels, colors="w", linewidths=0.4)
        ax.clabel(lines, levels[::5], fontsize=6, fmt="%d")
        ax.use_sticky_edges = False
        ax.margins(0.02)
    return marked(figure, table)


def fig_aquifer_uncertainty(table: pd.DataFrame) -> Figure:
    """Width of the 90% predictive interval of the head."""
    nodes = table[table.kind == "node"]
    limits = np.quantile(nodes[["width", "width_gp"]], [0.01, 0.98])
    titles = {"width_gp": "GP, Matérn 5/2", "width": "model on the mesh (ours)"}
    figure, _ = _pair(table, titles, "width of the 90% interval of the altitude, ft", "magma", limits, LogNorm)
    return marked(figure, table)


def fig_aquifer_flow(table: pd.DataFrame) -> Figure:
    """Head and the direction of flow −a∇u of our model; length of an arrow: square root of its size."""
    figure, (row,) = panels(1, 1, 6.4, 5.4)
    nodes = table[table.kind == "node"]
    mesh, at = _map(
        row[0], table, "level", "water-level altitude, ft (ours)", "viridis", (nodes.level.min(), nodes.level.max())
    )
    where = np.stack(np.meshgrid(np.arange(20, 320, 12.0), np.arange(90, 325, 12.0)), axis=-1).reshape(-1, 2)
    u, v = (LinearTriInterpolator(mesh, at[name])(*where.T) for name in ("flow_x", "flow_y"))
    size = np.hypot(u, v)
    style = {"scale_units": "xy", "angles": "xy", "width": 0.003, "color": "k", "scale": 1 / 10}
    root = np.sqrt(size / np.nanquantile(size.filled(np.nan), 0.9))
    row[0].quiver(*where.T, u / size * root, v / size * root, **style)
    outline(row[0], mesh)
    _scenery(row[0], table)
    _decorations(row[0])
    _legend(figure, row[0])
    row[0].set_title("flow −a∇u; the known flow is to the south-west")
    return marked(figure, table)


def _pair(
    table: pd.DataFrame, titles: dict[str, str], label: str, cmap: str, limits, norm=plt.Normalize
) -> tuple[Figure, np.ndarray]:
    """Two columns on one colour scale, with the wells."""
    figure, (row,) = panels(1, 2, 10.5, 5.0)
    for ax, (column, title) in zip(row, titles.items()):
        _map(ax, table, column, label, cmap, limits, norm)
        _wells(ax, table)
        ax.set_title(title)
    _decorations(row[0])
    _legend(figure, row[0])
    return figure, row


def _map(ax: Axes, table: pd.DataFrame, column: str, label: str, cmap: str, limits, norm=plt.Normalize):
    """A field over the plain; returns mesh and nodes."""
    mesh, nodes = triangulation(table)
    drawn = ax.tripcolor(mesh, nodes[column], shading="gouraud", cmap=cmap, norm=norm(*limits), rasterized=True)
    outline(ax, mesh)
    scale_below(ax, drawn, label)
    return mesh, nodes


def _scenery(ax: Axes, table: pd.DataFrame, rivers: bool = True) -> None:
    """Rivers, laboratory, wells."""
    if rivers:
        for k, (_, line) in enumerate(table[table.kind == "river"].groupby("part", sort=False)):
            ax.plot(line.x, line.y, color="tab:blue", lw=0.8, alpha=0.8, label="rivers" if k == 0 else None)
    edge = table[table.kind == "laboratory"]
    ax.plot(edge.x, edge.y, color="tab:red", lw=1.0, label="Idaho National Laboratory")
    _wells(ax, table)


def _wells(ax: Axes, table: pd.DataFrame) -> None:
    for kind, style in {
        "training": {"fc": "w", "ec": "k", "marker": "o"},
        "new": {"fc": "k", "ec": "w", "marker": "^"},
    }.items():
        some = table[table.kind == kind]
        ax.scatter(some.x, some.y, s=9, lw=0.4, label=f"{kind} wells", zorder=3, **style)


def _decorations(ax: Axes) -> None:
    """Scale bar and north arrow."""
    left, bottom = 225, 100
    ax.plot([left, left + 50], [bottom, bottom], "k", lw=2)
    ax.text(left + 25, bottom + 3, "50 km", ha="center", va="bottom", fontsize=7)
    ax.annotate("", (300, 130), (300, 102), arrowprops={"arrowstyle": "-|>", "color": "k", "lw": 1.5})
    ax.text(300, 132, "N", ha="center", va="bottom", fontsize=8)


def _legend(figure: Figure, ax: Axes) -> None:
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=7)
