"""Which values are missing together: how synthetic tables get gaps of their own, and what these tell."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.model.cells import UNKNOWN, Cells
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import MixedRecords

WEIGHT = 1.0  # of all patterns together, in records (Perks): few rows have a pattern that nobody has


@dataclass(frozen=True, eq=False)
class GapPatterns:
    """The pattern of a record's gaps ~ Dirichlet-multinomial over all 2^g patterns of the g columns that have any.

    It is one more category, independent of all others. Its levels are not those of the table but all there can be,
    so that a pattern which one person alone has is not given away by the list of levels. `columns`: which columns
    (measurements, then categories) may have gaps, which goes out with a release. `patterns` seen, and `counts`.
    """

    columns: Int[np.ndarray, " g"]
    width: int
    patterns: Bool[np.ndarray, "seen g"]
    counts: Int[np.ndarray, " seen"]

    @classmethod
    def of(cls, records: IncompleteRecords) -> "GapPatterns":
        """Return the distribution given a table, whose columns with gaps are the ones that may have some."""
        gaps = records.gaps
        (columns,) = np.nonzero(np.any(gaps, axis=0))
        return cls(columns, gaps.shape[1], *_counted(gaps[:, columns]))

    def update(self, records: IncompleteRecords) -> "GapPatterns":
        """Return the distribution given further records, whose gaps are in the same columns."""
        more, counts = _counted(records.gaps[:, self.columns])
        patterns = np.concatenate([self.patterns, more])
        found, which = np.unique(patterns, axis=0, return_inverse=True)
        total = np.bincount(which.ravel(), np.concatenate([self.counts, counts]), len(found))
        return GapPatterns(self.columns, self.width, found, total.astype(np.int64))

    def without(self, pattern: Bool[np.ndarray, " d"]) -> "GapPatterns":
        """Return the distribution without one of its records, of this pattern."""
        same = np.all(self.patterns == pattern[self.columns], axis=1)
        return GapPatterns(self.columns, self.width, self.patterns, self.counts - same)

    @property
    def share(self) -> float:
        """The prior weight of each pattern."""
        return WEIGHT * 0.5 ** len(self.columns)

    def log_probability(self, gaps: Bool[np.ndarray, "n d"]) -> Float[np.ndarray, " n"]:
        """Return log[(α + n_pattern)/(1 + n)] of the next record's pattern, α = 2^(−g)."""
        same = np.all(gaps[:, None, self.columns] == self.patterns, axis=-1)
        return np.log(self.share + same @ self.counts) - np.log(WEIGHT + np.sum(self.counts))

    def draw(self, rng: np.random.Generator, rows: int) -> Bool[np.ndarray, "rows d"]:
        """Draw the patterns of a dataset: shares by their Dirichlet, then each row's pattern.

        All patterns that nobody has are one share; within it, which of them it is follows Pólya's urn.
        """
        unseen = max(0.0, WEIGHT - self.share * len(self.patterns))
        weights = np.append(self.share + self.counts, unseen)
        gammas = rng.standard_gamma(weights)
        which = rng.choice(len(weights), size=rows, p=gammas / gammas.sum())
        (new,) = np.nonzero(which == len(self.patterns))
        found = np.zeros((rows, self.width), dtype=bool)
        old = which < len(self.patterns)
        found[np.ix_(old, self.columns)] = self.patterns[which[old]]
        found[np.ix_(new, self.columns)] = self._unseen(rng, len(new), unseen)
        return found

    def _unseen(self, rng: np.random.Generator, count: int, weight: float) -> Bool[np.ndarray, "count g"]:
        """Draw patterns that nobody has: one drawn before, or any with equal probability."""
        drawn = np.zeros((count, len(self.columns)), dtype=bool)
        for number in range(count):
            if rng.random() * (number + weight) < number:
                drawn[number] = drawn[rng.integers(number)]
                continue
            pattern = rng.random(len(self.columns)) < 0.5
            while np.any(np.all(self.patterns == pattern, axis=1)):
                pattern = rng.random(len(self.columns)) < 0.5
            drawn[number] = pattern
        return drawn


def with_gaps(records: MixedRecords, cells: Cells, gaps: Bool[np.ndarray, "n d"]) -> IncompleteRecords:
    """Return complete records with these values taken away: of the measurements, then of the categories."""
    p = records.values.shape[1]
    values = np.where(gaps[:, :p], np.nan, records.values)
    codes = np.where(gaps[:, p:], UNKNOWN, cells.codes[records.cells])
    return IncompleteRecords.of(codes, values, records.covariates)


def log_pattern_posterior(
    others: GapPatterns, datasets: Sequence[IncompleteRecords], gaps: Bool[np.ndarray, "n d"]
) -> Float[np.ndarray, " n"]:
    """Return the log posterior of a missing record's pattern at candidates, up to a constant.

    Σⱼ log p(pattern | X₋ ∪ Z⁽ʲ⁾) − (k − 1)·log p(pattern | X₋): a product of predictives like any other. It is
    independent of the record's values, whose posterior it multiplies.
    """
    before = others.log_probability(gaps)
    opinions = sum(others.update(each).log_probability(gaps) for each in datasets)
    return opinions - (len(datasets) - 1) * before


def _counted(gaps: Bool[np.ndarray, "n g"]) -> tuple[Bool[np.ndarray, "seen g"], Int[np.ndarray, " seen"]]:
    return np.unique(gaps, axis=0, return_counts=True)
