"""Shared by the tests: small problems and a field to penalise."""

import numpy as np
import pytest

import pdevae
import study  # noqa: F401  settings of TensorFlow

LONGEST = [
    "test_notebooks",
    "test_under_fire",
    "test_runner",
    "test_browser",
    "test_cluster",
    "test_aquifer",
    "test_jura",
]
SLOW_EXAMPLES = ["FlowVI", "HMC", "NUTS"]
L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]
DOMAINS = {
    "square": pdevae.square,
    "disc": pdevae.disc,
    "star": pdevae.star,
    "L": lambda nodes: pdevae.polygon(L_SHAPE, nodes=nodes),
}


def pytest_collection_modifyitems(items):
    """The files that take longest first: with two at a time, none of them is left alone at the end; they are slow."""
    items.sort(key=lambda item: LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST))
    for item in items:
        if item.path.stem in LONGEST or item.name.rpartition(".")[2] in SLOW_EXAMPLES:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(params=DOMAINS)
def small_mesh(request):
    return DOMAINS[request.param](nodes=200)


@pytest.fixture
def equation():
    return pdevae.Diffusion(0.7) + pdevae.Transport() - pdevae.Source(1.0)


@pytest.fixture
def z():
    from pdevae._tensorflow import tf  # here: the process that hands out the tests can do without

    return tf.constant([[1.0, -2.0], [0.3, 0.5], [-1.0, 0.2]], tf.float64)


def wavy(x, z):
    """A smooth field that depends on z; [M, n]."""
    from pdevae._tensorflow import tf

    return tf.sin(2 * x[:, 0]) * tf.cos(3 * x[:, 1]) * z[:, :1] + 0.3 * z[:, 1:] * x[:, 1] ** 2


def relative_difference(a, b) -> float:
    a, b = np.asarray(a), np.asarray(b)
    return float(np.abs(a - b).max() / np.abs(b).max())
