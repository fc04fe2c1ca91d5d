"""The obvious, slow versions: loops over elements, nodes and patches, straight from the definitions."""

import numpy as np


def element_rows(mesh, a, tau, f, u):
    """Σ_e r_ek by node: r_ek = |e| (a ∇φ_k·∇u + (τ·∇u − f)/3), one element at a time."""
    rows = np.zeros(mesh.n_nodes)
    for nodes in mesh.triangles:
        corners = mesh.points[nodes]
        basis = np.linalg.inv(np.column_stack([np.ones(3), corners]))  # φ_k = c_k + g_k·x
        grad_phi, area = basis[1:].T, 0.5 / abs(np.linalg.det(basis))
        grad_u = u[nodes] @ grad_phi
        for k, node in enumerate(nodes):
            rows[node] += area * (a * grad_phi[k] @ grad_u + (tau @ grad_u - f) / 3)
    return rows[mesh.interior]


def patch_sets(mesh, centre, rho):
    """Test nodes, all nodes and active elements of the patch around a node."""
    near = np.linalg.norm(mesh.points - mesh.points[centre], axis=1) < rho
    tests = {i for i in range(mesh.n_nodes) if near[i] and not mesh.is_boundary[i]}
    active = [tuple(sorted(t)) for t in mesh.triangles.tolist() if tests & set(t)]
    return tests, set().union(*active), sorted(active)


def hard_taper(A, points, rho):
    """Γ_ij = (A⁻¹)_ij where |x_i − x_j| < ρ."""
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    return np.where(distance < rho, np.linalg.inv(A.toarray()), 0.0)


def additive_schwarz(A, patches_tests, Pi, A_coarse):
    """Σ_p RᵀD A_pp⁻¹ D R + Π A_c⁻¹ Πᵀ, D² = 1/cover; patches as lists of interior numbers."""
    A, N = A.toarray(), A.shape[0]
    cover = np.zeros(N)
    for tests in patches_tests:
        cover[tests] += 1
    B = Pi @ np.linalg.inv(A_coarse) @ Pi.T
    for tests in patches_tests:
        weight = 1 / np.sqrt(cover[tests])
        B[np.ix_(tests, tests)] += weight[:, None] * np.linalg.inv(A[np.ix_(tests, tests)]) * weight
    return B
