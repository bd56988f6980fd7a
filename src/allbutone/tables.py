"""Reading and writing CSV and Parquet files as Arrow tables."""

import codecs
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from allbutone.errors import InputError

READABLE = ".csv, .tsv or .parquet"


def read_table(path: Path) -> pa.Table:
    """Read a CSV, TSV or Parquet file; the suffix says which."""
    if not path.is_file():
        raise InputError(f"{path} is not a file; give the path of a {READABLE} file")
    reader = {".csv": _read_csv, ".tsv": _read_csv, ".parquet": _read_parquet}.get(path.suffix.lower())
    if reader is None:
        raise InputError(f"{path.name} ends in {path.suffix or 'nothing'!r}; save it as {READABLE}")
    if path.stat().st_size == 0:
        raise InputError(f"{path.name} is empty; it needs a header line and at least two rows")
    return reader(path)


def _read_parquet(path: Path) -> pa.Table:
    try:
        return pyarrow.parquet.ParquetFile(path).read()
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(
            f"{path.name} is not a complete Parquet file ({_first_line(error)}); write it again"
        ) from error


def _read_csv(path: Path) -> pa.Table:
    _require_utf8(path)
    delimiter, decimal = _dialect(path)
    try:
        return pyarrow.csv.read_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pyarrow.csv.ConvertOptions(decimal_point=decimal, strings_can_be_null=True),
        )
    except pa.ArrowInvalid as error:
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


def _dialect(path: Path) -> tuple[str, str]:
    """Return the delimiter and the decimal mark: half of Europe writes 1,5;2,5 for 1.5,2.5."""
    with path.open(encoding="utf-8-sig") as file:
        header, first_row = file.readline(), file.readline()
    delimiter = max(",;\t", key=header.count)
    decimal = "," if delimiter != "," and "," in first_row and "." not in first_row else "."
    return delimiter, decimal


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0].strip().rstrip(".")


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
