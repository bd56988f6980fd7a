"""How far records lie from a centre, computed in the engine: how many beyond what, and the farthest few."""

from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.tables.engines.asking import ask
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.sums import Sums, read_sums, second_pass
from allbutone.tables.records import Records


def with_distances(
    records: LazyRecords,
    centre: Float[np.ndarray, " p"],
    whitening: Float[np.ndarray, "p p"],
    key: str | None = None,
) -> nw.LazyFrame[Any]:
    """Return `records.measured` with d = ‖W(x − centre)‖² beside x0, x1, …; W is lower triangular."""
    p = len(centre)
    frame = records.measured(key)
    frame = frame.with_columns(*((nw.col(f"x{i}") - float(centre[i])).alias(f"y{i}") for i in range(p)))
    rows = [sum((nw.col(f"y{i}") * float(whitening[j, i]) for i in range(1, j + 1)),
                nw.col("y0") * float(whitening[j, 0])) for j in range(p)]  # fmt: skip
    frame = frame.with_columns(*(row.alias(f"w{j}") for j, row in enumerate(rows)))
    squares = [nw.col(f"w{j}") * nw.col(f"w{j}") for j in range(p)]
    return frame.with_columns(sum(squares[1:], squares[0]).alias("d"))


def count_beyond(frame: nw.LazyFrame[Any], ladder: Float[np.ndarray, " steps"]) -> Int[np.ndarray, " steps"]:
    """Return how many rows have a distance above each step of a ladder."""
    beyond = [
        nw.when(nw.col("d") > float(step)).then(nw.col("d")).count().alias(f"n{place}")
        for place, step in enumerate(ladder)
    ]
    answer = ask(frame.select(*beyond)).to_pylist()[0]
    return np.array([int(answer[f"n{place}"]) for place in range(len(ladder))])


def farthest(
    records: LazyRecords, frame: nw.LazyFrame[Any], most: int, key: str | None
) -> tuple[Records, Float[np.ndarray, " m"], tuple[Any, ...]]:
    """Fetch the rows of the largest distances, the farthest first, with the distances and keys."""
    besides = ["d"] if key is None else ["d", "key"]
    needed = frame.select(*(f"x{place}" for place in range(len(records.columns))), *besides)
    # databases know that the first few rows of a sort need none; dataframes would sort everything
    sorts = not (frame.implementation.is_dask() or frame.implementation.is_polars())
    rows = needed.sort("d", descending=True).head(most) if sorts else needed.top_k(most, by="d")
    found, more = records.fetch(rows, *besides)
    distances = more["d"].to_numpy()
    order = np.argsort(-distances, kind="stable")
    keys = () if key is None else tuple(more["key"].to_pylist()[place] for place in order)
    ordered = Records(found.values[order], found.columns, schema=found.schema)
    return ordered, distances[order], keys


def sums_within(records: LazyRecords, frame: nw.LazyFrame[Any], distance: float) -> Sums:
    """Return the sums of the rows that are not farther than this."""
    origin, p = records.sums.origin, len(records.columns)
    rows = frame.filter(nw.col("d") <= distance)
    centred = rows.select(*((nw.col(f"x{i}") - float(origin[i])).alias(f"y{i}") for i in range(p)))
    return read_sums(second_pass(centred, p, 0), origin)
