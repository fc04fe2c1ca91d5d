"""CUQIpy's NUTS on a problem written by benchmarks/peers.py: python cuqipy_nuts.py PROBLEM.npz OUT.npz BUDGET.

The forward map is a sparse solve, its gradient the adjoint equation with the same factors: what a user of CUQIpy would
write. Sampled in Laplace's coordinates, τ = m + Cv, where the posterior is nearly standard normal and trees stay short.
Leaves the draws and the second at which each was there.
"""

import sys
import time

import numpy as np
import scipy.sparse as sp
from cuqipy_laplace import FAST, sample
from scipy.sparse.linalg import splu


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
    sample(Forward(given), given["y"], float(given["sigma"]), 2, 1000, budget, begun, out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
