"""Questions to an engine: columns as expressions, one query a question, one clear line where no answer comes."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from math import inf
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError
from allbutone.tables.categories import MOST_CELLS
from allbutone.tables.column import Column, Scale
from allbutone.tables.records import Sums

SECRETS = ("PGPASSWORD",)  # where credentials may be in the environment: never to be shown
CURES = ("see that the table is there and that each of its columns holds values of one kind, and try again",)


def ask(frame: nw.LazyFrame[Any]) -> Any:
    """Run a query and return its answer, a small Arrow table; what the engine says against it becomes one line."""
    options: dict[str, Any] = {"engine": "streaming"} if frame.implementation.is_polars() else {}
    try:
        return frame.collect(**options).to_arrow()
    except Exception as error:  # whatever an engine raises: each has exceptions of its own
        raise refused(error, "the engine could not answer") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # of polars, where a file changes under it
            raise
        raise refused(error, "the engine could not answer") from error


def names_in(frame: nw.LazyFrame[Any]) -> dict[str, Any]:
    """Return the names and kinds of all columns."""
    try:
        return dict(frame.collect_schema())
    except Exception as error:
        raise refused(error, "the columns of the table cannot be read") from error


def refused(error: BaseException, what: str, cures: Sequence[str] = CURES) -> InputError:
    """Put what an engine said into one line without credentials."""
    if isinstance(error, InputError):
        return error
    said = " ".join((str(error).strip().splitlines() or [type(error).__name__])[0].split())
    for name in SECRETS:
        if secret := os.environ.get(name):
            said = said.replace(secret, "…")
    return InputError(f"{what}: {said[:300]}", *cures)


@dataclass(frozen=True)
class Measured:
    """One measurement of a lazy frame: the column that holds it and what is declared of it.

    whole: whether it is known to lack no value and to hold none that is not allowed: then nothing is asked again.
    ends: of one that lies above, below or between others, their places x0, x1, … or numbers.
    """

    name: str
    declared: Column
    whole: bool = False
    ends: tuple[int | float | None, int | float | None] | None = None

    @property
    def natural(self) -> nw.Expr:
        """The values in natural units; null where there is none (null, NaN, a code for missing)."""
        value = nw.col(self.name).cast(nw.Float64)
        if self.whole:
            return value
        there = ~value.is_nan()  # null stays null, which is not true either
        for code in self.declared.missing:
            there = there & (value != code)
        return nw.when(there).then(value)

    @property
    def is_limited(self) -> bool:
        """Whether not all numbers are allowed, whatever the others of the row are."""
        return (
            self.ends is None
            and not np.isinf([*self.declared.scale.domain[:2], self.declared.low, self.declared.high]).all()
        )

    def allowed(self, value: nw.Expr) -> nw.Expr:
        """Say which natural values are within the limits and the scale's domain, as `Column.allows` does."""
        low, high, closed = self.declared.scale.domain
        inside = ~value.is_null()
        if low > -inf:
            inside = inside & (value >= low if closed else value > low)
        if high < inf:
            inside = inside & (value <= high if closed else value < high)
        if self.declared.low > -inf:
            inside = inside & (value >= self.declared.low)
        if self.declared.high < inf:
            inside = inside & (value <= self.declared.high)
        return inside

    def on_model_scale(self, value: nw.Expr) -> nw.Expr:
        """Bring natural values to the scale of the model; what is not allowed becomes null."""
        if self.ends is not None:
            return self._beside(value, *self.ends)
        if self.whole or not self.is_limited:
            return on_scale(self.declared.scale, value)
        # an engine may refuse the logarithm of a negative number, so it must not see one
        return on_scale(self.declared.scale, nw.when(self.allowed(value)).then(value))

    def _beside(self, value: nw.Expr, low: int | float | None, high: int | float | None) -> nw.Expr:
        """Bring values to the scale of the gap, or of the share of the way between both ends."""
        below, above = (
            nw.col(f"x{end}") if isinstance(end, int) else nw.lit(0.0 if end is None else end)
            for end in (low, high)
        )
        if low is not None and high is not None:
            half = self.declared.finest / 2
            inside = (value - below + half > 0) & (above - value + half > 0)
            return (
                nw.when(inside).then(value - below + half).log() - nw.when(inside).then(above - value + half).log()
            )
        gap, start = value - below if high is None else above - value, self.declared.scale.domain[0]
        return on_scale(self.declared.scale, gap if start == -inf else nw.when(gap > start).then(gap))


def with_ends(measured: Sequence[Measured]) -> list[Measured]:
    """Return measurements that know where their ends stand among them; one whose end is not here is free."""
    places, found = {each.name: place for place, each in enumerate(measured)}, list[Measured]()
    for each in measured:
        order = each.declared.order
        if order is None or not places.keys() >= {*order.columns}:
            free = replace(each.declared, order=None, scale=Scale())
            found.append(replace(each, declared=free) if order else each)
            continue
        low, high = (places[end] if isinstance(end, str) else end for end in (order.low, order.high))
        found.append(replace(each, whole=False, ends=(low, high)))
    return found


def on_scale(scale: Scale, value: nw.Expr) -> nw.Expr:
    """Return `Scale.to_model` as an expression; the values must be within the domain."""
    if scale.is_plain:
        return value
    if scale.name == "logit":
        return ((value - scale.low) / (scale.high - value)).log()
    if scale.name.startswith("log"):
        return (value + scale.shift).log()
    if scale.name == "sqrt":
        return value.sqrt()
    return _interpolated(value, *scale.knots)


def _interpolated(value: nw.Expr, places: np.ndarray, images: np.ndarray) -> nw.Expr:
    """Interpolate between knots and beyond both ends: the pieces' slopes times how much of each lies below."""
    slopes = np.diff(images) / np.diff(places)
    pieces = list(pairwise(places))
    total: Any = float(images[0])
    for number, (slope, (start, end)) in enumerate(zip(slopes, pieces, strict=True)):
        first, last = number == 0, number == len(pieces) - 1
        part = value - float(start)
        if not first:
            part = nw.when(value > float(start)).then(part).otherwise(0.0)
        if not last:
            part = nw.when(value < float(end)).then(part).otherwise(float(end - start))
        total = part * float(slope) + total
    return nw.when(~value.is_null()).then(total)


def level_number(value: nw.Expr, numbers: Mapping[Any, int]) -> nw.Expr:
    """Return the number of the level that each value stands for; −1 where it is none of them."""
    # whole numbers, then cast: PostgreSQL would return decimals for 1.0, 2.0, …
    parts = [nw.when(value == each).then(number + 1).otherwise(0) for each, number in numbers.items()]
    return tree_sum(parts).cast(nw.Float64) - 1.0


def by_cell(cells: Sequence[int], values: Sequence[float]) -> Any:
    """Return the value of each row's own `cell`, of cells in increasing order; a number if all are the same."""
    if len(set(values)) == 1:
        return float(values[0])
    half = len(cells) // 2
    below, above = by_cell(cells[:half], values[:half]), by_cell(cells[half:], values[half:])
    return nw.when(nw.col("cell") < float(cells[half])).then(below).otherwise(above)


def tree_sum(parts: Sequence[Any]) -> Any:
    """Add up expressions, or numbers, by halves: engines refuse what is nested a thousand deep."""
    if len(parts) == 1:
        return parts[0]
    half = len(parts) // 2
    return tree_sum(parts[:half]) + tree_sum(parts[half:])


def second_pass(
    frame: nw.LazyFrame[Any], origin: Float[np.ndarray, " p"], groups: Sequence[str]
) -> tuple[Any, Sums]:
    """Add up n, y and yyᵀ with y = x − origin of x0, x1, …, of all rows or of each combination of the groups.

    Return what came back, a row for each combination, and the sums, those of no records 0.
    """
    p = len(origin)
    centred = [(nw.col(f"x{place}") - float(middle)).alias(f"y{place}") for place, middle in enumerate(origin)]
    frame = frame.select(*groups, *centred)
    pairs = [(first, second) for first in range(p) for second in range(first + 1)]
    # in a step of their own: not every engine adds up expressions by group
    squares = [(nw.col(f"y{first}") * nw.col(f"y{second}")).alias(f"y{first}y{second}") for first, second in pairs]
    frame = frame.with_columns(*squares)
    names = [f"y{place}" for place in range(p)] + [f"y{first}y{second}" for first, second in pairs]
    wanted = [nw.len().alias("n"), *(nw.col(name).sum().alias(name) for name in names)]
    by_group = frame.group_by(*groups).agg(*wanted).head(MOST_CELLS + 1) if groups else frame.select(*wanted)
    answer = ask(by_group)

    def column(name: str) -> np.ndarray:
        return np.array([float(value or 0) for value in answer[name].to_pylist()])

    total = np.column_stack([np.zeros((len(answer), 0)), *(column(f"y{place}") for place in range(p))])
    products = np.zeros((len(answer), p, p))
    for first, second in pairs:
        products[:, first, second] = products[:, second, first] = column(f"y{first}y{second}")
    if not (np.isfinite(total).all() and np.isfinite(products).all()):
        raise InputError("the table changed while it was added up, or its values are too large", "try again")
    return answer, Sums(origin, column("n"), total, products, np.zeros((len(answer), 0), dtype=np.int64))


def recut(tables: Iterable[Any], rows: int) -> Iterator[Any]:
    """Cut a stream of tables into blocks of so many rows; what is left at the end goes with the last of them."""
    import pyarrow as pa

    held: list[Any] = []
    for table in tables:
        held.append(table)
        while sum(map(len, held)) >= 2 * rows:
            joined = pa.concat_tables(held)
            yield joined[:rows]
            held = [joined[rows:]]
    if sum(map(len, held)):
        yield pa.concat_tables(held)


def in_blocks(frame: nw.LazyFrame[Any], rows: int) -> Iterator[Any]:
    """Yield the answer to a query as Arrow tables of at most about so many rows, in its order."""
    try:
        yield from _answered(frame, rows)
    except Exception as error:  # whatever an engine raises: each has exceptions of its own
        raise refused(error, "the engine stopped answering") from error


def _answered(frame: nw.LazyFrame[Any], rows: int) -> Iterator[Any]:
    import pyarrow as pa

    native, engine = nw.to_native(frame), frame.implementation
    if engine.is_duckdb() or engine.is_ibis():
        reads = native.to_arrow_reader(rows) if engine.is_duckdb() else native.to_pyarrow_batches(chunk_size=rows)
        yield from (pa.Table.from_batches([batch]) for batch in reads)
    elif engine.is_polars():
        for batch in native.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming"):
            yield batch.to_arrow()
    elif engine.is_dask():
        for part in native.partitions:
            yield pa.Table.from_pandas(part.compute(), preserve_index=False)
    elif engine.is_pyspark() or engine.is_pyspark_connect():
        coming, names = native.toLocalIterator(), native.columns
        while some := list(islice(coming, rows)):
            yield pa.table({name: [row[place] for row in some] for place, name in enumerate(names)})
    else:
        raise InputError(f"{engine} does not give its rows a block at a time", "use DuckDB or polars")
