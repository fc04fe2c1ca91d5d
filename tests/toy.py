"""Replicates that need no TensorFlow, for the runner's tests; each leaves a mark when it starts."""

import os
import time

import numpy as np


def slow_square(config: dict, seed: int) -> dict:
    with open(config["log"], "a") as log:
        log.write(f"{seed}\n")
    time.sleep(config["seconds"])
    return {"value": seed**2 + config["offset"]}


def interval(config: dict, seed: int) -> dict:
    begun = time.time()
    time.sleep(config["seconds"])
    return {"begun": begun, "ended": time.time()}


def failing(config: dict, seed: int) -> dict:
    raise ValueError(f"seed {seed} cannot be")


def dying(config: dict, seed: int) -> dict:
    os._exit(1)


def arrays(config: dict, seed: int) -> dict:
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(size=3), "name": np.array(["a", "b", "c"]), "n": 3}


def bits(config: dict, seed: int) -> dict:
    """A sum whose last bits depend on how many threads share it."""
    A = np.random.default_rng(seed).normal(size=(700, 700))
    return {"value": np.linalg.inv(A).sum()}
