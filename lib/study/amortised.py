"""Trained once, asked often: how near posteriors on a decoder are to exact ones, over problems nobody has seen."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pdevae import Decoder, Encoder, InverseProblem, Laplace, exact
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.inference.encoder import random_places
from pdevae.streams import random
from study.streams import Stream
from study.transport.experiment import mesh_of
from study.transport.problem import forward_on

NOISE = (0.003, 0.02)  # smallest and largest sd of a reading; the field is about 0.2 at most
SENSORS = (10, 60)


@dataclass(frozen=True)
class Setting:
    """A decoder of the transport problem and how it is asked: condition, or an encoder by its objective."""

    domain: str
    nodes: int
    penalty: str = "multilevel"
    steps: int = 4000
    method: str = "condition"
    simulated: int = 8192  # problems that an encoder is trained on
    encoder_steps: int = 1000
    problems: int = 50  # of a replicate
    draws: int = 99  # for ranks


@lru_cache(maxsize=2)
def decoder_of(domain: str, nodes: int, penalty: str, steps: int) -> Decoder:
    return Decoder.train(forward_on(mesh_of(domain, nodes)), penalty, steps)


@lru_cache(maxsize=2)
def encoder_of(decoder: Decoder, objective: str, simulated: int, steps: int) -> Encoder:
    return Encoder.train(decoder, NOISE, SENSORS, objective, simulated, steps)


def training(config: Setting, seed: int) -> dict:
    """Seconds, and errors of the field against exact solves."""
    forward = forward_on(mesh_of(config.domain, config.nodes))
    decoder = Decoder.train(forward, config.penalty, config.steps, seed=seed)
    return {"seconds": decoder.seconds, "left_out": decoder.branch.error} | decoder.errors()._asdict()


def judged(config: Setting, seed: int) -> dict:
    """A fresh problem a row: error of the mean in exact sd, sd ratio, ranks of the truth, seconds, by this method."""
    decoder = decoder_of(config.domain, config.nodes, config.penalty, config.steps)
    ask = decoder.condition
    if config.method != "condition":
        ask = encoder_of(decoder, config.method, config.simulated, config.encoder_steps)
    rng, rows = random(Stream.AMORTISED, seed), []
    while len(rows) < config.problems:
        problem, z = fresh_problem(decoder, rng)
        try:
            right = exact(problem)
        except UserError:  # readings say so little that the grid would be too large
            continue
        begun = time.perf_counter()
        found = ask(problem.sensors, problem.readings, problem.noise)
        seconds = time.perf_counter() - begun
        off, ratio = np.abs(found.mean - right.mean) / right.sd, found.sd / right.sd
        ranks = np.sum(found.draws[: config.draws] < z, axis=0)
        rows.append((len(problem.sensors), float(problem.noise), *off, *ratio, *ranks, seconds))
    names = ("sensors", "noise", "off_1", "off_2", "ratio_1", "ratio_2", "rank_1", "rank_2", "seconds")
    return {name: np.array(values) for name, values in zip(names, zip(*rows))}


def fresh_problem(decoder: Decoder, rng: np.random.Generator) -> tuple[InverseProblem, np.ndarray]:
    """z from the prior, sensors at random places, readings by an exact solve; and the z."""
    forward = decoder.forward
    x = random_places(forward.mesh, int(rng.integers(SENSORS[0], SENSORS[1] + 1)), rng)
    z, noise = rng.normal(size=(1, forward.latents.size)), float(np.exp(rng.uniform(*np.log(NOISE))))
    u = forward.reader(x) @ forward.solve(tf.constant(z)).numpy()[0]
    return InverseProblem.on(forward, x, u + noise * rng.normal(size=len(x)), noise), z[0]


def cost(config: Setting, seed: int) -> dict:
    """Seconds of the training, and of a problem: alone, in a batch, and by Laplace's approximation with solves."""
    decoder = decoder_of(config.domain, config.nodes, config.penalty, config.steps)
    encoder = encoder_of(decoder, "reverse", config.simulated, config.encoder_steps)
    rng = random(Stream.AMORTISED, seed, config.nodes)
    problems = [fresh_problem(decoder, rng)[0] for _ in range(5)]
    found = {"training": decoder.seconds}
    asked = {"condition": decoder.condition, "encoder": encoder}
    for name, ask in asked.items():
        found[name] = _median_seconds(lambda p, ask=ask: ask(p.sensors, p.readings, p.noise), problems)
    found["laplace"] = _median_seconds(Laplace(), problems)
    many = decoder.evidence(problems[0].sensors, np.tile(problems[0].readings, (512, 1)), problems[0].noise)
    found["condition_batched"] = _median_seconds(decoder.conditioner, [many] * 3) / 512
    found["encoder_batched"] = _median_seconds(encoder.of_evidence, [many] * 3) / 512
    return found


def _median_seconds(call, arguments: list) -> float:
    """The first call traces, and is not counted."""
    call(arguments[0])
    seconds = []
    for argument in arguments:
        begun = time.perf_counter()
        call(argument)
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds))
