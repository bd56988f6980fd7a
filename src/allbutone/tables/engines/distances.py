"""How far records lie from a centre, computed in the engine: how many beyond what, and the farthest few."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.engines.asking import ask
from allbutone.tables.engines.expressions import by_cell, tree_sum
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.sums import Sums, read_sums, second_pass
from allbutone.tables.records import Records

MOST_NUMBERS = 20_000  # in an expression: engines take minutes to read longer ones


@dataclass(frozen=True, eq=False)
class Centres:
    """What distances are measured from in each cell: d = stretch·‖W(x − centre)‖², W lower triangular.

    cells: the numbers of the cells that hold records, in order; of a table without categories, 0 alone.
    """

    cells: Int[np.ndarray, " c"]
    centre: Float[np.ndarray, "c p"]
    whitening: Float[np.ndarray, "c p p"]
    stretch: Float[np.ndarray, " c"]

    def require_few(self) -> None:
        """Refuse more numbers than an engine reads in one expression."""
        p = self.centre.shape[1]
        each = p + 1 + (p * (p + 1) // 2 if np.ptp(self.whitening, axis=0).any() else 0)
        if len(self.cells) > 1 and len(self.cells) * each > MOST_NUMBERS:
            raise InputError(
                f"the table has {counted(len(self.cells), 'combination')} of levels, too many for an engine to "
                "compare records within each",
                "merge levels, or leave categories out",
                Cure("let the cells share one spread", "cells", "main effects"),
            )


def with_distances(records: LazyRecords, centres: Centres, key: str | None = None) -> nw.LazyFrame[Any]:
    """Return `records.measured` with d, the distance from the centre of the record's own cell, beside x0, x1, …"""
    centres.require_few()
    p, frame = centres.centre.shape[1], records.measured(key)

    def own(values: Float[np.ndarray, " c"]) -> Any:
        return by_cell(centres.cells.tolist(), values.tolist())

    frame = frame.with_columns(*((nw.col(f"x{i}") - own(centres.centre[:, i])).alias(f"y{i}") for i in range(p)))
    rows = [tree_sum([nw.col(f"y{i}") * own(centres.whitening[:, j, i]) for i in range(j + 1)]) for j in range(p)]
    frame = frame.with_columns(*(row.alias(f"w{j}") for j, row in enumerate(rows)))
    squares = tree_sum([nw.col(f"w{j}") * nw.col(f"w{j}") for j in range(p)])
    return frame.with_columns((squares * own(centres.stretch)).alias("d"))


def count_beyond(frame: nw.LazyFrame[Any], ladder: Float[np.ndarray, " steps"]) -> Int[np.ndarray, " steps"]:
    """Return how many rows have a distance above each step of a ladder."""
    beyond = [
        nw.when(nw.col("d") > float(step)).then(nw.col("d")).count().alias(f"n{place}")
        for place, step in enumerate(ladder)
    ]
    answer = ask(frame.select(*beyond)).to_pylist()[0]
    return np.array([int(answer[f"n{place}"]) for place in range(len(ladder))])


def farthest(
    records: LazyRecords, frame: nw.LazyFrame[Any], most: int, key: str | None, cells: Sequence[int] = ()
) -> tuple[Records, Float[np.ndarray, " m"], tuple[Any, ...]]:
    """Fetch the rows of the largest distances, the farthest first, with the distances and keys.

    `cells`: whose rows come before all others; `most` counts them, too.
    """
    besides = ["d", "wanted"] if key is None else ["d", "wanted", "key"]
    wanted = nw.col("d")
    if cells:
        wanted = wanted + nw.when(nw.col("cell").is_in([float(cell) for cell in cells])).then(10.0).otherwise(0.0)
    places = [nw.col(f"x{place}") for place in range(len(records.columns))]
    places += [nw.col("cell")] if records.categories.columns else []
    if frame.implementation.is_polars():
        # of rows that a filter left out polars holds the values until the end, unless something is made of them
        places = [value + 0.0 for value in places]
    needed = frame.with_columns(wanted.alias("wanted")).select(*places, *besides)
    # databases know that the first few rows of a sort need none; dataframes would sort everything
    sorts = not (frame.implementation.is_dask() or frame.implementation.is_polars())
    rows = needed.sort("wanted", descending=True).head(most) if sorts else needed.top_k(most, by="wanted")
    found, more = records.fetch(rows, *besides)
    distances = more["d"].to_numpy()
    order = np.argsort(-distances, kind="stable")
    keys = () if key is None else tuple(more["key"].to_pylist()[place] for place in order)
    return found.take(order), distances[order], keys


def sums_within(records: LazyRecords, frame: nw.LazyFrame[Any], distance: float) -> Sums:
    """Return the sums of the rows that are not farther than this, of each cell."""
    origin, p, q = records.sums.origin, len(records.columns), len(records.categories.columns)
    rows = frame.filter(nw.col("d") <= distance)
    centred = [(nw.col(f"x{i}") - float(origin[i])).alias(f"y{i}") for i in range(p)]
    if not q:
        return read_sums(second_pass(rows.select(*centred), p, 0), origin)
    answer = second_pass(rows.select(nw.col("cell").alias("g0"), *centred), p, 1)
    return replace(read_sums(answer, origin), codes=records.codes_of(answer["g0"].to_numpy()))
