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

from .._tensorflow import repeated, tf
from ..errors import UserError
from ..mesh import Mesh
from ..operators import Diffusion, Source, Term, Transport
from ..penalties import ExactPenalty, Penalty, TaperedPenalty, TwoLevelPenalty
from ..schedules import Restarts
from .kernels import InducedField, spread_out
from .networks import Network

NETWORK = Network((2, 32, 64, 64, 1), "sigmoid")
MECHANISMS = ("GP-D", "GP-DT", "Laplace", "none")
_SMALLEST_NOISE = 1e-2
_OFF_DIAGONAL = 0.1  # a thousand entries that each follow a noisy gradient at Adam's pace would swamp the diagonal


class Wells(NamedTuple):
    """Training wells of each member, standardised; ``weight`` 0 where a member has fewer than the longest."""

    x: np.ndarray  # [S, n, 2]
    y: np.ndarray  # [S, n]
    weight: np.ndarray  # [S, n]


class Draw(NamedTuple):
    """M samples of the mechanism for each of S members: what the penalty knows as z."""

    network: tf.Tensor  # [S, parameters]
    log_a: tf.Tensor  # [S·M, k] whitened
    f: tf.Tensor  # [S·M, k]
    tau: tf.Tensor  # [S·M, 2]


@dataclass(frozen=True)
class Surrogate:
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
        if self.mechanism not in MECHANISMS:
            raise UserError(f"unknown mechanism {self.mechanism!r}: use one of {', '.join(MECHANISMS)}")

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
        equation = self.equation(mesh)
        patch = {"patch_nodes": self.patch_nodes, "n_patches": self.n_patches, "dtype": tf.float32}
        if self.penalty == "exact":
            return ExactPenalty(mesh, equation, dtype=tf.float32)
        if self.penalty == "two-level":
            return TwoLevelPenalty(mesh, equation, centres=None, **patch)
        return TaperedPenalty(mesh, equation, taper=self.penalty, **patch)

    def fit(self, wells: Wells, mesh: Mesh, cycles: list[int], seeds: list[int]) -> list[Trained]:
        """The members as they stand at the end of each of these cycles of ε."""
        variables = self._variables(wells, seeds)
        optimiser = tf.keras.optimizers.Adam(self.learning_rate)
        optimiser.build(list(variables.values()))
        constants = Wells(*(tf.constant(v, tf.float32) for v in wells))
        train = self._trainer(variables, optimiser, constants, self.make_penalty(mesh), seeds[0])
        found, done = [], 0
        for cycle in sorted(cycles):
            train(tf.constant(done), tf.constant(cycle * self.period))
            parameters = {name: v.numpy() for name, v in variables.items()}
            if not all(np.isfinite(v).all() for v in parameters.values()):
                raise UserError(f"{self.mechanism} ({self.penalty}) diverged before the end of cycle {cycle}")
            found.append(Trained(self, cycle, parameters))
            done = cycle * self.period
        return found

    def _variables(self, wells: Wells, seeds: list[int]) -> dict[str, tf.Variable]:
        """Network, log σ, and the factors of whitened values: means m, and T for S = CCᵀ (:func:`_factor`)."""
        S, k = len(seeds), self.n_inducing
        sizes = {"log_a": k, "f": k, "tau": 2}
        factors = {name: np.zeros((S, size)) for name, size in sizes.items()}
        factors |= {f"{name}_T": np.tile(np.log(0.1) * np.eye(size), (S, 1, 1)) for name, size in sizes.items()}
        start = {"network": NETWORK.init(seeds), "log_sigma": np.full((S, 1), np.log(0.3))} | factors
        return {name: tf.Variable(value.astype(np.float32)) for name, value in start.items()}

    def _trainer(self, variables, optimiser, wells: Wells, penalty, seed):
        schedule = Restarts(self.eps_start, self.eps_end, self.period)

        @repeated
        def train(step):
            with tf.GradientTape() as tape:
                parameters = {name: tf.convert_to_tensor(v) for name, v in variables.items()}
                eps = tf.cast(schedule(step), tf.float32)
                loss = self._objective(parameters, wells, penalty, eps, tf.stack([step, seed]))
            gradient = tape.gradient(loss, list(variables.values()), unconnected_gradients="zero")
            optimiser.apply_gradients(zip(gradient, variables.values()))

        return train

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

    def _draw(self, parameters, key) -> Draw:
        M = self.samples
        drawn = {}
        for k, name in enumerate(("log_a", "f", "tau")):
            m, C = parameters[name][:, None], _factor(parameters[f"{name}_T"])
            normal = tf.random.stateless_normal([m.shape[0], M, m.shape[-1]], key + [0, 7 + k])
            drawn[name] = tf.reshape(m + tf.matmul(normal, C, transpose_b=True), [-1, m.shape[-1]])
        return Draw(parameters["network"], **drawn)

    def _kl(self, parameters) -> tf.Tensor:
        """Σ KL(N(m, CCᵀ) ‖ N(0, I)) over the factors that the mechanism has."""
        used = {"GP-D": ("log_a", "f"), "GP-DT": ("log_a", "f", "tau")}.get(self.mechanism, ())
        total = 0.0
        for name in used:
            m, T = parameters[name], parameters[f"{name}_T"]
            log_diagonal = tf.linalg.diag_part(T)
            total += 0.5 * (tf.reduce_sum(m**2 - 1) + tf.reduce_sum(_factor(T) ** 2)) - tf.reduce_sum(log_diagonal)
        return total


def _factor(T: tf.Tensor) -> tf.Tensor:
    """C: the strict lower triangle of T, scaled, and the exponential of its diagonal."""
    lower = _OFF_DIAGONAL * tf.linalg.band_part(T, -1, 0)
    return tf.linalg.set_diag(lower, tf.exp(tf.linalg.diag_part(T)))


def surrogate(x: tf.Tensor, z: Draw) -> tf.Tensor:
    """μ at places [n, 2] for each sample; [S·M, n]."""
    S = z.network.shape[0]
    u = NETWORK(z.network, tf.broadcast_to(tf.cast(x, tf.float32), [S, *x.shape]))[..., 0]
    return tf.repeat(u, z.log_a.shape[0] // S, axis=0)


class Trained(NamedTuple):
    """The members' parameters after ``cycles`` cycles of ε."""

    model: Surrogate
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
            C = _factor(self.parameters[f"{name}_T"]).numpy()
            found[name] = self.parameters[name] @ basis.T
            found[f"{name}_sd"] = np.linalg.norm(basis @ C, axis=-1)
        C = _factor(self.parameters["tau_T"]).numpy()
        return found | {"tau": self.parameters["tau"], "tau_sd": np.linalg.norm(C, axis=-1)}
