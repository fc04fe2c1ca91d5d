"""Constrained variational inference (Section 3) for any inverse problem: a decoder μ(x, z) and a Gaussian q(z).

F_ε = E_q[−log p(y | μ)] + KL(q ‖ p) + E[‖L[z]μ − f‖²] / 2ε²   (eq:MC_cvi_sub_prob), ε annealed.

``serves`` says for which z the last expectation is taken:

- ``"q"``: as printed. Its gradient reaches q and distorts it: the fewer z a decoder must serve, the easier it obeys;
- ``"wider"``: the constraint is meant for *every* z (eq:fem_constrained), so the penalty trains the decoder alone, on
  z drawn ``spread`` times as wide as q;
- ``"prior"``: the decoder first, without readings, on z drawn ``spread`` times as wide as the prior; q afterwards.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Term
from pdevae.inference.forward import Forward
from pdevae.inference.gaussian import Family
from pdevae.inference.posterior import Posterior
from pdevae.inference.problem import InverseProblem
from pdevae.inference.schedules import Schedule
from pdevae.inference.training import training_of
from pdevae.penalties import Penalty, named


@dataclass(frozen=True)
class CVI:
    """``penalty``: a name, or a function from mesh and equation to a penalty with the problem's boundary in it.

    ``decoder``: a Keras model of a place and a latent side by side [n, 2 + d], or any μ(x, z) with
    ``trainable_variables``; by default :class:`~pdevae.inference.network.Separable` of this ``width``. ``eps``: first
    and last ε, as shares of the load's norm, or a schedule. ε is held at its end for the last third of the steps: one
    that shrinks to the last step leaves the decoder behind and q too wide. ``trainer``: by default Adam; with
    :class:`~pdevae.GaussNewton`, whose steps are few and dear, the penalty alone moves the decoder, in turn with q.
    ``around`` a method such as :class:`~pdevae.Laplace`, q starts as its Gaussian, not as the prior, and z is seen in
    its coordinates: for many latents, or readings that say much. ``learns_noise``: the problem's noise is known up to a
    factor, which is trained beside the rest (``posterior.diagnostics["noise"]``).

    >>> found = CVI(penalty="exact", steps=2000)(problem)
    >>> bool(abs(found.a().mean[0] - 2) < 0.2)
    True
    """

    decoder: Any = None
    penalty: str | Callable[[Mesh, Term], Penalty] = "multilevel"
    steps: int = 10_000
    samples: int = 4
    eps: tuple[float, float] | Schedule = (0.05, 0.005)
    learning_rate: float = 5e-3
    serves: Literal["q", "wider", "prior"] = "wider"
    spread: float = 1.5
    family: Family = "full"
    rank: int = 10
    width: int = 48
    depth: int = 2
    trainer: Callable[[int], Any] | None = None
    around: Callable[..., Posterior] | None = None
    learns_noise: bool = False
    compiled: bool = True

    def __post_init__(self):
        if self.around is not None and self.serves == "prior":
            raise UserError('a decoder that serves="prior" is trained before there are readings: leave out around')

    def __call__(self, problem: InverseProblem, seed: int = 0) -> Posterior:
        training = training_of(self, problem.forward, len(problem.sensors))
        begun = time.perf_counter()
        training.take(problem, seed)
        history = training.run()
        seconds = time.perf_counter() - begun
        q = training.q
        moments = q.mean.numpy().astype(float), q.covariance().numpy().astype(float)
        return Posterior.normal(
            problem,
            *moments,
            training.setup_seconds + seconds,
            seed,
            setup_seconds=training.setup_seconds,
            diagnostics={"loss": float(np.mean(history[-4:])), "noise": float(np.exp(training.log_factor))},
            surrogate=training.frozen_field(),
        )

    def penalty_for(self, forward: Forward) -> Penalty:
        if callable(self.penalty):
            return self.penalty(forward.weak.mesh, forward.equation)
        return named(self.penalty, forward.weak.mesh, forward.equation, boundary=forward.boundary, dtype=tf.float32)
