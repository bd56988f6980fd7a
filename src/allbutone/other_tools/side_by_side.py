"""A table, synthetic rows and control people side by side, in one coding of their values."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import listed
from allbutone.tables.categories import encode
from allbutone.tables.date_forms import read_dates, too_coarse
from allbutone.tables.dates import Calendar
from allbutone.tables.files import read_table
from allbutone.tables.long_tables import widen
from allbutone.tables.names import chosen_frame, names_of
from allbutone.tables.records import Records

DIGITS = 10  # significant: beyond these two numbers are the same, however they were written


@dataclass(frozen=True, eq=False)
class SideBySide:
    """The people of a table, synthetic rows, and, where there are some, control people who had no part in them.

    Each is a matrix of the same columns: measurements in natural units, categories by the number of their level;
    NaN where a value is missing.
    """

    names: tuple[str, ...]
    is_category: Bool[np.ndarray, " f"]
    people: Float[np.ndarray, "n f"]
    rows: Float[np.ndarray, "rows f"]
    control: Float[np.ndarray, "control f"] | None = None

    @classmethod
    def of(cls, records: Records, synthetic: Sequence[Any], control: Any = None) -> "SideBySide":
        """Read synthetic tables, and control people, in the columns of the records."""
        levels = {
            name: {level: place for place, level in enumerate(each)}
            for name, each in zip(records.categories.columns, records.categories.levels, strict=True)
        }
        people = np.empty((len(records.values), len(records.order)))
        for place, name in enumerate(records.order):
            if name in levels:
                codes = records.categories.codes[:, records.categories.columns.index(name)]
                people[:, place] = np.where(codes < 0, np.nan, codes)
            else:
                people[:, place] = records.natural[:, records.columns.index(name)]
        if not synthetic:
            raise InputError("there are no synthetic rows to audit", "name at least one table of them")
        rows = [_coded(records, each, levels, "the synthetic table") for each in synthetic]
        others = None if control is None else _coded(records, control, levels, "the control table")
        kinds = np.array([name in levels for name in records.order])
        return cls(records.order, kinds, people, np.concatenate(rows), others)

    @cached_property
    def codes(self) -> tuple[Int[np.ndarray, "n f"], Int[np.ndarray, "rows f"]]:
        """The same number for the same value, column by column; −1 for a gap."""
        both = significant(np.concatenate([self.people, self.rows]))
        found = np.empty(both.shape, dtype=np.int64)
        for place, column in enumerate(both.T):
            found[:, place] = np.unique(column, return_inverse=True)[1]
        found[np.isnan(both)] = -1
        return found[: len(self.people)], found[len(self.people) :]

    @property
    def share(self) -> float:
        """How many synthetic rows there are for each person."""
        return len(self.rows) / len(self.people)


def significant(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Round to ten significant digits; gaps stay."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = DIGITS - 1 - np.floor(np.log10(np.abs(values)))
    unit = 10.0 ** np.where(np.isfinite(power), np.clip(power, -300, 300), 0)
    return np.round(values * unit) / unit + 0.0  # no −0


def labels(codes: Int[np.ndarray, "n f"]) -> Int[np.ndarray, " n"]:
    """Return the same number for rows that are the same in all columns, from 0."""
    found = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        found = found * (column.max(initial=-1) + 2) + column + 1
        found = np.unique(found, return_inverse=True)[1].reshape(-1)
    return found


def _coded(records: Records, table: Any, levels: dict[str, dict[str, int]], what: str) -> Float[np.ndarray, "n f"]:
    """Return a table's values in the records' columns; levels that are new get numbers of their own."""
    frame = with_dates_counted(records, _frame(records, table, what), what)
    values = np.empty((len(frame), len(records.order)))
    for place, name in enumerate(records.order):
        missing = next(column.missing for column in records.schema.columns if column.name == name)
        column = frame[name]
        if name in levels:
            codes, found = encode(column, missing)
            known = {_plain(level): at for level, at in levels[name].items()}
            for level in found:
                at = known.setdefault(_plain(level), len(levels[name]))
                levels[name].setdefault(level, at)
            values[:, place] = np.array([*(known[_plain(level)] for level in found), np.nan])[codes]
            continue
        if not column.dtype.is_numeric() and column.null_count() < len(column):
            raise InputError(
                f"{name!r} of {what} is not a number",
                "correct it",
                Cure("leave it out", "drop", [name]),
            )
        numbers = column.cast(nw.Float64).to_numpy().astype(float)
        values[:, place] = np.where(np.isin(numbers, missing), np.nan, numbers)
    return values


def with_dates_counted(records: Records, frame: nw.DataFrame[Any], what: str) -> nw.DataFrame[Any]:
    """Return the frame with numbers for what is declared a date; tools may write dates in a form of their own."""
    dates = {name: each for name, each in records.schema.dates.items() if name in frame.columns}
    counted = (_counted(frame[name], calendar, what).alias(name) for name, calendar in dates.items())
    return frame.with_columns(*counted) if dates else frame


def _counted(column: nw.Series[Any], calendar: Calendar, what: str) -> nw.Series[Any]:
    if column.null_count() == len(column):
        return column
    first, second = (read_dates(column, form) for form in (calendar.form, ""))
    found = second if first.problem and not second.problem else first
    coarser = "" if found.problem else too_coarse(found.form, calendar.precision)
    if problem := found.problem or (coarser and f"tells no more than the {coarser}"):
        raise InputError(
            f"{column.name!r} of {what} {problem}", *found.cures, Cure("leave it out", "drop", [column.name])
        )
    return nw.new_series(column.name, calendar.count(found.stamps), nw.Float64, backend=column.implementation)


def _frame(records: Records, table: Any, what: str) -> nw.DataFrame[Any]:
    if isinstance(table, str | PathLike):
        table = read_table(Path(table))
    elif isinstance(table, Records):
        table = table.to_frame()
    if records.schema.visits is not None:
        table = widen(table, records.schema, list(records.order)).table
    if absent := [name for name in records.order if name not in names_of(table)]:
        raise InputError(
            f"{what} has no {listed(absent)}",
            Cure("leave out of the table what was not released", "drop", absent),
        )
    frame = chosen_frame(table, list(records.order), None)
    if not len(frame):
        raise InputError(f"{what} holds no rows", "give one that does")
    return frame


def _plain(level: str) -> str | float:
    """Return a level as it is compared: 1, 1.0 and "1" are the same, whatever a tool has made of them."""
    try:
        return float(level)
    except ValueError:
        return level
