"""CUQIpy's NUTS on a field written by benchmarks/peers_fields.py: cuqipy_field.py PROBLEM.npz OUT.npz BUDGET.

Σ_e exp(B_e·z) K_e u = f with known values on part of the boundary: a sparse solve, and the adjoint equation with the
same factors for the gradient. Sampled in Laplace's coordinates, z = m + Cv. Leaves the draws and when each was there.
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
        self.B, self.K, self.t, self.f = given["B"], given["K"], given["triangles"], given["f"]
        self.inside, self.known, self.read = given["inside"], given["known"], sp.csr_matrix(given["read"])
        self.rows, self.columns = np.repeat(self.t, 3, axis=1).ravel(), np.tile(self.t, (1, 3)).ravel()
        self.z = None

    def at(self, z):
        if self.z is None or not np.array_equal(z, self.z):
            self.a, n = np.exp(self.B @ z), len(self.known)
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
    sample(Forward(given), given["y"], float(given["sigma"]), given["B"].shape[1], 2000, budget, begun, out)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
