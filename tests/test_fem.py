"""Meshes, assembly and solves against theory, scikit-fem, and slow loops."""

import numpy as np
import pytest

import pdevae
import reference
from conftest import DOMAINS, L_SHAPE, relative_difference, wavy
from pdevae._tensorflow import tf
from pdevae.fem.transfer import coarser, coarser_meshes, interpolation, prolongation
from study import forward
from study.transport.dense import dense_solve


def test_p1_elements_converge_at_the_rates_of_theory():
    errors = [forward.convergence({"nodes": n}, 0) for n in (400, 1600, 6400)]
    slope = {k: np.polyfit(*np.log([[e["h"] for e in errors], [e[k] for e in errors]]), 1)[0] for k in ("L2", "H1")}
    assert slope["L2"] == pytest.approx(2, abs=0.05)
    assert slope["H1"] == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("domain", ["square", "disc", "star"])
def test_assembly_equals_scikit_fem_for_random_coefficients(domain):
    differences = forward.assembly_difference({"domain": domain, "nodes": 300}, seed=1)
    assert max(differences.values()) <= 1e-12


def test_assembly_equals_scikit_fem_for_constant_and_varying_coefficients():
    import skfem
    from skfem.helpers import dot, grad

    mesh = pdevae.star(nodes=300)
    centroid = (np.full((2, 1), 1 / 3), np.array([0.5]))  # the quadrature rule of element_residual
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1(), quadrature=centroid)
    tau = np.array([0.4, -1.1])
    for a in (lambda x: 0.3 + 0 * x[0], lambda x: 1 + x[0] ** 2 + x[1] ** 2):
        form = skfem.BilinearForm(
            lambda u, v, w, a=a: a(w.x) * dot(grad(u), grad(v)) + (tau[0] * grad(u)[0] + tau[1] * grad(u)[1]) * v
        )
        weak = pdevae.WeakForm(
            mesh, pdevae.Diffusion(lambda x, z, a=a: a((x[..., 0], x[..., 1]))) + pdevae.Transport(tau)
        )
        assert abs(weak.matrix() - form.assemble(basis)[mesh.interior]).max() <= 1e-12


def test_residual_rows_equal_a_loop_over_elements(small_mesh, z):
    weak = pdevae.WeakForm(small_mesh, pdevae.Diffusion(0.7) + pdevae.Transport() - pdevae.Source(2.0))
    u = weak.values(wavy, z)
    for m in range(len(z)):
        slow = reference.element_rows(small_mesh, 0.7, z[m].numpy(), 2.0, u[m].numpy())
        np.testing.assert_allclose(weak.residual(u, z)[m], slow, atol=1e-13)


def test_matrix_and_load_of_a_term_in_u_give_its_residual(small_mesh):
    class Decay(pdevae.Term):
        def flux(self, x, z, u, grad):
            return tf.stack([u * x[:, 1], 2 * grad[..., 0]], axis=-1)

        def volume(self, x, z, u, grad):
            return x[:, 0] * u - 3.0

    weak = pdevae.WeakForm(small_mesh, Decay())
    u = np.random.default_rng(0).normal(size=small_mesh.n_nodes)
    np.testing.assert_allclose(weak.matrix() @ u - weak.load(), weak.residual(u[None])[0], rtol=0, atol=1e-13)


def test_nonlinear_diffusion_with_constant_coefficient_is_diffusion(small_mesh, z):
    u = wavy(tf.constant(small_mesh.points), z)
    nonlinear = pdevae.NonlinearDiffusion(lambda x, z, u, grad: 0.7 + 0 * u)
    rows = [pdevae.WeakForm(small_mesh, op).residual(u, z) for op in (nonlinear, pdevae.Diffusion(0.7))]
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-14)


def test_sparse_solve_and_adjoint_equal_dense_autodiff(small_mesh, z):
    coefficient = lambda x, z: tf.exp(0.2 * z[:, :1] * x[..., 0])  # noqa: E731
    equation = pdevae.Diffusion(coefficient) + pdevae.Transport() - pdevae.Source(lambda x, z: 1 + z[:, 1:] * x[..., 1])
    solver = pdevae.Solver(pdevae.WeakForm(small_mesh, equation, boundary=lambda x: 0.1 * x[:, 0]))
    values, gradients = [], []
    for solve in (solver.solve, lambda z: dense_solve(solver.weak, z, z.shape[0])):
        with tf.GradientTape() as tape:
            tape.watch(z)
            u = solve(z)
            loss = tf.reduce_sum(tf.sin(3 * u))
        values.append(u)
        gradients.append(tape.gradient(loss, z))
    assert relative_difference(values[0], values[1]) < 1e-12
    assert relative_difference(gradients[0], gradients[1]) < 1e-10
    residual = solver.weak.residual(values[0], z)
    assert np.abs(residual).max() < 1e-12


def test_the_compiled_matrix_is_the_interior_part_of_the_weak_form_s(small_mesh, z):
    equation = pdevae.Diffusion(lambda x, z: tf.exp(0.2 * z[:, :1] * x[..., 0])) + pdevae.Transport()
    solver = pdevae.Solver(pdevae.WeakForm(small_mesh, equation, boundary=0.0))
    for one in z:  # a matrix of its own for each, from the same compiled call
        expected = solver.weak.matrix(one[None])[:, small_mesh.interior]
        assert abs(solver.matrix(one[None]) - expected).max() < 1e-13


def test_boundary_values_are_met_whatever_the_field_is(small_mesh, z):
    """u = g + w·μ with a harmonic g and −Δw = const, to rounding; w is 0 at boundary nodes alone."""
    weak = pdevae.WeakForm(small_mesh, pdevae.Diffusion(), boundary=lambda x: x[:, 0])
    edge, (g, w) = small_mesh.is_boundary, pdevae.lift(small_mesh, lambda x: x[:, 0])
    u = weak.values(wavy, z).numpy()
    np.testing.assert_array_equal(u[:, edge], np.tile(small_mesh.points[edge, 0], (3, 1)))
    np.testing.assert_allclose(u, g + w * wavy(tf.constant(small_mesh.points), z).numpy())
    np.testing.assert_allclose(g, small_mesh.points[:, 0], atol=1e-12)
    assert (w[edge] == 0).all() and (w[~edge] > 0).all() and w.max() == 1
    A, one = pdevae.stiffness(small_mesh), pdevae.WeakForm(small_mesh, pdevae.Diffusion() - pdevae.Source(1.0)).load()
    np.testing.assert_allclose(A @ w[~edge] / one, np.full(one.shape, (A @ w[~edge] / one)[0]), rtol=1e-9)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("nodes", [100, 3000, 50_000])
def test_meshes_have_the_wanted_number_of_nodes(domain, nodes):
    mesh = DOMAINS[domain](nodes=nodes)
    assert mesh.n_nodes == pytest.approx(nodes, rel=0.05)
    assert mesh.n_nodes - len(mesh.edges) + mesh.n_elements == 1  # Euler: one piece, no holes


def test_meshes_cover_their_region():
    area = lambda mesh: pdevae.WeakForm(mesh, pdevae.Diffusion()).elements.area.numpy().sum()  # noqa: E731
    assert area(pdevae.disc(nodes=5000)) == pytest.approx(np.pi, rel=1e-3)
    assert area(pdevae.polygon(L_SHAPE, nodes=500)) == pytest.approx(3)
    hole = [(0.4, 0.4), (0.6, 0.4), (0.6, 0.6), (0.4, 0.6)]
    holed = pdevae.polygon([(0, 0), (1, 0), (1, 1), (0, 1)], holes=[hole], max_edge=0.1)
    assert area(holed) == pytest.approx(0.96)
    inner = np.abs(holed.points[holed.is_boundary] - 0.5).max(axis=1) < 0.2
    assert inner.any()  # the rim of the hole is boundary


def test_a_mesh_from_elsewhere_can_be_coarsened():
    hole = [(0.4, 0.4), (0.6, 0.4), (0.6, 0.6), (0.4, 0.6)]
    ours = pdevae.polygon([(0, 0), (2, 0), (2, 1), (0, 1)], holes=[hole], max_edge=0.05)
    theirs = pdevae.Mesh(ours.points, ours.triangles)
    coarse = coarser(theirs, max_edge=0.2)
    assert coarse.n_nodes < ours.n_nodes / 4
    area = pdevae.WeakForm(coarse, pdevae.Diffusion()).elements.area.numpy().sum()
    assert area == pytest.approx(2 - 0.04)


def test_max_edge_controls_the_mesh():
    assert pdevae.star(max_edge=0.1).max_edge < 0.17
    assert pdevae.square(max_edge=0.1).max_edge <= 0.1


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: pdevae.polygon([(0, 0), (1, 1), (1, 0), (0, 1)], max_edge=0.1), "not simple"),
        (lambda: pdevae.polygon([(0, 0), (1, 1)], max_edge=0.1), "three finite corners"),
        (lambda: pdevae.polygon([(0, 0), (1, np.nan), (0, 1)], max_edge=0.1), "three finite corners"),
        (lambda: pdevae.square(), "nodes=… and max_edge=…"),
        (lambda: pdevae.square(nodes=-3), "must be positive"),
        (lambda: pdevae.square(nodes=4), "none of them interior"),
        (lambda: pdevae.star(nodes=100, depth=2.0), "[0, 1)"),
    ],
)
def test_bad_regions_are_refused_in_one_line(make, says):
    with pytest.raises(pdevae.UserError) as refused:
        make()
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_places_are_found_in_elements_of_any_size():
    """A large element beside a fine patch: none of the nodes nearest to the place is a corner of it."""
    fine = pdevae.square(nodes=100)
    large = np.array([[-9.0, 1.05], [10.0, 1.05], [0.5, 9.0]])
    mesh = pdevae.Mesh(np.concatenate([fine.points, large]), np.concatenate([fine.triangles, [[100, 101, 102]]]))
    x = np.array([[0.5, 1.06], [0.5, 0.5], [0.3, 1.1], [0.5, 8.0]])
    np.testing.assert_allclose(interpolation(mesh, x) @ mesh.points, x, atol=1e-12)


def test_few_places_are_found_as_many_are():
    mesh = pdevae.star(nodes=3000)
    x = np.random.default_rng(0).uniform(-1.4, 1.4, size=(2500, 2))  # outside too
    many = interpolation(mesh, x).toarray()
    few = np.concatenate([interpolation(mesh, part).toarray() for part in np.split(x, 5)])
    np.testing.assert_allclose(few, many, atol=1e-12)


def test_interpolation_is_exact_for_linear_functions():
    mesh = pdevae.star(nodes=400)
    x = 0.4 * np.random.default_rng(0).uniform(-1, 1, (50, 2))
    linear = lambda x: 1 + 2 * x[:, 0] - 3 * x[:, 1]  # noqa: E731
    np.testing.assert_allclose(interpolation(mesh, x) @ linear(mesh.points), linear(x), atol=1e-12)
    assert interpolation(mesh, np.array([[9.0, 9.0]])).nnz == 0


def test_prolongation_on_nested_squares_restricts_the_stiffness_matrix():
    fine, coarse = pdevae.square(nodes=33**2), pdevae.square(nodes=9**2)
    Pi = prolongation(coarse, fine)
    assert abs(Pi.T @ pdevae.stiffness(fine) @ Pi - pdevae.stiffness(coarse)).max() < 1e-13


def test_coarser_meshes_end_small():
    sizes = [len(mesh.interior) for mesh in coarser_meshes(pdevae.star(nodes=5000), factor=4, coarsest=64)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] <= 64 < sizes[-2]
