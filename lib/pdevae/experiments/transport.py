"""Section 5, "Mini-patching accuracy and efficiency": the transport inverse problem, every method on the same data."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, lru_cache

import arviz
import numpy as np
from scipy.stats import multivariate_normal

from .. import domains
from .._tensorflow import tf
from ..forms import exact_form, tapered_form, two_level_form
from ..inference import CVI, HMC, Diverged, Laplace, OverBudget, Posterior, SolvedCVI, TransportProblem, exact
from ..inference.cvi import Readings, Training
from ..mesh import Mesh
from ..operators import Term
from ..penalties import ExactPenalty, MultilevelPenalty, Penalty, PointwisePenalty, TaperedPenalty, TwoLevelPenalty
from ..schedules import Geometric
from ..weak_form import WeakForm

_VALIDATION = 200  # places where the field is predicted
_PREDICTIONS = 50  # posterior draws that predict it
_CHECKS = 200  # exact solves at draws of q that judge a setting
_DATA_NODES = 30_000  # of the mesh the readings come from

FORMS = {
    "exact": lambda mesh, equation, seed: exact_form(mesh, equation),
    "two-level": lambda mesh, equation, seed: two_level_form(mesh, equation, seed=seed),
    "hard": lambda mesh, equation, seed: tapered_form(mesh, equation, min(32, len(mesh.interior))),
}

# The ladder: a trained method's penalty, and for which τ it is taken (CVI's ``serves``)
RUNGS = {
    "printed": ("hard", "q"),  # (a) with 1/P
    "overwritten": ("hard", "q"),  # (a) with the boundary overwritten instead of met
    "coupled": ("hard", "q"),  # (b) with N/P
    "hard": ("hard", "wider"),  # (c)
    "wendland": ("wendland", "wider"),  # (d)
    "exact": ("exact", "wider"),  # (e)
    "two-level": ("two-level", "wider"),  # (f)
    "multilevel": ("multilevel", "wider"),  # (g)
    "prior": ("multilevel", "prior"),  # (h)
    "pointwise": ("pointwise", "wider"),
    "pointwise-soft": ("pointwise", "wider"),
}


SETTINGS = ("eps", "rate", "width", "samples", "tests")  # what is chosen: see choosing


@cache
def mesh_of(domain: str, nodes: int) -> Mesh:
    return getattr(domains, domain)(nodes=nodes)


@lru_cache(maxsize=64)
def _simulated(domain: str, a: float, sensors: int, noise: float, seed: int):
    """The replicate's readings, and places without sensors with the true field there."""
    problem = TransportProblem.simulate(mesh_of(domain, _DATA_NODES), a, sensors, noise, seed)
    rng = np.random.default_rng([seed, 19])
    x = 0.95 * problem.mesh.points[rng.choice(problem.mesh.interior, _VALIDATION, replace=False)]
    return problem, x, problem.solve_at(x, problem.tau[None])


def _replicate(config: dict, seed: int):
    return _simulated(*(config[name] for name in ("domain", "a", "sensors", "noise")), seed)


def problem_of(config: dict, seed: int) -> TransportProblem:
    """The same readings on every mesh and for every method."""
    return _replicate(config, seed)[0].on(mesh_of(config["domain"], config["nodes"]))


def method_of(config: dict):
    """``laplace``, ``hmc-sparse``, ``solved-two-level``, ``trained-hard-32``: how, which penalty, nodes in a patch."""
    how, _, name = config["method"].partition("-")
    if how == "quadrature":
        return exact
    if how == "laplace":
        return Laplace()
    if how == "hmc":
        return HMC(name, budget=config.get("budget", np.inf))
    if how == "solved":
        return SolvedCVI(FORMS[name])
    return trained(name, *(config[key] for key in ("domain", "nodes", "steps", *SETTINGS)))


@lru_cache(maxsize=4)
def trained(rung: str, domain: str, nodes: int, steps: int, eps, rate, width: int, samples: int, tests: int) -> CVI:
    """A rung of the ladder; ``hard-64`` has patches of 64 test nodes, and a step sees ``tests`` of them in all.

    ε falls tenfold, to ``eps``, in 0.7 of the steps. As printed, the penalty is an estimate of R/N, N test nodes in
    the mesh: its ε is ``eps``/√N.
    """
    name, patch_nodes = _parts(rung)
    kind, serves = RUNGS[name]
    scale = len(mesh_of(domain, nodes).interior) ** -0.5 if name in ("printed", "overwritten") else 1.0
    return CVI(
        lambda mesh, equation: _penalty(name, kind, patch_nodes, tests, domain, mesh, equation),
        Geometric(10 * eps * scale, eps * scale, steps=int(0.7 * steps)),
        steps,
        samples,
        width,
        learning_rate=rate,
        serves=serves,
        spread=1.3 if serves == "prior" else 1.5,
        xla=steps >= 1000 and (kind != "exact" or nodes <= 2000),  # compiling takes as long as a few hundred steps
    )


def _parts(rung: str) -> tuple[str, int]:
    name, _, patch_nodes = rung.rpartition("-") if rung[-1].isdigit() else (rung, "", "32")
    return name, int(patch_nodes)


def _penalty(name, kind, patch_nodes: int, tests: int, domain, mesh: Mesh, equation: Term, centres=None) -> Penalty:
    common = {"boundary": 0.0, "dtype": tf.float32}
    if name == "overwritten":
        common["boundary"] = (np.zeros(mesh.n_nodes), np.where(mesh.is_boundary, 0.0, 1.0))
    Q = min(patch_nodes, len(mesh.interior))
    patch = common | {"patch_nodes": Q, "n_patches": max(tests // patch_nodes, 1)}
    if kind == "exact":
        return ExactPenalty(mesh, equation, **common)
    if kind == "pointwise":
        return _Pointwise(mesh, equation, tests // 2, None if name == "pointwise-soft" else _SMOOTH_FACTORS[domain])
    if kind == "two-level":
        return TwoLevelPenalty(mesh, equation, **patch)
    if kind == "multilevel":
        return MultilevelPenalty(mesh, equation, coarse_patches=2, **patch)
    normalisation = "paper" if name in ("printed", "overwritten") else "unbiased"
    return TaperedPenalty(mesh, equation, taper=kind, normalisation=normalisation, centres=centres, **patch)


class _Pointwise(Penalty):
    """The point-wise penalty at half as many places as the others have test nodes: with two derivatives a place still
    costs twice as much as a node. The boundary is met by a factor that is smooth in closed form, or, without one, asked
    for by the penalty, at half as many places again.
    """

    def __init__(self, mesh: Mesh, equation: Term, places: int, factor: Callable[[tf.Tensor], tf.Tensor] | None):
        met = None
        if factor:
            met = np.zeros(mesh.n_nodes), np.where(mesh.is_boundary, 0.0, factor(tf.constant(mesh.points)))
        self.factor = factor or (lambda x: 1.0)
        self.penalty = PointwisePenalty(
            mesh, equation, places, places // 2, boundary=None if factor else 0.0, dtype=tf.float32
        )
        self.weak = WeakForm(mesh, equation, met, tf.float32)

    def __call__(self, mu, z, seed):
        return self.penalty(lambda x, z: self.factor(x) * mu(x, z), z, seed)


def _disc_factor(x: tf.Tensor) -> tf.Tensor:
    return 1 - tf.reduce_sum(x**2, axis=1)


def _star_factor(x: tf.Tensor) -> tf.Tensor:
    """1 − (|x|/r(θ))⁴ with the star's r(θ) = 1 + 0.3 sin 5θ; four times differentiable at the origin."""
    angle, square = tf.atan2(x[:, 1], x[:, 0]), tf.reduce_sum(x**2, axis=1)
    return 1 - square**2 / (1 + 0.3 * tf.sin(5 * angle)) ** 4


_SMOOTH_FACTORS = {"disc": _disc_factor, "star": _star_factor}


def infer(config: dict, seed: int) -> dict:
    """One method on one mesh: moments of q(τ), validation error, seconds, diagnostics, or why there is none."""
    problem = problem_of(config, seed)
    row = {"interior": len(problem.mesh.interior), "status": "ok", "note": ""}
    try:
        found = method_of(config)(problem, seed)
    except (Diverged, OverBudget) as reason:
        status = "diverged" if isinstance(reason, Diverged) else "over budget"
        return row | {"status": status, "note": str(reason), "projected_seconds": getattr(reason, "projected", np.nan)}
    numbers = {name: float(value) for name, value in found.diagnostics.items()}
    return row | _moments(found) | _validation(config, found, seed) | numbers


def trial(config: dict, seed: int) -> dict:
    """A setting, judged by what a practitioner has: q's importance weights from a few exact solves, and the loss.

    ``ess`` is the effective share of the draws, ``k`` the Pareto shape of the weights' tail; the exact posterior is
    not used.
    """
    problem = problem_of(config, seed)
    try:
        found = method_of(config)(problem, seed)
    except Diverged:
        return {"k": np.inf, "ess": 0.0, "loss": np.nan}
    log_joint = problem.model.log_joint(problem.y, problem.sigma)
    draws = found.draws[:_CHECKS]
    q = multivariate_normal(found.mean, found.covariance)
    log_weights, k = arviz.psislw(np.array([log_joint(tau) for tau in draws]) - q.logpdf(draws))
    return {"k": float(k), "ess": 1 / (len(draws) * np.sum(np.exp(2 * log_weights))), "loss": found.diagnostics["loss"]}


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
    found = method_of(config)(problem, seed)
    ranks = (found.draws[: config["draws"]] < problem.tau).sum(axis=0)
    away = np.linalg.solve(np.linalg.cholesky(found.covariance), problem.tau - found.mean)
    return {"rank_1": ranks[0], "rank_2": ranks[1], "distance": float(away @ away)}


def step_cost(config: dict, seed: int) -> dict:
    """Milliseconds of a training step and seconds of set-up; few centres, as rows of A⁻¹ cost a solve each."""
    problem = problem_of(config, seed)
    begun = time.perf_counter()
    name, patch_nodes = _parts(config["method"])
    where = (config["domain"], problem.mesh, problem.equation)
    penalty = _penalty(name, RUNGS[name][0], patch_nodes, config["tests"], *where, centres=_few(problem.mesh))
    setup = time.perf_counter() - begun
    schedule, size = Geometric(0.03, 0.003, steps=1000), {name: config[name] for name in ("samples", "width")}
    method = CVI(lambda *_: penalty, schedule, xla=penalty.compiles, **size)
    block, readings, state = Training(method, penalty).joint, Readings.of(problem, penalty, seed), method.start(seed)
    span = tf.constant([0, config["steps"], config["steps"]])
    block(state, readings, span)  # compiles
    begun = time.perf_counter()
    block(state, readings, span)[1].numpy()
    milliseconds = 1e3 * (time.perf_counter() - begun) / config["steps"]
    return {"interior": len(problem.mesh.interior), "milliseconds": milliseconds, "setup_seconds": setup}


def _few(mesh: Mesh) -> np.ndarray:
    return np.random.default_rng(0).permutation(mesh.interior)[:256]
