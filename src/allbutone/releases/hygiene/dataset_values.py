"""The values of a synthetic dataset: as declared, and in an order that tells nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import lgamma, log, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri

from allbutone.releases.hygiene.findings import AS_WRITTEN, Flaw
from allbutone.tables.declared.column import CATEGORY, Column, level_name

FALSE_ALARM = 1e-9  # the probability that a clean release is found in order, all columns and datasets together
MOST_EQUAL = 0.8  # the share of one value beyond which a few rows decide, and a correlation is not normal
_UNORDERED = "draw the release again with allbutone, which draws rows in no order"


@dataclass(frozen=True, eq=False)
class Values:
    """The columns of a dataset or a table as numbers: measurements and level numbers; NaN where one is missing."""

    columns: tuple[Column, ...]
    numbers: Float[np.ndarray, "n d"]

    @classmethod
    def of_frame(cls, table: Any, columns: Sequence[Column]) -> "Values":
        """Take the columns of an Arrow table; a level that is not declared is −1."""
        arrays = [np.zeros((table.num_rows, 0))]
        for column in columns:
            values = table.column(column.name)
            if column.kind == CATEGORY:
                numbers = {level: number for number, level in enumerate(column.levels)}
                whole = values.combine_chunks().dictionary_encode()
                codes = [numbers.get(level_name(level), -1) for level in whole.dictionary.to_pylist()]
                places = whole.indices.to_numpy(zero_copy_only=False)
                taken = np.array([*codes, np.nan])[np.nan_to_num(places, nan=len(codes)).astype(int)]
                arrays.append(taken[:, None])
            else:
                arrays.append(values.to_numpy(zero_copy_only=False).astype(np.float64)[:, None])
        return cls(tuple(columns), np.hstack(arrays))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.numbers)

    def measurements(self, kept: Sequence[str]) -> Float[np.ndarray, "n p"]:
        """Return the measurements that are not kept."""
        drawn = [column.kind != CATEGORY and column.name not in kept for column in self.columns]
        return self.numbers[:, np.array(drawn, dtype=bool)]


def declared_findings(where: str, data: Values, gaps: bool, kept: Sequence[str]) -> Iterator[Flaw]:
    """Find values that are not as declared: more digits, beyond the limits, levels that are not public, gaps."""
    for column, values in zip(data.columns, data.numbers.T, strict=True):
        missing = np.isnan(values)
        if missing.any() and not gaps:
            yield Flaw(where, f"{column.name!r} has missing values, and the release says that there are none")
        there = values[~missing]
        if column.kind == CATEGORY:
            if np.any(there < 0):
                problem = f"{column.name!r} has levels that release.json does not list"
                yield Flaw(where, problem, AS_WRITTEN)
            continue
        low, high = column.bounds
        if np.any((there < low) | (there > high)):
            yield Flaw(where, f"{column.name!r} has values beyond its declared limits")
        digits = column.decimals
        if digits is not None and column.name not in kept and not _on_grid(there, digits, low, high):
            yield Flaw(where, f"{column.name!r} has more digits than the {digits} decimals declared")


def _on_grid(values: Float[np.ndarray, " n"], digits: int, low: float, high: float) -> bool:
    return bool(np.all((values == np.round(values, digits)) | (values == low) | (values == high)))


def order_findings(where: str, data: Values, tests: int) -> Iterator[Flaw]:
    """Find rows that are sorted, or that follow one another as rows of a table do; `tests`: columns in all."""
    for column, values in zip(data.columns, data.numbers.T, strict=True):
        whole = values[~np.isnan(values)]
        steps = np.diff(whole)
        if arrangements(whole) > -log(FALSE_ALARM / tests) and (np.all(steps >= 0) or np.all(steps <= 0)):
            yield Flaw(where, f"its rows are sorted by {column.name!r}", _UNORDERED)
        elif goes_with(whole, np.arange(float(len(whole))), tests) or goes_with(whole[1:], whole[:-1], tests):
            problem = f"{column.name!r} changes along the rows, as in a table that is in some order"
            yield Flaw(where, problem, _UNORDERED)


def arrangements(values: Float[np.ndarray, " n"]) -> float:
    """Return the log of the number of orders that these values can be in, log n!/∏ c!."""
    counts = np.unique(values, return_counts=True)[1]
    return lgamma(len(values) + 1) - sum(lgamma(count + 1) for count in counts.tolist() if count > 1)


def goes_with(one: Float[np.ndarray, " n"], other: Float[np.ndarray, " n"], tests: int) -> bool:
    """Say whether two columns go together row by row, by the correlation r of their ranks, |r|√(n−1) normal."""
    if len(one) < 3 or max(_commonest(one), _commonest(other)) > MOST_EQUAL:
        return False
    ranks = [np.unique(each, return_inverse=True)[1].ravel() for each in (one, other)]
    parts = [each - each.mean() for each in ranks]
    size = sqrt(float(parts[0] @ parts[0]) * float(parts[1] @ parts[1]))
    far = -float(ndtri(FALSE_ALARM / (2 * tests)))
    return size > 0 and abs(float(parts[0] @ parts[1])) / size * sqrt(len(one) - 1) > far


def _commonest(values: Float[np.ndarray, " n"]) -> float:
    """Return the share of the most frequent value."""
    return float(np.unique(values, return_counts=True)[1].max() / len(values))
