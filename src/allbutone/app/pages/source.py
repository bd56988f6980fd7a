"""Which table, which of its columns, and which prior: what the pages about one's own data share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from starlette.datastructures import QueryParams

from allbutone.app.forms import Choice, FieldError, Group, Hidden, Number, names, read
from allbutone.app.page import Held, RequestContext
from allbutone.app.pages import columns as declared
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_conflict, prior_from
from allbutone.releases.mechanism import require_measurements
from allbutone.releases.synthesizer import Synthesizer
from allbutone.support.text import counted
from allbutone.tables.admission import ColumnsError, Problem, refusal
from allbutone.tables.records import Records, demo_cohort
from allbutone.tables.schema import Schema

COHORT = "cohort"


@dataclass(frozen=True)
class Reading:
    """How a table is read; `columns` are those ticked, none for all of them. Equal ones give equal records."""

    columns: tuple[str, ...]
    measured: bool
    schema: Schema
    complete_cases: bool
    drop_unusable: bool
    rows_are_people: bool


@dataclass(frozen=True, eq=False)
class Chosen:
    """The records and the prior that a page is about; `held` keeps what is computed of them, under `key`.

    `reading`: how they were read; `public`: the prior, of the measurements that are drawn, was typed in; `keep`:
    the columns that go out as they are.
    """

    name: str
    records: Records
    prior: NIW
    note: str
    held: Held
    reading: Reading
    public: bool
    keep: tuple[str, ...]

    @property
    def drawn(self) -> tuple[str, ...]:
        """The measurements that are not kept."""
        return tuple(name for name in self.records.columns if name not in self.keep)

    @property
    def is_mixed(self) -> bool:
        """Whether there are categories or columns to keep: then less can be said before a release is drawn."""
        return bool(self.records.categories.columns or self.keep)

    @property
    def synthesizer(self) -> Synthesizer:
        """What draws releases of it."""
        return self.held.get_or_compute(
            ("fitted", *self.key), lambda: Synthesizer(self.prior, keep=self.keep).fit(self.records)
        )

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells two of one table apart: how it is read, the prior, and what is kept."""
        prior = self.prior
        numbers = (*prior.mean.tolist(), prior.mean_weight, prior.df, *np.diagonal(prior.scale).tolist())
        return (self.reading, numbers, self.keep)

    @property
    def entries(self) -> dict[str, Any]:
        """What a table file has to declare, by column."""
        return {name: found for name, found in self.records.schema.entries()["columns"].items() if found}

    @property
    def options(self) -> list[str]:
        """What the command line needs to read the same columns from the same file."""
        kept, reading = self.records.order, self.reading
        asked = [part for name, value in self.held.thing.asked.items() for part in (f"--{name}", value)]
        asked += ["--complete-cases"] if reading.complete_cases else []
        asked += ["--rows-are-people"] if reading.rows_are_people else []
        asked += [part for name in self.keep for part in ("--keep", name)]
        if self.held.thing.header:
            named = reading.columns or reading.measured or reading.drop_unusable
            return asked + [part for name in kept if named for part in ("--columns", name)]
        left_out = [name for name in self.held.thing.names if name not in kept]
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
SOURCE_GROUPS = (TABLE, declared.GAPS, PRIOR, PUBLIC)
COLUMNS = "columns"  # ticks, of which there are as many as the table has
READ = (COLUMNS, *declared.READ_FIELDS, *names((TABLE, declared.GAPS)))  # all that decides the records
CARRIED = (*READ, f"{declared.KEEP.name}-", *declared.PUBLIC_FIELDS, *names((PRIOR, PUBLIC)))

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
    columns, public = tuple(query.getlist(COLUMNS)), asked["prior"] == "public"
    if COLUMNS in query and not any(columns):
        raise FieldError(COLUMNS, "none is ticked", "tick at least one", where="The columns")
    said = declared.declaration(query, held, asked)
    keep = declared.kept_columns(query, held.thing.names)
    used = said.schema.for_columns(columns or held.thing.names).columns
    reading = Reading(
        columns,
        asked["measured"] == "yes",
        Schema(tuple(replace(column, centre=None, spread=None) for column in used)),
        asked["gaps"] == "leave-out",
        asked["unusable"] == "leave-out",
        asked["repeats"] == "people",
    )
    need_prior = [column for column in said.schema.measurements if public and column.name not in keep]
    records = _admitted(held, reading, said.problems, Schema(tuple(need_prior)))
    keep = tuple(name for name in keep if name in records.order)
    drawn = [name for name in records.columns if name not in keep]
    require_measurements(drawn)
    p = len(drawn)
    prior, note = NIW.flat(p), ""
    if public:
        known = [said.schema.column(name) for name in drawn]
        entries = {key: [getattr(column, key) for column in known] for key in ("centre", "spread")}
        entries |= {"mean_weight": asked["weight"], "df": p + asked["extra"]}
        measured = records.select(drawn)
        prior = prior_from(entries, drawn, measured.schema)
        moments = held.get_or_compute(("moments", reading, keep), lambda: Moments.of(measured.values))
        note = prior_conflict(prior, moments, drawn) or ""
    elif len(records.values) <= len(records.columns) + 1:
        raise FieldError(
            "prior",
            f"{len(records.values)} rows are too few for {len(records.columns)} columns without one",
            "choose one from public knowledge, or fewer columns",
            where="The prior",
        )
    table = Chosen(held.thing.name, records, prior, note, held, reading, public, keep)
    if table.is_mixed:
        assert table.synthesizer  # what cannot be drawn is refused before anyone asks for it
    return table


def _admitted(held: Held, reading: Reading, faults: Sequence[Problem], prior_of: Schema) -> Records:
    """Return the records, or refuse them with all that stands against any column.

    `faults`: of the fields; `prior_of`: of the columns that need a centre and a spread.
    """
    ticked, records = reading.columns or held.thing.names, None
    problems = [fault for fault in faults if fault.column in ticked]
    try:
        records = held.get_or_compute(("records", reading), lambda: _records(held.thing, reading))
    except ColumnsError as error:
        wrong = {fault.column for fault in problems}
        problems += [problem for problem in error.problems if problem.column not in wrong]
    refused = {problem.column for problem in problems}
    cure = "give both in its own units, at “Centre” and “Spread”"
    problems += [
        Problem(name, "has no centre and spread, and the prior is from public knowledge", (cure,))
        for name in (ticked if records is None else records.columns)
        if name not in refused and prior_of.declares(name) and prior_of.column(name).centre is None
    ]
    if records is None or problems:
        raise refusal(problems)
    return records


def _records(table: declared.Uploaded, reading: Reading) -> Records:
    """Return the ticked columns; all of them where none is named.

    Those not ticked are left out, rather than the others named: of columns named the gate believes that they
    identify nobody, and a tick left where it was does not say so.
    """
    ticked, names = reading.columns or table.names, table.names
    bad = declared.name_problems([name for name in ticked if name in names], table.content.column_names)
    badly_named = {problem.column for problem in bad}
    kept = [name for name in ticked if name not in badly_named]
    if not kept:
        raise refusal(bad)
    named = reading.measured or any(name not in names for name in ticked)
    try:
        records = Records.of(
            table.content,
            columns=kept if named else None,
            drop=None if named else [name for name in names if name not in kept],
            schema=reading.schema,
            complete_cases=reading.complete_cases,
            drop_unusable=reading.drop_unusable,
            rows_are_people=reading.rows_are_people,
            categories=True,
        )
    except ColumnsError as error:
        raise refusal([*bad, *error.problems]) from error
    if not bad:
        return records
    if not reading.drop_unusable:
        raise refusal(bad)
    left_out = "".join(f"\n  {problem.column!r} {problem.words}" for problem in bad)
    return replace(records, notes=(f"Left out {counted(len(bad), 'column')}:{left_out}", *records.notes))
