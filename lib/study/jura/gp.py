"""The Gaussian processes and the plainer references."""

from __future__ import annotations

import numpy as np

from study.jura.splits import Standardised, members, places, scored
from study.members import joined
from study.models import gpdk, references


def reference(config: dict, seed: int) -> dict:
    """Training mean, least squares, GP: fitted to each member in turn."""
    rows = []
    for k, (training, test) in enumerate(members(config["split"], config["members"])):
        data = Standardised.of(config["metal"], config["sets"], config["log"], training)
        inputs = np.concatenate([data.s, places()], axis=1)
        mean, sd = references.REFERENCES[config["model"]](inputs[training], data.y[training], inputs[test])
        rows.append(scored(data.response.back(mean[None], sd[None]), config["metal"], test, k))
    return joined(rows)


def diffusion_kernel(config: dict, seed: int) -> dict:
    """GPDK for member ``seed``: exact on its training primaries and all secondaries, those of test sites included."""
    training, test = members(config["split"], config["members"])[seed]
    data = Standardised.of(config["metal"], config["sets"], config["log"], training)
    known = np.concatenate([training, test])
    outputs = [(places()[training], data.y[training])] + [(places()[known], column[known]) for column in data.s.T]
    fitted = gpdk.fit(outputs, config["forces"], config["own"], config["starts"], seed, config["iterations"])
    mean, sd = fitted.predict(places()[test])
    row = scored(data.response.back(mean[None], sd[None]), config["metal"], test, seed)
    return row | {"log_likelihood": np.full(len(test), fitted.log_likelihood)}
