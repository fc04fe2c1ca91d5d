"""Figures of the transport inverse problem."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, ScalarFormatter

from .style import panels

_C = sns.color_palette("colorblind")
_REDS = sns.color_palette("Reds", 5)
METHODS = {  # colour, marker, line, label
    "quadrature": ("k", ".", ":", "exact posterior (quadrature)"),
    "hmc-dense": ("0.35", "P", "-", "HMC, dense solve (the paper's)"),
    "hmc-sparse": ("0.55", "X", "-", "HMC, sparse adjoint"),
    "trained-hard-32": (_REDS[2], "v", "-", "CVI$_{32}$ (the paper's)"),
    "trained-hard-64": (_REDS[3], "<", "-", "CVI$_{64}$ (the paper's)"),
    "trained-hard-128": (_REDS[4], "^", "-", "CVI$_{128}$ (the paper's)"),
    "trained-wendland-32": (_C[1], "D", "-", "Wendland taper"),
    "trained-pointwise": (_C[4], "p", "-", "point-wise (PINN)"),
    "solved-hard": (_REDS[2], "v", "--", "hard taper, solved"),
    "solved-exact": (_C[2], "s", "-", "exact penalty, solved (ours)"),
    "solved-two-level": (_C[0], "o", "-", "two-level, solved (ours)"),
}


def _style(method: str, filled: bool = True) -> dict:
    colour, marker, line, label = METHODS[method]
    face = colour if filled and line != "--" else "w"
    return {"color": colour, "marker": marker, "ls": line, "label": label, "ms": 4, "lw": 1.2, "mfc": face}


def _legend_below(figure: Figure, axes, ncols: int = 4) -> None:
    found = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=ncols, frameon=False)


def fig_accuracy_exper(table: pd.DataFrame) -> Figure:
    """Validation error of posterior draws of the field against N: mean and standard error over replicates."""
    figure, (row,) = panels(1, table.domain.nunique(), 7.2, 3.9, sharey=True)
    for ax, (domain, part) in zip(row, table.groupby("domain", sort=False)):
        for method in METHODS:
            one = part[part.method == method].groupby("interior").mae  # a gap where no replicate has a posterior
            if len(one):
                mean, error = one.mean(), one.std() / np.sqrt(one.count())
                ax.errorbar(mean.index, mean, error.fillna(0), capsize=2, elinewidth=0.8, **_style(method))
        ax.set(xscale="log", yscale="log", xlabel="interior nodes $N$", title=f"{domain}")
    row[0].set_ylabel("mean absolute error of $u$\n(mean ± standard error)")
    _legend_below(figure, row, 3)
    return figure


_QUALITY = {
    "mean_error": ("error of the mean / exact sd", (None, 0.25)),
    "sd_ratio": ("sd / exact sd", (0.8, 1.25)),
    "w2": ("2-Wasserstein / exact sd", None),
}


def fig_posterior_quality(table: pd.DataFrame) -> Figure:
    """Distance of each posterior to the exact one against N: medians and quartiles over replicates."""
    domains = list(table.domain.unique())
    figure, axes = panels(len(domains), 3, 9.5, 2.5 * len(domains) + 0.9, sharex=True)
    shown = [method for method in METHODS if method != "quadrature"]
    for row, domain in zip(axes, domains):
        for ax, (measure, (name, band)) in zip(row, _QUALITY.items()):
            if band:
                ax.axhspan(band[0] or 1e-4, band[1], color="0.92", zorder=0)
            for method in shown:
                _medians(ax, table[(table.method == method) & (table.domain == domain)], method, measure)
            ax.set(xscale="log", yscale="log", ylabel=name, title=domain)
            ax.yaxis.set_minor_formatter(NullFormatter())
            if measure == "sd_ratio":
                ax.set_yticks([0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0])
                ax.yaxis.set_major_formatter(ScalarFormatter())
                low, high = ax.get_ylim()
                ax.set_ylim(min(low, 0.75), max(high, 1.33))
        row[0].set_ylim(bottom=1e-3)
        row[2].set_ylim(1e-3, max(row[2].get_ylim()[1], 0.15))
    for ax in axes[-1]:
        ax.set_xlabel("interior nodes $N$")
    _legend_below(figure, axes.ravel())
    return figure


def _medians(ax, table: pd.DataFrame, method: str, measure: str) -> None:
    """Median and quartiles by N; a gap in the line, and a cross above, where no replicate has a posterior."""
    if table.empty:
        return
    by = table.groupby("interior")[measure]
    middle = by.median()
    ax.fill_between(middle.index, by.quantile(0.25), by.quantile(0.75), color=METHODS[method][0], alpha=0.15)
    ax.plot(middle.index, middle, **_style(method))
    none = middle.index[middle.isna()]
    if len(none):
        above = {"transform": ax.get_xaxis_transform(), "clip_on": False, "label": "no minimum in any replicate"}
        ax.plot(none, 0 * none + 0.97, "x", color=METHODS[method][0], ms=5, **above)


def fig_time_compar(table: pd.DataFrame) -> Figure:
    """Total run-time and set-up alone against N; cost of one training step up to a million nodes."""
    figure, ((a, b),) = panels(1, 2, 9.5, 4.4)
    runs = table[table.measure == "run"]
    for method in METHODS:
        one = runs[(runs.method == method) & (runs.status == "ok")].groupby("interior")
        if len(one):
            style = _style(method)
            a.plot(one.seconds.median().index, one.seconds.median(), **style)
            if method != "quadrature":
                setup = one.setup_seconds.median().clip(lower=1e-3)
                a.plot(setup.index, setup, color=style["color"], lw=0.8, ls=":", marker=".", ms=3)
        over = runs[(runs.method == method) & (runs.status == "over budget")].groupby("interior").projected_seconds
        if len(over):
            a.plot(over.median().index, over.median(), **_style(method, filled=False) | {"ls": "", "label": None})
    a.plot([], [], color="0.4", lw=0.8, ls=":", marker=".", ms=3, label="set-up alone")
    a.plot([], [], color="0.35", ls="", marker="P", mfc="w", ms=4, label="over budget (projected, at least)")
    a.set(
        xscale="log", yscale="log", xlabel="interior nodes $N$", ylabel="seconds, one core", title="(a) total run-time"
    )
    steps = table[table.measure == "step"]
    for method, one in steps.groupby("method", sort=False):
        cost = one.groupby("interior").milliseconds.median()
        b.plot(cost.index, cost, **_STEPS[method])
    b.set(xscale="log", yscale="log", xlabel="interior nodes $N$", ylabel="milliseconds", title="(b) one training step")
    b.yaxis.set_minor_formatter(NullFormatter())
    b.set_ylim(1.0, 1.6 * steps.milliseconds.max())
    b.legend(frameon=False)
    _legend_below(figure, [a])
    return figure


_STEPS = {
    "hard-32": _style("trained-hard-32") | {"label": "hard taper, $Q=32$, $P=16$"},
    "two-level": _style("solved-two-level") | {"label": "two-level"},
    "exact": _style("solved-exact") | {"label": "exact", "color": _C[9], "mfc": _C[9]},
}


def fig_calibration(table: pd.DataFrame) -> Figure:
    """Ranks of the true τ among draws of q(τ), and the distance of τ from q's mean against a χ² with two degrees."""
    figure, (row,) = panels(1, 3, 7.2, 2.5)
    bins = np.linspace(0, table.draws.iloc[0] + 1, 11)
    expected = len(table) / 10
    spread = 1.96 * np.sqrt(expected * 0.9)
    for ax, name, label in zip(row, ("rank_1", "rank_2"), (r"$\tau_1$", r"$\tau_2$")):
        ax.hist(table[name], bins, color=_C[0], edgecolor="w")
        ax.axhspan(expected - spread, expected + spread, color="0.85", zorder=0, label="95% if calibrated")
        ax.axhline(expected, color="k", lw=0.8)
        ax.set(xlabel=f"rank of the true {label} among draws", ylabel="problems", ylim=(0, 2.4 * expected))
    row[0].legend(frameon=False, loc="upper left")
    mass = np.sort(1 - np.exp(-table.distance / 2))  # of χ²₂ below the distance
    level = (np.arange(len(mass)) + 0.5) / len(mass)
    row[2].plot([0, 1], [0, 1], "k", lw=0.8)
    row[2].plot(mass, level, color=_C[0])
    row[2].set(xlabel="credible level of $q$", ylabel="share of problems inside", aspect="equal")
    return figure
