"""Marginal densities of real and synthetic columns, smoothed alike, to be laid over each other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.support.errors import InputError
from allbutone.utility.matching import matched

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
    real table's extremes.
    """

    columns: tuple[str, ...]
    grid: Float[np.ndarray, "p points"]
    real: Float[np.ndarray, "p points"]
    synthetic: Float[np.ndarray, "p points"]
    bandwidth: Float[np.ndarray, " p"]


def densities(table: Any, release: Any, points: int = POINTS) -> Densities:
    """Return f(x) = (1/(n·h))·Σᵢ φ((x − xᵢ)/h) on a grid, h = 0.9·min(s, IQR/1.349)·n^(−1/5) of the real column.

    Only measurements have densities; missing values are passed over. The grid reaches 3h beyond the values,
    but no further than 8 robust standard deviations from the real median.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.NIWSynthesizer().fit(cohort).sample(datasets=2)
    >>> abo.densities(cohort, release, points=64).real.shape
    (5, 64)
    """
    found, pair = [], matched(table, release)
    for place, column in enumerate(pair.records.values.T):
        real, pooled = _seen(column), _seen(np.concatenate([data[:, place] for data in pair.datasets]))
        quarter, median, three_quarters = np.quantile(real, (0.25, 0.5, 0.75))
        spread = float(np.std(real, ddof=1))
        robust = (three_quarters - quarter) / 1.349 or spread
        bandwidth = 0.9 * min(spread, robust) * len(real) ** -0.2
        low = max(min(real.min(), pooled.min()) - 3 * bandwidth, median - WIDEST * robust)
        high = min(max(real.max(), pooled.max()) + 3 * bandwidth, median + WIDEST * robust)
        grid = np.linspace(low, high, points)
        found.append((grid, *(_smooth(values, grid, bandwidth) for values in (real, pooled)), bandwidth))
    if not found:
        raise InputError("the release has no measurements, and so no densities", "look at its categories instead")
    grids, reals, synthetics, bandwidths = map(np.stack, zip(*found, strict=True))
    names = tuple(column.on_scale for column in pair.records.schema.measurements)
    return Densities(names, grids, reals, synthetics, bandwidths)


def densities_of_counts(
    columns: tuple[str, ...],
    centres: Float[np.ndarray, "p bins"],
    real: Int[np.ndarray, "p bins"],
    synthetic: Int[np.ndarray, "p bins"],
    spread: Float[np.ndarray, " p"],
    points: int = POINTS,
) -> Densities:
    """Return the same for values counted in bins, each taken to lie in the middle of its bin."""
    found = []
    for middle, seen, pooled, deviation in zip(centres, real, synthetic, spread, strict=True):
        quarter, median, three_quarters = middle[np.searchsorted(np.cumsum(seen), np.sum(seen) * _QUARTILES)]
        robust = (three_quarters - quarter) / 1.349 or deviation
        bandwidth = 0.9 * min(deviation, robust) * np.sum(seen) ** -0.2
        there = middle[(seen > 0) | (pooled > 0)]
        low = max(there[0] - 3 * bandwidth, median - WIDEST * robust)
        high = min(there[-1] + 3 * bandwidth, median + WIDEST * robust)
        grid = np.linspace(low, high, points)
        both = (_smooth(middle, grid, bandwidth, weights.astype(float)) for weights in (seen, pooled))
        found.append((grid, *both, bandwidth))
    grids, reals, synthetics, bandwidths = map(np.stack, zip(*found, strict=True))
    return Densities(columns, grids, reals, synthetics, bandwidths)


def _seen(values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " m"]:
    return values[~np.isnan(values)]


def _smooth(
    values: Float[np.ndarray, " n"],
    grid: Float[np.ndarray, " points"],
    bandwidth: float,
    counts: Float[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, " points"]:
    """Return the kernel density on the grid, each value shared linearly between two of 4096 bins.

    counts: how often each value is there; once by default.
    """
    often = np.ones(len(values)) if counts is None else counts
    low, high = grid[0] - REACH * bandwidth, grid[-1] + REACH * bandwidth
    centres = np.linspace(low, high, BINS)
    inside = (values > low) & (values < high)
    place, times = (values[inside] - low) / (centres[1] - centres[0]), often[inside]
    left = np.minimum(place.astype(np.int64), BINS - 2)
    part = place - left
    weights = np.bincount(left, times * (1 - part), BINS) + np.bincount(left + 1, times * part, BINS)
    kernel = np.exp(-0.5 * ((grid[:, None] - centres) / bandwidth) ** 2)
    return kernel @ weights / (np.sum(often) * bandwidth * np.sqrt(2 * np.pi))
