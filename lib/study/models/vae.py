"""The VAE of the Jura experiment, with or without a PDE to regularise its decoder (supplement, Section 4).

    encoder q(z | s, x)   secondary metals and place → N(m, CCᵀ) on ℝ¹⁰
    decoder p(y | x, z)   place and latent → N(μ(x, z), σ²(x, z))
    F = Σ_sites [ E_q −log p(y | x, z) + β KL(q ‖ N(0, I)) ] + E‖L[z]μ − f‖² / 2ε² + ½ E|coefficients|²

The encoder never sees y. Members (seeds, folds or splits) train together: the leading axis S of everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pdevae._tensorflow import tf
from pdevae.fem.mesh import Mesh
from pdevae.inference.fit import fit
from pdevae.inference.gaussian import Gaussian
from study.models.mechanisms import LATENT, MECHANISMS, Mechanism
from study.models.networks import Network
from study.streams import Stream

_ENTRIES = np.ravel_multi_index(np.tril_indices(LATENT), 2 * (LATENT,))  # of C, in the order of the encoder's output
_PLACES = np.eye(LATENT**2, dtype=np.float32)[_ENTRIES]
_PREDICTION_DRAWS = 50


def encoder(n_secondaries: int) -> Network:
    return Network((n_secondaries + 2, 128, 128, 128, LATENT + len(_ENTRIES)))


def decoder() -> Network:
    return Network((2 + LATENT, 8, 16, 32, 16, 8, 2))


class Sites(NamedTuple):
    """Training sites of each member, standardised; ``weight`` is 0 where a member has fewer sites than the longest."""

    s: np.ndarray  # [S, n, secondaries]
    x: np.ndarray  # [S, n, 2]
    y: np.ndarray  # [S, n]
    weight: np.ndarray  # [S, n]


class SiteFields(NamedTuple):
    """Fields x ↦ μ, one for each of m sites of each member: what the penalty knows as z."""

    model: VAE
    parameters: dict[str, tf.Tensor]
    s: tf.Tensor  # [S, m, secondaries]
    x: tf.Tensor  # [S, m, 2] the sites' places
    xi: tf.Tensor  # [S, m, 10] standard normal, the same at every place of a field
    z: tf.Tensor  # [S, m, 10] latent at the site

    def coefficient(self, name: str, x=None, u=None, squared_gradient=None) -> tf.Tensor:
        """A coefficient for each field: [S·m, 1 (or n), (2)]."""
        network, _ = self.model.mechanism.networks[name]
        inputs = self.z[:, :, None]
        if x is not None:
            inputs = _beside(inputs, tf.broadcast_to(x, [*self.z.shape[:2], *x.shape]))
        if u is not None:
            shape = [*self.z.shape[:2], -1]
            inputs = _beside(inputs, tf.stack([tf.reshape(v, shape) for v in (u, squared_gradient)], axis=-1))
        return self.model.prior_sd * self._out(network(self.parameters[name], _flat(inputs)))

    def at_sites(self) -> dict[str, tf.Tensor]:
        """Outputs at the sites [S, m, out], u and |∇u| standard normal: they carry the standard-normal penalty."""
        field = tf.stack([self.xi[..., 0], self.xi[..., 1] ** 2], axis=-1)
        beside = {"z": [], "xz": [self.x], "zug": [field]}
        return {
            name: network(self.parameters[name], tf.concat([*beside[kind], self.z], axis=-1))
            for name, (network, kind) in self.model.mechanism.networks.items()
        }

    def mu(self, x: tf.Tensor) -> tf.Tensor:
        """[S·m, n]. Composite: μ(x, z(s, x)), the encoder asked at every place; faithful: one z for the whole field."""
        S, m = self.z.shape[:2]
        places = tf.broadcast_to(tf.cast(x, tf.float32), [S, m, *x.shape])
        z = tf.broadcast_to(self.z[:, :, None], [S, m, x.shape[0], LATENT])
        if self.model.composite:
            asked = tf.concat([tf.broadcast_to(self.s[:, :, None], [S, m, x.shape[0], self.s.shape[-1]]), places], -1)
            q = self.model.encode(self.parameters, _flat(asked))
            z = q.draw(tf.reshape(tf.broadcast_to(self.xi[:, :, None], z.shape), q.mean.shape))
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
    prior_sd: float = 1.0  # of the mechanism's coefficients: a network's output times this
    penalty: str = "exact"
    patch_nodes: int = 32
    n_patches: int = 4
    fields: int = 1  # fields, each of a site drawn at random, that a step asks to obey the equation
    learning_rate: float = 1e-3

    @property
    def mechanism(self) -> Mechanism:
        return MECHANISMS[self.mechanism_name]

    def networks(self, n_secondaries: int) -> dict[str, Network]:
        networks = {} if not self.mechanism_name else {name: net for name, (net, _) in self.mechanism.networks.items()}
        return {"encoder": encoder(n_secondaries), "decoder": decoder()} | networks

    def encode(self, parameters, inputs) -> Gaussian:
        """q on ℝ¹⁰ [S, n] from (s, x): its mean, and the entries of the lower triangle of C."""
        out = encoder(inputs.shape[-1] - 2)(parameters["encoder"], inputs)
        m, C = out[..., :LATENT], out[..., LATENT:]
        below = tf.reshape(tf.matmul(C, _PLACES), [*C.shape[:-1], LATENT, LATENT])
        return Gaussian(m, tf.math.log(tf.nn.softplus(tf.linalg.diag_part(below))), below)

    def decode(self, parameters, x, z) -> tuple[tf.Tensor, tf.Tensor]:
        """μ and σ, [S, n]."""
        out = decoder()(parameters["decoder"], tf.concat([x, z], axis=-1))
        return out[..., 0], 1e-2 + tf.nn.softplus(out[..., 1])

    def fit(self, sites: Sites, mesh: Mesh | None, checkpoints: list[int], seeds: list[int]) -> list[TrainedVAE]:
        """The model as it stands after each number of steps in ``checkpoints``."""
        variables = {name: tf.Variable(net.init(seeds)) for name, net in self.networks(sites.s.shape[-1]).items()}
        constants, penalty = Sites(*(tf.constant(v, tf.float32) for v in sites)), self._penalty(mesh)

        def loss(step):
            parameters = {name: tf.convert_to_tensor(v) for name, v in variables.items()}
            return self._objective(parameters, constants, penalty, tf.stack([step, seeds[0]]))

        found = []

        def keep(step, _):
            if step in checkpoints:
                found.append(TrainedVAE(self, step, {name: v.numpy() for name, v in variables.items()}))

        adam = tf.keras.optimizers.Adam(self.learning_rate)
        what = f"VAE (ε = {self.eps})"
        fit(loss, variables.values(), max(checkpoints), optimiser=adam, watch=keep, looks=checkpoints, what=what)
        return found

    def _penalty(self, mesh):
        if not self.mechanism_name:
            return None
        return self.mechanism.penalty(mesh, self.penalty, self.patch_nodes, self.n_patches)

    def _objective(self, parameters, sites: Sites, penalty, key) -> tf.Tensor:
        """Σ over members of F / n."""
        q = self.encode(parameters, tf.concat([sites.s, sites.x], axis=-1))
        xi = tf.random.stateless_normal(q.mean.shape, key)
        z = q.draw(xi)
        mu, sigma = self.decode(parameters, sites.x, z)
        nll = 0.5 * ((sites.y - mu) / sigma) ** 2 + tf.math.log(sigma)
        loss = tf.reduce_sum(sites.weight * (nll + self.beta * q.kl()))
        if penalty is not None:
            loss += self._held(parameters, sites, xi, z, penalty, key)
        return loss / tf.reduce_mean(tf.reduce_sum(sites.weight, axis=1))

    def _held(self, parameters, sites: Sites, xi, z, penalty, key) -> tf.Tensor:
        """Σ over members of E‖L[z]μ − f‖² / 2ε² + ½ E|coefficients|²."""
        S = z.shape[0]
        share = tf.random.stateless_uniform([S, self.fields], key + 1)
        some = tf.cast(share * tf.reduce_sum(sites.weight, axis=1, keepdims=True), tf.int32)
        draw = SiteFields(self, parameters, *(tf.gather(v, some, batch_dims=1) for v in (sites.s, sites.x, xi, z)))
        residual = S * tf.cast(penalty(lambda x, draw: draw.mu(x), draw, key + 2), tf.float32) / (2 * self.eps**2)
        return residual + sum(S * tf.reduce_mean(tf.reduce_sum(h**2, axis=-1)) / 2 for h in draw.at_sites().values())


class TrainedVAE(NamedTuple):
    """The members' parameters after ``steps`` steps."""

    model: VAE
    steps: int
    parameters: dict[str, np.ndarray]

    def predict(self, s: np.ndarray, x: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Means and sds [S, K, n] of the mixture over draws of z, standardised."""
        s, x = (tf.constant(v, tf.float32) for v in (s, x))
        S, n, K = *x.shape[:2], _PREDICTION_DRAWS
        q = self.model.encode(self.parameters, tf.concat([s, x], axis=-1))
        xi = tf.random.stateless_normal([S, K, n, LATENT], [seed, Stream.VAE_PREDICTIONS])
        z = tf.transpose(q.draw(tf.transpose(xi, [1, 0, 2, 3])), [1, 0, 2, 3])
        places = tf.broadcast_to(x[:, None], [S, K, n, 2])
        out = self.model.decode(self.parameters, _flat(places), _flat(z))
        return tuple(tf.reshape(v, [S, K, n]).numpy() for v in out)

    def coefficients(self, s: np.ndarray, x: np.ndarray) -> dict[str, np.ndarray]:
        """The mechanism's coefficients at places with secondaries s, for the mean latent; [S, n, out] each."""
        s, x = (tf.constant(v, tf.float32) for v in (s, x))
        z = self.model.encode(self.parameters, tf.concat([s, x], axis=-1)).mean
        draw = SiteFields(self.model, self.parameters, s, x, tf.zeros_like(z), z)
        return {name: self.model.prior_sd * value.numpy() for name, value in draw.at_sites().items()}


def _flat(v: tf.Tensor) -> tf.Tensor:
    """[S, m, n, d] → [S, m·n, d]."""
    return tf.reshape(v, [v.shape[0], -1, v.shape[-1]])


def _beside(z: tf.Tensor, more: tf.Tensor) -> tf.Tensor:
    return tf.concat([more, tf.broadcast_to(z, [*more.shape[:-1], z.shape[-1]])], axis=-1)
