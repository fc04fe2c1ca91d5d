"""Place sensors, drag them, set the noise, and see what is known about τ: exactly, by CVI and by a decoder."""

from __future__ import annotations

import asyncio
import threading
import time

import ipywidgets as widgets
import numpy as np
from matplotlib.tri import Triangulation

from pdevae import Decoder, InverseProblem, Posterior, exact
from pdevae.errors import UserError
from study.explore.ellipse import ellipse, frame, plane
from study.explore.experiment import LEAST_SENSORS, METHODS, Experiment, noise_of
from study.explore.panel import Panel, slider
from study.explore.pixels import Pixels
from study.plots.style import outline
from study.transport.problem import forward_on

_NEAR = 0.06  # a press this near to a sensor takes it away
_REST = 0.4  # seconds without a move after which the exact posterior is computed
_LONGEST = 3.0  # component of τ


class InversePanel(Panel):
    """Press to place a sensor, on one to take it away; drag a sensor, or the true τ, and the posterior follows.

    It follows by a decoder, which a thread trains when the panel is shown: ``train()``.
    """

    size = (10.4, 4.8)
    alt = "The field with its sensors, and the posterior of the transport vector: exact, by CVI and by a decoder"

    def __init__(
        self,
        nodes: int = 500,
        sensors: int = 15,
        noise: float = 0.2,
        tau=(2.0, 1.0),
        steps: int = 2000,
        decoder_steps: int = 3000,
    ):
        self.experiment = Experiment.on_star(nodes, tau)
        self.sensors = self.experiment.scatter(sensors, 0)
        self.xi = noise_of(self.sensors)
        self.decoder: Decoder | None = None
        self.decoder_steps = decoder_steps
        self.training: threading.Thread | None = None
        self.problem: InverseProblem | None = None
        self.exact: Posterior | None = None
        self.found: Posterior | None = None
        self.quick: Posterior | None = None
        self.grabbed: int | str | None = None  # the number of a sensor, or "truth"
        self.moved = False
        self.waiting: asyncio.TimerHandle | None = None
        self.noise = slider(widgets.FloatLogSlider, "noise", noise, -2, 0, 0.1, base=10)
        self.method = widgets.Dropdown(options=list(METHODS), description="CVI")
        self.steps = slider(widgets.IntSlider, "steps (trained)", steps, 200, 10_000, 200)
        self.run = widgets.Button(description="run CVI", button_style="primary")
        self.again = widgets.Button(description="other places")
        self.clear = widgets.Button(description="no sensors")
        self.status = widgets.Label("no decoder yet: a moment after each press, the exact posterior")
        self.explain()
        super().__init__([[self.noise, self.again, self.clear], [self.method, self.steps, self.run], [self.status]])
        self.noise.observe(lambda _: self._noise_moved(), "value")
        self.run.on_click(lambda _: self.infer())
        self.again.on_click(lambda _: self.place(self.experiment.scatter(sensors, time.time_ns() % 2**31)))
        self.clear.on_click(lambda _: self.place(np.empty((0, 2))))

    def on_display(self):
        if self.training is None:  # shown twice, trained once
            self.training = threading.Thread(target=self._train_aside, daemon=True)
            self.training.start()

    def _train_aside(self) -> None:
        self.status.value = "a decoder is being trained in the background: half a minute"
        try:
            self.train()
        except Exception as error:  # a thread's error would be seen by nobody
            self.status.value = f"no decoder, answers come on release: {error}"
            raise

    def train(self) -> None:
        """A decoder for every τ and all readings, and what it compiles."""
        decoder = Decoder.train(forward_on(self.experiment.mesh), "exact", self.decoder_steps, progress=False)
        places = self.experiment.scatter(LEAST_SENSORS, 0)
        decoder.condition(places, decoder.field(places, np.zeros((1, 2)))[0], 0.1)
        self.decoder = decoder
        self.status.value = f"a decoder is trained ({decoder.seconds:.0f} s): drag a sensor, the noise, or the true τ"

    def explain(self) -> None:
        """The exact posterior for the readings as they stand; what CVI found was about others."""
        self.answer()
        self.exact = exact(self.problem)

    def answer(self) -> None:
        """What the decoder says at once, if there is one yet."""
        self.problem = self.exact = self.found = self.quick = None
        self.problem = problem = self.experiment.problem(self.sensors, self.xi, self.noise.value)
        if self.decoder is not None:
            self.quick = self.decoder.condition(problem.sensors, problem.readings, problem.noise)

    def place(self, sensors: np.ndarray) -> None:
        self.sensors, self.xi = sensors, noise_of(sensors)
        self.attempt(self.explain)

    def infer(self) -> None:
        """CVI on the readings as they stand."""
        self.attempt(self._infer)

    def _infer(self) -> None:
        if self.exact is None:
            raise UserError(f"place at least {LEAST_SENSORS} sensors first")
        self.found = METHODS[self.method.value](self.steps.value)(self.problem)

    def _noise_moved(self) -> None:
        """The decoder's answer while the slider moves, the exact one when it rests."""
        if self.decoder is None:
            return self.attempt(self.explain)
        self.attempt(self.answer)
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # nothing to wait in
            return self.attempt(self.explain)
        if self.waiting is not None:
            self.waiting.cancel()
        self.waiting = loop.call_later(_REST, self.attempt, self.explain)

    def press(self, axes, x, y):
        self.grabbed, self.moved = None, False
        if axes is self.plane and np.hypot(*(self.experiment.tau - [x, y])) < 0.08 * np.ptp(self.plane.get_xlim()):
            self.grabbed = "truth"
        if axes is not self.region:
            return
        away = np.linalg.norm(self.sensors - [x, y], axis=1)
        if len(away) and away.min() < _NEAR:
            self.grabbed = int(np.argmin(away))
        elif _inside(x, y):
            self.sensors = np.vstack([self.sensors, [x, y]])
            self.xi = np.append(self.xi, noise_of(self.sensors[-1:]))
            self.grabbed, self.moved = len(self.sensors) - 1, True
            self.attempt(self.answer)

    def drag(self, axes, x, y):
        if self.grabbed == "truth" and axes is self.plane:
            self.experiment = self.experiment.with_truth(np.clip([x, y], -_LONGEST, _LONGEST))
        elif isinstance(self.grabbed, int) and axes is self.region and _inside(x, y):
            self.sensors[self.grabbed] = x, y
        else:
            return
        self.moved = True
        self.attempt(self.answer)

    def release(self):
        if isinstance(self.grabbed, int) and not self.moved:
            keep = np.arange(len(self.sensors)) != self.grabbed
            self.sensors, self.xi, self.moved = self.sensors[keep], self.xi[keep], True
        self.grabbed = None
        if self.moved:
            self.attempt(self.explain)

    def arrange(self):
        mesh = self.experiment.truth
        self.region, self.plane = self.figure.subplots(1, 2, width_ratios=[1.1, 1])
        triangles = Triangulation(*mesh.points.T, mesh.triangles)
        self.pixels = Pixels.of(mesh)
        look = {"cmap": "viridis", "extent": self.pixels.extent, "interpolation": "bilinear"}
        self.field = self.region.imshow(self.pixels.image(self.experiment.u), **look)
        outline(self.region, triangles)
        (self.edge,) = self.region.lines
        self.figure.colorbar(self.field, ax=self.region, shrink=0.7, label="the true field u", location="left")
        (self.dots,) = self.region.plot([], [], "o", color="w", mec="k", ms=6)
        plane(self.plane, "\n")
        (self.exact_line,) = self.plane.plot([], [], color="0.2", lw=1.5, label="exact, 90%")
        (self.found_line,) = self.plane.plot([], [], color="#d95f02", lw=1.8, label="CVI")
        (self.quick_line,) = self.plane.plot([], [], color="#1b9e77", lw=2.2, ls=(0, (3, 2)), label="decoder")
        (self.star,) = self.plane.plot([], [], "*", color="#d62728", ms=11, label="true τ")
        self.plane.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False)

    def draw(self):
        self.dots.set_data(*self.sensors.T)
        self.star.set_data(*self.experiment.tau[:, None])
        self.field.set_data(self.pixels.image(self.experiment.u))
        self.region.set_title(f"{len(self.sensors)} sensors: drag one, press to place one or to take it away")
        lines = {self.exact_line: self.exact, self.found_line: self.found, self.quick_line: self.quick}
        outlines = {line: ellipse(q.mean, q.covariance) if q else np.empty((2, 0)) for line, q in lines.items()}
        for line, places in outlines.items():
            line.set_data(*places)
        shown = self.exact or self.quick
        if shown and self.grabbed is None:  # it must not move under the pointer
            frame(self.plane, shown.mean, shown.covariance, self.experiment.tau, *outlines[self.found_line].T)
        self.plane.set_title(self._said())

    def moving(self):
        if self.grabbed is None:
            return []
        field = [self.field, self.edge] if self.grabbed == "truth" else []
        lines = [self.dots, self.exact_line, self.found_line, self.quick_line, self.star]
        return [*field, *lines, self.region.title, self.plane.title]

    def _said(self) -> str:
        if not self.exact:
            return f"{_told(self.quick)} (decoder)\nlet go for the exact posterior" if self.quick else "\n"
        said_exact = f"exact: {_told(self.exact)}"
        if self.found:
            return f"{said_exact}\nCVI in {self.found.seconds:.1f} s: {self._apart(self.found)}"
        if self.quick:
            return f"{said_exact}\ndecoder in {1e3 * self.quick.seconds:.0f} ms: {self._apart(self.quick)}"
        return f"{said_exact}\npress “run CVI” for its posterior"

    def _apart(self, found: Posterior) -> str:
        assert self.exact is not None
        sd = np.sqrt(np.diag(self.exact.covariance))
        away, ratio = np.max(np.abs(found.mean - self.exact.mean) / sd), found.sd / sd
        return f"mean off by {away:.2f} sd; its sd {ratio[0]:.2f} and {ratio[1]:.2f} times the exact"


def _told(found: Posterior) -> str:
    mean, sd = found.mean, np.sqrt(np.diag(found.covariance))
    return f"τ = ({mean[0]:.2f} ± {sd[0]:.2f}, {mean[1]:.2f} ± {sd[1]:.2f})"


def _inside(x: float, y: float) -> bool:
    """The star, but for a margin."""
    return np.hypot(x, y) < 0.95 * (1 + 0.3 * np.cos(5 * (np.arctan2(y, x) - np.pi / 2)))
