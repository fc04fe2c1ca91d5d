"""Unknown coefficients of a PDE from noisy readings of its solution; or the PDE as part of a model's loss.

For the first, make an :class:`InverseProblem` and give it to a method: ``Laplace()(problem)``. For the second:

>>> import pdevae
>>> mesh = pdevae.star(max_edge=0.3)
>>> equation = pdevae.Diffusion(a=1.0) + pdevae.Transport() - pdevae.Source(1.0)
>>> penalty = pdevae.TwoLevelPenalty(mesh, equation, patch_nodes=8)

and then, in a training step, ``loss = nll + kl + penalty(mu, z, seed) / (2 * eps**2)``.

Letters: u field, μ its surrogate, z latent, a diffusion coefficient, τ transport vector, f source, g boundary value,
L[z] discretised operator, A stiffness matrix, Γ tapered A⁻¹, ρ taper radius, r = L[z]μ − f residual.
Shapes: n nodes, N interior nodes, E elements, M samples of z, P patches, Q test nodes and K nodes of a patch.
"""

import importlib

_HOME = {
    "Mesh": "fem.mesh",
    "square": "fem.domains",
    "disc": "fem.domains",
    "star": "fem.domains",
    "polygon": "fem.domains",
    "read_polygon": "fem.geojson",
    "Term": "fem.operators",
    "Diffusion": "fem.operators",
    "Transport": "fem.operators",
    "NonlinearDiffusion": "fem.operators",
    "Source": "fem.operators",
    "WeakForm": "fem.weak_form",
    "stiffness": "fem.weak_form",
    "Solver": "fem.solve",
    "read_at": "fem.transfer",
    "lift": "fem.boundary",
    "keras_field": "fem.fields",
    "Patches": "penalties.minipatches",
    "patches": "penalties.minipatches",
    "Penalty": "penalties",
    "ExactPenalty": "penalties",
    "TaperedPenalty": "penalties",
    "TwoLevelPenalty": "penalties",
    "MultilevelPenalty": "penalties",
    "PointwisePenalty": "penalties",
    "diagnose": "penalties.diagnostics",
    "Constant": "inference.schedules",
    "Geometric": "inference.schedules",
    "Restarts": "inference.schedules",
    "Latents": "inference.latents",
    "Normal": "inference.latents",
    "GaussianField": "inference.latents",
    "Cells": "inference.latents",
    "spread_out": "inference.latents",
    "Forward": "inference.forward",
    "InverseProblem": "inference.problem",
    "Laplace": "inference.laplace",
    "HMC": "inference.sampling",
    "NUTS": "inference.sampling",
    "GaussianVI": "inference.variational",
    "FlowVI": "inference.variational",
    "CVI": "inference.cvi",
    "SolvedCVI": "inference.solved",
    "Decoder": "inference.decoder",
    "Encoder": "inference.encoder",
    "exact": "inference.quadrature",
    "Posterior": "inference.posterior",
    "Gaussian": "inference.gaussian",
    "fit": "inference.fit",
    "GaussNewton": "inference.gauss_newton",
    "UserError": "errors",
}
__all__ = list(_HOME)


_EXTRAS = {"arviz": "sampling", "tensorflow_probability": "sampling", "geopandas": "maps", "pyproj": "maps"}


def __getattr__(name: str):
    """Names are fetched when first used: importing the package takes milliseconds, TensorFlow seconds."""
    if name not in _HOME:
        raise AttributeError(f"module 'pdevae' has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        raise ImportError(f"pdevae.{name} needs {error.name}: pip install '.[{_EXTRAS[error.name]}]'") from None
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
