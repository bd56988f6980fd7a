"""Reading the files of SPSS, SAS and Stata: labelled codes are levels, what is called missing is missing."""

from io import BufferedIOBase
from pathlib import PurePath
from typing import Any

import pyarrow as pa

from allbutone.support.errors import Cure, InputError
from allbutone.tables.formats.extras import reader
from allbutone.tables.formats.labels import label_metadata
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
    """Read an open file by pyreadstat; user-defined missing values become missing.

    Codes that all have labels become levels, in the order of the codes; a scale of which only some numbers are
    labelled stays one of numbers. What a column is called in words goes into its metadata.
    """
    pyreadstat = reader("pyreadstat", EXTRA, name)
    read = getattr(pyreadstat, READERS[PurePath(name).suffix.lower()])
    try:
        _, about = read(file, metadataonly=True, encoding=encoding, output_format="dict")
        most = _rows_to_read(about, name, limits)
        file.seek(0)
        columns, _ = read(file, encoding=encoding, output_format="dict", row_limit=most)
        rows = max(map(len, columns.values()), default=0)
        _require(about, rows, name, limits)
        arrays = {
            name: _levels(values, about.variable_value_labels.get(name, {})) for name, values in columns.items()
        }
        words = about.column_names_to_labels
        fields = [
            pa.field(name, array.type, metadata=label_metadata(words.get(name))) for name, array in arrays.items()
        ]
        return pa.table(list(arrays.values()), pa.schema(fields))
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


def _levels(values: list[Any], labels: dict[Any, str]) -> pa.Array:
    """Return codes of which all are labelled as levels; anything else as it is."""
    codes = sorted(labels) if all(isinstance(code, int | float) for code in labels) else []
    names = [labels[code].strip() for code in codes]
    there = {value for value in values if value is not None and value == value}
    if len(codes) < 2 or not there or there - set(codes) or not all(names) or len(set(names)) < len(names):
        return _column(values)
    places = {code: place for place, code in enumerate(codes)}
    return pa.DictionaryArray.from_arrays(pa.array([places.get(value) for value in values], pa.int32()), names)


def _column(values: list[Any]) -> pa.Array:
    """Return numbers as numbers, dates as dates, and anything mixed as text."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values], pa.string())
