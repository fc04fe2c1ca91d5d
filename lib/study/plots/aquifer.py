"""Charts of the aquifer experiment. A table from a simulated aquifer has ``simulated`` set, and its figure says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from study.plots.style import bare, marked, panels, plain_ticks, scale_below

_C = sns.color_palette("colorblind")
MODELS = {  # colour, line
    "GP 5/2": ("k", "-"),
    "GP 3/2": ("k", ":"),
    "GP 5/2 + linear": ("0.5", "-"),
    "GP 3/2 + linear": ("0.5", "--"),
    "GP 3/2 + base level": ("0.5", ":"),
    "deep GP": (_C[5], "-"),
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
                if some.empty:
                    continue
                size = 6 + 50 * np.minimum(np.abs(some.error) / limit, 2)
                style = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "ec": "0.3", "lw": 0.3, "marker": marker}
                drawn = ax.scatter(some.x, some.y, c=some.error, s=size, **style)
            scale_below(ax, drawn, "predicted − observed altitude, ft")
            trained = "on all wells of 1960–1979" if subset == "all" else "within 60 km of the laboratory"
            ax.set_title(f"{model}, trained {trained}\nMAE {np.abs(mine.error).mean():.0f} ft (triangles: new wells)")
            bare(ax)
            ax.set(xlim=(15, 320), ylim=(85, 330))
    return marked(figure, table)


def fig_aquifer_distance(table: pd.DataFrame) -> Figure:
    """Error at new wells against the distance to the nearest training well."""
    responses = [response for response in table.response.unique() if response != "depth by head"]  # errors of the head
    figure, (row,) = panels(1, len(responses), 4.2 * len(responses), 3.4, sharey=True)
    for ax, response in zip(row, responses):
        part = table[table.response == response]
        for model, mine in part.sort_values("km").groupby("model", sort=False):
            colour, line = MODELS[model]
            ax.plot(mine.km, mine.mae_feet, color=colour, ls=line, marker=".", label=model)
        ax.set(xscale="log", yscale="log", title=response, xlabel="distance to the nearest training well, km")
        for axis in (ax.xaxis, ax.yaxis):
            plain_ticks(axis)
    row[0].set_ylabel("mean absolute error at new wells, ft")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    return marked(figure, table)


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
    return marked(figure, table)


def fig_aquifer_mesh(table: pd.DataFrame) -> Figure:
    """Error and predictions as the mesh is refined."""
    figure, (row,) = panels(1, 2, 8.0, 3.2)
    for k, (split, part) in enumerate(table.groupby("split", sort=False)):
        label = {"full": "all test wells", "near": "beyond 60 km"}[split]
        finest = part.loc[part.nodes.idxmax(), "mae"]
        for how, some in part.groupby("how", sort=False):
            style = {"color": _C[k], "marker": "o" if how == "fitted" else "s", "ls": "-" if how == "fitted" else "--"}
            row[0].plot(some.nodes, some.mae / finest, label=f"{label}, {how}", **style)
            row[1].plot(some.nodes, some.from_finest, **style)
    row[0].set(ylabel="MAE of the head / that on the finest mesh")
    row[0].set_ylim(top=row[0].get_ylim()[1] + 0.4 * np.ptp(row[0].get_ylim()))
    row[1].set(ylabel="difference to the finest mesh\nat test wells, ft (rms)")
    row[0].legend(frameon=False, fontsize=7)
    for ax in row:
        ax.set(xlabel="nodes", xscale="log")
        ax.set_xticks(sorted(table.nodes.unique()), [f"{n:,}" for n in sorted(table.nodes.unique())], fontsize=6)
        ax.xaxis.set_minor_locator(NullLocator())
    return marked(figure, table)


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
    row[0].legend(frameon=False, fontsize=7, loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    return figure
