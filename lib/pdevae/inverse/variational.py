"""The best Gaussian, through exact solves: what CVI's q would be with a perfect decoder."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from .._tensorflow import tf
from .fit import fit
from .gaussian import Family, Gaussian, antithetic
from .laplace import Laplace
from .posterior import Posterior
from .problem import InverseProblem


@dataclass(frozen=True)
class GaussianVI:
    """argmin KL(q ‖ p(z | y)) over Gaussians of a family, by reparameterised gradients in Laplace's coordinates."""

    family: Family = "full"
    rank: int = 10
    steps: int = 500
    samples: int = 8
    learning_rate: float = 0.03

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        mode, H = Laplace().mode(problem)
        C = np.linalg.inv(np.linalg.cholesky(H)).T
        q = Gaussian(problem.size, self.family, self.rank)

        def loss(step):
            v = q.draw(antithetic(self.samples, q.noise_shape, tf.stack([step, seed])))
            z = mode + tf.matmul(v, tf.constant(C.T))
            return -tf.reduce_mean(problem.log_joint(z)) - 0.5 * q.log_determinant()

        history = fit(loss, q.trainable_variables, self.steps, self.learning_rate, what="GaussianVI")
        m, S = mode + C @ q.mean.numpy(), C @ q.covariance().numpy() @ C.T
        said = {"loss": float(history[-1])}
        return Posterior.normal(problem, m, S, time.perf_counter() - begun, seed, diagnostics=said)
