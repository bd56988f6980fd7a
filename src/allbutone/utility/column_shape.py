"""The shape of columns: how far each is from normal, by size of effect and by test."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import log_ndtr, ndtri

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
