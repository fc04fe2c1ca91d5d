"""Edges without flow: the weak form, the solver and the penalties against scikit-fem, which has them built in."""

import numpy as np
import pytest
import skfem
from skfem.models.poisson import laplace, unit_load

import pdevae
from conftest import L_SHAPE
from pdevae._tensorflow import tf
from pdevae.fem.mesh import rings


def right(x):
    """The right and lower edges of the L, their ends with held edges apart."""
    return (x[:, 1] < 1e-9) & (x[:, 0] > 1e-9) | (x[:, 0] > 2 - 1e-9) & (x[:, 1] < 1 - 1e-9)


def opened(nodes):
    return pdevae.polygon(L_SHAPE, nodes=nodes).no_flow(right)


EQUATION = pdevae.Diffusion(1.0) - pdevae.Source(1.0)


def test_the_rows_and_the_solution_are_those_of_scikit_fem():
    mesh = opened(400)
    weak = pdevae.WeakForm(mesh, EQUATION, boundary=0.0)
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1())
    A, b, held = laplace.assemble(basis), unit_load.assemble(basis), np.flatnonzero(mesh.is_boundary)
    assert mesh.on_edge.sum() > len(held)
    np.testing.assert_allclose(weak.matrix().toarray(), A.toarray()[mesh.interior], atol=1e-12)
    np.testing.assert_allclose(weak.load(), b[mesh.interior], atol=1e-14)
    u = skfem.solve(*skfem.condense(A, b, D=held))
    np.testing.assert_allclose(pdevae.Solver(weak).solve()[0], u, atol=1e-12)


def test_rates_against_a_solution_in_closed_form():
    """The square, held at x = 0, no flow elsewhere: u = (x − x²/2) cos πy."""
    off, h = [], []
    for nodes in (100, 400, 1600):
        mesh = pdevae.square(nodes=nodes).no_flow(lambda x: x[:, 0] > 1e-9)
        y = mesh.points[:, 1]
        bent = pdevae.Source(lambda x, z: tf.cos(np.pi * x[:, 1]) * (1 + np.pi**2 * (x[:, 0] - x[:, 0] ** 2 / 2)))
        u = pdevae.Solver(pdevae.WeakForm(mesh, pdevae.Diffusion(1.0) - bent, boundary=0.0)).solve()[0]
        true = (mesh.points[:, 0] - mesh.points[:, 0] ** 2 / 2) * np.cos(np.pi * y)
        off.append(np.sqrt(np.mean((u - true) ** 2)))
        h.append(mesh.max_edge)
    assert np.all(np.diff(np.log(off)) / np.diff(np.log(h)) > 1.9)


def test_rings_are_the_elements_around_each_node():
    mesh = opened(150)
    found = set()
    for j, ring in zip(mesh.interior, rings(mesh)):
        for a, b in zip(ring, np.roll(ring, -1)):
            if len({int(j), int(a), int(b)}) == 3:
                found.add(frozenset(map(int, (j, a, b))))
    tested = ~mesh.is_boundary[mesh.triangles].all(axis=1)
    assert found == {frozenset(map(int, t)) for t in mesh.triangles[tested]}


@pytest.fixture(scope="module")
def solved():
    mesh = opened(1000)
    weak = pdevae.WeakForm(mesh, EQUATION, boundary=0.0)
    return weak, pdevae.Solver(weak).solve()[0].numpy()


@pytest.mark.parametrize("name", ["ExactPenalty", "TwoLevelPenalty", "MultilevelPenalty"])
def test_a_penalty_vanishes_at_the_solution_and_is_near_the_exact_norm_elsewhere(name, solved):
    (weak, u), mesh = solved, solved[0].mesh
    penalty = getattr(pdevae, name)(mesh, EQUATION, **({} if name == "ExactPenalty" else {"patch_nodes": 16}))

    def nodal(values):  # the field with these nodal values, for places that are nodes
        table = {tuple(x): v for x, v in zip(mesh.points.round(12), values)}
        return lambda x, z: tf.constant([[table[tuple(place)] for place in x.numpy().round(12)]], x.dtype)

    at_solution = float(penalty(nodal(u), None, (0, 1)))
    bumped = u + 0.1 * np.sin(3 * mesh.points[:, 0]) * weak.g_and_w[1].numpy()
    exact = float(pdevae.ExactPenalty(mesh, EQUATION)(nodal(bumped), None, (0, 1)))
    assert abs(at_solution) < 1e-16
    found = np.mean([float(penalty(nodal(bumped), None, (0, k))) for k in range(20)])
    assert 0.5 * exact < found < 6 * exact


def test_the_spectrum_of_the_two_level_norm_does_not_see_the_mesh():
    """Equivalent to the dual norm, the rows of the open edge included."""
    limits = []
    for nodes in (300, 1200):
        mesh = opened(nodes)
        B = pdevae.TwoLevelPenalty(mesh, EQUATION, patch_nodes=16).quadratic_form()
        A = pdevae.stiffness(mesh).toarray()
        values = np.sort(np.linalg.eigvals(A @ (B @ np.eye(len(A)))).real)
        limits.append((values[0], values[-1]))
    assert all(low > 0.2 and high < 6 for low, high in limits), limits


def test_a_region_without_a_held_node_is_refused():
    with pytest.raises(pdevae.UserError, match="leave some node out"):
        pdevae.disc(nodes=100).no_flow(lambda x: x[:, 0] > -9)
