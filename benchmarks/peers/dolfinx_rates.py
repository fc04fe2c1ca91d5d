"""DOLFINx on the mesh in PROBLEM.npz: dolfinx_rates.py PROBLEM.npz OUT.npz; for the Python that has it (Debian's).

Assembly of 0.3∇u·∇v + (τ·∇u)v into a matrix that exists, and LU with PETSc; medians. Compiling the form is not counted.
"""

import sys
import time

import dolfinx
import numpy as np
import ufl
from dolfinx import fem, mesh
from mpi4py import MPI
from petsc4py import PETSc


def median(call, repeats=7):
    taken = []
    for _ in range(repeats + 1):
        begun = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begun)
    return float(np.median(taken[1:]))


def main(problem, out):
    given = np.load(problem)
    cell = ufl.Mesh(ufl.VectorElement("Lagrange", "triangle", 1))
    domain = mesh.create_mesh(MPI.COMM_WORLD, given["triangles"].astype(np.int64), given["points"], cell)
    V = fem.FunctionSpace(domain, ("Lagrange", 1))
    u, v = ufl.TrialFunction(V), ufl.TestFunction(V)
    tau = fem.Constant(domain, PETSc.ScalarType((1.0, 2.0)))
    a = fem.form((0.3 * ufl.dot(ufl.grad(u), ufl.grad(v)) + ufl.dot(tau, ufl.grad(u)) * v) * ufl.dx)
    load = fem.form(1.0 * v * ufl.dx)
    domain.topology.create_connectivity(1, 2)
    edge = fem.locate_dofs_topological(V, 1, mesh.exterior_facet_indices(domain.topology))
    fixed = fem.dirichletbc(PETSc.ScalarType(0), edge, V)
    A = fem.petsc.create_matrix(a)

    def assemble():
        A.zeroEntries()
        fem.petsc.assemble_matrix(A, a, bcs=[fixed])
        A.assemble()

    seconds = median(assemble)
    b = fem.petsc.assemble_vector(load)
    fem.petsc.set_bc(b, [fixed])
    x = b.duplicate()

    def solve():
        solver = PETSc.KSP().create()
        solver.setOperators(A)
        solver.setType("preonly")
        solver.getPC().setType("lu")
        solver.solve(b, x)
        solver.destroy()

    np.savez(out, assemble=seconds, solve=median(solve, 3), largest=x.array.max(), version=dolfinx.__version__)


if __name__ == "__main__":
    import dolfinx.fem.petsc

    main(*sys.argv[1:3])
