"""Gaussian processes, shallow and deep: no mechanism."""

from __future__ import annotations

import gpflow
import numpy as np

from pdevae.streams import random
from study.aquifer.splits import Standardised, base_level, members, places, scored
from study.members import joined
from study.models import _tensorflow  # noqa: F401  before GPflow
from study.models.deep_gp import deep_gp
from study.models.likelihood import climb
from study.scoring import Predictive
from study.streams import Stream

KERNELS = {"5/2": gpflow.kernels.Matern52, "3/2": gpflow.kernels.Matern32}


def gaussian_process(config: dict, seed: int) -> dict:
    """GPflow's GPR by marginal likelihood from a random start; ``mean``: zero, linear, or base (linear, base level)."""
    rows = []
    for number, member in enumerate(members(config["survey"], config["split"])):
        known = Standardised.of(config["survey"], config["response"], member)
        x, x_new = (places(config["survey"], w) for w in (member.training, member.test))
        found = predicted(config, known, x, x_new, seed)
        rows.append(scored(config["survey"], config["response"], found, known, member, number))
    return joined(rows)


def predicted(config: dict, known: Standardised, x: np.ndarray, x_new: np.ndarray, seed: int) -> Predictive:
    X, rng = _inputs(config, known, x), random(Stream.GP_START, seed)
    kernel = KERNELS[config["kernel"]](lengthscales=0.3 * np.exp(0.5 * rng.normal()), active_dims=[0, 1])
    if config["mean"] != "zero":
        kernel += gpflow.kernels.Linear(variance=np.ones(X.shape[1])) + gpflow.kernels.Constant()
    model = gpflow.models.GPR((X, known.y[:, None]), kernel, noise_variance=0.01 * np.exp(rng.normal()))
    climb(model, 500)
    mean, variance = model.predict_y(_inputs(config, known, x_new))
    return known.feet.back(mean.numpy().T, np.sqrt(variance.numpy().T))


def _inputs(config: dict, known: Standardised, x: np.ndarray) -> np.ndarray:
    return np.column_stack([x, base_level(config["survey"], known)(x)]) if config["mean"] == "base" else x


def deep(config: dict, seed: int) -> dict:
    """GPflux' two layers."""
    rows = []
    for number, member in enumerate(members(config["survey"], config["split"])):
        known = Standardised.of(config["survey"], config["response"], member)
        x, x_new = (places(config["survey"], wells) for wells in (member.training, member.test))
        found = known.feet.back(*deep_gp(x, known.y, x_new, seed, config["steps"]))
        rows.append(scored(config["survey"], config["response"], found, known, member, number))
    return joined(rows)
