"""Which table, which of its columns, and which prior: what the pages about one's own data share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from starlette.datastructures import QueryParams

from allbutone.app.forms import Choice, FieldError, Group, Hidden, Number, Whole, names, read
from allbutone.app.page import Held, RequestContext
from allbutone.app.pages import columns as declared
from allbutone.model.classes import CLASSES as CLASSES_BY_DEFAULT
from allbutone.model.location import MAIN_EFFECTS, SEPARATE
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_conflict, prior_from
from allbutone.releases.mechanism import CLASSES, IMPUTE, KEEP_GAPS, REFUSE, require_measurements
from allbutone.releases.synthesizer import Synthesizer
from allbutone.support.text import counted, listed
from allbutone.tables.admission import ColumnsError, Problem, is_person, refusal
from allbutone.tables.records import Records, demo_cohort
from allbutone.tables.schema import Schema

COHORT = "cohort"
CENTRE_AND_SPREAD = "give both in its own units, at “Centre” and “Spread”"
NAMES_PEOPLE = "looks like an identifier (it is named after people)"


@dataclass(frozen=True)
class Reading:
    """How a table is read; `columns` are those ticked, none for all of them. Equal ones give equal records.

    gaps: whether values may be missing; many_cells: whether categories may have any number of combinations;
    without: the rows that are left out, by their numbers.
    """

    columns: tuple[str, ...]
    measured: bool
    schema: Schema
    complete_cases: bool
    drop_unusable: bool
    rows_are_people: bool
    gaps: bool = False
    many_cells: bool = False
    without: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Chosen:
    """The records and the prior that a page is about; `held` keeps what is computed of them, under `key`.

    `reading`: how they were read; `public`: the prior, of the measurements that are drawn, was typed in; `keep`:
    the columns that go out as they are; missing, classes, cells: as of a `Synthesizer`, 0 for no classes.
    """

    name: str
    records: Records
    prior: NIW
    note: str
    held: Held
    reading: Reading
    public: bool
    keep: tuple[str, ...] = ()
    missing: str = REFUSE
    classes: int = 0
    cells: str = MAIN_EFFECTS

    @property
    def drawn(self) -> tuple[str, ...]:
        """The measurements that are not kept."""
        return tuple(name for name in self.records.columns if name not in self.keep)

    @property
    def is_mixed(self) -> bool:
        """Whether it takes more than the normal model: categories, columns to keep, gaps, or classes."""
        return bool(self.records.categories.columns or self.keep or self.missing != REFUSE or self.classes)

    @property
    def how(self) -> dict[str, Any]:
        """How it is modelled, as `Synthesizer` and `budget` take it."""
        if self.classes:
            own = {"model": CLASSES, "classes": self.classes, "keep": self.keep, "missing": self.missing}
            return {"prior": self.prior if self.public else None, **own}
        return {"prior": self.prior, "keep": self.keep, "missing": self.missing, "cells": self.cells}

    @property
    def synthesizer(self) -> Synthesizer:
        """What draws releases of it."""
        return self.held.get_or_compute(("fitted", *self.key), lambda: Synthesizer(**self.how).fit(self.records))

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells two of one table apart: how it is read, the prior, what is kept, and the model."""
        prior = self.prior
        numbers = (*prior.mean.tolist(), prior.mean_weight, prior.df, *np.diagonal(prior.scale).tolist())
        return (self.reading, numbers, self.keep, self.missing, self.classes, self.cells)

    @property
    def entries(self) -> dict[str, Any]:
        """What a table file has to declare; nothing where that is nothing."""
        schema = self.records.schema if self.reading.schema.visits is None else self.reading.schema
        found = schema.entries()
        columns = {name: each for name, each in found["columns"].items() if each}
        return found | {"columns": columns} if columns or schema.visits else {}

    @property
    def options(self) -> list[str]:
        """What the command line needs to read the same columns from the same file."""
        kept, reading = self.records.schema.file_columns, self.reading
        asked = [part for name, value in self.held.value.asked.items() for part in (f"--{name}", value)]
        asked += ["--complete-cases"] if reading.complete_cases else []
        asked += ["--rows-are-people"] if reading.rows_are_people else []
        asked += [part for name in self.keep for part in ("--keep", name)]
        asked += ["--missing", self.missing] if self.missing != REFUSE else []
        asked += ["--model", CLASSES, "--classes", f"{self.classes}"] if self.classes else []
        asked += ["--cells", self.cells.replace(" ", "-")] if self.cells != MAIN_EFFECTS else []
        if self.held.value.header:
            named = reading.columns or reading.measured or reading.drop_unusable
            keys = 0 if reading.schema.visits is None else 2  # which stand first
            return asked + [part for name in kept[keys:] if named for part in ("--columns", name)]
        left_out = [name for name in self.held.value.names if name not in kept]
        return [*asked, "--no-header", *(part for name in left_out for part in ("--drop", name))]

    @property
    def simulated(self) -> bool:
        """Whether it is the embedded cohort, in which nobody is real."""
        return self.held is _COHORT


# `measured=yes`: the columns that look like identifiers are measurements, says the user
TABLE = Group(
    "The table", (Hidden("table", "Table", COHORT), Hidden("measured", "Measured", "no", reset_by="table"))
)
PRIOR = Group(
    "The prior",
    (
        Choice(
            "prior", "Written down before seeing the data", "flat",
            "The holder's normal-inverse-Wishart prior (paper 2.2). The flat one says nothing of the data and "
            "needs more rows than columns. None may come from this table: that would void every risk figure.",
            {"flat": "flat: no units, nothing assumed", "public": "from public knowledge"},
        ),
    ),
)  # fmt: skip
PUBLIC = Group(
    "What it is worth",
    (
        Number(
            "weight", "Weight of the centres, κ₀", "1",
            "μₓ = (κ₀μ₀ + n·x̄)/(κ₀ + n): worth κ₀ records (paper 2.2).", 1e-3, 1e6, 0.1,
        ),
        Number("extra", "Degrees of freedom beyond p, ν₀ − p", "2", "νₓ = ν₀ + n (2.2).", 1.001, 1e6, 0.1),
    ),
    "prior=public",
)  # fmt: skip
MODEL = Group(
    "The model",
    (
        Choice(
            "model", "How columns go together", "",
            "One bell curve for all, around a centre for each combination of categories; or several classes of "
            "people, each with its own, which keep several peaks and bent relations. Choose once, and before you "
            "look at what comes out: a choice by the table tells of it.",
            {"": "one bell curve", CLASSES: "classes of people"},
        ),
        Whole("classes", "Classes, at most", f"{CLASSES_BY_DEFAULT}", "Those not needed stay empty.", 1, 100,
              only=f"model={CLASSES}"),
        Choice(
            "cells", "Cells of the categories", MAIN_EFFECTS,
            "Every combination of levels is a cell. They share one spread, each level moving the centre; or each "
            "has a centre and a spread of its own, which takes many people in each.",
            {MAIN_EFFECTS: "one spread for all", SEPARATE: "each its own"}, only="model=",
        ),
    ),
)  # fmt: skip
WITHOUT = Group("Who is left out", (Hidden("leave", "Rows left out", reset_by="table"),))
SOURCE_GROUPS = (TABLE, declared.VISITS, declared.GAPS, MODEL, PRIOR, PUBLIC, WITHOUT)
COLUMNS = "columns"  # ticks, of which there are as many as the table has
READ = (
    COLUMNS,
    *declared.READ_FIELDS,
    *names((TABLE, declared.VISITS, declared.GAPS, WITHOUT)),
    "model",
)  # decides the records
CARRIED = (
    *READ,
    f"{declared.KEEP.name}-",
    *declared.PUBLIC_FIELDS,
    *names((MODEL, PRIOR, PUBLIC), but=("model",)),
)

_COHORT = Held(
    declared.Uploaded(
        "the demo cohort", pa.table(dict(zip(demo_cohort().columns, demo_cohort().values.T, strict=True)))
    )
)


def table_of(query: Mapping[str, str], context: RequestContext) -> Held:
    """Return the table that an address names, of which nothing is checked yet."""
    name = query.get("table", COHORT)
    return (
        _COHORT if name == COHORT else context.session.find(name, declared.Uploaded, "The table of this address")
    )


def chosen(query: QueryParams, context: RequestContext) -> Chosen:
    """Return the records and the prior that an address names, or say all that is wrong with them."""
    held, asked = table_of(query, context), read(SOURCE_GROUPS, query)
    columns, public = ticked_columns(query), asked["prior"] == "public"
    said = declared.declaration(query, held, asked)
    said.require_visits()
    keep, reading = declared.kept_columns(query, held.value.names), reading_of(columns, held, asked, said)
    need_prior = [column for column in said.schema.measurements if public and column.name not in keep]
    records = _admitted(held, reading, said.problems, Schema(tuple(need_prior)))
    visits = said.schema.visits
    keep = keep if visits is None else tuple(each for name in keep for each in visits.names(name))
    keep = tuple(name for name in keep if name in records.order)
    drawn, classes = [name for name in records.columns if name not in keep], 0
    if asked["model"] == CLASSES:
        classes = asked["classes"]
    else:
        require_measurements(drawn)
    prior, note = _prior(said, records.select(drawn), asked, held, reading) if drawn else (NIW.flat(1), "")
    table = Chosen(held.value.name, records, prior, note, held, reading, public, keep)
    if reading.gaps and records.has_gaps:
        table = replace(table, missing=asked["gaps"])
    if records.categories.columns and not classes:
        table = replace(table, cells=asked["cells"])
    table = replace(table, classes=classes)
    if table.is_mixed:
        assert table.synthesizer  # what cannot be drawn is refused before anyone asks for it
    return table


def ticked_columns(query: QueryParams) -> tuple[str, ...]:
    """Return the columns that an address ticks; none for all."""
    columns = tuple(query.getlist(COLUMNS))
    if COLUMNS in query and not any(columns):
        raise FieldError(COLUMNS, "none is ticked", "tick at least one", where="The columns")
    return columns


def reading_of(
    columns: tuple[str, ...], held: Held, asked: Mapping[str, Any], said: declared.Declaration
) -> Reading:
    """Return how an address says that a table is read."""
    computed = said.schema.derived_names
    ticked = [name for name in columns or held.value.names if name not in said.keys]
    used = said.schema.for_columns([name for name in ticked if name not in computed]).columns
    derived = tuple(column for column in said.schema.derived if column.name in ticked)
    return Reading(
        columns,
        asked["measured"] == "yes",
        Schema(
            tuple(replace(column, centre=None, spread=None) for column in used),
            derived=derived,
            visits=said.schema.visits,
        ),
        asked["gaps"] == "leave-out",
        asked["unusable"] == "leave-out",
        asked["repeats"] == "people",
        asked["gaps"] in (IMPUTE, KEEP_GAPS),
        asked["model"] == CLASSES,
        rows_in(asked["leave"], held.value.content.num_rows),
    )


def rows_in(text: str, rows: int) -> tuple[int, ...]:
    """Return the numbers of rows between commas, all of which the table has."""
    found = [part.strip() for part in text.split(",") if part.strip()]
    if wrong := [part for part in found if not (part.isascii() and part.isdecimal() and 1 <= int(part) <= rows)]:
        raise FieldError(
            "leave",
            f"{wrong[0][:60]!r} is none of this table",
            f"give rows from 1 to {rows:,}",
            where="Rows left out",
        )
    return tuple(sorted({int(part) for part in found}))


def _prior(
    said: declared.Declaration, measured: Records, asked: Mapping[str, Any], held: Held, reading: Reading
) -> tuple[NIW, str]:
    """Return the prior of the measurements that are drawn, and what there is to note of it."""
    drawn, p = measured.columns, len(measured.columns)
    if asked["prior"] != "public":
        if asked["model"] != CLASSES and len(measured.values) <= p + 1:
            raise FieldError(
                "prior",
                f"{len(measured.values)} rows are too few for {p} columns without one",
                "choose one from public knowledge, or fewer columns",
                where="The prior",
            )
        return NIW.flat(p), ""
    wide = said.schema.widened()
    known = [wide.column(name) for name in drawn]
    entries = {key: [getattr(column, key) for column in known] for key in ("centre", "spread")}
    entries |= {"mean_weight": asked["weight"], "df": p + asked["extra"]}
    prior = prior_from(entries, drawn, measured.schema)
    moments = held.get_or_compute(("moments", reading, drawn), lambda: Moments.of(measured.without_gaps().values))
    return prior, prior_conflict(prior, moments, drawn) or ""


def _admitted(held: Held, reading: Reading, faults: Sequence[Problem], prior_of: Schema) -> Records:
    """Return the records, or refuse them with all that stands against any column.

    `faults`: of the fields; `prior_of`: of the columns that need a centre and a spread.
    """
    ticked, records = reading.columns or held.value.names, None
    problems = [fault for fault in faults if fault.column in ticked]
    try:
        records = records_of(held, reading)
    except ColumnsError as error:
        wrong = {fault.column for fault in problems}
        problems += [problem for problem in error.problems if problem.column not in wrong]
    of_file = reading.schema.of_file
    refused = {of_file(problem.column) for problem in problems}
    problems += [
        Problem(name, "has no centre and spread, and the prior is from public knowledge", (CENTRE_AND_SPREAD,))
        for name in (ticked if records is None else dict.fromkeys(map(of_file, records.columns)))
        if name not in refused and prior_of.declares(name) and prior_of.column(name).centre is None
    ]
    if records is None or problems:
        raise refusal(problems)
    return records


def records_of(held: Held, reading: Reading) -> Records:
    """Return the records of a table, read once for all pages."""
    return held.get_or_compute(("records", reading), lambda: _records(held.value, reading))


def which_columns(table: declared.Uploaded, reading: Reading) -> tuple[dict[str, Any], list[Problem]]:
    """Return how the ticked columns are asked for, all of them where none is named, and those with a bad name.

    Those not ticked are left out, rather than the others named: of columns named the gate believes that they
    identify nobody, and a tick left where it was does not say so.
    """
    names, visits = table.names, reading.schema.visits
    keys = () if visits is None else (visits.person, visits.visit)
    ticked = [name for name in reading.columns or names if name not in keys]
    bad = declared.name_problems([name for name in ticked if name in names], table.content.column_names)
    badly_named = {problem.column for problem in bad}
    kept = [name for name in ticked if name not in badly_named]
    if not kept:
        raise refusal(bad)
    people = [name for name in kept if reading.measured and is_person(name)]
    if people:  # whatever somebody says: a column that is named after people is no measurement
        raise refusal([*bad, *(Problem(name, NAMES_PEOPLE, is_name=True) for name in people)])
    if reading.measured or any(name not in names for name in ticked):
        return {"columns": kept}, bad
    return {"drop": [name for name in names if name not in (*kept, *keys)]}, bad


def _records(table: declared.Uploaded, reading: Reading) -> Records:
    """Return the ticked columns."""
    which, bad = which_columns(table, reading)
    try:
        records = Records.of(
            table.content,
            **which,
            schema=reading.schema,
            complete_cases=reading.complete_cases,
            drop_unusable=reading.drop_unusable,
            rows_are_people=reading.rows_are_people,
            gaps=reading.gaps,
            many_cells=reading.many_cells,
            categories=True,
        )
    except ColumnsError as error:
        raise refusal([*bad, *error.problems]) from error
    if reading.without:
        records = _without(records, reading.without)
    if not bad:
        return records
    if not reading.drop_unusable:
        raise refusal(bad)
    left_out = "".join(f"\n  {problem.column!r} {problem.words}" for problem in bad)
    return replace(records, notes=(f"Left out {counted(len(bad), 'column')}:{left_out}", *records.notes))


def _without(records: Records, rows: tuple[int, ...]) -> Records:
    """Return the records without some people, and say so."""
    out = np.isin(records.rows, rows)
    left, named = records.take(np.flatnonzero(~out)), listed(list(map(records.who, np.flatnonzero(out).tolist())))
    return replace(left, notes=(f"Left out as you chose: {named}.", *left.notes))
