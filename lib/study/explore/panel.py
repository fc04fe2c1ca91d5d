"""Controls above a picture that is drawn from their values."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
import matplotlib
import numpy as np
import PIL.Image
import traitlets
from IPython.display import Image, display
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from machinery.settings import RunSettings
from pdevae.errors import UserError

_STYLE = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Picture(anywidget.AnyWidget):
    """An image; ``pointer`` says where it was pressed or dragged: kind, then x and y as shares from its upper left."""

    _esm = Path(__file__).with_name("picture.js")
    png = traitlets.Bytes(b"").tag(sync=True)
    alt = traitlets.Unicode("").tag(sync=True)
    pointer = traitlets.List([]).tag(sync=True)
    handled = traitlets.Int(0).tag(sync=True)  # the last pointer that has been answered


class Panel:
    """Subclasses give ``controls`` (in rows), ``arrange`` the axes and artists once, ``draw`` them from the values."""

    size = (9.6, 4.0)  # inches, at 100 dots each
    alt = ""

    def __init__(self, rows: list[list[widgets.Widget]]):
        self.rows, self.held = rows, False
        self.message = widgets.Label()
        self.animated: list[Artist] = []
        self.behind: Any = None  # pixels of what does not move
        with matplotlib.rc_context(_STYLE):
            self.figure = Figure(figsize=self.size, dpi=100, layout="constrained")
            FigureCanvasAgg(self.figure)
            self.arrange()
            self.draw()
            self.figure.canvas.draw()
        self.figure.set_layout_engine("none")  # once is enough, and it is most of the time of a drawing
        self.picture = Picture(png=self.png(), alt=self.alt)
        self.picture.observe(self._pointed, "pointer")

    def arrange(self) -> None:
        raise NotImplementedError

    def draw(self) -> None:
        raise NotImplementedError

    def press(self, axes: Axes, x: float, y: float) -> None:
        """Something was pressed at a place of ``axes``."""

    def drag(self, axes: Axes, x: float, y: float) -> None:
        """The pointer is moving, pressed."""

    def release(self) -> None:
        """The pointer is let go, wherever it is."""

    def on_display(self) -> None:
        """In a notebook, to be played with."""

    def on(self, *controls: widgets.Widget) -> None:
        """Draw again when one of these changes."""
        for control in controls:
            control.observe(self.refresh, "value")

    @contextmanager
    def one_drawing(self) -> Iterator[None]:
        """Several controls are set: one drawing, at the end."""
        self.held = True
        try:
            yield
        finally:
            self.held = False
        self.refresh()

    def refresh(self, *_) -> None:
        if not self.held:
            self.attempt(lambda: None)

    def attempt(self, action: Callable[[], None]) -> None:
        """Do it, say what was wrong with it, and draw what then stands."""
        self.message.value = "…"
        try:
            action()
            said = ""
        except UserError as error:
            said = str(error)
        with matplotlib.rc_context(_STYLE):
            self.draw()
            self.picture.png = self.png()
        self.message.value = said

    def moving(self) -> list[Artist]:
        """What alone is drawn anew while something is dragged, from below; nothing: all is."""
        return []

    def png(self) -> bytes:
        canvas, moving = self.figure.canvas, self.moving()
        if moving != self.animated:
            for artists, how in ((self.animated, False), (moving, True)):
                for artist in artists:
                    artist.set_animated(how)
            canvas.draw()
            self.animated, self.behind = moving, canvas.copy_from_bbox(self.figure.bbox)
        if moving:
            canvas.restore_region(self.behind)
            for artist in moving:
                self.figure.draw_artist(artist)
        else:
            canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3]
        buffer = io.BytesIO()
        PIL.Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=1)
        return buffer.getvalue()

    def _pointed(self, change) -> None:
        kind, x, y, count = change["new"]
        if kind == "release":
            self.release()
            self.picture.handled = count
            return
        width, height = self.figure.canvas.get_width_height()
        at = (x * width, (1 - y) * height)
        for axes in self.figure.axes:
            if axes.bbox.contains(*at):
                getattr(self, kind)(axes, *axes.transData.inverted().transform(at))
        self.picture.handled = count

    def _ipython_display_(self) -> None:
        if RunSettings.current().profile == "interactive":
            display(widgets.VBox([*map(widgets.HBox, self.rows), self.picture, self.message]))
            self.on_display()
        else:
            display(Image(self.png(), alt=self.alt))


def slider(kind, label: str, value, low, high, step=None, **more) -> widgets.Widget:
    """One of ipywidgets' sliders, wide enough for its label."""
    limits = {"min": low, "max": high} | ({} if step is None else {"step": step})
    style, layout = {"description_width": "initial"}, widgets.Layout(width="300px")
    return kind(value=value, description=label, style=style, layout=layout, **limits, **more)
