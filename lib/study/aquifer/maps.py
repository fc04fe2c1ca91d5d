"""The plain from end to end: heads, depths, uncertainty, coefficients, flow; and how all that depends on the mesh."""

from __future__ import annotations

import numpy as np

from pdevae.fem.mesh import Mesh
from pdevae.fem.transfer import interpolation
from study.aquifer import fem, gp, networks
from study.aquifer.splits import Standardised, data, members, places, plain
from study.models.head_fit import fit
from study.models.surrogate import WellSurrogate
from study.scoring import Predictive


def gp_map(config: dict, seed: int) -> dict:
    """A GP over the plain."""
    survey, known, mesh, (member,) = _setting(config)
    return _nodes(gp.predicted(config, known, places(survey, member.training), mesh.points, seed))


def network_map(config: dict, seed: int) -> dict:
    """GP-DT: the mixture of its seeds, and the means over them of log a and f."""
    survey, known, mesh, (member,) = _setting(config)
    each = (member,) * config["repeats"]
    model = WellSurrogate(**{name: config[name] for name in networks.SETTINGS if name in config})
    coarse = plain(survey, config["mesh_nodes"])
    wells = networks.stacked(survey, each, [known] * len(each))
    (trained,) = model.fit(wells, coarse, config["cycles_seen"], list(range(len(each))))
    found = trained.coefficients(coarse, mesh.points)
    a = np.exp(found["log_a"] + found["log_a_sd"] ** 2 / 2).mean(axis=0)  # E_q[e^g]
    mean, sd = trained.predict(mesh.points)
    flow = -a[:, None] * _gradient(mesh, mean.mean(axis=0))
    return _nodes(known.feet.back(mean, sd)) | _mechanism(a, found["f"].mean(axis=0), flow)


def fem_map(config: dict, seed: int) -> dict:
    """Ours, at the mode; the flow −a∇u at the elements, averaged to nodes."""
    survey, known, mesh, (member,) = _setting(config)
    _, fitted = fem.fit(config, member, seed)
    mean, sd = fitted.at(_inside(fitted.on.mesh, mesh))
    v = fitted.p[: fitted.on.model.n_inducing]
    log_a = fitted.on.log_a.basis(mesh.points) @ v if config["log_a_sd"] else np.zeros(mesh.n_nodes)
    flow = -np.exp(log_a)[:, None] * _gradient(mesh, mean)
    return _nodes(known.feet.back(mean[None], sd[None])) | _mechanism(
        np.exp(log_a), fitted.source(mesh.points).mean, flow
    )


def by_mesh(config: dict, seed: int) -> dict:
    """The model fitted on meshes of growing size, and the mode of one of them carried to finer ones."""
    survey, response = config["survey"], config["response"]
    (member,) = members(survey, config["split"])
    known = Standardised.of(survey, response, member)
    inducing = fem.model_on(config, known, config["refitted"][-1]).inducing
    x, y, test = places(survey, member.training), known.y, places(survey, member.test)
    seen = data(survey).level(response, member.tested_in)[member.test]
    rows = []
    for nodes in config["refitted"]:
        fitted = fit(fem.model_on(config, known, nodes, inducing), x, y, seed)
        rows.append((nodes, "fitted", fitted.at(test).mean))
    for nodes in config["carried"]:
        carried = fitted.carried_to(fem.model_on(config, known, nodes, inducing))
        rows.append((nodes, "carried", carried.at(test).mean))
    finest = rows[-1][2]
    error = [known.feet.centre + known.feet.spread * mean - seen for _, _, mean in rows]
    return {
        "nodes": np.array([plain(survey, nodes).n_nodes for nodes, _, _ in rows]),
        "how": np.array([how for _, how, _ in rows]),
        "mae": np.array([np.abs(e).mean() / known.feet.spread for e in error]),
        "mse": np.array([(e**2).mean() / known.feet.spread**2 for e in error]),
        "from_finest": np.array([np.sqrt(np.mean((mean - finest) ** 2)) * known.feet.spread for _, _, mean in rows]),
    }


def _setting(config: dict):
    survey = config["survey"]
    each = members(survey, "full")
    return survey, Standardised.of(survey, config["response"], each[0]), plain(survey, config["map_nodes"]), each


def _nodes(found: Predictive) -> dict[str, np.ndarray]:
    """Quantiles at the nodes of the map, in feet."""
    return {"level": found.quantile(0.5), "low": found.quantile(0.05), "high": found.quantile(0.95)}


def _mechanism(a: np.ndarray, source: np.ndarray, flow: np.ndarray) -> dict[str, np.ndarray]:
    return {"a": a, "source_mean": source, "flow_x": flow[:, 0], "flow_y": flow[:, 1]}


def _inside(coarse: Mesh, fine: Mesh) -> np.ndarray:
    """Nodes of the fine mesh; one that the coarse mesh cuts off is read at its nearest node."""
    x = fine.points.copy()
    outside = np.flatnonzero(np.asarray(interpolation(coarse, x).sum(axis=1)).ravel() < 0.5)
    for k in outside:
        x[k] = coarse.points[np.argmin(np.linalg.norm(coarse.points - x[k], axis=1))]
    return x


def _gradient(mesh: Mesh, u: np.ndarray) -> np.ndarray:
    """∇u of P1 values, averaged to the nodes by area; per unit of the frame, [n, 2]."""
    corners = mesh.points[mesh.triangles]
    (x1, y1), (x2, y2) = (corners[:, 1] - corners[:, 0]).T, (corners[:, 2] - corners[:, 0]).T
    twice = x1 * y2 - x2 * y1
    d1, d2 = (u[mesh.triangles[:, k]] - u[mesh.triangles[:, 0]] for k in (1, 2))
    grad = np.stack([(d1 * y2 - d2 * y1) / twice, (d2 * x1 - d1 * x2) / twice], axis=1)
    weight = np.abs(twice)
    total = np.zeros((mesh.n_nodes, 2))
    share = np.zeros(mesh.n_nodes)
    for k in range(3):
        np.add.at(total, mesh.triangles[:, k], weight[:, None] * grad)
        np.add.at(share, mesh.triangles[:, k], weight)
    return total / share[:, None]
