"""Watch ε fall: at first the surrogate follows the readings, then the equation; and τ is found on the way."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import ipywidgets as widgets
import numpy as np
from matplotlib.tri import Triangulation
from tqdm.auto import tqdm

from pdevae import ExactPenalty, InverseProblem, Posterior, exact
from pdevae._tensorflow import tf
from pdevae.inference.solved import Objective
from pdevae.inference.units import HiddenUnits, Pairs, Polynomials, Rows
from study.explore.ellipse import ellipse, frame, plane
from study.explore.experiment import Experiment, noise_of
from study.explore.panel import Panel, slider
from study.plots.style import outline


@dataclass(frozen=True, eq=False)
class Stage:
    """The minimum of F_ε on the way down: q(τ), the field at its mean, and the two terms that are traded."""

    eps: float
    mean: np.ndarray
    covariance: np.ndarray
    u: np.ndarray  # [n] μ(·, m)
    misfit: float  # mean squared error of the readings over σ²: 1 where only noise is left
    residual: float  # √(rᵀA⁻¹r), r = L[m]μ(·, m) − f
    error: float  # root mean square of μ(·, m) minus the solution for m, over the latter's


class Annealing:
    """F_ε minimised for one ε after another, last layer and q in turn, as :class:`SolvedCVI` does."""

    def __init__(self, problem: InverseProblem, eps: np.ndarray, units: int = 128):
        self.problem, self.eps, self.units = problem, eps, units

    @cached_property
    def exact(self) -> Posterior:
        return exact(self.problem)

    @cached_property
    def stages(self) -> list[Stage]:
        p, units, h = self.problem, HiddenUnits(self.problem.mesh, self.units, 3.0, 0), Polynomials(2, 2)
        penalty = ExactPenalty(p.mesh, p.forward.equation, boundary=0.0)
        F = Objective(p, Rows(Pairs(lambda _: penalty, p.forward), units, None), units.at(penalty, p.sensors), h, 1.5)
        at_nodes = units.at(penalty, p.mesh.points)[1]
        q, found = (np.zeros(2), np.eye(2)), []
        for eps in tqdm(self.eps, "annealing", delay=3, leave=False):
            for _ in range(2):
                W, before = F.best_surrogate(q, eps), q
                q = F.best_gaussian(W, before, before)
            u = at_nodes @ W @ h(np.linalg.solve(before[1], q[0] - before[0])[None])[0]
            found.append(self._stage(eps, *q, u, penalty))
        return found

    def _stage(self, eps, m, C, u, penalty: ExactPenalty) -> Stage:
        p, z = self.problem, tf.constant(m[None])
        r = penalty.weak.residual(tf.constant(u[None]), p.latents.seen(z))
        true = p.solve(z).numpy()[0]
        misfit = float(np.mean((p.readings - p.read @ u) ** 2) / p.noise**2)
        off = float(np.linalg.norm(u - true) / np.linalg.norm(true))
        return Stage(eps, m, C @ C.T, u, misfit, float(np.sqrt(penalty.inverse.norm(r)[0])), off)


class AnnealingPanel(Panel):
    """A slider for ε, and a button that plays the annealing."""

    size = (10.4, 3.8)
    alt = "The surrogate field, misfit and residual against ε, and the posterior of τ"

    def __init__(self, nodes: int = 500, sensors: int = 15, noise: float = 0.2, stages: int = 25):
        made = Experiment.on_star(nodes, (2.0, 1.0))
        places = made.scatter(sensors, 0)
        problem = made.problem(places, noise_of(places), noise)
        self.tau = made.tau
        self.annealing = Annealing(problem, np.geomspace(0.3, 1e-3, stages))
        self.stage = slider(widgets.IntSlider, "stage of the annealing", stages // 2, 0, stages - 1)
        self.play = widgets.Play(min=0, max=stages - 1, interval=250, value=stages // 2)
        widgets.jslink((self.play, "value"), (self.stage, "value"))
        super().__init__([[self.play, self.stage]])
        self.on(self.stage)

    def arrange(self):
        p, stages = self.annealing.problem, self.annealing.stages
        self.region, self.trade, self.plane = self.figure.subplots(1, 3, width_ratios=[1, 1.15, 1])
        triangles = Triangulation(*p.mesh.points.T, p.mesh.triangles)
        last = stages[-1].u
        limits = {"vmin": min(0, last.min()), "vmax": 1.2 * last.max()}
        self.field = self.region.tripcolor(triangles, last, shading="gouraud", cmap="viridis", **limits)
        outline(self.region, triangles)
        self.region.scatter(*p.sensors.T, c=p.readings, s=28, edgecolor="w", **limits)
        eps = [s.eps for s in stages]
        self.trade.loglog(eps, [s.misfit for s in stages], color="#1b9e77", label="misfit of the readings / σ²")
        self.trade.loglog(eps, [s.residual for s in stages], color="#d95f02", label="residual √(rᵀA⁻¹r)")
        self.trade.loglog(eps, [s.error for s in stages], color="0.5", ls=":", label="distance to the solution")
        self.now = self.trade.axvline(1.0, color="k", lw=1)
        self.trade.invert_xaxis()
        self.trade.set(xlabel="ε (falls to the right)", title="data fit against the equation", ylim=(1e-3, 3))
        self.trade.legend(frameon=False, fontsize=7, loc="lower left")
        plane(self.plane, "")
        exact = self.annealing.exact
        self.plane.plot(*ellipse(exact.mean, exact.covariance), color="0.2", lw=1.5, label="exact")
        (self.q,) = self.plane.plot([], [], color="#d95f02", lw=1.8, label="q(τ)")
        self.plane.plot(*self.tau, "*", color="#d62728", ms=11, label="true τ")
        self.plane.legend(frameon=False, fontsize=7, loc="upper right")
        frame(self.plane, exact.mean, exact.covariance, *ellipse(np.zeros(2), np.eye(2)).T)  # the prior, at first

    def draw(self):
        stage = self.annealing.stages[self.stage.value]
        self.field.set_array(stage.u)
        self.region.set_title(f"surrogate at ε = {stage.eps:.2g}, and readings")
        self.now.set_xdata([stage.eps] * 2)
        self.q.set_data(*ellipse(stage.mean, stage.covariance))
        self.plane.set_title(f"q(τ): mean ({stage.mean[0]:.2f}, {stage.mean[1]:.2f})")
