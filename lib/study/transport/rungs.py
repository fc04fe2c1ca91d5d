"""The rungs of the ladder: CVI by training, from the penalty as the paper prints it to ours, and the point-wise one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from pdevae import CVI, Geometric, Penalty, PointwisePenalty
from pdevae._tensorflow import tf
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.fem.weak_form import WeakForm
from pdevae.penalties import named
from study.transport.problem import mesh_of

# A trained method's penalty, and for which τ it is taken (CVI's ``serves``)
_KINDS = {
    "printed": ("hard", "q"),  # (a) with 1/P
    "overwritten": ("hard", "q"),  # (a) with the boundary overwritten instead of met
    "coupled": ("hard", "q"),  # (b) with N/P
    "hard": ("hard", "wider"),  # (c)
    "wendland": ("wendland", "wider"),  # (d)
    "exact": ("exact", "wider"),  # (e)
    "two-level": ("two-level", "wider"),  # (f)
    "multilevel": ("multilevel", "wider"),  # (g)
    "prior": ("multilevel", "prior"),  # (h)
    "pointwise": ("pointwise", "wider"),
    "pointwise-soft": ("pointwise", "wider"),
}


@lru_cache(maxsize=4)
def trained(rung: str, domain: str, nodes: int, steps: int, eps, rate, width: int, samples: int, tests: int) -> CVI:
    """A rung of the ladder; ``hard-64`` has patches of 64 test nodes, and a step sees ``tests`` of them in all.

    ε falls tenfold, to ``eps``, in 0.7 of the steps. As printed, the penalty is an estimate of R/N, N test nodes in
    the mesh: its ε is ``eps``/√N.
    """
    name, _ = _parts(rung)
    _, serves = _KINDS[name]
    scale = len(mesh_of(domain, nodes).interior) ** -0.5 if name in ("printed", "overwritten") else 1.0
    return CVI(
        penalty=lambda mesh, equation: penalty_of(rung, tests, domain, mesh, equation),
        steps=steps,
        samples=samples,
        eps=Geometric(10 * eps * scale, eps * scale, steps=int(0.7 * steps)),
        learning_rate=rate,
        serves=serves,
        spread=1.3 if serves == "prior" else 1.5,
        width=width,
    )


def _parts(rung: str) -> tuple[str, int]:
    name, _, patch_nodes = rung.rpartition("-") if rung[-1].isdigit() else (rung, "", "32")
    return name, int(patch_nodes)


def penalty_of(rung: str, tests: int, domain: str, mesh: Mesh, equation: Term, centres=None) -> Penalty:
    """Of one rung, with ``tests`` test nodes a step."""
    name, patch_nodes = _parts(rung)
    kind, _ = _KINDS[name]
    common = {"boundary": 0.0, "dtype": tf.float32}
    if name == "overwritten":
        common["boundary"] = (np.zeros(mesh.n_nodes), np.where(mesh.is_boundary, 0.0, 1.0))
    if kind == "pointwise":
        return _Pointwise(mesh, equation, tests // 2, None if name == "pointwise-soft" else _SMOOTH_FACTORS[domain])
    if kind == "multilevel":
        common["coarse_patches"] = 2
    if kind in ("hard", "wendland"):
        common |= {"normalisation": "paper" if name in ("printed", "overwritten") else "unbiased", "centres": centres}
    return named(kind, mesh, equation, patch_nodes, max(tests // patch_nodes, 1), **common)


class _Pointwise(Penalty):
    """The point-wise penalty at half as many places as the others have test nodes: with two derivatives a place still
    costs twice as much as a node. The boundary is met by a factor that is smooth in closed form, or, without one, asked
    for by the penalty, at half as many places again.
    """

    def __init__(self, mesh: Mesh, equation: Term, places: int, factor: Callable[[tf.Tensor], tf.Tensor] | None):
        met = None
        if factor:
            met = np.zeros(mesh.n_nodes), np.where(mesh.is_boundary, 0.0, factor(tf.constant(mesh.points)))
        self.factor = factor or (lambda x: 1.0)
        self.penalty = PointwisePenalty(
            mesh, equation, places, places // 2, boundary=None if factor else 0.0, dtype=tf.float32
        )
        self.weak = WeakForm(mesh, equation, met, tf.float32)

    def __call__(self, mu, z, seed):
        return self.penalty(lambda x, z: self.factor(x) * mu(x, z), z, seed)


def _disc_factor(x: tf.Tensor) -> tf.Tensor:
    return 1 - tf.reduce_sum(x**2, axis=1)


def _star_factor(x: tf.Tensor) -> tf.Tensor:
    """1 − (|x|/r(θ))⁴ with the star's r(θ) = 1 + 0.3 sin 5θ; four times differentiable at the origin."""
    angle, square = tf.atan2(x[:, 1], x[:, 0]), tf.reduce_sum(x**2, axis=1)
    return 1 - square**2 / (1 + 0.3 * tf.sin(5 * angle)) ** 4


_SMOOTH_FACTORS = {"disc": _disc_factor, "star": _star_factor}
