"""One look at a table: what each column is, whether it can be modelled, and the table file that would say so."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.categories import encode, match_levels
from allbutone.tables.column import (
    CATEGORY,
    LEFT_OUT,
    MEASUREMENT,
    Column,
    EventOf,
    Scale,
    check_levels,
    column_from,
)
from allbutone.tables.date_forms import LOOKS_LIKE, read_dates, reads_as_date, too_coarse
from allbutone.tables.dates import DATE_KIND, ORIGIN, Calendar, proposed_period, proposed_precision
from allbutone.tables.heaps import Heaps
from allbutone.tables.names import looks_like_identifier
from allbutone.tables.proposals import Proposal, known_ends, proposed_ends, proposed_heaps
from allbutone.tables.schema import Schema
from allbutone.tables.visits import Visits

# What numbers look like: identifiers, codes for missing values, decimals, a less skewed scale.


MOST_DECIMALS = 6
FEWEST = 8  # values from which a scale can be told
BELOW = 0.01  # of the drawn values, below 0
FARTHEST = 2.0  # times the largest value: as far as the largest of as many drawn ones may be expected
FARTHEST_LOG = 3.0  # whose own largest values vary that much
SCALES_ALIKE = 0.005  # correlations with normal scores that hardly differ
CODES = (-9, -99, -999, -9999, -99999, -8, -88, -888, -8888, 999, 9999, 99999, 999999, 8888, 88888)


def proposed_scale(there: Float[np.ndarray, " n"]) -> str:
    """Return the scale on which values that are never negative are nearest to a normal.

    As they are, where that is not skewed and would give less than one in a hundred below 0. A scale whose normal
    reaches far beyond the largest value is none: what is drawn from it has absurd tails. Of scales that are
    nearly as good the first is taken, which is the one that needs no limit.
    """
    least, mean, spread = float(there.min()), float(np.mean(there)), float(np.std(there))
    if least < 0 or len(there) < FEWEST or (abs(_skewness(there)) <= 1 and mean > -ndtri(BELOW) * spread):
        return "as it is"
    scales = [*(["log"] if least > 0 else []), "sqrt", "log(x + 1)", "log(x + 10)", "log(x + 100)", "as it is"]
    scores = ndtri((np.arange(len(there)) + 0.625) / (len(there) + 0.25))  # Blom's
    near = {}
    for name in scales:
        scale = Scale.of(name)
        on_scale = np.sort(scale.to_model(there))
        highest = scale.to_natural(np.mean(on_scale) + scores[-1:] * np.std(on_scale))[0]
        farthest = FARTHEST_LOG if name == "log" else FARTHEST
        if name == "as it is" or highest <= farthest * there.max():
            near[name] = float(np.corrcoef(on_scale, scores)[0, 1])
    return next(name for name in scales if near.get(name, 0.0) > max(near.values()) - SCALES_ALIKE)


def _skewness(values: Float[np.ndarray, " n"]) -> float:
    centred = values - values.mean()
    spread = float(np.sqrt(np.mean(centred**2)))
    return float(np.mean((centred / spread) ** 3)) if spread > 0 else 0.0


def decimals_of(values: Float[np.ndarray, " n"]) -> int | None:
    """Return the decimals in which the values were recorded; None if they were computed."""
    return next((d for d in range(MOST_DECIMALS + 1) if np.allclose(np.round(values, d), values, 1e-12, 0)), None)


def suspicious_code(there: Float[np.ndarray, " n"]) -> float | None:
    """Return a value that looks like a code for a missing one: a usual code, far outside the others."""
    for code in (float(there.min()), float(there.max())):
        if code not in CODES:
            continue
        rest = there[there != code]
        if len(rest) and (code < 0 <= rest.min() or abs(code - np.median(rest)) > 3 * np.ptp(rest) > 0):
            return code
    return None


# What a column is, and what stands against it: told from what is known of it, here or in an engine.


# Squares, products of two squares and sums of them over any table must stay finite in float64.
LARGEST_VALUE = 1e70
SMALLEST_SPREAD = 1e-150
LONG = 1e5  # from which whole numbers, all different, are those of identifiers
FEW = 10  # different values: as many as a code has
FEW_OF_A_SCORE = 11  # from 0 to 10
FEW_VALUES = (
    "few different whole numbers. As measurements they come out with values in between; declare what are codes "
    'of categories so (kind = "category"), and declare 0 decimals for what are scores.'
)
OF_ALL_TOGETHER = {
    "constant": "does not vary. Nobody can be told from others by it, and no risk can be computed with it.",
    "identifier": "looks like an identifier. If it names people, leave it out.",
    "suspicious code": "may hold a code for a missing value. If so, declare it (missing) in a table file.",
}
FEW_DRAFTED = (
    "few different whole numbers, drafted as scores between two ends, or as counts. Where they are codes of "
    'categories, declare that (kind = "category").'
)
LEVELS_ALIKE = (
    "some levels differ in capitals or spaces alone. If they mean the same, write them alike in the table."
)
MOST_LEVELS = 20  # of a text that is taken as a category although nothing is declared
OF_LEVELS = (nw.String, nw.Boolean, nw.Categorical, nw.Enum, nw.Object)
DAYS = 'declare it a date in a table file (kind = "date"), which describe drafts'
AS_CATEGORY = 'if it is a category, declare it one in a table file (kind = "category")'
_MEASURED = Cure("if it is a measurement, name it among the columns to keep", "columns")


@dataclass(frozen=True, eq=False)
class Look:
    """What one column is.

    kind: in a few words. missing: how many values it lacks. problem: why it cannot be modelled, in words that
    follow the column's name; empty if it can; `quietly`: the same without a person's value, where it has one, for
    what is written down. doubts: what a holder should know although it can. scale, positive, decimals, heaps, ends
    (of a score): what a table file could declare. named: whether only its identifying look stands against it.
    levels, codes: of a category. fixed: whether its levels are declared, here or by the table's own type.
    calendar: of a date that is declared, how it counts, with the form that it stands in.
    """

    name: str
    kind: str
    missing: int = 0
    problem: str = ""
    quietly: str = ""
    cures: tuple[Cure | str, ...] = ()
    doubts: tuple[str, ...] = ()
    scale: str = "as it is"
    positive: bool = False
    decimals: int | None = None
    heaps: Heaps | None = None
    ends: tuple[float, float] | None = None
    named: bool = False
    numbers: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0), repr=False)
    levels: tuple[str, ...] = ()
    codes: Int[np.ndarray, " m"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    fixed: bool = False
    calendar: Calendar | None = None

    @property
    def is_category(self) -> bool:
        """Whether the column is taken as a category."""
        return bool(self.levels)

    @property
    def gaps(self) -> Bool[np.ndarray, " rows"]:
        """Where values are missing, of a column that can be modelled."""
        return self.codes < 0 if self.is_category else np.isnan(self.numbers)

    @property
    def usable(self) -> bool:
        """Whether the column can be modelled, gaps aside."""
        return not self.problem

    def against(self, problem: str, *cures: Cure | str, **more: Any) -> "Look":
        """Return the look with what stands against the column."""
        return replace(self, problem=problem, cures=cures, **more)

    def empty(self) -> "Look":
        """Return the look of a column without any value."""
        return self.against("has no value at all", kind="empty")

    def seen_alone(self) -> "Look":
        """Return the look without what stands against the column by all of its numbers together: as a doubt."""
        if self.kind not in OF_ALL_TOGETHER or not len(self.numbers):
            return self
        return replace(self, problem="", cures=(), named=False, doubts=(OF_ALL_TOGETHER[self.kind],))

    def holds_dates(self, *more: str) -> "Look":
        """Return the look of a column of dates or times."""
        return self.against("holds dates or times", DAYS, *more, kind="date")

    def as_identifier(self, reason: str, cure: Cure | str = _MEASURED) -> "Look":
        """Return the look of a column that names people."""
        return self.against(f"looks like an identifier (it {reason})", cure, kind="identifier", named=True)

    def with_code(self, code: float) -> "Look":
        """Return the look of a column in which this number may stand for a missing value."""
        words = "if such a number stands for a missing value, say so, here or in a table file (missing)"
        return self.against(
            f"holds {code:g}, far from its other values, which looks like a code for a missing value",
            Cure(words, "missing_codes", [code]),
            _MEASURED,
            kind="suspicious code",
        )

    def with_outside(self, count: int, declared: Column) -> "Look":
        """Return the look of a column with so many values outside what is declared."""
        limits = "its declared limits" + ("" if declared.scale.is_plain else " or scale")
        cure = "correct the values, the limits or the scale"
        return self.against(f"has {counted(count, 'value')} outside {limits}", cure)

    def with_ends(self, low: float, high: float, where: str = "", constant: str = "") -> "Look":
        """Say what the lowest and the highest value tell against the column; `where` the larger one stands."""
        if not (high <= LARGEST_VALUE and low >= -LARGEST_VALUE):
            worst = max(low, high, key=abs)
            return self.against(f"holds {worst}{where}, beyond ±{LARGEST_VALUE:g}", "correct it")
        if low == high:
            problem = f"is constant ({constant or f'{low:g}'} in every row): there is nothing to synthesize"
            return self.against(problem, kind="constant")
        return self

    def with_text(self, place: str, value: str) -> "Look":
        """Return the look of a column of text where numbers are taken: this value stands in this place."""
        shown = value.strip("'\"")
        if LOOKS_LIKE.fullmatch(shown):
            return self.holds_dates()
        if shown.isdigit() and shown.startswith("0"):
            return self.against(f"is a code: {place} begins with a zero, which no number does", kind="code")
        problem, quietly = (f"is not numeric: {place} holds {each}" for each in (value, "text"))
        return self.against(problem, quietly=quietly)


def why_all_different(count: int, low: float, high: float, *, long: bool) -> str:
    """Say why so many whole numbers that are all different look like what names people, if they do.

    long: whether each of them has six digits or more.
    """
    if long:
        return "holds long whole numbers, all different"
    # so many whole numbers within this reach, drawn by chance, would hardly be all different: e^−10
    if count * (count - 1) / (2 * (high - low + 1)) > 10:
        return "holds whole numbers that are all different and lie close together"
    return ""


def text_look(
    look: Look,
    levels: Sequence[str],
    different: int,
    values: int,
    shown: tuple[str, str],
    *,
    is_text: bool = True,
    trusted: bool,
) -> Look:
    """Return a column of which nothing is declared as a category, or with why it is none.

    levels: the different texts, or a thousand of them. shown: a place and the value there, which is no number
    where any is none.
    """
    place, value = shown
    few = different <= FEW and different * 5 <= values
    if is_text and not few and mostly_numbers(levels):
        return _texts(look, shown, "and most of its values are numbers", "correct it", kind="numbers and text")
    reason = "is different in every row" if 2 < different == values else ""
    reason = "is named like one" if looks_like_identifier(look.name) else reason
    if reason and not trusted:
        return look.as_identifier(reason, AS_CATEGORY)
    if LOOKS_LIKE.fullmatch(value.strip("'\"")):
        return look.holds_dates(AS_CATEGORY)
    if len(levels) <= MOST_LEVELS:
        return look
    many = f"and {different:,} different texts are many for a category"
    return _texts(look, (place, value), many, "merge its levels", kind="text")


def _texts(look: Look, shown: tuple[str, str], why: str, cure: str, *, kind: str) -> Look:
    problem, quietly = (f"is not numeric: {shown[0]} holds {value}, {why}" for value in (shown[1], "text"))
    return look.against(problem, cure, AS_CATEGORY, quietly=quietly, kind=kind)


def level_look(
    codes: Int[np.ndarray, " n"],
    found: tuple[str, ...],
    dtype: Any,
    declared: Column,
    people: Float[np.ndarray, " n"] | None = None,
) -> Look:
    """Look at a category by the levels found in it and each entry's level number.

    people: how many rows each entry stands for; one, if not given.
    """
    people = np.ones(len(codes)) if people is None else people
    levels, fixed = declared.levels or found, bool(declared.levels) or dtype in (nw.Categorical, nw.Enum)
    missing = int(people[codes < 0].sum())
    look = Look(declared.name, "category", missing, levels=levels, codes=codes, fixed=fixed)
    if np.all(codes < 0):
        return look.empty()
    try:
        check_levels(levels)
    except InputError as error:
        return look.against(f"has a level that cannot be used: {error.problem}", *error.cures)
    if declared.levels:
        matched, beyond = match_levels(codes, found, declared.levels, dtype)
        if beyond.any():
            rows = counted(int(people[beyond].sum()), "row")
            problem = f"has a value that is none of its declared levels in {rows}"
            return look.against(problem, "correct the values or declare all levels")
        look = replace(look, codes=matched)
    elif len(found) == 1:
        return look.against("has one level only: there is nothing to synthesize", kind="constant")
    alike = len({level.strip().casefold() for level in levels}) < len(levels)
    return replace(look, doubts=(LEVELS_ALIKE,) if alike else ())


# One look at each column of a table that is here.


def look_at(
    frame: nw.DataFrame[Any], schema: Schema, *, trusted: bool = False, categories: bool = False
) -> list[Look]:
    """Look at every column of a table; `trusted` columns name nobody, whatever they look like.

    categories: whether columns may be categories: those declared so and, where nothing is declared, text and truth
    values of few levels and numbers of two.
    """
    return [
        look_at_column(frame[name], schema.column(name), trusted=trusted, categories=categories,
                       two_valued=not schema.declares(name))
        for name in frame.columns
    ]  # fmt: skip


def look_at_column(
    column: nw.Series[Any],
    declared: Column,
    *,
    trusted: bool = False,
    categories: bool = False,
    two_valued: bool = False,
) -> Look:
    """Look at one column by itself; `two_valued`: whether numbers of two values are a category, too."""
    if declared.kind == CATEGORY and not categories:
        look = Look(column.name, "category", int(column.null_count()))
        return look.against("is declared a category, and only measurements are taken here")
    if declared.calendar is not None:
        return _date(column, declared, declared.calendar)
    if categories and (declared.kind == CATEGORY or not column.dtype.is_numeric()):
        return _category(column, declared, trusted)
    if not column.dtype.is_numeric():
        return _not_numeric(column)
    look = _measurement(column, declared, trusted)
    there = look.numbers[~look.gaps]
    if categories and two_valued and look.usable and len(there) > 2 and len(np.unique(there)) == 2:
        return level_look(*encode(column, declared.missing), column.dtype, declared)
    return look


def _category(column: nw.Series[Any], declared: Column, trusted: bool) -> Look:
    """Look at a column as a category, or say why it can be none."""
    look = Look(column.name, "category", int(column.null_count()))
    if look.missing == len(column):
        return look.empty()
    if column.dtype.is_temporal():
        if not declared.levels:
            return look.holds_dates()
        column = column.cast(nw.String)  # levels such as 2020-01-01, which a file gives back as dates
    if not column.dtype.is_numeric() and column.dtype not in OF_LEVELS:
        return _not_numeric(column)
    try:
        codes, levels = encode(column, declared.missing)
    except UnicodeDecodeError:
        return _not_numeric(column)
    there = codes[codes >= 0]
    if declared.kind != CATEGORY and len(there):
        look, different = replace(look, missing=len(codes) - len(there)), len(np.unique(there))
        shown, is_text = _first_text(column), column.dtype == nw.String
        look = text_look(look, levels, different, len(there), shown, is_text=is_text, trusted=trusted)
    return level_look(codes, levels, column.dtype, declared) if look.usable else look


def _date(column: nw.Series[Any], declared: Column, calendar: Calendar) -> Look:
    """Look at a column that is declared a date: units since its origin, in which nothing looks like a name."""
    look = Look(column.name, "date", int(column.null_count()), calendar=calendar)
    if look.missing == len(column):
        return look.empty()
    dates = read_dates(column, calendar.form)
    if dates.problem:
        return look.against(dates.problem, *dates.cures, quietly=dates.quietly)
    if coarser := too_coarse(dates.form, calendar.precision):
        return look.against(
            f"tells no more than the {coarser} ({dates.form}), and its precision is the {calendar.precision}",
            f'declare precision = "{coarser}"',
        )
    numbers = calendar.count(dates.stamps)
    calendar = replace(calendar, form=calendar.form or dates.form)
    if (seen := _as_number(numbers, column.name, declared, trusted=True)).problem:
        return replace(seen, kind="date" if seen.kind == "measurement" else seen.kind, calendar=calendar)
    return Look(column.name, "date", seen.missing, numbers=seen.numbers, calendar=calendar, decimals=0)


def proposed_dates(frame: nw.DataFrame[Any], declared: Schema) -> list[Column]:
    """Propose dates of what reads as such and is not declared: their precision and, coarsely, their period."""
    proposals = []
    for name in frame.columns:
        if declared.declares(name) or not reads_as_date(frame[name]):
            continue
        dates = read_dates(frame[name])
        entries: dict[str, Any] = {"kind": DATE_KIND}  # whose look says what is wrong, if anything is
        if not dates.problem:
            entries |= Calendar(proposed_precision(dates.stamps), ORIGIN, dates.form).entries()
            if period := proposed_period(dates.stamps):
                entries |= {"low": period[0], "high": period[1], "scale": "logit"}
        proposals.append(column_from(name, entries))
    return proposals


def _measurement(column: nw.Series[Any], declared: Column, trusted: bool) -> Look:
    """Look at one column of numbers as a measurement."""
    if column.dtype in (nw.Int128, nw.UInt128):  # NumPy has none; other kinds NumPy rounds alike for all libraries
        column = column.cast(nw.Float64)
    return _as_number(column.to_numpy().astype(np.float64, copy=False), column.name, declared, trusted)


def _as_number(numbers: Float[np.ndarray, " n"], name: str, declared: Column, trusted: bool) -> Look:
    """Look at the numbers of a column."""
    if declared.missing:
        numbers = np.where(np.isin(numbers, declared.missing), np.nan, numbers)
    gaps = np.isnan(numbers)
    there = numbers[~gaps] if gaps.any() else numbers
    look = Look(name, "measurement", int(gaps.sum()), numbers=numbers)
    if len(there) == 0:
        return look.empty()
    row = int(np.argmax(np.abs(np.nan_to_num(numbers, nan=0.0, posinf=np.inf, neginf=-np.inf)))) + 1
    look = look.with_ends(
        float(there.min()), float(there.max()), f" in row {row}", "the same date" * bool(declared.calendar)
    )
    if not look.usable:
        return look
    if there.max() - there.min() < SMALLEST_SPREAD:
        problem = f"varies by less than {SMALLEST_SPREAD:g}, whose square loses digits"
        return look.against(problem, "write it in a smaller unit")
    if not trusted and (reason := _why_identifying(name, there)):
        return look.as_identifier(reason)
    if not trusted and (code := suspicious_code(there)):
        return look.with_code(code)
    if outside := int((~declared.allows(there)).sum()):
        return look.with_outside(outside, declared)
    return _with_proposals(look, there)


def _why_identifying(name: str, there: Float[np.ndarray, " n"]) -> str:
    """Say why a column of numbers looks like what names people, if it does."""
    if looks_like_identifier(name):
        return "is named like one"
    if not np.all(there == np.round(there)) or len(np.unique(there)) < len(there):
        return ""
    if len(there) >= 10 and bool(np.all(np.diff(there) > 0)):
        return "counts upward through the rows"
    long = bool(np.all(np.abs(there) >= LONG))
    return why_all_different(len(there), float(there.min()), float(there.max()), long=long)


def _with_proposals(look: Look, there: Float[np.ndarray, " n"]) -> Look:
    """Say what kind of measurement it is, and what a table file could declare of it."""
    whole = bool(np.all(there == np.round(there)))
    few = whole and 5 * (different := len(np.unique(there))) <= len(there) and different <= FEW_OF_A_SCORE
    decimals = 0 if whole else decimals_of(there)
    positive, spread = bool(np.all(there >= 0)), float(np.std(there))
    kind, scale = "whole numbers" if whole else "measurement", "as it is"
    doubts: tuple[str, ...] = ()
    if few:
        kind = "few values"
        doubts = (FEW_VALUES,)
    if positive and (not few or _skewness(there) > 1):  # few values that are skewed are counts, else scores
        scale = proposed_scale(there)
        kind = kind if scale == "as it is" or few else "positive, skewed"
    # a grid that would itself change the spread is not proposed, but for whole numbers, which come out as such
    if scale == "as it is" and decimals and spread <= 2 * 10.0**-decimals:
        decimals = None
    heaps = None
    if decimals is not None:
        proposed = proposed_heaps(there, decimals)
        # of few values a habit cannot be told from chance, but that all of them are multiples can: scores by tens
        if kind != "few values" or (proposed[1] is not None and len(proposed[1].grids) == 1):
            decimals, heaps = proposed
    ends = known_ends(look.name, there) if whole else None
    if ends is None and few and scale == "as it is":
        ends = proposed_ends(there)
    look = replace(look, kind=kind, doubts=doubts, scale=scale, positive=positive)
    return replace(look, decimals=decimals, heaps=heaps, ends=ends)


def _not_numeric(column: nw.Series[Any]) -> Look:
    """Say what a column that holds no numbers is; its gaps are no fault beside that."""
    look = Look(column.name, "text", int(column.null_count()))
    if look.missing == len(column):
        return look.empty()
    if column.dtype == nw.Boolean:
        return look.against("is not numeric: it says true or false", kind="few values")
    if column.dtype.is_temporal():
        return look.holds_dates()
    few = not column.dtype.is_nested() and column.n_unique() <= max(FEW, len(column) // 50)
    return replace(look, kind="category" if few else "text").with_text(*_first_text(column))


def mostly_numbers(levels: Sequence[str]) -> bool:
    """Say whether more than half of the texts are numbers, but not all."""
    numbers = sum(map(is_number, levels))
    return 2 * numbers > len(levels) > numbers


def is_number(text: str) -> bool:
    """Say whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _first_text(column: nw.Series[Any]) -> tuple[str, str]:
    """Return the place and the value of the first entry that is no number (or the first, if all are)."""
    first, block = None, 1000
    for start in range(0, len(column), block):  # not at once: text that rows share would be copied for each
        try:
            values = column[start : start + block].to_list()
        except (ValueError, OverflowError):  # text that is not UTF-8, dates beyond Python's
            unreadable = f"{column.dtype} that cannot be shown (dates out of range, or text that is not UTF-8)"
            return f"row {start + 1}", unreadable
        for row, value in enumerate(values, start=start + 1):
            if value is None:
                continue
            if not is_number(str(value)):
                return f"row {row}", f"{str(value)!r:.60}"
            first = first or (f"row {row}", f"{str(value)!r:.60}")
    return first or ("row 1", "nothing")


# Table files as text: one drafted after a look, of proposals to confirm, and one of what is declared.


_REMARKS = {
    "scale": "proposed: positive and skewed; confirm from public knowledge",
    "low": "proposed: no such value can be negative; confirm from public knowledge",
    "above": "proposed: so it is in every row of this table; strike this line if that is chance",
    "cut": 'proposed: its levels are these groups; strike it (kind = "category" instead) if that is chance',
    "derived": "proposed: it follows from the others within rounding; strike this line if that is chance",
    "once": "proposed: it changes in nobody; strike this line if it can change",
    "visits": "proposed: it has no value at the others",
    "event": "proposed by the names: the report then shows Kaplan-Meier curves; strike this line if it is none",
    "after": "proposed: at other visits it is never before this one; how far after is what is modelled",
    "course": "proposed: people are few for a column at each visit; the first and the last visit are modelled",
    "deviation": "of this table, coarsely: replace it by what is known of how far values lie from a line",
    "replaces": "proposed: some rows of this table say otherwise; there the formula counts (no release tells it)",
}
_PERIOD = "proposed coarsely: replace it by the first day that there can be, from public knowledge, or strike it"
_DIVIDED_BY = (
    "proposed: a formula divides by it, and on this scale none comes near 0; confirm from public knowledge"
)
_DATED = {
    "origin": "dates count from here; any public one will do",
    "low": _PERIOD,
    "high": _PERIOD.replace("first", "last"),
    "scale": "keeps dates between low and high; strike it together with them",
}
_OF_VISITS = {
    "person": "  # names people: each is one record, and has a new number in every release",
    "visit": "",
    "visits": "  # those of this table, public with any release: declare the visits that were planned",
}
_SHARES = "shares of this table, coarsely: replace them by what is known of such recordings beforehand"
_LEVELS = "those of this table, public with any release: merge rare ones, declare all that there can be"
_FEW = 'few values: kind = "category" if they are codes of one; as they are, they are scores or counts'
_OF_A_SCORE = {
    "low": "proposed: as low as such scores go; confirm from public knowledge",
    "high": "proposed coarsely: replace it by the highest that there can be, from public knowledge",
}
MANY_GAPS = 0.3  # of a column's values: leaving out the rows would cost too much

_TOP = """\
# A table file: what may be public about each column. Everyone may see it, so it may hold no value, minimum or
# maximum of the confidential table, only what is known from public sources: how a column is measured and recorded,
# label, unit, limits, levels, and for all columns or none a centre and a spread.
#   scale     "as it is", "log", "log(x + 1)", "sqrt", "logit" (needs low and high), "quantiles" (published ones)
#   low, high limits that no released value passes        decimals  to which released values are rounded
#             decimals = { 0 = 0.9, 2 = 0.1 } rounds nine of ten to whole numbers; step = 5 to multiples of five
#   missing   numbers that stand for no value, [-999]      levels    of a category, in order, ["f", "m"]
#   kind      "measurement", "date", "category", or "left out", with its why
#             of a date: precision = "year", "month", "day", "minute" or "second", form = "DD.MM.YYYY", tolerance =
#             "30 days", low and high as dates, above = "another date", since = "another" that it may precede
#   derived   = "weight / (height / 100) ** 2": computed from other columns in every row, and no part of the model;
#             "nodes > 4" makes a category, cut = { of = "age", at = [40, 60] } groups
#   event     = "status" of a time: to which event it is; { of = "status", is = "dead", by = "arm" } says it all
#   above, below  = "another column", between = ["low", "high"]: an order that every row keeps; sum = ["a", "b"]
#   person = "id", visit = "month", visits = [0, 6, 12] above all columns: people have a row for each visit; then
#   once      = true: does not change within a person     visits    = [0, 12]: measured at these visits alone
#   after     = 0: at other visits it is above what it is at this one, which the scale and limits are of: dates
#   course    = "line", or [0, 6, 12], with deviation = 2.5: only these visits are modelled; between them values
#             lie on straight lines, on the scale, and as far beside them as the deviation says
#   tolerance how near to a person's value a guess counts as knowing it, in the column's unit
#   secret    = false: public of people anyway, so that it is never judged whether a release discloses it
#   known     = true: people outside can know it of somebody. If any column says so, they know just these; if none
#             does, all values but the one that is judged
"""
_PROPOSED = """\
# This is a draft with proposals. Confirm each from public knowledge, never from this table's numbers.
"""


def draft(
    looks: Sequence[Look],
    rows: int,
    others: dict[str, str],
    declared: Schema | None = None,
    labels: Mapping[str, str] | None = None,
    formulas: Mapping[str, Proposal] | None = None,
    orders: Mapping[str, str] | None = None,
    event: tuple[str, EventOf] | None = None,
) -> str:
    """Return the text of a table file for columns that were looked at; `others`: why further ones are left out.

    What is `declared` already stays; codes of missing values only where there are some. `labels`: what columns are
    called in words, where their file says so. `formulas`: what columns seem to be computed by. `orders`: above
    which others they seem to lie in every row. `event`: which is the time to which event.
    """
    visits = declared.visits if declared else None
    parts = [_TOP, _PROPOSED, *([_visits(visits)] if visits else [])]
    for look in looks:
        if visits and look.name in (visits.person, visits.visit):
            continue
        known = (declared or Schema()).column(look.name).entries()
        known |= visits.of_column(look.name) if visits else {}
        label = (labels or {}).get(look.name, look.name)
        if not look.missing:
            known.pop("missing", None)
        if known.get("kind") == LEFT_OUT or "derived" in known or "cut" in known:
            parts.append(_column(look.name, known))
        elif why := left_out_because(look, rows) or others.get(look.name, ""):
            parts.append(_column(look.name, {"kind": LEFT_OUT, "why": why}))
        elif formula := (formulas or {}).get(look.name):
            rounding = {
                key: each
                for key, each in _proposals(look if formula.on_grids else replace(look, heaps=None)).items()
                if key in ("decimals", "step", "step_of")
            }
            usual = {"label": label, **formula.entries, **rounding}
            usual |= {} if formula.always else {"replaces": True}
            parts.append(_column(look.name, usual, _remarks(usual)))
        elif look.calendar is not None:
            usual = {"kind": DATE_KIND, "label": label} | known
            if above := (orders or {}).get(look.name):
                usual = {key: each for key, each in usual.items() if key not in ("scale", "low", "high")} | {
                    "above": above
                }
            parts.append(_column(look.name, usual, _REMARKS | _DATED))
        elif look.is_category:
            usual = {"kind": CATEGORY, "label": label, "levels": list(look.levels)}
            parts.append(_column(look.name, usual | known, {} if look.fixed else {"levels": _LEVELS}))
        else:
            usual = {"kind": MEASUREMENT, "label": label, "unit": ""} | _proposals(look)
            if above := (orders or {}).get(look.name):  # the scale, and any limit, is then that of the gap
                usual = {key: each for key, each in usual.items() if key not in ("scale", "low", "high")} | {
                    "above": above
                }
            usual |= {"event": event[1].entries()} if event and event[0] == look.name else {}
            remarks = _remarks(usual | known) | ({"kind": _FEW} if look.kind == "few values" else {})
            remarks |= _OF_A_SCORE if look.ends is not None else {}
            remarks |= {"scale": _DIVIDED_BY} if look.kind in ("measurement", "whole numbers") else {}
            parts.append(_column(look.name, usual | known, remarks))
    return "".join(parts)


def _visits(visits: Visits) -> str:
    """Write which rows are one person."""
    lines = [f"{key} = {as_toml(value)}{_OF_VISITS[key]}" for key, value in visits.entries().items()]
    return "\n" + "\n".join(lines) + "\n"


def _remarks(entries: Mapping[str, Any]) -> dict[str, str]:
    """Return what is to be confirmed of drafted entries; shares of grids among them."""
    return _REMARKS | {key: _SHARES for key in ("decimals", "step") if isinstance(entries.get(key), Mapping)}


def table_file(schema: Schema, found: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the text of a table file that declares this schema; `found`: levels of which none are declared."""
    parts = [_TOP, *([_visits(schema.visits)] if schema.visits else [])]
    for name, entries in schema.entries()["columns"].items():
        levels = (found or {}).get(name)
        known = {"levels": list(levels)} if levels else {}
        parts.append(_column(name, entries | known, {"levels": _LEVELS} if levels else None))
    return "".join(parts)


def _column(name: str, entries: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """Write the entries of one column."""
    lines = [f"\n[columns.{json.dumps(name, ensure_ascii=False)}]"]
    for key, value in entries.items():
        remark = f"  # {remarks[key]}" if remarks and key in remarks else ""
        lines.append(f"{key} = {as_toml(value)}{remark}")
    return "\n".join(lines) + "\n"


def as_toml(value: Any) -> str:
    """Write a value as a table file has it; texts, numbers and lists of JSON are those of TOML, too."""
    if isinstance(value, Mapping):
        keys = {key: key if re.fullmatch(r"[\w-]+", key, re.ASCII) else as_toml(key) for key in value}
        return "{ " + ", ".join(f"{keys[key]} = {as_toml(each)}" for key, each in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False)


def left_out_because(look: Look, rows: int) -> str:
    """Say in a word why a column is left out, if it is; without a number or a value of it."""
    if look.problem:
        return "outside what is declared" if look.kind in ("measurement", "whole numbers") else look.kind
    return "many gaps" if look.missing > MANY_GAPS * rows else ""


def _proposals(look: Look) -> dict[str, Any]:
    found: dict[str, Any] = {} if look.scale == "as it is" else {"scale": look.scale}
    if look.ends is not None:
        found |= {key: int(end) for key, end in zip(("low", "high"), look.ends, strict=True)}
    elif look.positive and look.scale not in ("log", "sqrt"):
        found["low"] = 0
    if look.decimals is None:
        return found
    return found | (look.heaps.entries(look.decimals) if look.heaps else {"decimals": look.decimals})
