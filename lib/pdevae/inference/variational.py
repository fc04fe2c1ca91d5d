"""The best Gaussian, through exact solves: what CVI's q would be with a perfect decoder."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pdevae._tensorflow import tf
from pdevae.inference.fit import falling_adam, fit
from pdevae.inference.gaussian import Family, Gaussian, antithetic
from pdevae.inference.laplace import Laplace
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem


@dataclass(frozen=True)
class GaussianVI:
    """argmin KL(q ‖ p(z | y)) over Gaussians of a family, by reparameterised gradients in Laplace's coordinates.

    The minimum is about as steep in all directions there, so gradients are taken as they are, only large ones cut: by
    Adam with an epsilon of 1. A rate that few samples of a long z bear is the default.

    >>> GaussianVI(steps=50)(problem).a().mean.round(1).tolist()
    [2.0]
    """

    family: Family = "full"
    rank: int = 10
    steps: int = 500
    samples: int = 8
    learning_rate: float | None = None

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun = time.perf_counter()
        mode, H = Laplace().mode(problem)
        C = np.linalg.inv(np.linalg.cholesky(H)).T
        q = Gaussian.trainable(problem.size, self.family, self.rank)

        def loss(step):
            v = q.draw(antithetic(self.samples, q.noise_shape, tf.stack([step, seed])))
            z = mode + tf.matmul(v, tf.constant(C.T))
            return q.negative_entropy(v) - tf.reduce_mean(problem.log_joint(z))

        rate = self.learning_rate or min(0.1, self.samples / (6 * problem.size))
        optimiser = falling_adam(rate, self.steps, epsilon=1.0, beta_2=0.99)
        history = fit(loss, q.trainable_variables, self.steps, optimiser=optimiser, what="GaussianVI")
        m, S = mode + C @ q.mean.numpy(), C @ q.covariance().numpy() @ C.T
        said = {"loss": float(history[-1])}
        return Posterior.normal(problem, m, S, time.perf_counter() - begun, seed, diagnostics=said)
