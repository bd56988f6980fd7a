"""The exact maxima of a quadratic and one logarithm: the posterior after parameters, a bound after datasets."""

from math import exp, inf, isfinite, log, log1p, nan, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.bound_of_many import maximize_many
from allbutone.support.arrays import array_namespace, as_array, eigh_or_nan, to_numpy
from allbutone.support.definite import by_rows_pays

Array = Any

MOST_STEPS = 100
TINY = 1e-300  # instead of zero, by which nothing is divided
ARRIVED = 1e-7  # the size of a step whose end has all digits, since Newton's steps square their error


def maximize_bound(
    outward: Any, inflation: Any, precision: Float[Array, "*batch p p"], pull: Float[Array, "*batch p"]
) -> Float[Array, "*batch p"]:
    """Return the global maximiser of a·log(1 + c‖v‖²) − vᵀAv + 2bᵀv for a > 0.

    With A = QΩQᵀ and β = Qᵀb the maximum is v = Q(Ω − τ)⁻¹β at the one root of the increasing function
    τ·(1 + c·Σ βᵢ²/(ωᵢ − τ)²) = a·c on 0 < τ < min(a·c, ω₁): on each sphere the best value is concave in its
    squared radius, and so is the log, hence there is no second maximum to be trapped in.
    The search runs over log δ, δ = ω₁ − τ, where the pole at δ = 0 is a straight line. If β has no component on
    the lowest eigenvector the two modes tie; a component too small to matter breaks the tie.
    """
    if isinstance(precision, np.ndarray) and precision.shape[:-1] == pull.shape and by_rows_pays(precision):
        found, arrived = maximize_many(outward, inflation, precision, pull)
        if not arrived.all():
            a, c = (np.broadcast_to(each, arrived.shape)[~arrived] for each in (outward, inflation))
            found[~arrived] = _maximize(a, c, precision[~arrived], pull[~arrived])
        return found
    return _maximize(outward, inflation, precision, pull)


def _maximize(outward: Any, inflation: Any, precision: Array, pull: Array) -> Array:
    omega, beta, vectors = _axes(precision, pull)
    return _place(omega, beta, vectors, _pole_distance(outward, inflation, omega, beta, 1))


def both_maxima(
    outward: Any, inflation: Any, precision: Float[Array, "*batch p p"], pull: Float[Array, "*batch p"]
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


def _axes(
    precision: Float[Array, "*batch p p"], pull: Float[Array, "*batch p"]
) -> tuple[Float[Array, "*batch p"], Float[Array, "*batch p"], Float[Array, "*batch p p"]]:
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
    outward: Any, inflation: Any, omega: Float[Array, "*batch p"], beta: Float[Array, "*batch p"], side: int
) -> Float[Array, "*batch"]:
    """Solve log(1 + c·ρ(δ)) + log(ω₁ − δ) = log(a·c) for δ, by Newton in log |δ| inside a shrinking bracket.

    `side` 1: the one root with δ > 0. `side` −1: the root next to the pole with δ < 0, NaN where there is none;
    there the left side is convex in log |δ|, and Newton begins left of the root: a step that leads out finds none.
    """
    if omega.ndim == 1:
        values, pulls = to_numpy(omega).tolist(), to_numpy(beta).tolist()
        return as_array(_pole_distance_of_one(float(outward), float(inflation), values, pulls, side), like=omega)
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
    outward: Any, inflation: Any, omega: Float[Array, "*batch p"], beta: Float[Array, "*batch p"], side: int
) -> tuple[Float[Array, "*batch"], Float[Array, "*batch"]]:
    """Return bounds of log |δ|; the lower one is near the root where the lowest eigenvector alone matters."""
    xp, first = array_namespace(omega, beta), omega[..., 0]
    size = xp.abs(beta[..., 0])
    room = outward * inflation - first
    if side > 0:
        low = xp.minimum(first / 2, size * xp.sqrt(first / (2 * outward)))
        return xp.log(xp.where(-room > low, -room, low)), xp.log(first)
    low = size * xp.sqrt(first * inflation / room)
    return xp.log(low), xp.log(room if omega.shape[-1] == 1 else xp.minimum(room, omega[..., 1] - first))


def _pole_distance_of_one(a: float, c: float, omega: list[float], beta: list[float], side: int) -> float:
    """Do the same for one posterior in Python's floats: a tenth of the time that arrays of one number take."""
    first, room = omega[0], a * c - omega[0]
    if not (1e-200 < first < 1e200 and isfinite(sum(beta)) and a * c > 0):
        return nan  # nothing is left
    terms = [(value - first, pull * pull) for value, pull in zip(omega, beta, strict=True)]
    if side > 0:
        low, high = max(-room, min(first / 2, abs(beta[0]) * sqrt(first / (2 * a)))), first
    else:
        low = abs(beta[0]) * sqrt(first * c / room) if room > 0 else inf
        high = min(room, terms[1][0]) if len(terms) > 1 else room
        if low >= high:
            return nan
    low, high = log(low), log(high)
    position = low
    for _ in range(MOST_STEPS):
        excess, slope = _excess_of_one(a, c, first, terms, side * exp(position))
        low, high = (position, high) if excess > 0 else (low, position)
        step = -excess / (slope or TINY)
        following = position + step
        if abs(step) <= ARRIVED * (1 + abs(position)):
            return side * exp(following)
        if not low < following < high:
            if side < 0:
                return nan
            following = (low + high) / 2
        position = following
    return side * exp(position)


def _excess_of_one(
    a: float, c: float, first: float, terms: list[tuple[float, float]], delta: float
) -> tuple[float, float]:
    """Return log(1 + c·ρ(δ)) + log(ω₁ − δ) − log(a·c) and its slope in log |δ|."""
    rho = fall = 0.0
    for above, square in terms:
        near = 1 / (above + delta or TINY)
        part = square * near * near
        rho, fall = rho + part, fall + part * near
    tau = max(first - delta, 1e-17 * first)
    return log1p(c * rho) + log(tau / (a * c)), -delta * (2 * c * fall / (1 + c * rho) + 1 / tau)
