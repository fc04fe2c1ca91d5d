"""One function per artefact, named after it: a table in, a figure (or a Table) out. Nothing is computed here."""

from study.plots.amortised import fig_amortised, fig_amortised_cost, fig_next_sensor, tab_trainers
from study.plots.aquifer import (
    fig_aquifer_cv,
    fig_aquifer_distance,
    fig_aquifer_mesh,
    fig_aquifer_residuals,
    fig_aquifer_twin,
)
from study.plots.aquifer_maps import (
    fig_aquifer,
    fig_aquifer_add_figures,
    fig_aquifer_comparison,
    fig_aquifer_flow,
    fig_aquifer_uncertainty,
)
from study.plots.aquifer_tables import tab_aquifer_results, tab_fwd_surrogate
from study.plots.borrow import fig_your_own_problem, fig_your_own_unknowns
from study.plots.choices_tables import tab_choices, tab_choices_tested
from study.plots.diagrams import fig_pde_reg_decoder, fig_vae_models
from study.plots.fields import fig_benchmark, fig_groundwater, tab_benchmark
from study.plots.forward import fig_fem_explan, fig_pde_as_smoothers
from study.plots.jura import fig_jura_coefficients, fig_jura_cv, fig_jura_errors, fig_jura_maps, fig_jura_resplits
from study.plots.jura_tables import tab_jura_printed_sets, tab_jura_results, tab_metals, tab_vae_networks
from study.plots.minipatch import fig_minipatch, fig_mp_exper, fig_penalty_quality, fig_submesh
from study.plots.transport import (
    fig_accuracy_exper,
    fig_calibration,
    fig_ladder,
    fig_million,
    fig_posterior_quality,
    fig_time_compar,
)
from study.plots.transport_tables import tab_boundary_factors, tab_settings
from study.plots.why import fig_why

__all__ = [
    "fig_amortised",
    "fig_amortised_cost",
    "fig_next_sensor",
    "tab_trainers",
    "fig_aquifer",
    "fig_aquifer_add_figures",
    "fig_aquifer_comparison",
    "fig_aquifer_cv",
    "fig_aquifer_distance",
    "fig_aquifer_flow",
    "fig_aquifer_mesh",
    "fig_aquifer_residuals",
    "fig_aquifer_twin",
    "fig_aquifer_uncertainty",
    "tab_aquifer_results",
    "tab_fwd_surrogate",
    "fig_benchmark",
    "fig_groundwater",
    "tab_benchmark",
    "fig_accuracy_exper",
    "fig_calibration",
    "fig_fem_explan",
    "fig_ladder",
    "fig_million",
    "fig_minipatch",
    "fig_mp_exper",
    "fig_pde_as_smoothers",
    "fig_penalty_quality",
    "fig_posterior_quality",
    "fig_submesh",
    "fig_time_compar",
    "fig_jura_coefficients",
    "fig_jura_cv",
    "fig_jura_errors",
    "fig_jura_maps",
    "fig_jura_resplits",
    "fig_pde_reg_decoder",
    "fig_vae_models",
    "fig_why",
    "fig_your_own_unknowns",
    "fig_your_own_problem",
    "tab_boundary_factors",
    "tab_choices",
    "tab_choices_tested",
    "tab_jura_printed_sets",
    "tab_jura_results",
    "tab_metals",
    "tab_settings",
    "tab_vae_networks",
]
