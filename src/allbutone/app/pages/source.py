"""Which table, which of its columns, and which prior: what the pages about one's own data share."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from starlette.datastructures import QueryParams

from allbutone.app.answer import Answer
from allbutone.app.forms import Choice, FieldError, Group, Hidden, Number, names, read
from allbutone.app.page import RequestContext, templates
from allbutone.app.pages.columns import GAPS, PUBLIC_FIELDS, READ_FIELDS, declared, name_problems
from allbutone.app.sessions import Held
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_check import prior_conflict
from allbutone.model.prior_file import prior_from
from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.admission import ColumnsError, Problem, refusal
from allbutone.tables.declared.schema import Schema
from allbutone.tables.demo import demo_cohort
from allbutone.tables.files import FORMATS, READABLE, format_of, read_table
from allbutone.tables.formats.limits import Limits
from allbutone.tables.names import check_names, reads_as_data
from allbutone.tables.records import Records

COHORT = "cohort"
# Of an upload, known before it is read. At 200 columns the budget takes minutes; 20 million values are a million
# records of 20 columns, 160 MB, and as much again while they are read.
LIMITS = Limits(columns=200, values=20_000_000, bytes=400_000_000)
templates.globals |= {"LIMITS": LIMITS, "ENDINGS": ",".join(FORMATS)}


@dataclass(frozen=True, eq=False)
class Uploaded:
    """A table as it came; without a `header` its first line was a record, and its columns are x1, x2, …

    `asked`: the encoding or the sheet that was chosen, by name.
    """

    name: str
    content: pa.Table
    header: bool = True
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its columns, each once: a column's place among them names its fields."""
        return tuple(dict.fromkeys(self.content.column_names))


@dataclass(frozen=True)
class Reading:
    """How a table is read; `columns` are those ticked, none for all of them. Equal ones give equal records."""

    columns: tuple[str, ...]
    measured: bool
    schema: Schema
    complete_cases: bool
    drop_unusable: bool


@dataclass(frozen=True, eq=False)
class Chosen:
    """The records and the prior that a page is about; `held` keeps what is computed of them, under `key`.

    `reading`: how they were read; `public`: the prior was typed in.
    """

    name: str
    records: Records
    prior: NIW
    note: str
    held: Held
    reading: Reading
    public: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells two of one table apart: how it is read, and the prior."""
        prior = self.prior
        numbers = (*prior.mean.tolist(), prior.mean_weight, prior.df, *np.diagonal(prior.scale).tolist())
        return (self.reading, numbers)

    @property
    def entries(self) -> dict[str, Any]:
        """What a table file has to declare, by column."""
        return {name: found for name, found in self.records.schema.entries()["columns"].items() if found}

    @property
    def options(self) -> list[str]:
        """What the command line needs to read the same columns from the same file."""
        kept, reading = self.records.columns, self.reading
        asked = [part for name, value in self.held.thing.asked.items() for part in (f"--{name}", value)]
        asked += ["--complete-cases"] if reading.complete_cases else []
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
GROUPS = (TABLE, GAPS, PRIOR, PUBLIC)
COLUMNS = "columns"  # ticks, of which there are as many as the table has
READ = (COLUMNS, *READ_FIELDS, *names((TABLE, GAPS)))  # all that decides the records
CARRIED = (*READ, *PUBLIC_FIELDS, *names((PRIOR, PUBLIC)))

_COHORT = Held(
    Uploaded("the demo cohort", pa.table(dict(zip(demo_cohort().columns, demo_cohort().values.T, strict=True))))
)


def table_of(query: Mapping[str, str], context: RequestContext) -> Held:
    """Return the table that an address names, of which nothing is checked yet."""
    name = query.get("table", COHORT)
    return _COHORT if name == COHORT else context.session.find(name, Uploaded, "The table of this address")


def chosen(query: QueryParams, context: RequestContext) -> Chosen:
    """Return the records and the prior that an address names, or say all that is wrong with them."""
    held, asked = table_of(query, context), read(GROUPS, query)
    columns, public = tuple(query.getlist(COLUMNS)), asked["prior"] == "public"
    if COLUMNS in query and not any(columns):
        raise FieldError(COLUMNS, "none is ticked", "tick at least one", where="The columns")
    schema, faults = declared(query, held.thing.names, asked["codes"], public)
    reading = Reading(
        columns,
        asked["measured"] == "yes",
        _without_prior(schema.for_columns(columns or held.thing.names)),
        asked["gaps"] == "leave-out",
        asked["unusable"] == "leave-out",
    )
    records = _admitted(held, reading, faults, schema if public else None)
    p = len(records.columns)
    prior, note = NIW.flat(p), ""
    if public:
        known = [schema.column(name) for name in records.columns]
        entries = {key: [getattr(column, key) for column in known] for key in ("centre", "spread")}
        entries |= {"mean_weight": asked["weight"], "df": p + asked["extra"]}
        prior = prior_from(entries, records.columns, records.schema)
        moments = held.get_or_compute(("moments", reading), lambda: Moments.of(records.values))
        note = prior_conflict(prior, moments, records.columns) or ""
    elif len(records.values) <= p + 1:
        raise FieldError(
            "prior",
            f"{len(records.values)} rows are too few for {p} columns without one",
            "choose one from public knowledge, or fewer columns",
            where="The prior",
        )
    return Chosen(held.thing.name, records, prior, note, held, reading, public)


def _without_prior(schema: Schema) -> Schema:
    return Schema(tuple(replace(column, centre=None, spread=None) for column in schema.columns))


def _admitted(held: Held, reading: Reading, faults: list[Problem], prior_of: Schema | None) -> Records:
    """Return the records, or refuse them with all that stands against any column.

    `faults`: of the fields; `prior_of`: what must give every column a centre and a spread.
    """
    ticked, records = reading.columns or held.thing.names, None
    problems = [fault for fault in faults if fault.column in ticked]
    try:
        records = held.get_or_compute(("records", reading), lambda: _records(held.thing, reading))
    except ColumnsError as error:
        wrong = {fault.column for fault in problems}
        problems += [problem for problem in error.problems if problem.column not in wrong]
    if prior_of is not None:
        refused = {problem.column for problem in problems}
        cure = "give both in its own units, at “Centre” and “Spread”"
        problems += [
            Problem(name, "has no centre and spread, and the prior is from public knowledge", (cure,))
            for name in (ticked if records is None else records.columns)
            if name not in refused and prior_of.column(name).centre is None
        ]
    if records is None or problems:
        raise refusal(problems)
    return records


def _records(table: Uploaded, reading: Reading) -> Records:
    """Return the ticked columns; all of them where none is named.

    Those not ticked are left out, rather than the others named: of columns named the gate believes that they
    identify nobody, and a tick left where it was does not say so.
    """
    ticked, names = reading.columns or table.names, table.names
    bad = name_problems([name for name in ticked if name in names], table.content.column_names)
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
        )
    except ColumnsError as error:
        raise refusal([*bad, *error.problems]) from error
    if not bad:
        return records
    if not reading.drop_unusable:
        raise refusal(bad)
    left_out = "".join(f"\n  {problem.column!r} {problem.words}" for problem in bad)
    return replace(records, notes=(f"Left out {counted(len(bad), 'column')}:{left_out}", *records.notes))


def sent_file(query: QueryParams, place: Path, readable: str) -> Path:
    """Return the file that was sent under the name that it has with its owner."""
    name = Path(query.get("name", "")).name
    if not name:
        raise InputError("the file has no name", f"choose a {readable} file")
    try:
        return place.rename(place.with_name(name))
    except (OSError, ValueError) as error:
        raise InputError(f"a file cannot be called {name[:60]!r} here", "give it a short, plain name") from error


def upload(query: QueryParams, context: RequestContext, place: Path) -> Answer:
    """Read a file that was sent, and keep it for the session; the file itself goes at once."""
    named = sent_file(query, place, READABLE)
    # controls that this kind of file has no use for are left as they are
    takes = format_of(named).options
    header = query.get("header") != "no" or "header" not in takes
    asked: dict[str, str] = {
        option: query[option] for option in ("encoding", "sheet") if query.get(option) and option in takes
    }
    content = read_table(named, header=header, limits=LIMITS, **asked)
    # names are shown as ticks and stand in addresses, so what may be someone's data is refused at once
    check_names([column for column in content.column_names if reads_as_data(column)])
    table = Uploaded(named.name, content, header, asked)
    return Answer(fields={"table": context.session.keep(table, content.nbytes)})
