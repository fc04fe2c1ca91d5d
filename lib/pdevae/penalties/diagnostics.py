"""How well a trained field obeys its equation, and where it does not."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.factors import factorise
from pdevae.fem.fields import Field
from pdevae.fem.mesh import Mesh
from pdevae.fem.weak_form import stiffness
from pdevae.penalties import Penalty

_LARGE = 0.1  # relative residual above which a field is not a solution
_AT_THE_EDGE = 0.5  # share of the residual beside the boundary above which the boundary is to blame


@dataclass(frozen=True)
class Diagnosis:
    """``residual``: ‖L[z]μ − f‖ over ‖L[z]0 − f‖ in the dual norm, about the relative error of ∇u; ``at_boundary``:
    the share of its square from rows next to the boundary; ``advice``: what to do, empty where all is well."""

    residual: float
    at_boundary: float
    advice: str


def diagnose(penalty: Penalty, mu: Field, z: Any = None) -> Diagnosis:
    """Exact residual of a field on the penalty's mesh; warns, with advice, where it is large. One sparse solve.

    >>> import pdevae
    >>> mesh, equation = pdevae.disc(nodes=500), pdevae.Diffusion(1.0) - pdevae.Source(1.0)
    >>> penalty = pdevae.TwoLevelPenalty(mesh, equation, boundary=0.0)
    >>> found = diagnose(penalty, lambda x, z: 0.25 + 0 * x[None, :, 0])  # u = w/4 solves −Δu = 1
    >>> found.residual < 0.01, found.advice
    (True, '')
    """
    if not hasattr(penalty, "weak"):
        raise UserError(f"{type(penalty).__name__} has no weak residual to diagnose: diagnose with a penalty on a mesh")
    weak, inverse = penalty.weak, factorise(stiffness(penalty.weak.mesh))
    u = tf.cast(weak.values(mu, z), weak.dtype)
    r = weak.residual(u, z).numpy().astype(float)
    y = inverse.solve(r.T).T  # [M, N] the field's distance to the solution, for −Δ
    f = weak.residual(0 * u, z).numpy().astype(float)
    size = np.sum(f * inverse.solve(f.T).T)
    residual = float(np.sqrt(np.sum(r * y) / size)) if size > 0 else float("nan")
    edge = float(np.sum((r * y)[:, beside_boundary(weak.mesh)]) / max(np.sum(r * y), np.finfo(float).tiny))
    advice = _advice(residual, edge, weak.known is None)
    if advice:
        warnings.warn(advice, stacklevel=2)
    return Diagnosis(residual, edge, advice)


def beside_boundary(mesh: Mesh) -> np.ndarray:
    """[N] True at interior nodes that share an element with the boundary."""
    touched = np.zeros(mesh.n_nodes, bool)
    touched[mesh.triangles[mesh.is_boundary[mesh.triangles].any(axis=1)]] = True
    return touched[mesh.interior]


def _advice(residual: float, edge: float, free: bool) -> str:
    if not residual > _LARGE:
        return ""
    said = f"the field's residual is {100 * residual:.0f}% of the load's: it does not solve the equation"
    if edge < _AT_THE_EDGE:
        return f"{said}; train longer, lower ε, or use a larger network"
    cure = "pass boundary= to the penalty and do not overwrite" if free else "do not overwrite"
    return f"{said}, and {100 * edge:.0f}% of it lies beside the boundary; {cure} values there"
