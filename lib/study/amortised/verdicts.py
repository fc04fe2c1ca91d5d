"""Notebook 9: its tables, and its bars from them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from scipy.stats import chisquare

_POSTERIORS, _COST, _TRAINERS, _DESIGN = "fig_amortised", "fig_amortised_cost", "tab_trainers", "fig_next_sensor"
_BINS = 20
ENCODER = "gaussian-reverse"
NAMES = {"condition": "condition", ENCODER: "encoder"}


def calibration(ranks: pd.Series, draws: int) -> float:
    """p of a χ² test that ranks of the truth among draws are uniform."""
    counts = np.histogram(ranks, np.linspace(0, draws + 1, _BINS + 1))[0]
    return float(chisquare(counts).pvalue)


def coverage(table: pd.DataFrame, draws: int = 99) -> float:
    """Of the truth by the central 90% of as many draws, over both of its first components."""
    ranks = table.loc[table.off.notna(), ["rank_1", "rank_2"]].to_numpy()
    left = round(0.05 * (draws + 1))
    return float(np.mean((ranks >= left) & (ranks < draws + 1 - left)))


def accuracy(table: pd.DataFrame) -> pd.DataFrame:
    """By problem, region, mesh and method: quantiles of the error of the mean, sd ratios, coverage, scores, refusals.

    ``left out`` are problems without an exact posterior to be judged by.
    """
    by = table.groupby(["problem", "domain", "nodes", "method"])
    ratios = by.ratio.apply(lambda r: np.mean((r > 0.9) & (r < 1.1)))
    return pd.DataFrame(
        {
            "problems": by.size(),
            "median": by.off.median(),
            "p95": by.off.quantile(0.95),
            "worst": by.off.max(),
            "ratio within 10%": ratios,
            "coverage 90%": by.apply(coverage),
            "score": by.score.mean(),
            "exact score": by.best_score.mean(),
            "refused": by.off.apply(lambda off: off.isna().sum()),
            "left out": by.apply(lambda one: one.groupby("seed").left_out.first().sum()),
        }
    )


def posterior_bars(table: pd.DataFrame, draws: int) -> Iterator[tuple]:
    """id, bar, target, ours, met, artefact."""
    transport = table[table.problem == "transport"]
    for method, most, most_95 in (("condition", 0.05, 0.2), (ENCODER, 0.15, 0.5)):
        name, found = NAMES[method], accuracy(transport[transport.method == method])
        where = [f"{domain} {nodes:,}" for _, domain, nodes, _ in found.index]
        said = lambda column: ", ".join(f"{v:.3f} ({w})" for v, w in zip(found[column], where))  # noqa: E731, B023
        yield (
            f"amortised_{name}",
            f"{name} on {int(found.problems.min()):,} to {int(found.problems.max()):,} fresh transport problems: error "
            "of the mean in exact sd, the worse component, median and 95th percentile",
            f"≤ {most} and ≤ {most_95}",
            f"median {said('median')}; 95% {said('p95')}",
            bool((found["median"] <= most).all() and (found.p95 <= most_95).all()),
            _POSTERIORS,
        )
        yield (
            f"amortised_{name}_sd",
            f"{name}: share of problems with an sd ratio in [0.9, 1.1], the worse component",
            "≥ 0.9",
            said("ratio within 10%"),
            bool((found["ratio within 10%"] >= 0.9).all()),
            _POSTERIORS,
        )
        yield (
            f"amortised_{name}_coverage",
            f"{name}: share of problems whose truth lies in the central 90%",
            "0.87 to 0.93",
            said("coverage 90%"),
            bool(found["coverage 90%"].between(0.87, 0.93).all()),
            _POSTERIORS,
        )
        part = transport[transport.method == method]
        p = {
            (domain, nodes, of): calibration(one[of], draws)
            for (domain, nodes), one in part.groupby(["domain", "nodes"])
            for of in ("rank_1", "rank_2")
        }
        yield (
            f"amortised_{name}_calibration",
            f"{name}: simulation-based calibration, least p of both components over regions and meshes",
            "> 0.01",
            f"{min(p.values()):.3f}, the least of {len(p)}",
            min(p.values()) > 0.01,
            _POSTERIORS,
        )
    field = accuracy(table[table.problem == "field"])
    if len(field):
        medians = {method: row["median"] for (*_, method), row in field.iterrows()}
        yield (
            "amortised_field",
            f"Ten modes of log a and τ, {int(field.problems.max())} problems against HMC: median error of the mean in "
            "its sd, the worst of twelve components",
            "≤ 0.3 for condition",
            ", ".join(f"{value:.2f} ({method})" for method, value in medians.items()),
            medians["condition"] <= 0.3,
            _POSTERIORS,
        )


def cost_bars(training: pd.DataFrame, cost: pd.DataFrame, drags: pd.DataFrame) -> Iterator[tuple]:
    sizes = training[training.vary == "nodes"].groupby("nodes").median(numeric_only=True)
    net = sizes.seconds - sizes.tables
    slope = float(np.polyfit(np.log(sizes.index), np.log(net), 1)[0]) if len(sizes) > 1 else np.nan
    yield (
        "amortised_training",
        f"Decoder.train with the multilevel penalty on {sizes.index[0]:,} to {sizes.index[-1]:,} nodes: seconds on one "
        "core and exponent, the penalty's tables apart",
        "≤ 120 s, exponent < 0.1",
        ", ".join(f"{s:.0f} + {t:.0f} s ({n:,})" for n, s, t in zip(sizes.index, net, sizes.tables))
        + f"; exponent {slope:.2f}",
        bool((sizes.seconds <= 120).all() and slope < 0.1),
        _COST,
    )
    by = cost.groupby("nodes").median(numeric_only=True)
    milliseconds = lambda column: ", ".join(f"{1e3 * v:.1f} ms ({n:,})" for n, v in by[column].items())  # noqa: E731
    yield (
        "amortised_seconds",
        "A posterior on a trained decoder: condition, and the encoder",
        "≤ 50 ms and ≤ 5 ms",
        f"condition {milliseconds('condition')}; encoder {milliseconds('encoder')}",
        bool((by.condition <= 0.05).all() and (by.encoder <= 0.005).all()),
        _COST,
    )
    rate = 1 / by.encoder_batched
    yield (
        "amortised_batched",
        "Encoder in batches: problems a second",
        "≥ 2,000",
        ", ".join(f"{v:,.0f} ({n:,})" for n, v in rate.items()),
        bool((rate >= 2000).all()),
        _COST,
    )
    for nodes, faster, most in ((4000, 20, 500), (100_000, 1000, 20)):
        if nodes not in by.index:
            continue
        row = by.loc[nodes]
        ratio, even = row.laplace / row.encoder, break_even(row, "laplace")
        yield (
            f"amortised_laplace_{nodes}",
            f"Against Laplace at N = {nodes:,}: times faster per problem, and problems after which "
            "training decoder and encoder is paid back",
            f"≥ {faster} times, ≤ {most} problems",
            f"{ratio:,.0f} times ({row.laplace / row.encoder_batched:,.0f} in batches), {even:,.0f} problems",
            bool(ratio >= faster and even <= most),
            _COST,
        )

    slow = float(drags.milliseconds.quantile(0.9))
    yield (
        "explorer_drag",
        "The explorer's answer to a dragged sensor, reading to picture, kernel side: 90th percentile",
        "≤ 100 ms",
        f"{slow:.0f} ms of {len(drags)} moves",
        slow <= 100,
        _COST,
    )


def break_even(row: pd.Series, peer: str) -> float:
    """Problems after which training and the encoder's answers took less than the peer."""
    return float(np.ceil(row.training / max(row[peer] - row.encoder, 1e-12)))


def trainer_bar(table: pd.DataFrame) -> Iterator[tuple]:
    """Error of plain Adam over that of others, where the issue is set: transport at the largest N, log a with d = 8."""
    case = ["problem", "nodes", "modes", "width"]
    adam = table[table.method == "plain network, Adam"].set_index(case)
    for method, claim_id in (
        ("plain network, Gauss–Newton", "trainer_gauss_newton"),
        ("trunk by Adam, branch solved", "trainer_branch"),
    ):
        one = table[table.method == method].set_index(case)
        ratio, late = (adam["median"] / one["median"]).dropna(), one.used > 1.2 * one.seconds
        said = [f"{r:.1f} ({_named(*key)}{_late(one.loc[key]) if late[key] else ''})" for key, r in ratio.items()]
        yield (
            claim_id,
            f"{method}: how many times lower the field's error is than with a plain network by Adam in the same time",
            "≥ 5",
            ", ".join(said),
            bool((ratio[~late] >= 5).all()),
            _TRAINERS,
        )


def _late(row: pd.Series) -> str:
    return f"; not counted: it took {row.used:.0f} s for {row.seconds:.0f}"


def _named(problem: str, nodes: int, modes: int, width: int) -> str:
    return f"{'τ' if problem == 'transport' else f'log a, d = {modes}'}, N = {nodes:,}, width {width}"


def design_bar(table: pd.DataFrame) -> Iterator[tuple]:
    checked = table.dropna(subset=["exact"])
    off = float(np.abs(checked.ours - checked.exact).max())
    layouts = table[table.step < 0]
    ours, others = layouts[layouts.chosen > 0].gain.mean(), layouts[layouts.chosen == 0].gain
    yield (
        "next_sensor",
        "Expected information of a sensor, in nats: largest difference between encoder and exact posteriors; and that "
        "of the layout the encoder chooses, beside random ones",
        "≤ 0.1; above all of them",
        f"{off:.3f} at {len(checked)} places; {ours:.2f} beside {others.mean():.2f} (best of {len(others)}: "
        f"{others.max():.2f})",
        off <= 0.1 and ours >= others.max(),
        _DESIGN,
    )
