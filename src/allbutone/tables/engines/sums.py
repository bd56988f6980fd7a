"""The second pass: counts, sums and cross-products by cell, about an origin near the mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.support.errors import InputError
from allbutone.tables.categories import MOST_CELLS
from allbutone.tables.engines.asking import ask


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


def second_pass(frame: nw.LazyFrame[Any], p: int, q: int) -> Any:
    """Return n, Σ y and Σ yyᵀ of y0, y1, …, in one row, or in a row for each combination of g0, g1, …"""
    pairs = [(first, second) for first in range(p) for second in range(first + 1)]
    # in a step of their own: not every engine adds up expressions by group
    squares = [(nw.col(f"y{first}") * nw.col(f"y{second}")).alias(f"y{first}y{second}") for first, second in pairs]
    frame = frame.with_columns(*squares)
    names = [f"y{place}" for place in range(p)] + [f"y{first}y{second}" for first, second in pairs]
    wanted = [nw.len().alias("n"), *(nw.col(name).sum().alias(name) for name in names)]
    if not q:
        return ask(frame.select(*wanted))
    groups = [f"g{place}" for place in range(q)]
    return ask(frame.group_by(*groups).agg(*wanted).head(MOST_CELLS + 1))


def read_sums(answer: Any, origin: Float[np.ndarray, " p"]) -> Sums:
    """Read the numbers that came back; those of no records are 0."""
    p = len(origin)

    def column(name: str) -> np.ndarray:
        return np.array([float(value or 0) for value in answer[name].to_pylist()])

    total = np.column_stack([np.zeros((len(answer), 0)), *(column(f"y{place}") for place in range(p))])
    products = np.zeros((len(answer), p, p))
    for first in range(p):
        for second in range(first + 1):
            products[:, first, second] = products[:, second, first] = column(f"y{first}y{second}")
    if not (np.isfinite(total).all() and np.isfinite(products).all()):
        raise InputError("the table changed while it was added up, or its values are too large", "try again")
    return Sums(origin, column("n"), total, products, np.zeros((len(answer), 0), dtype=np.int64))
