"""What a decoder was trained for, told by numbers, so that one trained for another problem is refused."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pdevae._tensorflow import tf
from pdevae.errors import UserError
from pdevae.fem.operators import flux_and_volume
from pdevae.inference.forward import Forward


class Signature(NamedTuple):
    """What a forward problem is, told by its numbers: equation, prior, boundary and region at some places."""

    x: np.ndarray  # [k, 2]
    size: np.ndarray  # d
    area: np.ndarray
    edge: np.ndarray  # [k] the boundary's values continued
    factor: np.ndarray  # [k] what vanishes where u is held, and not where there is no flow
    equation: np.ndarray  # fluxes and volumes for given z, u and gradients


def signature_of(forward: Forward, x: np.ndarray | None = None) -> Signature:
    mesh, d = forward.mesh, forward.latents.size
    if x is None:
        x = mesh.points[mesh.triangles].mean(axis=1)[:: max(mesh.n_elements // 16, 1)][:16]
    rng = np.random.default_rng(0)
    z, u, grad = (tf.constant(rng.normal(size=shape)) for shape in ((4, d), (4, len(x)), (4, len(x), 2)))
    parts = flux_and_volume(forward.equation, tf.constant(x), forward.latents.seen(z), u, grad)
    said = [np.broadcast_to(part, grad.shape[: part.shape.rank]).ravel() for part in parts if part is not None]
    corners = forward.weak.corners_at(x)
    of = lambda value: lambda x, z: tf.fill([1, x.shape[0]], tf.constant(value, tf.float64))  # noqa: E731
    edge, whole = (forward.weak.read(of(value), None, *corners).numpy()[0] for value in (0.0, 1.0))
    area = float(tf.reduce_sum(forward.weak.elements.area))
    return Signature(x, np.array(d), np.array(area), edge, whole - edge, np.concatenate(said))


def differences(kept: Signature, forward: Forward) -> str:
    """What of a kept signature does not hold of ``forward``: a word for it, or nothing."""
    if int(kept.size) != forward.latents.size:
        return "prior"
    try:
        here = signature_of(forward, kept.x)
    except UserError:  # a place lies outside
        return "region"
    if abs(here.area / kept.area - 1) > 0.03:
        return "region"
    if not np.allclose(here.edge, kept.edge, rtol=0.02, atol=0.02 * max(np.ptp(kept.edge), 1e-12)):
        return "boundary"
    if not np.allclose(here.factor, kept.factor, atol=0.1):  # of meshes of any size
        return "boundary"
    if here.equation.shape != kept.equation.shape or not np.allclose(here.equation, kept.equation, rtol=1e-6):
        return "equation or prior"
    return ""
