"""Count, mean and scatter of the records of each cell; where a cell has none, all of them are 0."""

from typing import Any

import numpy as np

from allbutone.model.cells import Cells
from allbutone.model.moments import Moments
from allbutone.tables.engines.sums import Sums


def moments_of_sums(cells: Cells, sums: Sums) -> Moments:
    """Return the moments of each cell's records that an engine has added up."""
    p, place = len(sums.origin), cells.of_codes(sums.codes)
    count, mean, scatter = np.zeros(cells.count), np.zeros((cells.count, p)), np.zeros((cells.count, p, p))
    shift = sums.total / sums.count[:, None]
    within = sums.products - sums.count[:, None, None] * _outer(shift)
    count[place], mean[place], scatter[place] = sums.count, sums.origin + shift, within
    return Moments(count, mean, scatter)


def merge_cells(some: Moments, others: Moments) -> Moments:
    """Return the moments of both together, cell by cell: S = S₁ + S₂ + (n₁n₂/n)·δδᵀ, δ = x̄₂ − x̄₁."""
    count, step = some.count + others.count, others.mean - some.mean
    share = others.count / np.maximum(count, 1.0)
    scatter = some.scatter + others.scatter + (some.count * share)[:, None, None] * _outer(step)
    return Moments(count, some.mean + share[:, None] * step, scatter)


def cells_without(everyone: Moments, some: Moments) -> Moments:
    """Return the moments of the records that are not among `some`, which are: the inverse of `merge_cells`."""
    left, step = everyone.count - some.count, some.mean - everyone.mean
    there = left > 0
    part = some.count / np.where(there, left, 1.0)
    scatter = everyone.scatter - some.scatter - (everyone.count * part)[:, None, None] * _outer(step)
    mean = everyone.mean - part[:, None] * step
    return Moments(left, np.where(there[:, None], mean, 0.0), np.where(there[:, None, None], scatter, 0.0))


def of_all_cells(moments: Moments) -> Moments:
    """Return the moments of the records of all cells together."""
    count = float(np.sum(moments.count))
    mean = moments.count @ moments.mean / max(count, 1.0)
    step = moments.mean - mean
    return Moments(count, mean, moments.scatter.sum(axis=0) + (moments.count[:, None] * step).T @ step)


def _outer(vectors: Any) -> Any:
    return vectors[:, :, None] * vectors[:, None, :]
