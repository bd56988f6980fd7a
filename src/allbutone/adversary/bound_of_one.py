"""The exact maxima of one quadratic and one logarithm in Python's floats: arrays of one number take far longer."""

from functools import cache
from math import exp, inf, isfinite, log, log1p, nan, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.arrays import all_true, array_namespace, as_array, to_numpy

Array = Any

MOST_STEPS = 100
TINY = 1e-300  # instead of zero, by which nothing is divided
ARRIVED = 1e-7  # the size of a step whose end has all digits, since Newton's steps square their error


def maxima_of_one(
    outward: Any, inflation: Any, precision: Float[Array, "p p"], pull: Float[Array, " p"], sides: tuple[int, ...]
) -> list[Float[Array, " p"]]:
    """Return what `maximize_bound` (side 1) and `both_maxima` (sides 1 and −1) do; NaN where there is none."""
    matrix = to_numpy(precision)
    if not all_true(np.isfinite(matrix)):  # nothing is left
        return [array_namespace(pull).full_like(pull, nan) for _ in sides]
    omega, vectors, _ = _lapack()(matrix)
    values, pulls = omega.tolist(), (vectors.T @ to_numpy(pull)).tolist()
    a, c, first = float(outward), float(inflation), values[0]
    if not (1e-200 < first < 1e200 and isfinite(sum(pulls)) and a * c > 0):
        return [array_namespace(pull).full_like(pull, nan) for _ in sides]
    faint = 1e-100 * (max(map(abs, pulls)) + sqrt(first))
    pulls[0] = pulls[0] if abs(pulls[0]) > faint else faint
    above = [value - first for value in values]
    found = []
    for side in sides:
        delta = _pole_distance(a, c, first, above, pulls, side)
        place = [each / (more + delta or TINY) for more, each in zip(above, pulls, strict=True)]
        found.append(as_array(vectors @ np.array(place), like=pull))
    return found


@cache
def _lapack() -> Any:
    from scipy.linalg.lapack import (
        dsyevd,
    )  # which takes a while to load; NumPy prepares the call longer than it takes

    return dsyevd


def _pole_distance(a: float, c: float, first: float, above: list[float], beta: list[float], side: int) -> float:
    """Solve log(1 + c·ρ(δ)) + log(ω₁ − δ) = log(a·c) for δ as the function of this name does for many."""
    room = a * c - first
    if side > 0:
        low, high = max(-room, min(first / 2, abs(beta[0]) * sqrt(first / (2 * a)))), first
    else:
        low = abs(beta[0]) * sqrt(first * c / room) if room > 0 else inf
        high = min([room, *above[1:2]])
        if low >= high:
            return nan
    low, high = log(low), log(high)
    position, terms = low, [(more, each * each) for more, each in zip(above, beta, strict=True)]
    for _ in range(MOST_STEPS):
        excess, slope = _excess(a, c, first, terms, side * exp(position))
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


def _excess(
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
