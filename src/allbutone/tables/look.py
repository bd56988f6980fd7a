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
from allbutone.tables.column import CATEGORY, LEFT_OUT, MEASUREMENT, Column, Scale, check_levels
from allbutone.tables.names import looks_like_identifier
from allbutone.tables.schema import Schema

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


def different_values(values: Float[np.ndarray, " n"]) -> int:
    """Return how many different values there are."""
    return len(np.unique(values))


def why_identifying(name: str, numbers: Float[np.ndarray, " n"]) -> str:
    """Say why a column looks like what names people, if it does."""
    if looks_like_identifier(name):
        return "is named like one"
    if not np.all(numbers == np.round(numbers)) or different_values(numbers) < len(numbers):
        return ""
    count, reach = len(numbers), float(np.ptp(numbers)) + 1
    if count >= 10 and bool(np.all(np.diff(numbers) > 0)):
        return "counts upward through the rows"
    if bool(np.all(np.abs(numbers) >= 1e5)):
        return "holds long whole numbers, all different"
    # so many whole numbers within this reach, drawn by chance, would hardly be all different: e^−10
    if count * (count - 1) / (2 * reach) > 10:
        return "holds whole numbers that are all different and lie close together"
    return ""


def suspicious_code(there: Float[np.ndarray, " n"]) -> float | None:
    """Return a value that looks like a code for a missing one: a usual code, far outside the others."""
    for code in (float(there.min()), float(there.max())):
        if code not in CODES:
            continue
        rest = there[there != code]
        if len(rest) and (code < 0 <= rest.min() or abs(code - np.median(rest)) > 3 * np.ptp(rest) > 0):
            return code
    return None


# One look at a table: what each column is, whether it can be modelled, and what will be done with it.


# Squares, products of two squares and sums of them over any table must stay finite in float64.
LARGEST_VALUE = 1e70
SMALLEST_SPREAD = 1e-150
FEW = 10  # different values: as many as a code or a score has
FEW_VALUES = (
    "few different whole numbers. As measurements they come out with values in between; declare what are codes "
    'of categories so (kind = "category"), and declare 0 decimals for what are scores.'
)
DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ]\d{1,2}:\d{2}.*)?")
LEVELS_ALIKE = (
    "some levels differ in capitals or spaces alone. If they mean the same, write them alike in the table."
)
MOST_LEVELS = 20  # of a text that is taken as a category although nothing is declared
_OF_LEVELS = (nw.String, nw.Boolean, nw.Categorical, nw.Enum, nw.Object)
DAYS = "if it matters, put the days since an origin in its place, such as those since entry into the study"
AS_CATEGORY = 'if it is a category, declare it one in a table file (kind = "category")'
_MEASURED = Cure("if it is a measurement, name it among the columns to keep", "columns")


@dataclass(frozen=True, eq=False)
class Look:
    """What one column is.

    kind: in a few words. missing: how many values it lacks. problem: why it cannot be modelled, in words that
    follow the column's name; empty if it can; `quietly`: the same without a person's value, where it has one, for
    what is written down. doubts: what a holder should know although it can. scale, positive,
    decimals: what a table file could declare. named: whether only its identifying look stands against it.
    levels, codes: of a category. fixed: whether its levels are declared, here or by the table's own type.
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
    named: bool = False
    numbers: Float[np.ndarray, " n"] = field(default_factory=lambda: np.zeros(0), repr=False)
    levels: tuple[str, ...] = ()
    codes: Int[np.ndarray, " m"] = field(default_factory=lambda: np.zeros(0, dtype=np.int64), repr=False)
    fixed: bool = False

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
        return Look(column.name, "category", int(column.null_count()), "is declared a category, and only "
                    "measurements are taken here")  # fmt: skip
    if categories and (declared.kind == CATEGORY or not column.dtype.is_numeric()):
        return _category(column, declared, trusted)
    look = _look_at_numbers(column, declared, trusted)
    if not (categories and two_valued and look.usable and different_values(look.numbers[~look.gaps]) == 2):
        return look
    return _category(column, declared, trusted) if len(look.numbers) - look.missing > 2 else look


def _category(column: nw.Series[Any], declared: Column, trusted: bool) -> Look:
    """Look at a column as a category, or say why it can be none."""
    missing = int(column.null_count())
    if missing == len(column):
        return Look(column.name, "empty", missing, "has no value at all")
    if column.dtype.is_temporal():
        if not declared.levels:
            return Look(column.name, "date", missing, "holds dates or times", cures=(DAYS,))
        column = column.cast(nw.String)  # levels such as 2020-01-01, which a file gives back as dates
    if not column.dtype.is_numeric() and column.dtype not in _OF_LEVELS:
        return _not_numeric(column)
    try:
        codes, found = encode(column, declared.missing)
    except UnicodeDecodeError:
        return _not_numeric(column)
    by_type = column.dtype in (nw.Categorical, nw.Enum)
    levels = declared.levels or found
    missing = int((codes < 0).sum())
    look = Look(column.name, "category", missing, levels=levels, fixed=bool(declared.levels) or by_type)
    if missing == len(codes):
        return replace(look, kind="empty", problem="has no value at all")
    if declared.kind != CATEGORY and (refused := _no_category(column, codes, found, trusted)):
        return refused
    try:
        check_levels(levels)
    except InputError as error:
        return replace(look, problem=f"has a level that cannot be used: {error.problem}", cures=error.cures)
    if declared.levels:
        codes, beyond = match_levels(codes, found, declared.levels, column.dtype)
        if beyond:
            problem = f"has a value that is none of its declared levels in {counted(beyond, 'row')}"
            return replace(look, problem=problem, cures=("correct the values or declare all levels",))
    elif len(found) == 1:
        return replace(look, kind="constant", problem="has one level only: there is nothing to synthesize")
    alike = len({level.strip().casefold() for level in levels}) < len(levels)
    return replace(look, codes=codes, doubts=(LEVELS_ALIKE,) if alike else ())


def _no_category(
    column: nw.Series[Any], codes: Int[np.ndarray, " n"], levels: tuple[str, ...], trusted: bool
) -> Look | None:
    """Say why a column of which nothing is declared is not taken as a category, if it is not."""
    there = codes[codes >= 0]
    different = len(np.unique(there))
    few = different <= FEW and different * 5 <= len(there)
    if column.dtype == nw.String and not few and mostly_numbers(levels):
        row, value = _first_text(column)
        most = "and most of its values are numbers"
        return Look(
            column.name, "numbers and text", len(codes) - len(there),
            f"is not numeric: row {row} holds {value}, {most}", f"is not numeric: row {row} holds text, {most}",
            ("correct it", AS_CATEGORY),
        )  # fmt: skip
    reason = "is different in every row" if 2 < different == len(there) else ""
    reason = "is named like one" if looks_like_identifier(column.name) else reason
    if reason and not trusted:
        return Look(column.name, "identifier", len(codes) - len(there), f"looks like an identifier (it {reason})",
                    cures=(AS_CATEGORY,), named=True)  # fmt: skip
    plain = _not_numeric(column) if not column.dtype.is_numeric() else None
    if plain is not None and plain.kind == "date":
        return replace(plain, cures=(DAYS, AS_CATEGORY))
    if len(levels) <= MOST_LEVELS:
        return None
    row, value = _first_text(column)
    many = f"and {different:,} different texts are many for a category"
    return Look(
        column.name, "text", len(codes) - len(there), f"is not numeric: row {row} holds {value}, {many}",
        f"is not numeric: row {row} holds text, {many}", ("merge its levels", AS_CATEGORY),
    )  # fmt: skip


def _look_at_numbers(column: nw.Series[Any], declared: Column, trusted: bool) -> Look:
    """Look at one column as a measurement."""
    name = column.name
    if not column.dtype.is_numeric():
        return _not_numeric(column)
    if column.dtype in (nw.Int128, nw.UInt128):  # NumPy has none; other kinds NumPy rounds alike for all libraries
        column = column.cast(nw.Float64)
    numbers = column.to_numpy().astype(np.float64, copy=False)
    if declared.missing:
        numbers = np.where(np.isin(numbers, declared.missing), np.nan, numbers)
    gaps = np.isnan(numbers)
    there = numbers[~gaps] if gaps.any() else numbers
    found = Look(name, "measurement", int(gaps.sum()), numbers=numbers)
    if len(there) == 0:
        return replace(found, kind="empty", problem="has no value at all")
    if not (there.max() <= LARGEST_VALUE and there.min() >= -LARGEST_VALUE):
        row = int(np.argmax(np.abs(np.nan_to_num(numbers, nan=0.0, posinf=np.inf, neginf=-np.inf)))) + 1
        problem = f"holds {numbers[row - 1]} in row {row}, beyond ±{LARGEST_VALUE:g}"
        return replace(found, problem=problem, cures=("correct it",))
    if np.all(there == there[0]):
        return replace(
            found, kind="constant",
            problem=f"is constant ({there[0]:g} in every row): there is nothing to synthesize",
        )  # fmt: skip
    if there.max() - there.min() < SMALLEST_SPREAD:
        problem = f"varies by less than {SMALLEST_SPREAD:g}, whose square loses digits"
        return replace(found, problem=problem, cures=("write it in a smaller unit",))
    if not trusted and (reason := why_identifying(name, there)):
        problem = f"looks like an identifier (it {reason})"
        return replace(found, kind="identifier", problem=problem, cures=(_MEASURED,), named=True)
    if code := suspicious_code(there):
        problem = f"holds {code:g}, far from its other values, which looks like a code for a missing value"
        cure = Cure(
            "if such a number stands for a missing value, say so, here or in a table file (missing)",
            "missing_codes",
            [code],
        )
        if not trusted:
            return replace(found, kind="suspicious code", problem=problem, cures=(cure, _MEASURED))
    return _measurement(found, there, declared)


def _measurement(found: Look, there: Float[np.ndarray, " n"], declared: Column) -> Look:
    """Say what kind of measurement it is, and check it against what is declared."""
    outside = ~declared.allows(there)
    if outside.any():
        what = "its declared limits or scale" if not declared.scale.is_plain else "its declared limits"
        return replace(
            found, problem=f"has {counted(int(outside.sum()), 'value')} outside {what}",
            cures=("correct the values, the limits or the scale",),
        )  # fmt: skip
    whole = bool(np.all(there == np.round(there)))
    different = different_values(there) if whole else FEW + 1
    decimals = 0 if whole else decimals_of(there)
    positive, spread = bool(np.all(there >= 0)), float(np.std(there))
    kind, scale = "whole numbers" if whole else "measurement", "as it is"
    doubts: tuple[str, ...] = ()
    if different <= FEW and different * 5 <= len(there):
        kind = "few values"
        doubts = (FEW_VALUES,)
    elif positive:
        scale = proposed_scale(there)
        kind = kind if scale == "as it is" else "positive, skewed"
    # a grid that would itself change the spread is not proposed, but for whole numbers, which come out as such
    if scale == "as it is" and decimals and spread <= 2 * 10.0**-decimals:
        decimals = None
    return replace(found, kind=kind, doubts=doubts, scale=scale, positive=positive, decimals=decimals)


def _not_numeric(column: nw.Series[Any]) -> Look:
    """Say what a column that holds no numbers is; its gaps are no fault beside that."""
    name, missing = column.name, int(column.null_count())
    if missing == len(column):
        return Look(name, "empty", missing, "has no value at all")
    if column.dtype == nw.Boolean:
        return Look(name, "few values", missing, "is not numeric: it says true or false")
    row, value = _first_text(column)
    kind = "text"
    shown = value.strip("'\"")
    if column.dtype.is_temporal() or DATE.fullmatch(shown):
        return Look(name, "date", missing, "holds dates or times", cures=(DAYS,))
    if shown.isdigit() and shown.startswith("0"):
        return Look(name, "code", missing, f"is a code: row {row} begins with a zero, which no number does")
    if not column.dtype.is_nested() and column.n_unique() <= max(FEW, len(column) // 50):
        kind = "category"
    problem = f"is not numeric: row {row} holds {value}"
    return Look(name, kind, missing, problem, f"is not numeric: row {row} holds text")


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


def _first_text(column: nw.Series[Any], block: int = 1000) -> tuple[int, str]:
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
                continue
            if not is_number(str(value)):
                return row, f"{str(value)!r:.60}"
            first = first or (row, f"{str(value)!r:.60}")
    return first or (1, "nothing")


# Table files as text: one drafted after a look, of proposals to confirm, and one of what is declared.


_REMARKS = {
    "scale": "proposed: positive and skewed; confirm from public knowledge",
    "low": "proposed: no such value can be negative; confirm from public knowledge",
}
_LEVELS = "those of this table, public with any release: merge rare ones, declare all that there can be"
_FEW = 'few values: kind = "category" if they are codes of one; decimals = 0 if they are scores'
MANY_GAPS = 0.3  # of a column's values: leaving out the rows would cost too much

_TOP = """\
# A table file: what may be public about each column. Everyone may see it, so it may hold no value, minimum or
# maximum of the confidential table, only what is known from public sources: how a column is measured and recorded,
# label, unit, limits, levels, and for all columns or none a centre and a spread.
#   scale     "as it is", "log", "log(x + 1)", "sqrt", "logit" (needs low and high), "quantiles" (published ones)
#   low, high limits that no released value passes        decimals  to which released values are rounded
#   missing   numbers that stand for no value, [-999]      levels    of a category, in order, ["f", "m"]
#   kind      "measurement", "category", or "left out", with its why
#   tolerance how near to a person's value a guess counts as knowing it, in the column's unit
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
) -> str:
    """Return the text of a table file for columns that were looked at; `others`: why further ones are left out.

    What is `declared` already stays; codes of missing values only where there are some. `labels`: what columns are
    called in words, where their file says so.
    """
    parts = [_TOP, _PROPOSED]
    for look in looks:
        known = (declared or Schema()).column(look.name).entries()
        label = (labels or {}).get(look.name, look.name)
        if not look.missing:
            known.pop("missing", None)
        if known.get("kind") == LEFT_OUT:
            parts.append(_column(look.name, known))
        elif why := left_out_because(look, rows) or others.get(look.name, ""):
            parts.append(_column(look.name, {"kind": LEFT_OUT, "why": why}))
        elif look.is_category:
            usual = {"kind": CATEGORY, "label": label, "levels": list(look.levels)}
            parts.append(_column(look.name, usual | known, {} if look.fixed else {"levels": _LEVELS}))
        else:
            usual = {"kind": MEASUREMENT, "label": label, "unit": ""}
            remarks = _REMARKS | ({"kind": _FEW} if look.kind == "few values" else {})
            parts.append(_column(look.name, usual | _proposals(look) | known, remarks))
    return "".join(parts)


def table_file(schema: Schema, found: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the text of a table file that declares this schema; `found`: levels of which none are declared."""
    parts = [_TOP]
    for name, entries in schema.entries()["columns"].items():
        levels = (found or {}).get(name)
        known = {"levels": list(levels)} if levels else {}
        parts.append(_column(name, entries | known, {"levels": _LEVELS} if levels else None))
    return "".join(parts)


def _column(name: str, entries: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """Write the entries of one column; texts, numbers and lists of JSON are those of TOML, too."""
    lines = [f"\n[columns.{json.dumps(name, ensure_ascii=False)}]"]
    for key, value in entries.items():
        remark = f"  # {remarks[key]}" if remarks and key in remarks else ""
        lines.append(f"{key} = {json.dumps(value, ensure_ascii=False)}{remark}")
    return "\n".join(lines) + "\n"


def left_out_because(look: Look, rows: int) -> str:
    """Say in a word why a column is left out, if it is; without a number or a value of it."""
    if look.problem:
        return "outside what is declared" if look.kind in ("measurement", "whole numbers") else look.kind
    return "many gaps" if look.missing > MANY_GAPS * rows else ""


def _proposals(look: Look) -> dict[str, Any]:
    found: dict[str, Any] = {} if look.scale == "as it is" else {"scale": look.scale}
    if look.positive and look.scale not in ("log", "sqrt"):
        found["low"] = 0
    return found if look.decimals is None else {**found, "decimals": look.decimals}
