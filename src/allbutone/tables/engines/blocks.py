"""Records that stay where they are, a block at a time: what looks at all of them never holds more than a block."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import narwhals as nw
import numpy as np
import pyarrow as pa

from allbutone.support.errors import InputError
from allbutone.tables.engines.asking import refused
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records

BLOCK_ROWS = 1 << 16  # records at a time; their numbers and what is said of each take some 50 MB


def records_in_blocks(
    records: LazyRecords, rows: int = BLOCK_ROWS, key: str | None = None
) -> Iterator[tuple[Records, np.ndarray | None]]:
    """Yield blocks of so many records, the last of less than twice as many, and what the column `key` calls each.

    Rows are counted from 1 in the order in which the engine gives them, those with gaps among them, which are left
    out: files keep their order, and a database has none.
    """
    schema, wide = records.schema.for_columns(records.columns), len(records.columns)
    for table in recut(_whole_rows(records, key, rows), rows):
        values = np.column_stack([table[f"x{place}"].to_numpy() for place in range(wide)]).astype(np.float64)
        keys = None if key is None else table["key"].to_numpy()
        yield Records(values, records.columns, schema=schema, rows=table["row"].to_numpy()), keys


def _whole_rows(records: LazyRecords, key: str | None, rows: int) -> Iterator[pa.Table]:
    """Yield the rows that lack nothing, with their numbers."""
    names = [f"x{place}" for place in range(len(records.columns))]
    seen = 0
    for table in in_blocks(records.measured(key, gaps=True), rows):
        numbered = table.append_column("row", pa.array(np.arange(seen + 1, seen + len(table) + 1)))
        seen += len(table)
        lacking = np.zeros(len(table), dtype=bool)
        for name in names:
            # an engine that has no null says NaN
            lacking |= np.isnan(numbered[name].cast(pa.float64()).to_numpy())
        yield numbered.filter(pa.array(~lacking)) if lacking.any() else numbered


def recut(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Cut a stream of tables into blocks of so many rows; what is left at the end goes with the last of them."""
    held: list[pa.Table] = []
    for table in tables:
        held.append(table)
        while sum(map(len, held)) >= 2 * rows:
            joined = pa.concat_tables(held)
            yield joined[:rows]
            held = [joined[rows:]]
    if sum(map(len, held)):
        yield pa.concat_tables(held)


def in_blocks(frame: nw.LazyFrame[Any], rows: int) -> Iterator[pa.Table]:
    """Yield the answer to a query as Arrow tables of at most about so many rows, in its order."""
    try:
        yield from _answered(frame, rows)
    except Exception as error:  # whatever an engine raises: each has exceptions of its own
        raise refused(error, "the engine stopped answering") from error


def _answered(frame: nw.LazyFrame[Any], rows: int) -> Iterator[pa.Table]:
    native, engine = nw.to_native(frame), frame.implementation
    if engine.is_duckdb():
        yield from map(_as_table, native.to_arrow_reader(rows))
    elif engine.is_polars():
        for batch in native.collect_batches(chunk_size=rows, maintain_order=True, engine="streaming"):
            yield batch.to_arrow()
    elif engine.is_ibis():
        yield from map(_as_table, native.to_pyarrow_batches(chunk_size=rows))
    elif engine.is_dask():
        for part in native.partitions:
            yield pa.Table.from_pandas(part.compute(), preserve_index=False)
    elif engine.is_pyspark() or engine.is_pyspark_connect():
        coming, names = native.toLocalIterator(), native.columns
        while some := list(islice(coming, rows)):
            yield pa.table({name: [row[place] for row in some] for place, name in enumerate(names)})
    else:
        raise InputError(f"{engine} does not give its rows a block at a time", "use DuckDB or polars")


def _as_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])
