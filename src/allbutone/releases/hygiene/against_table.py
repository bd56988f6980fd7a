"""A release beside the table it was made from: rows, values, order and statistics that were carried over."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log, pi, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float, UInt
from scipy.special import pdtrc

from allbutone.releases.hygiene.dataset_values import FALSE_ALARM, Values, arrangements, goes_with
from allbutone.releases.hygiene.findings import Flaw
from allbutone.support.text import counted
from allbutone.tables.declared.column import CATEGORY, Column
from allbutone.tables.repeated import row_prints

_AGAIN = "draw the release again with allbutone; nothing of the table goes out as it is"
_CHANCE = 1e-6  # of so many equal rows, beyond which it is no coincidence


@dataclass(frozen=True, eq=False)
class Table:
    """The confidential table in the release's columns, all rows, and what else it holds in text.

    texts: every text in it, of all columns. kept: columns that go out as they are. public: columns whose levels
    were declared before anyone looked.
    """

    values: Values
    texts: frozenset[str]
    kept: tuple[str, ...] = ()
    public: tuple[str, ...] = ()

    @cached_property
    def people(self) -> set[int]:
        """How many rows it has, and how many without gaps."""
        whole = ~np.isnan(self.values.numbers).any(axis=1)
        return {len(self.values), int(whole.sum())}

    @property
    def drawn(self) -> list[int]:
        """The places of the columns that are not kept."""
        return [place for place, each in enumerate(self.values.columns) if each.name not in self.kept]


def dataset_against_table(where: str, data: Values, table: Table, tests: int) -> Iterator[Flaw]:
    """Find rows and values of the table in a synthetic dataset, and its order."""
    yield from _equal_values(where, data, table)
    if equal := _equal_rows(data, table):
        yield Flaw(where, f"{equal:,} of its rows are rows of the table, more than chance explains", _AGAIN)
    for real in _aligned(data, table):
        for place, column in enumerate(data.columns):
            one, other = data.numbers[:, place], real[:, place]
            both = ~(np.isnan(one) | np.isnan(other))
            one, other = one[both], other[both]
            same = np.array_equal(one, other) and arrangements(one) > -log(FALSE_ALARM / tests)
            if same or goes_with(one, other, tests):
                yield Flaw(where, f"its rows are in the table's order: {column.name!r} tells so", _AGAIN)


def _aligned(data: Values, table: Table) -> Iterator[Float[np.ndarray, "n d"]]:
    """Yield the table's rows, or those without gaps, where there are as many as in the dataset."""
    numbers = table.values.numbers
    whole = numbers[~np.isnan(numbers).any(axis=1)]
    if len(numbers) == len(data):
        yield numbers
    if len(whole) == len(data) != len(numbers):
        yield whole


def _equal_values(where: str, data: Values, table: Table) -> Iterator[Flaw]:
    """Find values of the table in columns that are drawn with all their digits: by chance there are none."""
    for place in table.drawn:
        column = data.columns[place]
        if column.kind == CATEGORY or column.decimals is not None:
            continue
        real, drawn = table.values.numbers[:, place], data.numbers[:, place]
        equal = int(np.isin(drawn[~np.isnan(drawn)], np.setdiff1d(real, column.bounds)).sum())
        if equal:
            problem = f"{counted(equal, 'value')} of {column.name!r} stand in the table, too, to the last digit"
            yield Flaw(where, problem, _AGAIN)


def _equal_rows(data: Values, table: Table) -> int:
    """Count rows of the dataset that the table has, too; 0 where no more than rounding explains."""
    places = table.drawn
    both = (data.numbers[:, places], table.values.numbers[:, places])
    mine, theirs = (each[~np.isnan(each).any(axis=1)] for each in both)
    if len(mine) < 2 or not len(theirs):
        return 0
    prints = row_prints([*mine.T])
    equal = int(np.isin(prints, row_prints([*theirs.T])).sum())
    expected = len(mine) * len(theirs) * _pair_chance(mine, prints, [data.columns[place] for place in places])
    # of pairs, which come in clumps: so four times as many are let pass
    return equal if equal and pdtrc(equal - 1, 4 * expected) < _CHANCE else 0


def _pair_chance(
    values: Float[np.ndarray, "n d"], prints: UInt[np.ndarray, " n"], columns: Sequence[Column]
) -> float:
    """Return how probable it is that two drawn rows are equal, from rounding and from what repeats.

    Two normals with covariance Σ fall into one cell of volume h of a grid with probability h (4π)^(−p/2) |Σ|^(−½);
    two levels agree with probability Σ share². Where the rows repeat one another more often, that often.
    """
    seen = _repeats(prints)
    measured = [place for place, each in enumerate(columns) if each.kind != CATEGORY]
    levels = [place for place, each in enumerate(columns) if each.kind == CATEGORY]
    chance = float(np.prod([_shares_squared(values[:, place]) for place in levels]))
    if any(columns[place].decimals is None for place in measured):
        return seen
    if measured:
        spread = np.atleast_2d(np.cov(values[:, measured].T))
        cell = float(np.prod([10.0 ** -(columns[place].decimals or 0) for place in measured]))
        volume = sqrt(max(float(np.linalg.det(spread)), 0.0)) * (4 * pi) ** (len(measured) / 2)
        apart = float(np.prod([max(_repeats(values[:, place]), 1e-300) for place in measured]))
        chance *= min(1.0, max(cell / volume if volume else 1.0, apart))
    return max(chance, seen)


def _repeats(values: Any) -> float:
    """Return the share of pairs that are equal."""
    counts = np.unique(values, return_counts=True)[1].astype(float)
    return float((counts * (counts - 1)).sum() / (len(values) * (len(values) - 1)))


def _shares_squared(values: Float[np.ndarray, " n"]) -> float:
    shares = np.unique(values, return_counts=True)[1] / len(values)
    return float((shares**2).sum())
