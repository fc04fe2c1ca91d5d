"""Differential operators as sums of small terms.

A term is a flux F and a volume part G; an equation −∇·F + G = 0 is a sum of terms, e.g.

    Diffusion(a) + Transport(tau) - Source(f)        −∇·(a∇u) + τ·∇u − f = 0   (eq:transport)

F and G see the places ``x`` [n, 2], the latent ``z`` (leading axis M, the samples), and at those places
``u`` [M, n] and ``grad`` [M, n, 2]; they return what broadcasts to [M, n, 2] and [M, n]. From F and G alone
come the weak residual (:func:`element_residual`) and the strong one (the point-wise penalty). A new operator
is a class with one of the two methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pdevae._tensorflow import tf
from pdevae.errors import UserError, shape_text
from pdevae.fem.elements import Elements

Coefficient: TypeAlias = Any  # a number, an array, or a function of places [n, 2] and z


class Term:
    """One summand of an equation −∇·F + G = 0; a subclass defines its flux F or its volume part G.

    >>> class Reaction(Term):
    ...     def volume(self, x, z, u, grad):
    ...         return 2.0 * u
    >>> equation = Diffusion(1.0) + Reaction() - Source(1.0)  # −Δu + 2u − 1 = 0

    Terms add and subtract; what they make is again a term:

    >>> isinstance(equation, Term)
    True
    """

    def flux(self, x: tf.Tensor, z: Any, u: tf.Tensor, grad: tf.Tensor) -> tf.Tensor | None:
        """F(x, z, u, ∇u), or None."""
        return None

    def volume(self, x: tf.Tensor, z: Any, u: tf.Tensor, grad: tf.Tensor) -> tf.Tensor | None:
        """G(x, z, u, ∇u), or None."""
        return None

    def __add__(self, other: Term) -> Term:
        return Sum(self, _term(other))

    def __sub__(self, other: Term) -> Term:
        return Sum(self, Negative(_term(other)))


@dataclass(frozen=True)
class Diffusion(Term):
    """−∇·(a(x, z)∇u); ``a`` is a number, an array, or a function of places [n, 2] and z.

    >>> grad = tf.constant([[[1.0, -2.0]]])
    >>> Diffusion(0.5).flux(None, None, None, grad).numpy().tolist()
    [[[0.5, -1.0]]]
    >>> uneven = Diffusion(lambda x, z: 1 + x[:, 0])
    >>> uneven.flux(tf.constant([[2.0, 0.0]]), None, None, grad).numpy().tolist()
    [[[3.0, -6.0]]]
    """

    a: Coefficient = 1.0

    def flux(self, x, z, u, grad):
        return _value(self.a, x, z, grad.dtype)[..., None] * grad


@dataclass(frozen=True)
class Transport(Term):
    """τ(x, z)·∇u; without an argument τ is z itself, constant in space.

    >>> grad = tf.constant([[[1.0, -2.0]]])
    >>> Transport([3.0, 1.0]).volume(None, None, None, grad).numpy().tolist()
    [[1.0]]
    >>> Transport().volume(None, tf.constant([[0.0, 1.0]]), None, grad).numpy().tolist()
    [[-2.0]]
    """

    tau: Coefficient | None = None

    def volume(self, x, z, u, grad):
        tau = z[:, None] if self.tau is None else _value(self.tau, x, z, grad.dtype)
        return tf.reduce_sum(tau * grad, axis=-1)


@dataclass(frozen=True)
class NonlinearDiffusion(Term):
    """−∇·(a(x, z, u, ∇u)∇u).

    >>> p_laplace = NonlinearDiffusion(lambda x, z, u, grad: tf.reduce_sum(grad**2, axis=-1))  # a = |∇u|²
    >>> p_laplace.flux(None, None, None, tf.constant([[[1.0, -2.0]]])).numpy().tolist()
    [[[5.0, -10.0]]]
    """

    a: Callable[[tf.Tensor, Any, tf.Tensor, tf.Tensor], tf.Tensor]

    def flux(self, x, z, u, grad):
        return self.a(x, z, u, grad)[..., None] * grad


@dataclass(frozen=True)
class Source(Term):
    """f(x, z); subtract it: ``Diffusion() - Source(1.0)``.

    >>> import pdevae
    >>> weak = pdevae.WeakForm(pdevae.square(nodes=9), Diffusion() - Source(lambda x, z: 2 + 0 * x[:, 0]))
    >>> weak.load().round(12).tolist()  # ∫ f φ of the one interior node: f times the volume under its hat
    [0.5]
    """

    f: Coefficient = 1.0

    def volume(self, x, z, u, grad):
        return _value(self.f, x, z, grad.dtype)


@dataclass(frozen=True)
class Sum(Term):
    first: Term
    second: Term

    def flux(self, *at):
        return _plus(self.first.flux(*at), self.second.flux(*at))

    def volume(self, *at):
        return _plus(self.first.volume(*at), self.second.volume(*at))


@dataclass(frozen=True)
class Negative(Term):
    term: Term

    def flux(self, *at):
        F = self.term.flux(*at)
        return None if F is None else -F

    def volume(self, *at):
        G = self.term.volume(*at)
        return None if G is None else -G


def flux_and_volume(term: Term, x, z, u, grad) -> tuple[tf.Tensor | None, tf.Tensor | None]:
    """F and G of an equation, each summand's shapes checked on its own: static shapes, at no cost in a graph."""
    at = (x, z, u, grad)
    if isinstance(term, Sum):
        (F, G), (F_2, G_2) = flux_and_volume(term.first, *at), flux_and_volume(term.second, *at)
        return _plus(F, F_2), _plus(G, G_2)
    if isinstance(term, Negative):
        F, G = flux_and_volume(term.term, *at)
        return None if F is None else -F, None if G is None else -G
    F, G = term.flux(*at), term.volume(*at)
    if F is None and G is None:
        raise UserError(f"{type(term).__name__} has neither flux nor volume: define one of them, and return its value")
    _check(term, "flux", F, grad.shape, "[M, n, 2]")
    _check(term, "volume", G, u.shape, "[M, n]")
    return F, G


def element_residual(equation: Term, e: Elements, u: Sequence[tf.Tensor], z: Any) -> list[tf.Tensor]:
    """r_ek for the values ``u`` at the three corners, each [M, E]; so are the residuals.

    The row i of L[z]u − f is the sum of r_ek over the elements e and corners k that meet in node i.
    """
    # ∇u_e = Σ_k u_k ∇φ_k, by components: axes of length 2 and 3 are slow to loop over
    grad = tf.stack([_dot(tf.unstack(along, num=3), u) for along in tf.unstack(e.grad_phi, num=2)], axis=-1)
    return tested(equation, e, tf.add_n(u) / 3, grad, z)


def tested(equation: Term, e: Elements, u: tf.Tensor, grad: tf.Tensor, z: Any) -> list[tf.Tensor]:
    """r_ek = |e| (F_e·∇φ_k + G_e/3) for the corners k = 0, 1, 2, with u, ∇u and the coefficients at the centroid."""
    F, G = flux_and_volume(equation, e.centroid, z, u, grad)
    r = [tf.zeros_like(u)] * 3
    if F is not None:
        phi_x, phi_y = (tf.unstack(along, num=3) for along in tf.unstack(e.grad_phi, num=2))
        r = [F[..., 0] * px + F[..., 1] * py for px, py in zip(phi_x, phi_y)]
    if G is not None:
        r = [r_k + G / 3 for r_k in r]
    return [e.area * r_k for r_k in r]


def _check(term: Term, part: str, value: Any, wanted: tf.TensorShape, letters: str) -> None:
    """Refuse a value that does not broadcast to the shape wanted; an unknown axis passes."""
    if value is None:
        return
    if not hasattr(value, "shape"):
        raise UserError(f"{type(term).__name__}.{part} returned a {type(value).__name__}: return a tensor {letters}")
    shape = tf.TensorShape(value.shape)
    if shape.rank is None:
        return
    fits = shape.rank <= wanted.rank and all(
        None in (have, want) or have in (1, want) for have, want in zip(shape[::-1], wanted[::-1])
    )
    if not fits or (part == "flux" and (shape.rank == 0 or shape[-1] == 1)):
        raise UserError(
            f"{type(term).__name__}.{part} returned shape {shape_text(shape)}: it must be, or broadcast to, "
            f"{letters} = {shape_text(wanted)}"
        )


def require_equation(equation: Any) -> Term:
    if not isinstance(equation, Term):
        raise UserError(f"{equation!r} is not an equation: give a term or a sum, e.g. Diffusion() - Source(1.0)")
    return equation


def _term(other: Any) -> Term:
    if not isinstance(other, Term):
        raise UserError(
            f"an equation is a sum of terms, and {other!r} is not a term: write a number or function f as Source(f)"
        )
    return other


def _value(coefficient: Coefficient, x, z, dtype) -> tf.Tensor:
    return coefficient(x, z) if callable(coefficient) else tf.convert_to_tensor(coefficient, dtype)


def _dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _plus(a, b):
    return b if a is None else a if b is None else a + b
