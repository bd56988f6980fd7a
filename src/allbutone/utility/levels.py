"""Measurements by the levels of a category: their means, and how much of their spread the category explains."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from allbutone.tables.categories import Categories


@dataclass(frozen=True, eq=False)
class ByLevel:
    """The measurements by the levels of one category column, in the real table and in each of k datasets.

    people, rows: how many values there are of each measurement at each level.
    `mean_differences` are synthetic less real, in standard deviations √((s²_real + s²_synthetic)/2) of the whole
    column; NaN where a level has no values in one of the two.
    eta: the correlation ratio, √(spread between levels/whole spread): 0 where all levels have one mean.
    """

    column: str
    levels: tuple[str, ...]
    people: Int[np.ndarray, "p l"]
    rows: Int[np.ndarray, "k p l"]
    mean_differences: Float[np.ndarray, "k p l"]
    eta: Float[np.ndarray, " p"]
    synthetic_eta: Float[np.ndarray, "k p"]


def by_levels(
    values: Float[np.ndarray, "n p"],
    categories: Categories,
    datasets: list[Float[np.ndarray, "_ p"]],
    synthetic: list[Categories],
) -> tuple[ByLevel, ...]:
    """Compare the measurements by the levels of every category column."""
    found = []
    centre = np.array([_mean(column) for column in values.T])  # about which sums lose no digits
    for place, (name, levels) in enumerate(zip(categories.columns, categories.levels, strict=True)):
        size = len(levels)
        people, means, eta, spread = _at_levels(values - centre, categories.codes[:, place], size)
        each = [
            _at_levels(data - centre, coded.codes[:, place], size)
            for data, coded in zip(datasets, synthetic, strict=True)
        ]
        rows, others, etas, spreads = (np.stack(part) for part in zip(*each, strict=True))
        scale = np.sqrt((spread**2 + spreads**2) / 2)[..., None]
        with np.errstate(invalid="ignore", divide="ignore"):  # a column that does not vary
            differences = (others - means) / scale
        found.append(ByLevel(name, levels, people, rows, differences, eta, etas))
    return tuple(found)


def _mean(column: Float[np.ndarray, " n"]) -> float:
    here = column[np.isfinite(column)]
    return float(here.mean()) if len(here) else 0.0


def _at_levels(
    values: Float[np.ndarray, "n p"], codes: Int[np.ndarray, " n"], size: int
) -> tuple[Int[np.ndarray, "p l"], Float[np.ndarray, "p l"], Float[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Return each measurement's counts and means by level, η and the standard deviation, where both are known.

    η² = Σ nₗ(x̄ₗ − x̄)²/Σ(xᵢ − x̄)².
    """
    p = values.shape[1]
    counts, means = np.zeros((p, size), dtype=np.int64), np.full((p, size), np.nan)
    eta, spread = np.full(p, np.nan), np.full(p, np.nan)
    for place, column in enumerate(values.T):
        both = np.isfinite(column) & (codes >= 0)
        known, level = column[both], codes[both]
        if not len(known):
            continue
        mean = known.mean()
        counts[place] = np.bincount(level, minlength=size)
        sums = np.bincount(level, known - mean, minlength=size)
        here = counts[place] > 0
        means[place, here] = mean + sums[here] / counts[place, here]
        squares = np.sum((known - mean) ** 2)
        if squares > 0:
            eta[place] = np.sqrt(np.minimum(np.sum(sums[here] ** 2 / counts[place, here]) / squares, 1.0))
        if len(known) > 1:
            spread[place] = np.sqrt(squares / (len(known) - 1))
    return counts, means, eta, spread
