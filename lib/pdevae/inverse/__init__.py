"""Any PDE inverse problem: what is unknown, the forward map, and methods that find its posterior."""

from .cvi import CVI, Decoder
from .fit import Diverged, fit
from .gaussian import Gaussian
from .laplace import Laplace
from .latents import Cells, GaussianField, Latents, Normal
from .posterior import Check, Marginal, Posterior
from .problem import InverseProblem
from .quadrature import exact
from .sampling import HMC, NUTS
from .variational import GaussianVI

__all__ = [
    "CVI",
    "HMC",
    "NUTS",
    "Cells",
    "Check",
    "Decoder",
    "Diverged",
    "Gaussian",
    "GaussianField",
    "GaussianVI",
    "InverseProblem",
    "Laplace",
    "Latents",
    "Marginal",
    "Normal",
    "Posterior",
    "exact",
    "fit",
]
