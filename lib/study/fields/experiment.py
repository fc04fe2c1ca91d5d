"""Replicates of notebook 8's benchmark: chains, approximations, and how near these come in what time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import arviz
import numpy as np
import pandas as pd

from pdevae import CVI, HMC, FlowVI, GaussianVI, Laplace, Posterior
from pdevae._tensorflow import tf
from study.fields import benchmark
from study.fields.sines import Sines

_CELLS = benchmark.SIDE**2
NAMES = [f"log_theta_{k}" for k in range(_CELLS)]


@lru_cache(maxsize=1)
def readings(squares: int) -> np.ndarray:
    return benchmark.readings(squares)


@dataclass(frozen=True)
class Chains:
    """``draws`` of each of some chains, in coordinates of a flow."""

    elements: str = "Q1"
    squares: int = 256
    chains: int = 8
    warm_up: int = 200
    draws: int = 400
    leapfrogs: int = 20
    vi_steps: int = 500
    flow_steps: int = 1500


@dataclass(frozen=True)
class Method:
    name: str
    elements: str = "Q1"
    squares: int = 256
    vi_steps: int = 500
    steps: int = 1500
    samples: int = 16
    cvi_steps: int = 5000


def made(config: Method, seed: int) -> dict:
    """The readings, and how far our own map of the truth is from them."""
    y = readings(config.squares)
    u = benchmark.problem(y).predict(tf.constant(benchmark.whitened(benchmark.TRUE)[None])).numpy()[0]
    return {"x": benchmark.SENSORS[:, 0], "y": benchmark.SENSORS[:, 1], "reading": y, "map": u}


def sampled(config: Chains, seed: int) -> dict:
    """ln θ_0 … ln θ_63 of the draws kept, a row each, with their chain and what a draw took."""
    problem = benchmark.problem(readings(config.squares), config.elements)
    around = FlowVI(GaussianVI(steps=config.vi_steps, samples=16), steps=config.flow_steps)
    method = HMC(
        chains=config.chains,
        warm_up=config.warm_up,
        block=min(50, config.draws),
        most_draws=config.draws,
        ess=np.inf,
        around=around,
        leapfrogs=config.leapfrogs,
    )
    found = method(problem, seed)
    chain = np.repeat(np.arange(config.chains), len(found.draws) // config.chains) + config.chains * seed
    log_theta = benchmark.MEAN + benchmark.SD * found.draws
    rows = {name: log_theta[:, k] for k, name in enumerate(NAMES)}
    return {"chain": chain, "seconds": found.seconds, "setup": found.setup_seconds} | rows


METHODS: dict[str, Callable[[Method], Callable[..., Posterior]]] = {
    "Laplace": lambda config: Laplace(),
    "GaussianVI, full": lambda config: GaussianVI(steps=config.vi_steps, samples=config.samples),
    "GaussianVI, low-rank": lambda config: GaussianVI("low-rank", steps=config.vi_steps, samples=config.samples),
    "FlowVI": lambda config: FlowVI(
        GaussianVI(steps=config.vi_steps, samples=config.samples), steps=config.steps, samples=config.samples
    ),
    "CVI": lambda config: CVI(
        Sines(_CELLS), "exact", steps=config.cvi_steps, samples=config.samples, spread=1.0, around=Laplace()
    ),
}


def approximated(config: Method, seed: int) -> dict:
    """Moments of ln θ and of θ by one method, a cell a row; seconds, and what its own check says.

    ``field``: the median error of a decoder's field at draws of q, relative to exact solves.
    """
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
        "field": decoder_error(found),
        "corrected": benchmark.MEAN + benchmark.SD * check.mean,
    }


def decoder_error(found: Posterior, draws: int = 32) -> float:
    """Median over draws of q of the field's relative error, against exact solves; 0 of a method that solves."""
    if found.surrogate is None:
        return 0.0
    z = found.draws[:draws]
    u = found.problem.solve(tf.constant(z)).numpy()
    off = found.fields(found.problem.mesh.points, z) - u
    return float(np.median(np.linalg.norm(off, axis=1) / np.linalg.norm(u, axis=1)))


def reference(draws: pd.DataFrame) -> pd.DataFrame:
    """Of a table of draws: moments and 90% of ln θ, R-hat, effective size, Monte-Carlo error in sd, for each cell."""
    by_chain = [part[NAMES].to_numpy() for _, part in draws.groupby("chain")]
    least = min(map(len, by_chain))
    z = np.stack([part[:least] for part in by_chain])
    data = arviz.convert_to_dataset({"z": z})
    flat = z.reshape(-1, _CELLS)
    ess = arviz.ess(data).z.to_numpy()
    columns = {
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
    return pd.DataFrame(columns).assign(method="HMC around a flow", seconds=draws.groupby("seed").seconds.first().sum())
