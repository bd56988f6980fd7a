"""A table in an engine as its columns are compared: by its moments, and by how many values lie in narrow bins."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.model.moments import Moments
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy

BINS = 1 << 14
REACH = 8.0  # standard deviations on either side of the mean that the bins cover
BLOCK_ROWS = 1 << 16  # of a dataset, counted at a time


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of equal width of each of p columns, from `low` on; the first and the last hold all beyond, too."""

    low: Float[np.ndarray, " p"]
    width: Float[np.ndarray, " p"]

    @classmethod
    def about(cls, mean: Float[np.ndarray, " p"], spread: Float[np.ndarray, " p"]) -> "Bins":
        """Return bins a thousandth of a standard deviation wide, about the mean."""
        return cls(mean - REACH * spread, 2 * REACH * spread / BINS)

    @property
    def centres(self) -> Float[np.ndarray, "p bins"]:
        """The middle of each bin."""
        return self.low[:, None] + self.width[:, None] * (np.arange(BINS) + 0.5)

    def count(self, values: Float[np.ndarray, "n p"]) -> Int[np.ndarray, "p bins"]:
        """Count values in memory."""
        total = np.zeros((len(self.low), BINS), dtype=np.int64)
        for start in range(0, len(values), BLOCK_ROWS):
            place = np.floor((values[start : start + BLOCK_ROWS] - self.low) / self.width)
            for column, places in zip(total, np.clip(place, 0, BINS - 1).astype(np.int64).T, strict=True):
                column += np.bincount(places, minlength=BINS)
        return total


@dataclass(frozen=True, eq=False)
class CountedTable:
    """A table in its engine, by its moments and by how many values lie in each of many narrow bins.

    What compares or judges tables takes it in place of the table; the engine counts once, when first asked.
    """

    records: LazyRecords

    @classmethod
    def of(cls, table: Any, **how_to_read: Any) -> "CountedTable":
        """Take a lazy frame, or records that are in an engine."""
        return table if isinstance(table, CountedTable) else cls(LazyRecords.of(table, **how_to_read))

    @staticmethod
    def takes(table: Any) -> bool:
        """Say whether a table is to be counted in its engine."""
        return isinstance(table, CountedTable) or is_lazy(table)

    @property
    def people(self) -> int:
        """The number of records."""
        return len(self.records)

    @cached_property
    def moments(self) -> Moments:
        """The moments of the measurements."""
        return Moments.of(self.records)

    @property
    def spread(self) -> Float[np.ndarray, " p"]:
        """The standard deviation of each measurement."""
        return np.sqrt(np.diagonal(self.moments.scatter) / (self.people - 1))

    @cached_property
    def bins(self) -> Bins:
        """The bins of each measurement."""
        return Bins.about(np.asarray(self.moments.mean), self.spread)

    @cached_property
    def counts(self) -> Int[np.ndarray, "p bins"]:
        """How many values of each measurement lie in each of its bins."""
        return self.records.histograms(self.bins.low, self.bins.width, BINS)

    def quantiles(self, places: Float[np.ndarray, " q"]) -> Float[np.ndarray, "q p"]:
        """Return values below which these shares of each column lie, to the width of a bin."""
        below = np.cumsum(self.counts, axis=1)
        columns = zip(self.bins.centres, below, strict=True)
        return np.stack(
            [middle[np.searchsorted(up_to, places * self.people)] for middle, up_to in columns], axis=1
        )

    def ks_numerators(self, datasets: list[Float[np.ndarray, "_ p"]]) -> Int[np.ndarray, "k p"]:
        """Return n·rows·D, a whole number, of each dataset and column, D = max |F − G| at the bins' ends.

        These are a thousandth of a standard deviation apart: D may be larger by what lies within a bin.
        """
        rows = np.array([len(data) for data in datasets])
        below = np.cumsum(np.stack([self.bins.count(data) for data in datasets]), axis=-1)
        apart = self.people * below - rows[:, None, None] * np.cumsum(self.counts, axis=-1)
        return np.max(np.abs(apart), axis=-1)
