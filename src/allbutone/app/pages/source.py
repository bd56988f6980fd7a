"""Which table, which of its columns, and which prior: what the pages about one's own data share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from starlette.datastructures import QueryParams

from allbutone.app.answer import Answer
from allbutone.app.forms import Choice, FieldError, Group, Hidden, Number, Numbers, every, names, read
from allbutone.app.page import RequestContext, templates
from allbutone.app.sessions import Held
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_check import prior_conflict
from allbutone.model.prior_file import prior_from
from allbutone.support.errors import InputError
from allbutone.tables.demo import demo_cohort
from allbutone.tables.files import FORMATS, READABLE, format_of, read_table
from allbutone.tables.limits import Limits
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


@dataclass(frozen=True, eq=False)
class Chosen:
    """The records and the prior that a page is about; `held` keeps what is computed of them, under `key`.

    `named`: the columns were chosen, or said to be measurements; `public`: the prior was typed in.
    """

    name: str
    records: Records
    prior: NIW
    note: str
    held: Held
    named: bool
    public: bool

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells two of one table apart: the columns in their order, and the prior."""
        prior = self.prior
        numbers = (*prior.mean.tolist(), prior.mean_weight, prior.df, *np.diagonal(prior.scale).tolist())
        return (self.records.columns, numbers)

    @property
    def options(self) -> list[str]:
        """What the command line needs to read the same columns from the same file."""
        kept, every_name = self.records.columns, tuple(dict.fromkeys(self.held.thing.content.column_names))
        asked = [part for name, value in self.held.thing.asked.items() for part in (f"--{name}", value)]
        if self.held.thing.header:
            return asked + [part for name in kept if self.named for part in ("--columns", name)]
        left_out = [name for name in every_name if name not in kept]
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
    "What is publicly known",
    (
        Numbers(
            "centre", "Centres", "0",
            "What public sources say of each column's mean, between commas, in the columns' order; the last one "
            "stands for all that follow.", -1e12, 1e12,
        ),
        Numbers("spread", "Spreads", "1", "And of each column's standard deviation, likewise.", 1e-9, 1e12),
        Number(
            "weight", "Weight of the centres, κ₀", "1",
            "μₓ = (κ₀μ₀ + n·x̄)/(κ₀ + n): worth κ₀ records (paper 2.2).", 1e-3, 1e6, 0.1,
        ),
        Number("extra", "Degrees of freedom beyond p, ν₀ − p", "2", "νₓ = ν₀ + n (2.2).", 1.001, 1e6, 0.1),
    ),
    "prior=public",
)  # fmt: skip
GROUPS = (TABLE, PRIOR, PUBLIC)
COLUMNS = "columns"  # ticks, of which there are as many as the table has
CARRIED = (COLUMNS, *names(GROUPS))

_COHORT = Held(
    Uploaded("the demo cohort", pa.table(dict(zip(demo_cohort().columns, demo_cohort().values.T, strict=True))))
)


def table_of(query: Mapping[str, str], context: RequestContext) -> Held:
    """Return the table that an address names, of which nothing is checked yet."""
    name = query.get("table", COHORT)
    return _COHORT if name == COHORT else context.session.find(name, Uploaded, "The table of this address")


def chosen(query: QueryParams, context: RequestContext) -> Chosen:
    """Return the records and the prior that an address names, or say what is wrong with them."""
    held, asked = table_of(query, context), read(GROUPS, query)
    columns = tuple(query.getlist("columns"))
    if "columns" in query and not any(columns):
        raise FieldError(COLUMNS, "none is ticked", "tick at least one", where="Columns")
    taken = asked["measured"] == "yes"
    records = held.get_or_compute(
        ("records", columns, taken), lambda: _records(held.thing.content, columns, taken)
    )
    p, public = len(records.columns), asked["prior"] == "public"
    prior, note = NIW.flat(p), ""
    if public:
        numbers = {name: _for_each(name, asked[name], p) for name in ("centre", "spread")}
        prior = prior_from({**numbers, "mean_weight": asked["weight"], "df": p + asked["extra"]}, records.columns)
        moments = held.get_or_compute(("moments", records.columns), lambda: Moments.of(records.values))
        note = prior_conflict(prior, moments, records.columns) or ""
    elif len(records.values) <= p + 1:
        raise FieldError(
            "prior",
            f"{len(records.values)} rows are too few for {p} columns without one",
            "choose one from public knowledge, or fewer columns",
            where="The prior",
        )
    return Chosen(held.thing.name, records, prior, note, held, bool(columns) or taken, public)


def _records(content: pa.Table, columns: tuple[str, ...], measured: bool) -> Records:
    """Return the ticked columns; all of them where none is named.

    Those not ticked are left out, rather than the others named: of columns named the gate believes that they
    identify nobody, and a tick left where it was does not say so.
    """
    names = tuple(content.column_names)
    unknown = [name for name in columns if name not in names]
    if measured or unknown:
        return Records.of(content, columns=columns or tuple(dict.fromkeys(names)))
    return Records.of(content, drop=[name for name in dict.fromkeys(names) if columns and name not in columns])


def _for_each(name: str, numbers: tuple[float, ...], p: int) -> list[float]:
    if len(numbers) > p:
        label = every(GROUPS)[name].label
        raise FieldError(name, f"{len(numbers)} numbers for the {p} columns", "leave some out", where=label)
    return Numbers.spread(numbers, p)


def upload(query: QueryParams, context: RequestContext, place: Path) -> Answer:
    """Read a file that was sent, and keep it for the session; the file itself goes at once."""
    name = Path(query.get("name", "")).name
    if not name:
        raise InputError("the file has no name", f"choose a {READABLE} file")
    try:
        named = place.rename(place.with_name(name))
    except (OSError, ValueError) as error:
        raise InputError(f"a file cannot be called {name[:60]!r} here", "give it a short, plain name") from error
    # controls that this kind of file has no use for are left as they are
    takes = format_of(named).options
    header = query.get("header") != "no" or "header" not in takes
    asked: dict[str, str] = {
        option: query[option] for option in ("encoding", "sheet") if query.get(option) and option in takes
    }
    content = read_table(named, header=header, limits=LIMITS, **asked)
    # names are shown as ticks and stand in addresses, so what may be someone's data is refused at once
    check_names([column for column in content.column_names if reads_as_data(column)])
    return Answer(fields={"table": context.session.keep(Uploaded(name, content, header, asked), content.nbytes)})
