"""What an adversary believes of a record's categories, with the release and without it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.integrals.cell_totals import CellIntegrals
from allbutone.model.cells import Cells
from allbutone.support.arrays import log_sum_exp


@dataclass(frozen=True, eq=False)
class LevelBeliefs:
    """Probabilities of each record's own cell, all its categories right, with the release and without it.

    levels: for each category the probability of the own level, its error, and that without the release.
    """

    own: Float[np.ndarray, " b"]
    without: Float[np.ndarray, " b"]
    levels: tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]


@dataclass(frozen=True, eq=False)
class CellBeliefs:
    """Probabilities of every cell for some records, with the release, its standard error, and without."""

    cells: Cells
    own: Int[np.ndarray, " b"]
    probability: Float[np.ndarray, "b cells"]
    error: Float[np.ndarray, "b cells"]
    baseline: Float[np.ndarray, "b cells"]

    @property
    def of_truth(self) -> "LevelBeliefs":
        """What is believed of each record's own cell and levels."""
        here = np.arange(len(self.own)), self.own
        levels = tuple(self.of_true_level(category) for category in range(len(self.cells.sizes)))
        return LevelBeliefs(self.probability[here], self.baseline[here], levels)

    def of_true_level(self, category: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the probability of each record's own level of a category, its error, and that without release."""
        level = self.cells.codes[self.own, category]
        same = self.cells.codes[None, :, category] == level[:, None]
        # an error in a cell's total moves the level's probability by its share of what is inside or outside
        inside = np.sum(self.probability * same, axis=1)
        moved = self.probability * np.where(same, 1 - inside[:, None], inside[:, None]) * self.error
        return inside, np.sqrt(np.sum(moved**2, axis=1)), np.sum(self.baseline * same, axis=1)


def cell_beliefs(integrals: CellIntegrals, rows: Int[np.ndarray, " b"], known: Sequence[int]) -> CellBeliefs:
    """Return what the adversary on each record believes of its cell; `known`: categories known of all records."""
    everyone: MixedLeaveOneOut = integrals.everyone
    possible = everyone.possible(rows, known)
    before, after = everyone.log_cell_odds(rows)
    totals = integrals.totals(rows, possible)
    return CellBeliefs(
        everyone.whole.cells,
        everyone.records.cells[rows],
        _shares(after + totals.log_total, possible),
        totals.error,
        _shares(before + integrals.before(rows, possible), possible),
    )


def _shares(
    log_odds: Float[np.ndarray, "b cells"], possible: Bool[np.ndarray, "b cells"]
) -> Float[np.ndarray, "b cells"]:
    odds = np.where(possible, log_odds, -np.inf)
    return np.exp(odds - log_sum_exp(odds, axis=1)[:, None])
