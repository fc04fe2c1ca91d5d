"""GP-D, GP-DT and their controls: a network with the PDE, or another, or none, as its regulariser."""

from __future__ import annotations

import numpy as np

from ...models.surrogate import Surrogate, Wells
from ..members import joined, padded
from .splits import Member, Standardised, members, places, plain, scored

SETTINGS = ("mechanism", "penalty", "n_patches", "log_a_sd", "log_a_length", "source_sd", "source_length")
SETTINGS += ("eps_start", "eps_end", "period", "learning_rate")


def network(config: dict, seed: int) -> dict:
    """All members, or ``repeats`` seeds of the only one, in one program; a row per member, cycle and test well."""
    source, response = config["source"], config["response"]
    each = members(source, config["split"]) * config["repeats"]
    known = [Standardised.of(source, response, member) for member in each]
    seeds = [1000 * seed + k for k in range(len(each))]
    wells = stacked(source, each, known)
    model = Surrogate(**{name: config[name] for name in SETTINGS if name in config})
    rows = []
    for trained in model.fit(wells, plain(source, config["mesh_nodes"]), config["cycles_seen"], seeds):
        for k, member in enumerate(each):
            mean, sd = (part[k : k + 1] for part in trained.predict(places(source, member.test)))
            row = scored(source, response, known[k].back(mean, sd), known[k], member, k)
            rows.append(row | {"cycles": np.full(len(member.test), trained.cycles)})
    return joined(rows)


def stacked(source: str, each: tuple[Member, ...], known: list[Standardised]) -> Wells:
    """The members' training wells, padded."""
    rows, weight = padded([np.arange(len(member.training)) for member in each])
    x = np.stack([places(source, member.training[row]) for member, row in zip(each, rows)])
    return Wells(x, np.stack([k.y[row] for k, row in zip(known, rows)]), weight)
