"""Run-time and accuracy from a thousand nodes to a million: what is compared, verdicts and bars."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from study.transport import comparison

_MILLION, _TIME = "fig_million", "fig_time_compar"


def judged(runs: pd.DataFrame, truths: pd.DataFrame, truth_nodes: int) -> pd.DataFrame:
    """Distance of each run to the exact posterior of its mesh, or of ``truth_nodes`` where its own is not known."""
    known = set(truths.nodes)
    held_to = runs.nodes.where(runs.nodes.isin(known), min(truth_nodes, max(known)))
    together = pd.concat([runs.assign(nodes=held_to, mesh=runs.nodes), truths], ignore_index=True)
    found = comparison.against_exact(together)
    found = found[found.method != "quadrature"]
    found = found.assign(held_to=found.nodes, nodes=found.mesh.astype(int))
    return found[["nodes", "interior", "seed", "held_to", "mean_error", "sd_ratio", "w2", "seconds", "setup_seconds"]]


def million_bars(table: pd.DataFrame) -> Iterator[tuple]:
    """id, bar, target, ours, met, artefact."""
    by = table.groupby("nodes")
    error, ratio, count = by.mean_error.median(), by.sd_ratio.median(), by.size()
    yield (
        "million_posterior",
        f"Trained multilevel CVI from {error.index[0]:,} to {error.index[-1]:,} nodes: median error of the mean in "
        f"exact sd; sd ratio ({', '.join(f'{n}' for n in count)} problems)",
        "≤ 0.25; 0.8 to 1.25",
        f"{comparison.by_size(error, '{:.2f}')}; {comparison.by_size(ratio, '{:.2f}')}",
        bool((error <= 0.25).all() and ratio.between(0.8, 1.25).all()),
        _MILLION,
    )
    training = (table.seconds - table.setup_seconds).groupby(table.nodes).median()
    slope = np.polyfit(np.log(training.index), np.log(training), 1)[0]
    yield (
        "million_exponent",
        f"Exponent in N of the run-time of trained multilevel CVI, {training.index[0]:,} to {training.index[-1]:,} "
        "nodes (set-up apart)",
        "< 0.1",
        f"{slope:.3f} ({training.iloc[0]:.0f} s to {training.iloc[-1]:.0f} s; set-up "
        f"{by.setup_seconds.median().iloc[0]:.0f} s to {by.setup_seconds.median().iloc[-1]:.0f} s)",
        bool(slope < 0.1),
        _MILLION,
    )


def claims(runs, cost, dense_sizes, trained_sizes, sizes, steps: int) -> Iterator[tuple]:
    """id, source, claim, the paper's value, ours, verdict, artefact."""
    seconds = comparison.typical_seconds(runs)
    exponents = {m: comparison.exponent(runs, m) for m in ("hmc-dense", "hmc-sparse", "trained-printed-32")}
    yield (
        "hmc_cubic",
        "fig:time_compar",
        "Run-time of HMC grows with O(N³), that of its Solve",
        "3",
        f"exponent {exponents['hmc-dense']:.2f} with the dense solve up to {dense_sizes[-1]:,} nodes, "
        f"{exponents['hmc-sparse']:.2f} with the sparse adjoint up to {sizes[-1]:,}",
        "partly" if exponents["hmc-dense"] > 1.5 else "not reproduced",
        _TIME,
    )
    step = cost[cost.method == "hard-32"].set_index("nodes").milliseconds
    growth = step.iloc[-1] / step.iloc[0]
    yield (
        "cvi_step_constant",
        "fig:time_compar",
        "A step of the regulariser costs O(N_mini-patch²), whatever the mesh",
        "no growth with N",
        f"hard taper: {step.iloc[0]:.1f} ms at {step.index[0]:,} nodes, {growth:.2f} times that at {step.index[-1]:,}; "
        "its set-up needs one solve per row of A⁻¹, exponent of the whole run "
        f"{exponents['trained-printed-32']:.2f}",
        "reproduced" if growth < 1.5 else "not reproduced",
        _TIME,
    )
    finest, largest = trained_sizes[-1], max({*dense_sizes} & {*trained_sizes} & {*sizes})
    sparse = seconds.loc["hmc-sparse", finest] / seconds.loc["trained-printed-32", finest]
    dense = seconds.loc["hmc-dense", largest] / seconds.loc["trained-printed-32", largest]
    yield (
        "cvi_cheaper",
        "fig:time_compar",
        "CVI has a substantially reduced cost compared with HMC",
        "substantially below HMC on dense meshes",
        f"{steps:,} steps of CVI_32 take {1 / dense:.3f} of dense HMC's time at {largest:,} nodes (projected where "
        f"over budget) and {1 / sparse:.2f} of sparse HMC's at {finest:,}",
        "reproduced" if min(sparse, dense) > 2 else "partly" if dense > 2 else "not reproduced",
        _TIME,
    )


def bars(runs, hmc, large, sizes, dense_sizes, solved_sizes) -> Iterator[tuple]:
    """id, bar, target, ours, met, artefact."""
    seconds = comparison.typical_seconds(runs)
    ours, to_r_hat = seconds.loc["solved-two-level"], hmc.groupby("nodes").seconds_to_r_hat.median()
    ahead = {n: to_r_hat[n] / ours[n] for n in [n for n in sizes if n >= 4000] or sizes[-1:]}
    yield (
        "two_level_before_sparse_hmc",
        "SolvedCVI, two-level, to its accuracy, set-up included, against sparse HMC to R-hat < 1.01 (times "
        "faster), N ≥ 4,000",
        "> 1",
        ", ".join(f"{ratio:.0f} at {n:,} ({ours[n]:.1f} s against {to_r_hat[n]:.0f} s)" for n, ratio in ahead.items()),
        min(ahead.values()) > 1,
        _TIME,
    )
    largest = max({*dense_sizes} & {*sizes})
    yield (
        "two_level_before_dense_hmc",
        "SolvedCVI, two-level, against dense HMC (times faster, its time projected where over budget), N ≥ 2,000",
        "≥ 10",
        f"{seconds.loc['hmc-dense', largest] / ours[largest]:.0f} at {largest:,}",
        bool(seconds.loc["hmc-dense", largest] / ours[largest] >= 10),
        _TIME,
    )
    slope = comparison.exponent(large, "solved-two-level")
    yield (
        "two_level_exponent",
        f"Exponent in N of the run-time of SolvedCVI, two-level, set-up included, {solved_sizes[0]:,} to "
        f"{solved_sizes[-1]:,} nodes",
        "< 0.15",
        f"{slope:.3f} ({ours[solved_sizes[0]]:.1f} s to {ours[solved_sizes[-1]]:.1f} s)",
        slope < 0.15,
        _TIME,
    )
