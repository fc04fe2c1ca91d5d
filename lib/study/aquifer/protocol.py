"""Who is compared with whom: models by name, and runs of them on the same splits."""

from __future__ import annotations

import pandas as pd

from machinery import replicates
from study.aquifer import core, fem, gp, maps, networks
from study.aquifer.results import BEST_MAP
from study.members import grid
from study.models.surrogate import WellSurrogate

GPS = {
    "GP 5/2": {"kernel": "5/2", "mean": "zero"},
    "GP 3/2": {"kernel": "3/2", "mean": "zero"},
    "GP 5/2 + linear": {"kernel": "5/2", "mean": "linear"},
    "GP 3/2 + linear": {"kernel": "3/2", "mean": "linear"},
    "GP 3/2 + base level": {"kernel": "3/2", "mean": "base"},
}
NETWORKS = {
    "GP-D": {"mechanism": "GP-D", "penalty": "exact"},
    "GP-DT": {"mechanism": "GP-DT", "penalty": "exact"},
    "GP-DT, two-level": {"mechanism": "GP-DT", "penalty": "two-level", "n_patches": 16},
    "GP-DT, taper P=1": {"mechanism": "GP-DT", "penalty": "hard", "n_patches": 1},
    "GP-DT, taper P=16": {"mechanism": "GP-DT", "penalty": "hard", "n_patches": 16},
    "network, no PDE": {"mechanism": "none", "penalty": "exact"},
    "network, Laplacian": {"mechanism": "Laplace", "penalty": "exact"},
}


Rows = dict[str, list[dict]]  # a row's name and the settings to try
Cases = list[tuple[str, str]]  # splits and responses; all of a call's runs go to the workers together


def run_gps(names, survey: str, cases: Cases, seeds: int) -> pd.DataFrame:
    """Each kernel and mean, ``seeds`` random starts of the hyperparameters; depth has no base level."""
    configs = [
        {"model": name, **GPS[name], **_place(survey, split, response)}
        for split, response in cases
        for name in names
        if response == "altitude" or GPS[name]["mean"] != "base"
    ]
    return replicates.run(gp.gaussian_process, configs, range(seeds))


def run_deep_gp(survey: str, cases: Cases, steps: int, seeds: int) -> pd.DataFrame:
    configs = [{"model": "deep GP", "steps": steps, **_place(survey, *case)} for case in cases]
    return replicates.run(gp.deep, configs, range(seeds))


def run_networks(
    rows: Rows, survey: str, cases: Cases, cycles: list[int], repeats: int, mesh_nodes: int, period: int
) -> pd.DataFrame:
    """Each named row with each of its settings, seen at the end of each of these cycles of ε, ``period`` steps long."""
    common = {"cycles_seen": cycles, "repeats": repeats, "mesh_nodes": mesh_nodes, **_unusual(period)}
    configs = [
        {"model": name, **NETWORKS[name], **settings, **common, **_place(survey, *case)}
        for case in cases
        for name, choices in rows.items()
        for settings in choices
    ]
    return replicates.run(networks.network, configs, [0])


def run_chosen_networks(
    chosen: dict[tuple[str, str, str], dict], survey: str, repeats: int, mesh_nodes: int, period: int
) -> pd.DataFrame:
    """Settings (with the cycle to stop at) by model, response and split: all in one go, so that workers share them."""
    configs = [
        {"repeats": repeats} | _stopped(name, settings, survey, split, response, mesh_nodes, period)
        for (name, response, split), settings in chosen.items()
    ]
    return replicates.run(networks.network, configs, [0])


def run_on_core(
    chosen: dict[tuple[str, str, str], dict], survey: str, seeds: int, mesh_nodes: int, period: int
) -> pd.DataFrame:
    """The same settings, one member at a time, by CVI on the general core; named so."""
    configs = [
        _stopped(name, settings, survey, split, response, mesh_nodes, period) | {"model": f"{name}, on the core"}
        for (name, response, split), settings in chosen.items()
    ]
    return replicates.run(core.on_core, configs, range(seeds))


def _stopped(name: str, settings: dict, survey: str, split: str, response: str, mesh_nodes: int, period: int) -> dict:
    stop = {"cycles_seen": [settings["cycles"]], "mesh_nodes": mesh_nodes}
    kept = {key: value for key, value in settings.items() if key != "cycles"}
    return {"model": name, **NETWORKS[name], **kept, **stop, **_place(survey, split, response), **_unusual(period)}


def _unusual(period: int) -> dict:
    """The paper's period is the model's own."""
    return {} if period == WellSurrogate.period else {"period": period}


def run_fem(rows: dict[tuple[str, str], Rows], survey: str, mesh_nodes: int, seeds: int) -> pd.DataFrame:
    """The model on the mesh: rows by split and response, from ``seeds`` random starts."""
    configs = [
        {"model": name, **settings, "mesh_nodes": mesh_nodes, **_place(survey, *case)}
        for case, named in rows.items()
        for name, choices in named.items()
        for settings in choices
    ]
    return replicates.run(fem.fem, configs, range(seeds))


def fem_grid(
    response: str, log_a: list[list[float]], transport_sds: list[float], covariate_sds: list[float], trends: list[str]
) -> Rows:
    """Rows by name with their settings: a = 1, a (D), a and τ (DT), each also with the base level as covariate."""
    axes = grid(trend=trends, transport_sd=transport_sds, covariate_sd=covariate_sds, log_a=log_a)
    rows: Rows = {}
    for axis in axes:
        (sd, length), tau, base = axis["log_a"], axis["transport_sd"], axis["covariate_sd"]
        if (base and response == "depth") or (tau and not sd):
            continue
        name = ("FEM, a = 1" if not sd else "FEM-DT" if tau else "FEM-D") + (" + base level" if base else "")
        settings = {"log_a_sd": sd, "log_a_length": length, "transport_sd": tau, "covariate_sd": base}
        rows.setdefault(name, []).append(settings | {"trend": axis["trend"]})
    return rows


def run_by_mesh(choice: dict, model: str, survey: str, refitted: list[int], carried: list[int]) -> pd.DataFrame:
    """The head by ``model`` as chosen, fitted anew on some meshes and carried to others, for both splits."""
    meshes = {"survey": survey, "response": "altitude", "refitted": refitted, "carried": carried}
    configs = [choice[model, "altitude", split] | meshes | {"split": split} for split in ("full", "near")]
    return replicates.run(maps.by_mesh, configs, [0])


def run_maps(choice: dict, on_mesh: str, place: dict, period: int) -> pd.DataFrame:
    """Both responses by the paper's GP and by GP-DT, and the head by a model ``on_mesh``, each as chosen."""
    both = ("altitude", "depth")
    gps = [place | GPS["GP 5/2"] | {"model": "GP 5/2", "response": r} for r in both]
    nets = []
    for r in both:
        settings = dict(choice["GP-DT", r, "full"])
        settings["cycles_seen"] = [settings.pop("cycles")]
        nets.append(NETWORKS["GP-DT"] | settings | place | {"response": r, "model": "GP-DT", "period": period})
    head = choice[on_mesh, "altitude", "full"] | place | {"response": "altitude", "model": BEST_MAP}
    made = [(maps.gp_map, gps), (maps.network_map, nets), (maps.fem_map, [head])]
    return pd.concat([replicates.run(function, configs, [0]) for function, configs in made], ignore_index=True)


def _place(survey: str, split: str, response: str) -> dict:
    return {"survey": survey, "split": split, "response": response}
