"""The VAE of the Jura experiment, with or without a PDE to regularise its decoder (supplement, Section 4).

    encoder q(z | s, x)   secondary metals and place → N(m, CCᵀ) on ℝ¹⁰
    decoder p(y | x, z)   place and latent → N(μ(x, z), σ²(x, z))
    F = Σ_sites [ E_q −log p(y | x, z) + β KL(q ‖ N(0, I)) ] + E‖L[z]μ − f‖² / 2ε² + ½ E|heads|²

The encoder never sees y. Members (seeds, folds or splits) train together: the leading axis S of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._tensorflow import repeated, tf
from ..errors import UserError
from ..mesh import Mesh
from .mechanisms import LATENT, MECHANISMS, Mechanism
from .networks import Network

_ROW, _COLUMN = np.tril_indices(LATENT)  # of the entries of C, in the order of the encoder's output
_DIAGONAL = _ROW == _COLUMN
_PICK, _SUM = np.eye(LATENT, dtype=np.float32)[:, _COLUMN], np.eye(LATENT, dtype=np.float32)[_ROW]
_PREDICTION_DRAWS = 50


def encoder(n_secondaries: int) -> Network:
    return Network((n_secondaries + 2, 128, 128, 128, LATENT + len(_ROW)))


def decoder() -> Network:
    return Network((2 + LATENT, 8, 16, 32, 16, 8, 2))


class Sites(NamedTuple):
    """Training sites of each member, standardised; ``weight`` is 0 where a member has fewer sites than the longest."""

    s: np.ndarray  # [S, n, secondaries]
    x: np.ndarray  # [S, n, 2]
    y: np.ndarray  # [S, n]
    weight: np.ndarray  # [S, n]


class Draw(NamedTuple):
    """Fields x ↦ μ, one for each of m sites of each member: what the penalty knows as z."""

    model: VAE
    parameters: dict[str, tf.Tensor]
    s: tf.Tensor  # [S, m, secondaries]
    x: tf.Tensor  # [S, m, 2] the sites' places
    xi: tf.Tensor  # [S, m, 10] standard normal, the same at every place of a field
    z: tf.Tensor  # [S, m, 10] latent at the site

    def head(self, name: str, x=None, u=None, squared_gradient=None) -> tf.Tensor:
        """A coefficient for each field: [S·m, 1 (or n), (2)]."""
        network, _ = self.model.mechanism.heads[name]
        inputs = self.z[:, :, None]
        if x is not None:
            inputs = _beside(inputs, tf.broadcast_to(x, [*self.z.shape[:2], *x.shape]))
        if u is not None:
            shape = [*self.z.shape[:2], -1]
            inputs = _beside(inputs, tf.stack([tf.reshape(v, shape) for v in (u, squared_gradient)], axis=-1))
        return self.model.prior_sd * self._out(network(self.parameters[name], _flat(inputs)))

    def heads(self) -> dict[str, tf.Tensor]:
        """Outputs at the sites [S, m, out], u and |∇u| standard normal: they carry the standard-normal penalty."""
        field = tf.stack([self.xi[..., 0], self.xi[..., 1] ** 2], axis=-1)
        beside = {"z": [], "xz": [self.x], "zug": [field]}
        return {
            name: network(self.parameters[name], tf.concat([*beside[kind], self.z], axis=-1))
            for name, (network, kind) in self.model.mechanism.heads.items()
        }

    def mu(self, x: tf.Tensor) -> tf.Tensor:
        """[S·m, n]. Composite: μ(x, z(s, x)), the encoder asked at every place; faithful: one z for the whole field."""
        S, m = self.z.shape[:2]
        places = tf.broadcast_to(tf.cast(x, tf.float32), [S, m, *x.shape])
        z = tf.broadcast_to(self.z[:, :, None], [S, m, x.shape[0], LATENT])
        if self.model.composite:
            asked = tf.concat([tf.broadcast_to(self.s[:, :, None], [S, m, x.shape[0], self.s.shape[-1]]), places], -1)
            mean, C = self.model.encode(self.parameters, _flat(asked))
            z = mean + _times(C, tf.reshape(tf.broadcast_to(self.xi[:, :, None], z.shape), mean.shape))
        out = self.model.decode(self.parameters, _flat(places), _flat(z))[0]
        return tf.reshape(out, [S * m, x.shape[0]])

    def _out(self, values: tf.Tensor) -> tf.Tensor:
        S, m = self.z.shape[:2]
        values = tf.reshape(values, [S * m, -1, values.shape[-1]])
        return values[..., 0] if values.shape[-1] == 1 else values


@dataclass(frozen=True)
class VAE:
    """``mechanism`` names one of MECHANISMS, or is empty for the plain VAE; ``eps`` is the penalty's."""

    mechanism_name: str = ""
    composite: bool = True
    beta: float = 0.01
    eps: float = 0.3
    prior_sd: float = 1.0  # of the mechanism's coefficients: a coefficient is a head's output times this
    penalty: str = "exact"
    patch_nodes: int = 32
    n_patches: int = 4
    fields: int = 1  # fields, each of a site drawn at random, that a step asks to obey the equation
    learning_rate: float = 1e-3

    @property
    def mechanism(self) -> Mechanism:
        return MECHANISMS[self.mechanism_name]

    def networks(self, n_secondaries: int) -> dict[str, Network]:
        heads = {} if not self.mechanism_name else {name: net for name, (net, _) in self.mechanism.heads.items()}
        return {"encoder": encoder(n_secondaries), "decoder": decoder()} | heads

    def encode(self, parameters, inputs) -> tuple[tf.Tensor, tf.Tensor]:
        """m [S, n, 10] and the entries of the lower triangle C [S, n, 55] from (s, x)."""
        out = encoder(inputs.shape[-1] - 2)(parameters["encoder"], inputs)
        m, C = out[..., :LATENT], out[..., LATENT:]
        return m, tf.where(_DIAGONAL, tf.nn.softplus(C), C)

    def decode(self, parameters, x, z) -> tuple[tf.Tensor, tf.Tensor]:
        """μ and σ, [S, n]."""
        out = decoder()(parameters["decoder"], tf.concat([x, z], axis=-1))
        return out[..., 0], 1e-2 + tf.nn.softplus(out[..., 1])

    def fit(self, sites: Sites, mesh: Mesh | None, checkpoints: list[int], seeds: list[int]) -> list[Trained]:
        """The model as it stands after each number of steps in ``checkpoints``."""
        networks = self.networks(sites.s.shape[-1])
        variables = {name: tf.Variable(network.init(seeds)) for name, network in networks.items()}
        optimiser = tf.keras.optimizers.Adam(self.learning_rate)
        optimiser.build(list(variables.values()))
        train = self._trainer(variables, optimiser, Sites(*(tf.constant(v, tf.float32) for v in sites)), mesh, seeds[0])
        found, done = [], 0
        for steps in sorted(checkpoints):
            train(tf.constant(done), tf.constant(steps))
            parameters = {name: v.numpy() for name, v in variables.items()}
            if not all(np.isfinite(v).all() for v in parameters.values()):
                raise UserError(f"the VAE diverged before step {steps} (ε = {self.eps}): use a larger ε or fewer steps")
            found.append(Trained(self, steps, parameters))
            done = steps
        return found

    def _trainer(self, variables, optimiser, sites: Sites, mesh, seed):
        penalty = self._penalty(mesh)

        @repeated
        def train(step):
            with tf.GradientTape() as tape:
                parameters = {name: tf.convert_to_tensor(v) for name, v in variables.items()}
                loss = self._objective(parameters, sites, penalty, tf.stack([step, seed]))
            gradient = tape.gradient(loss, list(variables.values()))
            optimiser.apply_gradients(zip(gradient, variables.values()))

        return train

    def _penalty(self, mesh):
        if not self.mechanism_name:
            return None
        return self.mechanism.penalty(mesh, self.penalty, self.patch_nodes, self.n_patches)

    def _objective(self, parameters, sites: Sites, penalty, key) -> tf.Tensor:
        """Σ over members of F / n."""
        mean, C = self.encode(parameters, tf.concat([sites.s, sites.x], axis=-1))
        xi = tf.random.stateless_normal(mean.shape, key)
        z = mean + _times(C, xi)
        mu, sigma = self.decode(parameters, sites.x, z)
        nll = 0.5 * ((sites.y - mu) / sigma) ** 2 + tf.math.log(sigma)
        loss = tf.reduce_sum(sites.weight * (nll + self.beta * _kl(mean, C)))
        if penalty is not None:
            loss += self._held(parameters, sites, xi, z, penalty, key)
        return loss / tf.reduce_mean(tf.reduce_sum(sites.weight, axis=1))

    def _held(self, parameters, sites: Sites, xi, z, penalty, key) -> tf.Tensor:
        """Σ over members of E‖L[z]μ − f‖² / 2ε² + ½ E|heads|²."""
        S = z.shape[0]
        share = tf.random.stateless_uniform([S, self.fields], key + 1)
        some = tf.cast(share * tf.reduce_sum(sites.weight, axis=1, keepdims=True), tf.int32)
        draw = Draw(self, parameters, *(tf.gather(v, some, batch_dims=1) for v in (sites.s, sites.x, xi, z)))
        residual = S * tf.cast(penalty(lambda x, draw: draw.mu(x), draw, key + 2), tf.float32) / (2 * self.eps**2)
        return residual + sum(S * tf.reduce_mean(tf.reduce_sum(h**2, axis=-1)) / 2 for h in draw.heads().values())


class Trained(NamedTuple):
    """The members' parameters after ``steps`` steps."""

    model: VAE
    steps: int
    parameters: dict[str, np.ndarray]

    def predict(self, s: np.ndarray, x: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Means and sds [S, K, n] of the mixture over draws of z, standardised."""
        s, x = (tf.constant(v, tf.float32) for v in (s, x))
        S, n, K = *x.shape[:2], _PREDICTION_DRAWS
        mean, C = self.model.encode(self.parameters, tf.concat([s, x], axis=-1))
        xi = tf.random.stateless_normal([S, K, n, LATENT], [seed, 41])
        z = mean[:, None] + _times(C[:, None], xi)
        places = tf.broadcast_to(x[:, None], [S, K, n, 2])
        out = self.model.decode(self.parameters, _flat(places), _flat(z))
        return tuple(tf.reshape(v, [S, K, n]).numpy() for v in out)

    def coefficients(self, s: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
        """The mechanism's heads at places with secondaries s, for the mean latent; [S, n, out] each."""
        s, x = (tf.constant(v, tf.float32) for v in (s, x))
        z, _ = self.model.encode(self.parameters, tf.concat([s, x], axis=-1))
        draw = Draw(self.model, self.parameters, s, x, tf.zeros_like(z), z)
        return {name: self.model.prior_sd * head.numpy() for name, head in draw.heads().items()}


def _times(C: tf.Tensor, xi: tf.Tensor) -> tf.Tensor:
    """Cξ by products with constant matrices: C is never laid out as a matrix."""
    return tf.matmul(C * tf.matmul(xi, _PICK), _SUM)  # Σ_j C_ij ξ_j


def _kl(m: tf.Tensor, C: tf.Tensor) -> tf.Tensor:
    """KL(N(m, CCᵀ) ‖ N(0, I))."""
    log_determinant = tf.reduce_sum(tf.where(_DIAGONAL, tf.math.log(tf.where(_DIAGONAL, C, 1.0)), 0.0), axis=-1)
    return 0.5 * (tf.reduce_sum(C**2, axis=-1) + tf.reduce_sum(m**2, axis=-1) - LATENT) - log_determinant


def _flat(v: tf.Tensor) -> tf.Tensor:
    """[S, m, n, d] → [S, m·n, d]."""
    return tf.reshape(v, [v.shape[0], -1, v.shape[-1]])


def _beside(z: tf.Tensor, more: tf.Tensor) -> tf.Tensor:
    return tf.concat([more, tf.broadcast_to(z, [*more.shape[:-1], z.shape[-1]])], axis=-1)
