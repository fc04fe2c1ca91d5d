"""Who is compared with whom: models by name, and runs of them on the same splits."""

from __future__ import annotations

import numpy as np
import pandas as pd

from machinery import replicates
from study.data.jura import PRIMARIES
from study.jura import gp, vae
from study.members import grid

VAES = {  # what a row's name means; all share encoder and decoder
    "VAE": {"mechanism_name": "", "composite": True},
    "VAE-DT": {"mechanism_name": "DT", "composite": True},
    "VAE-NLD": {"mechanism_name": "NLD", "composite": True},
    "VAE-NLD (network)": {"mechanism_name": "NLD-net", "composite": True},
    "VAE-DT, faithful": {"mechanism_name": "DT", "composite": False},
    "VAE-NLD, faithful": {"mechanism_name": "NLD", "composite": False},
    "VAE + Laplacian": {"mechanism_name": "Laplace", "composite": True},
    "VAE + gradient": {"mechanism_name": "gradient", "composite": True},
}


def run_vae(
    rows: dict[str, list[dict]], split: str, members: int, sets="corrected", seeds=(0,), metals=PRIMARIES
) -> pd.DataFrame:
    """Each named row with each of its settings, on each metal. ``steps`` may be a list: where to look on the way."""
    configs = [
        {k: v for k, v in settings.items() if k != "steps"}
        | VAES[name.partition(" @ ")[0]]
        | {"model": name, "metal": metal, "sets": sets, "split": split, "members": members}
        | {"checkpoints": np.atleast_1d(settings["steps"]).tolist()}
        for name, choices in rows.items()
        for settings in choices
        for metal in metals
    ]
    return replicates.run(vae.vae, configs, seeds)


def run_gpdk(variants: list[dict], split: str, members: int, sets="corrected", metals=PRIMARIES) -> pd.DataFrame:
    common = {"model": "GPDK", "sets": sets, "split": split, "members": members}
    configs = [common | variant | {"metal": metal} for variant in variants for metal in metals]
    return replicates.run(gp.diffusion_kernel, configs, range(members))


def run_references(split: str, members: int, sets="corrected", metals=PRIMARIES) -> pd.DataFrame:
    """Training mean, least squares and GP, each on the raw and the log scale."""
    common = {"sets": sets, "split": split, "members": members}
    axes = grid(model=["mean", "ols", "gp"], log=[False, True], metal=metals)
    table = replicates.run(gp.reference, [common | one for one in axes], [0])
    names = {"mean": "training mean", "ols": "least squares", "gp": "GP"}
    return table.assign(model=table.model.map(names) + np.where(table.log, ", log", ""))
