"""The shape of columns and tables: densities, and how far they are from normal, by effect and by test."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import chdtrc, log_ndtr, ndtr, ndtri

from allbutone.model.moments import Moments
from allbutone.support.arrays import cholesky, solve_rows
from allbutone.support.errors import InputError
from allbutone.support.parallel import in_parallel
from allbutone.utility.columns import Matched, matched

# Tests of joint normality, Mardia's and Henze and Zirkler's, for tables of any length.


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


# The shape of columns: how far each is from normal, by size of effect and by test.


FEW = 20  # records; with fewer no shape can be told
MIDDLE = (0.01, 0.99)  # Q-Q gaps are measured between these quantiles; beyond, a single record decides


@dataclass(frozen=True)
class Limits:
    """Sizes of effect beyond which a normal model is no longer fit, if a test finds p below `evidence`.

    With many records any p is small, with few any effect large by chance: both must speak.
    """

    skewness: float
    excess_kurtosis: float
    gap: float
    evidence: float

    def passed(self, skewness: float, excess_kurtosis: float, gap: float, p_value: float) -> bool:
        """Whether any of the three effects lies beyond its limit, and not by chance."""
        large = abs(skewness) > self.skewness or abs(excess_kurtosis) > self.excess_kurtosis or gap > self.gap
        return large and p_value < self.evidence


# Bulmer (1979): skewness beyond ½ is moderate, beyond 1 high; 3 is the excess kurtosis of a Laplace distribution
DOUBTFUL = Limits(skewness=0.5, excess_kurtosis=1.0, gap=0.25, evidence=0.01)
NOT_FIT = Limits(skewness=1.0, excess_kurtosis=3.0, gap=0.5, evidence=0.001)
LEVELS = ("fit", "doubtful", "not fit")


def level_of(skewness: float, excess_kurtosis: float, gap: float, p_value: float) -> int:
    """Return 0 (fit), 1 (doubtful) or 2 (not fit) for one set of effects and the p-value beside them."""
    return sum(limits.passed(skewness, excess_kurtosis, gap, p_value) for limits in (DOUBTFUL, NOT_FIT))


@dataclass(frozen=True, eq=False)
class Shape:
    """The shape of c columns, (c,) each; sizes of effect first, then the tests that say whether chance would do.

    `skewness` m₃/m₂^(3/2) and `excess_kurtosis` m₄/m₂² − 3; `gap`, the largest distance in standard deviations
    between a standardised column's ordered values and normal quantiles, from the 1st to the 99th percentile.
    Two tests that scale: D'Agostino and Pearson's K² (`moments_statistic`, `moments_p`; NaN below 20 records),
    O(n), sees tails and asymmetry; Anderson and Darling's A² for estimated mean and variance (`anderson`,
    `anderson_p`), O(n·log n), sees everything in between, such as groups and rounding.
    """

    skewness: Float[np.ndarray, " c"]
    excess_kurtosis: Float[np.ndarray, " c"]
    gap: Float[np.ndarray, " c"]
    moments_statistic: Float[np.ndarray, " c"]
    moments_p: Float[np.ndarray, " c"]
    anderson: Float[np.ndarray, " c"]
    anderson_p: Float[np.ndarray, " c"]

    @property
    def levels(self) -> Int[np.ndarray, " c"]:
        """0 fit, 1 doubtful, 2 not fit, by the limits above; of two tests a column the smallest p, Bonferroni."""
        p_value = 2 * len(self.gap) * np.fmin(self.moments_p, self.anderson_p)
        rows = zip(self.skewness, self.excess_kurtosis, self.gap, p_value, strict=True)
        return np.array([level_of(*map(float, row)) for row in rows])

    @classmethod
    def of(cls, values: Float[np.ndarray, "n c"]) -> "Shape":
        """Describe columns that vary, in O(n·log n) a column."""
        from scipy.stats import normaltest  # not above: it takes longer to load than all the rest

        n = len(values)
        ordered = standardised(values)
        squares = ordered * ordered
        second = np.mean(squares, axis=0)
        test = normaltest(ordered, axis=0) if n >= FEW else None
        none = np.full(values.shape[1], np.nan)
        anderson = _anderson(ordered)
        return cls(
            skewness=np.mean(squares * ordered, axis=0) / second**1.5,
            excess_kurtosis=np.mean(squares * squares, axis=0) / second**2 - 3,
            gap=middle_gap(ordered.T, ndtri(positions(n)), positions(n)),
            moments_statistic=none if test is None else np.asarray(test.statistic),
            moments_p=none if test is None else np.asarray(test.pvalue),
            anderson=anderson,
            anderson_p=_anderson_p(anderson * (1 + 0.75 / n + 2.25 / n**2)),
        )


def standardised(values: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n c"]:
    """Return each column in order, less its mean and over its standard deviation (n − 1 below the line)."""
    # over the largest distance first: squares of very large or very small numbers stay in range
    centred = values - np.mean(values, axis=0)
    centred = centred / np.max(np.abs(centred), axis=0)
    centred = centred - np.mean(centred, axis=0)
    return np.sort(centred / np.std(centred, axis=0, ddof=1), axis=0)


def positions(n: int) -> Float[np.ndarray, " n"]:
    """Return the plotting positions (i − ½)/n, i from 1."""
    return (np.arange(n) + 0.5) / n


def middle_gap(
    ordered: Float[np.ndarray, "c q"], reference: Float[np.ndarray, " q"], place: Float[np.ndarray, " q"]
) -> Float[np.ndarray, " c"]:
    """Return the largest distance of ordered values from their reference between the 1st and 99th percentile."""
    middle = (place >= MIDDLE[0]) & (place <= MIDDLE[1])
    return np.max(np.abs(ordered[:, middle] - reference[middle]), axis=1, initial=0.0)


def _anderson(ordered: Float[np.ndarray, "n c"]) -> Float[np.ndarray, " c"]:
    """Return A² = −n − Σᵢ ((2i − 1)/n)·(log Φ(zᵢ) + log Φ(−z₍ₙ₊₁₋ᵢ₎)) for ordered, standardised values."""
    n = len(ordered)
    weight = (2 * np.arange(1, n + 1) - 1)[:, None] / n
    return -n - np.sum(weight * (log_ndtr(ordered) + log_ndtr(-ordered[::-1])), axis=0)


def _anderson_p(adjusted: Float[np.ndarray, " c"]) -> Float[np.ndarray, " c"]:
    """Return the p-value of A²·(1 + 0.75/n + 2.25/n²), at least 3.7e-24 (D'Agostino and Stephens 1986)."""
    a = np.minimum(adjusted, 10.0)
    return np.select(
        [a < 0.2, a < 0.34, a < 0.6],
        [
            -np.expm1(-13.436 + 101.14 * a - 223.73 * a**2),
            -np.expm1(-8.318 + 42.796 * a - 59.938 * a**2),
            np.exp(0.9177 - 4.279 * a - 1.38 * a**2),
        ],
        np.exp(1.2937 - 5.709 * a + 0.0186 * a**2),
    )


# Marginal densities of real and synthetic columns, smoothed alike, to be laid over each other.


POINTS = 256
BINS = 4096  # values are shared out between neighbouring bins: densities keep three digits of their peak
REACH = 8.0  # bandwidths beyond which a value adds nothing
_QUARTILES = np.array([0.25, 0.5, 0.75])
WIDEST = 8.0  # robust standard deviations from the median, beyond which nothing is drawn


@dataclass(frozen=True, eq=False)
class Densities:
    """Kernel densities of each real column and of all synthetic datasets' together, at the points of `grid`.

    Both are on the scale that is declared of the column, which its name says where it is not the plain one.
    Both have the real column's `bandwidth`, so that where they differ the values do. Confidential: they show the
    real table's extremes. `dates`: of the columns that are dates, where some of them lie on the grid.
    """

    columns: tuple[str, ...]
    grid: Float[np.ndarray, "p points"]
    real: Float[np.ndarray, "p points"]
    synthetic: Float[np.ndarray, "p points"]
    bandwidth: Float[np.ndarray, " p"]
    dates: Mapping[int, Mapping[float, str]] = field(default_factory=dict)


def densities(table: Any, release: Any, points: int = POINTS) -> Densities:
    """Return f(x) = (1/(n·h))·Σᵢ φ((x − xᵢ)/h) on a grid, h = 0.9·min(s, IQR/1.349)·n^(−1/5) of the real column.

    Only measurements have densities; missing values are passed over. The grid reaches 3h beyond the values,
    but no further than 8 robust standard deviations from the real median.
    """
    curves, pair = [], matched(table, release)
    for place in range(len(pair.records.columns)):
        real, pooled = _real(pair, place), _pooled(pair, place)
        quarter, median, three_quarters = real.quantiles(_QUARTILES)
        robust = (three_quarters - quarter) / 1.349 or real.spread
        bandwidth = 0.9 * min(real.spread, robust) * np.sum(real.counts) ** -0.2
        ends = np.array([(each.values.min(), each.values.max()) for each in (real, pooled)])
        low = max(ends.min() - 3 * bandwidth, median - WIDEST * robust)
        high = min(ends.max() + 3 * bandwidth, median + WIDEST * robust)
        grid = np.linspace(low, high, points)
        curves.append((grid, *(_smooth(each, grid, bandwidth) for each in (real, pooled)), bandwidth))
    if not curves:
        raise InputError("the release has no measurements, and so no densities", "look at its categories instead")
    grids, reals, synthetics, bandwidths = map(np.stack, zip(*curves, strict=True))
    names = tuple(column.on_scale for column in pair.records.schema.measurements)
    dates = {
        place: {float(each): column.calendar.text(column.scale.to_natural(np.array([each]))[0]) for each in at}
        for place, (column, at) in enumerate(zip(pair.records.schema.measurements, _marks(grids), strict=True))
        if column.calendar is not None and column.order is None
    }
    return Densities(names, grids, reals, synthetics, bandwidths, dates)


def _marks(grids: Float[np.ndarray, "p points"]) -> Float[np.ndarray, "p 2"]:
    """Return two places on each grid to write at: at a fifth, and at four fifths."""
    return np.quantile(grids, [0.2, 0.8], axis=1).T


@dataclass(frozen=True, eq=False)
class _Column:
    """The values of a column, how often each is there, and their standard deviation."""

    values: Float[np.ndarray, " n"]
    counts: Float[np.ndarray, " n"]
    spread: float

    def quantiles(self, shares: Float[np.ndarray, " q"]) -> Float[np.ndarray, " q"]:
        """Return the values below which these shares lie."""
        if np.all(self.counts == 1):
            return np.quantile(self.values, shares)
        return self.values[np.searchsorted(np.cumsum(self.counts), np.sum(self.counts) * shares)]


def _real(pair: Matched, place: int) -> _Column:
    """Return a real column; of a table in its engine the middle of each bin, as often as it holds a value."""
    if pair.counted is None:
        values = _seen(pair.values[:, place])
        return _Column(values, np.ones(len(values)), float(np.std(values, ddof=1)))
    counts, middle = pair.counted.counts[place], pair.counted.bins.centres[place]
    return _Column(middle[counts > 0], counts[counts > 0].astype(float), float(pair.counted.spread[place]))


def _pooled(pair: Matched, place: int) -> _Column:
    values = _seen(np.concatenate([data[:, place] for data in pair.datasets]))
    return _Column(values, np.ones(len(values)), float(np.std(values, ddof=1)))


def _seen(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    return values[~np.isnan(values)]


def _smooth(column: _Column, grid: Float[np.ndarray, " points"], bandwidth: float) -> Float[np.ndarray, " points"]:
    """Return the kernel density on the grid, each value shared linearly between two of 4096 bins."""
    low, high = grid[0] - REACH * bandwidth, grid[-1] + REACH * bandwidth
    centres = np.linspace(low, high, BINS)
    inside = (column.values > low) & (column.values < high)
    place, times = (column.values[inside] - low) / (centres[1] - centres[0]), column.counts[inside]
    left = np.minimum(place.astype(np.int64), BINS - 2)
    part = place - left
    weights = np.bincount(left, times * (1 - part), BINS) + np.bincount(left + 1, times * part, BINS)
    kernel = np.exp(-0.5 * ((grid[:, None] - centres) / bandwidth) ** 2)
    return kernel @ weights / (np.sum(column.counts) * bandwidth * np.sqrt(2 * np.pi))
