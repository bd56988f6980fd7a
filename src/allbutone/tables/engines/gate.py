"""The first pass over a table that stays in its engine: what each column is, and whether it can be used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.support.errors import Cure
from allbutone.support.text import counted
from allbutone.tables.admission import Problem
from allbutone.tables.declared.column import CATEGORY
from allbutone.tables.declared.schema import Schema
from allbutone.tables.engines.asking import ask
from allbutone.tables.engines.expressions import Measured
from allbutone.tables.engines.texts import text_problems
from allbutone.tables.look import AS_CATEGORY, DAYS, LARGEST_VALUE
from allbutone.tables.names import looks_like_identifier
from allbutone.tables.traits import CODES

_MEASURED = Cure("if it is a measurement, name it among the columns to keep", "columns")
_OF_LEVELS = (nw.String, nw.Boolean, nw.Categorical, nw.Enum)


@dataclass(frozen=True)
class Seen:
    """What the first pass found of one measurement; `mean` is on the model's scale, the rest in natural units."""

    values: int
    low: float
    high: float
    mean: float
    outside: int


@dataclass(frozen=True)
class FirstPass:
    """Rows of the table, what was seen of each measurement, the categories, and what stands against columns."""

    rows: int
    seen: Mapping[str, Seen]
    categories: tuple[str, ...]
    problems: tuple[Problem, ...]


def first_pass(
    frame: nw.LazyFrame[Any], kinds: Mapping[str, Any], declared: Schema, *, trusted: bool, categories: bool
) -> FirstPass:
    """Look at every column in one query; a second one only for what looks like identifiers or codes."""
    sorted_out = {name: _kind(name, kind, declared, categories, trusted) for name, kind in kinds.items()}
    problems = [found for found in sorted_out.values() if isinstance(found, Problem)]
    measured = [Measured(name, declared.column(name)) for name, found in sorted_out.items() if found is True]
    rows, seen = _count(frame, measured)
    found = [_problem(column, seen[column.name]) for column in measured]
    problems += filter(None, found)
    texts = [name for name, kind in kinds.items() if kind == nw.String and declared.column(name).kind != CATEGORY]
    open_texts = [name for name in texts if not isinstance(sorted_out[name], Problem)]
    problems += text_problems(frame, open_texts, trusted=trusted, categories=categories)
    refused = {problem.column for problem in problems}
    if not trusted:
        problems += _looked_at_again(frame, [each for each in measured if each.name not in refused], seen)
    refused = {problem.column for problem in problems}
    grouped = tuple(name for name, found in sorted_out.items() if found is False and name not in refused)
    return FirstPass(rows, seen, grouped, tuple(problems))


def _kind(name: str, kind: Any, declared: Schema, categories: bool, trusted: bool) -> bool | Problem:
    """Return whether a column is a measurement (True) or a category (False), or what stands against it."""
    said = declared.column(name)
    if not trusted and not declared.declares(name) and looks_like_identifier(name):
        cure = _MEASURED if kind.is_numeric() else AS_CATEGORY
        return Problem(name, "looks like an identifier (it is named like one)", (cure,), is_name=True)
    if said.kind == CATEGORY or not kind.is_numeric():
        if kind.is_temporal():
            return Problem(name, "holds dates or times", (DAYS,))
        if not kind.is_numeric() and kind not in _OF_LEVELS:
            return Problem(name, f"is of a kind that cannot be used ({kind})")
        if not categories and said.kind == CATEGORY:
            return Problem(name, "is declared a category, and only measurements are taken here")
        if not categories and kind == nw.Boolean:
            return Problem(name, "is not numeric: it says true or false")
        if not categories and kind != nw.String:
            return Problem(name, f"is not numeric ({kind}), and only measurements are taken here")
        return False
    return True


def _count(frame: nw.LazyFrame[Any], measured: Sequence[Measured]) -> tuple[int, dict[str, Seen]]:
    """Count rows and values, and find the ends and the mean of every measurement."""
    natural = frame.select(*(each.natural.alias(f"x{place}") for place, each in enumerate(measured)))
    wanted = [nw.len().alias("rows")]
    for place, each in enumerate(measured):
        value = nw.col(f"x{place}")
        wanted += [
            value.count().alias(f"values{place}"),
            value.min().alias(f"low{place}"),
            value.max().alias(f"high{place}"),
            each.on_model_scale(value).sum().alias(f"total{place}"),
        ]
        if each.is_limited:
            # counted, not added up: a sum of nothing is 0 in some engines and null in others
            wanted.append(nw.when(~each.allowed(value)).then(value).count().alias(f"outside{place}"))
    answer = ask(natural.select(*wanted) if measured else frame.select(nw.len().alias("rows"))).to_pylist()[0]

    def number(name: str) -> float:
        return float("nan") if answer[name] is None else float(answer[name])

    seen = {}
    for place, each in enumerate(measured):
        values = int(answer[f"values{place}"])
        middle, outside = number(f"total{place}") / max(values, 1), int(answer.get(f"outside{place}", 0))
        seen[each.name] = Seen(values, number(f"low{place}"), number(f"high{place}"), middle, outside)
    return int(answer["rows"]), seen


def _problem(column: Measured, seen: Seen) -> Problem | None:
    name = column.name
    if seen.values == 0:
        return Problem(name, "has no value at all")
    if not (seen.high <= LARGEST_VALUE and seen.low >= -LARGEST_VALUE):
        worst = max(seen.low, seen.high, key=abs)
        return Problem(name, f"holds {worst}, beyond ±{LARGEST_VALUE:g}", ("correct it",))
    if seen.low == seen.high:
        return Problem(name, f"is constant ({seen.low:g} in every row): there is nothing to synthesize")
    if seen.outside:
        limits = "its declared limits" + ("" if column.declared.scale.is_plain else " or scale")
        cure = "correct the values, the limits or the scale"
        return Problem(name, f"has {counted(seen.outside, 'value')} outside {limits}", (cure,))
    return None


def _looked_at_again(
    frame: nw.LazyFrame[Any], measured: Sequence[Measured], seen: Mapping[str, Seen]
) -> list[Problem]:
    """Ask once more about columns whose ends make them look like identifiers, or like codes for missing values."""
    wanted: list[nw.Expr] = []
    whole: list[tuple[int, Measured]] = []
    coded: list[tuple[int, str, float]] = []
    for place, each in enumerate(measured):
        found, value = seen[each.name], each.natural
        if _may_all_differ(found):
            whole.append((place, each))
            wanted.append(nw.when(value != value.round(0)).then(value).count().alias(f"parts{place}"))
        for code in {found.low, found.high} & set(map(float, CODES)):
            rest, number = nw.when(value != code).then(value), len(coded)
            coded.append((number, each.name, code))
            wanted += [rest.min().alias(f"least{number}"), rest.max().alias(f"most{number}")]
    if not wanted:
        return []
    answer = ask(frame.select(*wanted)).to_pylist()[0]
    problems = []
    for place, each in whole:
        reason = _why_identifying(seen[each.name]) if not answer[f"parts{place}"] else ""
        if reason and _different(frame, each) == seen[each.name].values:
            words = f"looks like an identifier (it {reason})"
            problems.append(Problem(each.name, words, (_MEASURED,), is_name=True))
    for number, name, code in coded:
        least, most = float(answer[f"least{number}"]), float(answer[f"most{number}"])
        if code < 0 <= least or abs(code - (least + most) / 2) > 3 * (most - least) > 0:
            words = f"holds {code:g}, far from its other values, which looks like a code for a missing value"
            said = "if such a number stands for a missing value, say so, here or in a table file (missing)"
            problems.append(Problem(name, words, (Cure(said, "missing_codes", [code]), _MEASURED)))
    return problems


def _different(frame: nw.LazyFrame[Any], column: Measured) -> int:
    """Return how many different values a column has."""
    values = frame.select(column.natural.alias("x")).filter(~nw.col("x").is_null())
    return int(ask(values.unique().select(nw.len().alias("n")))["n"][0].as_py())


def _may_all_differ(found: Seen) -> bool:
    """Say whether the ends are whole numbers with room between them for as many as there are."""
    ends = np.array([found.low, found.high])
    return bool(np.all(ends == np.round(ends)) and found.high - found.low + 1 >= found.values)


def _why_identifying(found: Seen) -> str:
    """Say why whole numbers that are all different look like what names people, if they do."""
    reach = found.high - found.low + 1
    if found.low >= 1e5 or found.high <= -1e5:
        return "holds long whole numbers, all different"
    if found.values * (found.values - 1) / (2 * reach) > 10:
        return "holds whole numbers that are all different and lie close together"
    return ""
