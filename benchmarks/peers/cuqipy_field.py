"""CUQIpy's NUTS on a field written by benchmarks/peers_fields.py: cuqipy_field.py PROBLEM.npz OUT.npz BUDGET.

Σ_e exp(b_e + B_e·z) K_e u = f with known values on part of the boundary: a sparse solve, and the adjoint equation with
the same factors for the gradient. Sampled in Laplace's coordinates, z = m + Cv. Leaves the draws and their times.
"""

import sys
import time

import numpy as np
import scipy.sparse as sp
from cuqipy_laplace import FAST, sample
from scipy.sparse.linalg import splu


class Forward:
    """z ↦ readings; the factors of the last z are kept."""

    def __init__(self, given):
        self.b, self.B, self.K, self.t, self.f = (given[name] for name in ("b", "B", "K", "cells", "f"))
        self.inside, self.known, self.read = given["inside"], given["known"], sp.csr_matrix(given["read"])
        k = self.t.shape[1]
        self.rows, self.columns = np.repeat(self.t, k, axis=1).ravel(), np.tile(self.t, (1, k)).ravel()
        self.z = None

    def at(self, z):
        if self.z is None or not np.array_equal(z, self.z):
            self.a, n = np.exp(self.b + self.B @ z), len(self.known)
            A = sp.csc_matrix(((self.a[:, None, None] * self.K).ravel(), (self.rows, self.columns)), shape=(n, n))
            A_in = A[self.inside]
            self.factors = splu(A_in[:, self.inside], **FAST)
            self.u, self.z = self.known.copy(), np.array(z)
            self.u[self.inside] = self.factors.solve(self.f - A_in @ self.known)
        return self.read @ self.u

    def pulled_back(self, directions):
        """Jᵀd for columns d [S, k]; [d, k]."""
        adjoint = np.zeros((len(self.known), directions.shape[1]))
        adjoint[self.inside] = self.factors.solve((self.read.T @ directions)[self.inside])
        flux = np.einsum("eij,ej->ei", self.K, self.u[self.t])
        return -self.B.T @ (self.a[:, None] * np.einsum("eik,ei->ek", adjoint[self.t], flux))

    def gradient(self, direction, z):
        self.at(z)
        return self.pulled_back(direction[:, None])[:, 0]

    def jacobian(self, z):
        self.at(z)
        return self.pulled_back(np.eye(self.read.shape[0])).T


def main(problem, out, budget):
    given = np.load(problem)
    begun = time.perf_counter()
    forward = Forward(given)
    assert np.allclose(forward.at(np.zeros(given["B"].shape[1])), given["at_0"], rtol=1e-8), "not the same forward map"
    sample(forward, given["y"], float(given["sigma"]), given["B"].shape[1], 2000, budget, begun, out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
