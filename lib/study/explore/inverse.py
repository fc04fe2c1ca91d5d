"""Place sensors, set the noise, and see what is known about τ: the exact posterior, and CVI's."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial

import ipywidgets as widgets
import numpy as np
from matplotlib.tri import Triangulation

from pdevae import CVI, InverseProblem, Posterior, SolvedCVI, exact
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem import domains
from pdevae.fem.mesh import Mesh
from pdevae.penalties import named
from pdevae.streams import random
from study.explore.ellipse import ellipse, frame, plane
from study.explore.panel import Panel, slider
from study.plots.style import outline
from study.streams import Stream
from study.transport.problem import forward_on

_NEAR = 0.06  # a press this near to a sensor takes it away
_LEAST = 4  # sensors: fewer leave a posterior that a grid around one mode cannot hold


@dataclass(frozen=True, eq=False)
class Experiment:
    """A field with a known τ on a fine mesh; readings of it anywhere, to be explained on a coarser mesh."""

    truth: Mesh
    mesh: Mesh
    tau: np.ndarray
    u: np.ndarray  # nodal values on the fine mesh

    @classmethod
    def on_star(cls, nodes: int, tau) -> Experiment:
        truth, tau = domains.star(nodes=4 * nodes), np.asarray(tau, float)
        return cls(truth, domains.star(nodes=nodes), tau, forward_on(truth).solve(tf.constant(tau[None])).numpy()[0])

    def problem(self, sensors: np.ndarray, noise: float) -> InverseProblem:
        """Readings with noise of this share of the field's standard deviation; a sensor's noise goes with its place."""
        if len(sensors) < _LEAST:
            raise UserError(f"{len(sensors)} sensors: place at least {_LEAST} by pressing on the region")
        sigma = noise * float(self.u.std())
        clean = forward_on(self.truth).reader(sensors) @ self.u
        draws = [np.random.default_rng(np.abs(place * 1e6).astype(int)).normal() for place in sensors]
        return InverseProblem.on(forward_on(self.mesh), sensors, clean + sigma * np.array(draws), sigma)

    def scatter(self, count: int, seed: int) -> np.ndarray:
        rng = random(Stream.EXPLORER, seed)
        return 0.9 * self.truth.points[rng.choice(self.truth.interior, count, replace=False)]


def trained(penalty: str, steps: int) -> CVI:
    """CVI by descent, a short run of it."""
    return CVI(penalty=partial(named, penalty, n_patches=8, boundary=0.0, dtype=tf.float32), steps=steps)


METHODS = {
    "solved, two-level (ours)": lambda steps: SolvedCVI(),
    "trained, two-level (ours)": lambda steps: trained("two-level", steps),
    "trained, hard taper (the paper's)": lambda steps: trained("hard", steps),
}


class InversePanel(Panel):
    """Press to place a sensor, press it again to take it away."""

    size = (10.4, 4.6)
    alt = "The field with its sensors, and the posterior of the transport vector, exact and by CVI"

    def __init__(self, nodes: int = 500, sensors: int = 15, noise: float = 0.2, tau=(2.0, 1.0), steps: int = 2000):
        self.experiment = Experiment.on_star(nodes, tau)
        self.sensors = self.experiment.scatter(sensors, 0)
        self.problem: InverseProblem | None = None
        self.exact: Posterior | None = None
        self.found: Posterior | None = None
        self.noise = slider(widgets.FloatLogSlider, "noise", noise, -2, 0, 0.1, base=10, continuous_update=False)
        self.method = widgets.Dropdown(options=list(METHODS), description="CVI")
        self.steps = slider(widgets.IntSlider, "steps (trained)", steps, 200, 10_000, 200)
        self.run = widgets.Button(description="run CVI", button_style="primary")
        self.again = widgets.Button(description="other places")
        self.clear = widgets.Button(description="no sensors")
        self.explain()
        super().__init__([[self.noise, self.again, self.clear], [self.method, self.steps, self.run]])
        self.noise.observe(lambda _: self.place(self.sensors), "value")
        self.run.on_click(lambda _: self.infer())
        self.again.on_click(lambda _: self.place(self.experiment.scatter(sensors, time.time_ns() % 2**31)))
        self.clear.on_click(lambda _: self.place(np.empty((0, 2))))

    def explain(self) -> None:
        """The exact posterior for the readings as they stand; what CVI found was about others."""
        self.problem = self.exact = self.found = None
        self.problem = self.experiment.problem(self.sensors, self.noise.value)
        self.exact = exact(self.problem)

    def place(self, sensors: np.ndarray) -> None:
        self.sensors = sensors
        self.attempt(self.explain)

    def infer(self) -> None:
        """CVI on the readings as they stand."""
        self.attempt(self._infer)

    def _infer(self) -> None:
        if self.exact is None:
            raise UserError(f"place at least {_LEAST} sensors first")
        self.found = METHODS[self.method.value](self.steps.value)(self.problem)

    def press(self, axes, x, y):
        if axes is not self.region:
            return
        away = np.linalg.norm(self.sensors - [x, y], axis=1)
        if len(away) and away.min() < _NEAR:
            self.place(np.delete(self.sensors, np.argmin(away), axis=0))
        elif np.hypot(x, y) < 0.95 * (1 + 0.3 * np.cos(5 * (np.arctan2(y, x) - np.pi / 2))):  # inside the star
            self.place(np.vstack([self.sensors, [x, y]]))

    def arrange(self):
        mesh = self.experiment.truth
        self.region, self.plane = self.figure.subplots(1, 2, width_ratios=[1.1, 1])
        triangles = Triangulation(*mesh.points.T, mesh.triangles)
        field = self.region.tripcolor(triangles, self.experiment.u, shading="gouraud", cmap="viridis")
        outline(self.region, triangles)
        self.figure.colorbar(field, ax=self.region, shrink=0.7, label="the true field u", location="left")
        (self.dots,) = self.region.plot([], [], "o", color="w", mec="k", ms=6)
        plane(self.plane, "\n")
        (self.exact_line,) = self.plane.plot([], [], color="0.2", lw=1.5, label="exact posterior (quadrature), 90%")
        (self.found_line,) = self.plane.plot([], [], color="#d95f02", lw=1.8, label="CVI, 90%")
        self.plane.plot(*self.experiment.tau, "*", color="#d62728", ms=11, label="the true τ")
        self.plane.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=3, frameon=False)

    def draw(self):
        self.dots.set_data(*self.sensors.T)
        self.region.set_title(f"{len(self.sensors)} sensors: press to place one, or on one to take it away")
        lines = {self.exact_line: self.exact, self.found_line: self.found}
        outlines = {line: ellipse(q.mean, q.covariance) if q else np.empty((2, 0)) for line, q in lines.items()}
        for line, places in outlines.items():
            line.set_data(*places)
        if self.exact:
            frame(self.plane, self.exact.mean, self.exact.covariance, self.experiment.tau, *outlines[self.found_line].T)
        self.plane.set_title(self._said())

    def _said(self) -> str:
        if not self.exact:
            return "\n"
        mean, sd = self.exact.mean, np.sqrt(np.diag(self.exact.covariance))
        said_exact = f"exact: τ = ({mean[0]:.2f} ± {sd[0]:.2f}, {mean[1]:.2f} ± {sd[1]:.2f})"
        if not self.found:
            return f"{said_exact}\npress “run CVI” for its posterior"
        away, ratio = np.max(np.abs(self.found.mean - mean) / sd), self.found.sd / sd
        said = f"mean off by {away:.2f} sd; its sd {ratio[0]:.2f} and {ratio[1]:.2f} times the exact"
        return f"{said_exact}\nCVI in {self.found.seconds:.1f} s: {said}"
