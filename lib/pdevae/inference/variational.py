"""The best Gaussian, through exact solves: what CVI's q would be with a perfect decoder; and a flow beyond it."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pdevae._tensorflow import graph, tf
from pdevae.inference.couplings import Couplings, bent
from pdevae.inference.fit import falling_adam, fit
from pdevae.inference.gaussian import Family, Gaussian, antithetic
from pdevae.inference.laplace import Laplace
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.streams import Stream, random


@dataclass(frozen=True)
class GaussianVI:
    """argmin KL(q ‖ p(z | y)) over Gaussians of a family, by reparameterised gradients in Laplace's coordinates.

    There the objective is about equally steep in all directions, so gradients are used unscaled and only large ones
    clipped: Adam with an epsilon of 1. The default rate is lower where z is long and samples are few.

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

    Standard normal draws pass through ``layers`` couplings and an affine map, then for each latent a transform that
    gives it skew and other tails. Training starts from the Gaussian.

    >>> import pdevae
    >>> latents = pdevae.Latents(tau=pdevae.Normal(2))
    >>> equation = pdevae.Diffusion(1.0) + pdevae.Transport(lambda x, z: z.tau) - pdevae.Source(1.0)
    >>> forward = pdevae.Forward(pdevae.disc(nodes=150), equation, latents, 0.0)
    >>> problem = pdevae.InverseProblem.on(forward, [[0.3, 0.0], [-0.3, 0.4]], [0.2, 0.17], 0.02)
    >>> found = FlowVI(GaussianVI(steps=50), layers=2, steps=50, width=8)(problem)
    >>> bool(np.all(np.abs(found.mean) < 1))
    True
    """

    start: GaussianVI = GaussianVI()
    layers: int = 6
    width: int = 64
    steps: int = 1500
    samples: int = 16
    learning_rate: float = 2e-3
    draws: int = 4000

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        begun, d = time.perf_counter(), problem.size
        flow = Flow(self.start(problem, seed), self.layers, self.width, seed)

        def loss(step):
            z, log_det = flow.forth(antithetic(self.samples, [d], tf.stack([step, seed])))
            return -tf.reduce_mean(problem.log_joint(z) + log_det)

        optimiser = falling_adam(self.learning_rate, self.steps, global_clipnorm=10 * np.sqrt(d))
        history = fit(loss, flow.trainable_variables, self.steps, optimiser=optimiser, what="FlowVI")
        forth, back = graph(flow.forth), graph(flow.back)
        z = forth(tf.constant(random(Stream.POSTERIOR, seed).normal(size=(self.draws, d))))[0].numpy()

        def density(z: np.ndarray) -> np.ndarray:
            xi, log_det = (part.numpy() for part in back(tf.constant(z)))
            return -0.5 * np.sum(xi**2, axis=1) - 0.5 * d * np.log(2 * np.pi) + log_det

        seconds, said = time.perf_counter() - begun, {"loss": float(history[-1])}
        more = {"gaussian": False, "density": density, "flow": forth}
        return Posterior(problem, z.mean(axis=0), np.cov(z.T), z, seconds, diagnostics=said, **more)


class Flow:
    """z of standard normal numbers, at first of the Gaussian ``start``."""

    def __init__(self, start: Posterior, layers: int, width: int, seed: int):
        d = len(start.mean)
        self.couplings, self.none = Couplings(d, 0, width, layers, seed), tf.zeros([1, 0], tf.float64)
        self.mean, self.sd = tf.constant(start.mean), tf.constant(start.sd)
        self.C = tf.constant(np.linalg.cholesky(start.covariance) / start.sd[:, None])
        self.turn, self.shift = tf.Variable(np.zeros((d, d))), tf.Variable(np.zeros(d))
        self.skewness, self.log_tail = tf.Variable(np.zeros(d)), tf.Variable(np.zeros(d))

    @property
    def trainable_variables(self) -> list[tf.Variable]:
        return [self.turn, self.shift, self.skewness, self.log_tail, *self.couplings.trainable_variables]

    def forth(self, xi: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """z [k, d] of ξ [k, d], and log |∂z/∂ξ| [k]."""
        v, log_det = self.couplings.forth(xi[:, None], self.none)
        w = tf.matmul(v[:, 0], self._affine(), transpose_b=True) + self.shift
        bend = bent(self.skewness, self.log_tail)
        log_det = log_det[:, 0] + bend.forward_log_det_jacobian(w, 1) + self._log_volume()
        return self.mean + self.sd * bend.forward(w), log_det

    def back(self, z: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """ξ of z, and log |∂ξ/∂z|."""
        bend, u = bent(self.skewness, self.log_tail), (z - self.mean) / self.sd
        w = tf.transpose(bend.inverse(u) - self.shift)
        v = tf.transpose(tf.linalg.triangular_solve(self._affine(), w))
        xi, log_det = self.couplings.back(v[:, None], self.none)
        return xi[:, 0], log_det[:, 0] + bend.inverse_log_det_jacobian(u, 1) - self._log_volume()

    def _affine(self) -> tf.Tensor:
        """Lower triangular, times the Gaussian's."""
        diagonal = tf.exp(tf.linalg.diag_part(self.turn))
        return tf.matmul(self.C, tf.linalg.set_diag(tf.linalg.band_part(self.turn, -1, 0), diagonal))

    def _log_volume(self) -> tf.Tensor:
        sizes = tf.math.log(self.sd * tf.linalg.diag_part(self.C)) + tf.linalg.diag_part(self.turn)
        return tf.reduce_sum(sizes)
