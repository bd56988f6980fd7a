"""Dates and times: counted from a public origin in units of their precision, and written in the form they had."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.date_forms import NOTHING, NUMBERED, PRECISIONS, TYPED, Form, Stamps, check_form

Numbers = Float[np.ndarray, "*rows"]

DATE_KIND = "date"
ORIGIN = date(2000, 1, 1)
_CODES = dict(zip(PRECISIONS, "YMDhms", strict=True))  # NumPy's
_SECONDS = {
    "year": 31_556_952,
    "month": 2_629_746, "week": 604_800, "day": 86_400, "hour": 3600, "minute": 60, "second": 1,
}  # fmt: skip
_IN_TABLE_FILES = ("YYYY-MM-DD", "YYYY-MM", "YYYY", "YYYY-MM-DD hh:mm", "YYYY-MM-DD hh:mm:ss", "YYYY-MM-DDThh:mm")
FIRST, LAST = np.datetime64("0001-01-01", "s"), np.datetime64("9999-12-31T23:59:59", "s")  # that a text can tell
_DAY_ZERO = np.datetime64(ORIGIN, "D")
_ZERO = np.datetime64(ORIGIN, "s")


@dataclass(frozen=True)
class Calendar:
    """How dates of a column are counted and written.

    They count as whole units of their precision (days, months, …) since the origin, so that they are rounded as
    whole numbers are. form: "YYYY-MM-DD" and the like for text and digits, a type for what a dataframe has as one;
    the table's own where it is empty.
    """

    precision: str = "day"
    origin: date = ORIGIN
    form: str = ""

    @property
    def unit(self) -> str:
        """What one is of the numbers that dates count as."""
        return f"{self.precision}s"

    @property
    def counts(self) -> str:
        """What its numbers count, in words."""
        return f"{self.unit} since {self.origin}"

    @property
    def days(self) -> float:
        """How many days one unit has, on average."""
        return _SECONDS[self.precision] / _SECONDS["day"]

    @cached_property
    def _start(self) -> Any:
        return np.datetime64(self.origin, "D").astype(f"M8[{_CODES[self.precision]}]")

    def count(self, stamps: Stamps) -> Numbers:
        """Count dates: units of the precision since the origin, begun ones not counted; NaN where none is."""
        since = stamps.astype(f"M8[{_CODES[self.precision]}]") - self._start
        return np.where(np.isnat(since), np.nan, since.astype(np.int64).astype(np.float64))

    def stamps(self, numbers: Numbers) -> Stamps:
        """Return the dates that these numbers stand for, to the second; the inverse of `count`."""
        start, code = self._start, _CODES[self.precision]
        first, last = (float((end.astype(f"M8[{code}]") - start).astype(np.int64)) for end in (FIRST, LAST))
        whole = np.clip(np.floor(np.nan_to_num(numbers) + 1e-9), first, last).astype(np.int64)
        moments = (start + whole.astype(f"m8[{code}]")).astype("M8[s]")
        return np.where(np.isnan(numbers), NOTHING, moments)

    def in_days(self, numbers: Numbers) -> Numbers:
        """Return the days since the first of January 2000 that formulas count, of dates and what lies between."""
        if self.precision not in ("year", "month"):
            return numbers * self.days + float((np.datetime64(self.origin, "D") - _DAY_ZERO).astype(np.int64))
        below = np.floor(numbers)
        first, next_ = ((self.stamps(each) - _ZERO).astype(np.int64) / 86_400.0 for each in (below, below + 1))
        return np.where(np.isnan(numbers), np.nan, first + (numbers - below) * (next_ - first))

    def number(self, given: Any, what: str) -> float:
        """Read a date of a table file as the number that it counts as."""
        if isinstance(given, date | datetime):
            return float(self.count(np.array([np.datetime64(given)]))[0])
        for form in _IN_TABLE_FILES if isinstance(given, str) else ():
            moment = Form.of(form).read(given.strip())
            if moment is not None and not np.isnat(moment):
                return float(self.count(np.array([moment]))[0])
        raise InputError(f"{what} is a date, got {given!r:.60}", f'write {what} = "2020-01-31", say')

    def text(self, number: float) -> str:
        """Return the date that a number stands for, as people read it: 2020-01-31, or 2020-01."""
        if not np.isfinite(number):
            return "no date"
        code = _CODES[self.precision].replace("h", "m")  # 10:00, not 10
        return str(self.stamps(np.array([number]))[0].astype(f"M8[{code}]")).replace("T", " ")

    def is_end_of_month(self, number: float) -> bool:
        """Say whether a date is the first or the last day of a month, or tells no day: a limit from a calendar."""
        if self.precision in ("year", "month"):
            return True
        day = self.stamps(np.array([number])).astype("M8[D]")[0]
        return bool(day.astype("M8[M]").astype("M8[D]") == day or (day + 1).astype("M8[M]") != day.astype("M8[M]"))

    def span(self, units: float) -> str:
        """Return a length of time in words: "30 days"."""
        shown = round(units, 1) if units < 9.95 else round(units)
        return counted(round(shown), self.precision) if shown == round(shown) else f"{shown:g} {self.unit}"

    def length(self, given: Any) -> Any:
        """Read a length of time, such as "30 days", as a number of units; anything else is left as it is."""
        if not isinstance(given, str):
            return given
        match = re.fullmatch(r"\s*([0-9.]+)\s*([a-z]+?)s?\s*", given)
        if match is None or match[2] not in _SECONDS or not match[1].replace(".", "", 1).isdigit():
            raise InputError(
                f"a length of time is a number of {self.unit}, got {given!r:.60}", 'write "30 days", say'
            )
        return float(match[1]) * _SECONDS[match[2]] / _SECONDS[self.precision]

    def entries(self) -> dict[str, Any]:
        """Return what a table file says of it."""
        return {
            "origin": self.origin.isoformat(), "precision": self.precision,
        } | ({"form": self.form} if self.form else {})  # fmt: skip

    def written(self, numbers: Numbers) -> Any:
        """Return dates as an Arrow array in the column's form."""
        import pyarrow as pa

        stamps, mask = self.stamps(numbers), np.isnan(numbers)
        if self.form in NUMBERED:
            seconds, start = NUMBERED[self.form]
            since = (stamps - np.datetime64(start, "s")).astype(np.int64) / seconds
            whole = all(each == round(each) for each in since[~mask][:1000].tolist())
            return pa.array(since.astype(np.int64) if whole else since, mask=mask)
        if (typed := TYPED.fullmatch(self.form or "date")) is None:
            texts = Form.of(self.form.removeprefix("number ")).write(stamps, mask)
            as_numbers = self.form.startswith("number ")
            return (
                pa.array([None if each is None else int(each) for each in texts])
                if as_numbers
                else pa.array(texts, pa.string())
            )
        if typed[1] is None:
            return pa.array(stamps.astype("M8[D]"), mask=mask)
        return _zoned(pa.array(stamps.astype(f"M8[{typed[1]}]"), mask=mask), typed[2])


def _zoned(array: Any, zone: str | None) -> Any:
    """Return times of the clock in a time zone; what it skips goes to the next, what it repeats to the first."""
    import pyarrow.compute as pc

    if zone is None:
        return array
    return pc.assume_timezone(array, zone, ambiguous="earliest", nonexistent="latest")


def calendar_from(given: Mapping[str, Any]) -> Calendar | None:
    """Read origin, precision and form of a column that is declared a date; None of any other."""
    if given.get("kind") != DATE_KIND:
        if wrong := [key for key in ("origin", "precision", "form", "since") if key in given]:
            raise InputError(f"{wrong[0]} is of dates", 'declare kind = "date", or leave it out')
        return None
    precision, form = given.get("precision", "day"), given.get("form", "")
    if precision not in _CODES:
        raise InputError(f"there is no precision {precision!r:.60}", f"known are {', '.join(PRECISIONS)}")
    check_form(form)
    calendar = Calendar(precision, form=form)
    if "origin" not in given:
        return calendar
    origin = replace(calendar, precision="day").number(given["origin"], "origin")
    return replace(calendar, origin=(_DAY_ZERO + np.timedelta64(int(origin), "D")).astype(date))


# What a draft proposes: the precision in which dates were recorded, and the period that they lie in, coarsely.


MANY_YEARS = 30  # of dates: then decades are told, else years
OUTSIDE = 0.02  # of what a normal would draw: beyond the period, so that it matters
ENOUGH = 30


def proposed_precision(stamps: Stamps) -> str:
    """Return the coarsest precision that loses nothing."""
    there = stamps[~np.isnat(stamps)]
    return next(
        name for name, code in _CODES.items()
        if name == "second" or np.array_equal(there.astype(f"M8[{code}]").astype("M8[s]"), there)
        if name != "hour"
    )  # fmt: skip


def proposed_period(stamps: Stamps) -> tuple[str, str] | None:
    """Return the first of January before the first and after the last date, where a normal would go far beyond.

    Years, or decades where there are many: a study's period is public, the first person's date is not.
    """
    from scipy.special import ndtr

    there = stamps[~np.isnat(stamps)]
    if len(there) < ENOUGH:
        return None
    years = there.astype("M8[Y]").astype(np.int64) + 1970
    step = 10 if np.ptp(years) > MANY_YEARS else 1
    low, high = int(years.min()) // step * step, (int(years.max()) // step + 1) * step
    ends = [np.datetime64(f"{year:04d}-01-01", "s") for year in (low, high)]
    numbers = (there - ends[0]).astype(np.int64).astype(np.float64)
    width, mean, spread = float((ends[1] - ends[0]).astype(np.int64)), numbers.mean(), numbers.std()
    if not spread or float(ndtr(-mean / spread) + ndtr((mean - width) / spread)) < OUTSIDE:
        return None
    return f"{low:04d}-01-01", f"{high:04d}-01-01"
