"""A table in words, before anything is done with it: what each column is, and what will be done with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.support.text import counted, listed
from allbutone.tables.admission import (
    categories_of,
    columns_together,
    doubts_of,
    few_rows,
    levels_in_words,
    measured,
    require_different_rows,
    require_one_row_each,
    rows_of,
)
from allbutone.tables.column import Column
from allbutone.tables.derived import derived_problems, order_problems
from allbutone.tables.look import MANY_GAPS, Look, draft, left_out_because, look_at, proposed_dates
from allbutone.tables.names import chosen_frame, names_of, row_names_left_out
from allbutone.tables.proposals import Proposal, proposed_formulas, proposed_orders
from allbutone.tables.safe_io import fresh_file
from allbutone.tables.schema import Schema

MOST_LEVELS = 8  # that a line shows


@dataclass(frozen=True, eq=False)
class Described:
    """What every column of a table is, and what would be done with it.

    others: why columns that are usable by themselves are not usable beside the others, or are declared left out.
    labels: what columns are called in words, where their file says so. unasked: what was left out at the gate.
    computed: of columns that others determine, as declared, by which formula, and whether rows contradict it;
    proposed: of columns of which nothing is declared, what they seem to be computed by, and
    above: above which other they lie in every row.
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

    @cached_property
    def kept(self) -> list[Look]:
        """The columns that can be used."""
        return [
            look for look in self.looks if not left_out_because(look, self.rows) and look.name not in self.others
        ]

    @property
    def has_gaps(self) -> bool:
        """Whether a column that can be used lacks values."""
        return any(look.missing for look in self.kept)

    @property
    def has_measurements(self) -> bool:
        """Whether a column that can be used is a measurement."""
        return any(not look.is_category for look in self.kept)

    @property
    def sentence(self) -> str:
        """How large the table is, and how much of it can be used."""
        whole = f"{counted(self.rows, 'row')}, {counted(len(self.looks), 'column')}."
        complete = np.ones(self.rows, dtype=bool)
        for look in self.kept:
            complete &= ~look.gaps
        out = len(self.looks) - len(self.kept)
        words = f"{whole} {len(self.kept)} can be used" + (f", {out} not" if out else "")
        if self.kept and not complete.all():
            words += f"; {int(complete.sum()):,} rows have no gap in them"
        return words + "."

    @property
    def notes(self) -> tuple[str, ...]:
        """What a holder should know beside that."""
        few = few_rows(self.rows, len(self.kept)) if self.kept else ""
        found = (*self.unasked, *doubts_of(self.kept), levels_in_words(self.kept), few)
        return tuple(filter(None, found))

    def lines(self) -> list[dict[str, Any]]:
        """Return a line a column: its name, what it is, how many values it lacks, what will be done with it."""
        return [
            {"column": look.name, "kind": look.kind, "missing": look.missing, "what": self.what(look)}
            for look in self.looks
        ]

    def what(self, look: Look) -> str:
        """Say in a few words what will be done with a column."""
        if words := self.computed.get(look.name):
            return words
        if look.problem or look.name in self.others:
            return f"left out: {look.problem or self.others[look.name]}"
        if look.missing > MANY_GAPS * self.rows:
            return "left out: too many gaps"
        if formula := self.proposed.get(look.name):
            often = "every row" if formula.always else "nearly every row"
            return f"kept; in {often} it is {formula.formula}: to be computed so is proposed"
        if above := self.above.get(look.name):
            return f"kept; in every row it is above {above}: that order is proposed"
        parts = [f"the scale {look.scale}"] if look.scale != "as it is" else []
        parts += [look.heaps.in_words] if look.heaps and not look.is_category else []
        kept = f"kept; {' and '.join(parts)} {'are' if len(parts) > 1 else 'is'} proposed" if parts else "kept"
        if look.is_category:
            counts = np.bincount(look.codes[look.codes >= 0], minlength=len(look.levels))
            levels = [f"{level} ({count:,})" for level, count in zip(look.levels, counts, strict=True)]
            kept = f"kept as a category: {listed(levels, MOST_LEVELS)}"
        elif words := self.schema.column(look.name).in_words:
            kept = f"kept, {words}"
        return kept + ("; rows without it go, or are imputed" if look.missing else "")

    def write(self, path: Path, *, force: bool = False) -> None:
        """Write a draft of a table file."""
        with fresh_file(path, force=force) as work:
            text = draft(
                self.looks, self.rows, dict(self.others), self.schema, self.labels, self.proposed, self.above
            )
            work.write_text(text, encoding="utf-8")


def described(
    table: Any,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] | None = None,
    schema: Any = None,
    rows_are_people: bool = False,
    labels: Mapping[str, str] | None = None,
) -> Described:
    """Look at every column of a table; people with several rows are refused, as by every other reader."""
    own = Schema.of(schema)
    frame = chosen_frame(table, columns, drop)
    declared = replace(own, columns=(*own.columns, *proposed_dates(frame, own)))
    looks, rows = look_at(frame, declared, trusted=columns is not None, categories=True), len(frame)
    if not rows_are_people:
        require_one_row_each(table, declared)
        require_different_rows(looks)
    unasked = row_names_left_out(names_of(table), columns, drop)
    derived = declared.with_derived(frame.columns).derived
    computed = {column.name: f"in every row {column.in_words}" for column in derived}
    drawn = [look for look in looks if look.name not in computed]
    for problem in derived_problems(frame, drawn, derived, declared):
        computed[problem.column] += f"; but it {problem.words}"
    rounded = _rounded(drawn, rows, declared)
    silent = {look.name for look in drawn if not own.declares(look.name)}
    numbers = {look.name: rounded[look.name].in_formula(look.numbers) for look in drawn if look.name in rounded}
    proposed = {name: each for name, each in proposed_formulas(numbers, rounded).items() if name in silent}
    free = {name: each for name, each in numbers.items() if name not in proposed and name in silent}
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
    above = {name: other for name, other in above.items() if name not in others and other not in others}
    return Described(tuple(looks), rows, declared, others, labels or {}, tuple(unasked), computed, proposed, above)


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
