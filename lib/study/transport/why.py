"""Why a trained decoder gets away with the taper, and what the exact penalty needs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from pdevae import ExactPenalty, Geometric, InverseProblem, WeakForm, exact, stiffness
from pdevae._tensorflow import tf
from pdevae.fem.factors import factorise
from pdevae.inference.training import Training
from study.transport import experiment as transport

_DRAWS = 16  # τ from q at which residuals are looked at
_BINS = np.geomspace(2.0, 200.0, 25)  # wavenumbers


def residual_left(config: transport.Setting, seed: int) -> dict:
    """‖r‖² in H⁻¹ of the trained decoder by wavenumber √λ of the Laplacian's modes, over the load's; cumulative."""
    problem = transport.problem_of(config, seed)
    training = _training(transport.method_of(config), problem, seed)
    training.run()
    r, f = _residuals(training, problem)
    lumped = np.bincount(problem.mesh.triangles.ravel(), weights=np.repeat(_areas(problem.mesh) / 3, 3))
    lam, modes = scipy.linalg.eigh(stiffness(problem.mesh).toarray(), np.diag(lumped[problem.mesh.interior]))
    by_mode, load = np.mean((r @ modes) ** 2, axis=0) / lam, np.sum((f @ modes) ** 2 / lam)
    below = [by_mode[np.sqrt(lam) <= k].sum() / load for k in _BINS]
    return {"wavenumber": _BINS, "left": np.array(below)}


def long_run(config: transport.Setting, seed: int) -> dict:
    """A tapered run that goes on at the last ε: the whole sum rᵀΓr, rᵀA⁻¹r and q's error on the way."""
    problem = transport.problem_of(config, seed)
    method = transport.method_of(config)
    steps = config.steps
    method = replace(method, eps=Geometric(method.eps.start, method.eps.end, steps=min(7000, steps)))
    training = _training(method, problem, seed)
    Gamma, inverse = training.penalty.quadratic_form(), factorise(stiffness(problem.mesh))
    truth, looks = exact(problem, seed), np.unique(np.geomspace(min(500, steps // 2), steps, 14).astype(int))
    rows = []
    for look in looks:
        training.descents[0].run(int(look))
        r, f = _residuals(training, problem)
        size = f @ inverse.solve(f)
        m = training.q.mean.numpy()
        rows.append(
            (
                np.mean([row @ Gamma.matvec(row) for row in r]) / size,
                np.mean(np.sum(r * inverse.solve(r.T).T, axis=1)) / size,
                np.abs((m - truth.mean) / truth.sd).max(),
            )
        )
    tapered, whole, error = np.array(rows).T
    return {"after": looks, "tapered": tapered, "exact_penalty": whole, "mean_error": error}


def variant(config: transport.Setting, seed: int) -> dict:
    """The exact penalty with one thing changed: steps, precision, or the decoder trained first over the prior."""
    problem = transport.problem_of(config, seed)
    double = config.variant == "double precision"
    dtype = tf.float64 if double else tf.float32
    first = config.variant == "decoder first"
    method = replace(
        transport.method_of(replace(config, method="trained-exact")),
        penalty=lambda mesh, equation: ExactPenalty(mesh, equation, boundary=0.0, dtype=dtype),
        serves="prior" if first else "wider",
        spread=1.3 if first else 1.5,
    )
    found, truth = method(problem, seed), exact(problem, seed)
    ratio = found.sd / truth.sd
    return {
        "mean_error": np.abs((found.mean - truth.mean) / truth.sd).max(),
        "sd_ratio": ratio[np.argmax(np.abs(np.log(ratio)))],
    }


def _training(method, problem: InverseProblem, seed: int) -> Training:
    training = Training(method, problem.forward, len(problem.sensors))
    training.take(problem, seed)
    return training


def _residuals(training: Training, problem: InverseProblem) -> tuple[np.ndarray, np.ndarray]:
    """r [draws, N] of the decoder at draws of q, in double precision, and the load f."""
    weak = WeakForm(problem.mesh, problem.forward.equation, training.penalty.weak.boundary)
    normal = np.random.default_rng(0).normal(size=(_DRAWS, 2)).astype(np.float32)
    seen = problem.latents.seen(tf.cast(training.q.draw(normal), tf.float64))
    still = problem.latents.seen(tf.zeros([1, 2], tf.float64))
    return weak.residual(weak.values(training.mu, seen), seen).numpy(), weak.load(still)


def _areas(mesh) -> np.ndarray:
    a, b, c = (mesh.points[mesh.triangles[:, k]] for k in range(3))
    (x, y), (v, w) = (b - a).T, (c - a).T
    return np.abs(x * w - y * v) / 2
