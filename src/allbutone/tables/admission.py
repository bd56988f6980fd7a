"""Which columns and rows of a table are let in: all problems at once, nothing left out in silence."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int, UInt

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.categories import Categories
from allbutone.tables.column import CATEGORY
from allbutone.tables.date_forms import LOOKS_LIKE
from allbutone.tables.look import Look
from allbutone.tables.names import column_at, looks_like_identifier, names_of
from allbutone.tables.schema import Schema

GAP_CURES = (
    Cure("keep only the rows without gaps", "complete_cases", True),
    Cure("have what is missing imputed", "missing", "impute"),
)
OPEN_LEVELS = (
    "categories whose levels are those of this table, none declared. Which levels there are is public with any "
    "release, so merge a level that few people have with another, or declare the levels."
)
ROW_SHARE = 10  # rows a column below which a covariance is known too badly to be of use


@dataclass(frozen=True)
class Problem:
    """Why a column cannot be used, in words that follow its name, and what would help.

    quietly: the words without a person's value, where they have one; these are written down.
    """

    column: str
    words: str
    cures: tuple[Cure | str, ...] = ()
    is_gap: bool = False
    is_name: bool = False
    is_category: bool = False
    quietly: str = ""


class ColumnsError(InputError):
    """Columns that cannot be used: one line each in the message, and each by itself in `problems`."""

    problems: tuple[Problem, ...] = ()


class IdentifierError(ColumnsError):
    """Columns that look like what names people; only the user can say that they are measurements."""


def admit(
    looks: Sequence[Look],
    people: int,
    declared: Schema,
    *,
    complete_cases: bool,
    drop_unusable: bool,
    in_table: Sequence[str],
    gaps: bool = False,
    many_cells: bool = False,
    one_by_one: bool = False,
    further: Sequence[Problem] = (),
    who: Sequence[Any] | np.ndarray = (),
) -> dict[str, Any]:
    """Let in what can be used, as the fields of `Records`, or refuse the table with all that stands against it.

    `in_table`: the names of all columns of the table, also of those that were not chosen. `gaps`: whether values
    may be missing. `many_cells`: whether categories may have more combinations than can be counted. `one_by_one`:
    whether what columns are beside each other is noted, not refused. `further`:
    what stands against columns that are derived from these. `who`: what the table calls each person, if it does.
    """
    problems = [*problems_of(looks), *further]
    if not (complete_cases or gaps):
        problems += gaps_of(looks, people, who)
    every_row = gaps and not complete_cases
    problems += _without_ends(looks, declared, problems) if drop_unusable else []
    refused = {problem.column for problem in problems}
    kept = [look for look in looks if look.name not in refused]
    rows = rows_of(kept, people, every_row=every_row)
    values, natural, names = measured(kept, declared, rows)
    categories = categories_of(kept, rows)
    together = columns_together(values, names, categories) + one_level(kept, categories)
    problems += [] if one_by_one else together
    if problems and not drop_unusable:
        raise refusal(problems)
    problems += _without_ends(kept, declared, problems)
    refused = {problem.column for problem in problems}
    kept = [look for look in kept if look.name not in refused]
    if not kept or not len(rows):
        what = "column can be used" if not kept else "row is without gaps"
        raise InputError(f"no {what}{_lines(problems)}", "complete the table", Cure("choose columns", "columns"))
    categories = categories.select([name for name in categories.columns if name not in refused])
    if not many_cells:
        categories.require_few_cells()
    lost = left_out_words(problems, people, len(rows), "without any value" if every_row else "with gaps")
    notes, cautions = notes_of(kept, declared, in_table, lost, len(rows))
    places = [place for place, name in enumerate(names) if name not in refused]
    return {
        "values": values[:, places],
        "natural": natural[:, places],
        "columns": tuple(names[place] for place in places),
        "categories": categories,
        "order": tuple(look.name for look in kept),
        "rows": rows + 1,
        "notes": (*notes, *_beside_others(kept, together)) if one_by_one else notes,
        "cautions": cautions,
        "left_out": bool(lost),
    }


def _beside_others(looks: Iterable[Look], together: Iterable[Problem]) -> list[str]:
    """Say what columns are beside others, but of those that never vary, of which that is said already."""
    still = {look.name for look in looks if look.kind == "constant"}
    return [f"{each.column!r} {each.words}." for each in together if each.column not in still]


def _without_ends(looks: Iterable[Look], declared: Schema, problems: Iterable[Problem]) -> list[Problem]:
    """Return the columns at whose end is one that goes, or that goes in their train."""
    refused, found = {problem.column for problem in problems}, list[Problem]()
    orders = {look.name: order for look in looks if (order := declared.column(look.name).order) is not None}
    while going := [
        name for name, order in orders.items() if name not in refused and not refused.isdisjoint(order.columns)
    ]:
        refused.update(going)
        found += [Problem(name, f"lies {orders[name].in_words}, which cannot be used") for name in going]
    return found


def problems_of(looks: Iterable[Look]) -> list[Problem]:
    """Return what stands against each column by itself."""
    return [
        Problem(
            look.name,
            look.problem,
            look.cures,
            is_name=look.named,
            is_category=look.kind in ("category", "few values"),
            quietly=look.quietly,
        )
        for look in looks
        if look.problem
    ]


def gaps_of(looks: Iterable[Look], people: int, who: Sequence[Any] | np.ndarray = ()) -> list[Problem]:
    """Return the columns that lack values, and where, or whose, the first is, if the rows are here."""
    gaps = []
    for look in looks:
        if look.usable and look.missing:
            first = ""
            if len(look.gaps) == people:
                place = int(np.argmax(look.gaps))
                first = f", the first {f'that of person {who[place]}' if len(who) else f'in row {place + 1}'}"
            gaps.append(Problem(look.name, f"misses {look.missing:,} of {people:,} values{first}", is_gap=True))
    return gaps


def rows_of(looks: Sequence[Look], people: int, *, every_row: bool = False) -> Int[np.ndarray, " n"]:
    """Return the places of the rows without gaps; of those with a value at all where `every_row` is kept."""
    absent = np.column_stack([look.gaps for look in looks]) if looks else np.zeros((people, 1), dtype=bool)
    return np.flatnonzero(~(absent.all(axis=1) if every_row else absent.any(axis=1)))


def measured(
    looks: Sequence[Look], declared: Schema, rows: Int[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, "n p"], tuple[str, ...]]:
    """Return the measurements of these rows on the scale of the model, in natural units, and their names."""
    numeric = [look for look in looks if not look.is_category]
    values = np.column_stack([look.numbers[rows] for look in numeric]) if numeric else np.zeros((len(rows), 0))
    names = tuple(look.name for look in numeric)
    return declared.for_columns(names).to_model(values), values, names


def categories_of(looks: Sequence[Look], rows: Int[np.ndarray, " n"]) -> Categories:
    """Return the categories of these rows; a level that is not declared must be someone's."""
    categories = [look for look in looks if look.is_category]
    codes, levels = [], []
    for look in categories:
        some, names = look.codes[rows], look.levels
        used = np.unique(some[some >= 0])
        if not look.fixed and len(used) < len(names):
            some = np.where(some < 0, some, np.searchsorted(used, some))
            names = tuple(names[place] for place in used)
        codes.append(some)
        levels.append(names)
    if not categories or not len(rows):
        return Categories.none(len(rows))
    return Categories(np.column_stack(codes), tuple(look.name for look in categories), tuple(levels))


def one_level(looks: Sequence[Look], categories: Categories) -> list[Problem]:
    """Find categories of which the rows that are left have one level only, where levels are not declared."""
    fixed = {look.name for look in looks if look.fixed}
    still = [name for name, size in zip(categories.columns, categories.sizes, strict=True) if size < 2]
    return [Problem(name, "has one level only in the rows without gaps") for name in still if name not in fixed]


def columns_together(
    values: Float[np.ndarray, "n p"], names: Sequence[str], categories: Categories
) -> list[Problem]:
    """Find what is wrong with columns only beside others, or in the rows that are left."""
    whole = ~(np.isnan(values).any(axis=1) | (categories.codes < 0).any(axis=1))
    complete, values, codes = bool(whole.all()), values[whole], categories.codes[whole]
    if len(values) < 2:
        return []
    constant = np.all(values == values[0], axis=0)
    # where gaps stay, other rows vary
    still = [name for name, flag in zip(names, constant, strict=True) if flag and complete]
    names = [name for name, flag in zip(names, constant, strict=True) if not flag]
    values = values[:, ~constant]
    levels, of_levels = indicators(codes, categories.columns, len(values) - len(names) - 1)
    both = np.hstack([levels, values])
    problems = []
    if len(values) > both.shape[1] + 1 and np.all(both.std(axis=0) > 0):
        centred = both - both.mean(axis=0)
        problems = determined(centred.T @ centred, of_levels, names)
    return [Problem(name, "is constant in the rows without gaps") for name in still] + problems


def determined(scatter: Float[np.ndarray, "p p"], first: Sequence[str], names: Sequence[str]) -> list[Problem]:
    """Find columns that earlier ones determine (a copy, a sum), and by which; the `first`, of levels, may be."""
    deviation, every = np.sqrt(np.diagonal(scatter)), [*first, *names]
    related, problems = scatter / np.outer(deviation, deviation), []
    kept: list[int] = []
    for place, name in enumerate(every):
        weights = np.linalg.solve(related[np.ix_(kept, kept)], related[kept, place])
        if 1 - weights @ related[kept, place] >= 1e-9:
            kept.append(place)
        elif place >= len(first):
            of = [repr(every[k]) for k, weight in zip(kept, weights, strict=True) if abs(weight) > 1e-6]
            problems.append(Problem(name, f"is determined by {', '.join(dict.fromkeys(of))}"))
    return problems


def indicators(
    codes: Int[np.ndarray, "n q"], columns: Sequence[str], most: int
) -> tuple[Float[np.ndarray, "n k"], list[str]]:
    """Return who has each level that some have, but for the first, and whose it is; none if there are `most`."""
    parts, names = [np.zeros((len(codes), 0))], []
    for name, column in zip(columns, codes.T, strict=True):
        used = np.unique(column)
        parts.append((column[:, np.newaxis] == used[1:]).astype(np.float64))
        names += [name] * (len(used) - 1)
    return (np.hstack(parts), names) if len(names) < most else (parts[0], [])


def refusal(problems: Sequence[Problem], *more: Cure | str, closed: Collection[str] = ()) -> ColumnsError:
    """Return one error for all columns that cannot be used, with every way out.

    `more`: further ways; `closed`: arguments that are none here.
    """
    names, several = [problem.column for problem in problems], len(problems) > 1
    cures: list[Cure | str] = [Cure("leave them out" if several else "leave it out", "drop", names)]
    if several:
        cures.append(Cure("leave out every column that cannot be used", "drop_unusable", True))
    if any(problem.is_gap for problem in problems):
        cures += GAP_CURES
    own: dict[str, Cure | str] = {}
    for cure in (cure for problem in problems for cure in problem.cures):
        own.setdefault(cure if isinstance(cure, str) else cure.argument, cure)
    kind = IdentifierError if all(problem.is_name for problem in problems) else ColumnsError
    what = f"{len(names)} columns cannot be used:{_lines(problems)}"
    ways = [cure for cure in (*cures, *own.values()) if isinstance(cure, str) or cure.argument not in closed]
    error = kind(what if several else f"column {names[0]!r} {problems[0].words}", *ways, *more)
    error.problems = tuple(problems)
    return error


def _lines(problems: Sequence[Problem], *, quietly: bool = False) -> str:
    told = ((problem.column, problem.quietly if quietly else "", problem.words) for problem in problems)
    return "".join(f"\n  {column!r} {quiet or words}" for column, quiet, words in told)


def notes_of(
    looks: Sequence[Look], declared: Schema, in_table: Collection[str], lost: Sequence[str], rows: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Say all that a holder should know of the columns and rows let in, and what of it nobody asked for.

    Whole numbers that are declared to go out as such are no codes.
    """
    scores = {column.name for column in declared.columns if column.decimals is not None and column.decimals <= 0}
    cautions = doubts_of([look for look in looks if look.name not in scores])
    about = _about_schema(declared, in_table, [look.name for look in looks])
    notes = [*about, *lost, levels_in_words(looks), *cautions, few_rows(rows, len(looks), declared)]
    return tuple(filter(None, notes)), tuple(cautions)


def _about_schema(declared: Schema, in_table: Collection[str], kept: Sequence[str]) -> list[str]:
    """Say which entries of a table file go unused, and which columns it says nothing of."""
    said = {column.name for column in declared.columns}
    silent = list(dict.fromkeys(declared.of_file(name) for name in kept if name not in said))
    notes = []
    if unused := sorted({declared.of_file(name) for name in said - set(in_table) - set(declared.left_out)}):
        near = [(name, get_close_matches(name, silent, 1)) for name in unused]
        meant = "".join(f" Is {name!r} meant to be {match[0]!r}?" for name, match in near if match)
        notes.append(f"Declared, but not in this table: {', '.join(unused)}.{meant}")
    if said and silent:
        notes.append(f"Not declared, so taken as they are: {', '.join(silent)}.")
    return notes


def left_out_words(problems: Sequence[Problem], people: int, rows: int, which: str = "with gaps") -> list[str]:
    """Say which columns were left out, and how many rows; notes go into reports, so without a person's value."""
    left_out = _lines(problems, quietly=True)
    notes = [f"Left out {counted(len(problems), 'column')}:{left_out}"] if problems else []
    if rows < people:
        notes.append(f"Left out {counted(people - rows, 'row')} of {people:,} {which}; {rows:,} are used.")
    return notes


def levels_in_words(looks: Sequence[Look]) -> str:
    """Say of categories whose levels are not declared that they will be public; nothing where there are none."""
    taken = [repr(look.name) for look in looks if look.is_category and not look.fixed]
    return f"{', '.join(taken)}: {OPEN_LEVELS}" if taken else ""


def doubts_of(looks: Sequence[Look]) -> list[str]:
    """Say each doubt once, with the columns that it is about."""
    about: dict[str, list[str]] = {}
    for look in looks:
        for doubt in look.doubts:
            about.setdefault(doubt, []).append(repr(look.name))
    return [f"{', '.join(names)}: {doubt}" for doubt, names in about.items()]


def few_rows(rows: int, columns: int, schema: Schema) -> str:
    """Warn of a table with fewer than ten rows a column, in words; nothing to say otherwise."""
    if rows >= ROW_SHARE * columns:
        return ""
    of, fewer = ("rows", "Fewer columns") if schema.visits is None else ("people", "Fewer visits or columns")
    return (
        f"{schema.counted(rows)} for {counted(columns, 'column')} are few: with fewer than {ROW_SHARE} {of} a "
        f"column relations between columns are known badly, and single records stand out. {fewer} would help."
    )


# Tables that hold several rows of the same people, which are refused: every figure is for one row a person.


# of people, not of places: site_id and ward_id repeat in any table
_PERSON = re.compile(
    r"ids?|iid|eid|pid|cpr|ssn|mrn|guid|uuid|identifier|pseudonym|(record|case|study)[_\W]*(id|no|nr|number)"
    r"|(.*[_\W])?u?(patient|pat|subject|subj|person|participant|proband|respondent|individual|child|pupil|student)"
    r"s?[_\W]*(id|no|nr|num|number|code|key)?"
)
_NUMBERED = re.compile(r"nr|no|number|num", re.IGNORECASE)  # of people, or of lesions
FEW = 10  # different values of what may be a count or a score: then only equal numbers of rows tell of people
MANY = 30  # different texts or numbers of something that need not be people
EQUAL = 0.8  # of the values that occur equally often: copies or visits, which chance does not make
_MIX = np.uint64(0x9E3779B97F4A7C15)
AS_VISITS = "if they are visits, declare person, visit and visits in a table file (describe drafts it)"
_ONE_ROW = "give one row a person: a visit of each, or a mean of them"
ROWS_ARE_PEOPLE = Cure("if each row is another person nevertheless, say so", "rows_are_people", True)


def require_one_row_each(table: Any, declared: Schema) -> None:
    """Refuse a table in which a column, used or not, names the same people in several rows."""
    for _, told in who_repeats(table, declared):
        raise several_rows(told)


def who_repeats(table: Any, declared: Schema) -> Iterator[tuple[str, str]]:
    """Yield the columns, used or not, that name the same people in several rows, and how they tell so.

    What is declared a category names nobody, unless it is called after people.
    """
    if isinstance(table, np.ndarray):
        return
    names = names_of(table)
    for place, name in enumerate(names):
        if names.count(name) == 1 and (is_person(name) or declared.column(name).kind != CATEGORY):
            column = column_at(table, place, name)
            if may_name_people(name, column.dtype) and (told := _told(name, column)):
                yield name, told


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
    if column.dtype == nw.String and len(column) and LOOKS_LIKE.fullmatch(str(column[0])):
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
    return InputError(f"some people have several rows: {told}", AS_VISITS, _ONE_ROW, ROWS_ARE_PEOPLE)


def equal_times(counts: Int[np.ndarray, " values"]) -> int:
    """Return how often nearly all values occur, if that is the same number above one; else 0."""
    numbers, shares = np.unique(counts, return_counts=True)
    most = int(np.argmax(shares)) if len(counts) else 0
    return int(numbers[most]) if len(counts) and numbers[most] > 1 and shares[most] >= EQUAL * len(counts) else 0


def row_prints(columns: Sequence[Float[np.ndarray, " n"] | Int[np.ndarray, " n"]]) -> UInt[np.ndarray, " n"]:
    """Return a number of 64 bits for each row, the same for equal rows and else, but for 2⁻⁶⁴, another."""
    prints = np.zeros(len(columns[0]), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in columns:
            bits = np.ascontiguousarray(column + 0.0).view(np.uint64)
            prints = (prints ^ (prints >> np.uint64(29))) * _MIX + bits
            prints = (prints ^ (prints >> np.uint64(32))) * _MIX
    return prints
