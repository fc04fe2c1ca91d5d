"""CUQIpy's NUTS in Laplace's coordinates, z = m + Cv: the posterior is nearly standard normal there."""

import time

import cuqi
import numpy as np
from scipy.optimize import least_squares

FAST = {"permc_spec": "MMD_AT_PLUS_A", "diag_pivot_thresh": 0.0, "options": {"SymmetricMode": True}}  # for splu
WARM_UP, BLOCK = 100, 20


def sample(forward, y, sigma, d, draws, budget, begun, out):
    """``forward`` has ``at(z)``, its ``jacobian(z)`` and ``gradient(direction, z)``. Leaves draws and times."""
    rows = lambda z: np.concatenate([(forward.at(z) - y) / sigma, z])  # noqa: E731
    slopes = lambda z: np.concatenate([forward.jacobian(z) / sigma, np.eye(d)])  # noqa: E731
    m = least_squares(rows, np.zeros(d), slopes).x
    J = slopes(m)
    C = np.linalg.inv(np.linalg.cholesky(J.T @ J)).T

    def log_density(v):
        return -0.5 * np.sum(rows(m + C @ v) ** 2)

    def gradient(v):
        z = m + C @ v
        return -C.T @ (forward.gradient((forward.at(z) - y) / sigma**2, z) + z)

    posterior = cuqi.distribution.UserDefinedDistribution(d, log_density, gradient)
    sampler = cuqi.sampler.NUTS(posterior, initial_point=np.zeros(d))
    ready = time.perf_counter() - begun
    sampler.warmup(WARM_UP)
    found, times = [], []
    while len(found) < draws and time.perf_counter() - begun < budget:
        sampler.sample(BLOCK)
        found += list(m + sampler.get_samples().samples.T[-BLOCK:] @ C.T)
        times += [time.perf_counter() - begun] * BLOCK
    np.savez(out, draws=np.array(found).reshape(-1, d), times=times, setup=ready, version=cuqi.__version__)
