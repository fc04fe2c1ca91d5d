"""GP-D, GP-DT and their controls: a network with the PDE, or another, or none, as its regulariser."""

from __future__ import annotations

import numpy as np

from study.aquifer.splits import Member, Standardised, members, places, plain, scored
from study.members import joined, padded
from study.models.surrogate import Wells, WellSurrogate

SETTINGS = ("mechanism", "penalty", "n_patches", "log_a_sd", "log_a_length", "source_sd", "source_length")
SETTINGS += ("eps_start", "eps_end", "period", "learning_rate")


def network(config: dict, seed: int) -> dict:
    """All members, or ``repeats`` seeds of the only one, in one program; a row per member, cycle and test well."""
    survey, response = config["survey"], config["response"]
    each = members(survey, config["split"]) * config["repeats"]
    known = [Standardised.of(survey, response, member) for member in each]
    seeds = [1000 * seed + k for k in range(len(each))]
    wells = stacked(survey, each, known)
    model = WellSurrogate(**{name: config[name] for name in SETTINGS if name in config})
    rows = []
    for trained in model.fit(wells, plain(survey, config["mesh_nodes"]), config["cycles_seen"], seeds):
        for k, member in enumerate(each):
            mean, sd = (part[k : k + 1] for part in trained.predict(places(survey, member.test)))
            row = scored(survey, response, known[k].feet.back(mean, sd), known[k], member, k)
            rows.append(row | {"cycles": np.full(len(member.test), trained.cycles)})
    return joined(rows)


def stacked(survey: str, each: tuple[Member, ...], known: list[Standardised]) -> Wells:
    """The members' training wells, padded."""
    rows, weight = padded([np.arange(len(member.training)) for member in each])
    x = np.stack([places(survey, member.training[row]) for member, row in zip(each, rows)])
    return Wells(x, np.stack([k.y[row] for k, row in zip(known, rows)]), weight)
