"""A two-layer deep GP (Damianou & Lawrence, 2013), fitted as in Salimbeni & Deisenroth (2017)."""

from __future__ import annotations

import warnings

import numpy as np

from pdevae._tensorflow import graph, tf
from pdevae.inference.fit import fit

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import gpflow
    import gpflux

from pdevae import spread_out

_FIRST_LAYER_SD = 1e-2  # of the inner layer at the start: nearly the identity
_PREDICTION_DRAWS = 50


def deep_gp(X, y, X_new, seed: int, steps: int, n_inducing: int = 50, learning_rate: float = 1e-2):
    """Mean and sd [K, n] at X_new for draws through the inner layer; Matérn 5/2 kernels, Adam on all data."""
    tf.keras.utils.set_random_seed(seed)
    Z = spread_out(X, n_inducing)
    layers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GPflux warns of what is fine here: data in double precision, Keras 2
        for outputs, mean in ((X.shape[1], gpflow.mean_functions.Identity()), (1, gpflow.mean_functions.Zero())):
            kernel = gpflow.kernels.Matern52(lengthscales=np.full(X.shape[1], 0.5))
            shared = gpflux.helpers.construct_basic_kernel(kernel, output_dim=outputs, share_hyperparams=True)
            at = gpflux.helpers.construct_basic_inducing_variables(
                len(Z), X.shape[1], output_dim=outputs, share_variables=True, z_init=Z.copy()
            )
            layers.append(
                gpflux.layers.GPLayer(shared, at, num_data=len(X), mean_function=mean, num_latent_gps=outputs)
            )
        layers[0].q_sqrt.assign(_FIRST_LAYER_SD * layers[0].q_sqrt)
        model = gpflux.models.DeepGP(layers, gpflux.layers.LikelihoodLayer(gpflow.likelihoods.Gaussian(0.05)))
        _train(model, X, y, steps, learning_rate)
        return _predict(model, X_new)


def _train(model, X, y, steps: int, learning_rate: float) -> None:
    """ELBO by Adam in one compiled loop."""
    data = tf.constant(X), tf.constant(y[:, None])
    adam = tf.keras.optimizers.Adam(learning_rate)
    fit(lambda step: -model.elbo(data), model.trainable_variables, steps, optimiser=adam, what="deep GP")


def _predict(model, X_new) -> tuple[np.ndarray, np.ndarray]:
    X_new = tf.constant(X_new)

    def once():
        inner = model.f_layers[0](X_new)
        outer = model.f_layers[1].predict(tf.convert_to_tensor(inner))
        return model.likelihood_layer.likelihood.predict_mean_and_var(X_new, *outer)

    predict = graph(once)
    drawn = [predict() for _ in range(_PREDICTION_DRAWS)]
    return np.stack([m[:, 0] for m, _ in drawn]), np.sqrt(np.stack([v[:, 0] for _, v in drawn]))
