"""The privacy loss of one record from parameter draws, in closed form: added, and replaced."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Complex, Float
from scipy.special import digamma, loggamma, polygamma

from allbutone.disclosure.loss_profile import Loss

# The privacy loss of one record from parameter draws, in closed form: its cumulants by leverage alone.
#
# Let (μ, κ, ν, Λ) be the posterior without the record, and ℓ = (x − μ)ᵀΛ⁻¹(x − μ) + 1/κ. The normal density's
# a-th power has the mean Z(a) = E_without[N(x; θ)^a], log Z(a) = G(a) − G(0) + linear in a, with
#
#     G(a) = log Γ_p((ν + a)/2) + ((ν + a − p)/2)·log(1 + a/κ) − ((ν + a)/2)·log(1 + a·ℓ)
#
# and the loss of a draw is L = log N(x; θ) − log Z(1), so K(s) = log E_without[exp(sL)] = G(s) − s·G(1) − (1 −
# s)·G(0).


LARGE = 1.0  # leverages beside which log(1 + aℓ) is smaller than aℓ
NUMBERS_HELD = 1 << 13  # numbers: so many stay in a core's own memory
SERIES_FROM = 16.0  # |z| from where Stirling's series has all digits


@dataclass(frozen=True)
class DrawLoss(Loss):
    """The loss of one parameter draw for records of these augmented leverages ℓ; κ and ν may be each one's own.

    `reverse` is the other direction, of the distribution without the record against the one with it: K(1 − s).
    """

    p: int
    mean_weight: float | Float[np.ndarray, " batch"]
    df: float | Float[np.ndarray, " batch"]
    augmented: Float[np.ndarray, " batch"]
    reverse: bool = False

    @property
    def lean(self) -> float:
        """In reverse a sixth of π: to the right of the upper half of the line, K's formula has no singularity."""
        return np.pi / 6 if self.reverse else 0.0

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """K(s) is finite for all s > 1; in reverse for s < 1 + min(1/ℓ, ν − p + 1)."""
        if not self.reverse:
            return np.full(self.augmented.shape, np.inf)
        return 1 + np.minimum(1 / self.augmented, self.df - self.p + 1)

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s."""
        s = 1 - s if self.reverse else s
        ell = self.augmented[:, None]
        return self._curved(s, ell) - s * self._curved(np.ones((1, 1)), ell)

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        sign, a = (-1, 1 - s) if self.reverse else (1, s)
        one = self._curved(np.ones(1), self.augmented)
        first, second = self._derivatives(a)
        return self._curved(a, self.augmented) - a * one, sign * (first - one), second

    def _curved(self, a: Any, ell: Any) -> Any:
        """Return G(a) − G(0) less terms linear in a, which drop out of K.

        What is left is of the size of K itself, so that tables of 10⁹ records lose no digits.
        """
        half, weight, df = 0.5 * a, self.mean_weight, self.df
        if np.ndim(a) == 2:
            weight, df = (each if np.ndim(each) == 0 else each[:, None] for each in (weight, df))  # type: ignore[index]
        mean = a / weight
        total = 0.5 * (df - self.p) * curved_log(mean) + half * _log1p(mean)
        # a large ℓ would drown the logarithm in the linear term; without it, too, K is the same
        bent = np.where(ell > LARGE, np.log(1 + a * ell), curved_log(a * ell))
        total = total - 0.5 * df * bent - half * _log1p(a * ell)
        columns = np.arange(self.p).reshape(-1, *[1] * np.ndim(df))
        return total + sum_curved_log_gamma(0.5 * (df - columns), half)

    def _derivatives(self, a: Any) -> tuple[Any, Any]:
        """Return the first and second derivative of `_curved` at real a."""
        first, second = np.zeros_like(a), np.zeros_like(a)
        weigh = ((1.0, 1 / self.mean_weight, self.df - self.p), (-1.0, self.augmented, self.df))
        for sign, rate, df in weigh:
            t = a * rate
            fall = 1 / (1 + t)  # and no square of a leverage, which may overflow
            bent = np.where((sign < 0) & (rate > LARGE), df * rate * fall, -t * fall * df * rate)
            first = first + sign * 0.5 * (np.log1p(t) + t * fall + bent)
            second = second + sign * 0.5 * (rate * fall) * (1 + (1 - df * rate) * fall)
        z = 0.5 * (np.asarray(self.df) - np.arange(self.p)[:, None])
        u = 0.5 * a / z
        slope, bend = remainder_slopes(z + 0.5 * a)
        first = first + np.sum(0.5 * np.log1p(u) - 1 / (4 * z * (1 + u)) + 0.5 * slope, axis=0)
        second = second + np.sum(1 / (4 * z * (1 + u)) + 1 / (8 * z * z * (1 + u) ** 2) + 0.25 * bend, axis=0)
        return first, second


def curved_log_gamma(z: Any, t: Any) -> Any:
    """Return log Γ(z + t) − log Γ(z) − t·log z, without cancellation for z ≫ t.

    By Stirling's formula with its remainder R: (z + t − ½)·log(1 + t/z) − t + R(z + t) − R(z).
    """
    u = t / z
    return (z + t - 0.5) * curved_log(u) + u * (t - 0.5) + _remainder(z + t) - _remainder(np.asarray(z))


def sum_curved_log_gamma(z: Float[np.ndarray, "p ..."], t: Any) -> Any:
    """Return Σ over z of `curved_log_gamma`, many z at a time where t is small; each z is one, or as many as t."""
    t = np.asarray(t)
    z = z.reshape(len(z), *[1] * (t.ndim - z.ndim + 1), *z.shape[1:])
    many, total = max(1, NUMBERS_HELD // max(t.size, 1)), np.zeros_like(t)
    for start in range(0, len(z), many):
        total = total + np.sum(curved_log_gamma(z[start : start + many], t), axis=0)
    return total


def curved_log(u: Any) -> Any:
    """Return log(1 + u) − u, accurate for small u: with r = u/(2 + u) it is −u·r + 2(r³/3 + r⁵/5 + …)."""
    u = np.asarray(u)
    r = u / (2 + u)
    square, series = r * r, np.zeros_like(r)
    for odd in range(23, 1, -2):
        series = series * square + 1 / odd
    small = -u * r + 2 * r * square * series
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(u) < 0.4, small, np.log(1 + u) - u)


def _log1p(u: Any) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.abs(u) < 0.4, curved_log(u) + u, np.log(1 + u))


def _by_size(z: Any, series: Callable[[Any], Any], exact: Callable[[Any], Any]) -> Any:
    z = np.asarray(z)
    found = series(z)
    small = np.abs(z) < SERIES_FROM
    if np.any(small):
        found = np.array(found)
        found[small] = exact(z[small])
    return found


def _remainder(z: Any) -> Any:
    """Return what Stirling's formula (z − ½)·log z − z + ½·log 2π leaves of log Γ(z)."""

    def series(z: Any) -> Any:
        v = 1 / (z * z)
        return (1 / 12 - v * (1 / 360 - v * (1 / 1260 - v * (1 / 1680 - v * (1 / 1188 - v * 691 / 360360))))) / z

    return _by_size(z, series, lambda z: loggamma(z) - (z - 0.5) * np.log(z) + z - 0.5 * np.log(2 * np.pi))


def remainder_slopes(z: Any) -> tuple[Any, Any]:
    """Return the first and second derivative of the remainder at real z."""

    def first(z: Any) -> Any:
        v = 1 / (z * z)
        return -v * (1 / 12 - v * (1 / 120 - v * (1 / 252 - v * (1 / 240 - v * (1 / 132 - v * 691 / 32760)))))

    def second(z: Any) -> Any:
        v = 1 / (z * z)
        return v / z * (1 / 6 - v * (1 / 30 - v * (1 / 42 - v * (1 / 30 - v * (5 / 66 - v * 691 / 2730)))))

    slope = _by_size(z, first, lambda z: digamma(z) - np.log(z) + 0.5 / z)
    bend = _by_size(z, second, lambda z: polygamma(1, z) - 1 / z - 0.5 / (z * z))
    return slope, bend


# The privacy loss between two tables that differ in one record, and its worst case over all such tables.
#
# Posterior draws given a table with x, and given the same with y in its place: with M the augmented matrix
# of all they share (docs/guarantees.md), ℓx = x̃ᵀM⁻¹x̃, ℓy = ỹᵀM⁻¹ỹ, ℓxy = x̃ᵀM⁻¹ỹ, and k half the degrees of
# freedom,
#
#     F(s) = (1 + sℓx)(1 + (1 − s)ℓy) − s(1 − s)ℓxy²
#     K(s) = log E_y[exp(sL)] = −k·(log F(s) − s·log F(1) − (1 − s)·log F(0))
#
# so that L is exactly a constant plus G₁/r₂ − G₂/|r₁|, both G ~ Gamma(k), r₁ < 0 and r₂ > 1 the roots of F.
# Where every record's ℓ is at most E, ℓx = ℓy = E and ℓxy = 0 dominate.


@dataclass(frozen=True)
class ReplacementLoss(Loss):
    """The loss of draws between tables with x and with y, for batches of (ℓx, ℓy, ℓxy).

    half_df: k, half the posterior's degrees of freedom, times the number of draws. gaussian: the μ of a Gaussian
    mechanism that is released with them.
    """

    half_df: float
    own: Float[np.ndarray, " batch"]
    other: Float[np.ndarray, " batch"]
    between: Float[np.ndarray, " batch"]
    gaussian: float = 0.0

    @classmethod
    def worst(cls, half_df: float, most: float) -> "ReplacementLoss":
        """Return the loss that dominates all others of records whose ℓ is at most this."""
        return cls(half_df, np.array([most]), np.array([most]), np.zeros(1))

    @property
    def end(self) -> Float[np.ndarray, " batch"]:
        """K(s) is finite up to the upper root r₂ of F."""
        return self.roots[1]

    @property
    def roots(self) -> tuple[Float[np.ndarray, " batch"], Float[np.ndarray, " batch"]]:
        """r₁ < 0 and r₂ > 1: F(s) = F(0)(1 − s) + F(1)·s + bend·s(1 − s) = 0."""
        bend, slope = self._bend, self.own - self.other + self._bend
        root = np.sqrt(slope**2 + 4 * bend * (1 + self.other))
        with np.errstate(divide="ignore", invalid="ignore"):
            # the form without cancellation for each sign of the slope; no bend leaves one root, or none
            above = np.where(slope > 0, (slope + root) / (2 * bend), 2 * (1 + self.other) / (root - slope))
            below = np.where(slope > 0, -2 * (1 + self.other) / (root + slope), (slope - root) / (2 * bend))
        return below, above

    def at(self, s: Complex[np.ndarray, "batch points"]) -> Complex[np.ndarray, "batch points"]:
        """Return K(s) at complex s."""
        return self._total(s, self.own[:, None], self.other[:, None], self._bend[:, None])

    def slopes(self, s: Float[np.ndarray, " batch"]) -> tuple[Any, Any, Any]:
        """Return K, K′ and K″ at real s."""
        own, other, bend = self.own, self.other, self._bend
        more = own * s + other * (1 - s) + bend * s * (1 - s)
        change = own - other + bend * (1 - 2 * s)
        # F′/F − log F(1) + log F(0), less what cancels
        first = bend * (1 - 2 * s) - change * more / (1 + more) - curved_log(own) + curved_log(other)
        second = 2 * bend / (1 + more) + (change / (1 + more)) ** 2
        square = self.gaussian**2
        total = self._total(s, own, other, bend)
        return total, -self.half_df * first + square * (s - 0.5), self.half_df * second + square

    @property
    def _bend(self) -> Float[np.ndarray, " batch"]:
        return np.maximum(self.own * self.other - self.between**2, 0.0)

    def _total(self, s: Any, own: Any, other: Any, bend: Any) -> Any:
        """Return K(s); near 0 by log(1 + u) − u, where the terms linear in s are left out before they cancel."""
        both = s * (1 - s)
        more = own * s + other * (1 - s) + bend * both
        near = curved_log(more) + bend * both - s * curved_log(own) - (1 - s) * curved_log(other)
        far = np.log(1 + more) - s * np.log1p(own) - (1 - s) * np.log1p(other)
        return -self.half_df * np.where(np.abs(more) < 0.1, near, far) - 0.5 * self.gaussian**2 * both
