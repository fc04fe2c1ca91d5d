"""What to use when: the README's tables of methods and penalties, with what was measured.

.venv/bin/python benchmarks/readme_tables.py
"""

from __future__ import annotations

import pandas as pd
from tables import HERE, markdown, over_problems

from machinery.files import write_text

ROOT = HERE.parent
_NODES = 4000
_METHODS = [  # names, what it does, needs, use it, its row in peers.csv
    (
        "`Laplace`",
        "Gauss–Newton to the mode, then a Gaussian with the curvature there",
        "a few solves, each with an adjoint per sensor",
        "first, always",
        "Laplace, Gauss–Newton",
    ),
    (
        "`GaussianVI`, `FlowVI`",
        "the best Gaussian, or a flow for skew and long tails, through exact solves",
        "thousands of solves; tens of thousands",
        "when `check()` doubts Laplace",
        "GaussianVI, exact solves (ours)",
    ),
    (
        "`HMC`, `NUTS`",
        "samples, in the coordinates of another method's q",
        "thousands of solves",
        "for a reference",
        "HMC, sparse adjoint (ours)",
    ),
    (
        "`CVI`",
        "the paper's, corrected: decoder and Gaussian q trained together, the equation as a penalty",
        "no solve (`around=Laplace()`: a few)",
        "when u cannot be solved for",
        "CVI, multilevel, trained (ours)",
    ),
    (
        "`SolvedCVI`",
        "the same, the decoder's last layer solved; equations linear in u",
        "no solve",
        "with few unknowns",
        "SolvedCVI, two-level (ours)",
    ),
    (
        "`exact`",
        "quadrature",
        "a few hundred solves for two unknowns",
        "up to three unknowns",
        "Quadrature (the reference)",
    ),
]
_PENALTIES = [  # name, what it is, cost of a step, method of fig_time_compar, of fig_ladder
    (
        "`ExactPenalty`",
        "the dual norm rᵀA⁻¹r, A factorised once",
        "the network on all nodes, a sparse solve",
        "exact",
        "trained-exact",
    ),
    (
        "`TwoLevelPenalty`",
        "a few patch solves and a coarse solve",
        "a few patches; the network on all nodes",
        "two-level",
        "trained-two-level",
    ),
    (
        "`MultilevelPenalty`",
        "patches on every level of a hierarchy, sampled residuals",
        "a few patches, on any mesh",
        "multilevel",
        "trained-multilevel",
    ),
    (
        "`TaperedPenalty`",
        "the paper's: rows of A⁻¹ cut off by a taper, here with q trained apart from it",
        "a few patches; one solve per centre beforehand",
        "hard-32",
        "trained-hard-32",
    ),
    (
        "`PointwisePenalty`",
        "squared strong residual at random places, as in physics-informed networks",
        "second derivatives of μ",
        "",
        "trained-pointwise",
    ),
]


def methods() -> str:
    middle = over_problems(pd.read_csv(HERE / "peers.csv")).xs(_NODES, level="nodes")
    rows = [(name, what, needs, _said(middle.loc[key]), use) for name, what, needs, use, key in _METHODS]
    amortised = ("`Decoder`, `Encoder`", "trained once for all z of the prior", "to train: no readings, no solve")
    rows.insert(-1, (*amortised, _amortised(), "for many sets of readings"))
    return markdown(pd.DataFrame(rows, columns=["method", "what it does", "needs", "time, error", "use it"]))


def _said(row: pd.Series) -> str:
    return f"{_time(row.seconds)}, {row.mean_error:.2f} sd" if row.status == "ok" else row.status


def _time(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms" if seconds < 0.1 else f"{seconds:.2g} s"


def _amortised() -> str:
    cost = pd.read_csv(ROOT / "figures/fig_amortised_cost.csv")
    cost = cost[(cost.measure == "cost") & (cost.nodes == _NODES)].iloc[0]
    found = pd.read_csv(ROOT / "figures/fig_amortised.csv", low_memory=False)
    found = found[(found.problem == "transport") & (found.domain == "star") & (found.nodes == 10_000)]
    off = found.groupby("method").off.median()
    asked = {"condition": ("conditioned", cost.condition), "gaussian-reverse": ("encoded", cost.encoder)}
    return "; ".join(f"{how} {_time(seconds)}, {off[name]:.2f} sd" for name, (how, seconds) in asked.items()) + (
        f" (decoder trained in {_time(cost.get('decoder_training', cost.training))})"
    )


def penalties() -> str:
    cost = pd.read_csv(ROOT / "figures/fig_time_compar.csv")
    cost = cost[cost.measure == "step"].groupby(["method", "nodes"]).milliseconds.median()
    ladder = pd.read_csv(ROOT / "figures/fig_ladder.csv")
    off = ladder[(ladder.domain == "star") & (ladder.nodes == 500)].groupby("method").mean_error.median()
    rows = []
    for name, what, needs, timed, judged in _PENALTIES:
        times = " / ".join(f"{cost[timed, nodes]:.3g}" for nodes in (1_000, 100_000)) if timed else "–"
        rows.append((name, what, needs, times, f"{off[judged]:.2f}"))
    names = ["penalty", "what it is", "a step costs", "ms on 10³ / 10⁵ nodes", "error, sd"]
    return markdown(pd.DataFrame(rows, columns=names))


def text() -> str:
    """The README with its two tables as they are measured now."""
    page = (ROOT / "README.md").read_text()
    for name, table in {"methods": methods(), "penalties": penalties()}.items():
        before, rest = page.split(f"<!-- {name} -->\n")
        page = f"{before}<!-- {name} -->\n{table}<!-- /{name} -->" + rest.split(f"<!-- /{name} -->")[1]
    return page


if __name__ == "__main__":
    write_text(ROOT / "README.md", text())
