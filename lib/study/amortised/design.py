"""Where the next sensor should go: what a reading there is expected to tell of the unknowns, over the whole region.

A map takes tens of thousands of posteriors: candidates, times draws of what would be read.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdevae import Decoder, Encoder, InverseProblem, exact
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.inference.conditioning import Evidence
from pdevae.streams import random
from study.amortised.experiment import decoder_of
from study.amortised.problems import emulated, forward_of
from study.streams import Stream


@dataclass(frozen=True)
class Design:
    """``sensors`` are placed one after the other, each where it tells most; ``first`` stands already."""

    domain: str
    nodes: int
    penalty: str = "multilevel"
    steps: int = 4000
    sensors: int = 4
    noise: float = 0.01
    candidates: int = 300
    draws: int = 64  # of unknowns and noise, for each candidate
    checked: int = 3  # candidates of the first map whose gain is computed by exact posteriors too
    layouts: int = 20  # random ones, to compare with
    simulated: int = 4096
    encoder_steps: int = 1000


def designed(config: Design, seed: int) -> dict:
    """Maps: step, place, gain and whether it is chosen; then the gain of whole layouts, ours and random ones."""
    decoder = decoder_of("transport", config.domain, config.nodes, config.penalty, config.steps, 64, 8, 0)
    most = (1, config.sensors + 1)
    noise = (0.99 * config.noise, 1.01 * config.noise)
    # forward KL: its covariances are the posteriors', where reverse KL would narrow a bent one
    encoder = Encoder.train(decoder, noise, most, "forward", problems=config.simulated, steps=config.encoder_steps)
    rng = random(Stream.AMORTISED, seed, 4)
    mesh = decoder.forward.mesh
    inside = mesh.points[mesh.interior]
    places = inside[rng.permutation(len(inside))[: config.candidates]]
    chosen, rows = np.empty((0, 2)), []
    for step in range(config.sensors):
        by_draw = gains(decoder, encoder, chosen, places, config.noise, config.draws, seed)
        gain = by_draw.mean(axis=1)
        best = int(np.argmax(gain))
        both = np.full((2, len(gain)), np.nan)
        if step == config.sensors - 1:
            both = _exact_gains(config, chosen, places, by_draw, seed)
        rows.append(np.column_stack([np.full(len(gain), step), places, gain, np.arange(len(gain)) == best, *both]))
        chosen = np.vstack([chosen, places[best]])
    for layout in range(config.layouts + 1):
        some = chosen if not layout else places[rng.permutation(len(places))[: config.sensors]]
        told = gains(decoder, encoder, some[:-1], some[-1:], config.noise, 4 * config.draws, seed)
        rows.append(np.array([[-1, *some[-1], told.mean(), not layout, np.nan, np.nan]]))
    names = ("step", "x", "y", "gain", "chosen", "ours", "exact")
    return dict(zip(names, np.concatenate(rows).T))


def gains(
    decoder: Decoder, encoder: Encoder, stand: np.ndarray, places: np.ndarray, noise: float, draws: int, seed: int
) -> np.ndarray:
    """½ log det(prior) − ½ log det(posterior), in nats, with one more sensor at each of ``places``; [places, draws]."""
    phi, y = _readings(decoder, np.vstack([stand, places]), noise, draws, seed)
    phi, base = phi / noise, y / noise
    S = len(stand)
    H_0, h_0 = phi[:S].T @ phi[:S], base[:, :S] @ phi[:S]
    found = []
    for k in range(len(places)):
        one = phi[S + k]
        H = np.broadcast_to(H_0 + np.outer(one, one), [draws, *H_0.shape])
        h = h_0 + base[:, [S + k]] * one
        square = np.sum(base[:, :S] ** 2, axis=1) + base[:, S + k] ** 2
        evidence = Evidence(H, h, square, np.full(draws, S + 1))
        found.append(-0.5 * np.linalg.slogdet(encoder.of_evidence(evidence).covariance)[1])
    return np.array(found)


def _readings(decoder: Decoder, x: np.ndarray, noise: float, draws: int, seed: int):
    """Φ at the places, and what would be read less the base for draws of the prior; the same draws for all."""
    rng = random(Stream.AMORTISED, seed, 5)
    _, phi = decoder.reader(x)
    b = decoder.branch(tf.constant(rng.normal(size=(draws, decoder.forward.latents.size)))).numpy()
    return phi, b @ phi.T + noise * _noise(x, draws)


def _exact_gains(config: Design, stand: np.ndarray, places: np.ndarray, by_draw: np.ndarray, seed: int) -> np.ndarray:
    """Ours, and by quadrature on exact solves, at the best place, the worst and some between, over the draws whose
    posterior a grid can hold; [2, places].
    """
    forward, mean = emulated("transport", config.domain, config.nodes, 400), by_draw.mean(axis=1)
    some = np.argsort(mean)[np.linspace(0, len(mean) - 1, config.checked).astype(int)]
    z = random(Stream.AMORTISED, seed, 5).normal(size=(config.draws, 2))
    u = forward_of("transport", config.domain, config.nodes).solve(tf.constant(z)).numpy()
    both = np.full((2, len(mean)), np.nan)
    for k in some:
        x = np.vstack([stand, places[k]])
        readings = u @ forward.reader(x).T + config.noise * _noise(x, config.draws)
        pairs = []
        for y, ours in zip(readings, by_draw[k]):
            try:
                found = exact(InverseProblem.on(forward, x, y, config.noise))
            except UserError:
                continue
            pairs.append((ours, -0.5 * np.linalg.slogdet(found.covariance)[1]))
        both[:, k] = np.mean(pairs, axis=0)
    return both


def _noise(x: np.ndarray, draws: int) -> np.ndarray:
    """Goes with the place; [draws, places]."""
    return np.stack([np.random.default_rng(np.abs(at * 1e6).astype(int)).normal(size=draws) for at in x], axis=1)
