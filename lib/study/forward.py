"""Section 2 and fig:pde_as_smoothers: the forward problem, its exact posterior, and what P1 elements promise."""

from __future__ import annotations

import numpy as np
import pandas as pd
import skfem
from skfem.helpers import dot, grad

from pdevae._tensorflow import tf
from pdevae.fem import domains
from pdevae.fem.operators import Diffusion, Source, Transport
from pdevae.fem.solve import Solver
from pdevae.fem.weak_form import WeakForm
from pdevae.inference.forward import Forward
from pdevae.inference.latents import Latents, Normal
from pdevae.inference.problem import InverseProblem
from pdevae.inference.quadrature import exact
from pdevae.inference.solved import SolvedCVI
from pdevae.streams import random
from study.streams import Stream
from study.tables import columns, mesh_columns
from study.transport.problem import equation


def gaussian_process(seed: int, length: float, features: int = 400):
    """A draw from a GP with a squared-exponential kernel, by random Fourier features: defined at any x [*, 2]."""
    rng = random(Stream.GAUSSIAN_PROCESS, seed)
    omega = rng.normal(size=(2, features)) / length
    phase, weight = rng.uniform(0, 2 * np.pi, features), rng.normal(size=features) * np.sqrt(2 / features)
    return lambda x, z=None: tf.linalg.matvec(tf.cos(tf.linalg.matmul(x, omega) + phase), weight)


def transport_example(config: dict, seed: int) -> dict[str, np.ndarray]:
    """A noisy source, carried by τ: the field, sensors that read it, the posterior of τ, exact and by CVI."""
    rng = random(Stream.EXAMPLE, seed)
    g = gaussian_process(seed, config["source_length"])
    source = lambda x, z=None: 1.0 + config["source_sd"] * g(x)  # noqa: E731
    tau, a = np.array(config["tau"]), config["a"]
    truth = domains.star(nodes=config["data_nodes"])  # finer than the mesh used for inference
    inside = truth.points[rng.choice(truth.interior, config["sensors"], replace=False)]
    sensors = 0.9 * inside  # off the nodes, and off the boundary where u = 0 says nothing
    on = lambda mesh: Forward(mesh, equation(a, source), Latents(tau=Normal(2)), 0.0)  # noqa: E731
    fine, z = on(truth), tf.constant(tau[None])
    clean = fine.reader(sensors) @ fine.solve(z).numpy()[0]
    sigma = config["noise"] * clean.std()
    y = clean + sigma * rng.normal(size=len(clean))

    mesh = domains.star(nodes=config["nodes"])
    problem = InverseProblem.on(on(mesh), sensors, y, sigma)
    (places, weights), q = exact(problem).grid, SolvedCVI()(problem, seed)
    u = problem.solve(z).numpy()[0]
    nodes, triangles = mesh_columns(mesh, source=source(tf.constant(mesh.points)).numpy(), u=u)
    return columns(
        nodes,
        triangles,
        {"kind": "sensor", "x": sensors[:, 0], "y": sensors[:, 1], "u": y},
        {"kind": "posterior", "x": places[:, 0], "y": places[:, 1], "weight": weights},
        *(_ellipse(q.mean, q.covariance, share) for share in (0.5, 0.95)),
        {"kind": "cvi mean", "x": [q.mean[0]], "y": [q.mean[1]]},
        {"kind": "truth", "x": [tau[0]], "y": [tau[1]]},
    )


def _ellipse(mean: np.ndarray, covariance: np.ndarray, share: float) -> dict:
    """The contour of a Gaussian that encloses this share of its mass."""
    angle = np.linspace(0, 2 * np.pi, 100)
    circle = np.sqrt(-2 * np.log(1 - share)) * np.stack([np.cos(angle), np.sin(angle)])
    x, y = mean[:, None] + np.linalg.cholesky(covariance) @ circle
    return {"kind": "cvi contour", "x": x, "y": y, "share": share}


def fem_explained(nodes: int) -> pd.DataFrame:
    """supp. fig. FEM: a mesh, one of its basis functions, and the sparsity of A with boundary nodes first."""
    mesh = domains.star(nodes=nodes)
    order = np.argsort(~mesh.is_boundary, kind="stable")
    rank = np.argsort(order)
    phi = np.zeros(mesh.n_nodes)
    phi[np.argmin(np.linalg.norm(mesh.points - [0.15, 0.2], axis=1))] = 1.0
    node, triangle = mesh_columns(mesh, phi=phi, is_boundary=mesh.is_boundary)
    pairs = np.concatenate([mesh.edges, mesh.edges[:, ::-1], np.repeat(np.arange(mesh.n_nodes), 2).reshape(-1, 2)])
    entry = {"kind": "entry", "i": rank[pairs[:, 0]], "j": rank[pairs[:, 1]]}
    return pd.DataFrame(columns(node, triangle, entry))


def convergence(config: dict, seed: int) -> dict:
    """Errors of P1 elements for u = sin(πx) sin(2πy) under −∇·((1 + x)∇u) + (1, ½)·∇u = f on the unit square."""
    mesh = domains.square(nodes=config["nodes"])
    u, f = _manufactured()
    equation = Diffusion(lambda x, z: 1 + x[..., 0]) + Transport(np.array([1.0, 0.5])) - Source(f)
    weak = WeakForm(mesh, equation, boundary=0.0)
    solution = Solver(weak).solve()[0].numpy()
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1(), intorder=6)
    u_h = basis.interpolate(solution)
    exact, exact_grad = u(np.asarray(basis.global_coordinates()))
    L2 = skfem.Functional(lambda w: (w.u_h - exact) ** 2).assemble(basis, u_h=u_h)
    H1 = skfem.Functional(lambda w: sum((grad(w.u_h)[d] - exact_grad[d]) ** 2 for d in (0, 1))).assemble(basis, u_h=u_h)
    return {"h": mesh.max_edge, "L2": np.sqrt(L2), "H1": np.sqrt(H1)}


def _manufactured():
    pi = np.pi

    def u(x):
        s, c = [np.sin(pi * x[0]), np.sin(2 * pi * x[1])], [np.cos(pi * x[0]), np.cos(2 * pi * x[1])]
        return s[0] * s[1], (pi * c[0] * s[1], 2 * pi * s[0] * c[1])

    def f(x, z):
        s_x, s_y, c_y = tf.sin(pi * x[..., 0]), tf.sin(2 * pi * x[..., 1]), tf.cos(2 * pi * x[..., 1])
        # −(1+x)Δu − ∂ₓu + ∂ₓu + ½∂ᵧu: the slope of a cancels τ₁
        return (1 + x[..., 0]) * 5 * pi**2 * s_x * s_y + pi * s_x * c_y

    return u, f


def assembly_difference(config: dict, seed: int) -> dict:
    """Largest difference between our matrices, rows and loads and scikit-fem's, coefficients at random."""
    rng = np.random.default_rng(seed)
    mesh = getattr(domains, config["domain"])(nodes=config["nodes"])
    a, tau, f = (rng.uniform(0.5, 2, (mesh.n_elements, *shape)) for shape in ((), (2,), ()))
    weak = WeakForm(mesh, Diffusion(lambda x, z: a) + Transport(lambda x, z: tf.constant(tau)) - Source(lambda x, z: f))
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1(), intorder=1)
    form = skfem.BilinearForm(lambda u, v, w: a[:, None] * dot(grad(u), grad(v)) + dot(tau.T[:, :, None], grad(u)) * v)
    L = form.assemble(basis)[mesh.interior]
    b = skfem.LinearForm(lambda v, w: f[:, None] * v).assemble(basis)[mesh.interior]
    u = rng.normal(size=mesh.n_nodes)
    rows = weak.residual(tf.constant(u[None])).numpy()[0]
    return {
        "matrix": abs(weak.matrix() - L).max(),
        "rows": np.abs(rows - (L @ u - b)).max(),
        "load": np.abs(weak.load() - b).max(),
    }
