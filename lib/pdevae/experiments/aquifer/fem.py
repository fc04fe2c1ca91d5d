"""Ours: the hierarchical model on the mesh itself, everything but a and τ integrated out."""

from __future__ import annotations

import time

import numpy as np

from ...models.head import Fitted, HeadModel
from .splits import Member, Standardised, base_level, joined, members, places, plain, scored

SETTINGS = ("log_a_sd", "log_a_length", "transport_sd", "trend", "covariate_sd")


def fem(config: dict, seed: int) -> dict:
    """A row per member and test well; predictions average over ``draws`` of Laplace's q for a, τ and the scales."""
    rows = []
    for number, member in enumerate(members(config["source"], config["split"])):
        begun = time.perf_counter()
        known, fitted = fit(config, member, seed)
        mean, sd = mixture(fitted, places(config["source"], member.test), config["draws"])
        row = scored(config["source"], config["response"], known.back(mean, sd), known, member, number)
        rows.append(row | {"seconds": np.full(len(member.test), time.perf_counter() - begun)})
    return joined(rows)


def fit(config: dict, member: Member, seed: int) -> tuple[Standardised, Fitted]:
    known = Standardised.of(config["source"], config["response"], member)
    model = HeadModel(**{name: config[name] for name in SETTINGS if name in config})
    covariate = base_level(config["source"], known) if model.covariate_sd else None
    on = model.on(plain(config["source"], config["mesh_nodes"]), covariate)
    return known, on.fit(places(config["source"], member.training), known.y, seed)


def mixture(fitted: Fitted, x: np.ndarray, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds [K, n]; one draw is the mode."""
    drawn = fitted.draws(draws) if draws > 1 else fitted.p[None]
    found = [fitted.at(x, p) for p in drawn]
    return np.stack([c.mean for c in found]), np.stack([c.sd for c in found])
