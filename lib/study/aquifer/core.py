"""GP-D and GP-DT on the general core: an :class:`~pdevae.InverseProblem` like any other, its posterior by CVI.

The settings are those of :class:`~study.models.surrogate.WellSurrogate`, which trains many members at once: the decoder
is a network of the place alone, nothing is known on the boundary, the noise is learned, and F_ε is the printed one.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from pdevae import (
    CVI,
    Diffusion,
    GaussianField,
    InverseProblem,
    Latents,
    Normal,
    Posterior,
    Restarts,
    Source,
    Transport,
)
from pdevae._tensorflow import tf
from study.aquifer.networks import SETTINGS
from study.aquifer.splits import Member, Standardised, members, places, plain, scored
from study.members import joined
from study.models.surrogate import NETWORK, WellSurrogate

_NOISE = 0.3  # where it starts, in standard deviations of the training levels
_WIDTH = 0.1  # of q where it starts, in the prior's standard deviations


class OfPlace(tf.Module):
    """The aquifer's network as a decoder: the same field for every z."""

    def __init__(self, seed: int):
        super().__init__()
        self.weights = tf.Variable(NETWORK.init([seed]))

    def __call__(self, x: tf.Tensor, z: tf.Tensor) -> tf.Tensor:
        u = NETWORK(self.weights, tf.cast(x, tf.float32)[None])[..., 0]
        return tf.cast(tf.repeat(u, z.shape[0], axis=0), x.dtype)


def problem(model: WellSurrogate, survey: str, mesh_nodes: int, member: Member, known: Standardised) -> InverseProblem:
    k = model.n_inducing
    field = partial(GaussianField, modes=k, points=k)
    parts = {"log_a": field(sd=model.log_a_sd, length=model.log_a_length)}
    parts |= {"f": field(sd=model.source_sd, length=model.source_length)}
    equation = Diffusion(lambda x, z: tf.exp(z.log_a(x))) - Source(lambda x, z: z.f(x))
    if model.mechanism == "GP-DT":
        parts["tau"], equation = Normal(2), equation + Transport(lambda x, z: z.tau)
    at = places(survey, member.training)
    return InverseProblem(plain(survey, mesh_nodes), equation, Latents(**parts), at, known.y, _NOISE, boundary=None)


def method(model: WellSurrogate, cycles: int, seed: int) -> CVI:
    return CVI(
        decoder=OfPlace(seed),
        penalty=model.penalty,
        steps=cycles * model.period,
        samples=model.samples,
        eps=Restarts(model.eps_start, model.eps_end, model.period),
        serves="q",
        trainer=lambda steps: tf.keras.optimizers.Adam(model.learning_rate),
        around=_narrow,
        learns_noise=True,
    )


def _narrow(problem: InverseProblem, seed: int = 0) -> Posterior:
    return Posterior.normal(problem, np.zeros(problem.size), _WIDTH**2 * np.eye(problem.size), 0.0, seed)


def on_core(config: dict, seed: int) -> dict:
    """A row per member and test well, as :func:`study.aquifer.networks.network` has them."""
    survey, response, (cycles,) = config["survey"], config["response"], config["cycles_seen"]
    model = WellSurrogate(**{name: config[name] for name in SETTINGS if name in config})
    rows = []
    for number, member in enumerate(members(survey, config["split"])):
        known = Standardised.of(survey, response, member)
        found = method(model, cycles, seed)(problem(model, survey, config["mesh_nodes"], member, known), seed)
        u = found.predict(places(survey, member.test))
        sd = np.hypot(u.sd, _NOISE * found.diagnostics["noise"])
        row = scored(survey, response, known.feet.back(u.mean[None], sd[None]), known, member, number)
        rows.append(row | {"cycles": np.full(len(member.test), cycles)})
    return joined(rows)
