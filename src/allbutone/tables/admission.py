"""Which columns and rows of a table are let in: all problems at once, and nothing left out in silence."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from jaxtyping import Float, Int

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.declared.schema import Schema
from allbutone.tables.look import Look

ROW_SHARE = 10  # rows a column below which a covariance is known too badly to be of use


@dataclass(frozen=True)
class Problem:
    """Why a column cannot be used, in words that follow its name, and what would help."""

    column: str
    words: str
    cures: tuple[Cure | str, ...] = ()
    is_gap: bool = False
    is_name: bool = False


class ColumnsError(InputError):
    """Columns that cannot be used: one line each in the message, and each by itself in `problems`."""

    problems: tuple[Problem, ...] = ()


class IdentifierError(ColumnsError):
    """Columns that look like what names people; only the user can say that they are measurements."""


@dataclass(frozen=True, eq=False)
class Admitted:
    """What is let in: values on the model's scale, names, each row's number in the table, and words."""

    values: Float[np.ndarray, "n p"]
    columns: tuple[str, ...]
    rows: Int[np.ndarray, " n"]
    notes: tuple[str, ...]


def admit(
    looks: Sequence[Look],
    people: int,
    declared: Schema,
    *,
    complete_cases: bool,
    drop_unusable: bool,
    in_table: Sequence[str],
) -> Admitted:
    """Let in what can be used, or refuse the table with all that stands against it.

    `in_table`: the names of all columns of the table, also of those that were not chosen.
    """
    problems = [Problem(look.name, look.problem, look.cures, is_name=look.named) for look in looks if look.problem]
    if not complete_cases:
        gaps = [look for look in looks if look.usable and look.missing]
        problems += [Problem(look.name, missing_problem(look), is_gap=True) for look in gaps]
    refused = {problem.column for problem in problems}
    names = tuple(look.name for look in looks if look.name not in refused)
    columns = [look.numbers for look in looks if look.name not in refused]
    values = np.column_stack(columns) if columns else np.zeros((people, 0))
    whole = ~np.isnan(values).any(axis=1)
    values, rows = declared.for_columns(names).to_model(values[whole]), np.flatnonzero(whole) + 1
    problems += columns_together(values, names)
    if problems and not drop_unusable:
        raise refusal(problems)
    refused = {problem.column for problem in problems}
    kept = [place for place, name in enumerate(names) if name not in refused]
    if not kept or not len(rows):
        what = "column can be used" if not kept else "row is without gaps"
        raise InputError(f"no {what}{_lines(problems)}", "complete the table", Cure("choose columns", "columns"))
    columns_kept = tuple(names[place] for place in kept)
    notes = _about_schema(declared, in_table, columns_kept) + _notes(looks, declared, problems, people, len(rows))
    notes += list(filter(None, [few_rows(len(rows), len(kept))]))
    return Admitted(values[:, kept], columns_kept, rows, tuple(notes))


def columns_together(values: Float[np.ndarray, "n p"], names: Sequence[str]) -> list[Problem]:
    """Find what is wrong with columns only beside others, or in the rows that are left."""
    if len(values) < 2:
        return []
    constant = np.all(values == values[0], axis=0)
    still = [name for name, flag in zip(names, constant, strict=True) if flag]
    varying = [name for name in names if name not in still]
    found = determined(values[:, ~constant], varying)
    return [Problem(name, "is constant in the rows without gaps") for name in still] + [
        Problem(name, words) for name, words in found.items()
    ]


def determined(values: Float[np.ndarray, "n p"], names: Sequence[str]) -> dict[str, str]:
    """Return, for each column that earlier ones determine (a copy, a sum), the words that say by which."""
    spread = values.std(axis=0)
    if len(values) <= values.shape[1] + 1 or not np.all(spread > 0):
        return {}
    white = (values - values.mean(axis=0)) / spread
    related = white.T @ white / len(white)
    found: dict[str, str] = {}
    kept: list[int] = []
    for place, name in enumerate(names):
        if kept:
            weights = np.linalg.solve(related[np.ix_(kept, kept)], related[kept, place])
            if 1 - weights @ related[kept, place] < 1e-9:
                of = [repr(names[k]) for k, weight in zip(kept, weights, strict=True) if abs(weight) > 1e-6]
                found[name] = f"is determined by {', '.join(of)}"
                continue
        kept.append(place)
    return found


def missing_problem(look: Look) -> str:
    """Say that and where a column lacks values."""
    gaps = np.isnan(look.numbers)
    return f"misses {look.missing:,} of {len(gaps):,} values, the first in row {int(np.argmax(gaps)) + 1}"


def refusal(problems: Sequence[Problem]) -> ColumnsError:
    """Return one error for all columns that cannot be used, with every way out."""
    names, several = [problem.column for problem in problems], len(problems) > 1
    cures: list[Cure | str] = [Cure("leave them out" if several else "leave it out", "drop", names)]
    if several:
        cures.append(Cure("have that done", "drop_unusable", True))
    if any(problem.is_gap for problem in problems):
        cures.append(Cure("keep only the rows without gaps", "complete_cases", True))
    own: dict[str, Cure | str] = {}
    for cure in (cure for problem in problems for cure in problem.cures):
        own.setdefault(cure if isinstance(cure, str) else cure.argument, cure)
    kind = IdentifierError if all(problem.is_name for problem in problems) else ColumnsError
    what = f"{len(names)} columns cannot be used:{_lines(problems)}"
    error = kind(what if several else f"column {names[0]!r} {problems[0].words}", *cures, *own.values())
    error.problems = tuple(problems)
    return error


def _lines(problems: Sequence[Problem]) -> str:
    return "".join(f"\n  {problem.column!r} {problem.words}" for problem in problems)


def _about_schema(declared: Schema, in_table: Sequence[str], kept: Sequence[str]) -> list[str]:
    """Say which entries of a table file go unused, and which columns it says nothing of."""
    said = {column.name for column in declared.columns}
    silent = [name for name in kept if name not in said]
    notes = []
    if unused := sorted(said - set(in_table) - set(declared.left_out)):
        near = [(name, get_close_matches(name, silent, 1)) for name in unused]
        meant = "".join(f" Is {name!r} meant to be {match[0]!r}?" for name, match in near if match)
        notes.append(f"Declared, but not in this table: {', '.join(unused)}.{meant}")
    if said and silent:
        notes.append(f"Not declared, so taken as they are: {', '.join(silent)}.")
    return notes


def _notes(
    looks: Sequence[Look], declared: Schema, problems: Sequence[Problem], people: int, rows: int
) -> list[str]:
    """Say what was left out, and what is doubtful."""
    notes = []
    if problems:
        notes.append(f"Left out {counted(len(problems), 'column')}:{_lines(problems)}")
    if rows < people:
        notes.append(f"Left out {counted(people - rows, 'row')} of {people:,} with gaps; {rows:,} are used.")
    refused = {problem.column for problem in problems}
    scores = {column.name for column in declared.columns if column.decimals is not None and column.decimals <= 0}
    return notes + doubts_of([look for look in looks if look.name not in refused | scores])


def doubts_of(looks: Sequence[Look]) -> list[str]:
    """Say each doubt once, with the columns that it is about."""
    about: dict[str, list[str]] = {}
    for look in looks:
        for doubt in look.doubts:
            about.setdefault(doubt, []).append(repr(look.name))
    return [f"{', '.join(names)}: {doubt}" for doubt, names in about.items()]


def few_rows(rows: int, columns: int) -> str:
    """Warn of a table with fewer than ten rows a column, in words; nothing to say otherwise."""
    if rows >= ROW_SHARE * columns:
        return ""
    return (
        f"{counted(rows, 'row')} for {counted(columns, 'column')} are few: with fewer than {ROW_SHARE} rows a "
        "column relations between columns are known badly, and single records stand out. Fewer columns would help."
    )
