"""Choices behind the Jura and aquifer verdicts that the paper does not state: what we took, and what else was tried."""

from __future__ import annotations

from typing import NamedTuple


class Choice(NamedTuple):
    """``tested``: where the alternative was tried; ``claims``: verdicts that hang on it."""

    experiment: str
    choice: str
    paper: str
    ours: str
    alternative: str
    tested: str
    claims: tuple[str, ...] = ()


_TABLE, _CV = "scored with the others", "by cross-validation, in its notebook"
LISTED = (
    Choice(
        "Jura",
        "form of a(z, u, ∇u)",
        "not given; cites Rudin et al.",
        "c(z)/√(|∇u|² + β²), theirs",
        "a network of z, u and |∇u|²",
        _CV,
        ("jura_nonlinear", "jura_mae_nld"),
    ),
    Choice(
        "Jura",
        "length of training",
        "not given",
        "by cross-validation, at most 400 steps",
        "1,500 steps",
        _TABLE,
        ("jura_vae_outperformed", "jura_mae_vae", "jura_mae_dt"),
    ),
    Choice(
        "Jura",
        "which fields obey the equation",
        "x ↦ μ(x, z), one z a field",
        "x ↦ μ(x, z(s, x)), what the model predicts with",
        "as printed",
        _CV,
        ("jura_drop_in",),
    ),
    Choice("Jura", "scale of the metals", "not given", "logarithms, by cross-validation", "as measured", _CV),
    Choice("Jura", "ε, weight of the KL term", "not given", "by cross-validation", "3 and 4 values", _CV),
    Choice("Jura", "prior of the coefficients", "standard normal", "sd by cross-validation", "1 and 0.3", _CV),
    Choice("Jura", "start of the coefficients", "not given", "zero: a = 1, no transport", "at random", "before"),
    Choice("Jura", "values on the boundary", "not known, so free", "the same", "", ""),
    Choice("Jura", "secondary metals", "Co predicts itself, Cd and Cu swapped", "as in the loader", "as printed", _CV),
    Choice(
        "aquifer",
        "lengths of the kernels of log a and f",
        "not given",
        "50 and 30 km, fixed",
        "",
        "",
        ("aquifer_zero_away",),
    ),
    Choice(
        "aquifer",
        "Adam's rate",
        "the default, 0.001",
        "0.01",
        "",
        "",
        ("aquifer_order", "aquifer_gain"),
    ),
    Choice("aquifer", "sds of log a and f", "not given", "by cross-validation", "3 pairs", _CV),
    Choice("aquifer", "cycles of ε", "until it is terminated", "by cross-validation", "1, 3 and 5", _CV),
    Choice(
        "aquifer",
        "what counts as a test well",
        "242 measurements of 1980–2000",
        "all 312 wells read then, and new ones alone",
        "",
        _CV,
        ("aquifer_order", "aquifer_gain", "aquifer_mechanism"),
    ),
    Choice("aquifer", "depth or head", "the table has depth", "both", "", _CV, ("aquifer_extrapolates",)),
    Choice("aquifer", "values on the boundary", "not known, so free", "the same", "", ""),
)


def depends_on(claim_id: str) -> str:
    """The choices on which a verdict hangs."""
    return "; ".join(f"{one.choice} (ours: {one.ours})" for one in LISTED if claim_id in one.claims)
