"""Diagrams of models, from tables of nodes and arrows."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from study.plots.style import panels

_ROLES = {  # face, edge, box style
    "observed": ("0.85", "0.2", "round,pad=0.35"),
    "latent": ("white", "0.2", "round,pad=0.35"),
    "output": ("#cfe3f5", "#0173b2", "round,pad=0.35"),
    "coefficient": ("#fce6c8", "#de8f05", "round,pad=0.35"),
    "constraint": ("#f6d5d5", "firebrick", "square,pad=0.35"),
}


def fig_vae_models(table: pd.DataFrame) -> Figure:
    """The three generative structures (fig:vae, fig:vae_dt, fig:vae_nld)."""
    figure, (row,) = panels(1, table.model.nunique(), 9.6, 3.0)
    for ax, letter, (name, part) in zip(row, "abc", table.groupby("model", sort=False)):
        _graph(ax, part)
        ax.set(xlim=(-0.4, 3.5), ylim=(-0.4, 2.7))
        ax.set_title("\n".join([f"({letter}) {name}", *part.note.dropna()]))
    _key(figure, table)
    return figure


def fig_pde_reg_decoder(table: pd.DataFrame) -> Figure:
    figure, ((ax,),) = panels(1, 1, 4.6, 3.2)
    _graph(ax, table)
    for node in table[table.note.notna()].itertuples():
        ax.text(node.x, node.y + 0.17, node.note, ha="center", va="bottom", fontsize=8, color="firebrick")
    ax.set(xlim=(-0.5, 2.9), ylim=(-0.45, 2.1))
    _key(figure, table)
    return figure


def _graph(ax: Axes, part: pd.DataFrame) -> None:
    nodes = part[part.kind == "node"].set_index("name").fillna("")
    boxes = {node.Index: _box(ax, node) for node in nodes.itertuples()}
    for arrow in part[part.kind == "arrow"].fillna("").to_dict("records"):
        a, b = nodes.loc[arrow["from"]], nodes.loc[arrow["to"]]
        ends = {"patchA": boxes[arrow["from"]], "patchB": boxes[arrow["to"]], "shrinkA": 1, "shrinkB": 2}
        style = {"arrowstyle": "-|>", "color": "0.35", "lw": 0.9}
        ax.annotate("", (b.x, b.y), (a.x, a.y), arrowprops=style | ends)
        if arrow["label"]:
            ax.text((a.x + b.x) / 2, (a.y + b.y) / 2 + 0.12, arrow["label"], fontsize=6, ha="center", va="bottom")
    ax.set_axis_off()


def _box(ax: Axes, node):
    face, edge, shape = _ROLES[node.role]
    style = {"boxstyle": shape, "fc": face, "ec": edge, "lw": 1}
    return ax.text(node.x, node.y, node.label, ha="center", va="center", fontsize=8, bbox=style).get_bbox_patch()


def _key(figure: Figure, table: pd.DataFrame) -> None:
    used = [role for role in _ROLES if role in set(table.role.dropna())]
    marks = [plt.Line2D([], [], ls="", marker="s", mfc=_ROLES[r][0], mec=_ROLES[r][1]) for r in used]
    figure.legend(marks, used, loc="outside lower center", ncols=len(used), frameon=False)
