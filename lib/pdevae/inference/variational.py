"""The best Gaussian, through exact solves: what CVI's q would be with a perfect decoder; and a flow beyond it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pdevae._tensorflow import graph, tf
from pdevae.inference.couplings import Couplings
from pdevae.inference.fit import falling_adam, fit
from pdevae.inference.gaussian import Family, Gaussian, antithetic
from pdevae.inference.laplace import Laplace
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.streams import Stream, random


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
        cut = 10 * np.sqrt(problem.size)  # far from the mode a misfit, and its slope, can be astronomical
        optimiser = falling_adam(rate, self.steps, epsilon=1.0, beta_2=0.99, global_clipnorm=cut)
        history = fit(loss, q.trainable_variables, self.steps, optimiser=optimiser, what="GaussianVI")
        m, S = mode + C @ q.mean.numpy(), C @ q.covariance().numpy() @ C.T
        said = {"loss": float(history[-1])}
        return Posterior.normal(problem, m, S, time.perf_counter() - begun, seed, diagnostics=said)


@dataclass(frozen=True)
class FlowVI:
    """argmin KL(q ‖ p(z | y)) over normalising flows around the best Gaussian: for posteriors with skew or long tails.

    In coordinates where that Gaussian is standard normal, ``layers`` of couplings bend it; at first they do nothing.

    >>> import pdevae
    >>> latents = pdevae.Latents(tau=pdevae.Normal(2))
    >>> equation = pdevae.Diffusion(1.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0)
    >>> forward = pdevae.Forward(pdevae.disc(nodes=150), equation, latents, 0.0)
    >>> problem = pdevae.InverseProblem.on(forward, [[0.3, 0.0], [-0.3, 0.4]], [0.2, 0.17], 0.02)
    >>> found = FlowVI(GaussianVI(steps=50), steps=50, width=8)(problem)
    >>> bool(np.all(np.abs(found.mean) < 1))
    True
    """

    start: GaussianVI = GaussianVI()
    layers: int = 6
    width: int = 64
    steps: int = 2000
    samples: int = 16
    learning_rate: float = 2e-3
    draws: int = 4000

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun, d = time.perf_counter(), problem.size
        gaussian = self.start(problem, seed)
        C, flow = np.linalg.cholesky(gaussian.covariance), Couplings(d, 0, self.width, self.layers, seed)
        nothing = tf.zeros([1, 0], tf.float64)

        def from_normal(xi):
            v, bent = flow.forth(xi[:, None], nothing)
            z, log_det = gaussian.from_normal(v[:, 0])
            return z, log_det + bent[:, 0]

        def loss(step):
            z, log_det = from_normal(antithetic(self.samples, [d], tf.stack([step, seed])))
            return -tf.reduce_mean(problem.log_joint(z) + log_det)

        optimiser = falling_adam(self.learning_rate, self.steps, global_clipnorm=10 * np.sqrt(d))
        history = fit(loss, flow.trainable_variables, self.steps, optimiser=optimiser, what="FlowVI")
        z = from_normal(tf.constant(random(Stream.POSTERIOR, seed).normal(size=(self.draws, d))))[0].numpy()
        straighten = graph(flow.back)

        def density(z: np.ndarray) -> np.ndarray:
            v = np.linalg.solve(C, (z - gaussian.mean).T).T[:, None]
            xi, log_det = (part.numpy()[:, 0] for part in straighten(tf.constant(v), nothing))
            normal = -0.5 * np.sum(xi**2, axis=1) - 0.5 * d * np.log(2 * np.pi)
            return normal + log_det - np.sum(np.log(np.diag(C)))

        seconds, said = time.perf_counter() - begun, {"loss": float(history[-1])}
        moments = z.mean(axis=0), np.cov(z.T)
        more = {"gaussian": False, "density": density, "flow": graph(from_normal)}
        return Posterior(problem, *moments, z, seconds, diagnostics=said, **more)
