"""Figures of the transport inverse problem."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, ScalarFormatter

from study.plots.style import panels

_C = sns.color_palette("colorblind")
_REDS = sns.color_palette("Reds", 5)
METHODS = {  # colour, marker, line, label
    "quadrature": ("k", ".", ":", "exact posterior (quadrature)"),
    "hmc-dense": ("0.35", "P", "-", "HMC, dense solve (the paper's)"),
    "hmc-sparse": ("0.55", "X", "-", "HMC, sparse adjoint"),
    "laplace": (_C[5], "*", "-", "Laplace, Gauss–Newton"),
    "trained-overwritten-32": ("saddlebrown", "4", "-", "as printed, boundary overwritten"),
    "trained-printed-32": (_REDS[2], "v", "-", "CVI$_{32}$ as printed"),
    "trained-printed-64": (_REDS[3], "<", "-", "CVI$_{64}$ as printed"),
    "trained-printed-128": (_REDS[4], "^", "-", "CVI$_{128}$ as printed"),
    "trained-coupled-32": (_C[8], "h", "-", "hard taper, $N/P$"),
    "trained-hard-32": (_C[1], "d", "-", "hard taper, $N/P$, uncoupled"),
    "trained-wendland-32": (_C[6], "D", "-", "Wendland taper"),
    "trained-exact": (_C[2], "s", "-", "exact penalty (ours)"),
    "trained-two-level": (_C[9], "o", "-", "two-level (ours)"),
    "trained-multilevel": (_C[0], "o", "-", "multilevel (ours)"),
    "trained-prior": (_C[4], "H", "-", "multilevel, decoder first (ours)"),
    "trained-pointwise": ("teal", "p", "-", "point-wise, boundary met"),
    "trained-pointwise-soft": (_C[3], "P", "-", "point-wise, boundary asked for"),
    "solved-exact": (_C[2], "s", "--", "exact penalty, solved (ours)"),
    "solved-two-level": (_C[9], "o", "--", "two-level, solved (ours)"),
    "solved-hard": (_C[1], "v", "--", "hard taper, solved"),
}
_REFERENCES = ("quadrature", "hmc-sparse", "laplace")
_MOST_MAE = 1.3  # over the exact posterior's: more is an arrow
_BARS, _ARROW = {"capsize": 2, "elinewidth": 0.8}, {"marker": r"$\uparrow$", "ms": 8}
_KINDS = {"trained": "trained by descent", "solved": "last layer solved"}


def _style(method: str, filled: bool = True) -> dict:
    colour, marker, line, label = METHODS[method]
    face = colour if filled and line != "--" else "w"
    return {"color": colour, "marker": marker, "ls": line, "label": label, "ms": 4, "lw": 1.2, "mfc": face}


def _legend_below(figure: Figure, axes, ncols: int = 4) -> None:
    found = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(found.values(), found.keys(), loc="outside lower center", ncols=ncols, frameon=False)


def _of_kind(kind: str) -> list[str]:
    """The references, and the methods that are all trained or all solved."""
    return [method for method in METHODS if method in _REFERENCES or method.startswith(kind)]


def fig_accuracy_exper(table: pd.DataFrame) -> Figure:
    """Validation error of posterior draws of the field against N, over that of the exact posterior on the same problem:
    mean and standard error over replicates; trained methods above, solved ones below; arrows: out of the picture."""
    same = ["domain", "interior", "seed"]
    exact = table[table.method == "quadrature"].groupby(same).mae.first()
    table = table.assign(mae=table.mae / exact.reindex(pd.MultiIndex.from_frame(table[same])).to_numpy())
    domains = list(table.domain.unique())
    figure, axes = panels(2, len(domains), 7.6, 6.2, sharex=True, sharey="row")
    for row, (kind, title) in zip(axes, _KINDS.items()):
        for ax, domain in zip(row, domains):
            part = table[table.domain == domain]
            used = [method for method in _of_kind(kind) if method in set(part.method)]
            for place, method in enumerate(used):
                by = part[part.method == method].groupby("interior").mae
                mean, error = by.mean(), by.std() / np.sqrt(by.count())  # no value where no replicate has a posterior
                at = mean.index * 1.03 ** (place - (len(used) - 1) / 2)  # side by side
                ax.errorbar(at, mean.where(mean < _MOST_MAE), error.fillna(0), **_style(method), **_BARS)
                beyond = at[mean >= _MOST_MAE]
                ax.plot(beyond, 0 * beyond + 0.985 * _MOST_MAE, ls="", color=METHODS[method][0], **_ARROW)
                _mark_none(ax, at[mean.isna()], method)
            ax.set(xscale="log", title=f"{domain}, {title}")
        row[0].set_ylabel("error of $u$ / exact posterior's")
        row[0].set_ylim(top=min(row[0].get_ylim()[1], 1.01 * _MOST_MAE))
    for ax in axes[-1]:
        ax.set_xlabel("interior nodes $N$")
    _legend_below(figure, axes.ravel(), 3)
    return figure


def fig_ladder(table: pd.DataFrame) -> Figure:
    """What each change brings: distance to the exact posterior by rung, from above; a mark for each mesh size."""
    domains, methods = sorted(table.domain.unique(), reverse=True), [m for m in table.method.unique() if m in METHODS]
    sizes = sorted(table.nodes.unique())
    colours = dict(zip(sizes, sns.color_palette("viridis", len(sizes))))
    figure, axes = panels(len(domains), 2, 8.6, 3.2 * len(domains) + 0.6, sharex="col", sharey=True)
    for row, domain in zip(axes, domains):
        for ax, (measure, (_, band)) in zip(row, list(_QUALITY.items())[:2]):
            ax.axvspan(band[0] or 1e-4, band[1], color="0.92", zorder=0)
            for k, n in enumerate(sizes):
                part = table[(table.domain == domain) & (table.nodes == n)].groupby("method")[measure]
                at = np.arange(len(methods)) + 0.16 * (k - (len(sizes) - 1) / 2)
                low, middle, high = (part.quantile(q).reindex(methods) for q in (0.25, 0.5, 0.75))
                ax.hlines(at, low, high, color=colours[n], lw=1)
                ax.plot(middle, at, "o", color=colours[n], ms=4, label=f"{n:,} nodes")
            ax.set(xscale="log", title=domain)
            ax.xaxis.set_minor_formatter(NullFormatter())
    for ax, (name, _) in zip(axes[-1], _QUALITY.values()):
        ax.set_xlabel(name)
    axes[0, 0].set_xlim(5e-3, max(10, axes[0, 0].get_xlim()[1]))
    axes[0, 1].set_xticks([0.1, 0.2, 0.5, 0.8, 1.25, 2.0])
    axes[0, 1].xaxis.set_major_formatter(ScalarFormatter())
    axes[0, 0].set_yticks(range(len(methods)), [METHODS[m][3] for m in methods])
    axes[0, 0].invert_yaxis()
    _legend_below(figure, axes[0], len(sizes))
    return figure


_QUALITY = {
    "mean_error": ("error of the mean / exact sd", (None, 0.25)),
    "sd_ratio": ("sd / exact sd", (0.8, 1.25)),
    "w2": ("2-Wasserstein / exact sd", None),
}


def fig_posterior_quality(table: pd.DataFrame) -> Figure:
    """Distance of each posterior to the exact one against N: medians and quartiles over replicates; trained methods
    beside trained ones, solved beside solved."""
    rows = [(domain, kind) for kind in _KINDS for domain in table.domain.unique()]
    figure, axes = panels(len(rows), 3, 9.5, 2.2 * len(rows) + 1.2, sharex=True)
    for row, (domain, kind) in zip(axes, rows):
        for ax, (measure, (name, band)) in zip(row, _QUALITY.items()):
            if band:
                ax.axhspan(band[0] or 1e-4, band[1], color="0.92", zorder=0)
            for method in _of_kind(kind)[1:]:
                _medians(ax, table[(table.method == method) & (table.domain == domain)], method, measure)
            ax.set(xscale="log", yscale="log", ylabel=name, title=f"{domain}, {_KINDS[kind]}")
            ax.yaxis.set_minor_formatter(NullFormatter())
            if measure == "sd_ratio":
                low, high = ax.get_ylim()
                low, high = min(low, 0.75), max(high, 1.33)
                ticks = np.array([0.1, 0.2, 0.5, 0.8, 1.0, 1.25, 2.0, 5.0])
                ax.set_yticks(ticks[(ticks >= low) & (ticks <= high)])
                ax.yaxis.set_major_formatter(ScalarFormatter())
                ax.set_ylim(low, high)
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
    _mark_none(ax, middle.index[middle.isna()], method)


def _mark_none(ax, none: pd.Index, method: str) -> None:
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
            setup = one.setup_seconds.median()
            if (setup > 0).all():
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
    b.set_ylim(0.6 * steps.milliseconds.min(), 1.6 * steps.milliseconds.max())
    b.legend(frameon=False)
    _legend_below(figure, [a])
    return figure


_STEPS = {
    "hard-32": _style("trained-printed-32") | {"label": "hard taper (the paper's), $Q=32$"},
    "multilevel": _style("trained-multilevel") | {"label": "multilevel (ours)"},
    "two-level": _style("trained-two-level") | {"label": "two-level (ours)"},
    "exact": _style("trained-exact") | {"label": "exact"},
}


def fig_million(table: pd.DataFrame) -> Figure:
    """The same posterior from a thousand nodes to a million: trained multilevel CVI."""
    figure, (row,) = panels(1, 3, 9.5, 3.0)
    colour = METHODS["trained-multilevel"][0]
    for ax, measure, name, band in zip(
        row, ("mean_error", "sd_ratio"), (_QUALITY["mean_error"][0], _QUALITY["sd_ratio"][0]), ((0, 0.25), (0.8, 1.25))
    ):
        ax.axhspan(*band, color="0.92", zorder=0)
        ax.plot(table.nodes, table[measure], ".", color=colour, alpha=0.5, label="one problem")
        ax.plot(table.groupby("nodes")[measure].median(), "o-", color=colour, label="median")
        ax.set(xscale="log", xlabel="mesh nodes", ylabel=name)
    row[0].set(ylim=(0, max(0.6, 1.1 * table.mean_error.max())), title="(a) posterior mean")
    row[1].set(ylim=(0.6, 1.4), title="(b) posterior standard deviation")
    row[0].legend(frameon=False)
    training = (table.seconds - table.setup_seconds).groupby(table.nodes).median()
    row[2].plot(training, "o-", color=colour, label="training")
    row[2].plot(table.groupby("nodes").setup_seconds.median(), ".:", color="0.4", label="set-up: tables, compilation")
    row[2].set(xscale="log", yscale="log", xlabel="mesh nodes", ylabel="seconds, one core", title="(c) time")
    row[2].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    row[2].yaxis.set_major_formatter(ScalarFormatter())
    row[2].yaxis.set_minor_formatter(NullFormatter())
    row[2].legend(frameon=False)
    return figure


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
