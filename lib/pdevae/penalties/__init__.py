"""Penalties on L[z]μ − f behind one interface: ``penalty(mu, z, seed)`` estimates E_z ‖L[z]μ − f‖²."""

from .base import Penalty
from .exact import ExactPenalty
from .multilevel import MultilevelPenalty
from .pointwise import PointwisePenalty
from .tapered import TaperedPenalty
from .two_level import TwoLevelPenalty

__all__ = [
    "ExactPenalty",
    "MultilevelPenalty",
    "Penalty",
    "PointwisePenalty",
    "TaperedPenalty",
    "TwoLevelPenalty",
]
