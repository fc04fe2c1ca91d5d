"""Bases of scikit-fem as forward maps: its own assembly and solutions, sensitivities, and what decoders say."""

import numpy as np
import pytest
import skfem
from skfem.helpers import dot, grad

import pdevae
from pdevae._tensorflow import tf

SQUARES = skfem.MeshQuad.init_tensor(*2 * [np.linspace(0, 1, 13)])
BASES = {
    "bilinear": skfem.Basis(SQUARES, skfem.ElementQuad1()),
    "quadratic triangles": skfem.Basis(SQUARES.to_meshtri(), skfem.ElementTriP2()),
    "linear triangles": skfem.Basis(SQUARES.to_meshtri(), skfem.ElementTriP1()),
}
LATENTS = pdevae.Latents(k=pdevae.Normal(2, sd=0.5))


def diffusion(x, z):
    return tf.exp(z.k[..., 0] * x[:, 0] + z.k[..., 1] * x[:, 1])


EQUATION = pdevae.Diffusion(diffusion) + pdevae.Transport([1.0, 0.5]) - pdevae.Source(lambda x, z: 1 + x[:, 1])


@pytest.mark.parametrize("name", BASES)
def test_a_solution_is_scikit_fems(name):
    basis, z = BASES[name], np.array([0.7, -0.4])

    @skfem.BilinearForm
    def operator(u, v, w):
        a = np.exp(0.5 * (z[0] * w.x[0] + z[1] * w.x[1]))
        return a * dot(grad(u), grad(v)) + (u.grad[0] + 0.5 * u.grad[1]) * v

    @skfem.LinearForm
    def load(v, w):
        return (1 + w.x[1]) * v

    known = basis.zeros()
    known[basis.get_dofs().all()] = 0.3
    right = skfem.solve(*skfem.condense(operator.assemble(basis), load.assemble(basis), x=known, D=basis.get_dofs()))
    forward = pdevae.Forward(basis, EQUATION, LATENTS, boundary=0.3)
    np.testing.assert_allclose(forward.solve(tf.constant(z[None]))[0], right, atol=1e-12)
    x = np.array([[0.31, 0.42], [0.77, 0.2]])
    np.testing.assert_allclose(forward.reader(x) @ right, basis.probes(x.T) @ right)


def test_sensitivities_are_those_of_differences_and_methods_that_solve_take_it():
    forward = pdevae.Forward(BASES["bilinear"], EQUATION, LATENTS, boundary=0.0)
    x, z = np.random.default_rng(0).uniform(0.1, 0.9, (12, 2)), np.array([0.5, -0.8])
    read = forward.reader(x)
    readings, J = forward.sensitivity(z, read)
    for k, step in enumerate(1e-5 * np.eye(2)):
        two = forward.solve(tf.constant(np.stack([z + step, z - step]))).numpy() @ read.T
        np.testing.assert_allclose(J[:, k], (two[0] - two[1]) / 2e-5, rtol=1e-5, atol=1e-9)
    problem = pdevae.InverseProblem.on(forward, x, readings, 1e-4)
    assert np.all(np.abs(pdevae.Laplace()(problem).mean - z) < 0.1)


def test_decoders_and_places_outside_are_refused_in_words():
    forward = pdevae.Forward(BASES["bilinear"], EQUATION, LATENTS, boundary=0.0)
    problem = pdevae.InverseProblem.on(forward, [[0.5, 0.5]], [0.1], 0.01)
    for method in (pdevae.CVI(), pdevae.SolvedCVI(), lambda p: pdevae.Decoder.train(p.forward)):
        with pytest.raises(pdevae.UserError, match="scikit-fem basis"):
            method(problem)
    with pytest.raises(pdevae.UserError, match="outside"):
        forward.reader([[1.5, 0.5]])
    with pytest.raises(pdevae.UserError, match="boundary"):
        pdevae.Forward(BASES["bilinear"], EQUATION, LATENTS, boundary=None)
