"""Figures of the Jura experiment."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, NullLocator

from study.plots.style import bare, ends, panels, plain_ticks

_C = sns.color_palette("colorblind")
MODELS = {  # colour, line
    "GPDK": ("0.4", "-"),
    "VAE": ("k", "-"),
    "VAE-DT": (_C[0], "-"),
    "VAE-NLD": (_C[1], "-"),
    "VAE-NLD (network)": (_C[1], ":"),
    "VAE-DT, faithful": (_C[0], "--"),
    "VAE-NLD, faithful": (_C[1], "--"),
    "VAE + Laplacian": (_C[2], "-"),
    "VAE + gradient": (_C[4], "-"),
    "best (ours)": (_C[3], "-"),
}


def fig_jura_cv(table: pd.DataFrame) -> Figure:
    """Grouped cross-validation: MAE relative to the training mean's, averaged over the metals."""
    keys = ["model", "beta", "eps", "prior_sd", "log", "penalty", "mesh_nodes", "steps"]
    mean = table.groupby(keys, dropna=False, sort=False).relative.mean().reset_index()
    figure, (row,) = panels(1, 3, 9.6, 3.6, sharey=True)
    for model, (colour, line) in MODELS.items():
        mine = mean[mean.model == model]
        if mine.empty or mine.steps.isna().all():
            continue
        by_steps, by_eps = mine.groupby("steps").relative.min(), mine.groupby("eps").relative.min()
        row[0].plot(by_steps.index, by_steps, color=colour, ls=line, marker=".", label=model)
        row[1].plot(by_eps.index, by_eps, color=colour, ls=line, marker=".")
    plain = mean[mean.model == "VAE"].groupby(["log", "beta"]).relative.min()
    for log, part in plain.groupby("log"):
        label = "log scale" if log else "raw scale"
        row[2].plot(
            part.index.get_level_values("beta"), part, color="k", ls="-" if log else ":", marker=".", label=label
        )
    row[0].set(
        xlabel="training steps", ylabel="held-out MAE / training mean's\n(best of the other settings)", xscale="log"
    )
    row[1].set(xlabel="ε (small: strong penalty)", xscale="log")
    row[2].set(xlabel="β (plain VAE)", xscale="log")
    row[2].legend(frameon=False)
    for ax, name in zip(row, ("steps", "eps", "beta")):
        ax.set_xticks(sorted(mean[name].dropna().unique()))
        ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
        ax.xaxis.set_minor_locator(NullLocator())
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return figure


def fig_jura_maps(table: pd.DataFrame) -> Figure:
    """Predicted concentration and the width of its 90% interval, with the sites."""
    cells, sites = table[table.kind == "cell"], table[table.kind != "cell"]
    figure, axes = panels(2, table.metal.nunique(), 2.6 * table.metal.nunique(), 5.0)
    for column, (metal, part) in zip(axes.T, cells.groupby("metal", sort=False)):
        there = sites[sites.metal == metal]
        norm = LogNorm(*np.quantile(there.value, [0.02, 0.98]))
        _cells(column[0], part, part.q50, "mg/kg", "viridis", norm)
        marks = {"training": "o", "validation": "s"}
        for kind, marker in marks.items():
            some = there[there.kind == kind]
            style = {"c": some.value, "norm": norm, "cmap": "viridis", "ec": "k", "lw": 0.25}
            column[0].scatter(some.x, some.y, s=8, marker=marker, label=f"{kind} sites", **style)
        column[0].set_title(f"{metal}: median, sites observed")
        _cells(column[1], part, part.q95 - part.q05, "mg/kg", "magma", LogNorm())
        column[1].scatter(there.x, there.y, s=1, c="w", alpha=0.6, lw=0)
        column[1].set_title(f"{metal}: width of the 90% interval")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False)
    return figure


def fig_jura_coefficients(table: pd.DataFrame) -> Figure:
    """What VAE-DT has learned: a(x), transport τ, and how far ten seeds agree on them."""
    figure, axes = panels(2, table.metal.nunique(), 2.6 * table.metal.nunique(), 5.0)
    longest, norm = np.hypot(table.tau_x, table.tau_y).max(), plt.Normalize(table.log_a.min(), table.log_a.max())
    for column, (metal, part) in zip(axes.T, table.groupby("metal", sort=False)):
        _cells(column[0], part, part.log_a, "log a (relative)", "cividis", norm)
        some = part.iloc[::7]
        style = {"angles": "xy", "width": 0.006, "pivot": "mid", "scale_units": "width", "scale": 6 * longest}
        arrows = column[0].quiver(some.x, some.y, some.tau_x, some.tau_y, **style)
        column[0].quiverkey(
            arrows, 0.14, 0.86, longest, f"|τ| = {longest:.2g}", labelpos="N", fontproperties={"size": 6}
        )
        length = np.hypot(part.tau_x, part.tau_y).mean()
        column[0].set_title(f"{metal}: log a, τ (mean |τ| {length:.3f})")
        _cells(column[1], part, part.log_a_sd, "sd of log a", "magma", None)
        column[1].set_title(f"{metal}: sd between seeds (of τ: {part.tau_sd.mean():.3f})")
    return figure


def fig_jura_errors(table: pd.DataFrame) -> Figure:
    """Validation sites: predicted against observed, and where the errors are."""
    figure, axes = panels(2, table.metal.nunique(), 2.6 * table.metal.nunique(), 5.6)
    for column, (metal, part) in zip(axes.T, table.groupby("metal", sort=False)):
        for model, one in part.groupby("model", sort=False):
            column[0].scatter(one.observed, one["median"], s=9, color=MODELS[model][0], alpha=0.6, lw=0, label=model)
        span = [part.observed.min(), part.observed.max()]
        column[0].plot(span, span, "k", lw=0.8)
        column[0].set(xscale="log", yscale="log", title=metal, xlabel="observed, mg/kg")
        for axis in (column[0].xaxis, column[0].yaxis):
            plain_ticks(axis)
        best = part[part.model == part.model.iloc[-1]]
        error = best["median"] - best.observed
        limit = np.quantile(np.abs(error), 0.95)
        style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "ec": "0.3", "lw": 0.3}
        drawn = column[1].scatter(best.x, best.y, c=error, s=8 + 40 * np.abs(error) / np.abs(error).max(), **style)
        figure.colorbar(drawn, ax=column[1], label="mg/kg", shrink=0.7, extend=ends(drawn))
        column[1].set_title(f"error of {best.model.iloc[0]}")
        bare(column[1])
    axes[0, 0].set_ylabel("predicted median, mg/kg")
    axes[0, 0].legend(frameon=False, fontsize=7)
    return figure


def fig_jura_resplits(table: pd.DataFrame) -> Figure:
    """Random splits of all sites: MAE of each model against a rival on the same split, in per cent."""
    figure, axes = panels(1, table.metal.nunique(), 2 + 2.1 * table.metal.nunique(), 3.6, sharey=True)
    table = table.assign(pair=table.model + "\nagainst " + table.against)
    for ax, (metal, part) in zip(axes[0], table.groupby("metal", sort=False)):
        sns.boxplot(part, x="gain", y="pair", ax=ax, color="0.9", fliersize=0, linewidth=0.8)
        sns.stripplot(part, x="gain", y="pair", ax=ax, size=2.5, color=_C[0], alpha=0.7)
        ax.axvline(0, color="k", lw=0.8)
        ax.set(title=metal, xlabel="difference of MAE, %\n(below 0: better)", ylabel="")
    return figure


def _cells(ax: Axes, part: pd.DataFrame, values, label: str, cmap: str, norm) -> None:
    xs, ys = np.unique(part.x.round(3)), np.unique(part.y.round(3))
    image = np.full((len(ys), len(xs)), np.nan)
    image[np.searchsorted(ys, part.y.round(3)), np.searchsorted(xs, part.x.round(3))] = values
    drawn = ax.pcolormesh(xs, ys, image, cmap=cmap, norm=norm, shading="nearest", rasterized=True)
    scale = ax.figure.colorbar(drawn, ax=ax, label=label, shrink=0.75, extend=ends(drawn))
    if isinstance(norm, LogNorm):
        plain_ticks(scale.ax.yaxis)
    left, bottom = xs.max() - 1, ys.min()
    ax.plot([left, left + 1], [bottom, bottom], "k", lw=1.5)
    ax.text(left + 0.5, bottom + 0.06, "1 km", ha="center", va="bottom", fontsize=6)
    bare(ax)
