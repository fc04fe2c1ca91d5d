"""Compiled by XLA, as for users, or not, as in the other tests: the same numbers."""

import numpy as np
import pytest

import pdevae
from pdevae._tensorflow import graph, tf

AT = np.array([[0.0, 0.0], [0.3, 0.2], [-0.5, 0.1]])
U = (1 - np.sum(AT**2, axis=1)) / 8


def problem(nodes: int = 60) -> pdevae.InverseProblem:
    """−∇·(a∇u) = 1 on the disc, u known at three places; nothing of it compiled yet."""
    equation = pdevae.Diffusion(lambda x, z: z.a) - pdevae.Source(1.0)
    latents = pdevae.Latents(a=pdevae.Normal(transform=tf.exp))
    return pdevae.InverseProblem(pdevae.disc(nodes=nodes), equation, latents, AT, U, noise=0.002)


def density_and_slope() -> list:
    p, z = problem(), tf.Variable([[0.3], [-0.2]], dtype=tf.float64)
    with tf.GradientTape() as tape:
        density = p.log_joint(z)
    return [density, tape.gradient(density, z)]


def laplace() -> list:
    found = pdevae.Laplace()(problem())
    return [found.mean, found.sd]


def trained(penalty: str, nodes: int = 60) -> list:
    found = pdevae.CVI(penalty=penalty, steps=20, width=16)(problem(nodes))
    return [found.mean, found.sd, found.fields(AT, np.zeros([1, 1]))]


def conditioned_and_encoded() -> list:
    p = problem()
    decoder = pdevae.Decoder.train(p.forward, penalty="exact", steps=100, width=8)
    encoder = pdevae.Encoder.train(decoder, noise=(0.001, 0.01), sensors=(3, 5), problems=64, steps=10)
    found = decoder.condition(AT, U, 0.002), encoder(AT, U, 0.002)
    return [part for one in found for part in (one.mean, one.sd)]


CASES = {
    "solve": (density_and_slope, 1e-9),
    "Laplace": (laplace, 1e-6),
    "Decoder, Encoder": (conditioned_and_encoded, 0.02),  # hundreds of steps, rounded otherwise
    **{
        f"CVI, {name}": (lambda name=name: trained(name), 0.01) for name in ("exact", "two-level", "multilevel", "hard")
    },
    "CVI, solves on the host": (lambda: trained("exact", nodes=4000), 0.01),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_compiled_or_not_the_numbers_are_the_same(case, monkeypatch):
    numbers, tolerance = CASES[case]
    found = {}
    for switch in "01":
        monkeypatch.setenv("PDEVAE_XLA", switch)
        found[switch] = numbers()
    for plain, compiled in zip(*found.values()):
        np.testing.assert_allclose(compiled, plain, rtol=tolerance, atol=1e-9)


def test_the_switch_switches(monkeypatch):
    unknown_to_xla = lambda: graph(lambda x: tf.strings.as_string(x), jit_compile=True)(tf.constant(1.0))  # noqa: E731
    monkeypatch.setenv("PDEVAE_XLA", "0")
    assert unknown_to_xla().numpy() == b"1.000000"
    monkeypatch.delenv("PDEVAE_XLA")
    with pytest.raises(tf.errors.OpError):
        unknown_to_xla()
