"""The penalty against what one would write first: the paper in plain TensorFlow, and residuals from scikit-fem.

    .venv/bin/python benchmarks/peers_penalty.py

*Naive*: A⁻¹ as a dense matrix, and in each step P patches found and gathered in Python, one after the other, in eager
TensorFlow. *scikit-fem*: L[z] assembled anew and applied to the network's nodal values, which gives the residual alone,
without a gradient. Writes benchmarks/peers_penalty.csv and the bars.
"""

from __future__ import annotations

import time

import common
import numpy as np
import pandas as pd
import skfem
from core import EQUATION, N_PATCHES, PATCH_NODES, network, training_step
from skfem.helpers import dot, grad
from tqdm import tqdm

import pdevae
from pdevae._tensorflow import tf
from pdevae.penalties.minipatches import radius_for

SIZES = (1024, 4096, 10_000)


class Naive:
    """eq:mc_approx_to_reg as written: row i of A⁻¹ cut off at ρ, times the residual of the patch around i."""

    def __init__(self, mesh: pdevae.Mesh, rho: float):
        self.mesh, self.rho = mesh, rho
        self.inverse = np.linalg.inv(pdevae.stiffness(mesh).toarray())
        _, self.factor = pdevae.lift(mesh, 0.0)
        self.rng = np.random.default_rng(0)

    def __call__(self, mu, z):
        terms = [self.row_term(int(i), mu, z) for i in self.rng.choice(self.mesh.interior, N_PATCHES)]
        return len(self.mesh.interior) * tf.add_n(terms) / N_PATCHES

    def row_term(self, i, mu, z):
        mesh, number = self.mesh, self.mesh.interior_number
        near = np.linalg.norm(mesh.points - mesh.points[i], axis=1) < self.rho
        tests = {j for j in np.flatnonzero(near) if number[j] >= 0}
        active = [t for t in mesh.triangles.tolist() if not tests.isdisjoint(t)]
        nodes = sorted({j for t in active for j in t})
        place = {j: k for k, j in enumerate(nodes)}
        u = tf.gather(self.values(nodes, mu, z), [[place[j] for j in t] for t in active], axis=1)
        r = element_residual(mesh.points[np.array(active)], u, z)
        row = np.array([[self.inverse[number[i], number[j]] if j in tests else 0.0 for j in t] for t in active])
        w_i = tf.reduce_sum(r * (np.array(active) == i), axis=(1, 2))
        return tf.reduce_mean(w_i * tf.reduce_sum(r * row, axis=(1, 2)))

    def values(self, nodes, mu, z):
        return mu(tf.constant(self.mesh.points[nodes]), z) * self.factor[nodes]


def element_residual(corners: np.ndarray, u: tf.Tensor, z) -> tf.Tensor:
    """|e| (0.3 ∇φ_k·∇u + (τ·∇u − 1)/3) from corners [E, 3, 2] and values [M, E, 3]."""
    basis = np.linalg.inv(np.concatenate([np.ones((*corners.shape[:2], 1)), corners], axis=2))
    phi, area = np.swapaxes(basis[:, 1:], 1, 2), 0.5 / np.abs(np.linalg.det(basis))
    grad_u = tf.einsum("mek,ekd->med", u, phi)
    volume = (tf.einsum("md,med->me", z, grad_u) - 1.0) / 3
    return area[:, None] * (0.3 * tf.einsum("med,ekd->mek", grad_u, phi) + volume[..., None])


def eager_step(loss, weights):
    def step():
        with tf.GradientTape() as tape:
            value = loss()
        return tape.gradient(value, weights)

    return step


def skfem_residual(mesh: pdevae.Mesh, mu, z):
    """L[z] of each sample assembled anew, times the nodal values."""
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1(), intorder=0)
    form = skfem.BilinearForm(lambda u, v, w: 0.3 * dot(grad(u), grad(v)) + (w.t0 * grad(u)[0] + w.t1 * grad(u)[1]) * v)
    x = tf.constant(mesh.points)
    return lambda: [form.assemble(basis, t0=t[0], t1=t[1]) @ u for t, u in zip(z.numpy(), mu(x, z).numpy())]


def at(nodes: int) -> list[dict]:
    mesh = pdevae.square(nodes=nodes)
    rho = radius_for(mesh, PATCH_NODES)
    weights, mu = network()
    z = tf.constant(np.random.default_rng(0).normal(size=(4, 2)))
    common_settings = dict(rho=rho, n_patches=N_PATCHES, boundary=0.0)
    made, calls = {}, {}
    for name, make in {
        "naive TensorFlow": lambda: Naive(mesh, rho),
        "tapered (ours)": lambda: pdevae.TaperedPenalty(mesh, EQUATION, **common_settings),
        "two-level (ours)": lambda: pdevae.TwoLevelPenalty(mesh, EQUATION, **common_settings),
        "exact (ours)": lambda: pdevae.ExactPenalty(mesh, EQUATION, boundary=0.0),
    }.items():
        begun = time.perf_counter()
        penalty = make()
        made[name] = time.perf_counter() - begun
        if name.startswith("naive"):
            calls[name] = eager_step(lambda p=penalty: p(mu, z), weights)
        else:
            calls[name] = training_step(lambda seed, p=penalty: p(mu, z, seed), weights)
    calls["scikit-fem, residual only"] = skfem_residual(mesh, mu, z)
    seconds = common.alternate(calls, 5)
    rows = [{"name": name, "nodes": nodes, "milliseconds": 1e3 * s} for name, s in seconds.items()]
    return [row | {"setup_seconds": made.get(row["name"], np.nan)} for row in rows]


def check() -> float:
    """The naive sum over all rows is ours: relative difference."""
    mesh = pdevae.square(nodes=100)
    rho, (_, mu), z = 0.35, network(), tf.constant([[1.0, -2.0], [0.3, 0.5]], tf.float64)
    naive, ours = Naive(mesh, rho), pdevae.TaperedPenalty(mesh, EQUATION, rho=rho, boundary=0.0)
    rows = [float(naive.row_term(int(i), mu, z)) for i in mesh.interior]
    a, b = ours.pair(mu, z)
    theirs = tf.reduce_mean(a * b, axis=0).numpy()
    return float(np.abs(np.array(rows) - theirs).max() / np.abs(theirs).max())


def bars(table: pd.DataFrame) -> None:
    last = table[table.nodes == max(SIZES)].set_index("name").milliseconds
    made = common.Bars("peers_penalty")
    for name, target in (("naive TensorFlow", 10.0), ("scikit-fem, residual only", 1.0)):
        ratio = last[name] / last["tapered (ours)"]
        made.add(
            f"peers_penalty_{name.split()[0].strip(',').replace('-', '_')}",
            f"A step of the tapered penalty with its gradient against {name}, {max(SIZES):,} nodes, Q=32, P=16 (ratio)",
            f"> {target:g}",
            f"{ratio:.0f} ({last[name]:.0f} ms against {last['tapered (ours)']:.1f} ms)",
            bool(ratio > target),
        )
    made.record()


def main() -> None:
    common.one_thread()
    off = check()
    assert off < 1e-10, f"the naive penalty is not ours: relative difference {off}"
    table = pd.DataFrame([row for nodes in tqdm(SIZES, "sizes") for row in at(nodes)])
    print(table.to_string(index=False, float_format="%.3g"))
    common.save(table, "peers_penalty")
    bars(table)


if __name__ == "__main__":
    main()
