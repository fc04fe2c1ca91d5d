"""Penalties on L[z]μ − f behind one interface: ``penalty(mu, z, seed)`` estimates E_z ‖L[z]μ − f‖²."""

from collections.abc import Callable
from functools import partial

from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.penalties.base import Penalty
from pdevae.penalties.exact import ExactPenalty
from pdevae.penalties.multilevel import MultilevelPenalty
from pdevae.penalties.pointwise import PointwisePenalty
from pdevae.penalties.tapered import TaperedPenalty
from pdevae.penalties.two_level import TwoLevelPenalty

_ON_PATCHES: dict[str, Callable[..., Penalty]] = {
    "two-level": TwoLevelPenalty,
    "multilevel": MultilevelPenalty,
    "hard": partial(TaperedPenalty, taper="hard"),
    "wendland": partial(TaperedPenalty, taper="wendland"),
}
NAMES = ("exact", *_ON_PATCHES)


def named(name: str, mesh: Mesh, equation: Term, patch_nodes: int = 32, n_patches: int = 16, **options) -> Penalty:
    """A penalty by its name; the exact one has no patches. Other options go to its class."""
    if name == "exact":
        return ExactPenalty(mesh, equation, **options)
    if name not in _ON_PATCHES:
        raise UserError(f"unknown penalty {name!r}: use one of {', '.join(NAMES)}")
    patch_nodes = min(patch_nodes, len(mesh.interior))
    return _ON_PATCHES[name](mesh, equation, patch_nodes=patch_nodes, n_patches=n_patches, **options)


__all__ = [
    "NAMES",
    "ExactPenalty",
    "MultilevelPenalty",
    "Penalty",
    "PointwisePenalty",
    "TaperedPenalty",
    "TwoLevelPenalty",
    "named",
]
