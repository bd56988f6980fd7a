"""The gate of a table in an engine: what each column is, what stands against it, and the levels of categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Int

from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.admission import (
    Problem,
    categories_of,
    determined,
    gaps_of,
    indicators,
    is_person,
    one_level,
    problems_of,
    rows_of,
    several_rows,
    told_by_counts,
)
from allbutone.tables.categories import MOST_CELLS, Categories, encode
from allbutone.tables.column import CATEGORY, Column
from allbutone.tables.engines.queries import Measured, ask, with_ends
from allbutone.tables.look import (
    AS_CATEGORY,
    CODES,
    LONG,
    MOST_LEVELS,
    OF_LEVELS,
    Look,
    is_number,
    level_look,
    text_look,
    why_all_different,
)
from allbutone.tables.names import looks_like_identifier
from allbutone.tables.records import Sums
from allbutone.tables.schema import Schema

SEEN = 1000  # different texts of a column that are looked at
_KIND = 'declare its kind in a table file (kind = "category" or "measurement")'


@dataclass(frozen=True)
class Seen:
    """What the first pass found of one measurement; `mean` is on the model's scale, the rest in natural units."""

    values: int
    low: float
    high: float
    mean: float
    outside: int


def first_pass(
    frame: nw.LazyFrame[Any], kinds: Mapping[str, Any], declared: Schema, *, trusted: bool, categories: bool
) -> tuple[int, dict[str, Seen], list[Look]]:
    """Return the number of rows, what was seen of each measurement, and a look at every column.

    In one query; a second one only for what looks like identifiers or codes, further ones for columns of text.
    """
    looks = {name: _by_kind(name, kind, declared, categories, trusted) for name, kind in kinds.items()}
    usable = [name for name, look in looks.items() if look.usable]
    measured = with_ends(
        [Measured(name, declared.column(name)) for name in usable if looks[name].kind == "measurement"]
    )
    rows, seen = _count(frame, measured)
    for each in measured:
        looks[each.name] = _by_ends(looks[each.name], each.declared, seen[each.name], rows)
    for name in usable:
        if kinds[name] == nw.String and declared.column(name).kind != CATEGORY:
            looks[name] = _by_texts(frame, looks[name], trusted=trusted, categories=categories)
    if not trusted:
        looks |= _looked_at_again(frame, [each for each in measured if looks[each.name].usable], seen, looks)
    return rows, seen, list(looks.values())


def _by_kind(name: str, kind: Any, declared: Schema, categories: bool, trusted: bool) -> Look:
    """Look at a column by its name and type alone."""
    is_category = declared.column(name).kind == CATEGORY or not kind.is_numeric()
    look = Look(name, "category" if is_category else "measurement")
    if not trusted and not declared.declares(name) and looks_like_identifier(name):
        return look.as_identifier("is named like one", *([] if kind.is_numeric() else [AS_CATEGORY]))
    if not is_category:
        return look
    if kind.is_temporal():
        return look.holds_dates()
    if not kind.is_numeric() and (kind not in OF_LEVELS or kind == nw.Object):
        return look.against(f"is of a kind that cannot be used ({kind})")
    if not categories and declared.column(name).kind == CATEGORY:
        return look.against("is declared a category, and only measurements are taken here")
    if not categories and kind == nw.Boolean:
        return look.against("is not numeric: it says true or false")
    if not categories and kind != nw.String:
        return look.against(f"is not numeric ({kind}), and only measurements are taken here")
    return look


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


def _by_ends(look: Look, declared: Column, seen: Seen, rows: int) -> Look:
    """Look at a measurement by what the first pass saw of it."""
    look = replace(look, missing=rows - seen.values)
    if seen.values == 0:
        return look.empty()
    look = look.with_ends(seen.low, seen.high)
    return look.with_outside(seen.outside, declared) if look.usable and seen.outside else look


def _by_texts(frame: nw.LazyFrame[Any], look: Look, *, trusted: bool, categories: bool) -> Look:
    """Look at a column of text of which nothing is declared.

    A few different texts of it come back, no rows; so it is said which text is wrong, but not where.
    """
    there = frame.select(nw.col(look.name).alias("x")).filter(~nw.col("x").is_null())
    values, different = _rows_of(there), there.unique()
    some = sorted(text for text in ask(different.head(SEEN))["x"].to_pylist() if text.strip())
    shown = f"{next((text for text in some if not is_number(text)), some[0] if some else '')!r:.60}"
    if not categories:
        return look.with_text("it", shown) if some else look.empty()
    count = len(some) if len(some) < SEEN else _rows_of(different)
    return text_look(look, some, count, values, ("it", shown), trusted=trusted)


def _rows_of(frame: nw.LazyFrame[Any]) -> int:
    return int(ask(frame.select(nw.len().alias("n")))["n"][0].as_py())


def _looked_at_again(
    frame: nw.LazyFrame[Any], measured: Sequence[Measured], seen: Mapping[str, Seen], looks: Mapping[str, Look]
) -> dict[str, Look]:
    """Ask once more about columns whose ends make them look like identifiers, or like codes for missing values."""
    wanted: list[nw.Expr] = []
    whole: list[tuple[int, Measured]] = []
    coded: list[tuple[int, str, float]] = []
    for place, each in enumerate(measured):
        ends, value = seen[each.name], each.natural
        if _may_all_differ(ends):
            short = (value > -LONG) & (value < LONG)
            whole.append((place, each))
            wanted.append(nw.when(value != value.round(0)).then(value).count().alias(f"parts{place}"))
            wanted.append(nw.when(short).then(value).count().alias(f"short{place}"))
        for code in {ends.low, ends.high} & set(map(float, CODES)):
            rest, number = nw.when(value != code).then(value), len(coded)
            coded.append((number, each.name, code))
            wanted += [rest.min().alias(f"least{number}"), rest.max().alias(f"most{number}")]
    if not wanted:
        return {}
    answer, again = ask(frame.select(*wanted)).to_pylist()[0], {}
    for number, name, code in coded:
        least, most = float(answer[f"least{number}"]), float(answer[f"most{number}"])
        if code < 0 <= least or abs(code - (least + most) / 2) > 3 * (most - least) > 0:
            again[name] = looks[name].with_code(code)
    for place, each in whole:
        if answer[f"parts{place}"]:
            continue
        ends = seen[each.name]
        reason = why_all_different(ends.values, ends.low, ends.high, long=not answer[f"short{place}"])
        values = frame.select(each.natural.alias("x")).filter(~nw.col("x").is_null())
        if reason and _rows_of(values.unique()) == ends.values:
            again[each.name] = looks[each.name].as_identifier(reason)
    return again


def _may_all_differ(seen: Seen) -> bool:
    """Say whether the ends are whole numbers with room between them for as many as there are."""
    ends = np.array([seen.low, seen.high])
    return bool(np.all(ends == np.round(ends)) and seen.high - seen.low + 1 >= seen.values)


def require_one_row_each_there(frame: nw.LazyFrame[Any], kinds: Mapping[str, Any]) -> None:
    """Refuse a table in which a column that is named as people are, used or not, has some of them twice."""
    for name, kind in kinds.items():
        if not is_person(name) or not (kind == nw.String or kind.is_integer()):
            continue
        values = frame.select(nw.col(name).alias("value")).filter(~nw.col("value").is_null())
        times = values.group_by("value").agg(nw.len().alias("rows"))
        spread = times.group_by("rows").agg(nw.len().alias("values"))  # how many occur once, twice, …
        answer = ask(spread)
        counts = np.repeat(answer["rows"].to_numpy().astype(np.int64), answer["values"].to_numpy())
        if told := told_by_counts(name, counts):
            raise several_rows(told)


def look_at_levels(answer: Any, declared: Sequence[Column], sums: Sums) -> list[Look]:
    """Look at the categories in the columns g0, g1, … of what came back, an entry for each combination."""
    if len(answer) > MOST_CELLS:
        raise InputError(
            f"the {counted(len(declared), 'column')} of categories have more than {MOST_CELLS:,} combinations of "
            "levels",
            "merge levels, or leave columns out",
        )
    frame, looks = nw.from_native(answer, eager_only=True), []
    for place, column in enumerate(declared):
        codes, levels = encode(frame[f"g{place}"], column.missing)
        look = level_look(codes, levels, frame[f"g{place}"].dtype, column, sums.count)
        if look.usable and column.kind != CATEGORY and len(levels) > MOST_LEVELS:
            problem = f"has {len(levels):,} different texts, many for a category"
            look = look.against(problem, "merge its levels", AS_CATEGORY)
        looks.append(replace(look, fixed=bool(column.levels)))
    return looks


def whole_cells(
    levels: Sequence[Look], cells: int, rows: int, *, gaps: bool
) -> tuple[list[Look], Int[np.ndarray, " c"], Categories, list[Problem]]:
    """Return the categories to use, which cells lack none of them, their levels there, and what is wrong.

    gaps: whether rows with gaps are left out; else the columns that have some are refused.
    """
    problems = problems_of(levels) + ([] if gaps else gaps_of(levels, rows))
    refused = {problem.column for problem in problems}
    kept = [look for look in levels if look.name not in refused]
    whole = rows_of(kept, cells)
    categories = categories_of(kept, whole)
    still = one_level(kept, categories)
    refused = {problem.column for problem in still}
    kept = [look for look in kept if look.name not in refused]
    return kept, whole, categories.select([look.name for look in kept]), problems + still


def columns_together(sums: Sums, measured: Sequence[Measured], categories: Categories) -> list[Problem]:
    """Find columns that are constant in the rows without gaps, or that categories or earlier ones determine."""
    names, people = [each.name for each in measured], sums.people
    if people < 2 or not names:
        return []
    spread = np.sqrt(np.maximum(np.diagonal(sums.scatter), 0) / people)
    still = spread <= 1e-15 * (np.abs(sums.total.sum(axis=0) / people) + spread)
    if still.any() or people <= len(names) + 1:
        constant = [name for name, flag in zip(names, still, strict=True) if flag]
        return [Problem(name, "is constant in the rows without gaps") for name in constant]
    known, of_levels = indicators(sums.codes, categories.columns, people - len(names) - 1)
    scatter, p = sums.with_columns(known).scatter, len(names)
    order = [*range(p, len(scatter)), *range(p)]  # categories come first: they determine, and are not determined
    return determined(scatter[np.ix_(order, order)], of_levels, names)


def two_valued(sums: Sums, measured: Sequence[Measured], seen: Mapping[str, Seen]) -> list[Problem]:
    """Find numbers of two values, which may be a category: Σ(x − low)(high − x) = 0 for these alone."""
    ends = np.array([(seen[each.name].low, seen[each.name].high) for each in measured]).reshape(-1, 2)
    scales = [each.declared.scale.to_model(pair) for each, pair in zip(measured, ends, strict=True)]
    low, high = np.reshape(scales, (-1, 2)).T - sums.origin
    squares, total = np.diagonal(sums.products.sum(axis=0)), sums.total.sum(axis=0)
    between = (low + high) * total - squares - sums.people * low * high
    two = between <= 1e-9 * sums.people * (high - low) ** 2
    words = "holds two values only, so that it may be a measurement or a category"
    return [Problem(each.name, words, (_KIND,)) for each, flag in zip(measured, two, strict=True) if flag]
