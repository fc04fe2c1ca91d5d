"""Section 5, "Mini-patching accuracy and efficiency": the transport inverse problem, every method on the same data."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from pdevae import CVI, HMC, Geometric, InverseProblem, Laplace, Posterior, SolvedCVI, exact
from pdevae.fem.mesh import Mesh
from pdevae.inference.fit import Diverged
from pdevae.inference.posterior import Check
from pdevae.inference.sampling import OverBudget
from pdevae.inference.training import Training
from pdevae.streams import random
from study.streams import Stream
from study.transport.dense import DenseForward
from study.transport.problem import Truth, field_at, mesh_of
from study.transport.rungs import penalty_of, trained

_VALIDATION = 200  # places where the field is predicted
_PREDICTIONS = 50  # posterior draws that predict it
_CHECKS = 200  # exact solves at draws of q that judge a setting
_CHECKED = 2000  # nodes up to which each q is checked
_DATA_NODES = 30_000  # of the mesh the readings come from

SOLVED = {
    "exact": SolvedCVI("exact"),
    "two-level": SolvedCVI("two-level"),
    "hard": SolvedCVI("hard", sampled=False),
}

SETTINGS = ("eps", "rate", "width", "samples", "tests")  # what is chosen: see choosing


@dataclass(frozen=True)
class Setting:
    """A method on a mesh, and the problems it is tried on; ``SETTINGS`` are those of a trained one."""

    domain: str
    nodes: int
    method: str = ""
    a: float = 1.0
    sensors: int = 40
    noise: float = 0.3  # share of the field's sd over the sensors
    budget: float = np.inf  # seconds, of HMC
    steps: int = 10_000
    eps: float = 0.003
    rate: float = 0.005
    width: int = 48
    samples: int = 4
    tests: int = 256  # test nodes of a step
    draws: int = 99  # for ranks
    variant: str = ""


@lru_cache(maxsize=64)
def _simulated(domain: str, a: float, sensors: int, noise: float, seed: int):
    """The replicate's readings, and places without sensors with the true field there."""
    mesh = mesh_of(domain, _DATA_NODES)
    truth = Truth.simulate(mesh, a, sensors, noise, seed)
    rng = random(Stream.VALIDATION, seed)
    x = 0.95 * mesh.points[rng.choice(mesh.interior, _VALIDATION, replace=False)]
    return truth, x, field_at(mesh, a, x, truth.tau[None])


def _replicate(config: Setting, seed: int):
    return _simulated(config.domain, config.a, config.sensors, config.noise, seed)


def problem_of(config: Setting, seed: int) -> InverseProblem:
    """The same readings on every mesh and for every method."""
    return _replicate(config, seed)[0].on(mesh_of(config.domain, config.nodes))


def truth_of(config: Setting, seed: int) -> Truth:
    return _replicate(config, seed)[0]


def method_of(config: Setting):
    """``laplace``, ``hmc-sparse``, ``solved-two-level``, ``trained-hard-32``: how, which penalty, nodes in a patch."""
    how, _, name = config.method.partition("-")
    if how == "quadrature":
        return exact
    if how == "laplace":
        return Laplace()
    if how == "hmc":
        method = HMC(budget=config.budget)
        return partial(_with_dense_solves, method) if name == "dense" else method
    if how == "solved":
        return SOLVED[name]
    return trained(name, *(getattr(config, key) for key in ("domain", "nodes", "steps", *SETTINGS)))


def _with_dense_solves(method: HMC, problem: InverseProblem, seed: int) -> Posterior:
    """HMC as in the paper; Laplace's coordinates, which all HMC here has, by sparse solves."""
    dense = InverseProblem.on(DenseForward.of(problem.forward), problem.sensors, problem.readings, problem.noise)
    return method(dense, seed)


def infer(config: Setting, seed: int) -> dict:
    """One method on one mesh: moments of q(τ), validation error, seconds, diagnostics, or why there is none."""
    problem = problem_of(config, seed)
    row = {"interior": len(problem.mesh.interior), "status": "ok", "note": ""}
    try:
        found = method_of(config)(problem, seed)
    except (Diverged, OverBudget) as reason:
        status = "diverged" if isinstance(reason, Diverged) else "over budget"
        return row | {"status": status, "note": str(reason), "projected_seconds": getattr(reason, "projected", np.nan)}
    numbers = {name: float(value) for name, value in found.diagnostics.items()}
    if found.gaussian and config.nodes <= _CHECKED:
        numbers["k"] = checked(found).k
    return row | _moments(found) | _validation(config, found, seed) | numbers


def trial(config: Setting, seed: int) -> dict:
    """A setting, judged by what a practitioner has: q's importance weights from a few exact solves, and the loss.

    ``ess`` is the effective share of the draws, ``k`` the Pareto shape of the weights' tail; the exact posterior is
    not used.
    """
    problem = problem_of(config, seed)
    try:
        found = method_of(config)(problem, seed)
    except Diverged:
        return {"k": np.inf, "ess": 0.0, "loss": np.nan}
    check = checked(found)
    return {"k": check.k, "ess": check.ess, "loss": found.diagnostics["loss"]}


def checked(found: Posterior) -> Check:
    """Its check, without a word: whether q is wrong is what is asked."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return found.check(n=_CHECKS)


def _moments(found: Posterior) -> dict:
    (m_1, m_2), S = found.mean, found.covariance
    times = {"seconds": found.seconds, "setup_seconds": found.setup_seconds}
    return {"mean_1": m_1, "mean_2": m_2, "cov_11": S[0, 0], "cov_22": S[1, 1], "cov_12": S[0, 1], **times}


def _validation(config: Setting, found: Posterior, seed: int) -> dict:
    """Mean absolute error of draws of the field against the true field, at places without sensors."""
    _, x, u = _replicate(config, seed)
    some = random(Stream.PREDICTIONS, seed).choice(len(found.draws), _PREDICTIONS, replace=False)
    return {"mae": np.abs(found.fields(x, found.draws[some]) - u).mean(), "field_sd": u.std()}


def calibration(config: Setting, seed: int) -> dict:
    """Simulation-based calibration (Talts et al.): where the true τ ranks among draws of q(τ)."""
    found, tau = method_of(config)(problem_of(config, seed), seed), truth_of(config, seed).tau
    ranks = (found.draws[: config.draws] < tau).sum(axis=0)
    away = np.linalg.solve(np.linalg.cholesky(found.covariance), tau - found.mean)
    return {"rank_1": ranks[0], "rank_2": ranks[1], "distance": float(away @ away)}


def step_cost(config: Setting, seed: int) -> dict:
    """Milliseconds of a training step and seconds of set-up; few centres, as rows of A⁻¹ cost a solve each."""
    problem = problem_of(config, seed)
    begun = time.perf_counter()
    where = (config.domain, problem.mesh, problem.forward.equation)
    penalty = penalty_of(config.method, config.tests, *where, centres=_few(problem.mesh))
    setup = time.perf_counter() - begun
    size = {"samples": config.samples, "width": config.width}
    method = CVI(penalty=lambda *_: penalty, eps=Geometric(0.03, 0.003, steps=1000), **size)
    training = Training(method, problem.forward, len(problem.sensors))
    training.take(problem, seed)
    begun = time.perf_counter()
    training.descents[0].run(config.steps)
    milliseconds = 1e3 * (time.perf_counter() - begun) / config.steps
    return {"interior": len(problem.mesh.interior), "milliseconds": milliseconds, "setup_seconds": setup}


def _few(mesh: Mesh) -> np.ndarray:
    return np.random.default_rng(0).permutation(mesh.interior)[:256]
