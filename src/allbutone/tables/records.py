"""The gate: any table or file becomes a float64 matrix with column names, or a clear error."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from allbutone.support.arrays import real_array
from allbutone.support.errors import InputError
from allbutone.tables.files import read_table

# Squares, products of two squares and sums of them over any table must stay finite in float64.
LARGEST_VALUE = 1e70

_IDENTIFIER_NAME = re.compile(
    r"(.*[_\W])?(id|ids|iid|fid|eid|pid|guid|uuid|identifier|cpr|ssn|mrn)([_ ]?(number|no|nr))?"
    r"|index|row|rowid|record|name|barcode|pseudonym|unnamed: 0"
    r"|.*[a-z](Id|ID)"
)
_UNSAFE_NAME = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\"'`]|<[a-zA-Z/!?]|^\s*[=+@-]")


@dataclass(frozen=True, eq=False)
class Records:
    """The confidential table as numbers: `values` of shape (n, p), one name a column.

    `backend` is the dataframe library the table came in, so that answers can go back in it.
    """

    values: Float[np.ndarray, "n p"]
    columns: tuple[str, ...]
    backend: nw.Implementation = nw.Implementation.PYARROW

    @classmethod
    def of(
        cls, table: Any, *, columns: str | Sequence[str] | None = None, drop: str | Sequence[str] | None = None
    ) -> "Records":
        """Turn a file, a dataframe (pandas, polars, pyarrow, …) or a NumPy matrix into records of people.

        Nothing is dropped or repaired silently: columns that are not numbers, do not vary, or look like
        identifiers are refused by name. `columns` keeps exactly those named, `drop` leaves those named out.
        What is a `Records` already has been through the gate.
        """
        records = cls.of_numbers(table, columns=columns, drop=drop)
        if isinstance(table, Records):
            return records
        if len(records.values) < 2:
            raise InputError("the table holds one row; at least two records are needed")
        for name, numbers in zip(records.columns, records.values.T, strict=True):
            _check_spread(name, numbers)
            if columns is None:
                _check_not_identifier(name, numbers)
        return records

    @classmethod
    def of_numbers(
        cls, table: Any, *, columns: str | Sequence[str] | None = None, drop: str | Sequence[str] | None = None
    ) -> "Records":
        """Read as `of` does, asking only for finite numbers under good names: synthetic tables need no more."""
        if isinstance(table, Records):
            positions = _choose(table.columns, columns, drop)
            names = tuple(table.columns[position] for position in positions)
            return cls(table.values[:, positions], names, table.backend)
        frame = _as_frame(table, columns, drop)
        if len(frame) == 0:
            raise InputError("the table holds no rows; at least two records are needed")
        values = np.empty((len(frame), len(frame.columns)))
        for position, name in enumerate(frame.columns):
            values[:, position] = _numbers(frame[name])
        return cls(values, tuple(frame.columns), frame.implementation)

    @classmethod
    def in_order(cls, table: Any, columns: Sequence[str] | None) -> "Records":
        """Read as `of_numbers` does and put the columns in this order; a table of other names is refused."""
        records = table if isinstance(table, Records) else cls.of_numbers(table)
        if columns is None or records.columns == tuple(columns):
            return records
        if set(records.columns) != set(columns):
            raise InputError(
                f"the records have the columns {', '.join(records.columns)}, the release {', '.join(columns)}; "
                "choose the release's columns"
            )
        places = [records.columns.index(name) for name in columns]
        return cls(np.take(records.values, places, axis=1), tuple(columns), records.backend)


def _as_frame(table: Any, columns: Any, drop: Any) -> nw.DataFrame[Any]:
    """Return the chosen columns; among the others names may be missing, unsafe or repeated."""
    if isinstance(table, str | PathLike):
        table = read_table(Path(table))
    if isinstance(table, np.ndarray):
        table = _name_columns(table)
    labels = getattr(table, "column_names", getattr(table, "columns", None))
    if labels is None:
        raise _no_table(table)
    names = [str(name) for name in labels]
    positions = _choose(names, columns, drop)
    chosen = [names[position] for position in positions]
    # by position, before narwhals sees it: it would refuse a repeated name wherever it is
    if hasattr(table, "iloc"):
        table = table.iloc[:, positions].set_axis(chosen, axis=1)
    elif hasattr(table, "column_names"):
        table = table.select(positions)
    try:
        return nw.from_native(table, eager_only=True).select(chosen)
    except TypeError as error:
        raise _no_table(table) from error


def _no_table(table: Any) -> InputError:
    return InputError(
        f"cannot read a {type(table).__name__} as a table; "
        "give a file, a NumPy matrix, or a pandas, polars or pyarrow table"
    )


def _name_columns(matrix: np.ndarray) -> Any:
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"a matrix of records has shape (n, p), p > 0, got {matrix.shape}; try reshape(-1, 1)")
    names = [f"x{position}" for position in range(1, matrix.shape[1] + 1)]
    values = np.asarray(real_array(matrix, "a matrix of records"))
    return nw.from_numpy(values, schema=names, backend="pyarrow").to_native()


def _choose(names: Sequence[str], columns: Any, drop: Any) -> list[int]:
    """Return the positions of the columns to keep, after checking their names."""
    if columns is not None and drop is not None:
        raise InputError("give either the columns to keep or the columns to drop, not both")
    named = _split(columns if drop is None else drop, names)
    for name in named:
        if name not in names:
            raise InputError(f"there is no column {name!r}; the table has {', '.join(names)}")
    if columns is None:
        positions = [position for position, name in enumerate(names) if name not in named]
    else:
        if len(set(named)) < len(named):
            raise InputError("a column is asked for twice; name each once")
        positions = [position for asked in named for position, name in enumerate(names) if name == asked]
    if not positions:
        raise InputError("no column is left; keep at least one" if names else "the table has no columns")
    check_names([names[position] for position in positions])
    return positions


def _split(asked: Any, names: Sequence[str]) -> list[str]:
    """Return the names asked for; what is no name as it stands is several, separated by commas."""
    entries = [asked] if isinstance(asked, str) else [str(entry) for entry in asked or ()]
    pairs = ([entry] if entry in names else [part.strip() for part in entry.split(",")] for entry in entries)
    return [name for group in pairs for name in group]


def check_names(names: Sequence[str]) -> None:
    """Refuse column names that are missing, repeated, or not safe to copy into released files."""
    cure = "or choose other columns (--columns; in Python columns=[…])"
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise InputError(f"column {position} of those kept has no name; give it one in the header, {cure}")
        if _UNSAFE_NAME.search(name):
            raise InputError(
                f"column name {name!r} holds quotes, line breaks, markup or a spreadsheet formula, "
                f"which is not safe to copy into released files; rename it, {cure}"
            )
    if len(set(names)) < len(names):
        name = next(name for name in names if names.count(name) > 1)
        raise InputError(f"column name {name!r} appears {names.count(name)} times; rename one, {cure}")


def _without(name: str) -> str:
    return f"leave it out (--drop {shlex.quote(name)}; in Python drop=[{name!r}])"


def _numbers(column: nw.Series[Any]) -> Float[np.ndarray, " n"]:
    """Return the column as float64, or say which row is not a usable number."""
    name, cure = column.name, _without(column.name)
    if not column.dtype.is_numeric():
        row, value = _first_text(column)
        if value is None:
            raise InputError(f"column {name!r} has no value in row {row}; complete it, or {cure}")
        raise InputError(f"column {name!r} is not numeric: row {row} holds {value!r}; {cure}")
    if column.dtype in (nw.Int128, nw.UInt128):  # NumPy has none; other kinds NumPy rounds alike for all libraries
        column = column.cast(nw.Float64)
    numbers = column.to_numpy().astype(np.float64, copy=False)
    missing = np.isnan(numbers)
    if missing.any():
        raise InputError(
            f"column {name!r} misses {int(missing.sum())} of {len(numbers)} values, the first in row "
            f"{_row(missing)}; complete or remove those rows, or {cure}"
        )
    wild = ~(np.abs(numbers) <= LARGEST_VALUE)
    if wild.any():
        row = _row(wild)
        raise InputError(
            f"column {name!r} holds {numbers[row - 1]} in row {row}, beyond ±{LARGEST_VALUE:g}; "
            f"correct it, or {cure}"
        )
    return numbers


def _first_text(column: nw.Series[Any]) -> tuple[int, str | None]:
    """Return the row and the value of the first entry that is no number (or the first, if all are)."""
    for row, value in enumerate(column.to_list(), start=1):
        if value is None:
            return row, None
        try:
            float(str(value).strip())
        except ValueError:
            return row, str(value)
    return 1, str(column[0])


def _check_spread(name: str, numbers: Float[np.ndarray, " n"]) -> None:
    if np.all(numbers == numbers[0]):
        raise InputError(
            f"column {name!r} is constant ({numbers[0]:g} in every row): there is nothing to synthesize; "
            f"{_without(name)}"
        )


def _check_not_identifier(name: str, numbers: Float[np.ndarray, " n"]) -> None:
    """Refuse what names people; a column asked for by name is taken at its word."""
    whole = bool(np.all(numbers == np.round(numbers)))
    distinct = whole and len(np.unique(numbers)) == len(numbers)
    if _IDENTIFIER_NAME.fullmatch(name) or _IDENTIFIER_NAME.fullmatch(name.lower()):
        reason = "is named like one"
    elif distinct and len(numbers) >= 10 and bool(np.all(np.diff(numbers) > 0)):
        reason = "counts upward through the rows"
    elif distinct and bool(np.all(np.abs(numbers) >= 1e5)):
        reason = "holds long whole numbers, all different"
    else:
        return
    raise InputError(
        f"column {name!r} looks like an identifier (it {reason}); {_without(name)}, "
        "or, if it is a measurement, name it among the columns to keep (--columns; in Python columns=[…])"
    )


def _row(flags: np.ndarray) -> int:
    return int(np.argmax(flags)) + 1
