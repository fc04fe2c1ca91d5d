"""benchmarks/README.md from the benchmarks' CSV files and their bars: .venv/bin/python benchmarks/tables.py"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from machinery import claims
from machinery.files import write_text

HERE = Path(__file__).parent
SECTIONS = {
    "peers": (
        "The inverse problem with other tools",
        "peers.py",
        "Two transport problems of notebook 03, one thread; medians. Samplers and DeepXDE have 150 s, others run to "
        "their end. *to_accuracy*: seconds until the mean is, and stays, within 0.25 exact standard deviations and the "
        "standard deviations within a factor 1.25, compilation included; empty unless each problem got there. CUQIpy "
        "samples in Laplace's coordinates. DeepXDE meets the boundary exactly and has the prior and 1/σ²; left-out "
        "readings chose one of six weights and rates, which is not counted in its time, and its answer is a point. "
        "*Uncoupled*: z is drawn wider than q, our change; as printed: notebook 03.",
    ),
    "peers_fields": (
        "An unknown field with other tools",
        "peers_fields.py",
        "Notebook 08's groundwater problem, one thread. Errors of the means in standard deviations of our own chains, "
        "*chains_…*; *to_accuracy*: seconds until their median is, and stays, at most 0.25; coverage of the true "
        "field by 90% intervals; seed 0 compiles first. CUQIpy samples in Laplace's coordinates. Both trained rows "
        "take the best of twelve settings, by the evidence bound on another problem, which their times do not count.",
    ),
    "peers_benchmark": (
        "The benchmark of 64 coefficients by what one would pick instead",
        "peers_benchmark.py",
        "Notebook 08's, bilinear elements, one thread. Errors of the means of ln θ in standard deviations of that "
        "notebook's chains, which took an hour of one core; *to_accuracy*: seconds until 58 of 64 are, and stay, "
        "within 0.25. CUQIpy samples in Laplace's coordinates, for at most 300 s.",
    ),
    "peers_fem": (
        "Finite elements: assembly and solve",
        "peers_fem.py",
        "Elements, or unknowns, per second. DOLFINx compiles its form and makes the matrix's pattern beforehand, not "
        "counted, and so does our *matrix again*; scikit-fem finds the pattern each time, as our *matrix* does, and on "
        "small meshes above all is faster: TensorFlow's calls cost tens of milliseconds.",
    ),
    "peers_penalty": (
        "The penalty: a step with its gradient",
        "peers_penalty.py",
        "Q = 32, P = 16, four samples of z. *Naive*: the paper in plain TensorFlow, with a dense A⁻¹ and patches found "
        "in Python. scikit-fem gives the residual alone.",
    ),
    "frameworks": (
        "Other frameworks",
        "frameworks.py",
        "One network with the multilevel penalty on 5,000 nodes, 200 equal steps of gradient descent from equal "
        "weights, in double precision; PyTorch 2.5.1, JAX 0.6.2.",
    ),
    "scaling": (
        "How cost grows",
        "scaling.py",
        "One thread, single precision, as CVI trains; the floor is the arithmetic (tanh too) and traffic that a step "
        "cannot do without, at this machine's rates. To 3·10⁶ nodes only the multilevel penalty was taken; a step of "
        "the exact and the two-level penalty evaluates the network at all nodes.",
    ),
    "core": ("The core", "core.py", "Medians of runs that alternate."),
    "cluster": ("Beyond one process", "cluster.py", "Scheduler and workers started separately, on one machine."),
    "cluster_estimate": (
        "What the full grid would need",
        "cluster_estimate.py",
        "Ten replicates of all methods on all meshes up to a size, on 100 cores: extrapolated from measured costs with "
        "the fitted exponents, between their lower and upper bounds. What takes more than 64 GB is left out (dense HMC "
        "from 100,000 nodes). Each method by itself: [cluster_estimate.csv](cluster_estimate.csv).",
    ),
    "under_fire": (
        "Under fire",
        "under_fire.py",
        "Each scenario: tried, survived, lost. Lost is what ends in a traceback, in two complaints or none, in a wrong "
        "or damaged artefact, or in finished work done again. *code* is a digest of the library and the scenarios.",
    ),
    "front_door": (
        "What a newcomer waits for",
        "front_door.py",
        "A fresh clone in an empty folder, on two cores with nothing else at work.",
    ),
    "explore": ("The explorer", "explore.py", "Milliseconds in the kernel for a move."),
}


def text() -> str:
    parts = [
        "# Benchmarks\n\nMade by `benchmarks/tables.py` from the CSV files here, each table by the command above it. "
        "Each table's times are of one machine (2 cores, no accelerator), not all tables' of the same: "
        "ratios travel."
    ]
    bars = claims.read(HERE.parent / "figures")
    bars = bars[bars.artefact.str.startswith("benchmarks/")]
    parts.append(f"## Summary\n\n{_summary(bars)}")
    for name, (title, script, note) in SECTIONS.items():
        path = HERE / f"{name}.csv"
        if path.exists():
            picture = f"\n![{title}]({name}.png)\n" if path.with_suffix(".png").exists() else ""
            command = f"```bash\n.venv/bin/python benchmarks/{script}\n```"
            parts.append(f"## {title}\n\n{command}\n\n{note}\n{picture}\n{_table(name, pd.read_csv(path))}")
    return "\n\n".join(parts) + "\n"


def _table(name: str, table: pd.DataFrame) -> str:
    if name == "peers":
        table = over_problems(table).reset_index()
    if name == "cluster_estimate":
        columns = ["method", "nodes", "replicates"]
        hours = [f"{what}_hours{end}" for what in ("cpu", "wall") for end in ("_low", "", "_high")]
        table = table[table.cores.notna()][[*columns, *hours, "memory_gb"]].rename(columns={"nodes": "nodes_up_to"})
    return markdown(table)


def over_problems(table: pd.DataFrame) -> pd.DataFrame:
    """Medians by method and nodes; a problem without the accuracy asked for counts as one that takes for ever."""
    columns = ["setup", "seconds", "to_accuracy", "mean_error", "sd_factor", "ess_per_second"]
    groups = table.assign(to_accuracy=table.to_accuracy.fillna(np.inf)).groupby(["method", "nodes"], sort=False)
    status = groups.status.agg(lambda s: ", ".join(sorted(set(s))))
    return groups[columns].median().replace(np.inf, np.nan).join(status)


def markdown(table: pd.DataFrame) -> str:
    lines = ["| " + " | ".join(map(str, table)) + " |", "|" + "---|" * table.shape[1]]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in table.itertuples(index=False)]
    return "\n".join(lines) + "\n"


def _cell(value) -> str:
    if isinstance(value, float):
        return "" if pd.isna(value) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value).replace("|", "\\|")


def _summary(bars: pd.DataFrame) -> str:
    """Each bar with its target, in the order of the sections; what was survived under fire in one row."""
    fire = bars.artefact == "benchmarks/under_fire.csv"
    order = {f"benchmarks/{name}.csv": k for k, name in enumerate(SECTIONS)}
    rows = bars[~fire].sort_values("artefact", key=lambda names: names.map(order), kind="stable")
    lines = [(row.claim, row.paper_value, row.our_value, f"**{row.verdict}**") for row in rows.itertuples()]
    met = int((bars[fire].verdict == "met").sum())
    verdict = "**met**" if met == fire.sum() else "**missed**"
    lines.append(("Scenarios under fire that lose nothing", "all", f"{met} of {fire.sum()}", verdict))
    return markdown(pd.DataFrame(lines, columns=["what", "target", "measured", "verdict"]))


def update() -> None:
    write_text(HERE / "README.md", text())


if __name__ == "__main__":
    update()
