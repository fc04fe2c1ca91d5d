"""Verdicts of notebook 02: what the supplement says of mini-patches, and the bars of the penalties."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

_ERRORS, _QUALITY = "fig_mp_exper", "fig_penalty_quality"


def claims(errors: pd.DataFrame, spectrum: pd.DataFrame, patch_nodes: int) -> Iterator[tuple]:
    """Of the perturbation experiment, and of the spectrum on the finest mesh."""
    load = errors[errors.reading == "load"]
    epsilons, sampled = load.eps.unique(), load.patches[load.patches > 0]
    fewest, most = sampled.min(), sampled.max()
    smallest, largest = load.rho.min(), load.rho.max()
    mean = load.groupby(["eps", "patches", "rho"]).error_per_node.mean()
    share = {(eps, P): mean[eps, P, largest] / mean[eps, P, smallest] for eps in epsilons for P in (fewest, most, 0)}
    first = epsilons[0]
    yield (
        "taper_error_to_zero",
        "supp:fig:mp_exper",
        "The error of the tapered estimate decreases to zero as the radius grows",
        "decreases to zero",
        f"error at the largest radius / at the smallest: {share[first, fewest]:.2f} for P={fewest}, "
        f"{share[first, most]:.2f} for P={most}, {share[first, 0]:.0e} with all patches (sampling error stays)",
        "reproduced" if all(share[eps, fewest] < 0.1 for eps in epsilons) else "partly",
        _ERRORS,
    )
    ratio = {eps: mean[eps, fewest, smallest] / eps for eps in epsilons}
    literal = load[(load.patches == fewest) & (load.rho == smallest)].groupby("eps").error_literal.mean()
    yield (
        "taper_error_below_eps",
        "supp:sec:tap_exper",
        "The absolute error is orders of magnitude below ε even for the smallest patches",
        "orders of magnitude below ε",
        "; ".join(f"ε={eps:g}: {ratio[eps]:.3f} ε per node, {literal[eps] / eps:.0f} ε as printed" for eps in epsilons)
        + "; per node it scales as ε², so how far below ε it lies says nothing about accuracy",
        "partly" if all(r < 0.2 for r in ratio.values()) else "not reproduced",
        _ERRORS,
    )
    at = load[load.rho == smallest].groupby(["eps", "patches"]).error_per_node.agg(["mean", "std"])
    within = all(at.loc[(e, fewest), "mean"] <= at.loc[(e, most), ["mean", "std"]] @ [1, 2] for e in epsilons)
    yield (
        "single_patch_enough",
        "supp:sec:tap_exper",
        "A single sampled patch is within the error limits of more samples",
        "within error limits",
        f"error with P={fewest} is {at.loc[(first, fewest), 'mean'] / at.loc[(first, most), 'mean']:.1f} times that "
        f"with P={most} at the smallest radius",
        "reproduced" if within else "not reproduced",
        _ERRORS,
    )
    low, high = errors.coverage.min(), errors.coverage.max()
    yield (
        "coverage_full_range",
        "supp:fig:rad_vs_cov",
        "The radii cover the full spectrum of mesh portions",
        "full spectrum",
        f"{100 * low:.1f}% to {100 * high:.1f}% of the elements",
        "reproduced" if low < 0.05 and high > 0.95 else "partly",
        _ERRORS,
    )
    finest = spectrum[spectrum.interior == spectrum.interior.max()].set_index("method")
    yield (
        "taper_negligible_loss",
        "supp:sec:tap_exper",
        "Tapering introduces negligible loss of accuracy compared to the true error",
        "negligible",
        f"N={finest.interior.max()}, Q={patch_nodes}: the hard taper sees {100 * finest.share_1['hard']:.1f}% of a "
        f"smooth residual (k=1; two-level {100 * finest.share_1['two-level']:.0f}%) and is indefinite: "
        f"λ from {finest.lambda_min['hard']:.1f} to {finest.lambda_max['hard']:.1f}",
        "not reproduced" if finest.share_1["hard"] < 0.5 or finest.lambda_min["hard"] < 0 else "reproduced",
        _QUALITY,
    )


def bars(regions: pd.DataFrame, spectrum: pd.DataFrame, bias: pd.DataFrame, noise: pd.DataFrame) -> Iterator[tuple]:
    """``regions``: eigenvalues of the two-level and the multilevel penalty on four regions of several sizes."""
    for method, (floor, ceiling) in {"two-level": (0.5, 2.5), "multilevel": (0.4, 4.0)}.items():
        table = regions[regions.method == method]
        yield (
            f"{method}_spectrum",
            f"{method} penalty: eigenvalues relative to A⁻¹ on square, disc, star and L, {table.nodes.nunique()} sizes",
            f"inside [{floor}, {ceiling}]",
            f"{table.lambda_min.min():.2f} to {table.lambda_max.max():.2f} at N up to {table.interior.max()}",
            table.lambda_min.min() >= floor and table.lambda_max.max() <= ceiling,
            _QUALITY,
        )
    negative = spectrum[spectrum.method == "hard"].lambda_min.max()
    yield (
        "hard_taper_indefinite",
        "The hard taper has a negative eigenvalue at every size (documented defect)",
        "< 0",
        f"{negative:.2f} at best",
        negative < 0,
        _QUALITY,
    )
    worst = bias.loc[(bias.bias / bias.standard_error).abs().idxmax()]
    yield (
        "multilevel_bias",
        "Sampled coarse residuals leave the multilevel penalty unbiased (relative bias of the mean estimate)",
        "within 3 standard errors of 0",
        f"{worst.bias:+.4f} ± {worst.standard_error:.4f} (worst of {len(bias)})",
        abs(worst.bias) < 3 * worst.standard_error,
        _QUALITY,
    )
    quiet = noise[noise.interior == noise.interior.max()].groupby(["method", "patches"]).noise.mean()
    ratio = quiet["two-level"] / quiet["hard"]
    yield (
        "two_level_gradient_noise",
        "Gradient noise of the two-level penalty against the hard taper's at the same P (ratio, largest mesh; "
        "its coarse part is evaluated in full)",
        "< 0.1",
        ", ".join(f"P={P}: {value:.1e}" for P, value in ratio.items()),
        ratio.max() < 0.1,
        _QUALITY,
    )
