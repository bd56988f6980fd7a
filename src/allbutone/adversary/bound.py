"""The exact maxima of a quadratic and one logarithm: the posterior after parameters, a bound after datasets."""

from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.arrays import array_namespace, eigh_or_nan

Array = Any

MOST_STEPS = 100
ARRIVED = 1e-7  # the size of a step whose end has all digits, since Newton's steps square their error


@np.errstate(all="ignore")  # what is lost to rounding is NaN
def maximize_bound(
    outward: Any, inflation: Any, precision: Float[Array, "*#batch p p"], pull: Float[Array, "*#batch p"]
) -> Float[Array, "*batch p"]:
    """Return the global maximiser of a·log(1 + c‖v‖²) − vᵀAv + 2bᵀv for a > 0.

    With A = QΩQᵀ and β = Qᵀb the maximum is v = Q(Ω − τ)⁻¹β at the one root of the increasing function
    τ·(1 + c·Σ βᵢ²/(ωᵢ − τ)²) = a·c on 0 < τ < min(a·c, ω₁): on each sphere the best value is concave in its
    squared radius, and so is the log, hence there is no second maximum to be trapped in.
    The search runs over log δ, δ = ω₁ − τ, where the pole at δ = 0 is a straight line. If β has no component on
    the lowest eigenvector the two modes tie; a component too small to matter breaks the tie.
    """
    omega, beta, vectors = _axes(precision, pull)
    return _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, 1))


@np.errstate(all="ignore")  # what is lost to rounding is NaN
def both_maxima(
    outward: Any, inflation: Any, precision: Float[Array, "*#batch p p"], pull: Float[Array, "*#batch p"]
) -> tuple[Float[Array, "*batch p"], Float[Array, "*batch p"]]:
    """Return the global maximiser and the other one, the same again where there is no other.

    Where ∇ = 0, v = Q(Ω − τ)⁻¹β with φ(τ) = τ·(1 + c·Σ βᵢ²/(ωᵢ − τ)²) = a·c. With B = Ω − τ the negative Hessian
    is B + 2(τc/(1 + c‖v‖²))·vvᵀ, and its determinant |B|·φ′/(1 + c‖v‖²). One direction alone can be mended by vvᵀ,
    so beside the global maximum only ω₁ < τ < ω₂ with φ′ < 0 is a maximum. There φ is convex (each τ/(ω − τ)²
    is), so it falls through a·c once at most: there is one other maximum or none.
    """
    xp = array_namespace(precision, pull)
    omega, beta, vectors = _axes(precision, pull)
    best = _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, 1))
    other = _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, -1))
    return best, xp.where(xp.isnan(other), best, other)


@np.errstate(all="ignore")  # what is lost to rounding is NaN
def opposite_maximum(
    outward: Any,
    inflation: Any,
    precision: Float[Array, "*batch p p"],
    pull: Float[Array, "*batch p"],
    known: Float[Array, "*batch p"],
) -> Float[Array, "*batch p"]:
    """Return the other one of `both_maxima` where `known` is near the global one, NaN where there is none.

    They stand on both sides along the lowest eigenvector. Where they all but tie, `known` may be near the other
    one; then β₁ is taken with its sign turned around, which leads to the global one's side, if not quite to it.
    """
    xp = array_namespace(precision, pull)
    omega, beta, vectors = _axes(precision, pull)
    lowest = xp.copysign(beta[..., :1], xp.vecdot(vectors[..., 0], known)[..., None])
    beta = xp.concat([lowest, beta[..., 1:]], axis=-1)
    return _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, -1))


def _axes(
    precision: Float[Array, "*#batch p p"], pull: Float[Array, "*#batch p"]
) -> tuple[Float[Array, "*#batch p"], Float[Array, "*#batch p"], Float[Array, "*#batch p p"]]:
    """Return Ω, β and Q, with some component on the lowest eigenvector."""
    xp = array_namespace(precision, pull)
    omega, vectors = eigh_or_nan(precision)
    beta = (vectors.mT @ pull[..., None])[..., 0]
    size = xp.max(xp.abs(beta), axis=-1) + xp.sqrt(omega[..., 0])
    faint = 1e-100 * size
    lowest = xp.where(xp.abs(beta[..., 0]) > faint, beta[..., 0], faint)
    return omega, xp.concat([lowest[..., None], beta[..., 1:]], axis=-1), vectors


def _place(omega: Array, beta: Array, vectors: Array, delta: Array) -> Array:
    """Return v = Q(Ω − τ)⁻¹β, τ = ω₁ − δ."""
    above = omega - omega[..., :1]
    return (vectors @ (beta / (above + delta[..., None]))[..., None])[..., 0]


def _pole_distance(
    outward: Any, inflation: Any, omega: Float[Array, "*#batch p"], beta: Float[Array, "*#batch p"], side: int
) -> Float[Array, "*batch"]:
    """Solve log(1 + c·ρ(δ)) + log(ω₁ − δ) = log(a·c) for δ, by Newton in log |δ| inside a shrinking bracket.

    `side` 1: the one root with δ > 0. `side` −1: the root next to the pole with δ < 0, NaN where there is none;
    there the left side is convex in log |δ|, and Newton begins left of the root: a step that leads out finds none.
    """
    xp = array_namespace(omega, beta)
    first, above, squares = omega[..., 0], omega - omega[..., :1], beta * beta
    target = outward * inflation
    low, high = _bracket(outward, inflation, omega, beta, side)
    position = low if side > 0 else xp.where(low < high, low, xp.nan)
    for _ in range(MOST_STEPS):
        delta = side * xp.exp(position)
        near = 1 / (above + delta[..., None])
        parts = squares * near * near
        rho = xp.sum(parts, axis=-1)
        tau = xp.maximum(first - delta, 1e-300 * first)
        excess = xp.log1p(inflation * rho) + xp.log(tau / target)
        slope = -2 * inflation * xp.vecdot(parts, near) / (1 + inflation * rho) - 1 / tau
        low, high = xp.where(excess > 0, position, low), xp.where(excess > 0, high, position)
        step = -excess / (delta * slope)
        arrived = xp.abs(step) <= ARRIVED * (1 + xp.abs(position))
        following = position + step
        outside = (low + high) / 2 if side > 0 else xp.nan
        position = xp.where(arrived | ((following > low) & (following < high)), following, outside)
        if bool(xp.all(arrived | xp.isnan(position))):
            break
    return side * xp.exp(position)


def _bracket(
    outward: Any, inflation: Any, omega: Float[Array, "*#batch p"], beta: Float[Array, "*#batch p"], side: int
) -> tuple[Float[Array, "*#batch"], Float[Array, "*#batch"]]:
    """Return bounds of log |δ|; the lower one is near the root where the lowest eigenvector alone matters."""
    xp, first = array_namespace(omega, beta), omega[..., 0]
    size = xp.abs(beta[..., 0])
    room = outward * inflation - first
    if side > 0:
        low = xp.minimum(first / 2, size * xp.sqrt(first / (2 * outward)))
        return xp.log(xp.where(-room > low, -room, low)), xp.log(first)
    low = size * xp.sqrt(first * inflation / room)
    return xp.log(low), xp.log(room if omega.shape[-1] == 1 else xp.minimum(room, omega[..., 1] - first))
