"""A PDE, given by its weak form, as a drop-in regulariser of any TensorFlow decoder.

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
    "Mesh": "mesh",
    "square": "domains",
    "disc": "domains",
    "star": "domains",
    "polygon": "domains",
    "read_polygon": "geojson",
    "Term": "operators",
    "Diffusion": "operators",
    "Transport": "operators",
    "NonlinearDiffusion": "operators",
    "Source": "operators",
    "WeakForm": "weak_form",
    "stiffness": "weak_form",
    "Solver": "solve",
    "read_at": "hierarchy",
    "lift": "boundary",
    "keras_field": "fields",
    "Patches": "minipatches",
    "patches": "minipatches",
    "Penalty": "penalties",
    "ExactPenalty": "penalties",
    "TaperedPenalty": "penalties",
    "TwoLevelPenalty": "penalties",
    "MultilevelPenalty": "penalties",
    "PointwisePenalty": "penalties",
    "diagnose": "diagnostics",
    "Constant": "schedules",
    "Geometric": "schedules",
    "Restarts": "schedules",
    "UserError": "errors",
}
__all__ = list(_HOME)


def __getattr__(name: str):
    """Names are fetched when first used: importing the package takes milliseconds, TensorFlow seconds."""
    if name not in _HOME:
        raise AttributeError(f"module 'pdevae' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__():
    return sorted(__all__)
