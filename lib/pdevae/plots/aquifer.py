"""Figures of the aquifer experiment. A table from a simulated aquifer has ``simulated`` set, and its figure says so."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from matplotlib.tri import LinearTriInterpolator

from .style import bare, outline, panels, plain_ticks, scale_below, triangulation

_C = sns.color_palette("colorblind")
MODELS = {  # colour, line
    "GP 5/2": ("k", "-"),
    "GP 3/2": ("k", ":"),
    "GP 5/2 + linear": ("0.5", "-"),
    "GP 3/2 + linear": ("0.5", "--"),
    "GP 3/2 + base level": ("0.5", ":"),
    "deep GP": (_C[7], "-"),
    "GP-D": (_C[0], "--"),
    "GP-DT": (_C[0], "-"),
    "network, no PDE": (_C[1], "-"),
    "network, Laplacian": (_C[1], "--"),
    "FEM, a = 1": (_C[2], ":"),
    "FEM-D": (_C[2], "--"),
    "FEM-DT": (_C[2], "-"),
    "FEM, a = 1 + base level": (_C[4], ":"),
    "FEM-D + base level": (_C[4], "--"),
    "FEM-DT + base level": (_C[4], "-"),
    "best (ours)": (_C[3], "-"),
    "FEM ensemble": (_C[3], "--"),
}


def fig_aquifer(table: pd.DataFrame) -> Figure:
    """Depth to water in feet: GP-DT trained on depth (the paper's), and land surface minus the head of our model."""
    figure, (row,) = panels(1, 2, 10.5, 5.2)
    nodes = table[table.kind == "node"]
    limits = np.nanquantile(nodes[["depth", "depth_by_head"]], [0.01, 0.99])
    titles = {"depth": "GP-DT, trained on depth", "depth_by_head": "land surface − modelled head (ours)"}
    for ax, (column, title) in zip(row, titles.items()):
        mesh, at = _map(ax, table, column, "depth to water, ft", "viridis_r", limits)
        lines = ax.tricontour(mesh, at.land, levels=np.arange(2500, 9000, 500), colors="0.25", linewidths=0.4)
        ax.clabel(lines, fontsize=5, fmt="%d")
        _scenery(ax, table)
        ax.set_title(f"{title}; grey: land surface, ft")
    _decorations(row[0])
    _legend(figure, row[0])
    return _marked(figure, table)


def fig_aquifer_add_figures(table: pd.DataFrame) -> Figure:
    """Wells and mesh; mean source; mean diffusion coefficient of GP-DT."""
    figure, (row,) = panels(1, 3, 13.0, 4.4)
    mesh, nodes = triangulation(table)
    row[0].triplot(mesh, color="0.75", lw=0.3)
    outline(row[0], mesh)
    _scenery(row[0], table, rivers=False)
    row[0].set_title(f"wells and mesh ({len(nodes):,} nodes)")
    _decorations(row[0])
    limit = np.abs(nodes.source_mean).max()
    _map(row[1], table, "source_mean", "mean source E[f], sd of head per (100 km)²", "RdBu", (-limit, limit))
    row[1].set_title("mean source of GP-DT")
    limits = nodes.a.quantile([0.01, 0.99])
    _map(row[2], table, "a", "mean diffusion coefficient E[a]", "magma", limits, LogNorm)
    row[2].set_title("mean diffusion coefficient of GP-DT")
    for ax in row[1:]:
        _wells(ax, table)
    _legend(figure, row[0])
    return _marked(figure, table)


def fig_aquifer_comparison(table: pd.DataFrame) -> Figure:
    """GP and GP-DT on one colour scale, trained on all wells and within 60 km of the laboratory."""
    figure, (row,) = panels(1, 2, 10.5, 5.0)
    nodes = table[table.kind == "node"]
    limits = np.quantile(nodes[["gp", "gp_dt"]], [0.005, 0.995])
    for ax, (column, title) in zip(row, {"gp": "GP, Matérn 5/2", "gp_dt": "GP-DT"}.items()):
        mesh, at = _map(ax, table, column, "water-level altitude, ft", "viridis", limits)
        levels = np.arange(2500, 6500, 100)
        lines = ax.tricontour(mesh, at[column], levels=levels, colors="w", linewidths=0.4)
        ax.clabel(lines, levels[::5], fontsize=5, fmt="%d")
        _wells(ax, table)
        ax.set_title(title)
    _decorations(row[0])
    return _marked(figure, table)


def fig_aquifer_uncertainty(table: pd.DataFrame) -> Figure:
    """Width of the 90% predictive interval of the head."""
    figure, (row,) = panels(1, 2, 10.5, 5.0)
    nodes = table[table.kind == "node"]
    limits = (0, np.quantile(nodes[["width", "width_gp"]], 0.98))
    for ax, (column, title) in zip(row, {"width_gp": "GP, Matérn 5/2", "width": "FEM (ours)"}.items()):
        _map(ax, table, column, "width of the 90% interval of the altitude, ft", "magma", limits)
        _wells(ax, table)
        ax.set_title(title)
    _decorations(row[0])
    return _marked(figure, table)


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
    style = {"scale_units": "xy", "angles": "xy", "width": 0.003, "color": "w", "scale": 1 / 10}
    root = np.sqrt(size / np.nanquantile(size.filled(np.nan), 0.9))
    row[0].quiver(*where.T, u / size * root, v / size * root, **style)
    outline(row[0], mesh)
    _scenery(row[0], table)
    _decorations(row[0])
    row[0].set_title("flow −a∇u; the known flow is to the south-west")
    return _marked(figure, table)


def fig_aquifer_residuals(table: pd.DataFrame) -> Figure:
    """Predicted minus observed head at the test wells."""
    models = list(table.model.unique())
    figure, axes = panels(2, len(models), 4.2 * len(models), 7.6)
    for row, (subset, part) in zip(axes, table.groupby("subset", sort=False)):
        limit = np.quantile(np.abs(part.error), 0.95)
        for ax, model in zip(row, models):
            mine = part[part.model == model]
            for new, marker in ((False, "o"), (True, "^")):
                some = mine[mine.new == new]
                size = 6 + 50 * np.minimum(np.abs(some.error) / limit, 2)
                style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "ec": "0.3", "lw": 0.3, "marker": marker}
                drawn = ax.scatter(some.x, some.y, c=some.error, s=size, **style)
            scale_below(ax, drawn, "predicted − observed altitude, ft")
            trained = "on all wells of 1960–1979" if subset == "all" else "within 60 km of the laboratory"
            ax.set_title(f"{model}, trained {trained}\nMAE {np.abs(mine.error).mean():.0f} ft (triangles: new wells)")
            bare(ax)
            ax.set(xlim=(15, 320), ylim=(85, 330))
    return _marked(figure, table)


def fig_aquifer_distance(table: pd.DataFrame) -> Figure:
    """Error at new wells against the distance to the nearest training well."""
    responses = list(table.response.unique())
    figure, (row,) = panels(1, len(responses), 4.2 * len(responses), 3.4, sharey=True)
    for ax, (response, part) in zip(row, table.groupby("response", sort=False)):
        for model, mine in part.sort_values("km").groupby("model", sort=False):
            colour, line = MODELS[model]
            ax.plot(mine.km, mine.mae_feet, color=colour, ls=line, marker=".", label=model)
        ax.set(xscale="log", yscale="log", title=response, xlabel="distance to the nearest training well, km")
        for axis in (ax.xaxis, ax.yaxis):
            plain_ticks(axis)
    row[0].set_ylabel("mean absolute error at new wells, ft")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return _marked(figure, table)


def fig_aquifer_cv(table: pd.DataFrame) -> Figure:
    """Held-out error of every setting tried, the chosen one filled."""
    figure, axes = panels(1, 4, 13.0, 4.6)
    titles = {"full": "held-out blocks of 6 km", "near": "held-out rings"}
    cases = [(response, split) for response in ("altitude", "depth") for split in titles]
    for ax, (response, split) in zip(axes[0], cases):
        part = table[(table.response == response) & (table.split == split)]
        names = [name for name in MODELS if name in set(part.model)]
        for k, name in enumerate(names):
            mae = part[part.model == name].mae
            ax.scatter(mae, np.full(len(mae), k), s=14, fc="none", ec=MODELS[name][0], lw=0.8)
            ax.scatter(mae.min(), k, s=20, color=MODELS[name][0])
        ax.set(title=f"{response}, {titles[split]}", xlabel="mean absolute error, ft")
        ax.set_yticks(range(len(names)), names if ax is axes[0, 0] or ax is axes[0, 2] else [])
        ax.invert_yaxis()
    return _marked(figure, table)


def fig_aquifer_mesh(table: pd.DataFrame) -> Figure:
    """Error and predictions as the mesh is refined."""
    figure, (row,) = panels(1, 2, 8.0, 3.2)
    for k, (split, part) in enumerate(table.groupby("split", sort=False)):
        label = {"full": "all test wells", "near": "beyond 60 km"}[split]
        for how, some in part.groupby("how", sort=False):
            style = {"color": _C[k], "marker": "o" if how == "fitted" else "s", "ls": "-" if how == "fitted" else "--"}
            row[0].plot(some.nodes, some.mae, label=f"{label}, {how}", **style)
            row[1].plot(some.nodes, some.from_finest, **style)
    row[0].set(ylabel="MAE of the altitude, standardised", yscale="log")
    plain_ticks(row[0].yaxis)
    row[1].set(ylabel="difference to the finest mesh\nat test wells, ft (rms)")
    row[0].legend(frameon=False, fontsize=7)
    for ax in row:
        ax.set(xlabel="nodes", xscale="log")
        ax.set_xticks(sorted(table.nodes.unique()), [f"{n:,}" for n in sorted(table.nodes.unique())], fontsize=6)
        ax.xaxis.set_minor_locator(NullLocator())
    return _marked(figure, table)


def fig_aquifer_twin(table: pd.DataFrame) -> Figure:
    """Shares of the true log a, f and τ inside the 90% intervals of q, a point per simulated aquifer."""
    figure, (row,) = panels(1, 1, 5.2, 3.2)
    labels = {"log_a_covered": "log a (nodes)", "f_covered": "f (nodes)", "tau_covered": "τ (two numbers)"}
    long = table.melt(["model", "seed"], list(labels), "what", "covered").replace({"what": labels})
    sns.stripplot(
        long, x="what", y="covered", hue="model", dodge=True, ax=row[0], size=4, alpha=0.6, palette="colorblind"
    )
    means = long.groupby(["what", "model"], sort=False).covered.mean()
    for k, label in enumerate(labels.values()):
        for j, model in enumerate(long.model.unique()):
            x = k + 0.4 * (j - 0.5)
            row[0].plot([x - 0.15, x + 0.15], [means[label, model]] * 2, "k", lw=1.5)
    row[0].axhspan(0.80, 0.97, color="0.9", zorder=0)
    row[0].set(xlabel="", ylabel="share inside the 90% interval of q", ylim=(-0.03, 1.03))
    row[0].legend(frameon=False, fontsize=7, loc="lower right")
    return _marked(figure, table)


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
    for kind, style in {"training": {"fc": "w", "marker": "o"}, "new": {"fc": "k", "marker": "^"}}.items():
        some = table[table.kind == kind]
        ax.scatter(some.x, some.y, s=7, ec="k", lw=0.4, label=f"{kind} wells", zorder=3, **style)


def _decorations(ax: Axes) -> None:
    """Scale bar and north arrow."""
    left, bottom = 225, 100
    ax.plot([left, left + 50], [bottom, bottom], "k", lw=2)
    ax.text(left + 25, bottom + 3, "50 km", ha="center", va="bottom", fontsize=7)
    ax.annotate("", (300, 130), (300, 102), arrowprops={"arrowstyle": "-|>", "color": "k", "lw": 1.5})
    ax.text(300, 132, "N", ha="center", va="bottom", fontsize=8)


def _legend(figure: Figure, ax: Axes) -> None:
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=7)


def _marked(figure: Figure, table: pd.DataFrame) -> Figure:
    """A twin's figure says so across its face."""
    if table.simulated.dropna().astype(bool).any():
        style = {"color": "darkviolet", "alpha": 0.3, "fontsize": 40, "ha": "center", "va": "center", "rotation": 30}
        figure.text(0.5, 0.5, "simulated", **style)
    return figure
