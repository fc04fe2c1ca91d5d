"""Figures of notebook 8: the 64-parameter benchmark, and a groundwater field."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from study.plots.style import bare, field, mosaic, plain_ticks, scale_below, triangulation
from study.plots.tables import Table, bold

_C = sns.color_palette("colorblind")
_METHODS = {
    "Laplace": (_C[5], "v"),
    "GaussianVI, low-rank": (_C[1], "s"),
    "GaussianVI, full": (_C[0], "o"),
    "FlowVI": (_C[2], "^"),
    "CVI": (_C[3], "D"),
    "HMC": ("k", "*"),
}
_SIDE, _NEAR = 8, 0.25


def fig_benchmark(table: pd.DataFrame) -> Figure:
    """Truth, mean and sd of ln θ on the 8 × 8 squares; marginals; each method's means against the chains', and time."""
    shown = sorted(table[table.kind == "draw"].cell.unique())
    layout = [["truth", "mean", "sd", "off"], [*(f"cell {k:.0f}" for k in shown[:3]), "time"]]
    figure, axes = mosaic(layout, 10.2, 5.6)
    cells = table[(table.kind == "cell") & (table.elements == "Q1")]
    right = cells[cells.method.str.startswith("HMC")].set_index("cell")
    truth = table[table.kind == "truth"].set_index("cell")["mean"]
    limit = max(np.abs(truth).max(), right["mean"].abs().max())
    for key, values, label, title in (
        ("truth", truth, "ln θ", "(a) Truth"),
        ("mean", right["mean"], "ln θ", "(b) Posterior mean (chains)"),
        ("sd", right.sd, "sd of ln θ", "(c) Posterior sd (prior: 2)"),
    ):
        span = {"cmap": "viridis"} if key == "sd" else {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        squares = values.to_numpy().reshape(_SIDE, _SIDE)
        drawn = axes[key].imshow(squares, origin="lower", extent=(0, 1, 0, 1), **span)
        bare(axes[key])
        scale_below(axes[key], drawn, label)
        axes[key].set_title(title)
    for letter, k in zip("efg", shown):
        ax = axes[f"cell {k:.0f}"]
        draws = table[(table.kind == "draw") & (table.cell == k)]["mean"]
        ax.hist(draws, 40, density=True, color="0.8", label="chains")
        x = np.linspace(draws.min() - 1, draws.max() + 1, 200)
        for method in ("Laplace", "GaussianVI, full"):
            one = cells[(cells.method == method) & (cells.cell == k)]
            if len(one):
                mean, sd = one["mean"].iloc[0], one.sd.iloc[0]
                normal = np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
                ax.plot(x, normal, color=_METHODS[method][0], lw=1.4, label=method)
        ax.axvline(truth[k], color="k", lw=0.8, ls="--", label="truth")
        ax.set(xlabel="ln θ", yticks=[], title=f"({letter}) Square {k:.0f}")
        axes["truth"].add_patch(Rectangle((k % _SIDE / _SIDE, k // _SIDE / _SIDE), *2 * [1 / _SIDE], fc="none", ec="k"))
    first = axes[f"cell {shown[0]:.0f}"]
    first.set_ylim(top=1.8 * first.get_ylim()[1])
    first.legend(frameon=True, framealpha=1, edgecolor="w", fontsize=7, ncols=2, loc="upper center")
    others = cells[~cells.method.str.startswith("HMC")]
    for place, (method, (colour, marker)) in enumerate(_METHODS.items()):
        one = others[others.method == method].set_index("cell")
        if not len(one):
            continue
        off = (one["mean"] - right["mean"]).abs() / right.sd
        jitter = place + np.linspace(-0.3, 0.3, len(off))
        axes["off"].plot(jitter, np.sort(off), marker, color=colour, ms=2.5)
        axes["time"].plot(one.seconds.iloc[0], off.median(), marker, color=colour, ms=6, label=method)
        axes["time"].plot(2 * [one.seconds.iloc[0]], off.quantile([0.05, 0.95]), color=colour, lw=1)
    axes["off"].axhline(_NEAR, color="k", lw=0.8, ls=":")
    used = [method for method in _METHODS if method in set(others.method)]
    axes["off"].set(ylabel="|mean − chains'| / sd", title="(d) 64 means of ln θ", yscale="log")
    axes["off"].set_xticks([list(_METHODS).index(method) for method in used])
    axes["off"].set_xticklabels([method.replace(", ", "\n") for method in used], fontsize=6)
    plain_ticks(axes["off"].yaxis)
    axes["time"].plot(right.seconds.iloc[0], right.error.median(), "*", color="k", ms=9, label="chains (MC error)")
    axes["time"].set(xscale="log", yscale="log", xlabel="seconds of one core", ylabel="error of the mean / sd")
    axes["time"].set_title("(h) Time to an accuracy")
    axes["time"].set_xticks([1, 10, 100, 1000, 10000], ["1", "10", "100", "1,000", "10,000"])
    axes["time"].set_xlim(1, 10000)
    plain_ticks(axes["time"].yaxis)
    axes["time"].set_ylim(top=40 * axes["time"].get_ylim()[1])
    axes["time"].legend(frameon=False, fontsize=6, loc="upper right")
    return figure


def tab_benchmark(table: pd.DataFrame) -> Table:
    """Each approximation against the chains on the same elements."""
    rows = []
    for elements, part in table.groupby("elements", sort=False):
        most = part.near.max()
        rows.append(
            [
                [
                    f"{row.method} ({elements})",
                    bold(str(row.near)) if row.near == most else str(row.near),
                    f"{row.median:.2f}",
                    f"{row.worst:.2f}",
                    f"{row.least_ratio:.2f} to {row.largest_ratio:.2f}",
                    f"{row.k:.2f}",
                    f"{100 * row.field:.0f}%" if row.field else "",
                    f"{row.seconds:.0f}",
                ]
                for row in part.itertuples(index=False)
            ]
        )
    head = ["Method", "near, of 64", "median", "worst", "sd ratio", "k", "decoder", "seconds"]
    return Table("lrrrlrrr", head, rows)


def fig_groundwater(table: pd.DataFrame) -> Figure:
    """The true log-conductivity, its posterior mean and sd, the head; coverage by method, and cost against the mesh."""
    figure, axes = mosaic([["truth", "mean", "sd"], ["head", "coverage", "cost"]], 10.2, 6.2)
    mesh, nodes = triangulation(table)
    wells = table[table.kind == "well"]
    for key, label, title, cmap in (
        ("truth", "g = log conductivity", "(a) Truth", "viridis"),
        ("mean", "g", "(b) Posterior mean (Laplace), wells", "viridis"),
        ("sd", "sd of g", "(c) Posterior sd (Laplace)", "magma"),
        ("head", "head u", "(d) Head at the posterior mean", "cividis"),
    ):
        shared = nodes[["truth", "mean"]].to_numpy() if key in ("truth", "mean") else nodes[key].to_numpy()
        field(axes[key], mesh, nodes[key], label, cmap, vmin=shared.min(), vmax=shared.max())
        axes[key].set_title(title)
        if key in ("mean", "head"):
            axes[key].plot(wells.x, wells.y, "o", color="w", mec="k", ms=3, mew=0.6)
    river = nodes[nodes.on_river > 0].sort_values("x")
    axes["head"].plot(river.x, river.y, color="#1f77b4", lw=3, solid_capstyle="round")
    judged = table[table.kind == "problem"]
    groups = dict(list(judged.groupby(["method", "modes"]).coverage))
    used = sorted(groups, key=lambda key: (key[1], list(_METHODS).index(key[0])))
    for place, (method, modes) in enumerate(used):
        one = groups[method, modes]
        axes["coverage"].plot(
            place + np.linspace(-0.2, 0.2, len(one)), one, _METHODS[method][1], color=_METHODS[method][0]
        )
        axes["coverage"].plot([place - 0.3, place + 0.3], 2 * [one.mean()], color=_METHODS[method][0])
    axes["coverage"].axhspan(0.85, 0.95, color="0.9", zorder=0)
    axes["coverage"].set(
        ylabel="coverage of 90% intervals",
        title="(e) Coverage, problem by problem; lines: means",
        ylim=(min(judged.coverage.min(), 0.65) - 0.05, 1),
    )
    axes["coverage"].set_xticks(range(len(used)))
    labels = [f"{method.replace(', ', chr(10))}\nd = {modes:.0f}" for method, modes in used]
    axes["coverage"].set_xticklabels(labels, fontsize=5.5)
    cost = table[table.kind == "cost"].groupby("nodes").median(numeric_only=True)
    axes["cost"].plot(cost.index, 1e3 * cost.step, "D-", color=_C[3], label="step of CVI, multilevel")
    axes["cost"].plot(cost.index, 1e3 * cost.gradient, "o-", color="0.4", label="exact gradient")
    axes["cost"].plot(cost.index, 1e3 * cost.laplace, "v-", color=_C[5], label="Laplace's posterior")
    axes["cost"].set(
        xscale="log", yscale="log", xlabel="nodes", ylabel="milliseconds", title="(f) Cost against the mesh"
    )
    plain_ticks(axes["cost"].yaxis)
    axes["cost"].legend(frameon=False, fontsize=7)
    return figure
