"""Assembly and solve against scikit-fem, and against DOLFINx where the system has it (Debian: python3-dolfinx).

    .venv/bin/python benchmarks/peers_fem.py

The same mesh of the unit square, −0.3∇²u + τ·∇u = 1; the largest u must agree. scikit-fem finds the matrix's pattern
each time, and is set against our matrix made once; DOLFINx compiles its form and makes the pattern beforehand, and is
set against our matrix made again. Writes peers_fem.csv and bars.
"""

from __future__ import annotations

import shutil
import subprocess

import common
import numpy as np
import pandas as pd
import skfem
from core import EQUATION
from skfem.helpers import dot, grad
from tqdm import tqdm

import pdevae
from pdevae._tensorflow import tf
from pdevae.fem.factors import factorise
from study.explore.forward import AffineSolver

SIZES = (4096, 16_384, 65_536)
TURNS = 5
TAU = np.array([1.0, 2.0])
BUILD = common.HERE.parent / "build" / "peers"
DOLFINX = "/usr/bin/python3"  # the Python that Debian's packages belong to


def ours(mesh: pdevae.Mesh) -> dict:
    weak, z = pdevae.WeakForm(mesh, EQUATION), tf.constant(TAU[None])
    inside = mesh.interior
    again, quick = pdevae.Solver(weak), AffineSolver(mesh)
    f = weak.load(z)
    A = weak.matrix(z)[:, inside].tocsc()
    return {
        "assemble": {
            "pdevae: matrix": lambda: weak.matrix(z),
            "pdevae: matrix again, compiled": lambda: again.matrix(z),
        },
        "solve": {
            "pdevae: sparse LU": lambda: factorise(A).solve(f),
            "pdevae: sparse LU, order known": lambda: quick(0.3, TAU),
        },
        "largest": float(factorise(A).solve(f).max()),
    }


def scikit_fem(mesh: pdevae.Mesh) -> dict:
    basis = skfem.Basis(mesh.skfem, skfem.ElementTriP1(), intorder=1)
    form = skfem.BilinearForm(lambda u, v, w: 0.3 * dot(grad(u), grad(v)) + (w.t0 * grad(u)[0] + w.t1 * grad(u)[1]) * v)
    A = form.assemble(basis, t0=TAU[0], t1=TAU[1])
    b = skfem.LinearForm(lambda v, w: 1.0 * v).assemble(basis)
    system = skfem.condense(A, b, D=basis.get_dofs())
    return {
        "assemble": {"scikit-fem": lambda: form.assemble(basis, t0=TAU[0], t1=TAU[1])},
        "solve": {"scikit-fem: its default solver": lambda: skfem.solve(*system)},
        "largest": float(skfem.solve(*system).max()),
    }


def dolfinx(mesh: pdevae.Mesh) -> dict | None:
    """Medians from its own process; None where it is not there."""
    BUILD.mkdir(parents=True, exist_ok=True)
    given, left = BUILD / "mesh.npz", BUILD / "dolfinx.npz"
    if not shutil.which(DOLFINX) or subprocess.run([DOLFINX, "-c", "import dolfinx"], capture_output=True).returncode:
        return None
    np.savez(given, points=mesh.points, triangles=mesh.triangles)
    script = common.HERE / "peers" / "dolfinx_rates.py"
    subprocess.run([DOLFINX, str(script), str(given), str(left)], check=True, capture_output=True)
    with np.load(left) as found:
        return {name: found[name].item() for name in found.files}


def at(nodes: int) -> list[dict]:
    """Medians over turns, since the clocks of a shared machine drift: ours and scikit-fem's calls, then DOLFINx's."""
    mesh = pdevae.square(nodes=nodes)
    both = (ours(mesh), scikit_fem(mesh))
    rows = []
    for _ in range(TURNS):
        for what in ("assemble", "solve"):
            calls = {name: call for found in both for name, call in found[what].items()}
            rows += [dict(what=what, name=name, seconds=s) for name, s in common.alternate(calls, 3).items()]
        largest = {"pdevae": both[0]["largest"], "scikit-fem": both[1]["largest"]}
        third = dolfinx(mesh)
        if third:
            name = f"DOLFINx {third['version']}"
            rows += [dict(what=what, name=name, seconds=third[what]) for what in ("assemble", "solve")]
            largest["DOLFINx"] = third["largest"]
        np.testing.assert_allclose(list(largest.values()), largest["pdevae"], rtol=1e-2)
    table = pd.DataFrame(rows).groupby(["what", "name"], sort=False).seconds.median().reset_index()
    rate = {"assemble": mesh.n_elements, "solve": len(mesh.interior)}
    table["nodes"] = mesh.n_nodes
    table["per_second"] = table.what.map(rate) / table.seconds
    return table.to_dict("records")


def bars(table: pd.DataFrame) -> None:
    last = table[table.nodes == table.nodes.max()].set_index(["what", "name"]).seconds
    made = common.Bars("peers_fem")
    for (what, name), theirs in last.items():
        if name.startswith("pdevae"):
            continue
        once = "pdevae: matrix again, compiled" if name.startswith("DOLFINx") else "pdevae: matrix"
        mine = once if what == "assemble" else "pdevae: sparse LU"
        key = name.split()[0].strip(":").lower().replace("-", "_")
        made.add(
            f"peers_fem_{what}_{key}",
            f"{what.capitalize()}, {table.nodes.max():,} nodes: {mine} against {name} (times faster)",
            "≥ 1",
            f"{theirs / last[what, mine]:.2f} ({1e3 * theirs:.0f} ms against {1e3 * last[what, mine]:.0f} ms)",
            bool(theirs >= last[what, mine]),
        )
    made.record()


def main() -> None:
    common.one_thread()
    table = pd.DataFrame([row for nodes in tqdm(SIZES, "sizes") for row in at(nodes)])
    print(table.to_string(index=False, float_format="%.3g"))
    common.save(table, "peers_fem")
    bars(table)


if __name__ == "__main__":
    main()
