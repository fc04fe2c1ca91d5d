"""Why a trained decoder gets away with the taper."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from study.plots.style import panels
from study.plots.transport import METHODS, _style


def fig_why(table: pd.DataFrame) -> Figure:
    """(a) residual left below a wavenumber, (b) a tapered run that goes on, (c) the exact penalty's variants."""
    figure, ((a, b, c),) = panels(1, 3, 10.5, 3.6)
    left = table[table.measure == "left"]
    nodes = left.nodes.max()
    for method in [m for m in METHODS if m in set(left.method)]:
        one = left[(left.method == method) & (left.nodes == nodes)].groupby("wavenumber").left.median()
        one = one[one > 0]
        a.plot(one.index, np.sqrt(one), **_style(method) | {"marker": "", "lw": 1.6})
    a.set(xscale="log", yscale="log", xlabel="wavenumber", ylabel="residual below it / load ($H^{-1}$ norms)")
    a.set_title(f"(a) what training leaves, {nodes:,} nodes")
    a.legend(frameon=False, fontsize=7)
    run = table[table.measure == "run"]
    for method, marker in zip(run.method.unique(), "os"):
        part = run[run.method == method].groupby("after")
        for column, line, name in (("tapered", "-", "tapered, whole sum"), ("exact_penalty", "--", "exact norm")):
            middle = part[column].median()
            b.plot(middle.index, middle, line, marker=marker, ms=3, color=METHODS[method][0])
            b.plot([], [], line, color="0.3", label=name if method == run.method.iloc[0] else None)
        b.plot([], [], marker, color=METHODS[method][0], label=METHODS[method][3])
    b.set(xscale="log", xlabel="training steps", ylabel="penalty / load's", title="(b) the taper, trained on and on")
    if b.dataLim.y0 > 0:  # the tapered sum need not be
        b.set_yscale("log")
    else:
        b.axhline(0, color="k", lw=0.6)
        b.set_yscale("symlog", linthresh=1e-6)
    b.legend(frameon=False, fontsize=7)
    variants = table[table.measure == "variant"]
    names = list(variants.variant.unique())
    c.axhspan(1e-4, 0.25, color="0.92", zorder=0)
    for k, name in enumerate(names):
        errors = variants[variants.variant == name].mean_error
        c.plot(np.full(len(errors), k), errors, "o", color=METHODS["trained-exact"][0], alpha=0.6, ms=4)
    c.set_xticks(
        range(len(names)), [{"as above": "unchanged"}.get(name, name) for name in names], rotation=30, ha="right"
    )
    c.set(yscale="log", ylim=(5e-3, None), ylabel="error of the mean / exact sd", title="(c) exact penalty, variants")
    return figure
