"""The cross-classification of categories: one cell for each combination of levels, and how a cell is coded."""

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
from jaxtyping import Bool, Float, Int

UNKNOWN = -1  # in place of a level


@dataclass(frozen=True)
class Cells:
    """All combinations of levels of some categories, the last category running fastest; none make one cell."""

    sizes: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of cells."""
        return prod(self.sizes)

    @cached_property
    def codes(self) -> Int[np.ndarray, "cells q"]:
        """The level of each category in each cell."""
        return np.stack(np.unravel_index(np.arange(self.count), self.sizes or (1,)), axis=-1)[:, : len(self.sizes)]

    def of_codes(self, codes: Int[np.ndarray, "*n q"]) -> Int[np.ndarray, " *n"]:
        """Return the cell of each record; every level must be known."""
        if not self.sizes:
            return np.zeros(codes.shape[:-1], dtype=np.int64)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(codes, -1, 0)), self.sizes))

    def agree_with(self, codes: Int[np.ndarray, "*n q"]) -> Bool[np.ndarray, "*n cells"]:
        """Say which cells each record can be in, given the levels that are known of it (−1: unknown)."""
        known = codes[..., None, :]
        return np.asarray(np.all((known == UNKNOWN) | (known == self.codes), axis=-1))

    @cached_property
    def main_effects(self) -> Float[np.ndarray, "cells r"]:
        """Each cell's z: 1, then 0 or 1 for each level of each category that has at least two.

        Every level has an effect of its own, which a proper prior allows: no level is the one that others are
        compared with, so that it does not matter in which order they stand.
        """
        parts = [np.ones((self.count, 1))]
        parts += [np.eye(size)[self.codes[:, place]] for place, size in enumerate(self.sizes) if size > 1]
        return np.concatenate(parts, axis=1)

    def marginal(self, shares: Float[np.ndarray, "*n cells"]) -> list[Float[np.ndarray, "*n levels"]]:
        """Return the shares of the levels of each category."""
        table = shares.reshape(*shares.shape[:-1], *self.sizes)
        first, found = shares.ndim - 1, []
        for place in range(len(self.sizes)):
            others = tuple(first + other for other in range(len(self.sizes)) if other != place)
            found.append(table.sum(axis=others))
        return found
