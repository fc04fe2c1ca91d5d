"""Hamiltonian Monte Carlo and the no-U-turn sampler through exact solves, in coordinates of an approximation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import arviz
import numpy as np
import tensorflow_probability as tfp
from tqdm.auto import tqdm

from pdevae._tensorflow import graph, tf
from pdevae.errors import UserError
from pdevae.inference.laplace import Laplace
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.streams import Stream, random


class OverBudget(UserError):
    """The chains would need more wall-clock time than allowed: reported, as in the paper, not run to the end."""

    def __init__(self, projected: float, budget: float):
        super().__init__(
            f"HMC over budget: needs about {projected:.0f} s, allowed {budget:.0f} s; raise budget, lower ess, or use "
            "Laplace()"
        )
        self.projected = projected


@dataclass(frozen=True)
class HMC:
    """Chains from an approximation, in coordinates where it is standard normal; draws until R-hat and ESS are reached.

    ``around`` is Laplace's, or another method; ``FlowVI()`` where a Gaussian is too far from the posterior.

    The posterior is then nearly isotropic, and more so in the frame of the draws of the ``warm_up``, taken up after
    each of its blocks: one step size serves, adapted to few rejections, and so many leapfrog steps that a path is about
    a quarter of an orbit. Longer ones would come back to where they began.

    >>> found = HMC(ess=100.0, warm_up=50)(problem)
    >>> found.a().mean.round(1).tolist(), found.diagnostics["ess"] >= 100
    ([2.0], True)
    """

    chains: int = 4
    warm_up: int = 150
    block: int = 50
    most_draws: int = 2000
    r_hat: float = 1.01
    ess: float = 400.0
    target_accept: float = 0.9
    budget: float = np.inf  # seconds
    around: Callable[[InverseProblem], Posterior] = Laplace()
    leapfrogs: int = 0  # 0: a quarter of an orbit

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        to_z = self.around(problem).from_normal

        def log_density(xi):
            z, log_det = to_z(xi)
            value = problem.log_joint(z) + log_det
            return tf.where(tf.math.is_finite(value), value, -np.inf)  # no solution there

        ready = time.perf_counter()
        states, said = self.sample(log_density, problem.size, seed, begun)
        z = to_z(tf.constant(np.swapaxes(states, 0, 1).reshape(-1, problem.size)))[0].numpy()
        seconds = time.perf_counter() - begun
        moments = (z.mean(axis=0), np.atleast_2d(np.cov(z.T)))
        return Posterior(problem, *moments, z, seconds, ready - begun, said, gaussian=False, chains=self.chains)

    def sample(self, log_density, d: int, seed: int, begun: float | None = None) -> tuple[np.ndarray, dict[str, float]]:
        """Draws [draws, chains, d] from a density on ℝᵈ that is nearly standard normal, and what they say of it."""
        begun = time.perf_counter() if begun is None else begun
        rng = random(Stream.CHAINS, seed)
        state, frame = tf.constant(rng.normal(size=(self.chains, d))), tf.Variable(np.eye(d))
        in_frame = lambda v: log_density(tf.matmul(v, frame, transpose_b=True))  # noqa: E731
        kernel = tfp.mcmc.DualAveragingStepSizeAdaptation(
            self._kernel(in_frame, d), int(0.8 * self.block), self.target_accept
        )
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
        self._foresee(log_density, state, begun)
        results, states, to_r_hat = kernel.bootstrap_results(state), np.empty((0, self.chains, d)), np.nan
        warm_up = -(-self.warm_up // self.block)
        for k in tqdm(range(warm_up + -(-self.most_draws // self.block)), type(self).__name__, delay=3, leave=False):
            started = time.perf_counter()
            found, _, results = advance(state, results, tf.constant(rng.integers(2**31, size=2), tf.int32))
            state = found[-1]
            self._allow(begun, time.perf_counter() - started)
            if k < warm_up:
                if k < warm_up - 1:
                    turn = np.linalg.cholesky(shrunk_covariance(found.numpy()[self.block // 3 :]))
                    state = tf.constant(np.linalg.solve(turn, state.numpy().T).T)
                    frame.assign(frame @ turn)
                    results = kernel.bootstrap_results(state)
                continue
            states = np.concatenate([states, found.numpy() @ frame.numpy().T])
            said = diagnosed(states)
            if said["r_hat"] < self.r_hat and np.isnan(to_r_hat):
                to_r_hat = time.perf_counter() - begun
            if said["r_hat"] < self.r_hat and said["ess"] >= self.ess:
                break
        return states, said | {"draws": len(states), "seconds_to_r_hat": to_r_hat}

    def _foresee(self, log_density, state: tf.Tensor, begun: float) -> None:
        """Two gradients (the first one traces) tell whether the budget can hold at all."""
        if np.isfinite(self.budget):
            gradient = graph(lambda v: tfp.math.value_and_gradient(log_density, v))
            gradient(state)
            started = time.perf_counter()
            gradient(state)
            self._allow(begun, (time.perf_counter() - started) * 2 * (self.warm_up + 4 * self.block))

    def _allow(self, begun: float, more: float) -> None:
        spent = time.perf_counter() - begun
        if spent + more > self.budget:
            raise OverBudget(spent + more, self.budget)

    def _kernel(self, log_density, d: int):
        step = tf.constant(0.5 * d**-0.25, tf.float64)
        leapfrogs = self.leapfrogs or max(round(np.pi / 2 * d**0.25), 2)
        return tfp.mcmc.HamiltonianMonteCarlo(log_density, step, leapfrogs)


@dataclass(frozen=True)
class NUTS(HMC):
    """HMC whose paths end where they turn back.

    >>> NUTS(ess=100.0, warm_up=50)(problem).a().mean.round(1).tolist()
    [2.0]
    """

    max_tree_depth: int = 6

    def _kernel(self, log_density, d: int):
        step = tf.constant(0.5 * d**-0.25, tf.float64)
        return tfp.mcmc.NoUTurnSampler(log_density, step, max_tree_depth=self.max_tree_depth)


def shrunk_covariance(states: np.ndarray) -> np.ndarray:
    """Of draws [draws, chains, d], shrunk towards a multiple of I as far as so few suggest (Chen et al., 2010)."""
    d = states.shape[-1]
    S = np.atleast_2d(np.cov(states.reshape(-1, d).T))
    n = states[..., 0].size / 4  # neighbours in a chain are much alike
    square, trace = np.sum(S**2), np.trace(S)
    spread = (n + 1 - 2 / d) * (square - trace**2 / d)
    rho = min(1.0, ((1 - 2 / d) * square + trace**2) / spread) if spread > 0 else 1.0
    return (1 - rho) * S + rho * trace / d * np.eye(d)


def diagnosed(states: np.ndarray) -> dict[str, float]:
    """The worst R-hat and effective size over components, of the draws [draws, chains, d] and of their squares."""
    chains = np.swapaxes(states, 0, 1)
    data = arviz.convert_to_dataset({"z": chains, "squared": (chains - chains.mean(axis=(0, 1))) ** 2})
    r_hat, ess = arviz.rhat(data), arviz.ess(data)
    return {
        "r_hat": float(max(r_hat.z.max(), r_hat.squared.max())),
        "ess": float(min(ess.z.min(), ess.squared.min())),
    }
