"""Counts of categories with noise: which margins are counted, and how many people each cell may have."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import ceil, prod, sqrt

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln

from allbutone.model.augmentation import Convergence
from allbutone.model.location import JEFFREYS
from allbutone.model.moments import Cells

# Each category alone, and each pair, are counted: with noise, cells of many categories would say nothing of the
# margins that matter. What is not counted (how three and more hang together) is drawn as the prior has it.
#
# Let N be the people of all cells. A priori their shares are Dirichlet, so that p(N) ∝ Π Γ(N_c + α)/N_c! among all
# N of n people; a margin is told with normal noise. Two cells at a time: how many of the people whom they have
# together are in the first is a distribution on whole numbers, which is computed and drawn from as it is.
#
# With P = Σ AᵀA/σ² over the margins A·N and g = Σ Aᵀ(told − A·N)/σ², moving k people from cell b to cell a changes
# the log likelihood by k·(g_a − g_b) − k²·d/2, d = P_aa + P_bb − 2P_ab.


CHAINS = 32
FIRST_SWEEPS, MOST_SWEEPS = 128, 2048
REACH = 6.5  # deviations of the noise to both sides that are looked at
PEOPLE_A_WEIGHT = 50  # the prior of all cells together is worth one record in so many


@dataclass(frozen=True, eq=False)
class NoisyMargin:
    """The counts of all combinations of some categories, by their places, with noise of deviation `noise`."""

    places: tuple[int, ...]
    counts: Float[np.ndarray, " k"]
    noise: float


def margins_of(categories: int) -> list[tuple[int, ...]]:
    """Return which of so many categories are counted together: each alone, then each pair."""
    alone: list[tuple[int, ...]] = [(place,) for place in range(categories)]
    return alone + list(combinations(range(categories), 2))


def margin_cells(sizes: tuple[int, ...], places: tuple[int, ...]) -> int:
    """Return how many combinations these categories have."""
    return prod(sizes[place] for place in places)


def index_of(cells: Cells, places: tuple[int, ...]) -> Int[np.ndarray, " cells"]:
    """Return which combination of these categories each cell belongs to."""
    return Cells(tuple(cells.sizes[place] for place in places)).of_codes(cells.codes[:, list(places)])


def cell_weight(cells: int, people: int) -> float:
    """Return α of each cell: ½, or less where there are so many that the prior would flatten the margins."""
    return min(JEFFREYS, max(1.0, people / PEOPLE_A_WEIGHT) / cells)


@dataclass(frozen=True, eq=False)
class CellCounts:
    """Draws of how many people each cell has, given noisy margins."""

    cells: Cells
    people: int
    margins: tuple[NoisyMargin, ...]

    @property
    def weight(self) -> float:
        """α of each cell."""
        return cell_weight(self.cells.count, self.people)

    @cached_property
    def _indices(self) -> list[Int[np.ndarray, " cells"]]:
        return [index_of(self.cells, margin.places) for margin in self.margins]

    @cached_property
    def _precision(self) -> Float[np.ndarray, "cells cells"]:
        """P: 1/σ² of every margin in which two cells are the same, added up."""
        pairs = zip(self._indices, self.margins, strict=True)
        return np.sum([(at[:, None] == at) / margin.noise**2 for at, margin in pairs], axis=0)

    @cached_property
    def _log_weights(self) -> Float[np.ndarray, " k"]:
        """Γ(N + α)/N! of every number of people, as logs."""
        number = np.arange(self.people + 1.0)
        return np.asarray(gammaln(number + self.weight) - gammaln(number + 1))

    def draw(self, count: int, rng: np.random.Generator) -> tuple[Int[np.ndarray, "count cells"], Convergence]:
        """Draw so many tables of cells, and say whether the chains had settled."""
        if self.cells.count == 1:
            nothing = np.zeros(0)
            return np.full((count, 1), self.people), Convergence(CHAINS, 0, (), nothing, nothing)
        state, found = self._settled(rng)
        parts = [state]
        while CHAINS * len(parts) < count:
            for _ in range(found.spacing):
                state = self._sweep(state, rng)
            parts.append(state)
        return np.concatenate(parts)[:count], found

    def _settled(self, rng: np.random.Generator) -> tuple[Int[np.ndarray, "chains cells"], Convergence]:
        """Run the chains, twice as long until all that was counted agrees; the first half is forgotten."""
        state = self._start(rng)
        history: list[Float[np.ndarray, "chains s"]] = []
        labels = tuple(f"count {k + 1} of {m.places}" for m in self.margins for k in range(len(m.counts)))
        while True:
            for _ in range(max(FIRST_SWEEPS, len(history))):
                state = self._sweep(state, rng)
                history.append(np.concatenate(self._counted(state), axis=1))
            convergence = Convergence.of(len(history), labels, np.array(history[len(history) // 2 :]))
            if convergence.reached or len(history) >= MOST_SWEEPS:
                return state, convergence

    def _counted(self, state: Int[np.ndarray, "chains cells"]) -> list[Float[np.ndarray, "chains k"]]:
        """Return all margins of tables of cells."""
        return [
            np.stack([np.bincount(at, weights=row, minlength=len(margin.counts)) for row in state])
            for at, margin in zip(self._indices, self.margins, strict=True)
        ]

    def _start(self, rng: np.random.Generator) -> Int[np.ndarray, "chains cells"]:
        """Start with people who fall into the cells as if the categories were independent."""
        shares = np.ones(self.cells.count)
        for at, margin in zip(self._indices, self.margins, strict=True):
            if len(margin.places) == 1:
                shares *= np.maximum(margin.counts, margin.noise)[at]
        return rng.multinomial(self.people, shares / shares.sum(), size=CHAINS)

    def _sweep(self, state: Int[np.ndarray, "chains cells"], rng: np.random.Generator) -> np.ndarray:
        """Move people between two cells of each chain, as many times as there are cells."""
        state, rows = state.copy(), np.arange(len(state))
        told = zip(self._indices, self.margins, self._counted(state), strict=True)
        pull = np.sum([((m.counts - now) / m.noise**2)[:, at] for at, m, now in told], axis=0)
        for one, other in zip(*self._pairs(len(state), rng), strict=True):
            precision = self._precision
            bend = precision[one, one] + precision[other, other] - 2 * precision[one, other]
            best = (pull[rows, one] - pull[rows, other]) / bend
            from_one, from_other = state[rows, one], state[rows, other]
            moved = self._drawn(best, bend, from_one, from_other, rng)
            state[rows, one] += moved
            state[rows, other] -= moved
            pull -= moved[:, None] * (precision[one] - precision[other])
        return state

    def _drawn(
        self,
        best: Float[np.ndarray, " m"],
        bend: Float[np.ndarray, " m"],
        one: Int[np.ndarray, " m"],
        other: Int[np.ndarray, " m"],
        rng: np.random.Generator,
    ) -> Int[np.ndarray, " m"]:
        """Draw how many people come into the first cell from the second, from the exact distribution of that."""
        half = min(ceil(REACH / sqrt(float(np.min(bend)))) + 1, self.people)
        middle = np.clip(np.rint(best), -one, other).astype(np.int64)
        moved = middle[:, None] + np.arange(-half, half + 1)
        inside = (moved >= -one[:, None]) & (moved <= other[:, None])
        safe = np.where(inside, moved, middle[:, None])
        logs = self._log_weights[one[:, None] + safe] + self._log_weights[other[:, None] - safe]
        logs = np.where(inside, logs - 0.5 * bend[:, None] * (safe - best[:, None]) ** 2, -np.inf)
        summed = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
        chosen = np.sum(summed < rng.random((len(best), 1)) * summed[:, -1:], axis=1)
        return safe[np.arange(len(best)), chosen]

    def _pairs(self, chains: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of different cells, (steps, chains) each: any two, and such as differ in one category."""
        sizes, count = np.array(self.cells.sizes), self.cells.count
        shape = (count, chains)
        one = rng.integers(count, size=shape)
        other = (one + rng.integers(1, count, size=shape)) % count
        many = np.flatnonzero(sizes > 1)
        place = many[rng.integers(len(many), size=shape)]
        codes = self.cells.codes[one]
        steps, chain = np.indices(shape)
        shifted = (codes[steps, chain, place] + 1 + np.floor(rng.random(shape) * (sizes[place] - 1))) % sizes[
            place
        ]
        codes[steps, chain, place] = shifted.astype(np.int64)
        return one, np.where(rng.random(shape) < 0.5, other, self.cells.of_codes(codes))
