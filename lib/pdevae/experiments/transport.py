"""Section 5, "Mini-patching accuracy and efficiency": the transport inverse problem, every method on the same data."""

from __future__ import annotations

import time
from functools import cache, lru_cache

import numpy as np

from .. import domains
from .._tensorflow import tf
from ..forms import exact_form, tapered_form, two_level_form
from ..inference import CVI, HMC, Diverged, Laplace, OverBudget, Posterior, SolvedCVI, TransportProblem, exact
from ..mesh import Mesh
from ..penalties import ExactPenalty, MultilevelPenalty, PointwisePenalty, TaperedPenalty, TwoLevelPenalty
from ..schedules import Geometric

_NODES_PER_STEP = 512  # test nodes a training step sees, in patches of any size
_POINTS_PER_STEP = 128  # of the point-wise penalty: with a Laplacian a place costs as much as four nodes
_VALIDATION = 200  # places where the field is predicted
_PREDICTIONS = 50  # posterior draws that predict it

FORMS = {
    "exact": lambda mesh, equation, seed: exact_form(mesh, equation),
    "two-level": lambda mesh, equation, seed: two_level_form(mesh, equation, seed=seed),
    "hard": lambda mesh, equation, seed: tapered_form(mesh, equation, min(32, len(mesh.interior))),
}


@cache
def mesh_of(domain: str, nodes: int) -> Mesh:
    return getattr(domains, domain)(nodes=nodes)


@lru_cache(maxsize=64)
def _simulated(domain: str, data_nodes: int, a: float, sensors: int, noise: float, seed: int):
    """The replicate's readings, and places without sensors with the true field there."""
    problem = TransportProblem.simulate(mesh_of(domain, data_nodes), a, sensors, noise, seed)
    rng = np.random.default_rng([seed, 19])
    x = 0.95 * problem.mesh.points[rng.choice(problem.mesh.interior, _VALIDATION, replace=False)]
    return problem, x, problem.solve_at(x, problem.tau[None])


def _replicate(config: dict, seed: int):
    return _simulated(*(config[name] for name in ("domain", "data_nodes", "a", "sensors", "noise")), seed)


def problem_of(config: dict, seed: int) -> TransportProblem:
    """The same readings on every mesh and for every method."""
    return _replicate(config, seed)[0].on(mesh_of(config["domain"], config["nodes"]))


def method_of(name: str, steps: int = 10_000, budget: float = np.inf):
    """``laplace``, ``hmc-sparse``, ``solved-two-level``, ``trained-hard-32``: how, which penalty, nodes in a patch."""
    how, _, penalty = name.partition("-")
    if how == "quadrature":
        return exact
    if how == "laplace":
        return Laplace()
    if how == "hmc":
        return HMC(penalty, budget=budget)
    if how == "solved":
        return SolvedCVI(FORMS[penalty])
    return CVI(_trained_penalty(penalty), Geometric(0.03, 0.003, steps=int(0.7 * steps)), steps, xla=_compiles(penalty))


def _compiles(penalty: str) -> bool:
    """XLA cannot compile what calls a sparse solver on the host."""
    return penalty not in ("exact", "two-level")


def _trained_penalty(name: str, centres=None):
    """Mesh, equation and boundary value to penalty; ``hard-64`` has patches of 64 test nodes."""
    kind, _, patch_nodes = name.rpartition("-") if name[-1].isdigit() else (name, "", "32")

    def make(mesh, equation, g):
        Q = min(int(patch_nodes), len(mesh.interior))
        common = {"boundary": g, "dtype": tf.float32}
        patch = common | {"patch_nodes": Q, "n_patches": max(_NODES_PER_STEP // int(patch_nodes), 1)}
        if kind == "exact":
            return ExactPenalty(mesh, equation, **common)
        if kind == "pointwise":
            return PointwisePenalty(mesh, equation, n_points=_POINTS_PER_STEP, **common)
        if kind == "two-level":
            return TwoLevelPenalty(mesh, equation, **patch)
        if kind == "multilevel":
            return MultilevelPenalty(mesh, equation, **patch)
        some = None if centres is None else np.random.default_rng(0).permutation(mesh.interior)[:centres]
        return TaperedPenalty(mesh, equation, taper=kind, centres=some, **patch)

    return make


def infer(config: dict, seed: int) -> dict:
    """One method on one mesh: moments of q(τ), validation error, seconds, diagnostics, or why there is none."""
    problem = problem_of(config, seed)
    method = method_of(config["method"], config.get("steps", 10_000), config.get("budget", np.inf))
    row = {"interior": len(problem.mesh.interior), "status": "ok", "note": ""}
    try:
        found = method(problem, seed)
    except (Diverged, OverBudget) as reason:
        status = "diverged" if isinstance(reason, Diverged) else "over budget"
        return row | {"status": status, "note": str(reason), "projected_seconds": getattr(reason, "projected", np.nan)}
    numbers = {name: float(value) for name, value in found.diagnostics.items()}
    return row | _moments(found) | _validation(config, found, seed) | numbers


def _moments(found: Posterior) -> dict:
    (m_1, m_2), S = found.mean, found.covariance
    times = {"seconds": found.seconds, "setup_seconds": found.setup_seconds}
    return {"mean_1": m_1, "mean_2": m_2, "cov_11": S[0, 0], "cov_22": S[1, 1], "cov_12": S[0, 1], **times}


def _validation(config: dict, found: Posterior, seed: int) -> dict:
    """Mean absolute error of draws of the field against the true field, at places without sensors."""
    _, x, u = _replicate(config, seed)
    some = np.random.default_rng([seed, 20]).choice(len(found.draws), _PREDICTIONS, replace=False)
    return {"mae": np.abs(found.predict(x, found.draws[some]) - u).mean(), "field_sd": u.std()}


def calibration(config: dict, seed: int) -> dict:
    """Simulation-based calibration (Talts et al.): where the true τ ranks among draws of q(τ)."""
    problem = problem_of(config, seed)
    found = method_of(config["method"])(problem, seed)
    ranks = (found.draws[: config["draws"]] < problem.tau).sum(axis=0)
    away = np.linalg.solve(np.linalg.cholesky(found.covariance), problem.tau - found.mean)
    return {"rank_1": ranks[0], "rank_2": ranks[1], "distance": float(away @ away)}


def step_cost(config: dict, seed: int) -> dict:
    """Milliseconds of a training step and seconds of set-up; few centres, as rows of A⁻¹ cost a solve each."""
    problem = problem_of(config, seed)
    begun = time.perf_counter()
    penalty = _trained_penalty(config["method"], centres=256)(problem.mesh, problem.equation, 0.0)
    setup = time.perf_counter() - begun
    method = CVI(lambda *_: penalty, Geometric(0.03, 0.003, steps=1000), xla=_compiles(config["method"]))
    train, state, count = method.trainer(problem, penalty, seed), method.start(seed), tf.constant(config["steps"])
    train(state, tf.constant(0), count)  # compiles
    begun = time.perf_counter()
    train(state, tf.constant(0), count)[1].numpy()
    milliseconds = 1e3 * (time.perf_counter() - begun) / config["steps"]
    return {"interior": len(problem.mesh.interior), "milliseconds": milliseconds, "setup_seconds": setup}
