"""Tables that hold several rows of the same people, which are refused: every figure is for one row a person."""

import re
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int, UInt

from allbutone.support.errors import Cure, InputError
from allbutone.tables.declared.column import CATEGORY
from allbutone.tables.declared.schema import Schema
from allbutone.tables.frames import column_at, names_of
from allbutone.tables.look import DATE, Look
from allbutone.tables.names import looks_like_identifier

# of people, not of places: site_id and ward_id repeat in any table
_PERSON = re.compile(
    r"ids?|iid|eid|pid|cpr|ssn|mrn|guid|uuid|identifier|pseudonym|(record|case|study)[_\W]*(id|no|nr|number)"
    r"|(.*[_\W])?u?(patient|pat|subject|subj|person|participant|proband|respondent|individual)"
    r"s?[_\W]*(id|no|nr|num|number|code|key)?"
)
_NUMBERED = re.compile(r"nr|no|number|num", re.IGNORECASE)  # of people, or of lesions
FEW = 10  # different values of what may be a count or a score: then only equal numbers of rows tell of people
MANY = 30  # different texts or numbers of something that need not be people
EQUAL = 0.8  # of the values that occur equally often: copies or visits, which chance does not make
_MIX = np.uint64(0x9E3779B97F4A7C15)
_ONE_ROW = "give one row a person: a visit of each, or a mean of them"
ROWS_ARE_PEOPLE = Cure("if each row is another person nevertheless, say so", "rows_are_people", True)


def require_one_row_each(table: Any, declared: Schema) -> None:
    """Refuse a table in which a column, used or not, names the same people in several rows.

    What is declared a category names nobody, unless it is called after people.
    """
    if isinstance(table, np.ndarray):
        return
    names = names_of(table)
    for place, name in enumerate(names):
        if names.count(name) == 1 and (is_person(name) or declared.column(name).kind != CATEGORY):
            column = column_at(table, place, name)
            if may_name_people(name, column.dtype) and (told := _told(name, column)):
                raise several_rows(told)


def require_different_rows(looks: Sequence[Look]) -> None:
    """Refuse a table whose rows are all there several times, in every column that is used."""
    columns = [look.codes if look.is_category else look.numbers for look in looks if look.usable]
    if not columns or any(len(np.unique(column)) > len(column) // 2 for column in columns):
        return
    counts = np.unique(row_prints(columns), return_counts=True)[1]
    if len(counts) >= FEW and (times := equal_times(counts)):
        raise InputError(
            f"{len(counts):,} different rows stand in the table {times:,} times each: {counts.sum():,} rows",
            "remove the copies, so that there is one row a person",
            ROWS_ARE_PEOPLE,
        )  # fmt: skip


def may_name_people(name: str, kind: Any) -> bool:
    """Say whether a column of this name and type is one to count: by its name, or because it holds text."""
    if kind == nw.String:
        return True
    named = is_person(name) or looks_like_identifier(name) or bool(_NUMBERED.fullmatch(name))
    return named and (kind.is_numeric() or kind in (nw.Categorical, nw.Enum, nw.Object))


def is_person(name: str) -> bool:
    """Say whether a column is named as what names people, and not places or samples."""
    return bool(_PERSON.fullmatch(re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()))


def _told(name: str, column: nw.Series[Any]) -> str:
    """Say how a column tells that people have several rows; nothing where it does not."""
    if column.dtype == nw.String and column.implementation.is_pyarrow():
        column = _as_plain_text(column)
    column = column.drop_nulls()
    if column.dtype.is_float():
        numbers = column.to_numpy()
        if not np.all(numbers == np.round(numbers)):  # also where NaN is a value: what has gaps is no identifier
            return ""
    if column.dtype == nw.String and len(column) and DATE.fullmatch(str(column[0])):
        return ""
    counts = column.value_counts(name="rows of the value")["rows of the value"].to_numpy().astype(np.int64)
    return told_by_counts(name, counts)


def _as_plain_text(column: nw.Series[Any]) -> nw.Series[Any]:
    """Return Arrow's views of text as text of its own, for which alone Arrow can drop and count values."""
    import pyarrow as pa

    native = column.to_native()
    if not pa.types.is_string_view(native.type):
        return column
    return nw.from_native(native.cast(pa.large_string()), series_only=True).alias(column.name)


def told_by_counts(name: str, counts: Int[np.ndarray, " values"]) -> str:
    """Say of a column whose values occur so often that people have several rows; nothing where it does not."""
    values, rows, times = len(counts), int(counts.sum()), equal_times(counts)
    person, enough = is_person(name), FEW if _NUMBERED.fullmatch(name) else MANY
    several = (person and values >= FEW) or (times and (person or values >= enough))
    if not 3 <= values < rows or not several:
        return ""
    each = f"{times:,} rows each" if times and times * values == rows else f"up to {int(counts.max()):,} of one"
    return f"{name!r} has {values:,} different values in {rows:,} rows ({each})"


def several_rows(told: str) -> InputError:
    """Return the error for people who have several rows."""
    return InputError(f"some people have several rows: {told}", _ONE_ROW, ROWS_ARE_PEOPLE)


def equal_times(counts: Int[np.ndarray, " values"]) -> int:
    """Return how often nearly all values occur, if that is the same number above one; else 0."""
    numbers, shares = np.unique(counts, return_counts=True)
    most = int(np.argmax(shares)) if len(counts) else 0
    return int(numbers[most]) if len(counts) and numbers[most] > 1 and shares[most] >= EQUAL * len(counts) else 0


def row_prints(columns: Sequence[Float[np.ndarray, " n"] | Int[np.ndarray, " n"]]) -> UInt[np.ndarray, " n"]:
    """Return a number of 64 bits for each row, the same for equal rows and else, but for 2⁻⁶⁴, another."""
    found = np.zeros(len(columns[0]), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            bits = np.ascontiguousarray(column + 0.0).view(np.uint64)
            found = (found ^ (found >> np.uint64(29))) * _MIX + bits
            found = (found ^ (found >> np.uint64(32))) * _MIX
    return found
