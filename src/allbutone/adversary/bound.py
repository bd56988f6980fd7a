"""The exact maximum of a quadratic and one logarithm: the posterior after parameters, a bound after datasets."""

from typing import Any

from jaxtyping import Float

from allbutone.support.arrays import array_namespace, eigh_or_nan

Array = Any

MOST_STEPS = 100
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
    xp = array_namespace(precision, pull)
    omega, vectors = eigh_or_nan(precision)
    beta = (vectors.mT @ pull[..., None])[..., 0]
    size = xp.max(xp.abs(beta), axis=-1) + xp.sqrt(omega[..., 0])
    faint = 1e-100 * size
    lowest = xp.where(xp.abs(beta[..., 0]) > faint, beta[..., 0], faint)
    beta = xp.concat([lowest[..., None], beta[..., 1:]], axis=-1)
    delta = _pole_distance(outward, inflation, omega, beta)
    above = omega - omega[..., :1]
    return (vectors @ (beta / (above + delta[..., None]))[..., None])[..., 0]


def _pole_distance(
    outward: Any, inflation: Any, omega: Float[Array, "*batch p"], beta: Float[Array, "*batch p"]
) -> Float[Array, "*batch"]:
    """Solve log(1 + c·ρ(δ)) + log(ω₁ − δ) = log(a·c) for δ, by Newton in log δ inside a shrinking bracket."""
    xp = array_namespace(omega, beta)
    first, above, squares = omega[..., 0], omega - omega[..., :1], beta * beta
    target = outward * inflation
    low = xp.minimum(first / 2, xp.abs(beta[..., 0]) * xp.sqrt(first / (2 * outward)))
    low = xp.log(xp.where(first - target > low, first - target, low))
    high = xp.log(first)
    position = low
    for _ in range(MOST_STEPS):
        delta = xp.exp(position)
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
        position = xp.where(arrived | ((following > low) & (following < high)), following, (low + high) / 2)
        if bool(xp.all(arrived)):
            break
    return xp.exp(position)
