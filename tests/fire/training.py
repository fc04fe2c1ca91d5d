"""A number that is none, in a training step: said in one line, and never kept as a result."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
from distributed import LocalCluster

import pdevae
from machinery import cluster, replicates
from machinery.settings import RunSettings
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from study.models import surrogate, vae
from study.transport.problem import Truth

from . import Tally
from .project import entries


def cvi(config: dict, seed: int) -> dict:
    """The penalty turns into NaN at some step."""
    mesh = pdevae.star(nodes=100)
    problem = Truth.simulate(mesh, a=0.3, n_sensors=8, noise=0.1, seed=seed).on(mesh)

    class Broken(pdevae.ExactPenalty):
        def __call__(self, mu, z, key):
            return super().__call__(mu, z, key) / tf.cast(key[0] < config["nan_at"], tf.float32)

    def penalty(mesh, equation):
        return Broken(mesh, equation, boundary=0.0, dtype=tf.float32)

    eps = pdevae.Geometric(0.03, 0.003, steps=20)
    method = pdevae.CVI(penalty=penalty, eps=eps, steps=20, samples=2, width=8)
    return {"mean": method(problem, seed).mean}


def the_vae(config: dict, seed: int) -> dict:
    """One reading is NaN."""
    rng = np.random.default_rng(seed)
    s, x, y = rng.normal(size=(1, 12, 2)), rng.uniform(size=(1, 12, 2)), rng.normal(size=(1, 12))
    y[0, 3] = np.nan if config["nan_at"] < 20 else 0.0
    sites = vae.Sites(s, x, y, np.ones_like(y))
    (trained,) = vae.VAE("").fit(sites, pdevae.square(nodes=49), [20], [seed])
    return {"encoder": trained.parameters["encoder"].ravel()}


def the_surrogate(config: dict, seed: int) -> dict:
    """One well's head is NaN."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(size=(1, 12, 2)), rng.normal(size=(1, 12))
    y[0, 3] = np.nan if config["nan_at"] < 20 else 0.0
    model = surrogate.WellSurrogate(n_inducing=5, period=20, samples=1)
    wells = surrogate.Wells(x, y, np.ones_like(y))
    (trained,) = model.fit(wells, pdevae.square(nodes=49), [1], [seed])
    return {"network": trained.parameters["network"].ravel()}


def nan(scratch: Path, count: int, seed: int = 0) -> Tally:
    """Each model with a NaN at some step; and once without, to see that it is the NaN that stops it."""
    tally, rng = Tally(), np.random.default_rng(seed)
    with workers_here(scratch):
        for number in range(count):
            for function in (cvi, the_vae, the_surrogate):
                step = int(rng.integers(20))
                with tally.trial(f"{function.__name__}, NaN at step {step}"):
                    refused(function, {"nan_at": step}, number, says="diverged")
                    assert not entries(scratch), "a diverged training was kept"
        with tally.trial("without NaN"):
            for function in (cvi, the_vae, the_surrogate):
                replicates.run(function, [{"nan_at": 1000}], [seed])
            assert len(entries(scratch)) == 3
    return tally


def refused(function, config: dict, seed: int, says: str = "") -> None:
    try:
        replicates.run(function, [config], [seed])
    except UserError as error:
        assert "\n" not in str(error)
        assert says in str(error), error
    else:
        raise AssertionError(f"{config} was taken for sense")


@contextlib.contextmanager
def workers_here(root: Path) -> Iterator[None]:
    """Replicates run in this process, which has imported TensorFlow already; results are kept under ``root``."""
    with LocalCluster(1, processes=False, threads_per_worker=1, dashboard_address=None, silence_logs=50) as here:
        settings = RunSettings(scheduler=here.scheduler_address)
        with mock.patch.dict(os.environ, cluster.ENVIRONMENT | {"PDEVAE_ROOT": str(root)} | settings.environment()):
            yield
            cluster.client().close()
