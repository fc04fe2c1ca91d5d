"""The PDEs that regularise a VAE's decoder (fig:vae_dt, fig:vae_nld), and the controls that are none or nearly none.

A mechanism's coefficients are small networks of the site's latent z₀ (and the place, for a(x)), each with a
standard-normal penalty on its output. Without it a → 0 fulfils any equation −∇·(a∇u) = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pdevae._tensorflow import tf
from pdevae.fem.mesh import Mesh
from pdevae.fem.operators import Diffusion, NonlinearDiffusion, Source, Term, Transport
from pdevae.penalties import Penalty, named
from pdevae.penalties.gradient import GradientPenalty
from study.models.networks import Network

LATENT = 10  # dimension of z, the paper's
_EDGE = 0.5  # β of the total-variation coefficient: gradients (per unit length) well above it count as edges


@dataclass(frozen=True)
class Mechanism:
    """``networks``: a coefficient's name to (network, where it is evaluated); ``equation`` from functions of (x, draw).

    Inputs of a network: "z" the site's latent; "xz" the place too; "zug" latent, u and |∇u|².
    """

    name: str
    formula: str
    networks: dict[str, tuple[Network, str]] = field(default_factory=dict)
    equation: Callable[[], Term] | None = None

    def penalty(self, mesh: Mesh, kind: str, patch_nodes: int, n_patches: int) -> Penalty:
        """``exact``, ``two-level`` or ``hard`` (the paper's taper); boundary values are unknown, so free."""
        if self.equation is None:
            return GradientPenalty(mesh, tf.float32)
        return named(kind, mesh, self.equation(), patch_nodes, n_patches, dtype=tf.float32)


def _source() -> Source:
    return Source(lambda x, draw: draw.coefficient("f"))


def _diffusion_transport() -> Term:
    a = Diffusion(lambda x, draw: tf.exp(draw.coefficient("log a", x)))
    return a + Transport(lambda x, draw: draw.coefficient("τ")) - _source()


def _total_variation() -> Term:
    """a = c(z)/√(|∇u|² + β²): strong diffusion where u is flat, little across an edge (Rudin, Osher & Fatemi)."""

    def a(x, draw, u, grad):
        return tf.exp(draw.coefficient("log c")) / tf.sqrt(tf.reduce_sum(grad**2, axis=-1) + _EDGE**2)

    return NonlinearDiffusion(a) - _source()


def _learned_nonlinear() -> Term:
    def a(x, draw, u, grad):
        return tf.exp(draw.coefficient("log a", u=u, squared_gradient=tf.reduce_sum(grad**2, axis=-1)))

    return NonlinearDiffusion(a) - _source()


def _network(*sizes: int) -> Network:
    """It starts at zero: a = 1, no transport, no source. From random ones the field flees to a constant."""
    return Network(sizes, "tanh", starts_at_zero=True)


_SCALAR = (_network(LATENT, 1), "z")
MECHANISMS = {
    m.name: m
    for m in (
        Mechanism(
            "DT",
            "−∇·(a(x, z)∇u) + τ(z)·∇u = f(z)",
            {"log a": (_network(LATENT + 2, 16, 1), "xz"), "τ": (_network(LATENT, 2), "z"), "f": _SCALAR},
            _diffusion_transport,
        ),
        Mechanism("NLD", "−∇·(c(z)∇u / √(|∇u|² + β²)) = f(z)", {"log c": _SCALAR, "f": _SCALAR}, _total_variation),
        Mechanism(
            "NLD-net",
            "−∇·(a(z, u, |∇u|²)∇u) = f(z)",
            {"log a": (_network(LATENT + 2, 16, 1), "zug"), "f": _SCALAR},
            _learned_nonlinear,
        ),
        Mechanism("Laplace", "−Δu = 0", {}, lambda: Diffusion(1.0)),
        Mechanism("gradient", "∫|∇u|², no PDE"),
    )
}
