"""Reading and writing CSV and Parquet files as Arrow tables."""

import codecs
import re
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from allbutone.support.errors import InputError, reason

READABLE = ".csv, .tsv or .parquet"


def read_table(path: Path, delimiter: str | None = None) -> pa.Table:
    """Read a CSV, TSV or Parquet file; the suffix says which, and the header says the delimiter unless given."""
    try:
        if not path.is_file():
            raise InputError(f"{path} is not a file; give the path of a {READABLE} file")
        if path.suffix.lower() not in (".csv", ".tsv", ".parquet"):
            raise InputError(f"{path.name} ends in {path.suffix or 'nothing'!r}; save it as {READABLE}")
        with path.open("rb") as file:
            if not file.read(1):
                raise InputError(f"{path.name} is empty; it needs a header line and at least two rows")
        return _read_parquet(path) if path.suffix.lower() == ".parquet" else _read_csv(path, delimiter)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pyarrow.parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path.name} is not a complete Parquet file ({_first_line(error)}); write it again"
        ) from error


def _read_csv(path: Path, delimiter: str | None) -> pa.Table:
    _require_utf8(path)
    header = _header(path)
    bare = re.sub(r'"[^"]*"', "", header)
    delimiter = delimiter or max(",;\t", key=bare.count)
    options = {
        # the header must fit in a block, and a row of numbers is seldom eight times as long
        "read_options": pyarrow.csv.ReadOptions(block_size=min(max(1 << 20, 8 * len(header)), 1 << 30)),
        # an empty line in a file of one column is a missing value
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, ignore_empty_lines=delimiter in bare
        ),
    }
    table = _parse_csv(path, ".", options)
    if delimiter != ";":
        return table
    # half of Europe writes 1,5;2,5 for 1.5,2.5: taken so only if that makes numbers of text, and text of none
    other = _parse_csv(path, ",", options)
    return other if _texts(other) < _texts(table) else table


def _texts(table: pa.Table) -> set[int]:
    return {position for position, kind in enumerate(table.schema.types) if pa.types.is_string(kind)}


def _parse_csv(path: Path, decimal: str, options: dict[str, Any]) -> pa.Table:
    convert = pyarrow.csv.ConvertOptions(decimal_point=decimal, strings_can_be_null=True)
    try:
        return pyarrow.csv.read_csv(path, convert_options=convert, **options)
    except pa.ArrowException as error:
        raise InputError(f"{path.name} cannot be read as CSV: {_first_line(error)}") from error


def _require_utf8(path: Path) -> None:
    """Refuse text in another encoding, naming the line, before Arrow sees it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    lines = 1
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                line = lines + error.object[: error.start].count(b"\n")
                raise InputError(
                    f"{path.name} is not UTF-8 text (line {line}); save it again with UTF-8 encoding"
                ) from error
            lines += block.count(b"\n")
    if decoder.getstate()[0]:
        raise InputError(f"{path.name} is not UTF-8 text (its last character is cut off); save it again")


def _header(path: Path) -> str:
    """Return the first line that is not blank; line breaks within quotes do not end it."""
    lines, quotes = [], 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        for line in file:
            lines.append(line)
            quotes += line.count('"')
            if line.strip() and quotes % 2 == 0:
                break
    return "".join(lines)


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].strip().rstrip(".")


def write_columns(path: Path, columns: dict[str, np.ndarray]) -> None:
    """Write columns of numbers to a CSV file."""
    pyarrow.csv.write_csv(pa.table({name: pa.array(column) for name, column in columns.items()}), path)


class TableWriter:
    """Writes blocks of rows to one CSV or Parquet file, never holding more than a block."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._schema = pa.schema([(name, pa.float64()) for name in columns])
        kind: Any = pyarrow.parquet.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter
        self._writer = kind(path, self._schema)

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
        self._writer.close()
