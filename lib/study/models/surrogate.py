"""GP-D and GP-DT: a network for the head, Gaussian factors for the mechanism (supplement, "Aquifer experiment").

    −∇·(a∇u) (+ τ·∇u) = f,  log a ~ GP,  f ~ GP,  τ ~ N(0, I);   q(g) q(f) q(τ) by whitened values at inducing points
    F = Σ_wells −log N(y | μ(x), σ²) + KL(q ‖ p) + E_q ‖L[a, τ]μ − f‖² / 2ε²

μ, the surrogate, is a network of the place alone. Members (seeds or folds) train together: the leading axis S.
Kernels are fixed: left free, they run to a → 0, which fulfils any equation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pdevae import spread_out
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion, Source, Term, Transport
from pdevae.inference.fit import fit
from pdevae.inference.gaussian import Gaussian
from pdevae.inference.schedules import Restarts
from pdevae.penalties import Penalty, named
from study.models.kernels import InducedField
from study.models.networks import Network

NETWORK = Network((2, 32, 64, 64, 1), "sigmoid")
NAMES = ("GP-D", "GP-DT", "Laplace", "none")
_SMALLEST_NOISE = 1e-2
_OFF_DIAGONAL = 0.1  # a thousand entries that each follow a noisy gradient at Adam's pace would swamp the diagonal


class Wells(NamedTuple):
    """Training wells of each member, standardised; ``weight`` 0 where a member has fewer than the longest."""

    x: np.ndarray  # [S, n, 2]
    y: np.ndarray  # [S, n]
    weight: np.ndarray  # [S, n]


class MechanismSamples(NamedTuple):
    """M samples of the mechanism for each of S members: what the penalty knows as z."""

    network: tf.Tensor  # [S, parameters]
    log_a: tf.Tensor  # [S·M, k] whitened
    f: tf.Tensor  # [S·M, k]
    tau: tf.Tensor  # [S·M, 2]


@dataclass(frozen=True)
class WellSurrogate:
    """Settings. ``penalty``: exact, two-level or hard (the paper's taper, unbiased, of ``n_patches`` patches)."""

    mechanism: str = "GP-DT"
    penalty: str = "exact"
    patch_nodes: int = 32
    n_patches: int = 16
    log_a_sd: float = 0.5
    log_a_length: float = 0.5
    source_sd: float = 3.0
    source_length: float = 0.3
    n_inducing: int = 50
    eps_start: float = 0.1
    eps_end: float = 0.01
    period: int = 1000
    samples: int = 4
    learning_rate: float = 1e-2

    def __post_init__(self):
        if self.mechanism not in NAMES:
            raise UserError(f"unknown mechanism {self.mechanism!r}: use one of {', '.join(NAMES)}")

    def fields(self, mesh: Mesh) -> tuple[InducedField, InducedField]:
        """log a and f."""
        points = spread_out(mesh.points, self.n_inducing)
        return (
            InducedField(points, self.log_a_sd, self.log_a_length),
            InducedField(points, self.source_sd, self.source_length),
        )

    def equation(self, mesh: Mesh) -> Term:
        if self.mechanism == "Laplace":
            return Diffusion(1.0)
        g, f = self.fields(mesh)
        diffusion = Diffusion(lambda x, z: tf.exp(tf.matmul(z.log_a, g.basis_at(x), transpose_b=True)))
        source = Source(lambda x, z: tf.matmul(z.f, f.basis_at(x), transpose_b=True))
        transport = Transport(lambda x, z: z.tau[:, None])
        return diffusion + transport - source if self.mechanism == "GP-DT" else diffusion - source

    def make_penalty(self, mesh: Mesh) -> Penalty | None:
        if self.mechanism == "none":
            return None
        return named(self.penalty, mesh, self.equation(mesh), self.patch_nodes, self.n_patches, dtype=tf.float32)

    def fit(self, wells: Wells, mesh: Mesh, cycles: list[int], seeds: list[int]) -> list[TrainedWells]:
        """The members as they stand at the end of each of these cycles of ε."""
        variables, penalty = self._variables(wells, seeds), self.make_penalty(mesh)
        constants = Wells(*(tf.constant(v, tf.float32) for v in wells))
        schedule = Restarts(self.eps_start, self.eps_end, self.period)

        def loss(step):
            parameters = {name: tf.convert_to_tensor(v) for name, v in variables.items()}
            eps = tf.cast(schedule(step), tf.float32)
            return self._objective(parameters, constants, penalty, eps, tf.stack([step, seeds[0]]))

        ends, found = {cycle * self.period: cycle for cycle in cycles}, []

        def keep(step, _):
            if step in ends:
                found.append(TrainedWells(self, ends[step], {name: v.numpy() for name, v in variables.items()}))

        adam, what = tf.keras.optimizers.Adam(self.learning_rate), f"{self.mechanism} ({self.penalty})"
        fit(loss, variables.values(), max(ends), optimiser=adam, watch=keep, looks=list(ends), what=what)
        return found

    def _variables(self, wells: Wells, seeds: list[int]) -> dict[str, tf.Variable]:
        """Network, log σ, and the factors of whitened values: means m, and T for S = CCᵀ (:func:`_factor`)."""
        S, k = len(seeds), self.n_inducing
        sizes = {"log_a": k, "f": k, "tau": 2}
        factors = {name: np.zeros((S, size)) for name, size in sizes.items()}
        factors |= {f"{name}_T": np.tile(np.log(0.1) * np.eye(size), (S, 1, 1)) for name, size in sizes.items()}
        start = {"network": NETWORK.init(seeds), "log_sigma": np.full((S, 1), np.log(0.3))} | factors
        return {name: tf.Variable(value.astype(np.float32)) for name, value in start.items()}

    def _objective(self, parameters, wells: Wells, penalty, eps, key) -> tf.Tensor:
        """Σ over members of F / n."""
        mu = NETWORK(parameters["network"], wells.x)[..., 0]
        sigma = _SMALLEST_NOISE + tf.exp(parameters["log_sigma"])
        nll = 0.5 * ((wells.y - mu) / sigma) ** 2 + tf.math.log(sigma)
        loss = tf.reduce_sum(wells.weight * nll)
        if penalty is not None:
            S = mu.shape[0]
            held = S * penalty(surrogate, self._draw(parameters, key), key + 2) / (2 * eps**2)
            loss += held + self._kl(parameters)
        return loss / tf.reduce_mean(tf.reduce_sum(wells.weight, axis=1))

    def _draw(self, parameters, key) -> MechanismSamples:
        M = self.samples
        drawn = {}
        for k, name in enumerate(("log_a", "f", "tau")):
            q = _gaussian(parameters, name)
            S, d = q.mean.shape
            normal = tf.transpose(tf.random.stateless_normal([S, M, d], key + [0, 7 + k]), [1, 0, 2])
            drawn[name] = tf.reshape(tf.transpose(q.draw(normal), [1, 0, 2]), [-1, d])
        return MechanismSamples(parameters["network"], **drawn)

    def _kl(self, parameters) -> tf.Tensor:
        """Σ KL(N(m, CCᵀ) ‖ N(0, I)) over the factors that the mechanism has."""
        used = {"GP-D": ("log_a", "f"), "GP-DT": ("log_a", "f", "tau")}.get(self.mechanism, ())
        return sum((tf.reduce_sum(_gaussian(parameters, name).kl()) for name in used), 0.0)


def _gaussian(parameters, name: str) -> Gaussian:
    """q of a factor [S, d]: its mean, and T with the logarithm of C's diagonal and what is below it, scaled."""
    T = tf.convert_to_tensor(parameters[f"{name}_T"])
    return Gaussian(parameters[name], tf.linalg.diag_part(T), _OFF_DIAGONAL * T)


def surrogate(x: tf.Tensor, z: MechanismSamples) -> tf.Tensor:
    """μ at places [n, 2] for each sample; [S·M, n]."""
    S = z.network.shape[0]
    u = NETWORK(z.network, tf.broadcast_to(tf.cast(x, tf.float32), [S, *x.shape]))[..., 0]
    return tf.repeat(u, z.log_a.shape[0] // S, axis=0)


class TrainedWells(NamedTuple):
    """The members' parameters after ``cycles`` cycles of ε."""

    model: WellSurrogate
    cycles: int
    parameters: dict[str, np.ndarray]

    def predict(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and sd [S, n] at places [n, 2], standardised."""
        S = len(self.parameters["network"])
        mean = NETWORK(self.parameters["network"], tf.broadcast_to(tf.cast(x, tf.float32), [S, *x.shape]))[..., 0]
        sigma = _SMALLEST_NOISE + np.exp(self.parameters["log_sigma"])
        return mean.numpy(), np.broadcast_to(sigma, mean.shape)

    def coefficients(self, mesh: Mesh, x: np.ndarray) -> dict[str, np.ndarray]:
        """Mean and sd under q of log a and f at places [n, 2], and of τ; [S, …]."""
        found = {}
        for name, field in zip(("log_a", "f"), self.model.fields(mesh)):
            basis = field.basis(x)
            found[name] = self.parameters[name] @ basis.T
            found[f"{name}_sd"] = np.linalg.norm(basis @ _gaussian(self.parameters, name).factor().numpy(), axis=-1)
        C = _gaussian(self.parameters, "tau").factor().numpy()
        return found | {"tau": self.parameters["tau"], "tau_sd": np.linalg.norm(C, axis=-1)}
