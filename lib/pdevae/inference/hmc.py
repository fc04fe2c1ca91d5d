"""Hamiltonian Monte Carlo with the forward solve inside (Section 5): dense as in the paper, or sparse."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Literal

import arviz
import numpy as np
import tensorflow_probability as tfp

from .._tensorflow import graph, tf
from ..errors import UserError
from ..hierarchy import read_at
from ..solve import Solver
from ..weak_form import WeakForm
from .problem import Posterior, TransportProblem


class OverBudget(UserError):
    """The chains would need more wall-clock time than allowed: reported, as in the paper, not run to the end."""

    def __init__(self, projected: float, budget: float):
        super().__init__(f"HMC over budget: needs about {projected:.0f} s, allowed {budget:.0f} s")
        self.projected = projected


@dataclass(frozen=True)
class HMC:
    """Chains from the prior. Warm-up: step size, then mass matrix (from the pooled draws), then step size again.

    Draws come in blocks until R-hat and effective size are reached, or the ``budget`` (seconds) is spent.
    """

    solver: Literal["sparse", "dense"] = "sparse"
    chains: int = 4
    warm_up: int = 100
    block: int = 25
    most_draws: int = 1000
    leapfrog_steps: int = 2
    r_hat: float = 1.01
    ess: float = 400.0
    budget: float = np.inf

    def __call__(self, problem: TransportProblem, seed: int = 0) -> Posterior:
        clock = _Clock(self.budget)
        log_density = log_joint(problem, self.solver, self.chains)
        start = np.random.default_rng([seed, 15]).normal(size=(self.chains, 2))
        self._foresee(log_density, start, clock)
        ready = clock.elapsed
        states, diagnostics = self.sample(log_density, start, seed, clock)
        flat = states.reshape(-1, 2)
        return Posterior(
            flat.mean(axis=0), np.cov(flat.T), flat, clock.elapsed, ready, diagnostics, predict=problem.solve_at
        )

    def _foresee(self, log_density, start: np.ndarray, clock: _Clock) -> None:
        """Two gradients (the first one traces) tell whether the budget can hold at all."""
        gradient = graph(lambda tau: tfp.math.value_and_gradient(log_density, tau))
        gradient(tf.constant(start))
        begun = clock.elapsed
        gradient(tf.constant(start))
        clock.expect((clock.elapsed - begun) * self.leapfrog_steps * (2 * self.warm_up + 4 * self.block))

    def sample(self, log_density, start: np.ndarray, seed: int, clock: _Clock | None = None):
        """Draws [draws, chains, d] after warm-up, and what they say of themselves."""
        clock, seeds = clock or _Clock(np.inf), np.random.default_rng([seed, 16])
        d = start.shape[1]
        first = _Chains(self, log_density, start, np.eye(d), None, seeds, clock)
        late = first.run(self.warm_up)[self.warm_up // 2 :].reshape(-1, d)
        mass = np.linalg.cholesky(np.cov(late.T) + 1e-9 * np.eye(d))
        second = _Chains(self, log_density, first.state, mass, None, seeds, clock)
        second.run(self.warm_up)
        chains = _Chains(self, log_density, second.state, mass, second.step_size, seeds, clock)
        states, to_r_hat = np.empty((0, *start.shape)), np.nan
        while len(states) < self.most_draws:
            states = np.concatenate([states, chains.run(self.block)])
            found = _diagnose(states)
            if found["r_hat"] < self.r_hat and np.isnan(to_r_hat):
                to_r_hat = clock.elapsed
            if found["r_hat"] < self.r_hat and found["ess"] >= self.ess:
                break
        said = {"seconds_to_r_hat": to_r_hat, "accepted": np.mean(chains.accepted), "draws": len(states)}
        return states, found | said


@dataclass
class _Clock:
    budget: float
    begun: float = field(default_factory=time.perf_counter)

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.begun

    def expect(self, seconds: float) -> None:
        if self.elapsed + seconds > self.budget:
            raise OverBudget(self.elapsed + seconds, self.budget)


class _Chains:
    """TFP's HMC in coordinates whitened by a mass matrix, run a block at a time so that the clock can be watched.

    Without a step size one is adapted, to few rejections: with two leapfrog steps that is about a quarter of an orbit.
    """

    def __init__(self, settings: HMC, log_density, start, C: np.ndarray, step_size, seeds, clock: _Clock):
        self.C, self.seeds, self.clock, self.block, self.accepted = C, seeds, clock, settings.block, []
        in_place = lambda x: log_density(x @ tf.constant(C.T))  # noqa: E731
        first = tf.constant(0.3 if step_size is None else step_size, tf.float64)
        kernel = tfp.mcmc.HamiltonianMonteCarlo(in_place, first, settings.leapfrog_steps)
        if step_size is None:
            steps = int(0.8 * settings.warm_up)
            kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(kernel, steps, target_accept_prob=np.float64(0.9))
        self.whitened = tf.constant(np.linalg.solve(C, np.asarray(start).T).T)
        self.results = kernel.bootstrap_results(self.whitened)
        self._advance = graph(
            lambda state, results, seed: tfp.mcmc.sample_chain(
                settings.block,
                state,
                previous_kernel_results=results,
                kernel=kernel,
                trace_fn=lambda _, r: getattr(r, "inner_results", r).is_accepted,
                return_final_kernel_results=True,
                seed=seed,
            )
        )

    @property
    def state(self) -> np.ndarray:
        return self.whitened.numpy() @ self.C.T

    @property
    def step_size(self) -> np.ndarray:
        return self.results.new_step_size.numpy()

    def run(self, steps: int) -> np.ndarray:
        """At least so many more states; [steps, chains, d]."""
        states = []
        for _ in range(0, steps, self.block):
            begun, seed = self.clock.elapsed, tf.constant(self.seeds.integers(2**31, size=2), tf.int32)
            found, accepted, self.results = self._advance(self.whitened, self.results, seed)
            self.whitened = found[-1]
            states.append(found.numpy() @ self.C.T)
            self.accepted.append(accepted.numpy().mean())
            self.clock.expect(self.clock.elapsed - begun)
        return np.concatenate(states)


def _diagnose(states: np.ndarray) -> dict[str, float]:
    """R-hat and the effective size, of the draws and of their squares: HMC can mix in one and not in the other."""
    chains = np.swapaxes(states, 0, 1)
    data = arviz.convert_to_dataset({"tau": chains, "squared": (chains - chains.mean(axis=(0, 1))) ** 2})
    r_hat, ess = arviz.rhat(data), arviz.ess(data)
    return {
        "r_hat": float(max(r_hat.tau.max(), r_hat.squared.max())),
        "ess": float(min(ess.tau.min(), ess.squared.min())),
    }


def log_joint(problem: TransportProblem, solver: str, samples: int):
    """τ [M, 2] → log p(y | τ) + log p(τ) [M], up to a constant, by a forward solve for each sample."""
    return _dense(problem, samples) if solver == "dense" else _sparse(problem, samples)


def _dense(problem: TransportProblem, samples: int):
    solver = Solver(WeakForm(problem.mesh, problem.equation, boundary=0.0))
    read = tf.constant(read_at(problem.mesh, problem.sensors).toarray())

    def value(tau):
        u = solver.dense(tau, samples=samples)
        misfit = tf.reduce_sum((problem.y - u @ tf.transpose(read)) ** 2, axis=1)
        return -misfit / (2 * problem.sigma**2) - tf.reduce_sum(tau**2, axis=1) / 2

    return value


def _sparse(problem: TransportProblem, samples: int):
    model = problem.model

    def at(tau):
        found = [model.log_joint_and_gradient(problem.y, problem.sigma, t) for t in tau]
        return np.array([value for value, _ in found]), np.array([slope for _, slope in found])

    @tf.custom_gradient
    def value(tau):
        logs, slopes = tf.numpy_function(at, [tau], [tf.float64, tf.float64])
        logs.set_shape([samples])
        slopes.set_shape([samples, 2])
        return logs, lambda upstream: upstream[:, None] * slopes

    return value
