"""The explorer: pictures to be pointed at, beside sliders. Each is drawn anew from its controls' values.

Where nobody can move anything (a run by the runner, a static page) a panel shows itself as it first stands.
"""

from study.explore.annealing import AnnealingPanel
from study.explore.forward import ForwardPanel
from study.explore.inverse import InversePanel
from study.explore.patch import PatchPanel

__all__ = ["AnnealingPanel", "ForwardPanel", "InversePanel", "PatchPanel"]
