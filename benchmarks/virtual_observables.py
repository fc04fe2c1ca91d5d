"""The penalty of virtual observables, to compare with a dual norm."""

from __future__ import annotations

import numpy as np

from pdevae import Mesh, Penalty, WeakForm
from pdevae._tensorflow import tf
from pdevae.fem.weak_form import stiffness
from pdevae.penalties.base import sample_patches


class VirtualObservables(Penalty):
    """Weak residuals as readings of nothing: Σ r_i²/A_ii over the tests, estimated from some drawn at random.

    The idea of Scholz, Zang & Koutsourelakis, "Weak neural variational inference for solving Bayesian inverse problems
    without forward models" (2024): r_i = 0 ± ε independently for each test function, where a dual norm knows how
    neighbours' residuals belong together. Their q of the field given z is a point here, as in CVI.
    """

    def __init__(self, mesh: Mesh, equation, boundary, tests: int = 200):
        self.weak = WeakForm(mesh, equation, boundary, tf.float32)
        self.scale = tf.constant(1 / np.sqrt(stiffness(mesh).diagonal()), tf.float32)
        self.tests = tests

    def __call__(self, mu, z, seed) -> tf.Tensor:
        r = self.scale * self.weak.residual(self.weak.values(mu, z), z)
        some = tf.gather(r, sample_patches(seed, self.tests, r.shape[1]), axis=1)
        return r.shape[1] / self.tests * tf.reduce_mean(tf.reduce_sum(some**2, axis=1))
