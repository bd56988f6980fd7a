"""Tables as files: CSV and Parquet, read within limits and written block by block."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from allbutone.support.errors import Cure, InputError, reason
from allbutone.tables.csv_file import read_csv
from allbutone.tables.limits import LIMITS, Limits
from allbutone.tables.names import split_names
from allbutone.tables.parquet_file import read_parquet
from allbutone.tables.safe_read import open_file

READABLE = ".csv, .tsv or .parquet"


def read_table(
    path: Path,
    *,
    delimiter: str | None = None,
    header: bool = True,
    names: str | Sequence[str] | None = None,
    limits: Limits = LIMITS,
) -> pa.Table:
    """Read a CSV, TSV or Parquet file; the suffix says which, and the first line the delimiter unless given.

    Whether the table is within `limits` is decided from the Parquet footer, or the lines of the text, before
    anything is read. The columns of a text file without a `header` have these `names`, in order, or x1, x2, …
    """
    kind = path.suffix.lower()
    with open_file(path, f"give the path of a {READABLE} file") as file:
        if kind not in (".csv", ".tsv", ".parquet"):
            raise InputError(f"{path.name} ends in {kind or 'nothing'!r}", f"save it as {READABLE}")
        if kind == ".parquet" and not header:
            raise InputError(
                f"{path.name} is a Parquet file, which always names its columns",
                Cure("read its names", "header", True),
            )
        try:
            if not file.read(1):
                raise InputError(f"{path.name} is empty", "give it a header line and at least two rows")
            file.seek(0)
            if kind == ".parquet":
                return read_parquet(file, path.name, limits)
            table = read_csv(file, path.name, delimiter, header=header, limits=limits)
        except OSError as error:
            raise InputError(f"cannot read {path}: {reason(error)}", "try again") from error
    return table if header else table.rename_columns(_names(names, table.num_columns, path.name))


def _names(names: str | Sequence[str] | None, count: int, file: str) -> list[str]:
    """Return the names for the columns of a file without a header."""
    if names is None:
        return [f"x{place}" for place in range(1, count + 1)]
    given = split_names(names, set())
    if len(given) != count:
        raise InputError(
            f"{file} has {count} columns and no header, and {len(given)} names were given",
            Cure("name every column of the file, in order, also those to leave out", "columns"),
        )
    return given


def write_columns(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write columns of numbers to a CSV file."""
    with path.open("wb") as file:
        pyarrow.csv.write_csv(pa.table({name: pa.array(column) for name, column in columns.items()}), file)


class TableWriter:
    """Writes blocks of rows to one CSV or Parquet file, never holding more than a block."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._schema = pa.schema([(name, pa.float64()) for name in columns])
        kind: Any = pyarrow.parquet.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter
        self._file = path.open("wb")  # not by Arrow, which knows no names that are not UTF-8
        self._writer = kind(self._file, self._schema)

    def write(self, block: np.ndarray) -> None:
        """Append the rows of `block`, shape (rows, p)."""
        arrays = [pa.array(column) for column in np.asarray(block, dtype=np.float64).T.copy()]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=self._schema))

    def __enter__(self) -> "TableWriter":
        """Enter the block in which the file is open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        with self._file:
            self._writer.close()
