"""Ours: the hierarchical model on the mesh itself, everything but a and τ integrated out."""

from __future__ import annotations

import time

import numpy as np

from pdevae.streams import random
from study.aquifer.splits import Member, Standardised, base_level, members, places, plain, scored
from study.members import joined
from study.models.head import HeadModel, OnMesh
from study.models.head_fit import Fitted
from study.models.head_fit import fit as fit_on
from study.streams import Stream

SETTINGS = ("log_a_sd", "log_a_length", "transport_sd", "trend", "covariate_sd")


def fem(config: dict, seed: int) -> dict:
    """A row per member and test well, at the mode; with ``draws``, over so many of Laplace's q around it."""
    rows = []
    for number, member in enumerate(members(config["survey"], config["split"])):
        begun = time.perf_counter()
        known, fitted = fit(config, member, seed)
        normal = random(Stream.HEAD_START, seed, 1).normal(size=(config.get("draws", 0), len(fitted.p)))
        modes = fitted.p + normal @ fitted.spread.T if len(normal) else [fitted.p]
        at = [fitted.at(places(config["survey"], member.test), p) for p in modes]
        found = known.feet.back(*(np.stack(part) for part in zip(*at)))
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
