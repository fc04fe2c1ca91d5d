"""One function per artefact, named after it: a table in, a figure (or LaTeX) out. Nothing is computed here."""

from .forward import fig_fem_explan, fig_pde_as_smoothers
from .minipatch import fig_minipatch, fig_mp_exper, fig_penalty_quality, fig_submesh
from .transport import fig_accuracy_exper, fig_calibration, fig_posterior_quality, fig_time_compar

__all__ = [
    "fig_accuracy_exper",
    "fig_calibration",
    "fig_fem_explan",
    "fig_minipatch",
    "fig_mp_exper",
    "fig_pde_as_smoothers",
    "fig_penalty_quality",
    "fig_posterior_quality",
    "fig_submesh",
    "fig_time_compar",
]
