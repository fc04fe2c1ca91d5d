"""Hamiltonian Monte Carlo and the no-U-turn sampler through exact solves, in Laplace's coordinates."""

from __future__ import annotations

import time
from dataclasses import dataclass

import arviz
import numpy as np
import tensorflow_probability as tfp
from tqdm.auto import tqdm

from .._tensorflow import graph, tf
from .laplace import Laplace
from .posterior import Posterior
from .problem import InverseProblem


@dataclass(frozen=True)
class HMC:
    """Chains from Laplace's q, in coordinates where that is standard normal; draws until R-hat and ESS are reached.

    The posterior is then nearly isotropic: one step size serves, adapted in the ``warm_up`` to few rejections, and so
    many leapfrog steps that a path is about a quarter of an orbit. Longer ones would come back to where they began.
    """

    chains: int = 4
    warm_up: int = 150
    block: int = 50
    most_draws: int = 2000
    r_hat: float = 1.01
    ess: float = 400.0
    target_accept: float = 0.9

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        m, H = Laplace().mode(problem)
        C = np.linalg.inv(np.linalg.cholesky(H)).T  # CCᵀ = H⁻¹
        rng = np.random.default_rng([seed, 16])
        state = tf.constant(rng.normal(size=(self.chains, problem.size)))
        log_density = lambda v: problem.log_joint(m + tf.matmul(v, tf.constant(C.T)))  # noqa: E731
        kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
            self._kernel(log_density, problem.size), int(0.8 * self.warm_up), self.target_accept
        )
        ready = time.perf_counter()
        advance = graph(
            lambda state, results, seed: tfp.mcmc.sample_chain(
                self.block,
                state,
                previous_kernel_results=results,
                kernel=kernel,
                trace_fn=lambda *_: (),
                return_final_kernel_results=True,
                seed=seed,
            )
        )
        results, states = kernel.bootstrap_results(state), np.empty((0, self.chains, problem.size))
        for k in tqdm(
            range(-(-self.warm_up // self.block) + self.most_draws // self.block), type(self).__name__, delay=3
        ):
            found, _, results = advance(state, results, tf.constant(rng.integers(2**31, size=2), tf.int32))
            state = found[-1]
            if k * self.block < self.warm_up:
                continue
            states = np.concatenate([states, found.numpy()])
            said = diagnosed(states)
            if said["r_hat"] < self.r_hat and said["ess"] >= self.ess:
                break
        z = m + np.swapaxes(states, 0, 1).reshape(-1, problem.size) @ C.T
        seconds = time.perf_counter() - begun
        said |= {"draws": len(states)}
        moments = (z.mean(axis=0), np.atleast_2d(np.cov(z.T)))
        return Posterior(problem, *moments, z, seconds, ready - begun, said, gaussian=False, chains=self.chains)

    def _kernel(self, log_density, d: int):
        step = tf.constant(0.5 * d**-0.25, tf.float64)
        return tfp.mcmc.HamiltonianMonteCarlo(log_density, step, max(round(np.pi / 2 * d**0.25), 2))


@dataclass(frozen=True)
class NUTS(HMC):
    """HMC whose paths end where they turn back."""

    max_tree_depth: int = 6

    def _kernel(self, log_density, d: int):
        step = tf.constant(0.5 * d**-0.25, tf.float64)
        return tfp.mcmc.NoUTurnSampler(log_density, step, max_tree_depth=self.max_tree_depth)


def diagnosed(states: np.ndarray) -> dict[str, float]:
    """The worst R-hat and effective size over components, of the draws [draws, chains, d] and of their squares."""
    chains = np.swapaxes(states, 0, 1)
    data = arviz.convert_to_dataset({"z": chains, "squared": (chains - chains.mean(axis=(0, 1))) ** 2})
    r_hat, ess = arviz.rhat(data), arviz.ess(data)
    return {
        "r_hat": float(max(r_hat.z.max(), r_hat.squared.max())),
        "ess": float(min(ess.z.min(), ess.squared.min())),
    }
