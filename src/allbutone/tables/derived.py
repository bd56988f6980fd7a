"""Columns that others determine: computed again in every row, and checked in the table that has them already."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.support.text import counted, listed
from allbutone.tables.admission import Problem
from allbutone.tables.column import Column, EventOf
from allbutone.tables.look import Look, look_at_column
from allbutone.tables.schema import Schema

Numbers = Float[np.ndarray, "*rows"]
SHOWN = 5  # rows that are named
OTHERWISE = "correct its formula, or declare it without one"
BROKEN = (
    "correct those rows or the formula",
    "declare the decimals to which its columns were rounded",
    "let the formula count (replaces = true)",
)
ORDER_BROKEN = (
    "correct those rows, or declare it without that order",
    "where values may be equal to their end, declare decimals",
)
NO_VALUE = "cannot be computed in"
SLACK = 1e-9  # relative: what a formula loses in digits


def derived_problems(
    frame: nw.DataFrame[Any], looks: Sequence[Look], derived: Sequence[Column], declared: Schema
) -> list[Problem]:
    """Find derived columns of a table that lack what they need, or that rows of the table contradict."""
    columns = {look.name: declared.column(look.name) for look in looks}
    steps = {
        name: each.coarsest * (each.calendar.days if each.calendar else 1.0) for name, each in columns.items()
    }
    usable = [look for look in looks if look.usable and not look.is_category]
    values = {look.name: columns[look.name].in_formula(look.numbers) for look in usable}
    categories = {look.name for look in looks if look.is_category}
    problems = []
    for column in derived:
        absent = [name for name in column.formula.columns if name not in values]
        if absent:
            problems.append(Problem(column.name, lacks(absent, categories, list(values)), (OTHERWISE,)))
            continue
        if not column.has_levels:
            values[column.name] = column.computed(values)
        if column.name not in frame.columns:
            continue  # which only stands between others
        if words := _contradicted(frame[column.name], column, values, steps):
            quietly = "is not what its formula says in some rows"
            cures = BROKEN[:1] if column.replaces or words.startswith(NO_VALUE) else BROKEN
            problems.append(Problem(column.name, words, cures, quietly=quietly))
        elif column.deviation:
            values[column.name] = _recorded(frame[column.name], column).numbers
    return problems


def lacks(absent: Sequence[str], categories: Container[str], there: Sequence[str]) -> str:
    """Say which columns a formula needs that have no numbers here, and what may be meant."""
    words = f"is computed from {listed(list(map(repr, absent)))}, "
    if all(name in categories for name in absent):
        return words + "of which a formula can take no numbers: categories have levels"
    near = [match[0] for name in absent if (match := get_close_matches(name, there, 1))]
    meant = f" (is {', '.join(map(repr, near))} meant?)" if near else ""
    return f"{words}which cannot be used, or is not in the table{meant}"


def order_problems(looks: Sequence[Look], declared: Schema) -> list[Problem]:
    """Find columns that do not lie above, below or between others in all rows as declared, or lack their ends."""
    usable = [look for look in looks if look.usable and not look.is_category]
    there = {look.name: look.numbers for look in usable}
    columns = [declared.column(look.name) for look in usable]
    natural = np.column_stack([*there.values()]) if there else np.zeros((0, 0))
    problems = []
    for column in columns:
        absent = [name for name in (column.order.columns if column.order else ()) if name not in there]
        if absent:
            words = f"lies {column.order.in_words if column.order else ''}, and {absent[0]!r} cannot be used"
            problems.append(Problem(column.name, words, ("declare it without that order",)))
    for each in Schema(tuple(columns)).orders:
        name, order = each.column.name, each.column.order
        assert order is not None
        ends, value = each.ends(natural), natural[:, each.place]
        if (broken := ~each.keeps(natural)).any():
            words = f"is not {order.in_words} in {rows_in_words(broken)}"
            quietly = f"is not {order.in_words} in some rows"
            problems.append(Problem(name, words, ORDER_BROKEN, quietly=quietly))
        elif (open_ends := ~np.isnan(value) & (np.isnan(ends[0]) | np.isnan(ends[1]))).any():
            words = f"is there in {rows_in_words(open_ends)} where a column at its end is missing"
            problems.append(Problem(name, words, ("leave those rows out, or declare it without that order",)))
    return problems


def event_problems(looks: Sequence[Look], derived: Sequence[Column], declared: Schema) -> list[Problem]:
    """Find times to an event whose event or groups are not there, or not among the levels."""
    known = {look.name: look for look in looks if look.usable}
    problems = []
    for column in (*(declared.column(name) for name in known), *derived):
        if (event := column.event) is None:
            continue
        faults = []
        for name in filter(None, (event.of, event.by)):
            if name not in known or not known[name].is_category:
                near = get_close_matches(name, [each for each, look in known.items() if look.is_category], 1)
                meant = f" (is {near[0]!r} meant?)" if near else ""
                faults.append(f"{name!r}, which is no category of this table{meant}")
        levels = known[event.of].levels if event.of in known and known[event.of].is_category else ()
        usual = [level for level in levels if level.casefold() in EventOf.USUAL]
        if levels and (event.level not in levels if event.level else not usual):
            said = f"with the level {event.level!r}" if event.level else "and which of its levels that is not said"
            faults.append(f"{event.of!r}, {said}; its levels are {listed(levels)}")
        if faults:
            cure = f'write event = {{ of = "status", is = "dead" }} for {column.name!r}, or no event'
            problems.append(
                Problem(column.name, f"is the time to an event that names {' and '.join(faults)}", (cure,))
            )
    return problems


def contradictions(frame: nw.DataFrame[Any], schema: Schema, natural: Mapping[str, Numbers]) -> list[Problem]:
    """Find columns of a synthetic table that are not what the others of its rows say, or beyond their ends."""
    found, values = [], {name: schema.column(name).in_formula(each) for name, each in natural.items()}
    rows = np.column_stack([*natural.values()]) if natural else np.zeros((len(frame), 0))
    for each in schema.orders:
        if (broken := ~each.keeps(rows)).any():
            words = f"is not {each.column.order.in_words if each.column.order else ''} in {rows_in_words(broken)}"
            found.append(Problem(each.column.name, words, ("correct them",)))
    for column in schema.derived:
        if column.deviation and column.name in frame.columns:
            values[column.name] = _recorded(frame[column.name], column).numbers
            continue
        strict = replace(column, replaces=False)  # in a synthetic table the formula always counts
        if column.name in frame.columns and (words := _contradicted(frame[column.name], strict, values, {})):
            found.append(Problem(column.name, words, ("compute it again",)))
        if not column.has_levels:
            values[column.name] = column.computed(values)
    return found


def _contradicted(
    recorded: nw.Series[Any], column: Column, values: Mapping[str, Numbers], steps: Mapping[str, float]
) -> str:
    """Say in which rows a recorded column is not what its formula says, within the rounding of all columns."""
    low, high = between(column, values, steps)
    if column.has_levels:
        look = look_at_column(recorded, column.as_released, categories=True)
        if look.problem:
            return look.problem
        numbers = np.where(look.codes < 0, np.nan, look.codes)
    else:
        look = _recorded(recorded, column)
        if len(look.numbers) != len(recorded):
            return look.problem
        numbers = look.numbers
    nothing = np.isnan(low) & ~np.isnan(numbers)
    for name in column.formula.columns:
        nothing &= ~np.isnan(values[name])
    if nothing.any():
        why = "a division by zero, or a logarithm of what is not above 0"
        return f"{NO_VALUE} {rows_in_words(nothing)} ({why})"
    off = (numbers < low) | (numbers > high)  # false of what is missing
    return f"is not {column.derived} in {rows_in_words(off)}" if off.any() and not column.replaces else ""


def _recorded(recorded: nw.Series[Any], column: Column) -> Look:
    """Look at the numbers of a derived column as a table has them."""
    return look_at_column(recorded, Column(column.name, missing=column.missing), trusted=True)


def between(column: Column, values: Mapping[str, Numbers], steps: Mapping[str, float]) -> tuple[Numbers, Numbers]:
    """Return between which values a formula lies where the columns it needs are known to half a step.

    To first order, f(x) ± Σ max|f(x ± h·e) − f(x)|, and half a step of its own rounding. A group is exact: whether
    a boundary belongs to it is what its formula says.
    """
    number = replace(column, cut=(), decimals=None, heaps=None)
    exact = number.computed(values)
    if column.formula.compares:
        return exact, exact
    reach = SLACK * np.maximum(np.abs(exact), 1.0)
    if column.cut:
        ends = [np.searchsorted(column.cut, exact + sign * reach, side="right") for sign in (-1, 1)]
        low, high = (np.where(np.isnan(exact), np.nan, end) for end in ends)
        return low, high
    for name in column.formula.columns:
        if half := 0.5 * steps.get(name, 0.0):
            ends = [number.computed({**values, name: values[name] + sign * half}) for sign in (-1, 1)]
            reach += np.nan_to_num(np.fmax(*(np.abs(end - exact) for end in ends)))
    own = 0.5 * column.coarsest
    return exact - reach - own, exact + reach + own


def rows_in_words(flags: Bool[np.ndarray, " n"]) -> str:
    """Name the first of some rows, and say how many there are."""
    places: Int[np.ndarray, " m"] = np.flatnonzero(flags) + 1
    named = ", ".join(map(str, places[:SHOWN])) + (", …" if len(places) > SHOWN else "")
    return f"{counted(len(places), 'row')} ({named})"
