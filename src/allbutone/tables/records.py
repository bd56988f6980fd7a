"""The gate: any table or file becomes a float64 matrix with column names, or a clear error."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from allbutone.support.arrays import real_array
from allbutone.support.errors import Cure, InputError
from allbutone.tables.files import read_table
from allbutone.tables.names import check_names, choose, looks_like_identifier

# Squares, products of two squares and sums of them over any table must stay finite in float64.
LARGEST_VALUE = 1e70


class IdentifierError(InputError):
    """A column that looks like what names people; only the user can say that it is a measurement."""


@dataclass(frozen=True, eq=False)
class Records:
    """The confidential table as finite numbers: `values` of shape (n, p), one good name a column.

    `backend` is the dataframe library the table came in, so that answers can go back in it.
    """

    values: Float[np.ndarray, "n p"]
    columns: tuple[str, ...]
    backend: nw.Implementation = nw.Implementation.PYARROW

    def __post_init__(self) -> None:
        """Check shape, names and numbers: nobody else asks again."""
        values = np.asarray(real_array(self.values, "a matrix of records"))
        names = tuple(str(name) for name in self.columns)
        if values.ndim != 2 or values.shape[1] != len(names):
            raise InputError(
                f"{len(names)} names were given for a matrix of shape {values.shape}",
                "give one row a record and one name a column",
            )
        _require_rows(len(values))
        check_names(names)
        _check_values(values, names)
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "columns", names)

    @classmethod
    def of(
        cls,
        table: Any,
        *,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] | None = None,
        header: bool = True,
        encoding: str | None = None,
        sheet: str | None = None,
    ) -> "Records":
        """Turn a file, a dataframe (pandas, polars, pyarrow, …) or a NumPy matrix into records of people.

        Nothing is dropped or repaired silently: columns that are not numbers, do not vary, or look like
        identifiers are refused by name. `columns` keeps exactly those named, `drop` leaves those named out.
        With `header=False` the first line of a file is a record, and `columns` names all columns in order; text is
        UTF-8 unless its `encoding` is given, and of an Excel workbook with several sheets one `sheet` is named.
        What is a `Records` already has been through the gate.
        """
        records = cls.of_numbers(table, columns=columns, drop=drop, header=header, encoding=encoding, sheet=sheet)
        if isinstance(table, Records):
            return records
        if len(records.values) < 2:
            raise InputError("the table holds one row", "give at least two records")
        for name, numbers in zip(records.columns, records.values.T, strict=True):
            _check_spread(name, numbers)
            if columns is None or not header:
                _check_not_identifier(name, numbers)
        return records

    @classmethod
    def of_numbers(
        cls,
        table: Any,
        *,
        columns: str | Sequence[str] | None = None,
        drop: str | Sequence[str] | None = None,
        header: bool = True,
        encoding: str | None = None,
        sheet: str | None = None,
    ) -> "Records":
        """Read as `of` does, asking only for finite numbers under good names: synthetic tables need no more."""
        if isinstance(table, str | PathLike):
            names = None if header else columns
            table = read_table(Path(table), header=header, names=names, encoding=encoding, sheet=sheet)
            columns = columns if header else None
        elif not header:
            raise InputError("only a file can be without a header", "name the columns of the table itself")
        elif encoding is not None or sheet is not None:
            raise InputError("only a file has an encoding or sheets", "leave them out")
        if isinstance(table, Records):
            positions = choose(table.columns, columns, drop)
            if positions == list(range(len(table.columns))):
                return table
            kept = tuple(table.columns[position] for position in positions)
            return cls(table.values[:, positions], kept, table.backend)
        frame = _as_frame(table, columns, drop)
        _require_rows(len(frame))
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
                f"the records have the columns {', '.join(records.columns)}, the release {', '.join(columns)}",
                "choose the release's columns",
            )
        places = [records.columns.index(name) for name in columns]
        return cls(np.take(records.values, places, axis=1), tuple(columns), records.backend)


def _as_frame(table: Any, columns: Any, drop: Any) -> nw.DataFrame[Any]:
    """Return the chosen columns; among the others names may be missing, unsafe or repeated."""
    if isinstance(table, np.ndarray):
        table = _name_columns(table)
    labels = getattr(table, "column_names", getattr(table, "columns", None))
    if labels is None:
        raise _no_table(table)
    names = _names(list(labels))
    positions = choose(names, columns, drop)
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


def _names(labels: list[Any]) -> list[str]:
    """Return the labels as names; columns that pandas has only numbered are named as those of a matrix."""
    if all(isinstance(label, int | np.integer) for label in labels) and labels == list(range(len(labels))):
        return [f"x{position}" for position in range(1, len(labels) + 1)]
    return [str(label) for label in labels]


def _no_table(table: Any) -> InputError:
    return InputError(
        f"cannot read a {type(table).__name__} as a table",
        "give a file, a NumPy matrix, or a pandas, polars or pyarrow table",
    )


def _name_columns(matrix: np.ndarray) -> Any:
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"a matrix of records has shape (n, p), p > 0, got {matrix.shape}", "try reshape(-1, 1)")
    names = _names(list(range(matrix.shape[1])))
    values = np.asarray(real_array(matrix, "a matrix of records"))
    return nw.from_numpy(values, schema=names, backend="pyarrow").to_native()


def _without(name: str) -> Cure:
    return Cure("leave it out", "drop", [name])


def _numbers(column: nw.Series[Any]) -> Float[np.ndarray, " n"]:
    """Return the column as float64, or say which row is not a number."""
    if not column.dtype.is_numeric():
        row, value = _first_text(column)
        if value is None:
            raise InputError(
                f"column {column.name!r} has no value in row {row}", "complete it", _without(column.name)
            )
        raise InputError(f"column {column.name!r} is not numeric: row {row} holds {value}", _without(column.name))
    if column.dtype in (nw.Int128, nw.UInt128):  # NumPy has none; other kinds NumPy rounds alike for all libraries
        column = column.cast(nw.Float64)
    return column.to_numpy().astype(np.float64, copy=False)


def _first_text(column: nw.Series[Any], block: int = 1000) -> tuple[int, str | None]:
    """Return the row and the value of the first entry that is no number (or the first, if all are)."""
    first = None
    for start in range(0, len(column), block):  # not at once: text that rows share would be copied for each
        try:
            values = column[start : start + block].to_list()
        except (ValueError, OverflowError):  # text that is not UTF-8, dates beyond Python's
            return (
                start + 1,
                f"{column.dtype} that cannot be shown (dates out of range, or text that is not UTF-8)",
            )
        for row, value in enumerate(values, start=start + 1):
            if value is None:
                return row, None
            try:
                float(str(value).strip())
            except ValueError:
                return row, f"{str(value)!r:.60}"
            first = first or f"{str(value)!r:.60}"
    return 1, first


def _require_rows(count: int) -> None:
    if count == 0:
        raise InputError("the table holds no rows", "give at least two records")


def _check_values(values: Float[np.ndarray, "n p"], names: Sequence[str]) -> None:
    """Refuse values that are missing or too large, by column and row."""
    if values.max() <= LARGEST_VALUE and values.min() >= -LARGEST_VALUE:  # false of NaN, too
        return
    for name, numbers in zip(names, values.T, strict=True):
        missing = np.isnan(numbers)
        if missing.any():
            raise InputError(
                f"column {name!r} misses {int(missing.sum())} of {len(numbers)} values, the first in row "
                f"{_row(missing)}",
                "complete or remove those rows",
                _without(name),
            )
        wild = ~(np.abs(numbers) <= LARGEST_VALUE)
        if wild.any():
            row = _row(wild)
            raise InputError(
                f"column {name!r} holds {numbers[row - 1]} in row {row}, beyond ±{LARGEST_VALUE:g}",
                "correct it",
                _without(name),
            )


def _check_spread(name: str, numbers: Float[np.ndarray, " n"]) -> None:
    if np.all(numbers == numbers[0]):
        raise InputError(
            f"column {name!r} is constant ({numbers[0]:g} in every row): there is nothing to synthesize",
            _without(name),
        )


def _check_not_identifier(name: str, numbers: Float[np.ndarray, " n"]) -> None:
    """Refuse what names people; a column asked for by name is taken at its word."""
    whole = bool(np.all(numbers == np.round(numbers)))
    distinct = whole and len(np.unique(numbers)) == len(numbers)
    if looks_like_identifier(name):
        reason = "is named like one"
    elif distinct and len(numbers) >= 10 and bool(np.all(np.diff(numbers) > 0)):
        reason = "counts upward through the rows"
    elif distinct and bool(np.all(np.abs(numbers) >= 1e5)):
        reason = "holds long whole numbers, all different"
    else:
        return
    raise IdentifierError(
        f"column {name!r} looks like an identifier (it {reason})",
        _without(name),
        Cure("if it is a measurement, name it among the columns to keep", "columns"),
    )


def _row(flags: np.ndarray) -> int:
    return int(np.argmax(flags)) + 1
