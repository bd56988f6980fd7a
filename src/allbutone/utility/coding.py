"""Tables as columns of numbers for propensity scores: measurements, and categories by their levels."""

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.tables.categories import Categories

EXPECTED = 5  # rows of a level, real and in each dataset, that an indicator of its own needs
LEAF = 1 / 40  # of the real rows: a leaf has a twentieth of all, real and synthetic
DEPENDENT = 1e-9  # of a column's variance, left when those before it are taken out, that counts as nothing


def complete(values: Float[np.ndarray, "n p"], categories: Categories) -> Bool[np.ndarray, " n"]:
    """Say which rows have no gap."""
    return ~np.isnan(values).any(axis=1) & (categories.codes >= 0).all(axis=1)


def coded_levels(categories: Categories, rows: Int[np.ndarray, " k"]) -> list[tuple[int, int]]:
    """Return the levels, as (column, level), that have an indicator: all but the most frequent of each column.

    Levels that are rare, really or in a dataset of these sizes, have none and count with the most frequent: a
    level that only one of the two tables has by chance would seem to tell them apart.
    """
    enough = EXPECTED * max(1.0, len(categories) / max(int(rows.min()), 1))
    found = []
    for place, (codes, levels) in enumerate(zip(categories.codes.T, categories.levels, strict=True)):
        counts = np.bincount(codes, minlength=len(levels))
        usual = int(np.argmax(counts))
        found += [(place, int(level)) for level in np.flatnonzero(counts >= enough) if level != usual]
    return found


def for_regression(
    values: Float[np.ndarray, "n p"], categories: Categories, levels: list[tuple[int, int]]
) -> Float[np.ndarray, "n d"]:
    """Return measurements, and 1 or 0 for each coded level."""
    if not levels:
        return values
    places, numbers = (np.array(part) for part in zip(*levels, strict=True))
    return np.concatenate([values, categories.codes[:, places] == numbers], axis=1)


def levels_in_between(categories: Categories) -> list[tuple[int, int]]:
    """Return the levels, as (column, level), but the first and last, that enough rows have to be a tree's leaf."""
    found = []
    for place, (codes, levels) in enumerate(zip(categories.codes.T, categories.levels, strict=True)):
        counts = np.bincount(codes, minlength=len(levels))
        found += [(place, level) for level in range(1, len(levels) - 1) if counts[level] >= LEAF * len(categories)]
    return found


def for_tree(
    values: Float[np.ndarray, "n p"], categories: Categories, levels: list[tuple[int, int]]
) -> Float[np.ndarray, "n d"]:
    """Return measurements, each category's level number, and 1 or 0 for each of these levels.

    A tree can then part levels in their order and any one level from the others; the first and the last need no
    column of their own.
    """
    return np.concatenate([for_regression(values, categories, levels), categories.codes], axis=1)


def independent(covariance: Float[np.ndarray, "d d"]) -> list[int]:
    """Return the places of columns that those before them do not determine, by a Cholesky factor that skips."""
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    left = covariance / scale / scale[:, None]
    kept = []
    for place in range(len(left)):
        if left[place, place] > DEPENDENT:
            kept.append(place)
            left = left - np.outer(left[:, place], left[place]) / left[place, place]
    return kept
