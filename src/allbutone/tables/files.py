"""Tables as files: read within limits, whatever their format, and written block by block as CSV or Parquet."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from allbutone.support.errors import Cure, InputError, reason
from allbutone.tables.names import split_names
from allbutone.tables.safe_io import open_file

# How large a table may be: decided before it is read, since a small file can hold a very large one.


@dataclass(frozen=True)
class Limits:
    """The most that is read of a file: columns, values (rows × columns), and bytes in memory."""

    columns: int
    values: int
    bytes: int

    def require(self, name: str, columns: int, values: int, size: int) -> None:
        """Refuse a table larger than this; `name` says which."""
        if columns > self.columns:
            raise InputError(
                f"{name} has {columns:,} columns, and at most {self.columns:,} are read",
                "write the columns you need to a file of their own",
            )
        if values > self.values:
            raise InputError(
                f"{name} holds {values:,} values, and at most {self.values:,} are read",
                "write fewer rows or columns to a file of their own",
            )
        if size > self.bytes:
            raise InputError(
                f"{name} would take {size / 1e9:,.1f} GB of memory; {self.bytes / 1e9:,.1f} GB is the most",
                "write the columns you need, as numbers, to a file of their own",
            )


# The model keeps several matrices of p × p numbers: at 5,000 columns each takes 200 MB and a minute to factor.
# 200 million values are 10 million people with 20 columns: 1.6 GB as a matrix, and as much again while being read.
LIMITS = Limits(columns=5_000, values=200_000_000, bytes=4_000_000_000)


@dataclass(frozen=True)
class Format:
    """One way to read files: by a function of `formats`, of which these arguments may be given."""

    function: str
    options: frozenset[str] = frozenset()

    def read(self, *arguments: Any, **options: Any) -> Any:
        """Read an Arrow table; what reads loads here, so that who reads no file waits for none of it."""
        module = import_module("allbutone.tables.formats")
        return getattr(module, self.function)(*arguments, **options)


_TEXT = frozenset({"delimiter", "header", "encoding"})
_CSV, _PACKED = Format("read_csv", _TEXT), Format("read_packed", _TEXT)
_STATISTICS = Format("read_statistics", frozenset({"encoding"}))
FORMATS = {  # by the end of a file's name
    ".csv": _CSV,
    ".tsv": _CSV,
    ".csv.gz": _PACKED,
    ".tsv.gz": _PACKED,
    ".parquet": Format("read_parquet"),
    ".xlsx": Format("read_excel", frozenset({"header", "sheet"})),
    ".sav": _STATISTICS,
    ".zsav": _STATISTICS,
    ".sas7bdat": _STATISTICS,
    ".xpt": _STATISTICS,
    ".dta": _STATISTICS,
}
READABLE = ".csv, .tsv, .csv.gz, .parquet, .xlsx, .sav, .sas7bdat, .xpt or .dta"
# what is wrong where an option is given that a format does not have
_CANNOT: dict[str, tuple[str, Cure | str]] = {
    "header": ("always names its columns", Cure("read its names", "header", True)),
    "encoding": ("says itself how its text is encoded", "leave the encoding out"),
    "sheet": ("has no sheets", "leave the sheet out"),
}


def format_of(path: Path) -> Format:
    """Return how to read a file of this name."""
    name = path.name.lower()
    for ending, found in FORMATS.items():
        if name.endswith(ending):
            return found
    raise InputError(f"{path.name} ends in {path.suffix.lower() or 'nothing'!r}", f"save it as {READABLE}")


def read_table(
    path: Path,
    *,
    delimiter: str | None = None,
    header: bool = True,
    names: str | Sequence[str] | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    limits: Limits = LIMITS,
) -> Any:
    """Read a file as an Arrow table; the end of its name says how, the first line of text the delimiter.

    Whether the table is within `limits` is decided before anything large is held: from what the file says of
    itself, by counting the lines of text, or row by row. The columns of a file without a `header` have these
    `names`, in order, or x1, x2, … Text is UTF-8 unless an `encoding` is given; of several sheets one is named.
    """
    with open_file(path, f"give the path of a {READABLE} file") as file:
        kind = format_of(path)
        options: dict[str, Any] = {} if header else {"header": False}
        options |= {name: value for name, value in (("encoding", encoding), ("sheet", sheet)) if value is not None}
        for option in options.keys() - kind.options:
            problem, cure = _CANNOT[option]
            raise InputError(f"{path.name} is of a kind that {problem}", cure)
        if "delimiter" in kind.options:
            options["delimiter"] = delimiter
        try:
            if not file.read(1):
                raise InputError(f"{path.name} is empty", "give it a header line and at least two rows")
            file.seek(0)
            table = kind.read(file, path.name, limits, **options)
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
    """Write columns of numbers or words to a CSV or Parquet file."""
    with TableWriter(path) as writer:
        writer.write_columns(columns)


def _clock_times(block: Any) -> Any:
    """Return an Arrow table with times to the second, as the clock there shows them: what text can tell."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, field in enumerate(block.schema):
        if pa.types.is_timestamp(field.type):
            column = block[place] if field.type.tz is None else pc.local_timestamp(block[place])
            block = block.set_column(place, field.name, column.cast(pa.timestamp("s")))
    return block


class TableWriter:
    """Writes blocks of rows to one CSV or Parquet file, never holding more than a block.

    columns: the names of columns of numbers. Without them the first block says what the columns are.
    """

    def __init__(self, path: Path, columns: Sequence[str] | None = None) -> None:
        import pyarrow as pa

        self._is_parquet = path.suffix == ".parquet"
        self._file = path.open("wb")  # not by Arrow, which knows no names that are not UTF-8
        self._writer: Any = None
        if columns is not None:
            self._begin(pa.schema([(name, pa.float64()) for name in columns]))

    def _begin(self, schema: Any) -> None:
        import pyarrow.csv
        import pyarrow.parquet

        kind: Any = pyarrow.parquet.ParquetWriter if self._is_parquet else pyarrow.csv.CSVWriter
        self._schema, self._writer = schema, kind(self._file, schema)

    def write(self, block: Any) -> None:
        """Append the rows of a block: an array of shape (rows, p), or an Arrow table."""
        import pyarrow as pa

        if not isinstance(block, pa.Table):
            block = pa.table([*np.asarray(block, dtype=np.float64).T.copy()], self._schema)
        block = block if self._is_parquet else _clock_times(block)
        if self._writer is None:
            self._begin(block.schema)
        self._writer.write_table(block.cast(self._schema))

    def write_columns(self, columns: dict[str, np.ndarray]) -> None:
        """Append rows of columns of any kind."""
        import pyarrow as pa

        self.write(pa.table({name: pa.array(column) for name, column in columns.items()}))

    def __enter__(self) -> "TableWriter":
        """Enter the block in which the file is open."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        with self._file:
            if self._writer is not None:
                self._writer.close()
