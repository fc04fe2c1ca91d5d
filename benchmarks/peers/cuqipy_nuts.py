"""CUQIpy's NUTS on a problem written by benchmarks/peers.py: python cuqipy_nuts.py PROBLEM.npz OUT.npz BUDGET.

The forward map is a sparse solve, its gradient the adjoint equation with the same factors: what a user of CUQIpy would
write. Leaves the draws and the second at which each was there.
"""

import sys
import time

import cuqi
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

WARM_UP, DRAWS, BLOCK = 200, 1000, 50


class Forward:
    """τ ↦ readings, and the gradient of what is made of them; the factors of the last τ are kept."""

    def __init__(self, given):
        size = len(given["f"])
        part = lambda k: sp.csc_matrix((given[f"data_{k}"], given["indices"], given["indptr"]), shape=(size, size))  # noqa: E731
        self.L, self.f, self.tau = [part(k) for k in range(3)], given["f"], None
        self.read = sp.csr_matrix(given["read"])

    def at(self, tau):
        tau = np.asarray(tau, float)
        if self.tau is None or not np.array_equal(tau, self.tau):
            A, C_1, C_2 = self.L
            self.factors = splu(A + tau[0] * C_1 + tau[1] * C_2, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
            self.u, self.tau = self.factors.solve(self.f), tau.copy()
        return self.read @ self.u

    def gradient(self, direction, tau):
        self.at(tau)
        adjoint = self.factors.solve(self.read.T @ np.asarray(direction), trans="T")
        return np.array([-adjoint @ (C @ self.u) for C in self.L[1:]])


def main(problem, out, budget):
    given = np.load(problem)
    begun = time.perf_counter()
    forward = Forward(given)
    model = cuqi.model.Model(forward.at, len(given["y"]), 2, gradient=forward.gradient)
    tau = cuqi.distribution.Gaussian(np.zeros(2), 1.0, name="tau")
    y = cuqi.distribution.Gaussian(model(tau), float(given["sigma"]) ** 2, name="y")
    posterior = cuqi.distribution.JointDistribution(tau, y)(y=given["y"])
    sampler = cuqi.sampler.NUTS(posterior)
    ready = time.perf_counter() - begun
    sampler.warmup(WARM_UP)
    draws, times = [], []
    while len(draws) < DRAWS and time.perf_counter() - begun < budget:
        sampler.sample(BLOCK)
        found = sampler.get_samples().samples.T[-BLOCK:]
        draws += list(found)
        times += [time.perf_counter() - begun] * len(found)
    np.savez(out, draws=np.array(draws).reshape(-1, 2), times=times, setup=ready, version=cuqi.__version__)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
