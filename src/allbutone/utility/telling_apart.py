"""Propensity scores of whole rows, measurements and categories: by regression and by a tree."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.model.moments import Moments
from allbutone.utility.classification_tree import tree_propensity
from allbutone.utility.coding import (
    coded_levels,
    complete,
    for_regression,
    for_tree,
    independent,
    levels_in_between,
)
from allbutone.utility.compare import propensities, whitener
from allbutone.utility.matching import Matched


@dataclass(frozen=True, eq=False)
class ToldApart:
    """What `Fidelity` says of propensity scores: the fields of the same names."""

    terms: int
    complete: int
    complete_rows: Int[np.ndarray, " k"]
    pmse: Float[np.ndarray, " k"]
    propensity_finite: Bool[np.ndarray, " k"]
    pmse_tree: Float[np.ndarray, " c"]
    pmse_tree_expected: Float[np.ndarray, " c"]


def told_apart(pair: Matched, rng: np.random.Generator | None) -> ToldApart:
    """Return how well real and synthetic rows without gaps are told apart; NaN where there are too few of them."""
    real, coded = pair.records.values, pair.records.categories
    tables = list(zip([real, *pair.datasets], [coded, *pair.categories], strict=True))
    if pair.has_gaps or any(each.has_gaps for _, each in tables):
        whole = [complete(*table) for table in tables]
        tables = [(values[kept], each.take(kept)) for (values, each), kept in zip(tables, whole, strict=True)]
    sizes = np.array([len(values) for values, _ in tables])
    count, rows, none = int(sizes[0]), sizes[1:], np.full(len(tables) - 1, np.nan)
    levels = coded_levels(tables[0][1], rows)
    if sizes.min() < 2 or not (real.shape[1] or levels):
        return ToldApart(0, count, rows, none, np.zeros(len(rows), dtype=bool), none[:1], none[:1])
    designs = [for_regression(*table, levels) for table in tables]
    first, *others = map(Moments.of, designs)
    scatters = np.stack([moments.scatter for moments in others])
    if levels:  # one category may determine another
        kept = independent(
            first.scatter / (first.count - 1) + np.mean(scatters / (rows[:, None, None] - 1), axis=0)
        )
        designs = [design[:, kept] for design in designs]
        first, scatters = Moments.of(designs[0]), scatters[:, kept][:, :, kept]
    scores = propensities(designs[0], designs[1:], rows, whitener(first, scatters, rows))
    between = levels_in_between(tables[0][1])
    trees = [for_tree(*table, between) for table in tables] if coded.columns else designs
    tree = tree_propensity(trees[0], trees[1:], rng or np.random.default_rng(0))
    return ToldApart(
        terms=designs[0].shape[1],
        complete=count,
        complete_rows=rows,
        pmse=scores.mean_squared_error,
        propensity_finite=scores.finite,
        pmse_tree=tree.mean_squared_error,
        pmse_tree_expected=tree.expected,
    )
