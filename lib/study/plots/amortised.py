"""Figures of notebook 9: posteriors from decoders and encoders, what they cost, and where a sensor should go."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from study.plots.style import bare, mosaic, panels, plain_ticks, scale_below
from study.plots.tables import Table

_C = sns.color_palette("colorblind")
_METHODS = {
    "condition": (_C[0], "conditioned"),
    "gaussian-reverse": (_C[2], "encoder, Gaussian, reverse KL"),
    "gaussian-forward": (_C[1], "encoder, Gaussian, forward KL"),
    "flow-reverse": (_C[4], "encoder, flow, reverse KL"),
    "flow-forward": (_C[3], "encoder, flow, forward KL"),
}
_PEERS = {
    "encoder": (_C[2], "decoder and encoder (ours)"),
    "laplace": (_C[5], "Laplace"),
    "solved": ("saddlebrown", "solved CVI"),
    "hmc": ("0.5", "HMC"),
}


def fig_amortised(table: pd.DataFrame) -> Figure:
    """Error of the mean and sd ratio over fresh problems (5%, median, 95%), what a score loses, and ranks."""
    figure, axes = mosaic([["off", "ratio", "score"], ["rank_1", "rank_2", "leak"]], 10.2, 6.4)
    where = ["problem", "domain", "nodes"]
    groups = list(table.groupby(where, sort=False))
    names = list(dict.fromkeys(table.problem))
    middles = [np.mean([k for k, ((problem, *_), _) in enumerate(groups) if problem == name]) for name in names]
    for key, label, line in (("off", "error of the mean / exact sd", None), ("ratio", "sd / exact sd", 1.0)):
        ax = axes[key]
        for place, (_, part) in enumerate(groups):
            _ranges(ax, place, part, key)
        ax.set(xticks=range(len(groups)), ylabel=label)
        ax.set_xticklabels([f"{domain}\n{_nodes(nodes)}" for (_, domain, nodes), _ in groups], fontsize=7)
        below = ax.secondary_xaxis(-0.15)  # which problem: one name for all its meshes
        below.set_xticks(middles, names)
        below.tick_params(length=0)
        below.spines["bottom"].set_visible(False)
        ax.set_yscale("log")
        plain_ticks(ax.yaxis)
        if line:
            ax.axhline(line, color="k", lw=0.8)
    axes["off"].set_title("(a) Error of the mean, 5%, median, 95%")
    axes["ratio"].set_title("(b) Standard deviations")
    for place, name in enumerate(names):
        part = table[table.problem == name]
        used = [method for method in _METHODS if method in set(part.method)]
        for shift, method in enumerate(used):
            one = part[part.method == method]
            lost = (one.score - one.best_score).dropna()
            at = place + 0.14 * (shift - (len(used) - 1) / 2)
            axes["score"].errorbar(
                at, lost.mean(), lost.std() / np.sqrt(len(lost)), fmt="o", ms=4, color=_METHODS[method][0]
            )
    axes["score"].set(xticks=range(len(names)), ylabel="nats", title="(c) −log q(truth), over the exact posterior's")
    axes["score"].set_xticklabels(names)
    axes["score"].set_yscale("symlog", linthresh=0.01)
    axes["score"].set_ylim(min(-0.003, axes["score"].dataLim.y0), 2 * axes["score"].dataLim.y1)
    axes["score"].axhline(0, color="k", lw=0.8)
    transport = table[table.problem == "transport"]
    for letter, key in zip("de", ("rank_1", "rank_2")):
        ax, bins = axes[key], np.linspace(0, table.draws.max() + 1, 21)
        for method in ("condition", "gaussian-reverse"):
            ranks = transport[(transport.method == method) & (transport[key] >= 0)][key]
            ax.hist(ranks, bins, histtype="step", color=_METHODS[method][0], lw=1.4)
        expected = len(ranks) / 20
        band = 1.96 * np.sqrt(expected)
        ax.axhspan(expected - band, expected + band, color="0.88", zorder=0)
        ax.set(xlabel="rank of the truth among draws", ylabel="problems", ylim=(0, 2 * expected))
        ax.set_title(f"({letter}) Ranks of $\\tau_{key[-1]}$; grey: 95% if calibrated")
    few = table[(table.problem == names[-1])]
    for method, one in few.groupby("method"):
        lost = np.sort((one.score - one.best_score).dropna())
        axes["leak"].plot(lost, (np.arange(len(lost)) + 0.5) / len(lost), color=_METHODS[method][0])
    axes["leak"].set_xscale("symlog", linthresh=1.0)
    axes["leak"].set(
        xlabel="nats lost", ylabel="share of problems", title=f"(f) The same for each problem: {names[-1]}"
    )
    used = [method for method in _METHODS if method in set(table.method)]
    handles = [axes["off"].plot([], [], "o-", color=_METHODS[m][0], ms=4)[0] for m in used]
    figure.legend(
        handles, [_METHODS[m][1] for m in used], loc="outside lower center", ncols=5, frameon=False, fontsize=7
    )
    return figure


def _nodes(count: int) -> str:
    """A power of ten as one, so that names of meshes fit side by side."""
    power = round(np.log10(count))
    return f"$10^{power}$" if count == 10**power else f"{count:,}"


def _ranges(ax, place: int, part: pd.DataFrame, key: str) -> None:
    used = [method for method in _METHODS if method in set(part.method)]
    for shift, method in enumerate(used):
        low, middle, high = part[part.method == method][key].quantile([0.05, 0.5, 0.95])
        at, colour = place + 0.16 * (shift - (len(used) - 1) / 2), _METHODS[method][0]
        ax.plot([at, at], [low, high], color=colour, lw=1.2)
        ax.plot(at, middle, "o", color=colour, ms=4)


def fig_amortised_cost(table: pd.DataFrame) -> Figure:
    """What the decoder's error depends on, training time against N, and when training is paid back."""
    sizes = sorted(table[table.measure == "cost"].nodes.unique())
    shown = sizes[-2:]
    layout = [["a", "b", "time", "error"], [*(f"even {n}" for n in shown), *["each"] * (4 - len(shown))]]
    figure, axes = mosaic(layout, 10.2, 6.0)
    runs = table[table.measure == "training"]
    for key, vary, label in (("a", "width", "units of the trunk"), ("b", "samples", "z a step, and z solved for / 50")):
        one = runs[runs.vary == vary].groupby(vary)[["median", "worst"]].median()
        axes[key].plot(one.index, 100 * one["median"], "o-", color=_C[0], ms=4, label="median")
        axes[key].plot(one.index, 100 * one.worst, "o--", color=_C[0], ms=4, mfc="w", label="worst")
        if key == "b":
            places = runs[runs.vary == "places"].groupby("places")[["median", "worst"]].median()
            axes[key].plot(places.index / 50, 100 * places["median"], "s-", color=_C[1], ms=4)
            axes[key].plot(places.index / 50, 100 * places.worst, "s--", color=_C[1], ms=4, mfc="w")
            label = "z a step (blue); z solved for / 50 (orange)"
        axes[key].set(xscale="log", yscale="log", xlabel=label, ylabel="error of the field, %")
        plain_ticks(axes[key].xaxis)
        plain_ticks(axes[key].yaxis)
    axes["a"].legend(frameon=False)
    axes["a"].set_title("(a) Width")
    axes["b"].set_title("(b) Samples")
    by = runs[runs.vary == "nodes"].groupby("nodes").median(numeric_only=True)
    peer = table[table.measure == "emulation"].groupby("nodes").median(numeric_only=True)
    axes["time"].plot(by.index, by.seconds - by.tables, "o-", color=_C[2], ms=4, label="training")
    axes["time"].plot(by.index, by.tables, "o--", color=_C[2], ms=4, mfc="w", label="tables of the penalty")
    axes["time"].plot(peer.index, peer.seconds, "X-", color="0.5", ms=5, label="400 exact solves")
    axes["time"].set(xscale="log", yscale="log", xlabel="nodes", ylabel="seconds", title="(c) Time of training")
    axes["time"].legend(frameon=False, fontsize=7)
    axes["error"].plot(by.index, 100 * by["median"], "o-", color=_C[2], ms=4, label="decoder")
    axes["error"].plot(peer.index, 100 * peer["median"], "X-", color="0.5", ms=5, label="exact solves, kernels")
    axes["error"].set(xscale="log", yscale="log", xlabel="nodes", ylabel="error of the field, %", title="(d) Its error")
    axes["error"].legend(frameon=False, fontsize=7)
    cost = table[table.measure == "cost"].groupby("nodes").median(numeric_only=True)
    number = np.logspace(0, 5, 60)
    for letter, nodes in zip("ef", shown):
        ax, row = axes[f"even {nodes}"], cost.loc[nodes]
        for name, (colour, label) in _PEERS.items():
            ax.plot(number, row[name] * number + (row.training if name == "encoder" else 0), color=colour, label=label)
        ax.set(
            xscale="log", yscale="log", xlabel="problems", ylabel="seconds in all", title=f"({letter}) {nodes:,} nodes"
        )
    axes[f"even {shown[0]}"].legend(frameon=False, fontsize=7, loc="upper left")
    ax = axes["each"]
    columns = {
        "encoder_batched": ("encoder, in batches", "^", _C[2]),
        "encoder": ("encoder", "o", _C[2]),
        "condition": ("conditioned", "s", _C[0]),
    }
    for name, (label, marker, colour) in columns.items():
        ax.plot(cost.index, 1e3 * cost[name], marker=marker, color=colour, ms=4, label=label)
    for name, (colour, label) in list(_PEERS.items())[1:]:
        ax.plot(cost.index, 1e3 * cost[name], "o-", color=colour, ms=4, label=label)
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="nodes",
        ylabel="milliseconds a problem",
        title="(g) One posterior, training apart",
    )
    ax.set_ylim(top=2e2 * ax.get_ylim()[1])
    ax.legend(frameon=False, fontsize=7, ncols=3, loc="upper left")
    return figure


def fig_next_sensor(table: pd.DataFrame) -> Figure:
    """What all readings together are expected to tell of τ if one more is taken here, map by map; circles: the sensors
    that stand, star: the best next one."""
    steps = [step for step in sorted(table.step.unique()) if step >= 0]
    figure, (row,) = panels(1, len(steps) + 1, 2.5 * (len(steps) + 1), 3.0)
    stand = table[(table.step >= 0) & (table.chosen > 0)].sort_values("step")
    for number, (ax, step) in enumerate(zip(row, steps)):
        part = table[table.step == step]
        triangles = _without_long(Triangulation(part.x, part.y))
        drawn = ax.tricontourf(triangles, part.gain, 14, cmap="viridis")
        before, now = stand[stand.step < step], stand[stand.step == step]
        ax.plot(now.x, now.y, "*", color="#d62728", mec="w", ms=12, label="best next sensor")
        ax.plot(before.x, before.y, "o", mfc="none", mec="w", mew=2.6, ms=7)
        ax.plot(before.x, before.y, "o", mfc="none", mec="k", mew=1.2, ms=7, label="sensors that stand")
        ax.set_title(f"({'abcdefgh'[number]}) sensor {number + 1}")
        bare(ax)
        scale_below(ax, drawn, "nats")
    layouts, ax = table[table.step < 0], row[-1]
    others, ours = layouts[layouts.chosen == 0].gain, layouts[layouts.chosen > 0].gain
    ax.hist(others, 10, color="0.75", label="random layouts")
    for value in ours:
        ax.axvline(value, color="#d62728", lw=1.6)
    ax.plot([], [], color="#d62728", label="placed one by one")
    ax.set(xlabel=f"information in {len(steps)} readings, nats", ylabel="layouts")
    ax.set_title(f"({'abcdefgh'[len(steps)]}) Whole layouts")
    ax.set_ylim(top=1.35 * ax.get_ylim()[1])
    ax.legend(frameon=False, fontsize=7, loc="upper left")
    figure.legend(*row[len(steps) - 1].get_legend_handles_labels(), loc="outside lower left", ncols=2, frameon=False)
    return figure


def _without_long(triangles: Triangulation) -> Triangulation:
    """Triangles across the bays of the region are left out."""
    x, y = triangles.x[triangles.triangles], triangles.y[triangles.triangles]
    longest = np.max(np.hypot(x - np.roll(x, 1, axis=1), y - np.roll(y, 1, axis=1)), axis=1)
    triangles.set_mask(longest > 3.5 * np.median(longest))
    return triangles


def tab_trainers(table: pd.DataFrame) -> Table:
    """Median error of the field by trainer, in percent, with the seconds it took."""
    cases = table[["problem", "nodes", "modes", "width"]].drop_duplicates().to_numpy()
    heads = [f"{'τ' if p == 'transport' else f'log a, d = {m}'}, N = {n:,}, {w} units" for p, n, m, w in cases]
    rows = []
    for method, of_method in table.groupby("method", sort=False):
        row = [method]
        for case in cases:
            one = of_method[(of_method[["problem", "nodes", "modes", "width"]].to_numpy() == case).all(axis=1)]
            row.append("–" if one.empty else f"{100 * one['median'].median():.2g}% ({one.used.median():.0f} s)")
        rows.append(row)
    return Table("l" + "r" * len(cases), ["Decoder, trainer", *heads], [rows])
