"""What can be asked on a page: one declaration makes the control, its bounds, its help and its check."""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from allbutone.support.errors import Cure, InputError

# What in the app does what an argument does in Python; the controls' labels stand between quotes.
CONTROLS = {
    "columns": "at “The columns” of Mend",
    "drop": "untick at “The columns” of Mend",
    "drop_unusable": "at “Columns that cannot be used” of Mend",
    "rows_are_people": "at “The same person twice” of Mend",
    "complete_cases": "at “Rows with gaps” of Mend",
    "missing": "at “Rows with gaps” of Mend",
    "model": "at “How columns go together” of Mend",
    "cells": "at “Cells of the categories” of Mend",
    "missing_codes": "at “Codes for missing values” of Mend",
    "log": "at “Scale” of Mend",
    "positive": "with 0 at “Lowest” of Mend",
    "decimals": "at “Decimals” of Mend",
    "header": "untick “The first line names the columns” at Upload and send it again",
    "encoding": "at “Text is encoded as” of Upload, and send it again",
    "sheet": "at “Sheet” of Upload, and send it again",
    "prior": "at “The prior” of Mend",
    "rows": "at “Rows of each dataset”",
    "datasets": "at “How many”",
    "draws": "at “How many”",
    "probability": "at “A value is disclosed from a probability of”",
    "keep": "at “Keep” of Mend",
    "epsilon": "at “ε” of Draw",
    "delta": "at “δ” of Draw",
    "lacking_columns": "at “Columns of everyone”",
    "lacking_records": "at “Records, besides the one looked at”",
}


def in_app_words(cure: Cure) -> str:
    """Return a way out as a user of the app reads it: with the control, where one does it."""
    control = CONTROLS.get(cure.argument)
    return f"{cure.words} ({control})" if control else cure.words


class FieldError(InputError):
    """A value that a field cannot take; the page marks the field."""

    def __init__(self, name: str, problem: str, *cures: Cure | str, where: str = "") -> None:
        super().__init__(problem, *cures, where=where)
        self.name = name


@dataclass(frozen=True)
class Field:
    """One control of a form. `default` is written as in an address, which leaves it out.

    What depends on another field is said here, and only here: `only`, such as `kind=datasets` or `p!=2`, when the
    control is shown; `begins_as`, the field whose value it takes when it comes to be shown; `reset_by`, the field
    that sends it back to its default by changing. `blank`: what it means where nothing is written, if that may be.
    """

    name: str
    label: str
    default: str = ""
    help: str = ""
    only: str = field(default="", kw_only=True)
    begins_as: str = field(default="", kw_only=True)
    reset_by: str = field(default="", kw_only=True)
    blank: Any = field(default=None, kw_only=True)
    kind: ClassVar[str] = "text"

    def value(self, text: str) -> Any:
        """Return what the text means, or say why it means nothing."""
        return text

    def refuse(self, text: str, wanted: str) -> FieldError:
        """Return the error that names the field, the value and the cure."""
        return FieldError(self.name, f"{text[:60]!r} cannot be used", f"give {wanted}", where=self.label)


@dataclass(frozen=True)
class Number(Field):
    """A number from `low` to `high`, with a slider where `slider` says how far it goes."""

    low: float = -math.inf
    high: float = math.inf
    step: float = 1
    slider: tuple[float, float] | None = None
    kind: ClassVar[str] = "number"

    def value(self, text: str) -> float:
        """Return the number."""
        wanted = f"a number from {self.low:,.10g} to {self.high:,.10g}"
        try:
            number = float(text)
        except ValueError as error:
            raise self.refuse(text, wanted) from error
        if not self.low <= number <= self.high:
            raise self.refuse(text, wanted)
        return number


@dataclass(frozen=True)
class Whole(Number):
    """A whole number."""

    def value(self, text: str) -> int:
        """Return the number."""
        number = super().value(text)
        if number != int(number):
            raise self.refuse(text, "a whole number")
        return int(number)


@dataclass(frozen=True)
class Numbers(Field):
    """Numbers between commas, one for each column, or one for all."""

    low: float = -1e6
    high: float = 1e6
    kind: ClassVar[str] = "numbers"

    def value(self, text: str) -> tuple[float, ...]:
        """Return the numbers."""
        wanted = f"numbers from {self.low:,.10g} to {self.high:,.10g} with commas between them"
        try:
            numbers = tuple(float(part) for part in re.split(r"[\s,;]+", text.strip(" ,;")))
        except ValueError as error:
            raise self.refuse(text, wanted) from error
        if not all(self.low <= number <= self.high for number in numbers):
            raise self.refuse(text, wanted)
        return numbers

    @staticmethod
    def spread(numbers: tuple[float, ...], p: int) -> list[float]:
        """Return one number for each of p columns: those given, the last one again for the rest."""
        return [numbers[min(place, len(numbers) - 1)] for place in range(p)]


@dataclass(frozen=True)
class Matrix(Field):
    """A square matrix: a line a row, or semicolons between the rows. None where nothing is written."""

    kind: ClassVar[str] = "matrix"

    def value(self, text: str) -> tuple[tuple[float, ...], ...] | None:
        """Return the rows of a symmetric matrix."""
        lines = [line.strip(" ,\t\r") for line in re.split(r"[;\n]", text)]
        try:
            rows = tuple(tuple(float(part) for part in re.split(r"[\s,]+", line)) for line in lines if line)
        except ValueError as error:
            raise self.refuse(text, "numbers, one line for each row") from error
        if not rows:
            return None
        if any(len(row) != len(rows) or not all(math.isfinite(number) for number in row) for row in rows):
            raise self.refuse(text, "as many finite numbers in every row as there are rows")
        if any(rows[i][j] != rows[j][i] for i in range(len(rows)) for j in range(i)):
            raise self.refuse(text, "a symmetric matrix: the same numbers above and below the diagonal")
        return rows


@dataclass(frozen=True)
class Choice(Field):
    """One of several; `options` says what each is called."""

    options: Mapping[str, str] = field(default_factory=dict)
    kind: ClassVar[str] = "choice"

    def value(self, text: str) -> Any:
        """Return the choice."""
        if text not in self.options:
            raise self.refuse(text, " or ".join(self.options))
        return text


@dataclass(frozen=True)
class Switch(Field):
    """Yes or no."""

    default: str = "no"
    kind: ClassVar[str] = "switch"

    def value(self, text: str) -> bool:
        """Return whether it is on."""
        if text not in ("yes", "no"):
            raise self.refuse(text, "yes or no")
        return text == "yes"


@dataclass(frozen=True)
class Hidden(Field):
    """A part of the state without a control of its own: what was clicked or uploaded."""

    kind: ClassVar[str] = "hidden"


@dataclass(frozen=True)
class HiddenWhole(Whole):
    """A whole number without a control of its own."""

    kind: ClassVar[str] = "hidden"


@dataclass(frozen=True)
class Group:
    """Fields that belong together; `only` says when they are shown, as of a field."""

    legend: str
    fields: tuple[Field, ...]
    only: str = ""
    folded: bool = False


def every(groups: Iterable[Group]) -> dict[str, Field]:
    """Return the fields of all groups by name."""
    return {one.name: one for group in groups for one in group.fields}


def names(groups: Iterable[Group], *, but: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of all fields, but for some."""
    return tuple(name for name in every(groups) if name not in set(but))


def takes(fields: Iterable[str], name: str) -> bool:
    """Say whether a name of an address is among the fields; `low-` stands for `low-1`, `low-2`, …"""
    return name in fields or re.sub(r"-\d+$", "-", name) in fields


def read(groups: Iterable[Group], query: Mapping[str, str], *names: str) -> dict[str, Any]:
    """Return the value of every field, or of those named, in an address; its default where that is silent."""
    fields, values = every(groups), {}
    for name in names or fields:
        text = query.get(name, fields[name].default)
        empty = fields[name].blank is not None and not text.strip()
        values[name] = fields[name].blank if empty else fields[name].value(text)
    return values
