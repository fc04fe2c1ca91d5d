"""The generative models as graphs, read off the code's own description: networks, coefficients, equations."""

from __future__ import annotations

import pandas as pd

from study.data.jura import SECONDARIES
from study.jura.protocol import VAES
from study.models.mechanisms import LATENT
from study.models.vae import VAE, decoder, encoder


def graph(name: str, n_secondaries: int = 3) -> pd.DataFrame:
    """Nodes (place, label, what they are) and arrows of one row of the table."""
    model = VAE(**VAES[name])
    networks = model.networks(n_secondaries)
    nodes = [
        _node("s", 0, 1, "s", "observed"),
        _node("x", 0, 0, "x", "observed"),
        _node("z", 1, 1, f"z ∈ ℝ$^{{{LATENT}}}$", "latent"),
        _node("μ", 2, 0, "μ, σ", "output"),
        _node("y", 3, 0, "y", "observed"),
    ]
    encoded, decoded = (f"{which}\n{networks[which].n_parameters:,}" for which in ("encoder", "decoder"))
    arrows = [("s", "z", encoded), ("x", "z", ""), ("z", "μ", ""), ("x", "μ", decoded), ("μ", "y", "")]
    if model.mechanism_name:
        more_nodes, more_arrows = _mechanism(model)
        nodes, arrows = nodes + more_nodes, arrows + more_arrows
    edges = [{"kind": "arrow", "from": a, "to": b, "label": label} for a, b, label in arrows]
    return pd.DataFrame(nodes + edges).assign(model=name)


def _mechanism(model: VAE) -> tuple[list[dict], list[tuple[str, str, str]]]:
    """Coefficients above μ, the residual above y; their inputs are arrows."""
    networks = model.mechanism.networks
    nodes = [_node(name, 2, 0.9 + 0.75 * k, name, "coefficient") for k, name in enumerate(networks)]
    nodes.append(_node("r", 3, 1.65, "r = 0", "constraint", model.mechanism.formula))
    inputs = {"z": ["z"], "xz": ["z", "x"], "zug": ["z", "μ"]}
    arrows = [(source, name, "") for name, (_, kind) in networks.items() for source in inputs[kind]]
    return nodes, arrows + [(name, "r", "") for name in networks] + [("μ", "r", "")]


def regularised_decoder() -> pd.DataFrame:
    """fig:pde_reg_decoder: a decoder whose output must explain the data and fulfil the weak form."""
    nodes = [
        _node("z", 0, 1, "z ~ q", "latent"),
        _node("x", 0, 0, "x: sites and\npatch nodes", "observed"),
        _node("μ", 1.1, 0.5, "μ(x, z)\ndecoder", "output"),
        _node("L", 1.1, 1.75, "L[z], f\nweak form", "coefficient"),
        _node("y", 2.3, 0, "y", "observed", "−log p(y | μ)"),
        _node("r", 2.3, 1.25, "r = 0", "constraint", "‖L[z]μ − f‖²$_A$ / 2ε²"),
    ]
    arrows = [("z", "μ"), ("x", "μ"), ("z", "L"), ("μ", "y"), ("μ", "r"), ("L", "r")]
    edges = [{"kind": "arrow", "from": a, "to": b, "label": ""} for a, b in arrows]
    return pd.DataFrame(nodes + edges).assign(model="PDE-regularised decoder")


def network_table(n_secondaries: int = 3) -> pd.DataFrame:
    """fig:vae_encoder_decoder_forms: layer by layer."""
    networks = {"encoder": encoder(n_secondaries), "decoder": decoder()}
    rows = [
        {"network": name, "layer": k + 1, "inputs": n, "outputs": m, "parameters": n * m + m}
        for name, network in networks.items()
        for k, (n, m) in enumerate(network.layers)
    ]
    return pd.DataFrame(rows)


def _node(name: str, x: float, y: float, label: str, role: str, note: str = "") -> dict:
    return {"kind": "node", "name": name, "x": x, "y": y, "label": label, "role": role, "note": note}


def sets() -> pd.DataFrame:
    """Which secondary metals go with which primary one, as printed and corrected."""
    rows = [
        {"sets": name, "primary": metal, "secondaries": ", ".join(of)}
        for name, by in SECONDARIES.items()
        for metal, of in by.items()
    ]
    return pd.DataFrame(rows)
