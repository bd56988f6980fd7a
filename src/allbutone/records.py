"""The gate: any table or file becomes a float64 matrix with column names, or a clear error."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from allbutone.errors import InputError
from allbutone.tables import read_table

# Squares, products of two squares and sums of them over any table must stay finite in float64.
LARGEST_VALUE = 1e70

_IDENTIFIER_NAME = re.compile(
    r"(.*[_\W])?(id|ids|iid|fid|eid|pid|guid|uuid|identifier|cpr|ssn|mrn)([_ ]?(number|no|nr))?"
    r"|index|row|rowid|record|name|barcode|pseudonym|unnamed: 0"
    r"|.*[a-z](Id|ID)"
)
_UNSAFE_NAME = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\"'`]|<[a-zA-Z/!?]|^\s*[=+@-]")


@dataclass(frozen=True)
class Records:
    """The confidential table as numbers: `values` of shape (n, p), one name a column.

    `backend` is the dataframe library the table came in, so that answers can go back in it.
    """

    values: Float[np.ndarray, "n p"]
    columns: tuple[str, ...]
    backend: nw.Implementation = nw.Implementation.PYARROW

    @classmethod
    def of(
        cls, table: Any, *, columns: Sequence[str] | None = None, drop: Sequence[str] | None = None
    ) -> "Records":
        """Turn a file, a dataframe (pandas, polars, pyarrow, …) or a NumPy matrix into records of people.

        Nothing is dropped or repaired silently: columns that are not numbers, do not vary, or look like
        identifiers are refused by name. `columns` keeps exactly those named, `drop` leaves those named out.
        """
        records = cls.of_numbers(table, columns=columns, drop=drop)
        if len(records.values) < 2:
            raise InputError("the table holds one row; at least two records are needed")
        for name, numbers in zip(records.columns, records.values.T, strict=True):
            _check_spread(name, numbers)
            if columns is None:
                _check_not_identifier(name, numbers)
        return records

    @classmethod
    def of_numbers(
        cls, table: Any, *, columns: Sequence[str] | None = None, drop: Sequence[str] | None = None
    ) -> "Records":
        """Read as `of` does, asking only for finite numbers under good names: synthetic tables need no more."""
        if isinstance(table, Records):
            chosen = _choose(table.columns, columns, drop)
            positions = [table.columns.index(name) for name in chosen]
            return cls(table.values[:, positions], chosen, table.backend)
        frame = _as_frame(table)
        chosen = _choose(tuple(frame.columns), columns, drop)
        if len(frame) == 0:
            raise InputError("the table holds no rows; at least two records are needed")
        values = np.empty((len(frame), len(chosen)))
        for position, name in enumerate(chosen):
            values[:, position] = _numbers(frame[name])
        return cls(values, chosen, frame.implementation)


def _as_frame(table: Any) -> nw.DataFrame[Any]:
    if isinstance(table, str | PathLike):
        table = read_table(Path(table))
    if isinstance(table, np.ndarray):
        table = _name_columns(table)
    # before narwhals sees them: it refuses duplicate names too, but in its own words
    names = getattr(table, "column_names", getattr(table, "columns", ()))
    _check_names([str(name) for name in names])
    try:
        return nw.from_native(table, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"cannot read a {type(table).__name__} as a table; "
            "give a file, a NumPy matrix, or a pandas, polars or pyarrow table"
        ) from error


def _name_columns(matrix: np.ndarray) -> Any:
    if matrix.ndim != 2:
        raise InputError(f"a matrix of records has shape (n, p), got {matrix.shape}; try reshape(-1, 1)")
    if not (np.issubdtype(matrix.dtype, np.number) and np.isrealobj(matrix)):
        raise InputError(f"a matrix of records holds real numbers, got dtype {matrix.dtype}")
    if matrix.shape[1] == 0:
        raise InputError("the table has no columns")
    names = [f"x{position}" for position in range(1, matrix.shape[1] + 1)]
    return nw.from_numpy(matrix, schema=names, backend="pyarrow").to_native()


def _check_names(names: list[str]) -> None:
    for name in names:
        if not name.strip():
            raise InputError(f"column {names.index(name) + 1} has no name; give it one in the header")
        if _UNSAFE_NAME.search(name):
            raise InputError(
                f"column name {name!r} holds quotes, line breaks, markup or a spreadsheet formula, "
                "which is not safe to copy into released files; rename it"
            )
        if names.count(name) > 1:
            raise InputError(f"column name {name!r} appears {names.count(name)} times; names must differ")


def _choose(names: tuple[str, ...], columns: Sequence[str] | None, drop: Sequence[str] | None) -> tuple[str, ...]:
    if columns is not None and drop is not None:
        raise InputError("give either the columns to keep or the columns to drop, not both")
    for name in columns or drop or ():
        if name not in names:
            raise InputError(f"there is no column {name!r}; the table has {', '.join(names)}")
    if columns is not None:
        if len(set(columns)) < len(columns):
            raise InputError("a column is asked for twice; name each once")
        chosen = tuple(columns)
    else:
        chosen = tuple(name for name in names if name not in (drop or ()))
    if not chosen:
        raise InputError("the table has no columns" if not names else "no column is left; keep at least one")
    return chosen


def _numbers(column: nw.Series[Any]) -> Float[np.ndarray, " n"]:
    """Return the column as float64, or say which row is not a usable number."""
    name, cure = column.name, f"leave the column out (--drop {column.name}) or choose others (--columns)"
    if column.dtype in (nw.String, nw.Object, nw.Categorical) or not column.dtype.is_numeric():
        row, value = _first_text(column)
        if value is None:
            raise InputError(f"column {name!r} has no value in row {row}; complete it, or {cure}")
        raise InputError(f"column {name!r} is not numeric: row {row} holds {value!r}; {cure}")
    missing = column.is_null().to_numpy()
    numbers = column.cast(nw.Float64).to_numpy().astype(np.float64, copy=False)
    missing = missing | np.isnan(numbers)
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
            f"leave it out (--drop {name})"
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
        f"column {name!r} looks like an identifier (it {reason}); leave it out (--drop {name}), "
        "or, if it is a measurement, name it among the columns to keep (--columns)"
    )


def _row(flags: np.ndarray) -> int:
    return int(np.argmax(flags)) + 1
