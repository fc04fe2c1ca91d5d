"""Ours: the hierarchical model on the mesh itself, everything but a and τ integrated out."""

from __future__ import annotations

import time

import numpy as np

from study.aquifer.splits import Member, Standardised, base_level, members, places, plain, scored
from study.members import joined
from study.models.head import HeadModel, OnMesh
from study.models.head_fit import Fitted
from study.models.head_fit import fit as fit_on

SETTINGS = ("log_a_sd", "log_a_length", "transport_sd", "trend", "covariate_sd")


def fem(config: dict, seed: int) -> dict:
    """A row per member and test well, at the mode."""
    rows = []
    for number, member in enumerate(members(config["survey"], config["split"])):
        begun = time.perf_counter()
        known, fitted = fit(config, member, seed)
        mean, sd = fitted.at(places(config["survey"], member.test))
        found = known.feet.back(mean[None], sd[None])
        row = scored(config["survey"], config["response"], found, known, member, number)
        rows.append(row | {"seconds": np.full(len(member.test), time.perf_counter() - begun)})
    return joined(rows)


def fit(config: dict, member: Member, seed: int) -> tuple[Standardised, Fitted]:
    known = Standardised.of(config["survey"], config["response"], member)
    on = model_on(config, known, config["mesh_nodes"])
    return known, fit_on(on, places(config["survey"], member.training), known.y, seed)


def model_on(config: dict, known: Standardised, nodes: int, inducing: np.ndarray | None = None) -> OnMesh:
    model = HeadModel(**{name: config[name] for name in SETTINGS if name in config})
    covariate = base_level(config["survey"], known) if model.covariate_sd else None
    return model.on(plain(config["survey"], nodes), covariate, inducing)
