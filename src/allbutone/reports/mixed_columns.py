"""The columns of a mixed release as a report lists them: what is declared of each, and what was released."""

from typing import Any

import numpy as np

from allbutone.releases.mixed.mechanism import Mechanism
from allbutone.releases.mixed.release import Release
from allbutone.support.text import listed, percent
from allbutone.tables.declared.column import CATEGORY

MOST_LEVELS = 12  # that a line shows


def declared_columns(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Return a line a column: its levels, or what is declared of its values, and whether it is kept."""
    return [
        {
            "column": column.name,
            "is_category": column.kind == CATEGORY,
            "declared": f"levels {listed(column.levels, MOST_LEVELS)}"
            if column.kind == CATEGORY
            else ", ".join(filter(None, ["measurement", column.in_words])),
            "drawn": "kept as it is" if column.name in mechanism.keep else "drawn",
        }
        for column in mechanism.schema.columns
    ]


def released_columns(release: Release) -> list[dict[str, Any]]:
    """Return the same lines with what the release itself shows: means and deviations, or the shares of levels.

    Of parameters the shares are their mean over the draws; means of measurements would need the kept columns.
    """
    mechanism = release.mechanism
    shares = dict(zip(mechanism.categories, _shares(release), strict=True))
    natural = np.concatenate([each.natural for each in release.tables]) if release.tables else None
    lines = []
    for line in declared_columns(mechanism):
        name, shown = line["column"], dict[str, Any](mean=None, SD=None, shares="")
        if name in shares:
            levels = mechanism.schema.levels_of(name)
            some = [f"{level} {percent(share)}" for level, share in zip(levels, shares[name], strict=True)]
            shown["shares"] = listed(some, MOST_LEVELS)
        elif natural is not None:
            values = natural[:, mechanism.columns.index(name)]
            values = values[~np.isnan(values)]
            shown |= {"mean": values.mean(), "SD": values.std(ddof=1) if len(values) > 1 else None}
        lines.append(line | shown)
    return lines


def _shares(release: Release) -> list[np.ndarray]:
    """Return the share of every level of each category over all synthetic rows, or the mean of released draws."""
    mechanism = release.mechanism
    if not release.tables:
        assert release.parameters is not None
        return mechanism.prior.cells.marginal(release.parameters.shares.mean(axis=0))
    codes = np.concatenate([each.categories.select(mechanism.categories).codes for each in release.tables])
    counts = [
        np.bincount(codes[codes[:, place] >= 0, place], minlength=size)
        for place, size in enumerate(mechanism.sizes)
    ]
    return [count / max(count.sum(), 1) for count in counts]
