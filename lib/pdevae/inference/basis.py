"""Functions of place for a decoder: a trunk trained over the prior, made orthonormal, and its coefficients for z."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, qmc
from tqdm.auto import tqdm

from pdevae._tensorflow import tf
from pdevae.fem.solve import Solver
from pdevae.fem.transfer import coarser
from pdevae.fem.weak_form import WeakForm, stiffness
from pdevae.inference.fit import fit
from pdevae.inference.forward import Forward
from pdevae.inference.gaussian import antithetic
from pdevae.inference.network import Separable, penalty_of, size_by_equation, trunk_at
from pdevae.penalties import named

_SOLVED_ON = 4000  # nodes: on larger meshes b(z) is solved for on a coarser mesh of the region
_AT_A_TIME = 32
_INDEPENDENT = 1e-10  # of the largest eigenvalue: functions of place that the others give are left out


class Basis(NamedTuple):
    """φ(x) = t(x) V: combinations of a trunk's functions that are orthonormal in ∫∇φ·∇φ'."""

    centre: np.ndarray
    half: float
    layers: tuple[np.ndarray, ...]  # weights and biases in turn
    V: np.ndarray  # [trunk, K]

    @property
    def size(self) -> int:
        return self.V.shape[1]

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        """[n, K], in double precision."""
        return tf.matmul(trunk_at(x, self.centre, self.half, list(self.layers), tf.float64), tf.constant(self.V))

    def at(self, x: np.ndarray) -> np.ndarray:
        """The same without a graph, which takes longer to start than a few places take."""
        t = (x - self.centre) / self.half
        for w, b in zip(self.layers[::2], self.layers[1::2]):
            t = np.tanh(t @ w + b)
        return t @ self.V

    def sums(self, coefficients: tf.Tensor):
        """The fields Σ_k c_k φ_k for each row of c [M, K], as μ(x, z)."""
        return lambda x, z: tf.cast(tf.matmul(coefficients, self(x), transpose_b=True), x.dtype)


def normal_points(count: int, d: int, seed: int) -> np.ndarray:
    """A low-discrepancy sample of N(0, I)."""
    return norm.ppf(qmc.Sobol(d, seed=seed).random(2 ** int(np.ceil(np.log2(count)))))[:count]


def trained_over_prior(forward, penalty, steps, samples, width, spread, learning_rate, seed, progress) -> Separable:
    """A network with E‖L[z]μ − f‖² small, by Adam."""
    mesh, d = forward.weak.mesh, forward.latents.size
    if not callable(penalty):
        made = named(penalty, mesh, forward.equation, boundary=forward.boundary, dtype=tf.float32)
    else:
        made = penalty(mesh, forward.equation)
    network = Separable(mesh, d, width)
    for variable, value in zip(network.layers, network.start(seed)):
        variable.assign(value)
    seen = lambda z: forward.latents.seen(tf.cast(z, made.weak.dtype))  # noqa: E731
    network.scale.assign(size_by_equation(made, seen, d))
    load = penalty_of(made, seen, d, 0.0)

    def loss(step):
        z = spread * antithetic(samples, [d], tf.stack([step, seed]), tf.float32)
        return made(lambda x, z: network(x, z.whitened), seen(z), tf.stack([step, seed])) / load

    compiled = made.compiles and steps >= 500
    fit(loss, network.layers, steps, learning_rate, compiled=compiled, what="decoder", progress=progress)
    return network


def solved_branch(forward: Forward, network: Separable, z: np.ndarray, progress: bool) -> tuple[Basis, np.ndarray]:
    """A basis of the trunk's span, orthonormal in ∫∇φ·∇φ', and b [S, K] in it for each z [S, d]."""
    mesh = forward.mesh if forward.mesh.n_nodes <= 1.2 * _SOLVED_ON else coarser(forward.mesh, nodes=_SOLVED_ON)
    weak = WeakForm(mesh, forward.equation, forward.boundary)
    solver = Solver(weak, forward.latents.seen)
    layers = tuple(layer.numpy().astype(float) for layer in network.layers[:-4])
    basis = Basis(network.centre, network.half, layers, np.eye(network.width))
    g, w = (np.broadcast_to(part, mesh.n_nodes) for part in weak.g_and_w)
    phi = w[:, None] * basis.at(mesh.points)
    inside = phi[mesh.interior]
    size, V = np.linalg.eigh(inside.T @ (stiffness(mesh) @ inside))
    kept = size > _INDEPENDENT * size[-1]
    basis = basis._replace(V=V[:, kept] / np.sqrt(size[kept]))
    phi = phi @ basis.V
    starts = range(0, len(z), _AT_A_TIME)
    if progress:
        starts = tqdm(starts, "branch", delay=3, leave=False)
    return basis, np.concatenate([solver.within(z[k : k + _AT_A_TIME], g, phi) for k in starts])
