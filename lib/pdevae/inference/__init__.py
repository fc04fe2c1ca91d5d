"""Ways to the posterior of the transport problem behind one interface: ``method(problem, seed)`` → Posterior."""

from .cvi import CVI, Diverged
from .hmc import HMC
from .problem import Posterior, TransportProblem, exact

__all__ = ["CVI", "HMC", "Diverged", "Posterior", "TransportProblem", "exact"]
