"""How near posteriors on a decoder are to exact ones, over problems nobody has seen, and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pdevae import HMC, Decoder, Encoder, InverseProblem, Laplace, Posterior, SolvedCVI, exact
from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.inference.sampling import OverBudget
from pdevae.penalties import named
from pdevae.streams import random
from study.amortised.problems import READINGS, emulated, forward_of, fresh
from study.streams import Stream

_BATCH = 512


@dataclass(frozen=True)
class Setting:
    """A decoder, and how it is asked: ``condition``, or encoders by family and objective, as ``flow-forward``."""

    problem: str
    domain: str
    nodes: int
    penalty: str = "multilevel"
    steps: int = 4000
    width: int = 64
    samples: int = 8
    places: int = 0  # where the branch is solved for; 0: the default
    methods: tuple[str, ...] = ("condition",)
    simulated: int = 8192  # problems that an encoder is trained on
    encoder_steps: int = 1000
    problems: int = 50  # of a replicate
    draws: int = 99  # for ranks
    solves: int = 400  # of the emulator that exact posteriors come from
    checks: int = 20  # exact solves that judge the field
    exact_nodes: int = 0  # of the mesh that exact posteriors are computed on; 0: the decoder's
    peers: tuple[str, ...] = ("laplace", "solved", "hmc")  # that are timed beside it
    budget: float = 120.0  # seconds, of HMC
    ess: float = 400.0  # its effective draws


@lru_cache(maxsize=2)
def decoder_of(problem: str, domain: str, nodes: int, penalty: str, steps: int, width: int, samples: int, places: int):
    forward = forward_of(problem, domain, nodes)
    return Decoder.train(forward, penalty, steps, samples, width, places=places or None)


def _decoder(config: Setting) -> Decoder:
    names = ("problem", "domain", "nodes", "penalty", "steps", "width", "samples", "places")
    return decoder_of(*(getattr(config, name) for name in names))


@lru_cache(maxsize=4)
def encoder_of(decoder: Decoder, method: str, problem: str, simulated: int, steps: int) -> Encoder:
    family, objective = method.split("-")
    readings = READINGS[problem]
    return Encoder.train(decoder, readings.noise, readings.sensors, objective, family, simulated, steps)


def _asked(config: Setting) -> dict[str, Callable[..., Posterior]]:
    decoder, how = _decoder(config), (config.problem, config.simulated, config.encoder_steps)
    return {
        name: decoder.condition if name == "condition" else encoder_of(decoder, name, *how) for name in config.methods
    }


def training(config: Setting, seed: int) -> dict:
    """Seconds, those of the penalty's tables apart, and errors of the field against exact solves."""
    forward, tables = forward_of(config.problem, config.domain, config.nodes), 0.0

    def penalty(mesh, equation):
        nonlocal tables
        begun = time.perf_counter()
        made = named(config.penalty, mesh, equation, boundary=forward.boundary, dtype=tf.float32)
        tables = time.perf_counter() - begun
        return made

    forward.weak.g_and_w  # the mesh's, as the mesh itself is  # noqa: B018
    more = {"width": config.width, "places": config.places or None, "seed": seed}
    decoder = Decoder.train(forward, penalty, config.steps, config.samples, **more)
    found = decoder.errors(config.checks)._asdict()
    return {"seconds": decoder.seconds, "tables": tables, "left_out": decoder.branch.error} | found


def judged(config: Setting, seed: int) -> dict:
    """A fresh problem and a method a row: the worse component's error of the mean in exact sd and sd ratio, the score
    −log q of the truth and that of the exact posterior, the truth's ranks among draws, seconds. ``left_out``: problems
    whose readings say so little that no grid holds the exact posterior.
    """
    asked, rng, rows, left_out = _asked(config), random(Stream.AMORTISED, seed), [], 0
    forward = forward_of(config.problem, config.domain, config.nodes)
    for number in range(config.problems):
        problem, z = fresh(forward, READINGS[config.problem], rng)
        right = _right(config, problem)
        if right is None:
            left_out += 1
            continue
        about = (number, len(problem.sensors), float(problem.noise), _score(right, z))
        for name, ask in asked.items():
            begun = time.perf_counter()
            try:
                found = ask(problem.sensors, problem.readings, problem.noise, seed=config.problems * seed + number)
            except UserError:  # it says of itself that it has no answer
                rows.append((name, *about, *4 * [np.nan], -1, -1))
                continue
            seconds = time.perf_counter() - begun
            off, ratio = np.max(np.abs(found.mean - right.mean) / right.sd), found.sd / right.sd
            ratio = ratio[np.argmax(np.abs(np.log(ratio)))]
            ranks = np.sum(found.draws[: config.draws] < z, axis=0)[:2]
            rows.append((name, *about, off, ratio, -found.log_q(z[None])[0], seconds, *ranks))
    names = (
        "method",
        "number",
        "sensors",
        "noise",
        "best_score",
        "off",
        "ratio",
        "score",
        "seconds",
        "rank_1",
        "rank_2",
    )
    return {name: np.array(values) for name, values in zip(names, zip(*rows))} | {"left_out": left_out}


def _right(config: Setting, problem: InverseProblem) -> Posterior | None:
    """By quadrature on exact solves interpolated; by HMC where there are too many unknowns."""
    if problem.size > 2:
        return HMC(ess=config.ess)(problem)
    forward = emulated(config.problem, config.domain, config.exact_nodes or config.nodes, config.solves)
    try:
        return exact(InverseProblem.on(forward, problem.sensors, problem.readings, problem.noise))
    except UserError:
        return None


def _score(right: Posterior, z: np.ndarray) -> float:
    """−log p(z | y) by the quadrature; of the Gaussian with its moments where there is none."""
    if right.grid is None:
        return float(-right.log_q(z[None])[0])
    places, weights = right.grid
    near = np.argmax(weights)
    log_joint = right.problem.log_joint(tf.constant(np.stack([z, places[near]]))).numpy()
    return float(-(log_joint[0] - log_joint[1] + np.log(weights[near] / right.diagnostics["cell"])))


def emulation(config: Setting, seed: int) -> dict:
    """How exact the emulator is: its field, and posteriors by quadrature on it against quadrature with solves."""
    forward = forward_of(config.problem, config.domain, config.nodes)
    made = emulated(config.problem, config.domain, config.nodes, config.solves)
    median, worst = made.errors(forward, config.checks)
    rng, off = random(Stream.AMORTISED, seed, 1), []
    for _ in range(config.problems):
        problem, _ = fresh(forward, READINGS[config.problem], rng)
        right, found = exact(problem), _right(config, problem)
        if found is not None:
            off.append(np.max(np.abs(found.mean - right.mean) / right.sd))
    return {"seconds": made.seconds, "median": median, "worst": worst, "off": max(off, default=np.nan)}


def cost(config: Setting, seed: int) -> dict:
    """Seconds of both trainings, and of a problem: alone, in a batch; by Laplace, HMC and solved CVI with solves."""
    decoder = _decoder(config)
    encoder = encoder_of(decoder, "gaussian-reverse", config.problem, config.simulated, config.encoder_steps)
    rng = random(Stream.AMORTISED, seed, config.nodes)
    problems = [fresh(decoder.forward, READINGS[config.problem], rng)[0] for _ in range(config.problems)]
    found = {"training": decoder.seconds + encoder.seconds, "decoder_training": decoder.seconds}
    asked = {"condition": decoder.condition, "encoder": encoder}
    for name, ask in asked.items():
        found[name] = _median_seconds(lambda p, ask=ask: ask(p.sensors, p.readings, p.noise), problems)
    x = problems[0].sensors
    z = rng.normal(size=(_BATCH, decoder.forward.latents.size))
    readings = decoder.field(x, z) + problems[0].noise * rng.normal(size=(_BATCH, len(x)))
    batch = [(x, readings, problems[0].noise)] * 3
    found["condition_batched"] = _median_seconds(lambda b: decoder.condition_many(*b), batch) / _BATCH
    found["encoder_batched"] = _median_seconds(lambda b: encoder.many(*b), batch) / _BATCH
    peers = {
        "laplace": lambda: _median_seconds(Laplace(), problems[:3]),
        "solved": lambda: _median_seconds(SolvedCVI(), problems[:2]),
        "hmc": lambda: _hmc_seconds(problems[0], config.budget),
    }
    return found | {name: seconds() if name in config.peers else np.nan for name, seconds in peers.items()}


def _hmc_seconds(problem: InverseProblem, budget: float) -> float:
    """Of a run, or what one gradient foretells where that is over budget."""
    try:
        return HMC(budget=budget)(problem).seconds
    except OverBudget as over:
        return over.projected


def _median_seconds(call: Callable, arguments: list) -> float:
    """The first call traces, and is not counted."""
    call(arguments[0])
    seconds = []
    for argument in arguments:
        begun = time.perf_counter()
        call(argument)
        seconds.append(time.perf_counter() - begun)
    return float(np.median(seconds))
