"""From Laplace's q to the best Gaussian: the mode of a skewed posterior is not where its mass is."""

from __future__ import annotations

import numpy as np

from pdevae._tensorflow import tf
from pdevae.inference.fit import falling_adam, fit
from pdevae.inference.gaussian import Gaussian, antithetic
from study.models.head_fit import Fitted


def refine(fitted: Fitted, steps: int = 200, samples: int = 4, learning_rate: float = 0.05, seed: int = 0):
    """m and C of q = N(m, CCᵀ) that maximises the ELBO, C = C_Laplace diag(t): [d] and [d, d].

    In Laplace's coordinates the posterior is nearly standard normal; what is left to learn is a shift and d scales.
    """
    mode, C = tf.constant(fitted.p), tf.constant(fitted.spread)
    q = Gaussian.trainable(len(fitted.p), "diagonal")

    def loss(step):
        drawn = q.draw(antithetic(samples, q.noise_shape, tf.stack([step, seed])))
        energies = [fitted.objective.within(mode + tf.linalg.matvec(C, v)) for v in tf.unstack(drawn)]
        return tf.add_n(energies) / samples - 0.5 * q.log_determinant()

    fit(loss, q.trainable_variables, steps, optimiser=falling_adam(learning_rate, steps, least=0.02), what="q")
    return fitted.p + fitted.spread @ q.mean.numpy(), fitted.spread * np.exp(q.log_scale.numpy())
