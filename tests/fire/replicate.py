"""A replicate for the project under fire: a fraction of a second, numbers that depend on the seed alone."""

import time

import numpy as np

from pdevae.errors import UserError


def steady(config: dict, seed: int) -> dict:
    if seed < 0:
        raise UserError("seeds are not negative")
    time.sleep(config["seconds"])
    return {"value": seed**2, "noise": np.random.default_rng(seed).normal(size=3)}


def figure(table):
    return table.plot("seed", "value").figure
