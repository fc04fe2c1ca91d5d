"""Figures of the mini-patch approximation."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from study.plots.style import METHODS, bare, panels, triangulation


def fig_minipatch(table: pd.DataFrame) -> Figure:
    """A mini-patch: centre, nei_Γ, the ring around, the active elements."""
    return _patch(table, r"$\mathrm{nei}_\Gamma(i)$: test nodes")


def fig_submesh(table: pd.DataFrame) -> Figure:
    """The smallest mini-patch, around nei_Δ(i)."""
    return _patch(table, r"$\mathrm{nei}_\Delta(i)$: neighbours")


def _patch(table: pd.DataFrame, tests: str) -> Figure:
    figure, ((ax,),) = panels(1, 1, 4.6, 3.2)
    mesh, nodes = triangulation(table)
    active = table.loc[table.kind == "triangle", "active"].to_numpy(bool)
    corners = np.stack([mesh.x, mesh.y], axis=1)[mesh.triangles[active]]
    ax.triplot(mesh, color="0.75", lw=0.4)
    ax.add_collection(PolyCollection(corners, facecolor="#cfe3f5", edgecolor="#4c7fb0", lw=0.6))
    for role, style, label in (
        (1, {"c": "w", "s": 14, "edgecolor": "#4c7fb0", "lw": 0.8}, "other nodes of the patch"),
        (2, {"c": "#1f4e79", "s": 14}, tests),
        (3, {"c": "#d62728", "s": 36, "marker": "*"}, "centre $i$"),
    ):
        chosen = nodes[nodes.role == role]
        ax.scatter(chosen.x, chosen.y, zorder=3, label=label, **style)
    rho = table.loc[table.kind == "radius", "rho"].iloc[0]
    if np.isfinite(rho):
        angle, centre = np.linspace(0, 2 * np.pi, 200), nodes[nodes.role == 3].iloc[0]
        ax.plot(
            centre.x + rho * np.cos(angle),
            centre.y + rho * np.sin(angle),
            "--",
            c="#d62728",
            lw=0.9,
            label=r"radius $\rho$",
        )
    ax.add_collection(PolyCollection([], facecolor="#cfe3f5", edgecolor="#4c7fb0", label="active elements"))
    bare(ax)
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


_READINGS = {"load": r"load $w \sim N(0, \epsilon^2 A)$", "function": r"source $w(x) = \sum w_i \phi_i$"}


def fig_mp_exper(table: pd.DataFrame) -> Figure:
    """Errors of the tapered estimate against radius and P, for both readings of w, and coverage."""
    figure, axes = panels(2, 4, 10.5, 4.6)
    for row, (reading, name) in zip(axes, _READINGS.items()):
        part = table[table.reading == reading]
        for ax, eps in zip(row, sorted(part.eps.unique(), reverse=True)):
            one = part[part.eps == eps]
            _errors(ax, one, "error_per_node")
            ax.axhline(eps, color="k", ls="--", lw=0.8)
            ax.annotate(r"$\epsilon$", (one.rho.max(), eps), va="bottom", ha="right", fontsize=8)
            literal = one[one.patches == 1].groupby("rho").error_literal.mean()
            ax.plot(literal.index, literal, color="0.5", ls=":", label=r"$P=1$, as printed ($\sqrt{R}$)")
            lowest = 1e-3 * one[one.patches == 1].error_per_node.mean()
            ax.set(
                ylabel="absolute error per node",
                title=f"{name}, $\\epsilon={eps:g}$",
                yscale="log",
                ylim=(lowest, 10 * max(eps, literal.max())),
            )
        _errors(row[2], part[part.eps == part.eps.max()], "error_relative")
        row[2].set(
            ylabel="error / $R$, unbiased ($N/P$)",
            title=f"{name}, corrected, $\\epsilon={part.eps.max():g}$",
            yscale="log",
            ylim=(1e-3, 10),
        )
    _coverage(axes[0, 3], table)
    axes[1, 3].set_axis_off()
    handles, labels = axes[0, 0].get_legend_handles_labels()
    axes[1, 3].legend(handles, labels, loc="center", frameon=False)
    return figure


def _errors(ax, table: pd.DataFrame, column: str) -> None:
    colours = sns.color_palette("viridis", 4)
    for colour, (P, one) in zip(colours, sorted(table.groupby("patches"), key=lambda item: item[0] or 10**9)):
        by = one.groupby("rho")[column]
        mean, error = by.mean(), by.std() / np.sqrt(by.count())
        mean, error = mean[mean > 1e-16], error[mean > 1e-16]
        label = f"$P={P}$" if P else "all patches"
        ax.plot(mean.index, mean, color=colour, label=label, lw=1.2)
        ax.fill_between(mean.index, (mean - error).clip(lower=1e-3 * mean), mean + error, color=colour, alpha=0.2, lw=0)
    ax.set(xlabel=r"taper radius $\rho$", xscale="log")


def _coverage(ax, table: pd.DataFrame) -> None:
    coverage = table.groupby("rho").coverage.mean()
    ax.plot(coverage.index, 100 * coverage, color="k")
    ax.set(xlabel=r"taper radius $\rho$", ylabel="elements in a patch (%)", title="average mesh coverage", xscale="log")


def fig_penalty_quality(table: pd.DataFrame) -> Figure:
    """Eigenvalues relative to A⁻¹ against N, shares by wavenumber, gradient noise against P."""
    figure, ((a, b, c),) = panels(1, 3, 10.5, 3.2)
    for method, (colour, marker, label) in METHODS.items():
        style = {"color": colour, "marker": marker, "ms": 4, "lw": 1.2}
        one = table[(table.method == method) & (table.measure == "spectrum")].sort_values("interior")
        a.plot(one.interior, one.lambda_max, label=label, **style)
        a.plot(one.interior, one.lambda_min, ls="--", **style)
        largest = one[one.interior == one.interior.max()].iloc[0]
        shares = largest.filter(like="share_").dropna()
        b.plot([int(name.split("_")[1]) for name in shares.index], shares.astype(float), label=label, **style)
        noise = table[(table.method == method) & (table.measure == "noise")]
        noise_mesh = int(noise.interior.max())
        noise = noise[noise.interior == noise_mesh].groupby("patches").noise.mean()
        ring = {"ms": 8, "mfc": "none"} if method == "hard" else {}  # Wendland's lies upon it
        c.plot(noise.index, noise, label=label, **style | ring)
    for level in (0, 1):
        a.axhline(level, color="k", lw=0.6)
    a.margins(y=0.08)
    a.set(
        xscale="log",
        yscale="symlog",
        xlabel="interior nodes $N$",
        ylabel=r"$\lambda_{\max}$ (solid), $\lambda_{\min}$ (dashed)",
    )
    a.set_title(r"(a) eigenvalues relative to $A^{-1}$ (ideal: 1)")
    b.axhline(1, color="k", lw=0.6)
    b.set(
        xscale="log",
        yscale="log",
        xlabel="wavenumber $k$ of the residual",
        ylabel=r"$r^\top B r \;/\; r^\top A^{-1} r$",
    )
    b.set_title(f"(b) share of the penalty seen, N = {int(table.interior.max()):,}")
    c.set(xscale="log", yscale="log", xlabel="patches per step $P$", ylabel=r"$E\|\hat g - g\|^2 / \|g\|^2$")
    c.set_title(f"(c) noise of the gradient, N = {noise_mesh:,}")
    handles, labels = a.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    return figure
