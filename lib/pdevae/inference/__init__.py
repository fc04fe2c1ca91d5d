"""Ways to the posterior of the transport problem behind one interface: ``method(problem, seed)`` → Posterior."""

from .cvi import CVI, Diverged
from .hmc import HMC, OverBudget
from .laplace import Laplace
from .problem import Posterior, TransportProblem, exact
from .solved import SolvedCVI

__all__ = ["CVI", "HMC", "Diverged", "Laplace", "OverBudget", "Posterior", "SolvedCVI", "TransportProblem", "exact"]
