"""CUQIpy's NUTS on a problem written by benchmarks/peers.py: python cuqipy_nuts.py PROBLEM.npz OUT.npz BUDGET.

The forward map is a sparse solve, its gradient the adjoint equation with the same factors: what a user of CUQIpy would
write. Sampled in Laplace's coordinates, τ = m + Cv, where the posterior is nearly standard normal and trees stay short.
Leaves the draws and the second at which each was there.
"""

import sys
import time

import cuqi
import numpy as np
import scipy.sparse as sp
from scipy.optimize import least_squares
from scipy.sparse.linalg import splu

FAST = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}
WARM_UP, DRAWS, BLOCK = 100, 1000, 20


class Forward:
    """τ ↦ readings, and the gradient of what is made of them; the factors of the last τ are kept."""

    def __init__(self, given):
        size = len(given["f"])
        part = lambda k: sp.csc_matrix((given[f"data_{k}"], given["indices"], given["indptr"]), shape=(size, size))  # noqa: E731
        self.L, self.f, self.tau = [part(k) for k in range(3)], given["f"], None
        self.read = sp.csr_matrix(given["read"])

    def at(self, tau):
        if self.tau is None or not np.array_equal(tau, self.tau):
            A, C_1, C_2 = self.L
            self.factors = splu(A + tau[0] * C_1 + tau[1] * C_2, **FAST)
            self.u, self.tau = self.factors.solve(self.f), np.array(tau)
        return self.read @ self.u

    def gradient(self, direction, tau):
        self.at(tau)
        adjoint = self.factors.solve(self.read.T @ direction, trans="T")
        return np.array([-adjoint @ (C @ self.u) for C in self.L[1:]])

    def jacobian(self, tau):
        self.at(tau)
        return np.column_stack([-self.read @ self.factors.solve(C @ self.u) for C in self.L[1:]])


def main(problem, out, budget):
    given = np.load(problem)
    begun = time.perf_counter()
    forward, y, sigma = Forward(given), given["y"], float(given["sigma"])
    rows = lambda tau: np.concatenate([(forward.at(tau) - y) / sigma, tau])  # noqa: E731
    slopes = lambda tau: np.concatenate([forward.jacobian(tau) / sigma, np.eye(2)])  # noqa: E731
    m = least_squares(rows, np.zeros(2), slopes).x
    J = slopes(m)
    C = np.linalg.inv(np.linalg.cholesky(J.T @ J)).T

    def log_density(v):
        return -0.5 * np.sum(rows(m + C @ v) ** 2)

    def gradient(v):
        tau = m + C @ v
        return -C.T @ (forward.gradient((forward.at(tau) - y) / sigma**2, tau) + tau)

    posterior = cuqi.distribution.UserDefinedDistribution(2, log_density, gradient)
    sampler = cuqi.sampler.NUTS(posterior, initial_point=np.zeros(2))
    ready = time.perf_counter() - begun
    sampler.warmup(WARM_UP)
    draws, times = [], []
    while len(draws) < DRAWS and time.perf_counter() - begun < budget:
        sampler.sample(BLOCK)
        draws += list(m + sampler.get_samples().samples.T[-BLOCK:] @ C.T)
        times += [time.perf_counter() - begun] * BLOCK
    np.savez(out, draws=np.array(draws).reshape(-1, 2), times=times, setup=ready, version=cuqi.__version__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
