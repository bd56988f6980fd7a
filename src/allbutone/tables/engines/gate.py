"""The gate of a table in an engine: what each column is, what stands against it, and the levels of categories."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.admission import OPEN_LEVELS, Problem, determined_by, is_person, several_rows, told_by_counts
from allbutone.tables.categories import MOST_CELLS, encode, match_levels, require_few_cells
from allbutone.tables.column import CATEGORY, Column, check_levels
from allbutone.tables.engines.queries import Measured, ask
from allbutone.tables.look import (
    AS_CATEGORY,
    CODES,
    DATE,
    DAYS,
    FEW,
    LARGEST_VALUE,
    MOST_LEVELS,
    is_number,
    mostly_numbers,
)
from allbutone.tables.names import looks_like_identifier
from allbutone.tables.records import Sums
from allbutone.tables.schema import Schema

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
        if reason and _different_numbers(frame, each) == seen[each.name].values:
            words = f"looks like an identifier (it {reason})"
            problems.append(Problem(each.name, words, (_MEASURED,), is_name=True))
    for number, name, code in coded:
        least, most = float(answer[f"least{number}"]), float(answer[f"most{number}"])
        if code < 0 <= least or abs(code - (least + most) / 2) > 3 * (most - least) > 0:
            words = f"holds {code:g}, far from its other values, which looks like a code for a missing value"
            said = "if such a number stands for a missing value, say so, here or in a table file (missing)"
            problems.append(Problem(name, words, (Cure(said, "missing_codes", [code]), _MEASURED)))
    return problems


def _different_numbers(frame: nw.LazyFrame[Any], column: Measured) -> int:
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


SEEN = 1000  # different texts of a column that are looked at


def text_problems(
    frame: nw.LazyFrame[Any], names: Sequence[str], *, trusted: bool, categories: bool
) -> list[Problem]:
    """Say what stands against columns of text of which nothing is declared, as `look` does of tables in memory.

    A few different texts of each come back, no rows; so it is said which text is wrong, but not where.
    """
    if not names:
        return []
    counts = ask(frame.select(*(nw.col(name).count().alias(f"n{place}") for place, name in enumerate(names))))
    problems = []
    for place, name in enumerate(names):
        rows, texts, different = int(counts[f"n{place}"][0].as_py()), *_different_texts(frame, name)
        found = _no_category(name, texts, different, rows, trusted) if categories else _not_numeric(name, texts)
        problems += [found] if found else []
    return problems


def _different_texts(frame: nw.LazyFrame[Any], name: str) -> tuple[list[str], int]:
    """Return some of the different texts of a column, in order, and how many there are."""
    values = frame.select(nw.col(name).alias("x")).filter(~nw.col("x").is_null()).unique()
    some = sorted(text for text in ask(values.head(SEEN))["x"].to_pylist() if text.strip())
    if len(some) < SEEN:
        return some, len(some)
    return some, int(ask(values.select(nw.len().alias("n")))["n"][0].as_py())


def _no_category(name: str, texts: Sequence[str], different: int, rows: int, trusted: bool) -> Problem | None:
    """Say why a column is not taken as a category, if it is not."""
    shown, few = _shown(texts), different <= FEW and different * 5 <= rows
    if not few and mostly_numbers(texts):
        return Problem(
            name,
            f"is not numeric: it holds {shown}, and most of its values are numbers",
            ("correct it", AS_CATEGORY),
        )
    if 2 < different == rows and not trusted:
        words = "looks like an identifier (it is different in every row)"
        return Problem(name, words, (AS_CATEGORY,), is_name=True)
    if DATE.fullmatch(shown.strip("'\"")):
        return Problem(name, "holds dates or times", (DAYS, AS_CATEGORY))
    if different <= MOST_LEVELS:
        return None
    words = f"is not numeric: it holds {shown}, and {different:,} different texts are many for a category"
    return Problem(name, words, ("merge its levels", AS_CATEGORY))


def _not_numeric(name: str, texts: Sequence[str]) -> Problem:
    """Say what a column of text holds, where only measurements are taken."""
    if not texts:
        return Problem(name, "has no value at all")
    shown = _shown(texts)
    if DATE.fullmatch(shown.strip("'\"")):
        return Problem(name, "holds dates or times", (DAYS,))
    if shown.strip("'\"").isdigit() and shown.strip("'\"").startswith("0"):
        return Problem(name, "is a code: it begins with a zero, which no number does")
    return Problem(name, f"is not numeric: it holds {shown}")


def _shown(texts: Sequence[str]) -> str:
    """Return the first text that is no number, or the first."""
    return f"{next((text for text in texts if not is_number(text)), texts[0] if texts else '')!r:.60}"


def require_one_row_each_there(frame: nw.LazyFrame[Any], kinds: Mapping[str, Any]) -> None:
    """Refuse a table in which a column that is named as people are, used or not, has some of them twice."""
    for name, kind in kinds.items():
        if not is_person(name) or not (kind == nw.String or kind.is_integer()):
            continue
        values = frame.select(nw.col(name).alias("value")).filter(~nw.col("value").is_null())
        times = values.group_by("value").agg(nw.len().alias("rows"))
        spread = times.group_by("rows").agg(nw.len().alias("values"))  # how many occur once, twice, …
        found = ask(spread)
        counts = np.repeat(found["rows"].to_numpy().astype(np.int64), found["values"].to_numpy())
        if told := told_by_counts(name, counts):
            raise several_rows(told)


@dataclass(frozen=True)
class Levels:
    """The categories that can be used, their levels, how many rows lack a value of each, and what is wrong.

    values: for each category, the number of the level that each value in the engine stands for.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...], ...]
    values: tuple[dict[Any, int], ...]
    missing: dict[str, int]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]

    def without(self, refused: set[str], sums: Sums) -> tuple["Levels", Sums]:
        """Leave columns out, and add up the cells that then are the same."""
        kept = [place for place, name in enumerate(self.names) if name not in refused]
        names, levels = tuple(self.names[place] for place in kept), tuple(self.levels[place] for place in kept)
        values = tuple(self.values[place] for place in kept)
        return replace(self, names=names, levels=levels, values=values), sums.by_cell(sums.codes[:, kept])

    def used_by(self, sums: Sums, fixed: set[str]) -> tuple["Levels", Sums]:
        """Leave out levels that only rows with gaps have, unless they are `fixed`: levels are public."""
        levels, values, codes, lonely = list(self.levels), list(self.values), sums.codes.copy(), set[str]()
        for place, name in enumerate(self.names):
            used = np.unique(codes[:, place])
            if name in fixed or len(used) == len(levels[place]):
                continue
            numbers = {int(code): number for number, code in enumerate(used)}
            levels[place] = tuple(levels[place][code] for code in used)
            values[place] = {value: numbers[code] for value, code in values[place].items() if code in numbers}
            codes[:, place] = np.searchsorted(used, codes[:, place])
            lonely |= {name} if len(used) < 2 else set()
        problems = [Problem(name, "has one level only in the rows without gaps") for name in sorted(lonely)]
        told = replace(self, levels=tuple(levels), values=tuple(values), problems=(*self.problems, *problems))
        return told.without(lonely, replace(sums, codes=codes))


def read_levels(answer: Any, declared: Sequence[Column], sums: Sums) -> tuple[Levels, Sums]:
    """Find the levels in the columns g0, g1, … of what came back, and return the sums of each cell.

    Cells of the same levels are added up: a column may be refused, a number be a code for a missing value.
    """
    if len(answer) > MOST_CELLS:
        raise InputError(
            f"the {counted(len(declared), 'column')} of categories have more than {MOST_CELLS:,} combinations of "
            "levels",
            "merge levels, or leave columns out",
        )
    frame = nw.from_native(answer, eager_only=True)
    names, levels, values, codes, missing, problems, notes = [], [], [], [], {}, [], []
    for place, column in enumerate(declared):
        found = _levels_of(frame[f"g{place}"], column, sums.count)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        numbers, these = found
        names.append(column.name)
        levels.append(these)
        values.append(_numbers_of(answer[f"g{place}"].to_pylist(), numbers))
        codes.append(numbers)
        missing[column.name] = int(sums.count[numbers < 0].sum())
        if not column.levels:
            notes.append(repr(column.name))
    require_few_cells(dict(zip(names, map(len, levels), strict=True)))
    remarks = (f"{', '.join(notes)}: {OPEN_LEVELS}",) if notes else ()
    told = Levels(tuple(names), tuple(levels), tuple(values), missing, tuple(problems), remarks)
    return told, sums.by_cell(np.column_stack([np.zeros((len(answer), 0), dtype=np.int64), *codes]))


def _levels_of(series: nw.Series[Any], column: Column, count: Float[np.ndarray, " cells"]) -> (
    tuple[np.ndarray, tuple[str, ...]] | Problem
):  # fmt: skip
    codes, found = encode(series, column.missing)
    if not found:
        return Problem(column.name, "has no value at all")
    levels = column.levels or found
    if column.kind != CATEGORY and len(found) > MOST_LEVELS:
        cures = ("merge its levels", 'if it is a category, declare it one in a table file (kind = "category")')
        return Problem(column.name, f"has {len(found):,} different texts, many for a category", cures)
    try:
        check_levels(levels)
    except InputError as error:
        return Problem(column.name, f"has a level that cannot be used: {error.problem}", error.cures)
    if column.levels:
        before = codes
        codes, beyond = match_levels(codes, found, column.levels, series.dtype)
        if beyond:
            rows = int(count[(codes < 0) & (before >= 0)].sum())
            words = f"has a value that is none of its declared levels in {counted(rows, 'row')}"
            return Problem(column.name, words, ("correct the values or declare all levels",))
    elif len(found) == 1:
        return Problem(column.name, "has one level only: there is nothing to synthesize")
    return codes, tuple(levels)


def _numbers_of(values: Sequence[Any], codes: np.ndarray) -> dict[Any, int]:
    """Return the level's number of each different value; values that are missing have none."""
    return {value: int(code) for value, code in zip(values, codes, strict=True) if code >= 0}


_KIND = 'declare its kind in a table file (kind = "category" or "measurement")'


def columns_together(sums: Sums, measured: Sequence[Measured], found: Levels) -> list[Problem]:
    """Find columns that are constant in the rows without gaps, or that categories or earlier ones determine."""
    names, people = [each.name for each in measured], sums.people
    if people < 2 or not names:
        return []
    spread = np.sqrt(np.maximum(np.diagonal(sums.scatter), 0) / people)
    size = np.abs(sums.total.sum(axis=0) / people) + spread
    still = spread <= 1e-15 * size
    problems = [
        Problem(name, "is constant in the rows without gaps")
        for name, flag in zip(names, still, strict=True)
        if flag
    ]
    if not still.any() and people > len(names) + 1:
        problems += [Problem(name, words) for name, words in _determined(sums, names, found).items()]
    return problems


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


def _determined(sums: Sums, names: Sequence[str], found: Levels) -> dict[str, str]:
    """Return which measurements are determined by categories or by earlier measurements, and by which."""
    parts, of = [np.zeros((len(sums.count), 0))], []
    for place, name in enumerate(found.names):
        used = np.unique(sums.codes[:, place])
        parts.append((sums.codes[:, place][:, None] == used[1:]).astype(float))
        of += [name] * (len(used) - 1)
    known = np.hstack(parts)
    if sums.people <= known.shape[1] + len(names) + 1:  # too few rows to tell
        known, of = known[:, :0], []
    scatter, p = sums.with_columns(known).scatter, len(names)
    order = [*range(p, len(scatter)), *range(p)]  # categories come first: they determine, and are not determined
    covariance = scatter[np.ix_(order, order)]
    deviation = np.sqrt(np.diagonal(covariance))
    return determined_by(covariance / np.outer(deviation, deviation), [*of, *names], set(names))
