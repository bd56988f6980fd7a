"""What is wrong with columns only beside others, read off their sums."""

from collections.abc import Mapping, Sequence

import numpy as np

from allbutone.tables.admission import Problem, determined_by
from allbutone.tables.engines.expressions import Measured
from allbutone.tables.engines.gate import Seen
from allbutone.tables.engines.levels import Levels
from allbutone.tables.engines.sums import Sums

_KIND = 'declare its kind in a table file (kind = "category" or "measurement")'


def columns_together(sums: Sums, measured: Sequence[Measured], found: Levels) -> list[Problem]:
    """Find columns that are constant in the rows without gaps, or that categories or earlier ones determine."""
    names, people = [each.name for each in measured], sums.people
    if people < 2 or not names:
        return []
    spread = np.sqrt(np.maximum(np.diagonal(sums.scatter), 0) / people)
    size = np.abs(sums.total.sum(axis=0) / people) + spread
    still = spread <= 1e-15 * size
    problems = [
        Problem(name, "is constant in the rows without gaps")
        for name, flag in zip(names, still, strict=True)
        if flag
    ]
    if not still.any() and people > len(names) + 1:
        problems += [Problem(name, words) for name, words in _determined(sums, names, found).items()]
    return problems


def two_valued(sums: Sums, measured: Sequence[Measured], seen: Mapping[str, Seen]) -> list[Problem]:
    """Find numbers of two values, which may be a category: Σ(x − low)(high − x) = 0 for these alone."""
    ends = np.array([(seen[each.name].low, seen[each.name].high) for each in measured]).reshape(-1, 2)
    scales = [each.declared.scale.to_model(pair) for each, pair in zip(measured, ends, strict=True)]
    low, high = np.reshape(scales, (-1, 2)).T - sums.origin
    squares, total = np.diagonal(sums.products.sum(axis=0)), sums.total.sum(axis=0)
    between = (low + high) * total - squares - sums.people * low * high
    two = between <= 1e-9 * sums.people * (high - low) ** 2
    words = "holds two values only, so that it may be a measurement or a category"
    return [Problem(each.name, words, (_KIND,)) for each, flag in zip(measured, two, strict=True) if flag]


def _determined(sums: Sums, names: Sequence[str], found: Levels) -> dict[str, str]:
    """Return which measurements are determined by categories or by earlier measurements, and by which."""
    parts, of = [np.zeros((len(sums.count), 0))], []
    for place, name in enumerate(found.names):
        used = np.unique(sums.codes[:, place])
        parts.append((sums.codes[:, place][:, None] == used[1:]).astype(float))
        of += [name] * (len(used) - 1)
    known = np.hstack(parts)
    if sums.people <= known.shape[1] + len(names) + 1:  # too few rows to tell
        known, of = known[:, :0], []
    # cross-products of the indicators and measurements, from the sums of the cells
    weighted = known * sums.count[:, None]
    cross, first = known.T @ sums.total, np.concatenate([weighted.sum(axis=0), sums.total.sum(axis=0)])
    products = np.block([[known.T @ weighted, cross], [cross.T, sums.products.sum(axis=0)]])
    covariance = products - np.outer(first, first) / sums.count.sum()
    deviation = np.sqrt(np.diagonal(covariance))
    return determined_by(covariance / np.outer(deviation, deviation), [*of, *names], set(names))
