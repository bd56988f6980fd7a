"""Records of which some values are known between bounds alone: points spread there, and how densely."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtr, ndtri

from allbutone.model.incomplete import IncompleteRecords

POINTS = 8  # a lattice in each box: as few as tell how much of a class is in it


@dataclass(frozen=True, eq=False)
class Boxes:
    """Where the values of n records lay before they were rounded, and a density h there to spread points by.

    h is even between two bounds, and half a normal, as wide as `reach`, beyond one alone. `values` are those that
    are known, `drawn` what they were in each draw; of one draw alone where nothing is drawn.

    What p(x | draw) makes of a box, P = ∫ p dx, is about the mean of p/h over a lattice of points, evenly by h. If
    one of them was drawn by p within the box, 1/P is the mean of 1/(that mean): x₀ has the density p/P, in which
    all points of its lattice have their turn, so that Σ p/h cancels.
    """

    values: Float[np.ndarray, "n p"]
    low: Float[np.ndarray, "n p"]
    high: Float[np.ndarray, "n p"]
    drawn: Float[np.ndarray, "#d n p"]
    reach: Float[np.ndarray, " p"]

    @classmethod
    def of(cls, records: IncompleteRecords, drawn: Float[np.ndarray, "#d n p"]) -> "Boxes":
        """Take records, and what they were in each draw; beyond one bound they tell how far to reach."""
        low, high = records.low, records.high
        beyond = (low < high) & ~(np.isfinite(low) & np.isfinite(high))
        away = np.where(beyond, drawn - np.where(np.isfinite(low), low, np.where(beyond, high, 0.0)), 0.0)
        squares = np.sum(np.mean(away**2, axis=0), axis=0) / np.maximum(np.sum(beyond, axis=0), 1)
        return cls(records.values, low, high, drawn, np.where(squares > 0, np.sqrt(squares), 1.0))

    def select(self, columns: Int[np.ndarray, " o"]) -> "Boxes":
        """Return some of the columns."""
        names = ("values", "low", "high", "drawn", "reach")
        return replace(self, **{name: getattr(self, name)[..., columns] for name in names})

    def drawn_evenly(self, draws: int) -> "Boxes":
        """Return the same with points drawn by h, where no draw had the records in it."""
        if not self.open_columns.size:
            return self
        shares = np.random.default_rng(0).random((draws, 1, len(self.open_columns)))
        return replace(self, drawn=self._at(np.repeat(shares, len(self.values), axis=1)))

    @cached_property
    def are_open(self) -> Bool[np.ndarray, "n p"]:
        """Which values are known between bounds alone."""
        return self.low < self.high

    @cached_property
    def open_columns(self) -> Int[np.ndarray, " o"]:
        """The columns that hold such values."""
        return np.flatnonzero(self.are_open.any(axis=0))

    @property
    def lattice(self) -> "list[tuple[Float[np.ndarray, '#d n p'], Float[np.ndarray, '#d n']]]":
        """What was drawn, and the further points of its lattice; each with log h."""
        nodes = [self.drawn]
        if self.open_columns.size:
            shares, steps = self._shares(self.drawn), (2 * np.arange(len(self.open_columns)) + 1) / POINTS
            nodes += [self._at((shares + turn * steps) % 1.0) for turn in range(1, POINTS)]
        return [(points, self._log_h(points)) for points in nodes]

    def _ends(self, column: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return whether both bounds of a column's boxes are finite, where h begins, and how wide it is.

        The width is below 0 where h goes down from its beginning.
        """
        low, high, reach = self.low[:, column], self.high[:, column], self.reach[column]
        up = np.isfinite(low)
        two = up & np.isfinite(high)
        width = np.where(two, np.where(two, high, 0.0) - np.where(two, low, 0.0), np.where(up, reach, -reach))
        return two, np.where(up, low, high), np.where(self.are_open[:, column], width, 1.0)

    def _shares(self, points: Float[np.ndarray, "d n p"]) -> Float[np.ndarray, "d n o"]:
        """Return what share of h lies between its beginning and points, by open column."""
        shares = []
        for column in self.open_columns.tolist():
            two, start, width = self._ends(column)
            away = (points[..., column] - start) / width
            shares.append(np.where(two, away, 2 * ndtr(away) - 1))
        return np.clip(np.stack(shares, axis=-1), 0.0, 1.0)

    def _at(self, shares: Float[np.ndarray, "d n o"]) -> Float[np.ndarray, "d n p"]:
        """Return the points of which these are the shares."""
        points = np.repeat(self.values[None], len(shares), axis=0)
        for column, share in zip(self.open_columns.tolist(), np.moveaxis(shares, -1, 0), strict=True):
            two, start, width = self._ends(column)
            there = start + width * np.where(two, share, ndtri(0.5 + 0.5 * np.minimum(share, 1 - 1e-12)))
            points[..., column] = np.where(self.are_open[:, column], there, points[..., column])
        return points

    def _log_h(self, points: Float[np.ndarray, "#d n p"]) -> Float[np.ndarray, "#d n"]:
        """Return log h of points in the boxes."""
        found = np.zeros(points.shape[:2])
        for column in self.open_columns.tolist():
            two, start, width = self._ends(column)
            fall = 0.5 * np.log(2 / np.pi) - 0.5 * ((points[..., column] - start) / width) ** 2
            logs = np.where(two, 0.0, fall) - np.log(np.abs(width))
            found += np.where(self.are_open[:, column], logs, 0.0)
        return found
