"""What a method found: draws of z with their moments, the latent parts at places, predictions, and a check."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.inference.problem import InverseProblem
from pdevae.streams import Stream, random

_PREDICTIONS = 100  # draws that a prediction solves for
_AT_A_TIME = 20


class Marginal(NamedTuple):
    """Moments and the central 90% of something uncertain, over draws."""

    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, draws: np.ndarray) -> Marginal:
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        return cls(draws.mean(axis=0), draws.std(axis=0), low, high)


class Check(NamedTuple):
    """What exact solves at draws of q say of it: Pareto k̂, effective share, corrected moments, a line of advice."""

    k: float
    ess: float
    mean: np.ndarray
    sd: np.ndarray
    advice: str


@dataclass(frozen=True, eq=False)
class Posterior:
    """Of z, whitened: ``mean`` [d], ``covariance`` [d, d], ``draws`` [k, d]; of a latent part, by its name.

    ``posterior.log_a(x)`` is the :class:`Marginal` of a field at places, ``posterior.tau()`` of a vector. ``surrogate``
    (places, z → u) predicts, by default a solve for each draw. ``gaussian``: q is the Gaussian of these moments.

    >>> import pdevae
    >>> found = pdevae.Laplace()(problem)
    >>> found.mean.shape, found.predict([[0.1, 0.1]]).mean.round(2).tolist(), found.check().k < 0.7
    ((1,), [0.12], True)
    """

    problem: InverseProblem
    mean: np.ndarray
    covariance: np.ndarray
    draws: np.ndarray
    seconds: float
    setup_seconds: float = 0.0
    diagnostics: dict = field(default_factory=dict)
    surrogate: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    gaussian: bool = True
    chains: int = 1
    grid: tuple[np.ndarray, np.ndarray] | None = None  # places [k, d] and weights of a quadrature
    density: Callable[[np.ndarray], np.ndarray] | None = None  # log q of z [k, d]; without, Gaussian or drawn
    flow: Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]] | None = None  # see from_normal

    @classmethod
    def normal(cls, problem, mean, covariance, seconds, seed: int, draws: int = 1000, **more) -> Posterior:
        """q = N(mean, covariance)."""
        C = np.linalg.cholesky(covariance + 1e-14 * np.trace(covariance) / len(mean) * np.eye(len(mean)))
        normal = random(Stream.POSTERIOR, seed).normal(size=(draws, len(mean)))
        return cls(problem, np.asarray(mean), np.asarray(covariance), mean + normal @ C.T, seconds, **more)

    @property
    def sd(self) -> np.ndarray:
        return np.sqrt(np.diag(self.covariance))

    def __getattr__(self, name: str):
        latents = self.__dict__["problem"].latents
        if name.startswith("_") or name not in latents.parts:
            raise AttributeError(f"a posterior has no {name!r}; its latents: {', '.join(latents.parts)}")
        return lambda x=None: Marginal.of(self.part(name, x))

    def part(self, name: str, x: np.ndarray | None = None) -> np.ndarray:
        """A latent part at draws, and at places x [n, 2] if it is a function of place; [k, …]."""
        seen = getattr(self.problem.latents.seen(tf.constant(self.draws)), name)
        if callable(seen):
            if x is None:
                raise UserError(f"{name} is a function of place: give places, e.g. posterior.{name}(mesh.points)")
            return seen(tf.constant(np.atleast_2d(np.asarray(x, float)))).numpy()
        return seen.numpy().reshape(len(self.draws), -1)

    def predict(self, x: np.ndarray) -> Marginal:
        """The field u at places x [n, 2]."""
        some = np.random.default_rng(20).permutation(len(self.draws))[:_PREDICTIONS]
        return Marginal.of(self.fields(x, self.draws[some]))

    def fields(self, x: np.ndarray, z: np.ndarray) -> np.ndarray:
        """u [k, n] at places for each z [k, d]."""
        if self.surrogate is not None:
            return self.surrogate(x, z)
        parts = [z[k : k + _AT_A_TIME] for k in range(0, len(z), _AT_A_TIME)]
        return np.concatenate([self.problem.predict(tf.constant(part), x).numpy() for part in parts])

    def check(self, problem: InverseProblem | None = None, n: int = 200) -> Check:
        """Exact solves at n draws of q, importance weights with Pareto smoothing; warns when q is wrong.

        ``problem``: by default the one that q is the posterior of; the same on a finer mesh, say.
        """
        problem = self.problem if problem is None else problem
        if not self.gaussian and self.density is None:
            return self._check_chains()
        z = self._drawn(n)
        parts = [z[k : k + _AT_A_TIME] for k in range(0, n, _AT_A_TIME)]
        log_joint = np.concatenate([problem.log_joint(tf.constant(part)).numpy() for part in parts])
        log_w, k = _arviz().psislw(log_joint - self.log_q(z))
        w = np.exp(log_w)[:, None]
        mean = np.sum(w * z, axis=0)
        sd = np.sqrt(np.sum(w * (z - mean) ** 2, axis=0))
        ess = float(1 / (n * np.sum(w**2)))
        moved = float(np.max(np.abs(mean - self.mean) / sd))
        advice = ""
        if k > 0.7:
            advice = (
                f"Pareto k = {float(k):.2f} is above 0.7: q is far from the posterior, and the corrected moments are "
                "not to be trusted either; sample with NUTS or, if it is CVI, train longer, with a smaller ε or a "
                "richer decoder"
            )
        elif moved > 0.5 + 2 / np.sqrt(n * ess):  # half an sd, and more than chance
            advice = (
                f"the corrected mean is {moved:.1f} standard deviations from q's: q is too wide or off its place; take "
                "the corrected moments or, if it is CVI, train longer or with a smaller ε"
            )
        return _said(Check(float(k), ess, mean, sd, advice))

    def _drawn(self, n: int) -> np.ndarray:
        """n draws of q, others than :attr:`draws` where there can be."""
        if self.density is not None:
            return self.draws[:n]
        normal = np.random.default_rng(21).normal(size=(n, len(self.mean)))
        return self.mean + normal @ np.linalg.cholesky(self.covariance).T

    def log_q(self, z: np.ndarray) -> np.ndarray:
        """Of z [k, d]; for draws alone, that of the Gaussian with their moments."""
        if self.density is not None:
            return self.density(z)
        C = np.linalg.cholesky(self.covariance)
        away = np.linalg.solve(C, (z - self.mean).T)
        return -0.5 * np.sum(away**2, axis=0) - np.sum(np.log(np.diag(C))) - 0.5 * len(C) * np.log(2 * np.pi)

    def from_normal(self, xi: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """z [k, d] of q from standard normal numbers, and log |∂z/∂ξ| [k]; of the Gaussian where q has no flow."""
        if self.flow is not None:
            return self.flow(xi)
        C = np.linalg.cholesky(self.covariance)
        log_det = tf.fill(xi.shape[:1], tf.constant(np.sum(np.log(np.diag(C))), xi.dtype))
        return self.mean + tf.matmul(xi, tf.constant(C.T)), log_det

    def _check_chains(self) -> Check:
        r_hat, ess = self.diagnostics["r_hat"], self.diagnostics["ess"]
        advice = f"R-hat = {r_hat:.3f} is above 1.01: draw more" if r_hat > 1.01 else ""
        return _said(Check(np.nan, ess / len(self.draws), self.mean, self.sd, advice))

    def to_arviz(self):
        """``arviz.InferenceData``, draws by chain: numbers and cells as they are, fields at the nodes of the mesh."""
        shaped = {}
        for name in self.problem.latents.parts:
            values = self.part(name, self.problem.mesh.points if self._is_field(name) else None)
            shaped[name] = values.reshape(self.chains, -1, *values.shape[1:])
        return _arviz().from_dict(shaped)

    def _is_field(self, name: str) -> bool:
        return callable(getattr(self.problem.latents.seen(tf.constant(self.draws[:1])), name))


def _arviz():
    try:
        import arviz
    except ModuleNotFoundError:
        raise UserError("check() and to_arviz() need ArviZ: pip install '.[sampling]'") from None
    return arviz


def _said(check: Check) -> Check:
    if check.advice:
        warnings.warn(check.advice, stacklevel=3)
    return check
