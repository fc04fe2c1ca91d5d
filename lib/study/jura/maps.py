"""Predictions over the whole study region, and the coefficients a mechanism has learned there."""

from __future__ import annotations

import numpy as np

from pdevae.streams import random
from study.jura.splits import Standardised, data, frame, places
from study.jura.vae import NETWORK_SETTINGS, region_mesh, stacked
from study.models import references
from study.models.vae import VAE
from study.streams import Stream

_SECONDARY_DRAWS = 8  # in pairs of opposite sign
_KEPT = 10  # of a member's draws of z, for each draw of the secondaries


def region_map(config: dict, seed: int) -> dict:
    """Quantiles of the concentration at cells of the grid, from ``members`` seeds trained on the training sites.

    Secondary metals are known at sites only, so they are kriged from all of them (their logarithms, a GP on the place)
    and drawn from that: the interval includes that we do not know them between sites.
    """
    training = np.arange(data().n_training)
    known = Standardised.of(config["metal"], config["sets"], config["log"], training)
    model = VAE(**{name: config[name] for name in NETWORK_SETTINGS if name in config})
    sites = stacked([known] * config["members"], [training] * config["members"])
    seeds = [1000 * seed + k for k in range(config["members"])]
    (trained,) = model.fit(sites, region_mesh(config["mesh_nodes"]), [config["steps"]], seeds)
    cells = _cells(config["every"])
    x = (cells - frame()[0]) / frame()[1]
    mean, sd = _kriged(config, x)
    # one draw serves all cells: each cell has its marginal distribution, and the maps are as smooth as the fields
    half = random(Stream.SECONDARIES, seed).normal(size=(_SECONDARY_DRAWS // 2, mean.shape[1]))
    away = np.concatenate([half, -half])
    drawn = [_components(trained, known, mean + sd * xi, x, k) for k, xi in enumerate(away)]
    found = known.response.back(*(np.concatenate(parts) for parts in zip(*drawn)))
    quantiles = {f"q{100 * p:02.0f}": found.quantile(p) for p in (0.05, 0.5, 0.95)}
    return (
        {"x": cells[:, 0], "y": cells[:, 1]}
        | quantiles
        | _coefficients(trained, known.secondaries.standardised(np.exp(mean)), x)
    )


def _cells(every: int) -> np.ndarray:
    """Every so-manieth cell of the 50 m grid in both directions; km."""
    grid = data().grid[["Xloc", "Yloc"]].to_numpy()
    number = np.rint(grid / 0.05).astype(int)
    return grid[(number % every == 0).all(axis=1)]


def _kriged(config: dict, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of the secondaries' logarithms; [n, secondaries]."""
    log = np.log(data().secondaries(config["metal"], config["sets"]))
    centre, spread = log.mean(axis=0), log.std(axis=0)
    found = [references.gaussian_process(places(), column, x) for column in ((log - centre) / spread).T]
    mean, sd = (np.stack(part, axis=1) for part in zip(*found))
    return centre + spread * mean, spread * sd


def _components(trained, known: Standardised, log_secondaries: np.ndarray, x: np.ndarray, seed: int):
    """Means and sds [members · kept draws, n]."""
    members = len(next(iter(trained.parameters.values())))
    s = np.broadcast_to(
        known.secondaries.standardised(np.exp(log_secondaries)), (members, len(x), log_secondaries.shape[1])
    )
    each = trained.predict(s, np.broadcast_to(x, (members, *x.shape)), seed)
    return [part[:, :_KEPT].reshape(-1, len(x)) for part in each]


def _coefficients(trained, s: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
    """log a and τ over the region: mean over the members, and their sd (do the members agree?)."""
    members = len(next(iter(trained.parameters.values())))
    found = trained.coefficients(*(np.broadcast_to(v, (members, *v.shape)) for v in (s, x)))
    log_a, tau = found["log a"][..., 0], found["τ"]
    return {
        "log_a": log_a.mean(axis=0),
        "log_a_sd": log_a.std(axis=0),
        "tau_x": tau[..., 0].mean(axis=0),
        "tau_y": tau[..., 1].mean(axis=0),
        "tau_sd": np.sqrt(tau.var(axis=0).sum(axis=-1)),
    }
