"""Ours: the hierarchical model on the mesh itself, everything but a and τ integrated out."""

from __future__ import annotations

import time

import numpy as np

from ...models.head import HeadModel, OnMesh
from ...models.head_fit import Fitted
from ...models.head_fit import fit as fit_on
from ..members import joined
from .splits import Member, Standardised, base_level, members, places, plain, scored

SETTINGS = ("log_a_sd", "log_a_length", "transport_sd", "trend", "covariate_sd")


def fem(config: dict, seed: int) -> dict:
    """A row per member and test well, at the mode."""
    rows = []
    for number, member in enumerate(members(config["source"], config["split"])):
        begun = time.perf_counter()
        known, fitted = fit(config, member, seed)
        mean, sd = fitted.at(places(config["source"], member.test))
        found = known.back(mean[None], sd[None])
        row = scored(config["source"], config["response"], found, known, member, number)
        rows.append(row | {"seconds": np.full(len(member.test), time.perf_counter() - begun)})
    return joined(rows)


def fit(config: dict, member: Member, seed: int) -> tuple[Standardised, Fitted]:
    known = Standardised.of(config["source"], config["response"], member)
    on = model_on(config, known, config["mesh_nodes"])
    return known, fit_on(on, places(config["source"], member.training), known.y, seed)


def model_on(config: dict, known: Standardised, nodes: int, inducing: np.ndarray | None = None) -> OnMesh:
    model = HeadModel(**{name: config[name] for name in SETTINGS if name in config})
    covariate = base_level(config["source"], known) if model.covariate_sd else None
    return model.on(plain(config["source"], nodes), covariate, inducing)
