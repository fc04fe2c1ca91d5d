"""The explorer: pictures to be pointed at, beside sliders. Each is drawn anew from its controls' values.

Where nobody can move anything (a run by the runner, a static page) a panel shows itself as it first stands.
"""

from .annealing import AnnealingPanel
from .forward import ForwardPanel
from .inverse import InversePanel
from .patch import PatchPanel

__all__ = ["AnnealingPanel", "ForwardPanel", "InversePanel", "PatchPanel"]
