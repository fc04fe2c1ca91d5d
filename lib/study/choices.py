"""Choices behind the Jura and aquifer verdicts that the paper does not state, and what other choices would do.

Everything is judged on training data held out; no test site or well is scored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from study.aquifer import verdicts as aquifer_verdicts


class Choice(NamedTuple):
    """``tested``: where the alternative was tried; ``claims``: verdicts that hang on it."""

    experiment: str
    choice: str
    paper: str
    ours: str
    alternative: str
    tested: str
    claims: tuple[str, ...] = ()


_HERE, _THERE = "here", "in its notebook"
LISTED = (
    Choice(
        "Jura",
        "form of a(z, u, ∇u)",
        "not given; cites Rudin et al.",
        "c(z)/√(|∇u|² + β²), theirs",
        "a network of z, u and |∇u|²",
        _THERE,
        ("jura_nonlinear", "jura_mae_nld"),
    ),
    Choice(
        "Jura",
        "length of training",
        "not given",
        "by cross-validation, at most 400 steps",
        "1,500 steps",
        _HERE,
        ("jura_vae_outperformed", "jura_mae_vae", "jura_mae_dt"),
    ),
    Choice(
        "Jura",
        "which fields obey the equation",
        "x ↦ μ(x, z), one z a field",
        "x ↦ μ(x, z(s, x)), what the model predicts with",
        "as printed",
        _THERE,
        ("jura_drop_in",),
    ),
    Choice("Jura", "scale of the metals", "not given", "logarithms, by cross-validation", "as measured", _THERE),
    Choice("Jura", "ε, weight of the KL term", "not given", "by cross-validation", "3 and 4 values", _THERE),
    Choice("Jura", "prior of the coefficients", "standard normal", "sd by cross-validation", "1 and 0.3", _THERE),
    Choice("Jura", "start of the coefficients", "not given", "zero: a = 1, no transport", "at random", "before"),
    Choice("Jura", "values on the boundary", "not known, so free", "the same", "", ""),
    Choice(
        "Jura", "secondary metals", "Co predicts itself, Cd and Cu swapped", "as in the loader", "as printed", _THERE
    ),
    Choice(
        "aquifer",
        "lengths of the kernels of log a and f",
        "not given",
        "50 and 30 km, fixed",
        "a third of these, and twice as long",
        _HERE,
    ),
    Choice("aquifer", "Adam's rate", "the default, 0.001", "0.01", "0.001, twice as many cycles", _HERE),
    Choice("aquifer", "sds of log a and f", "not given", "by cross-validation", "3 pairs", _THERE),
    Choice("aquifer", "cycles of ε", "until it is terminated", "by cross-validation", "1, 3 and 5", _THERE),
    Choice(
        "aquifer",
        "what counts as a test well",
        "242 measurements of 1980–2000",
        "all 312 wells read then, and new ones alone",
        "",
        _THERE,
        ("aquifer_order", "aquifer_gain", "aquifer_mechanism"),
    ),
    Choice("aquifer", "depth or head", "the table has depth", "both", "", _THERE, ("aquifer_extrapolates",)),
    Choice("aquifer", "values on the boundary", "not known, so free", "the same", "", ""),
)


def depends_on(claim_id: str) -> str:
    """The choices on which a verdict hangs."""
    return "; ".join(f"{one.choice} (ours: {one.ours})" for one in LISTED if claim_id in one.claims)


def listed() -> pd.DataFrame:
    rows = [one._asdict() | {"claims": ", ".join(one.claims)} for one in LISTED]
    return pd.DataFrame(rows)


def jura_options(found: pd.DataFrame, long_steps: int) -> pd.DataFrame:
    """Held-out error relative to the training mean's, mean over metals, at each model's best length and the longest."""
    mean = found.groupby(["model", "steps"], sort=False).relative.mean()
    best = mean.groupby("model", sort=False).idxmin()
    picked = [(model, int(steps)) for model, steps in best] + [(model, long_steps) for model in best.index]
    options = [f"{model}, {steps:,} steps" for model, steps in picked]
    return pd.DataFrame({"experiment": "Jura", "option": options, "error": [mean[pair] for pair in picked]})


def aquifer_options(found: pd.DataFrame, names: dict[tuple[float, float, float], str]) -> pd.DataFrame:
    """Held-out error, feet, by option, response and split, at its best number of cycles; ``names`` by both lengths and
    rate."""
    keys = ["log_a_length", "source_length", "learning_rate", "response", "split"]
    best = found.loc[found.groupby(keys).mae.idxmin()]
    option = [names[row.log_a_length, row.source_length, row.learning_rate] for row in best.itertuples()]
    measure = best.response + np.where(best.split == "full", ", blocks", ", rings")
    return pd.DataFrame({"experiment": "aquifer", "option": option, "measure": measure, "error": best.mae})


def zero_away(fields: dict[str, pd.DataFrame], away: np.ndarray, simulated: bool) -> Iterator[tuple]:
    """The claim that f and log a vanish away from the data, by option; it hangs on them where they disagree."""
    judged = {name: aquifer_verdicts.zero_away(one, away) for name, one in fields.items()}
    ours, *_ = judged.values()
    verdicts = {verdict for _, verdict in judged.values()}
    verdict, hangs_on = (ours[1], "") if len(verdicts) == 1 else ("partly", "lengths of the kernels of log a and f")
    said = "; ".join(f"{name}: {value}" for name, (value, _) in judged.items())
    if simulated:
        said, verdict = f"{aquifer_verdicts.NO_DATA} ({said})", "not testable"
    yield (
        "aquifer_zero_away",
        "fig:aquifer_add_figures",
        "Away from the data the mean source is zero, and so is the logarithm of the diffusion coefficient",
        "zero (picture)",
        f"root mean square over the tenth of the plain farthest from wells (over {np.quantile(away, 0.9):.0f} km) "
        f"against that within 10 km. {said}",
        verdict,
        "tab_choices_tested",
        hangs_on,
    )
