"""Residuals on a batch of mini-patches: one evaluation of μ at the patches' nodes, then dense algebra."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from check_shapes import check_shapes

from .._tensorflow import tf
from ..elements import Elements, elements
from ..fields import Field, values
from ..minipatches import Patches
from ..operators import element_residual
from ..weak_form import WeakForm


class PatchBatch(NamedTuple):
    """The rows of the patch tables for P patches."""

    index: tf.Tensor  # [P] row of the table
    nodes: tf.Tensor  # [P, K]
    x: tf.Tensor  # [P, K, 2]
    corners: tf.Tensor  # [3, P, E] slots
    elements: Elements  # of all patches, one after another: E is P·E of the tables


class PatchTables:
    """Patch tables as tensors, from which a step gathers the rows of its patches."""

    def __init__(self, patches: Patches, dtype=tf.float64):
        self.Q, self.K, self.C = patches.Q, patches.K, len(patches.centres)
        self.points = tf.constant(patches.mesh.points, dtype)
        self.nodes = tf.constant(patches.nodes)
        self.corners = tf.constant(patches.corners)
        self.is_test = tf.constant(patches.is_test)

    def batch(self, index: tf.Tensor) -> PatchBatch:
        nodes = tf.gather(self.nodes, index)
        x = tf.gather(self.points, nodes)
        corners = tf.cast(tf.transpose(tf.gather(self.corners, index), [1, 0, 2]), tf.int32)
        at_corners = tf.gather(tf.reshape(x, [-1, 2]), flat_places(corners, self.K))
        return PatchBatch(index, nodes, x, corners, elements(at_corners))


def flat_places(corners: tf.Tensor, K: int) -> tf.Tensor:
    """[3, P·E] where each corner stands among the P·K nodes of a batch."""
    P = corners.shape[1]
    return tf.reshape(corners + K * tf.range(P)[:, None], [3, -1])


@check_shapes("return[all]: [M, P, E]")
def corner_residuals(weak: WeakForm, batch: PatchBatch, mu: Field, z: Any) -> list[tf.Tensor]:
    """r_ek on the elements of each patch, for the three corners."""
    u = values(mu, tf.reshape(batch.x, [-1, 2]), z)  # [M, P·K]
    u = weak.with_boundary(u, tf.reshape(batch.nodes, [-1]))
    places = tf.unstack(flat_places(batch.corners, batch.nodes.shape[1]), num=3)
    r = element_residual(weak.equation, batch.elements, [tf.gather(u, place, axis=1) for place in places], z)
    return [tf.reshape(r_k, [-1, *batch.corners.shape[1:]]) for r_k in r]


def test_indicators(batch: PatchBatch, Q: int, dtype) -> list[tf.Tensor]:
    """[P, E, Q] for each corner k: 1 where corner k of the element is the test node q."""
    return [tf.one_hot(slots, Q, dtype=dtype) for slots in tf.unstack(batch.corners, num=3)]


def local_factors(batch: PatchBatch, indicators: list[tf.Tensor], is_test: tf.Tensor) -> tf.Tensor:
    """Cholesky factors of A_QQ, the stiffness matrix of each patch's test nodes; [P, Q, Q]."""
    shape = batch.corners.shape[1:]
    root = tf.reshape(tf.sqrt(batch.elements.area), shape)
    A = tf.linalg.diag(tf.cast(~is_test, root.dtype))  # unused slots: the identity
    for phi in tf.unstack(tf.reshape(batch.elements.grad_phi, [2, 3, *shape]), num=2):
        B = sum((root * phi_k)[..., None] * one for phi_k, one in zip(tf.unstack(phi, num=3), indicators))
        A += tf.matmul(B, B, transpose_a=True)  # A_QQ = Σ_e |e| ∇φ_q·∇φ_q'
    return tf.linalg.cholesky(A)


@check_shapes("factors: [P, Q, Q]", "r: [M, P, Q]", "return: [M, P, Q]")
def half_solve(factors: tf.Tensor, r: tf.Tensor) -> tf.Tensor:
    """C⁻¹r with A_QQ = CCᵀ, so that ‖C⁻¹r‖² = rᵀA_QQ⁻¹r."""
    columns = tf.transpose(r, [1, 2, 0])
    return tf.transpose(tf.linalg.triangular_solve(factors, columns), [2, 0, 1])


def local_quadratic_form(patches: Patches, A: sp.csc_matrix) -> sp.csr_matrix:
    """Σ_p RᵀD A_QQ⁻¹ D R as a sparse matrix [N, N], D² = 1/cover: what the mini-patches add up to."""
    N = A.shape[0]
    number = patches.mesh.interior_number[patches.nodes[:, : patches.Q]]
    weight = np.where(patches.is_test, 1 / np.sqrt(patches.cover[number]), 0.0)
    total = sp.csr_matrix((N, N))
    for rows in np.array_split(np.arange(len(number)), max(1, len(number) // 500)):
        i = np.broadcast_to(number[rows][:, :, None], (len(rows), patches.Q, patches.Q))
        j = np.swapaxes(i, 1, 2)
        blocks = np.asarray(A[i.ravel(), j.ravel()]).reshape(i.shape)
        used = patches.is_test[rows][:, :, None] & patches.is_test[rows][:, None, :]
        inverse = np.linalg.inv(np.where(used, blocks, np.eye(patches.Q)))
        entries = inverse * weight[rows][:, :, None] * weight[rows][:, None, :]
        total += sp.csr_matrix((entries.ravel(), (i.ravel(), j.ravel())), shape=(N, N))
    return total
