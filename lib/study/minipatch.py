"""Section 4 and the supplement on mini-patching: how well local penalties stand in for rᵀA⁻¹r."""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd
from skfem import Basis, ElementTriP1
from skfem.models.poisson import mass

from pdevae._tensorflow import graph, tf
from pdevae.fem import domains
from pdevae.fem.elements import elements
from pdevae.fem.factors import factorise
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion, Source, Term, Transport
from pdevae.fem.weak_form import WeakForm, stiffness
from pdevae.penalties import MultilevelPenalty, Penalty, TaperedPenalty, TwoLevelPenalty
from pdevae.penalties.base import on_host, quadratic
from pdevae.penalties.minipatches import patches, radius_for
from pdevae.penalties.spectra import captured_share, relative_eigenvalues
from pdevae.penalties.tapered import gamma_matrix, tapered_rows
from pdevae.streams import random
from study.streams import Stream
from study.tables import columns, mesh_columns

_EQUATION = Diffusion(1.0) + Transport(np.array([1.0, 1.0])) - Source(1.0)  # the supplement's
_L_SHAPE = [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)]


def mesh_of(domain: str, nodes: int) -> Mesh:
    return domains.polygon(_L_SHAPE, nodes=nodes) if domain == "L" else getattr(domains, domain)(nodes=nodes)


def penalty_of(method: str, mesh: Mesh, equation: Term, patch_nodes: int, n_patches: int = 1) -> Penalty:
    if method == "two-level":
        return TwoLevelPenalty(mesh, equation, patch_nodes, n_patches=n_patches)
    if method == "multilevel":
        return MultilevelPenalty(mesh, equation, patch_nodes, n_patches=n_patches)
    return TaperedPenalty(mesh, equation, patch_nodes=patch_nodes, n_patches=n_patches, taper=method)


def minipatch_picture(nodes: int, patch_nodes: int, near=(0.25, 0.1)) -> pd.DataFrame:
    """One mini-patch on the star: centre, nei_Γ, the nodes around, the active elements, and the disc of radius ρ."""
    mesh = domains.star(nodes=nodes)
    rho, centre = radius_for(mesh, patch_nodes), _nearest(mesh, near)
    patch = patches(mesh, rho=rho, centres=np.array([centre]))
    role = np.zeros(mesh.n_nodes)
    role[patch.nodes[0]] = 1
    role[patch.nodes[0, : patch.Q][patch.is_test[0]]] = 2
    role[centre] = 3
    active = (role[mesh.triangles] >= 2).any(axis=1)
    return _roles(mesh, role, active, rho)


def submesh_picture(nodes: int, near=(0.25, 0.1)) -> pd.DataFrame:
    """The smallest mini-patch: all elements with a vertex in nei_Δ(i) (supp:fig:submesh)."""
    mesh = domains.star(nodes=nodes)
    centre = _nearest(mesh, near)
    neighbours = np.unique(mesh.edges[(mesh.edges == centre).any(axis=1)])
    active = np.isin(mesh.triangles, neighbours).any(axis=1)
    role = np.zeros(mesh.n_nodes)
    role[np.unique(mesh.triangles[active])] = 1
    role[neighbours], role[centre] = 2, 3
    return _roles(mesh, role, active, np.nan)


def _roles(mesh, role, active, rho) -> pd.DataFrame:
    node, triangle = mesh_columns(mesh, role=role)
    return pd.DataFrame(columns(node, triangle | {"active": active}, {"kind": "radius", "rho": [rho]}))


def _nearest(mesh: Mesh, place) -> int:
    return int(mesh.interior[np.argmin(np.linalg.norm(mesh.points[mesh.interior] - place, axis=1))])


def perturbation_errors(config: dict, seed: int) -> dict[str, np.ndarray]:
    """supp:fig:mp_exper for one perturbation w: the tapered estimate against R = rᵀA⁻¹r, by radius and P.

    ``reading`` of the supplement: "load" perturbs the load vector by w ~ N(0, ε²A); "function" perturbs the source
    by w(x) = Σ wᵢφᵢ(x), whose load is Mw. The residual of the perturbed solution is that load.
    """
    rng = random(Stream.PERTURBATION, seed)
    mesh = mesh_of(config["domain"], config["nodes"])
    A = stiffness(mesh)
    w = config["eps"] * _draw_from_stiffness(mesh, rng)
    load = w if config["reading"] == "load" else _mass(mesh) @ w
    weak = WeakForm(mesh, _EQUATION)
    u_eps = np.zeros(mesh.n_nodes)
    u_eps[mesh.interior] = factorise(weak.matrix()[:, mesh.interior]).solve(weak.load() + load)
    r = weak.residual(tf.constant(u_eps[None])).numpy()[0]  # L u_ε − b
    R, N = r @ factorise(A).solve(r), len(r)
    rows = []
    for rho in np.geomspace(1.05 * mesh.max_edge, 1.5 * np.linalg.norm(np.ptp(mesh.points, axis=0)), config["radii"]):
        patch = patches(mesh, rho=rho)
        terms = r * (gamma_matrix(patch, tapered_rows(patch, "hard")) @ r)  # r⁽ⁱ⁾ for every centre i
        for P in config["P"]:
            estimate = terms[rng.integers(N, size=P)].mean()
            rows.append((rho, P, estimate, patch.coverage))
        rows.append((rho, N, terms.mean(), patch.coverage))
    rho, P, estimate, coverage = np.array(rows).T
    return {
        "rho": rho,
        "patches": np.where(P == N, 0, P).astype(int),  # 0: all of them, no sampling error
        "coverage": coverage,
        "error_literal": np.abs(np.sqrt(R) - estimate),  # √R against (1/P)Σ, as printed
        "error_per_node": np.abs(R / N - estimate),  # what (1/P)Σ can estimate
        "error_relative": np.abs(R - N * estimate) / R,  # with the factor N/P, relative to R
    }


def _draw_from_stiffness(mesh: Mesh, rng) -> np.ndarray:
    """w ~ N(0, A): A = DᵀD with D the weighted gradients on elements, so w = Dᵀξ."""
    e = elements(tf.constant(mesh.points[mesh.triangles.T]))
    xi = rng.normal(size=(2, 1, mesh.n_elements))
    parts = (np.sqrt(e.area) * e.grad_phi * xi).numpy().sum(axis=0)  # [3, E]
    return np.bincount(mesh.triangles.T.ravel(), parts.ravel(), mesh.n_nodes)[mesh.interior]


def _mass(mesh: Mesh):
    return mass.assemble(Basis(mesh.skfem, ElementTriP1()))[mesh.interior][:, mesh.interior]


def spectrum(config: dict, seed: int) -> dict[str, float]:
    """Eigenvalues of a penalty's matrix relative to A⁻¹ and, on the square, the share it sees by wavenumber."""
    mesh = mesh_of(config["domain"], config["nodes"])
    B = penalty_of(config["method"], mesh, _EQUATION, config["patch_nodes"]).quadratic_form()
    low, high = relative_eigenvalues(B, mesh)
    shares = {f"share_{k}": captured_share(B, mesh, k) for k in config["wavenumbers"]}
    return {"interior": len(mesh.interior), "lambda_min": low, "lambda_max": high} | shares


def gradient_noise(config: dict, seed: int) -> dict[str, np.ndarray]:
    """E‖ĝ − g‖² / ‖g‖² for the gradient in a network's weights, against the number of patches P."""
    mesh = mesh_of(config["domain"], config["nodes"])
    weights, mu = small_network(seed)
    rows = []
    for P in config["P"]:
        penalty = penalty_of(config["method"], mesh, _EQUATION, config["patch_nodes"], P)
        rows.append((P, _noise_to_signal(penalty, mu, weights, seed, config["draws"])))
    P, noise = np.array(rows).T
    return {"patches": P.astype(int), "noise": noise, "interior": len(mesh.interior)}


def _noise_to_signal(penalty: Penalty, mu, weights, seed: int, draws: int) -> float:
    full = _gradient(lambda: _full_sum(penalty, mu), weights).numpy()
    step = graph(lambda s: _gradient(lambda: penalty(mu, tf.zeros([1, 1], tf.float64), s), weights))
    sampled = np.array([step(tf.constant([seed, k])).numpy() for k in range(draws)])
    return float(((sampled - full) ** 2).sum(axis=1).mean() / (full**2).sum())


def multilevel_bias(config: dict, seed: int) -> dict[str, float]:
    """Mean of many multilevel estimates against their full sum: the coarse residuals are sampled, is it seen?"""
    mesh = mesh_of(config["domain"], config["nodes"])
    penalty = MultilevelPenalty(mesh, _EQUATION, 32, coarse_patches=4, draws=2)
    _, mu = small_network(seed)
    full = float(_full_sum(penalty, mu))
    step = graph(lambda s: penalty(mu, tf.zeros([1, 1], tf.float64), s))
    draws = np.array([step(tf.constant([seed, k])).numpy() for k in range(config["draws"])]) / full
    return {
        "bias": draws.mean() - 1,
        "standard_error": draws.std() / np.sqrt(len(draws)),
        "interior": len(mesh.interior),
    }


def small_network(seed: int, width: int = 16):
    """Weights and field of a two-layer network in x that vanishes on the boundary of the unit square."""
    rng = random(Stream.GRADIENT_NOISE, seed)
    shapes = ((2, width), (width,), (width, width), (width,), (width, 1))
    weights = [tf.Variable(rng.normal(size=s) / np.sqrt(s[0] if len(s) == 2 else 1)) for s in shapes]

    def mu(x, z):
        h = tf.tanh(4 * x @ weights[0] + weights[1])
        u = tf.tanh(h @ weights[2] + weights[3]) @ weights[4]
        bubble = tf.reduce_prod(x * (1 - x), axis=-1)
        return (16 * bubble * u[:, 0])[None]

    return weights, mu


def _full_sum(penalty: Penalty, mu) -> tf.Tensor:
    """rᵀBr with every patch in it."""
    z = tf.zeros([1, 1], tf.float64)
    r = penalty.weak.residual(penalty.weak.values(mu, z), z)
    return quadratic(r, partial(on_host, penalty.quadratic_form().matmat))[0]


def _gradient(loss, weights) -> tf.Tensor:
    with tf.GradientTape() as tape:
        value = loss()
    return tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(value, weights)], axis=0)
