"""The VAE with and without mechanisms, on the region's mesh."""

from __future__ import annotations

from functools import cache

import numpy as np
from shapely import affinity

from pdevae.fem import domains
from pdevae.fem.mesh import Mesh
from study.jura.splits import Standardised, data, frame, members, places, scored
from study.members import joined, padded
from study.models.vae import VAE, Sites

NETWORK_SETTINGS = ("mechanism_name", "composite", "beta", "eps", "prior_sd", "penalty", "fields", "learning_rate")


@cache
def region_mesh(nodes: int) -> Mesh:
    """The study region in the frame's units."""
    centre, length = frame()
    moved = affinity.translate(data().region(), *-centre)
    shape = affinity.scale(moved, 1 / length, 1 / length, origin=(0, 0))
    return domains.polygon(np.asarray(shape.exterior.coords)[:-1], nodes=nodes)


def vae(config: dict, seed: int) -> dict:
    """The VAE, plain or with a mechanism, all members in one program; a row per member, checkpoint and test site."""
    splits = members(config["split"], config["members"])
    each = [Standardised.of(config["metal"], config["sets"], config["log"], training) for training, _ in splits]
    model = VAE(**{name: config[name] for name in NETWORK_SETTINGS if name in config})
    mesh = region_mesh(config["mesh_nodes"]) if model.mechanism_name else None
    seeds = [1000 * seed + k for k in range(len(splits))]
    trained = model.fit(stacked(each, [training for training, _ in splits]), mesh, config["checkpoints"], seeds)
    asked = stacked(each, [test for _, test in splits])
    rows = []
    for state in trained:
        mean, sd = state.predict(asked.s, asked.x)
        for k, (_, test) in enumerate(splits):
            found = each[k].response.back(mean[k, :, : len(test)], sd[k, :, : len(test)])
            rows.append(scored(found, config["metal"], test, k) | {"steps": np.full(len(test), state.steps)})
    return joined(rows)


def stacked(each: list[Standardised], sites: list[np.ndarray]) -> Sites:
    """The members' sites, padded."""
    rows, weight = padded(sites)
    s, y = (np.stack([getattr(d, name)[row] for d, row in zip(each, rows)]) for name in ("s", "y"))
    return Sites(s, places()[rows], y, weight)
