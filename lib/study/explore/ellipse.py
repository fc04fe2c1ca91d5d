"""Posteriors of τ in the plane, as the explorer draws them."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes

_RADIUS = 2.146  # holds 90% of a Gaussian in the plane


def ellipse(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The outline of the 90% region of a Gaussian; [2, 100]."""
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    return mean[:, None] + _RADIUS * np.linalg.cholesky(covariance) @ circle


def plane(ax: Axes, title: str) -> None:
    ax.axhline(0, color="0.9", lw=0.8, zorder=0)
    ax.axvline(0, color="0.9", lw=0.8, zorder=0)
    ax.set(xlabel="τ₁", ylabel="τ₂", title=title, aspect="equal")


def frame(ax: Axes, mean: np.ndarray, covariance: np.ndarray, *points: np.ndarray) -> None:
    """Limits that hold four standard deviations around the mean, and the points."""
    sd = np.sqrt(np.diag(covariance).max())
    shown = np.stack([mean - 4 * sd, mean + 4 * sd, *points])
    centre, half = (shown.max(axis=0) + shown.min(axis=0)) / 2, 0.55 * np.ptp(shown, axis=0).max()
    ax.set(xlim=(centre[0] - half, centre[0] + half), ylim=(centre[1] - half, centre[1] + half))
