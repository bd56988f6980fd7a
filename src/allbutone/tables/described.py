"""A table in words, before anything is done with it: what each column is, and what will be done with it."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Int

from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.admission import (
    ROWS_ARE_PEOPLE,
    categories_of,
    columns_together,
    doubts_of,
    few_rows,
    levels_in_words,
    measured,
    require_different_rows,
    rows_of,
    several_rows,
    who_repeats,
)
from allbutone.tables.column import Column, EventOf, Scale, level_name
from allbutone.tables.derived import derived_problems, order_problems
from allbutone.tables.formula import Formula
from allbutone.tables.long_tables import SeenRows, proposed_visits, told_by_visits, why_no_visits, widen
from allbutone.tables.look import (
    FEW_DRAFTED,
    FEW_VALUES,
    MANY_GAPS,
    Look,
    draft,
    left_out_because,
    look_at,
    proposed_dates,
)
from allbutone.tables.names import chosen_frame, names_of, row_names_left_out
from allbutone.tables.proposals import (
    Proposal,
    proposed_event,
    proposed_formulas,
    proposed_groups,
    proposed_orders,
)
from allbutone.tables.safe_io import fresh_file
from allbutone.tables.schema import Schema
from allbutone.tables.visits import Course

MOST_LEVELS = 8  # that a line shows
_UNTOLD = (
    "correct those rows",
    "bring visits to the times that were planned, in a column of their own",
)
FEW_PEOPLE = 3  # a column at a visit: so few tell little of how visits go together


@dataclass(frozen=True, eq=False)
class Described:
    """What every column of a table is, and what would be done with it.

    others: why columns that are usable by themselves are not usable beside the others, or are declared left out.
    labels: what columns are called in words, where their file says so. unasked: what was left out at the gate.
    computed: of columns that others determine, as declared, by which formula, and whether rows contradict it;
    proposed: of columns of which nothing is declared, what they seem to be computed by, and
    above: above which other they lie in every row. seen: where people have several rows, which these are.
    event: which column seems to be the time to which event.
    """

    looks: tuple[Look, ...]
    rows: int
    schema: Schema
    others: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    unasked: tuple[str, ...] = ()
    computed: Mapping[str, str] = field(default_factory=dict)
    proposed: Mapping[str, Proposal] = field(default_factory=dict)
    above: Mapping[str, str] = field(default_factory=dict)
    seen: SeenRows | None = None
    event: tuple[str, EventOf] | None = None

    @cached_property
    def kept(self) -> list[Look]:
        """The columns that can be used."""
        return [
            look for look in self.looks if not left_out_because(look, self.rows) and look.name not in self.others
        ]

    @property
    def has_gaps(self) -> bool:
        """Whether a column that can be used lacks values, or somebody a visit."""
        return any(look.missing for look in self.kept) or bool(self.seen and self.seen.missed)

    @property
    def has_measurements(self) -> bool:
        """Whether a column that can be used is a measurement."""
        return any(not look.is_category for look in self.kept)

    @property
    def sentence(self) -> str:
        """How large the table is, and how much of it can be used."""
        whole = f"{counted(self.rows, 'row')}, {counted(len(self.looks), 'column')}."
        whole = f"{counted(self.rows, 'row')} of {self.seen.in_words}." if self.seen else whole
        complete = np.ones(self.rows, dtype=bool)
        for look in self.kept:
            complete &= ~look.gaps
        out = len(self.looks) - len(self.kept) - (2 if self.seen else 0)
        words = f"{whole} {len(self.kept)} can be used" + (f", {out} not" if out else "")
        if self.kept and not complete.all():
            words += f"; {int(complete.sum()):,} rows have no gap in them"
        return words + "."

    @property
    def notes(self) -> tuple[str, ...]:
        """What a holder should know beside that."""
        few = few_rows(*self._size, self.schema) if self.kept else ""
        silent = [
            replace(look, doubts=tuple(FEW_DRAFTED if each == FEW_VALUES else each for each in look.doubts))
            for look in self.kept
            if look.name not in self.proposed and self.schema.column(look.name).decimals is None
        ]
        rows = (
            () if self.seen is None else (f"{fault[0].upper()}{fault[1:]}." for fault in self.seen.rows.faults())
        )
        found = (*self.unasked, *rows, *doubts_of(silent), levels_in_words(self.kept), few)
        return tuple(filter(None, found))

    @property
    def _size(self) -> tuple[int, int]:
        """How many records there are, and how many columns each would have."""
        names = [look.name for look in self.kept]
        return (self.seen.people, self.seen.columns(names)) if self.seen else (self.rows, len(names))

    def lines(self) -> list[dict[str, Any]]:
        """Return a line a column: its name, what it is, how many values it lacks, what will be done with it."""
        return [
            {"column": look.name, "kind": look.kind, "missing": look.missing, "what": self.what(look)}
            for look in self.looks
        ]

    def what(self, look: Look) -> str:
        """Say in a few words what will be done with a column, and when it is measured."""
        words = self._what(look)
        if self.seen is None or look.name not in {each.name for each in self.kept}:
            return words
        visits = self.seen.visits
        if look.name in visits.once:
            return f"{words}; stands once: it changes in nobody"
        times = visits.times_of(look.name)
        if line := visits.course_of(look.name):
            return f"{words}; along a line from its first to its last visit, {line.deviation:g} beside it"
        if (start := visits.start_of(look.name)) is not None:
            return f"{words}; at other visits above what it is at {visits.visit} {level_name(start)}"
        return (
            words if times == visits.times else f"{words}; at {listed([level_name(time) for time in times], 12)}"
        )

    def _what(self, look: Look) -> str:
        if words := self.computed.get(look.name):
            return words
        if look.problem or look.name in self.others:
            return f"left out: {look.problem or self.others[look.name]}"
        if look.missing > MANY_GAPS * self.rows:
            return "left out: too many gaps"
        if formula := self.proposed.get(look.name):
            often = "every row" if formula.always else "nearly every row"
            return f"kept; in {often} it is {formula.in_words}: to be computed so is proposed"
        if above := self.above.get(look.name):
            return f"kept; in every row it is above {above}: that order is proposed"
        parts = [f"the scale {look.scale}"] if look.scale != "as it is" else []
        several = look.heaps is not None and not look.is_category
        parts += [look.heaps.in_words] if look.heaps and several else []
        parts += [f"a score from {look.ends[0]:g} to {look.ends[1]:g}"] if look.ends else []
        if self.event and self.event[0] == look.name:
            parts.append(f"the time to {self.event[1].of} = {self.event[1].level}")
        verb = "are" if several or len(parts) > 1 else "is"
        kept = f"kept; {' and '.join(parts)} {verb} proposed" if parts else "kept"
        if look.is_category:
            counts = self._people_of(look)
            levels = [f"{level} ({count:,})" for level, count in zip(look.levels, counts, strict=True)]
            kept = f"kept as a category: {listed(levels, MOST_LEVELS)}"
        elif words := self.schema.column(look.name).in_words:
            kept = f"kept, {words}"
        return kept + ("; rows without it go, or are imputed" if look.missing else "")

    def _people_of(self, look: Look) -> Int[np.ndarray, " levels"]:
        """Return how many people have each level of a category, at any visit."""
        there, codes = look.codes >= 0, look.codes
        if self.seen is not None:
            there &= self.seen.rows.person >= 0
            pairs = np.unique(np.column_stack([self.seen.rows.person[there], codes[there]]), axis=0)
            return np.bincount(pairs[:, 1], minlength=len(look.levels))
        return np.bincount(codes[there], minlength=len(look.levels))

    @property
    def text(self) -> str:
        """A draft of a table file."""
        others = dict(self.others)
        return draft(
            self.looks, self.rows, others, self.schema, self.labels, self.proposed, self.above, self.event
        )

    def write(self, path: Path, *, force: bool = False) -> None:
        """Write a draft of a table file."""
        with fresh_file(path, force=force) as work:
            work.write_text(self.text, encoding="utf-8")


def described(
    table: Any,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    schema: Any = None,
    rows_are_people: bool = False,
    labels: Mapping[str, str] | None = None,
    person: str | None = None,
    visit: str | None = None,
) -> Described:
    """Look at every column of a table; of people with several rows, it is proposed which visits these are.

    person, visit: the columns that name people and the visit, where that is known.
    """
    own = Schema.of(schema)
    frame = chosen_frame(table, columns, drop)
    declared = replace(own, columns=(*own.columns, *proposed_dates(frame, own)))
    looks, rows = look_at(frame, declared, trusted=columns is not None, categories=True), len(frame)
    seen = None if rows_are_people else _seen(table, frame, declared, person, visit)
    if seen is not None:
        declared = replace(declared, visits=seen.visits.adding(declared.derived))
        looks = [_within(look, seen, rows) for look in looks]
    elif not rows_are_people:
        require_different_rows(looks)
    unasked = row_names_left_out(names_of(table), columns, drop)
    derived = declared.with_derived(frame.columns).derived
    computed = {column.name: f"in every row {column.in_words}" for column in derived}
    if seen is not None:
        computed[seen.visits.person] = "names people: numbered anew in every release"
        computed[seen.visits.visit] = f"tells the visit: {seen.visits.in_words}; these will be public"
    drawn = [look for look in looks if look.name not in computed]
    for problem in derived_problems(frame, drawn, derived, declared):
        computed[problem.column] += f"; but it {problem.words}"
    rounded = _rounded(drawn, rows, declared)
    silent = {look.name for look in drawn if not own.declares(look.name)}
    numbers = {look.name: rounded[look.name].in_formula(look.numbers) for look in drawn if look.name in rounded}
    proposed = {name: each for name, each in proposed_formulas(numbers, rounded).items() if name in silent}
    groups = {look.name: (look.levels, look.codes) for look in drawn if look.is_category and look.name in silent}
    parts = {name: each for name, each in numbers.items() if name not in proposed and not rounded[name].calendar}
    proposed |= proposed_groups(groups if seen is None else {}, parts)
    below = {name for each in proposed.values() for name in each.divides_by if name in silent}
    looks, drawn = (
        [_kept_from_zero(look) if look.name in below else look for look in each] for each in (looks, drawn)
    )
    scores = {look.name for look in drawn if look.ends is not None}  # whose ends an order would not keep
    free = {name: numbers[name] for name in numbers if name in silent and name not in (*proposed, *scores)}
    above = proposed_orders(free, rounded)
    beside = replace(
        declared,
        columns=tuple(
            each.lying_above(above[each.name]) if each.name in above and each.calendar else each
            for each in declared.columns
        ),
    )
    broken = {problem.column: problem.words for problem in order_problems(drawn, declared)}
    others = broken | _others([look for look in drawn if look.name not in proposed], rows, beside)
    # what is left out cannot be computed from: then the formula goes, and the column may go, too
    while lost := [name for name, each in proposed.items() if others.keys() & {*Formula.of(each.formula).columns}]:
        proposed = {name: each for name, each in proposed.items() if name not in lost}
        others = broken | _others([look for look in drawn if look.name not in proposed], rows, beside)
    above = {name: other for name, other in above.items() if name not in others and other not in others}
    if seen is not None:
        kept = [each for each in drawn if not left_out_because(each, rows)]
        kept = [each for each in kept if each.name not in {*others, *proposed}]
        if courses := _courses(kept, seen, declared):  # in which there is no order
            seen = SeenRows(replace(seen.visits, courses=courses), seen.rows)
            declared, above = replace(declared, visits=seen.visits), {}
        starts = [(look.name, seen.start(look.name, look.numbers)) for look in kept if look.calendar is not None]
        after = tuple((name, time) for name, time in starts if time is not None and name not in above)
        if after and not seen.visits.after:
            seen = SeenRows(replace(seen.visits, after=after), seen.rows)
            declared = replace(declared, visits=seen.visits)
    found = (tuple(looks), rows, declared, others, labels or {}, tuple(unasked), computed, proposed, above, seen)
    return Described(*found, None if seen else _event(Described(*found), silent))


def _event(found: Described, silent: Container[str]) -> tuple[str, EventOf] | None:
    """Propose a time to an event among the columns that are kept, of which nothing is declared."""
    kept = [look for look in found.kept if look.name not in found.proposed]
    times = [look.name for look in kept if look.positive and look.name in silent and not look.is_category]
    return proposed_event(times, {look.name: look.levels for look in kept if look.is_category})


def _seen(
    table: Any, frame: nw.DataFrame[Any], declared: Schema, person: str | None, visit: str | None
) -> SeenRows | None:
    """Return which visits the rows of people are, as declared or as it seems; None where each has one row.

    Refuse people with several rows that are no visits, and rows that are not as declared.
    """
    if declared.visits is not None:
        widen(table, declared)
        return SeenRows.of(frame, declared.visits)
    for name in (person, visit):
        if name is not None and name not in frame.columns:
            raise InputError(f"there is no column {name!r}", f"choose among {listed(frame.columns)}")
    if person is not None:
        if visits := proposed_visits(frame, person, visit):
            return SeenRows.of(frame, visits)
        why = why_no_visits(frame, person, visit) or f"no column of few values has each once a person ({person!r})"
        raise InputError(f"visits are not told: {why}", *_UNTOLD)
    repeats = list(who_repeats(table, declared))
    for name, _ in repeats:
        if name in frame.columns and (visits := proposed_visits(frame, name, visit)):
            return SeenRows.of(frame, visits)
    for name, told in repeats:
        if name in frame.columns and (why := why_no_visits(frame, name, visit)):
            raise InputError(f"some people have several rows: {told}; {why}", *_UNTOLD, ROWS_ARE_PEOPLE)
    if repeats:
        raise several_rows(repeats[0][1])
    found = told_by_visits(table, frame.columns)
    return SeenRows.of(frame, found[1]) if found else None


def _courses(kept: Sequence[Look], seen: SeenRows, declared: Schema) -> tuple[Course, ...]:
    """Propose lines for all measurements where people are too few for a column at each visit."""
    names = {look.name: len(seen.visits.names(look.name)) for look in kept}
    columns = sum(names[look.name] * max(len(look.levels) - 1, 1) for look in kept)
    if seen.visits.courses or not seen.visits.may_be_lines or seen.people > FEW_PEOPLE * columns + 1:
        return ()
    courses = []
    for look in kept:
        column = declared.column(look.name)
        scale = column.scale if declared.declares(look.name) else Scale.of(look.scale)
        if look.is_category or look.calendar or column.order:
            continue
        courses.append(seen.course(look.name, scale.to_model(look.numbers)))
    return tuple(filter(None, courses))


def _within(look: Look, seen: SeenRows, rows: int) -> Look:
    """Return a column of a long table with the gaps that it has at its own visits; who and when are no columns."""
    if look.name in (seen.visits.person, seen.visits.visit):
        return look.against(
            "is no column of its own", kind="person" if look.name == seen.visits.person else "visit"
        )
    gaps = look.gaps if look.usable else np.zeros(0, dtype=bool)
    return replace(look, missing=round(seen.share_missing(look.name, gaps) * rows)) if len(gaps) == rows else look


def _kept_from_zero(look: Look) -> Look:
    """Return a column that a formula divides by on a scale on which none that is drawn comes near 0."""
    plain = look.scale == "as it is" and look.heaps is None and bool(np.all(look.numbers[~look.gaps] > 0))
    return replace(look, scale="log") if plain else look


def _rounded(looks: Sequence[Look], rows: int, declared: Schema) -> dict[str, Column]:
    """Return what is declared, or proposed, of the rounding of each measurement that can be used."""
    usable = [look for look in looks if not left_out_because(look, rows) and not look.is_category]
    return {
        look.name: declared.column(look.name)
        if declared.declares(look.name)
        else Column(look.name, decimals=look.decimals, heaps=look.heaps)
        for look in usable
    }


def _others(looks: Sequence[Look], rows: int, schema: Schema) -> dict[str, str]:
    """Return why columns that are usable by themselves are not usable beside the others."""
    usable = [look for look in looks if not left_out_because(look, rows)]
    declared = dict.fromkeys(schema.left_out, "declared so")
    if not usable:
        return declared
    rows_kept = rows_of(usable, rows)
    values, _, names = measured(usable, schema, rows_kept)
    problems = columns_together(values, names, categories_of(usable, rows_kept))
    return {problem.column: problem.words for problem in problems} | declared
