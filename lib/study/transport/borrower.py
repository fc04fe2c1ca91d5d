"""A borrower's first try: a plain Keras network, the documented arguments, a solution by scikit-fem to compare with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import skfem
from skfem.helpers import dot, grad

from pdevae._tensorflow import tf
from pdevae.fem import domains
from pdevae.fem.fields import keras_field
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion, Source, Term
from pdevae.inference.fit import falling_adam, fit
from pdevae.penalties import TwoLevelPenalty
from pdevae.penalties.diagnostics import diagnose

_SQUARE = np.array([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0)])
_CIRCLE = np.stack([np.cos(np.linspace(0, 2 * np.pi, 120)[:-1]), np.sin(np.linspace(0, 2 * np.pi, 120)[:-1])], axis=1)


@cache
def region(name: str, nodes: int) -> Mesh:
    if name == "annulus":
        return domains.polygon(_CIRCLE, holes=[0.4 * _CIRCLE], nodes=nodes)
    if name == "two holes":
        outline = [(-1.0, -0.8), (1.0, -1.0), (1.2, 0.4), (0.2, 1.0), (-1.1, 0.7)]
        return domains.polygon(outline, holes=[0.35 * _SQUARE - (0.6, 0.4), 0.2 * _CIRCLE + (0.5, 0.1)], nodes=nodes)
    return getattr(domains, name)(nodes=nodes)


def a(x):
    return 1 + 0.5 * np.sin(3 * x[..., 0]) * np.cos(2 * x[..., 1])


def f(x):
    return 5 * (1 + x[..., 0] + np.cos(3 * x[..., 1]))


class Reaction(Term):
    def volume(self, x, z, u, grad):
        return 2.0 * u


def equation() -> Term:
    """−∇·(a∇u) + 2u = f, a and f varying."""
    a_tf = lambda x, z: 1 + 0.5 * tf.sin(3 * x[:, 0]) * tf.cos(2 * x[:, 1])  # noqa: E731
    f_tf = lambda x, z: 5 * (1 + x[:, 0] + tf.cos(3 * x[:, 1]))  # noqa: E731
    return Diffusion(a_tf) + Reaction() - Source(f_tf)


@cache
def solution(name: str, nodes: int) -> np.ndarray:
    """u at the nodes of the same mesh, assembled and solved by scikit-fem."""
    basis = skfem.Basis(region(name, nodes).skfem, skfem.ElementTriP1())
    at = lambda w: np.moveaxis(np.asarray(w.x), 0, -1)  # noqa: E731
    K = skfem.BilinearForm(lambda u, v, w: a(at(w)) * dot(grad(u), grad(v)) + 2 * u * v).assemble(basis)
    b = skfem.LinearForm(lambda v, w: f(at(w)) * v).assemble(basis)
    return skfem.solve(*skfem.condense(K, b, D=np.flatnonzero(region(name, nodes).is_boundary)))


def factor_of(mesh: Mesh, how: str):
    """What the penalty is told of the boundary: the default, another smooth factor, or none (overwritten)."""
    if how == "poisson":
        return 0.0
    if how == "overwritten":
        w = np.where(mesh.is_boundary, 0.0, 1.0)
    elif how == "distance":
        w = edge_distances(mesh).min(axis=1)
    else:
        w = 1 / np.sum(1 / np.maximum(trimmed_distances(mesh), 1e-12), axis=1)
    return np.zeros(mesh.n_nodes), np.where(mesh.is_boundary, 0.0, w / w.max())


def _edges(mesh: Mesh):
    start, end = (mesh.points[mesh.boundary_edges[:, k]] for k in (0, 1))
    return start, end - start, np.linalg.norm(end - start, axis=1)


def edge_distances(mesh: Mesh) -> np.ndarray:
    """[n, edges] Euclidean distances to the boundary's edges."""
    start, along, length = _edges(mesh)
    t = np.clip(np.einsum("nkd,kd->nk", mesh.points[:, None] - start, along) / length**2, 0, 1)
    return np.linalg.norm(start + t[..., None] * along - mesh.points[:, None], axis=-1)


def trimmed_distances(mesh: Mesh) -> np.ndarray:
    """[n, edges] smooth approximate distances to the edges, joined by R-equivalence (Sukumar & Srivastava, 2022)."""
    start, along, length = _edges(mesh)
    away = mesh.points[:, None] - start
    line = (away[..., 0] * along[:, 1] - away[..., 1] * along[:, 0]) / length
    trim = (length**2 / 4 - np.sum((away - along / 2) ** 2, axis=-1)) / length
    return np.sqrt(line**2 + (np.sqrt(trim**2 + line**4) - trim) ** 2 / 4)


@dataclass(frozen=True)
class FirstTry:
    region: str
    factor: str
    nodes: int
    steps: list[int]  # after which the field is looked at


def first_try(config: FirstTry, seed: int) -> dict:
    """Relative error of the field against scikit-fem's after so many steps of Adam, the rate falling along a cosine."""
    mesh = region(config.region, config.nodes)
    penalty = TwoLevelPenalty(mesh, equation(), boundary=factor_of(mesh, config.factor), dtype=tf.float32)
    tf.keras.utils.set_random_seed(seed)
    layers = [tf.keras.layers.Dense(64, "tanh"), tf.keras.layers.Dense(64, "tanh"), tf.keras.layers.Dense(1)]
    model = tf.keras.Sequential([tf.keras.Input([2]), *layers])
    mu, steps = keras_field(model), config.steps
    true, errors = solution(config.region, config.nodes), []

    def look(step, _):
        if step in steps:
            u = penalty.weak.values(mu, None).numpy()[0]
            errors.append(np.linalg.norm(u - true) / np.linalg.norm(true))

    loss = lambda step: penalty(mu, None, tf.stack([step, seed]))  # noqa: E731
    adam, compiled = falling_adam(5e-3, steps[-1], least=0.0), penalty.compiles and steps[-1] >= 500
    fit(loss, model.trainable_variables, steps[-1], optimiser=adam, watch=look, looks=steps, compiled=compiled)
    found = diagnose(penalty, mu)
    said = {"residual": found.residual, "at_boundary": found.at_boundary, "told": bool(found.advice)}
    return {"after": np.array(steps), "error": np.array(errors), **said}
