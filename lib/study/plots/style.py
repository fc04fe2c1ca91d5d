"""How all figures look, and how meshes are drawn."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, MaxNLocator, NullLocator
from matplotlib.tri import Triangulation

_COLOURS = sns.color_palette("colorblind")
METHODS = {  # colour, marker, label
    "hard": (_COLOURS[1], "s", "hard taper (the paper's)"),
    "wendland": (_COLOURS[6], "D", "Wendland taper"),
    "two-level": (_COLOURS[9], "o", "two-level (ours)"),
    "multilevel": (_COLOURS[0], "^", "multilevel (ours)"),
}


def mosaic(layout: list[list[str]], width: float, height: float) -> tuple[Figure, dict[str, Axes]]:
    """Panels by letter; one may take several places."""
    _theme()
    return plt.subplot_mosaic(layout, figsize=(width, height), layout="constrained")


def panels(rows: int, columns: int, width: float, height: float, **kwargs) -> tuple[Figure, np.ndarray]:
    _theme()
    figure, axes = plt.subplots(rows, columns, figsize=(width, height), layout="constrained", squeeze=False, **kwargs)
    return figure, axes


def _theme() -> None:
    sns.set_theme(context="paper", style="ticks", rc={"axes.titlesize": 9, "axes.labelsize": 8, "font.size": 8})


def triangulation(table: pd.DataFrame) -> tuple[Triangulation, pd.DataFrame]:
    """The mesh in a table of nodes and triangles, and the rows of its nodes."""
    nodes = table[table.kind == "node"]
    triangles = table.loc[table.kind == "triangle", ["i", "j", "k"]].to_numpy(int)
    return Triangulation(nodes.x, nodes.y, triangles), nodes


def field(ax: Axes, mesh: Triangulation, values, label: str, cmap: str = "viridis", **limits: float) -> None:
    drawn = ax.tripcolor(mesh, values, shading="gouraud", cmap=cmap, rasterized=True, **limits)
    outline(ax, mesh)
    scale_below(ax, drawn, label)


def scale_below(ax: Axes, drawn, label: str) -> None:
    """A slim colour scale under a map."""
    place = ax.inset_axes([0.1, -0.06, 0.8, 0.04])
    bar = ax.figure.colorbar(drawn, cax=place, orientation="horizontal", label=label, extend=ends(drawn))
    bar.outline.set_visible(False)
    if isinstance(drawn.norm, LogNorm):
        plain_ticks(bar.ax.xaxis)
    else:
        bar.locator = MaxNLocator(4)
        bar.update_ticks()
    bar.ax.tick_params(labelsize=7, length=2)


def ends(drawn) -> str:
    """Which ends of the colour scale are pointed, since values lie beyond them."""
    values = np.ma.masked_invalid(drawn.get_array()).compressed()
    below, above = values.min() < drawn.norm.vmin, values.max() > drawn.norm.vmax
    return {(False, False): "neither", (True, False): "min", (False, True): "max"}.get((below, above), "both")


def outline(ax: Axes, mesh: Triangulation) -> None:
    """The boundary of the region; equal axes without ticks."""
    sides = np.stack([mesh.triangles, np.roll(mesh.triangles, -1, axis=1)], axis=-1)[mesh.neighbors < 0]
    ax.plot(*[np.insert(v[sides].astype(float), 2, np.nan, axis=1).ravel() for v in (mesh.x, mesh.y)], "k", lw=0.8)
    bare(ax)


def bare(ax: Axes) -> None:
    ax.set_aspect("equal")
    ax.set_axis_off()


def plain_ticks(axis) -> None:
    """1, 2, 5, 10 … on a logarithmic axis."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FormatStrFormatter("%g"))
    axis.set_minor_locator(NullLocator())


def marked(figure: Figure, table: pd.DataFrame) -> Figure:
    """A twin's figure says so across its face."""
    if table.simulated.dropna().astype(bool).any():
        style = {"color": "darkviolet", "alpha": 0.3, "fontsize": 40, "ha": "center", "va": "center", "rotation": 30}
        figure.text(0.5, 0.5, "simulated", **style)
    return figure
