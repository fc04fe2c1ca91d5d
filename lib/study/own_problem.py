"""Notebook 7: what its figures and bars are made of."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
import pandas as pd

import pdevae
from pdevae._tensorflow import graph, tf
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.penalties import NAMES, named
from study.tables import columns, mesh_columns

_MAPS, _UNKNOWNS = "fig_your_own_problem", "fig_your_own_unknowns"
_ESTIMATES = 20


def maps(found: dict[str, Posterior], mesh, truth, solution, fine, sensors, y) -> pd.DataFrame:
    """log D in truth and by method, mean, sd and the ends of its 90% interval, at the nodes; the field and readings."""
    at = {"truth": truth.log_D(tf.constant(mesh.points)).numpy()[0]}
    at["u"] = pdevae.read_at(fine, mesh.points) @ solution
    for name, posterior in found.items():
        marginal = posterior.log_D(mesh.points)
        at |= {f"{part}_{name}": value for part, value in marginal._asdict().items()}
    read = dict(kind="reading", x=sensors[:, 0], y=sensors[:, 1], u=y)
    return pd.DataFrame(columns(*mesh_columns(mesh, **at), read))


def unknowns(found: dict[str, Posterior], truth) -> pd.DataFrame:
    """Draws of the current and of the decay rate by method, the truth, and what it took."""
    right = [*truth.tau.numpy().ravel(), truth.k.numpy().item()]
    rows = [pd.DataFrame([["truth", np.nan, *right]], columns=["method", "seconds", "tau_1", "tau_2", "k"])]
    for name, posterior in found.items():
        values = np.column_stack([posterior.part("tau"), posterior.part("k")])
        some = values[np.random.default_rng(0).permutation(len(values))[:500]]
        rows.append(pd.DataFrame(some, columns=["tau_1", "tau_2", "k"]).assign(method=name, seconds=posterior.seconds))
    return pd.concat(rows, ignore_index=True)


def bars(
    found: dict[str, Posterior], second_order: Posterior, problem: InverseProblem, table: pd.DataFrame
) -> Iterator[tuple]:
    """id, bar, target, ours, met, artefact."""
    nuts, nodes = found["NUTS"], table[table.kind == "node"]
    size = f"{problem.size} unknowns, {len(problem.sensors)} sensors, {problem.mesh.n_nodes:,} nodes"
    said = nuts.diagnostics
    yield (
        "own_nuts_converged",
        f"Your own problem ({size}): the largest R-hat of NUTS over all unknowns",
        "< 1.01",
        f"{said['r_hat']:.4f} after {said['draws']} draws of four chains, effective size ≥ {said['ess']:.0f}, "
        f"{nuts.seconds:.0f} s",
        said["r_hat"] < 1.01,
        _UNKNOWNS,
    )
    judged = {name: found[name] for name in ("Laplace", "GaussianVI", "CVI")} | {"CVI, Gauss–Newton": second_order}
    for name, one in judged.items():
        away, ratio = np.abs(one.mean - nuts.mean) / nuts.sd, one.sd / nuts.sd
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            check = one.check()
        yield (
            f"own_{name.lower().replace(', gauss–newton', '_gauss_newton')}_against_nuts",
            f"Your own problem: {name} against NUTS over all unknowns, error of the mean in sd, and sd ratio",
            "reported",
            f"median {np.median(away):.2f}, worst {away.max():.2f}; sd ratio {ratio.min():.2f} to {ratio.max():.2f}; "
            f"k̂ = {check.k:.2f}, {100 * check.ess:.0f}% of its draws effective; {one.seconds:.0f} s",
            True,
            _UNKNOWNS,
        )
    inside = {n: np.mean((nodes.truth > nodes[f"low_{n}"]) & (nodes.truth < nodes[f"high_{n}"])) for n in found}
    yield (
        "own_field_covered",
        "Your own problem: share of the lake where the 90% interval of log D holds the truth",
        "reported",
        ", ".join(f"{name} {share:.2f}" for name, share in inside.items()),
        True,
        _MAPS,
    )


def penalties(problem: InverseProblem, posterior: Posterior) -> pd.DataFrame:
    """Noise (sd over mean) and milliseconds of an estimate with its gradient in the field, by penalty."""
    at = posterior.draws[:4]
    seen = problem.latents.seen(tf.constant(at, tf.float32))
    scale = tf.Variable(1.1)
    mu = lambda x, z: scale * tf.reduce_sum(tf.sin(x / 2), axis=1)[None] * tf.ones([4, 1])  # noqa: E731
    rows = []
    for name in NAMES:
        penalty = named(name, problem.mesh, problem.forward.equation, boundary=0.2, dtype=tf.float32)

        @graph
        def step(seed, penalty=penalty):
            with tf.GradientTape() as tape:
                value = penalty(mu, seen, seed)
            return value, tape.gradient(value, scale)

        step(tf.constant([0, 0]))
        begun = time.perf_counter()
        values = [float(step(tf.constant([1, k]))[0]) for k in range(_ESTIMATES)]
        rows.append((name, np.std(values) / abs(np.mean(values)), 1e3 * (time.perf_counter() - begun) / _ESTIMATES))
    return pd.DataFrame(rows, columns=["penalty", "noise (sd/mean)", "ms"]).round(3)


class _Cubic(pdevae.Term):
    def volume(self, x, z, u, grad):
        return z.k * u**3


def promises(linear_sizes: list[int]) -> Iterator[tuple]:
    """The adjoint gradient against finite differences, and methods on linear-Gaussian problems."""
    mesh = pdevae.star(nodes=max(200, 2 * max(linear_sizes)))
    sensors = 0.9 * mesh.points[np.random.default_rng(3).choice(mesh.interior, 30, replace=False)]
    unknown = {
        "a vector": (pdevae.Transport(lambda x, z: z.tau), pdevae.Latents(tau=pdevae.Normal(2)), 1.0),
        "a nonlinear term": (_Cubic(), pdevae.Latents(k=pdevae.Normal(transform=tf.exp)), 50.0),
    }
    problems = {
        name: pdevae.InverseProblem(
            mesh, pdevae.Diffusion(1.0) + term - pdevae.Source(f), latents, sensors, np.zeros(30), 0.1
        )
        for name, (term, latents, f) in unknown.items()
    }
    field = pdevae.Diffusion(lambda x, z: tf.exp(z.log_a(x))) - pdevae.Source(1.0)
    latents = pdevae.Latents(log_a=pdevae.GaussianField(sd=0.5, length=0.5, modes=12))
    problems["a field"] = pdevae.InverseProblem(mesh, field, latents, sensors, np.zeros(30), 0.1)
    off = {name: _gradient_error(problem) for name, problem in problems.items()}
    yield (
        "adjoint_gradient",
        "Gradient of log p(y, z) by the adjoint equation against central differences, relative",
        "≤ 1e-6",
        ", ".join(f"{name} {value:.0e}" for name, value in off.items()),
        max(off.values()) <= 1e-6,
        _UNKNOWNS,
    )
    worst = {}
    for d in linear_sizes:
        for name, method in (
            ("Laplace", pdevae.Laplace()),
            ("GaussianVI", pdevae.GaussianVI()),
            ("HMC", pdevae.HMC(ess=3000.0)),
        ):
            worst[name, d] = _linear_error(method, mesh, sensors, d)
    yield (
        "linear_gaussian",
        f"Posteriors that are Gaussian in closed form, {', '.join(map(str, linear_sizes))} unknowns: worst error of a "
        "mean in sd; worst relative error of an sd",
        "≤ 0.05; ≤ 0.05",
        ", ".join(f"{name} {d}: {mean:.3f}; {sd:.3f}" for (name, d), (mean, sd) in worst.items()),
        max(max(both) for both in worst.values()) <= 0.05,
        _UNKNOWNS,
    )


def _gradient_error(problem: InverseProblem, step: float = 1e-5) -> float:
    z = np.random.default_rng(1).normal(size=(1, problem.size))
    with tf.GradientTape() as tape:
        at = tf.constant(z)
        tape.watch(at)
        value = problem.log_joint(at)
    slope = tape.gradient(value, at).numpy()[0]
    e = step * np.eye(problem.size)
    up, down = (problem.log_joint(tf.constant(z + sign * e)).numpy() for sign in (1, -1))
    return float(np.abs((up - down) / (2 * step) - slope).max() / np.abs(slope).max())


def _linear_error(method, mesh, sensors, d: int) -> tuple[float, float]:
    """−Δu = 1 + g with g a Gaussian field: u is linear in z."""
    equation = pdevae.Diffusion(1.0) - pdevae.Source(lambda x, z: 1 + z.f(x))
    latents = pdevae.Latents(f=pdevae.GaussianField(sd=3.0, length=0.3, modes=d, points=max(d, 200)))
    y = 0.1 + 0.1 * np.random.default_rng(d).normal(size=len(sensors))
    problem = pdevae.InverseProblem(mesh, equation, latents, sensors, y, 0.03)
    at_0, J = problem.sensitivity(np.zeros(d))
    S = np.linalg.inv(J.T @ J / 0.03**2 + np.eye(d))
    mean, sd = S @ J.T @ (y - at_0) / 0.03**2, np.sqrt(np.diag(S))
    found = method(problem, seed=1)
    return float((np.abs(found.mean - mean) / sd).max()), float(np.abs(found.sd / sd - 1).max())
