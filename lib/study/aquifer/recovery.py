"""Are a, f and τ found again? On simulated aquifers, where they are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pdevae import HMC
from pdevae._tensorflow import tf
from pdevae.streams import random
from study.aquifer import networks
from study.aquifer.splits import Member, Standardised, data, frame, members, places, plain
from study.data import twin
from study.models.head_fit import Fitted, fit
from study.models.surrogate import WellSurrogate
from study.models.variational import refine
from study.streams import Stream

_INTERVAL = np.array([0.05, 0.95])


def on_mesh(config: dict, seed: int) -> dict:
    """Our model: how much of log a, f and τ lies in the 90% intervals of q; the first few also by HMC."""
    survey, member, known, fitted = _fitted(config, seed)
    m, C = refine(fitted, config["steps"], seed=seed)
    draws = m + random(Stream.TWIN_DRAWS, seed).normal(size=(config["draws"], len(m))) @ C.T
    found = _summary(survey, known, fitted, draws, seed)
    if seed >= config["exact"]:
        return found
    sampled = _sampled(fitted, m, C, config["hmc_draws"], seed)
    return found | _against_exact(survey, known, member, fitted, draws, sampled)


def surrogate(config: dict, seed: int) -> dict:
    """GP-DT on the same: its q is Gaussian in log a, f and τ."""
    survey = f"twin:{seed}"
    (member,) = members(survey, "full")
    known = Standardised.of(survey, "altitude", member)
    model = WellSurrogate(
        log_a_sd=twin.MODEL.log_a_sd,
        log_a_length=twin.MODEL.log_a_length,
        source_sd=twin.TRUE_SCALES["source"] * twin.FEET[1] / known.feet.spread,
        source_length=twin.TRUE_SCALES["source_length"],
        period=config["period"],
    )
    mesh = plain(survey, config["mesh_nodes"])
    (trained,) = model.fit(networks.stacked(survey, (member,), [known]), mesh, [config["cycles"]], [seed])
    inside = mesh.points[mesh.interior]
    found = {name: value[0] for name, value in trained.coefficients(mesh, inside).items()}
    true = _true(survey, known, inside)
    covered = {name: float(np.mean(np.abs(found[name] - true[name]) < 1.645 * found[f"{name}_sd"])) for name in true}
    mean, _ = trained.predict(places(survey, member.test))
    error = mean[0] - _truth_at(survey, known, member)
    return {f"{name}_covered": value for name, value in covered.items()} | {"mae": np.abs(error).mean()}


def _fitted(config: dict, seed: int) -> tuple[str, Member, Standardised, Fitted]:
    survey = f"twin:{seed}"
    (member,) = members(survey, "full")
    known = Standardised.of(survey, "altitude", member)
    on = replace(twin.MODEL, scales=_scales(known)).on(plain(survey, config["mesh_nodes"]))
    return survey, member, known, fit(on, places(survey, member.training), known.y, seed)


def _scales(known: Standardised) -> dict[str, tuple[float, float]]:
    """The scales that made the twin, in the units of standardised levels, known to 5%: recovery is of a, f and τ."""
    unit = twin.FEET[1] / known.feet.spread
    return {
        name: (value if name.endswith("length") else value * unit, 0.05) for name, value in twin.TRUE_SCALES.items()
    }


def _true(survey: str, known: Standardised, x: np.ndarray) -> dict[str, np.ndarray]:
    """log a, f and τ at places x, in the units of standardised levels."""
    truth = twin.truth(int(survey.partition(":")[2]))
    unit = twin.FEET[1] / known.feet.spread
    return {
        "log_a": truth.at(truth.log_a, x),
        "f": truth.at(truth.source, x) * unit,
        "tau": truth.tau,
    }


def _truth_at(survey: str, known: Standardised, member: Member) -> np.ndarray:
    """The head itself at the test wells, standardised."""
    truth = twin.truth(int(survey.partition(":")[2]))
    feet = twin.FEET[0] + twin.FEET[1] * truth.at(truth.head, frame(data(survey).places[member.test]))
    return known.feet.standardised(feet)


def _summary(survey: str, known: Standardised, fitted: Fitted, draws: np.ndarray, seed: int) -> dict:
    """Shares covered, and correlations of the means with the truth."""
    on, rng = fitted.on, random(Stream.TWIN_SOURCES, seed)
    inside = on.mesh.points[on.mesh.interior]
    true = _true(survey, known, inside)
    k = on.model.n_inducing
    drawn = {"log_a": draws[:, :k] @ on.log_a.basis(inside).T, "tau": on.model.transport_sd * draws[:, k : k + 2]}
    sources = [fitted.source(inside, p) for p in draws]
    drawn["f"] = np.stack([c.mean + c.sd * rng.normal(size=len(inside)) for c in sources])
    found = {}
    for name, value in drawn.items():
        low, high = np.quantile(value, _INTERVAL, axis=0)
        found[f"{name}_covered"] = float(np.mean((true[name] > low) & (true[name] < high)))
        if name != "tau":
            found[f"{name}_correlation"] = float(np.corrcoef(value.mean(axis=0), true[name])[0, 1])
    return found | {"tau_error": float(np.abs(drawn["tau"].mean(axis=0) - true["tau"]).mean())}


def _sampled(fitted: Fitted, m: np.ndarray, C: np.ndarray, draws: int, seed: int) -> tuple[np.ndarray, float]:
    """The posterior of coefficients and scales by HMC in q's coordinates: [k, d], thinned; and R-hat."""
    C_, m_ = tf.constant(C), tf.constant(m)

    def log_density(x):
        return tf.map_fn(lambda v: -fitted.objective.within(m_ + tf.linalg.matvec(C_, v)), x)

    settings = HMC(chains=2, warm_up=draws // 2, block=min(25, draws), most_draws=draws, ess=200)
    states, said = settings.sample(log_density, len(m), seed)
    chosen = states.reshape(-1, states.shape[-1])[:: max(1, 2 * len(states) // 60)]
    return m + chosen @ C.T, said["r_hat"]


def _against_exact(
    survey: str, known: Standardised, member: Member, fitted: Fitted, draws: np.ndarray, sampled: tuple
) -> dict:
    """Mean predictions at the test wells with q, against those with the sampled posterior."""
    exact_draws, r_hat = sampled
    x, true = places(survey, member.test), _truth_at(survey, known, member)
    ours, exact = (np.mean([fitted.at(x, p).mean for p in drawn], axis=0) for drawn in (draws, exact_draws))
    return {
        "off_exact": np.sqrt(np.mean((ours - exact) ** 2)) / exact.std(),
        "mae": np.abs(ours - true).mean(),
        "mae_exact": np.abs(exact - true).mean(),
        "r_hat": r_hat,
    }
