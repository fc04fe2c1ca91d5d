"""The problem that the examples in docstrings share: that of ``InverseProblem``'s own example."""

import numpy as np
import pytest


@pytest.fixture(autouse=True, scope="session")
def _examples(doctest_namespace):
    import pdevae
    import study  # noqa: F401  settings of TensorFlow
    from pdevae._tensorflow import tf

    equation = pdevae.Diffusion(lambda x, z: z.a) - pdevae.Source(1.0)
    latents, at = pdevae.Latents(a=pdevae.Normal(transform=tf.exp)), np.array([[0.0, 0.0], [0.3, 0.2], [-0.5, 0.1]])
    u = (1 - np.sum(at**2, axis=1)) / 8
    doctest_namespace["problem"] = pdevae.InverseProblem(pdevae.disc(nodes=150), equation, latents, at, u, noise=0.002)
    doctest_namespace["tf"] = tf
