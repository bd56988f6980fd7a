"""Fidelity as a notebook shows it: a line a column, and what the propensity scores say of all together."""

from html import escape
from typing import Any

import numpy as np

from allbutone.support.notebook import table
from allbutone.support.text import counted, number

HEADINGS = ("column", "mean difference", "SD ratio", "share of KS p > 0.05")
CATEGORY_HEADINGS = ("category", "misplaced share", "χ² over its expectation")


class Shown:
    """What a comparison of real with synthetic data shows of itself."""

    def __repr__(self) -> str:
        """Return what the propensity scores say, and a line a column: medians over the datasets."""
        return "\n".join([self._words(), *(line for part in self._tables() for line in _aligned(*part))])

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._words())}</p>" + "".join(table(*part) for part in self._tables())

    def _tables(self) -> list[tuple[tuple[str, ...], list[tuple[str, ...]]]]:
        """Return headings and lines of the measurements, and of the categories where there are any."""
        parts = ((HEADINGS, self._lines()), (CATEGORY_HEADINGS, self._category_lines()))
        return [(headings, lines) for headings, lines in parts if lines]

    def _words(self) -> str:
        found: Any = self
        tree = float(np.mean(found.pmse_tree_ratio))
        by_tree = f", by a tree {number(tree, 2)}" if np.isfinite(tree) else ""
        return (
            f"Fidelity of {counted(len(found.rows), 'dataset')} to {counted(found.people, 'record')}; propensity "
            f"error over its expectation {number(float(np.mean(found.pmse_ratio_drawn)), 2)}{by_tree}"
        )

    def _lines(self) -> list[tuple[str, ...]]:
        found: Any = self
        means, ratios = (np.median(each, axis=0) for each in (found.mean_differences, found.spread_ratios))
        columns = zip(found.columns, means, ratios, found.ks_p_share, strict=True)
        return [(name, *(number(float(each), 2) for each in values)) for name, *values in columns]

    def _category_lines(self) -> list[tuple[str, ...]]:
        found: Any = self
        lines: list[tuple[str, ...]] = []
        for shares in found.categories.shares:
            ratio = np.median(shares.chi_squared / np.maximum(shares.degrees, 1))
            misplaced = number(float(np.median(shares.distances)), 3)
            lines.append((shares.columns[0], misplaced, number(float(ratio), 2)))
        return lines


def _aligned(headings: tuple[str, ...], lines: list[tuple[str, ...]]) -> list[str]:
    every = [headings, *lines]
    widths = [max(map(len, cells)) for cells in zip(*every, strict=True)]
    return ["  ".join(map(str.rjust, line, widths)) for line in every]
