"""Aristoff & Bangerth's benchmark (SIAM Review 65(4), 2023): 64 coefficients from 169 readings of a membrane.

−∇·(a∇u) = 10 on the unit square, u = 0 on its edge; a = θ_k on each of 8 × 8 squares, k = i + 8j with i along x.
Readings at (i/14, j/14), noise 0.05. The forward map is part of the benchmark: bilinear elements on 32 × 32 squares.
Its prior density is exp(−Σ ln²θ_k/8) **in θ**: with the Jacobian, ln θ_k ~ N(4, 2²), not N(0, 2²), independently.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pandas as pd
import skfem
from skfem.helpers import dot, grad

from machinery.settings import project_root
from pdevae import Cells, Diffusion, Forward, InverseProblem, Latents, Mesh, Source
from pdevae._tensorflow import tf
from pdevae.fem.factors import factorise

SIDE, NOISE, LOAD = 8, 0.05, 10.0
MEAN, SD = 4.0, 2.0  # of ln θ
SENSORS = np.array([(i / 14, j / 14) for i in range(1, 14) for j in range(1, 14)])
TRUE = np.ones(SIDE**2)
TRUE[[9, 10, 17, 18]], TRUE[[45, 46, 53, 54]] = 0.1, 10.0


def cell(x: tf.Tensor) -> tf.Tensor:
    """k of places [n, 2]."""
    i = tf.cast(tf.clip_by_value(tf.floor(SIDE * x), 0, SIDE - 1), tf.int32)
    return i[:, 0] + SIDE * i[:, 1]


def squares(n: int) -> skfem.MeshQuad:
    return skfem.MeshQuad.init_tensor(*2 * [np.linspace(0, 1, n + 1)])


@lru_cache(maxsize=2)
def forward(elements: str = "Q1", n: int = 32) -> Forward:
    """``Q1``, the benchmark's; ``P1`` on the same squares cut in two, which a decoder can learn."""
    equation = Diffusion(lambda x, z: tf.exp(z.log_theta(x))) - Source(LOAD)
    latents = Latents(log_theta=Cells(SIDE**2, cell, MEAN, SD))
    if elements == "Q1":
        return Forward(skfem.Basis(squares(n), skfem.ElementQuad1(), intorder=3), equation, latents, 0.0)
    cut = squares(n).to_meshtri()
    return Forward(Mesh(cut.p.T, cut.t.T), equation, latents, 0.0)


def problem(readings: np.ndarray, elements: str = "Q1") -> InverseProblem:
    return InverseProblem.on(forward(elements), SENSORS, readings, NOISE)


def whitened(theta: np.ndarray) -> np.ndarray:
    """z of θ."""
    return (np.log(theta) - MEAN) / SD


def readings(n: int = 256) -> np.ndarray:
    """Without noise, as the benchmark has them: cubic elements on n × n squares; [169]."""
    basis = skfem.Basis(squares(n), skfem.ElementQuadP(3), intorder=6)

    @skfem.BilinearForm
    def operator(u, v, w):
        i = np.clip(np.floor(SIDE * w.x), 0, SIDE - 1).astype(int)
        return TRUE[i[0] + SIDE * i[1]] * dot(grad(u), grad(v))

    @skfem.LinearForm
    def load(v, w):
        return LOAD * v

    A, b, u, inside = skfem.condense(operator.assemble(basis), load.assemble(basis), D=basis.get_dofs())
    u[inside] = factorise(A).solve(b)
    return basis.probes(SENSORS.T) @ u


def published() -> pd.DataFrame | None:
    """The benchmark's own readings, where they stand beside the project: they are not ours to copy."""
    path = project_root().parent / "shared" / "benchmark" / "readings.csv"
    return pd.read_csv(path) if path.exists() else None
