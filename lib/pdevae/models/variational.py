"""From Laplace's q to the best Gaussian: the mode of a skewed posterior is not where its mass is."""

from __future__ import annotations

import numpy as np
from tqdm.auto import tqdm

from .._tensorflow import repeated, tf
from .head_fit import Fitted

_AT_A_TIME = 25


def refine(fitted: Fitted, steps: int = 200, samples: int = 4, learning_rate: float = 0.05, seed: int = 0):
    """m and C of q = N(m, CCᵀ) that maximises the ELBO, C = C_Laplace diag(t): [d] and [d, d].

    In Laplace's coordinates the posterior is nearly standard normal; what is left to learn is a shift and d scales.
    """
    mode, C = tf.constant(fitted.p), tf.constant(fitted.spread)
    shift, log_t = tf.Variable(tf.zeros_like(mode)), tf.Variable(tf.zeros_like(mode))
    optimiser = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.CosineDecay(learning_rate, steps, alpha=0.02))
    optimiser.build([shift, log_t])

    def energy(v):
        return fitted.objective.within(mode + tf.linalg.matvec(C, v))

    @repeated
    def advance(step):
        half = tf.random.stateless_normal([samples // 2, len(fitted.p)], tf.stack([step, seed]), dtype=tf.float64)
        normal = tf.concat([half, -half], axis=0)  # in pairs: an odd error cancels
        with tf.GradientTape() as tape:
            drawn = shift + tf.exp(log_t) * normal
            loss = tf.add_n([energy(v) for v in tf.unstack(drawn)]) / samples - tf.reduce_sum(log_t)
        optimiser.apply_gradients(zip(tape.gradient(loss, [shift, log_t]), [shift, log_t]))

    for start in tqdm(range(0, steps, _AT_A_TIME), "q", delay=3, leave=False):
        advance(tf.constant(start), tf.constant(min(start + _AT_A_TIME, steps)))
    return fitted.p + fitted.spread @ shift.numpy(), fitted.spread * np.exp(log_t.numpy())
