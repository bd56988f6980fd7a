"""Counts, sums and cross-products of records by cell: what stands for a table whose records are not all here."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class Sums:
    """Of each cell c: how many records nₛ, Σ y and Σ yyᵀ with y = x − origin; codes: the levels of each cell."""

    origin: Float[np.ndarray, " p"]
    count: Float[np.ndarray, " cells"]
    total: Float[np.ndarray, "cells p"]
    products: Float[np.ndarray, "cells p p"]
    codes: Int[np.ndarray, "cells q"]

    @property
    def people(self) -> int:
        """The number of records."""
        return int(self.count.sum())

    @property
    def scatter(self) -> Float[np.ndarray, "p p"]:
        """The scatter of all records together: Σ yyᵀ − n·ȳȳᵀ."""
        total = self.total.sum(axis=0)
        return self.products.sum(axis=0) - np.outer(total, total) / max(self.count.sum(), 1.0)

    def take(self, cells: Any) -> "Sums":
        """Return these of the cells."""
        return Sums(self.origin, self.count[cells], self.total[cells], self.products[cells], self.codes[cells])

    def select(self, places: Sequence[int]) -> "Sums":
        """Return these of the measurements."""
        kept = list(places)
        products = self.products[:, kept][:, :, kept]
        return Sums(self.origin[kept], self.count, self.total[:, kept], products, self.codes)

    def by_cell(self, codes: Int[np.ndarray, "cells q"]) -> "Sums":
        """Return these with the cells that have the same of these codes added up."""
        cells, place = np.unique(codes, axis=0, return_inverse=True)

        def added(values: np.ndarray) -> np.ndarray:
            total = np.zeros((len(cells), *values.shape[1:]))
            np.add.at(total, place.reshape(-1), values)
            return total

        return Sums(self.origin, added(self.count), added(self.total), added(self.products), cells)
