"""Reading the files of SPSS, SAS and Stata: codes stay numbers, and what their authors call missing is missing."""

from io import BufferedIOBase
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from allbutone.support.errors import Cure, InputError
from allbutone.tables.formats.extras import reader
from allbutone.tables.formats.limits import Limits

EXTRA = "spss-sas-stata"
READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
    ".dta": "read_dta",
}
CELL_BYTES = 64  # of a number or an empty text in Python, with its place in a column


def read_statistics(file: BufferedIOBase, name: str, limits: Limits, *, encoding: str | None = None) -> pa.Table:
    """Read an open file by pyreadstat: values, not their labels; user-defined missing values become missing."""
    pyreadstat = reader("pyreadstat", EXTRA, name)
    read = getattr(pyreadstat, READERS[PurePath(name).suffix.lower()])
    try:
        _, about = read(file, metadataonly=True, encoding=encoding, output_format="dict")
        most = _rows_to_read(about, name, limits)
        file.seek(0)
        columns, _ = read(file, encoding=encoding, output_format="dict", row_limit=most)
        rows = max(map(len, columns.values()), default=0)
        _require(about, rows, name, limits)
        return pa.table({column: _column(values) for column, values in columns.items()})
    except InputError:
        raise
    except Exception as error:  # a damaged file can fail in any part of the library
        raise InputError(
            f"{name} cannot be read ({' '.join(str(error).split()):.100})",
            "write it again",
            Cure("if its text is in another encoding, name it", "encoding", "latin1"),
            "save it as .csv",
        ) from error


def _rows_to_read(about: Any, name: str, limits: Limits) -> int:
    """Return as many as the file says or, where it does not say, one more than may be."""
    said = about.number_rows or 0
    _require(about, max(said, 1), name, limits)
    fit = min(limits.values // max(about.number_columns, 1), limits.bytes // max(_row_bytes(about), 1))
    return said if said > 0 else fit + 1


def _row_bytes(about: Any) -> int:
    """Return what a row takes as Python's numbers and texts, none of them longer than its column is wide."""
    kinds, widths = about.readstat_variable_types, about.variable_storage_width
    return sum(CELL_BYTES + (widths[name] if kind == "string" else 0) for name, kind in kinds.items())


def _require(about: Any, rows: int, name: str, limits: Limits) -> None:
    limits.require(name, about.number_columns, about.number_columns * rows, _row_bytes(about) * rows)


def _column(values: list[Any]) -> pa.Array:
    """Return numbers as numbers, dates as dates, and anything mixed as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())
