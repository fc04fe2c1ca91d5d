"""Hamiltonian Monte Carlo with the forward solve inside (Section 5): dense as in the paper, or sparse."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal

import arviz
import numpy as np
import tensorflow_probability as tfp

from .._tensorflow import tf
from ..hierarchy import interpolation
from ..solve import Solver
from ..weak_form import WeakForm
from .problem import Posterior, TransportProblem


@dataclass(frozen=True)
class HMC:
    """Chains started from the prior; step size by dual averaging during burn-in."""

    solver: Literal["sparse", "dense"] = "sparse"
    chains: int = 4
    burn_in: int = 200
    draws: int = 500
    leapfrog_steps: int = 3

    def __call__(self, problem: TransportProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        log_density = log_joint(problem, self.solver, self.chains)
        start = np.random.default_rng([seed, 15]).normal(size=(self.chains, 2))
        ready = time.perf_counter()
        states, accepted = sample(log_density, start, self.burn_in, self.draws, self.leapfrog_steps, seed)
        chains = np.swapaxes(states, 0, 1)  # [chains, draws, 2]
        flat = chains.reshape(-1, 2)
        data = arviz.convert_to_dataset({"tau": chains})
        diagnostics = {
            "r_hat": float(arviz.rhat(data).tau.max()),
            "ess": float(arviz.ess(data).tau.min()),
            "accepted": float(accepted.mean()),
        }
        ended = time.perf_counter()
        return Posterior(flat.mean(axis=0), np.cov(flat.T), flat, ended - begun, ready - begun, diagnostics)


def log_joint(problem: TransportProblem, solver: str, samples: int):
    """τ [M, 2] → log p(y | τ) + log p(τ) [M], up to a constant, by a forward solve for each sample."""
    solve = getattr(Solver(WeakForm(problem.mesh, problem.equation, boundary=0.0)), solver)
    read = tf.constant(interpolation(problem.mesh, problem.sensors).toarray())

    def value(tau):
        u = solve(tau, samples=samples)
        misfit = tf.reduce_sum((problem.y - u @ tf.transpose(read)) ** 2, axis=1)
        return -misfit / (2 * problem.sigma**2) - tf.reduce_sum(tau**2, axis=1) / 2

    return value


def sample(log_density, start: np.ndarray, burn_in: int, draws: int, leapfrog_steps: int, seed: int):
    """Draws [draws, chains, d] after burn-in, and whether each was accepted.

    Keep ``leapfrog_steps`` small: at five, the adapted step carries a Gaussian half-way round its orbit, x → −x, and
    the spread of the draws hardly mixes.
    """
    step_size = tf.constant(0.1, tf.float64)
    hmc = tfp.mcmc.HamiltonianMonteCarlo(log_density, step_size=step_size, num_leapfrog_steps=leapfrog_steps)
    kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(hmc, num_adaptation_steps=int(0.8 * burn_in))

    @tf.function
    def run():
        return tfp.mcmc.sample_chain(
            draws,
            tf.constant(start),
            kernel=kernel,
            num_burnin_steps=burn_in,
            trace_fn=lambda _, results: results.inner_results.is_accepted,
            seed=tf.constant([seed, 16]),
        )

    states, accepted = run()
    return states.numpy(), accepted.numpy()
