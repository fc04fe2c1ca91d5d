"""Replicates of notebook 8's benchmark: chains, approximations, and how near these come in what time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import arviz
import numpy as np

from pdevae import CVI, HMC, FlowVI, GaussianVI, Laplace, Posterior
from pdevae._tensorflow import tf
from study.fields import benchmark

_CELLS = benchmark.SIDE**2


@lru_cache(maxsize=1)
def readings(squares: int) -> np.ndarray:
    return benchmark.readings(squares)


@dataclass(frozen=True)
class Chains:
    """``draws`` of each of some chains, every ``thin``-th kept, in coordinates of a flow."""

    elements: str = "Q1"
    squares: int = 256
    chains: int = 4
    warm_up: int = 300
    draws: int = 1000
    thin: int = 5
    leapfrogs: int = 10
    flow_steps: int = 1500


@dataclass(frozen=True)
class Method:
    name: str
    elements: str = "Q1"
    squares: int = 256
    steps: int = 2000
    samples: int = 16


def made(config: Method, seed: int) -> dict:
    """The readings, and how far our own map of the truth is from them."""
    y = readings(config.squares)
    u = benchmark.problem(y).predict(tf.constant(benchmark.whitened(benchmark.TRUE)[None])).numpy()[0]
    return {"x": benchmark.SENSORS[:, 0], "y": benchmark.SENSORS[:, 1], "reading": y, "map": u}


def sampled(config: Chains, seed: int) -> dict:
    """ln θ_0 … ln θ_63 of the draws kept, a row each, with their chain and what a draw took."""
    problem = benchmark.problem(readings(config.squares), config.elements)
    around = FlowVI(steps=config.flow_steps)
    method = HMC(
        chains=config.chains,
        warm_up=config.warm_up,
        most_draws=config.draws,
        ess=np.inf,
        around=around,
        leapfrogs=config.leapfrogs,
    )
    found = method(problem, seed)
    z = found.draws.reshape(config.chains, -1, _CELLS)[:, :: config.thin]
    chain = np.repeat(np.arange(config.chains), z.shape[1]) + config.chains * seed
    log_theta = benchmark.MEAN + benchmark.SD * z.reshape(-1, _CELLS)
    rows = {f"log_theta_{k}": log_theta[:, k] for k in range(_CELLS)}
    return {"chain": chain, "seconds": found.seconds, "setup": found.setup_seconds} | rows


METHODS: dict[str, Callable[[Method], Callable[..., Posterior]]] = {
    "Laplace": lambda config: Laplace(),
    "GaussianVI, full": lambda config: GaussianVI(steps=config.steps, samples=config.samples),
    "GaussianVI, low-rank": lambda config: GaussianVI("low-rank", steps=config.steps, samples=config.samples),
    "FlowVI": lambda config: FlowVI(steps=config.steps, samples=config.samples),
    "CVI": lambda config: CVI(penalty="exact", steps=config.steps, samples=config.samples),
}


def approximated(config: Method, seed: int) -> dict:
    """Moments of ln θ and of θ by one method, a cell a row; seconds, and what its own check says."""
    problem = benchmark.problem(readings(config.squares), config.elements)
    found = METHODS[config.name](config)(problem, seed=seed)
    log_theta = benchmark.MEAN + benchmark.SD * found.draws
    check = found.check()
    return {
        "cell": np.arange(_CELLS),
        "mean": benchmark.MEAN + benchmark.SD * found.mean,
        "sd": benchmark.SD * found.sd,
        "mean_theta": np.exp(log_theta).mean(axis=0),
        "seconds": found.seconds,
        "k": check.k,
        "corrected": benchmark.MEAN + benchmark.SD * check.mean,
    }


def reference(draws) -> dict[str, np.ndarray]:
    """Of a table of draws: mean, sd, R-hat, effective size, Monte-Carlo error of the mean in sd, for each cell."""
    names = [f"log_theta_{k}" for k in range(_CELLS)]
    by_chain = [part[names].to_numpy() for _, part in draws.groupby("chain")]
    least = min(map(len, by_chain))
    z = np.stack([part[:least] for part in by_chain])
    data = arviz.convert_to_dataset({"z": z})
    flat = z.reshape(-1, _CELLS)
    ess = arviz.ess(data).z.to_numpy()
    return {
        "cell": np.arange(_CELLS),
        "mean": flat.mean(axis=0),
        "sd": flat.std(axis=0),
        "low": np.quantile(flat, 0.05, axis=0),
        "high": np.quantile(flat, 0.95, axis=0),
        "mean_theta": np.exp(flat).mean(axis=0),
        "r_hat": arviz.rhat(data).z.to_numpy(),
        "ess": ess,
        "error": 1 / np.sqrt(ess),
    }
