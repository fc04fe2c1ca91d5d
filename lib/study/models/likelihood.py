"""Marginal likelihood by L-BFGS."""

from __future__ import annotations

import gpflow


def climb(model: gpflow.models.GPModel, iterations: int, optimiser: gpflow.optimizers.Scipy | None = None) -> None:
    """By GPflow's optimiser, which keeps what it traced; without AutoGraph, which takes as long as tracing."""
    (optimiser or gpflow.optimizers.Scipy()).minimize(
        model.training_loss,
        model.trainable_variables,
        options={"maxiter": iterations},
        tf_fun_args={"autograph": False},
    )
