"""Residuals on a batch of mini-patches: one evaluation of μ at the patches' nodes, then dense algebra."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from check_shapes import check_shapes
from tqdm.auto import tqdm

from pdevae._tensorflow import tf
from pdevae.fem.elements import Elements, elements
from pdevae.fem.fields import Field, values
from pdevae.fem.weak_form import WeakForm, corner_sums
from pdevae.penalties.minipatches import Patches

_CHUNK = 1024  # patches factorised at a time


class PatchBatch(NamedTuple):
    """The rows of the patch tables for P patches."""

    nodes: tf.Tensor  # [P, K]
    x: tf.Tensor  # [P, K, 2]
    corners: tf.Tensor  # [3, P·E] where each corner stands among the P·K nodes
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
        slots = tf.cast(tf.transpose(tf.gather(self.corners, index), [1, 0, 2]), tf.int32)
        corners = tf.reshape(slots + self.K * tf.range(index.shape[0])[:, None], [3, -1])
        return PatchBatch(nodes, x, corners, elements(tf.gather(tf.reshape(x, [-1, 2]), corners)))


@check_shapes("return: [M, P, K]")
def patch_residuals(weak: WeakForm, batch: PatchBatch, mu: Field, z: Any) -> tf.Tensor:
    """Σ r_ek over the corners in each slot of a patch: (L[z]μ − f)_q at the test nodes, parts of rows at the others."""
    P, K = batch.nodes.shape
    u = values(mu, tf.reshape(batch.x, [-1, 2]), z)  # [M, P·K]
    u = weak.with_boundary(u, z, tf.reshape(batch.nodes, [-1]))
    r = corner_sums(weak.equation, batch.elements, batch.corners, u, z, P * K)
    return tf.reshape(r, [-1, P, K])


def local_factors(batch: PatchBatch, is_test: tf.Tensor) -> tf.Tensor:
    """Cholesky factors of A_QQ, the stiffness matrix of each patch's test nodes; [P, Q, Q]."""
    (P, K), Q = batch.nodes.shape, is_test.shape[1]
    phi, area = batch.elements.grad_phi, batch.elements.area
    patch, slot = tf.repeat(tf.range(P), area.shape[0] // P), batch.corners % K
    inside = tf.cast(slot < Q, area.dtype)
    slopes = [along * tf.sqrt(area) * inside for along in tf.unstack(phi, num=2)]
    k = tf.add_n([along[:, None] * along[None] for along in slopes])  # |e| ∇φ_q·∇φ_q'; einsum takes ten times as long
    slot = tf.minimum(slot, Q - 1)
    entry = (patch * Q + slot[:, None]) * Q + slot[None]
    A = tf.reshape(tf.math.unsorted_segment_sum(k, entry, P * Q * Q), [P, Q, Q])
    return tf.linalg.cholesky(A + tf.linalg.diag(tf.cast(~is_test, A.dtype)))  # unused slots: the identity


def whitenings(tables: PatchTables, weight: np.ndarray, dtype) -> tf.Tensor:
    """C⁻¹D for every patch, A_QQ = CCᵀ and D the weights of its test nodes: ‖C⁻¹Dr‖² = (Dr)ᵀA_QQ⁻¹(Dr); [C, Q, Q].

    ``tables`` in double precision, ``weight`` by node; unused slots have weight 0.
    """

    def some(index):
        batch, is_test = tables.batch(index), tf.gather(tables.is_test, index)
        D = tf.where(is_test, tf.gather(tf.constant(weight), batch.nodes[:, : tables.Q]), 0.0)
        return tf.cast(tf.linalg.triangular_solve(local_factors(batch, is_test), tf.linalg.diag(D)), dtype)

    starts = tqdm(range(0, tables.C, _CHUNK), "local solves", delay=3, leave=False)
    return tf.concat([some(tf.range(start, min(start + _CHUNK, tables.C))) for start in starts], axis=0)


def root_cover(p: Patches) -> np.ndarray:
    """[n] D = 1/√(number of patches that test the node); 0 on the boundary."""
    D = np.zeros(p.mesh.n_nodes)
    D[p.mesh.interior] = 1 / np.sqrt(np.maximum(p.cover, 1))  # given centres may leave nodes untested
    return D


def local_quadratic_form(patches: Patches, A: sp.csc_matrix) -> sp.csr_matrix:
    """Σ_p RᵀD A_QQ⁻¹ D R as a sparse matrix [N, N], D² = 1/cover: what the mini-patches add up to."""
    N = A.shape[0]
    number = patches.mesh.interior_number[patches.nodes[:, : patches.Q]]
    weight = np.where(patches.is_test, root_cover(patches)[patches.nodes[:, : patches.Q]], 0.0)
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
