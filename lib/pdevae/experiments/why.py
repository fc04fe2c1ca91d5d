"""Why a trained decoder gets away with the taper, and what the exact penalty needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from .._tensorflow import tf
from ..inference import exact
from ..inference.cvi import Decoder, Readings, training_on
from ..penalties import ExactPenalty
from ..schedules import Geometric
from ..solve import factorise
from ..weak_form import WeakForm, stiffness
from . import transport

_DRAWS = 16  # τ from q at which residuals are looked at
_BINS = np.geomspace(2.0, 200.0, 25)  # wavenumbers


def residual_left(config: dict, seed: int) -> dict:
    """‖r‖² in H⁻¹ of the trained decoder by wavenumber √λ of the Laplacian's modes, over the load's; cumulative."""
    problem = transport.problem_of(config, seed)
    training = training_on(transport.method_of(config), problem.mesh, problem.equation)
    readings = Readings.of(problem, training.penalty, seed)
    training.prepared(readings)
    state, _ = training.run(readings)
    r, f = _residuals(training, state, problem)
    lumped = np.bincount(problem.mesh.triangles.ravel(), weights=np.repeat(_areas(problem.mesh) / 3, 3))
    lam, modes = scipy.linalg.eigh(stiffness(problem.mesh).toarray(), np.diag(lumped[problem.mesh.interior]))
    by_mode, load = np.mean((r @ modes) ** 2, axis=0) / lam, np.sum((f @ modes) ** 2 / lam)
    below = [by_mode[np.sqrt(lam) <= k].sum() / load for k in _BINS]
    return {"wavenumber": _BINS, "left": np.array(below)}


def long_run(config: dict, seed: int) -> dict:
    """A tapered run that goes on at the last ε: the whole sum rᵀΓr, rᵀA⁻¹r and q's error on the way."""
    problem = transport.problem_of(config, seed)
    method = transport.method_of(config)
    steps = config["steps"]
    method = replace(method, schedule=Geometric(method.schedule.start, method.schedule.end, steps=min(7000, steps)))
    training = training_on(method, problem.mesh, problem.equation)
    readings, state = Readings.of(problem, training.penalty, seed), method.start(seed)
    Gamma, inverse = training.penalty.quadratic_form(), factorise(stiffness(problem.mesh))
    truth, looks = exact(problem, seed), np.unique(np.geomspace(min(500, steps // 2), steps, 14).astype(int))
    rows, begun = [], 0
    for look in looks:
        state, _ = training.joint(state, readings, tf.constant([begun, int(look), steps]))
        r, f = _residuals(training, state, problem)
        size = f @ inverse.solve(f)
        m = state.q[:2].numpy()
        rows.append(
            (
                np.mean([row @ Gamma.matvec(row) for row in r]) / size,
                np.mean(np.sum(r * inverse.solve(r.T).T, axis=1)) / size,
                np.abs((m - truth.mean) / truth.sd).max(),
            )
        )
        begun = int(look)
    tapered, whole, error = np.array(rows).T
    return {"after": looks, "tapered": tapered, "exact_penalty": whole, "mean_error": error}


def variant(config: dict, seed: int) -> dict:
    """The exact penalty with one thing changed: steps, precision, or the decoder trained first over the prior."""
    problem = transport.problem_of(config, seed)
    double = config["variant"] == "double precision"
    dtype = tf.float64 if double else tf.float32
    first = config["variant"] == "decoder first"
    method = replace(
        transport.method_of(config | {"method": "trained-exact"}),
        penalty=lambda mesh, equation: ExactPenalty(mesh, equation, boundary=0.0, dtype=dtype),
        precision=dtype,
        serves="prior" if first else "wider",
        spread=1.3 if first else 1.5,
    )
    found, truth = method(problem, seed), exact(problem, seed)
    ratio = found.sd / truth.sd
    return {
        "mean_error": np.abs((found.mean - truth.mean) / truth.sd).max(),
        "sd_ratio": ratio[np.argmax(np.abs(np.log(ratio)))],
    }


def _residuals(training, state, problem) -> tuple[np.ndarray, np.ndarray]:
    """r [draws, N] of the decoder at draws of q, in double precision, and the load f."""
    method = training.method
    mu = Decoder(method.width, method.depth).field(state.weights)
    weak = WeakForm(problem.mesh, problem.equation, training.penalty.weak.boundary)
    m, C = state.q[:2].numpy(), np.diag(np.exp(state.q[2:4].numpy())) + np.array([[0, 0], [float(state.q[4]), 0]])
    tau = tf.constant(m + np.random.default_rng(0).normal(size=(_DRAWS, 2)) @ C.T)
    return weak.residual(weak.values(mu, tau), tau).numpy(), weak.load(tau[:1])


def _areas(mesh) -> np.ndarray:
    a, b, c = (mesh.points[mesh.triangles[:, k]] for k in range(3))
    (x, y), (v, w) = (b - a).T, (c - a).T
    return np.abs(x * w - y * v) / 2
