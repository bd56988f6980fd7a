"""Tests of joint normality, Mardia's and Henze and Zirkler's, for tables of any length."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.special import chdtrc, ndtr

from allbutone.model.moments import Moments
from allbutone.support.arrays import cholesky, solve_rows
from allbutone.support.parallel import in_parallel

MOST_PAIRED = 20_000  # records; beyond, Henze and Zirkler's test takes a random sample of so many
SAMPLE_SEED = 20_000  # of that sample, so that a table always gives the same answer
TILE = 512  # pairs are taken 512 by 512 records at a time: 2 MB
BLOCK_VALUES = 1 << 18


@dataclass(frozen=True)
class Mardia:
    """Mardia's measures b₁ₚ and b₂ₚ, standardised by their exact moments under normality (Mardia 1974).

    `typical_skewness` and `typical_excess_kurtosis` are sizes of effect, comparable with one column's: √(b₁ₚ/p)
    and 3·(b₂ₚ/(p(p + 2)) − 1), both less what chance brings.
    """

    skewness: float
    skewness_statistic: float
    skewness_p: float
    kurtosis: float
    kurtosis_statistic: float
    kurtosis_p: float
    typical_skewness: float
    typical_excess_kurtosis: float


@dataclass(frozen=True)
class HenzeZirkler:
    """Henze and Zirkler's statistic and p, and on how many records (a random sample, where not all) they rest."""

    statistic: float
    p: float
    records: int


def whiten(values: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n p"]:
    """Return y = R⁻¹(x − x̄), RRᵀ = S/n: mean 0 and covariance I, with n below the line."""
    moments = Moments.of(values)
    scale = np.sqrt(np.diagonal(moments.scatter) / moments.count)
    correlation = moments.scatter / moments.count / scale / scale[:, None]
    root = cholesky(correlation, "the correlation matrix of the columns")
    return solve_rows(root, ((values - moments.mean) - moments.mean_tail) / scale)


def mardia(white: Float[np.ndarray, "n p"]) -> Mardia:
    """Return Mardia's tests of whitened records.

    b₁ₚ = (1/n²)·ΣᵢΣⱼ (yᵢᵀyⱼ)³; (n/6)·k·b₁ₚ is about χ², df p(p+1)(p+2)/6, k = (p+1)(n+1)(n+3)/(n((n+1)(p+1) − 6)).
    b₂ₚ = (1/n)·Σᵢ ‖yᵢ‖⁴ is about normal with mean p(p+2)(n−1)/(n+1) and variance
    8p(p+2)(n−3)(n−p−1)(n−p+1)/((n+1)²(n+3)(n+5)). Programs that use the limits (k = 1, mean p(p+2), variance
    8p(p+2)/n) differ by a share of order 1/n.
    """
    n, p = white.shape
    # both are exact; the first costs n·p³, the second n²·p
    skewness = _third_moments(white) if p * p <= n else _cubed_products(white)
    kurtosis = float(np.mean(np.sum(white * white, axis=1) ** 2))
    by_chance = p * (p + 2) * ((n + 1) * (p + 1) - 6) / ((n + 1) * (n + 3))
    df = p * (p + 1) * (p + 2) / 6
    skewness_statistic = df * skewness / by_chance
    expected = p * (p + 2) * (n - 1) / (n + 1)
    variance = 8 * p * (p + 2) * (n - 3) * (n - p - 1) * (n - p + 1) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    kurtosis_statistic = (kurtosis - expected) / np.sqrt(variance)
    return Mardia(
        skewness=skewness,
        skewness_statistic=skewness_statistic,
        skewness_p=float(chdtrc(df, skewness_statistic)),
        kurtosis=kurtosis,
        kurtosis_statistic=float(kurtosis_statistic),
        kurtosis_p=float(2 * ndtr(-abs(kurtosis_statistic))),
        typical_skewness=float(np.sqrt(max(skewness - by_chance, 0.0) / p)),
        typical_excess_kurtosis=3 * (kurtosis - expected) / (p * (p + 2)),
    )


def _third_moments(white: Float[np.ndarray, "n p"]) -> float:
    """Return b₁ₚ = Σ_abc m_abc², with m_abc = (1/n)·Σᵢ y_ia·y_ib·y_ic."""
    n, p = white.shape
    total = np.zeros((p * p, p))
    rows = max(1, BLOCK_VALUES // (p * p))
    for start in range(0, n, rows):
        block = white[start : start + rows]
        total += (block[:, :, None] * block[:, None, :]).reshape(len(block), p * p).T @ block
    return float(np.sum((total / n) ** 2))


def _cubed_products(white: Float[np.ndarray, "n p"]) -> float:
    n = len(white)
    return sum(weight * float(np.sum((left @ right.T) ** 3)) for left, right, weight in _tiles(white)) / n**2


def _tiles(white: Float[np.ndarray, "n p"]) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Yield blocks of records against each other, and how often each pair of blocks counts."""
    for start in range(0, len(white), TILE):
        for other in range(start, len(white), TILE):
            yield white[start : start + TILE], white[other : other + TILE], 1.0 if other == start else 2.0


def henze_zirkler(values: Float[np.ndarray, "n p"]) -> HenzeZirkler:
    """Return Henze and Zirkler's test (1990), on a random sample of 20,000 records where there are more.

    HZ = (1/n)·ΣᵢΣⱼ exp(−β²‖yᵢ − yⱼ‖²/2) − 2(1 + β²)^(−p/2)·Σᵢ exp(−β²‖yᵢ‖²/(2(1 + β²))) + n(1 + 2β²)^(−p/2),
    β = ((2p + 1)n/4)^(1/(p+4))/√2; under normality about lognormal with the mean and variance of their theorem.
    """
    if len(values) > MOST_PAIRED:
        chosen = np.random.default_rng(SAMPLE_SEED).choice(len(values), MOST_PAIRED, replace=False)
        values = values[np.sort(chosen)]
    white = whiten(values)
    n, p = white.shape
    squared = 0.5 * ((2 * p + 1) * n / 4) ** (2 / (p + 4))  # β²

    def near(tile: tuple[np.ndarray, np.ndarray, float]) -> float:
        left, right, weight = tile
        gap = left @ right.T
        gap -= np.sum(left * left, axis=1)[:, None] / 2
        gap -= np.sum(right * right, axis=1) / 2
        gap *= squared
        return weight * float(np.sum(np.exp(gap, out=gap)))

    pairs = sum(in_parallel(near, _tiles(white)))
    single = float(np.sum(np.exp(-squared / (2 * (1 + squared)) * np.sum(white * white, axis=1))))
    statistic = pairs / n - 2 * (1 + squared) ** (-p / 2) * single + n * (1 + 2 * squared) ** (-p / 2)
    return HenzeZirkler(float(statistic), _lognormal_tail(statistic, squared, p), n)


def _lognormal_tail(statistic: float, squared: float, p: int) -> float:
    """Return P(HZ ≥ statistic) from the mean and variance of HZ under normality, given β²."""
    a, w = 1 + 2 * squared, (1 + squared) * (1 + 3 * squared)
    mean = 1 - a ** (-p / 2) * (1 + p * squared / a + p * (p + 2) * squared**2 / (2 * a**2))
    variance = (
        2 * (1 + 4 * squared) ** (-p / 2)
        + 2 * a**-p * (1 + 2 * p * squared**2 / a**2 + 3 * p * (p + 2) * squared**4 / (4 * a**4))
        - 4 * w ** (-p / 2) * (1 + 3 * p * squared**2 / (2 * w) + p * (p + 2) * squared**4 / (2 * w**2))
    )
    spread = np.log1p(variance / mean**2)
    if statistic <= 0:  # rounding, where all records but a few coincide
        return 1.0
    return float(ndtr((np.log(mean) - spread / 2 - np.log(statistic)) / np.sqrt(spread)))
