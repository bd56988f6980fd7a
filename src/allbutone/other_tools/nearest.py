"""Distances between people and rows: measurements by their range, levels the same or not, added up (Gower)."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from allbutone.other_tools.side_by_side import SideBySide

BLOCK = 2_000_000  # distances at once


def embedded(
    tables: SideBySide, columns: Sequence[int], *which: Float[np.ndarray, "_ f"]
) -> list[Float[np.ndarray, "_ d"]]:
    """Return matrices whose absolute differences, added up, are Gower's distance between rows of the tables.

    A measurement counts by its range over all of them, a level 1 where it differs, and so does a gap.
    """
    both = np.concatenate([each[:, columns] for each in which])
    parts = []
    for place, column in zip(columns, both.T, strict=True):
        gaps = np.isnan(column)
        if tables.is_category[place]:
            different = np.unique(column[~gaps])
            parts.append(0.5 * (column[:, None] == different))
        else:
            low, high = (np.nanmin(column), np.nanmax(column)) if not gaps.all() else (0.0, 0.0)
            parts.append(np.where(gaps, 0.0, column - low)[:, None] / ((high - low) or 1.0))
        if gaps.any():
            parts[-1][gaps] = 0.0
            parts.append(gaps[:, None].astype(float))
    whole = np.concatenate(parts, axis=1)
    return np.split(whole, np.cumsum([len(each) for each in which])[:-1])


def nearest(
    targets: Float[np.ndarray, "m d"], donors: Float[np.ndarray, "n d"], own: Int[np.ndarray, " m"] | None = None
) -> tuple[Float[np.ndarray, "m 2"], Int[np.ndarray, " m"]]:
    """Return the distances to the two nearest donors, and which is nearest, the first of several.

    own: the donor that each target is itself.
    """
    from scipy.spatial.distance import cdist  # not above: it is slow to load

    step = max(1, BLOCK // len(donors))
    away, which = np.empty((len(targets), 2)), np.empty(len(targets), dtype=np.int64)
    for start in range(0, len(targets), step):
        here = slice(start, start + step)
        block = cdist(targets[here], donors, "cityblock")
        each = np.arange(len(block))
        if own is not None:
            block[each, own[here]] = np.inf
        which[here] = first = np.argmin(block, axis=1)
        away[here, 0] = block[each, first]
        block[each, first] = np.inf
        away[here, 1] = block.min(axis=1)
    return away, which


def nearest_two(
    tables: SideBySide, some: Int[np.ndarray, " m"]
) -> tuple[Float[np.ndarray, " m"], Int[np.ndarray, " m"], Float[np.ndarray, "m 2"]]:
    """Return some people's distances to the nearest row, which, and those to the two nearest other people."""
    people, rows = embedded(tables, range(len(tables.names)), tables.people, tables.rows)
    to_rows, which = nearest(people[some], rows)
    to_people, _ = nearest(people[some], people, some)
    return to_rows[:, 0], which, to_people
