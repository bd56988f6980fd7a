"""Budget, the third step: how much may be released, who sets the limit, what would allow more, and one record."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from starlette.datastructures import QueryParams

from allbutone.adversary import landscape
from allbutone.app import forms
from allbutone.app.jobs import Answer, Download, Progress, as_csv
from allbutone.app.page import Page, RequestContext, Source, piece
from allbutone.app.pages import columns as declared
from allbutone.app.pages import forecast, record, source
from allbutone.app.pages.mend import write_table_file
from allbutone.disclosure.budget import Alternative, Budget, changes_of, stronger_prior
from allbutone.disclosure.epsilon import epsilon_of_one
from allbutone.disclosure.question import EVIDENCE
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import ToldValues
from allbutone.figures.attack_view import view_drawing
from allbutone.figures.budget import budget_figure, records_figure
from allbutone.figures.export import untitled
from allbutone.releases.several import known_columns
from allbutone.reports.verdict import values_at
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, joined
from allbutone.tables.visits import Visits

MOST_SHOWN = 1000  # records in the page's table
FIRST = 25  # of them at first

RELEASE = forms.Group(
    "What would be released",
    (
        forecast.RELEASE_KIND,
        forecast.ROWS,
        forecast.PROBABILITY,
        forms.Whole(
            "count", "After how many to look at the people", "",
            "So many datasets, or draws, in all: the chances listed, and the trial release that a record is shown "
            "with. Left empty: as many as the budget allows, one at least.",
            1, 1000, 1, blank=0,
        ),
    ),
)  # fmt: skip
LACKING = forms.Group(
    "What the adversary lacks",
    (
        forms.Whole(
            "missing", "Records, besides the one looked at", "0",
            "The usual adversary has every record but one. One who lacks more, chosen at random, has to infer "
            "them together, and learns less. For the record that is opened only; the budget is for the usual one.",
            0, record.MOST_MISSING, 1,
        ),
        forms.Field(
            "without", "Columns of everyone", "",
            "Names between commas: who lacks these columns, the record's own included, attacks by the others. For "
            "the record that is opened only.", reset_by="table",
        ),
    ),
    folded=True,
)  # fmt: skip
SEEN = forms.Group(
    "What is shown",
    (
        source.TABLE.fields[0],
        forms.Hidden("try", "What is tried", reset_by="table"),
        forms.HiddenWhole("shown", "Records listed", f"{FIRST}", "", 1, MOST_SHOWN, reset_by="table"),
        forms.Hidden("row", "Row", reset_by="table"),
        forms.Hidden("x", "Across", reset_by="table"),
        forms.Hidden("y", "Upwards", reset_by="table"),
        forms.Hidden("hidden", "The other columns", "mode"),
    ),
)
GROUPS = (RELEASE, LACKING, SEEN)

# What would pass, as switches: each is a change of the address, tried before it is applied.


@dataclass(frozen=True)
class Switch:
    """A change that may allow more; `key` names it in an address: size-50, leave-212, column-4, prior.

    Of a long table visit-4-2 leaves out the fourth column at the second of its visits.
    """

    key: str
    words: str
    is_on: bool = False


def switch_keys(query: Mapping[str, str]) -> list[str]:
    """Return the switches that an address has on."""
    return [key for key in query.get("try", "").split(",") if key]


def switched(query: QueryParams, names: tuple[str, ...]) -> QueryParams:
    """Return the address with the changes that are tried made in it, but for the prior, which has no numbers.

    A budget is for releases without a guarantee, whether the next one is to have one or not.
    """
    taken = {name: query.getlist(name) for name in query if name not in ("try", "guarantee")}
    for kind, _, rest in (key.partition("-") for key in switch_keys(query)):
        places = [part for part in rest.split("-") if part.isascii() and part.isdecimal()]
        if kind == "size" and places:
            taken["rows"] = places[:1]
        elif kind == "leave":
            others = [row for row in taken.get("leave", [""])[-1].split(",") if row]
            taken["leave"] = [",".join(dict.fromkeys([*others, *places]))]
        elif kind == "column":
            gone = {names[int(place) - 1] for place in places if 1 <= int(place) <= len(names)}
            left = [name for name in taken.get(source.COLUMNS) or names if name not in gone]
            taken[source.COLUMNS] = left or [""]
        elif kind == "visit" and len(places) == 2:
            field = f"{declared.MORE.name}-{places[0]}"
            so_far = {name: texts[-1] for name, texts in taken.items() if texts}
            taken[field] = [declared.without_visit(so_far, *map(int, places))]
    return QueryParams([(name, text) for name, texts in taken.items() for text in texts])


def switches_of(plan: Budget, names: tuple[str, ...], visits: Visits | None, on: list[str]) -> list[Switch]:
    """Return what could be changed, as the budget of the table as it is proposes it.

    visits: of a long table. A column on a line is left out at all visits or at none.
    """
    case = plan.case
    wished: list[Alternative] = list(plan.alternatives)
    if not wished and case.has_law and not case.mechanism.keep:
        wished = list(changes_of(case, case.records.place_of(plan.limiting_row), plan.limiting_column, ()))
    found = []
    for one in wished:
        assert one.case is not None
        gone = np.setdiff1d(case.records.rows, one.case.records.rows)
        if one.rows is not None:
            key = f"size-{one.rows}"
        elif len(gone):
            key = "-".join(["leave", *map(str, gone.tolist())])
        elif one.case.records is not case.records:
            left = {*case.records.order} - {*one.case.records.order}
            at = [visits.parts(name) for name in left] if visits else []
            if visits and len(at) == 1 and (time := at[0][1]) is not None:
                if visits.course_of(at[0][0]) or len(visits.times_of(at[0][0])) < 2:
                    continue
                key = f"visit-{names.index(at[0][0]) + 1}-{visits.times.index(time) + 1}"
            else:
                key = "-".join(["column", *(str(names.index(name) + 1) for name in names if name in left)])
        else:
            key = "prior"
        if one.rows is None or one.rows < (case.rows or 0):
            found.append(Switch(key, f"{one.change[0].upper()}{one.change[1:]}", key in on))
    return found


@dataclass(frozen=True, eq=False)
class Asked:
    """The table and what is asked of it, with what is tried."""

    request: forecast.ReleaseRequest
    values: dict[str, Any]
    context: RequestContext

    @classmethod
    def of(cls, query: QueryParams, context: RequestContext) -> "Asked":
        """Read an address; a stronger prior, if that is tried, says what the table says."""
        names = source.table_of(query, context).value.names
        request = forecast.ReleaseRequest.of(switched(query, names), context)
        if "prior" in switch_keys(query) and not request.chosen.is_mixed:
            chosen = request.chosen
            chosen = replace(chosen, prior=stronger_prior(chosen.records, chosen.prior), note="")
            request = replace(request, chosen=chosen)
        return cls(request, forms.read(GROUPS, query), context)

    @property
    def table(self) -> source.Chosen:
        """The table that it is about."""
        return self.request.chosen

    @property
    def mark(self) -> str:
        """A name of what the budget is about: two pieces of a page that bear the same belong together."""
        return replace(self.request, number=1).mark

    def budget(self, step: Progress) -> Budget:
        """Return the budget, which is simulated."""
        return forecast.planned(self.request, self.context, step)

    def count(self, plan: Budget) -> int:
        """After how many datasets, or draws, the people are looked at."""
        return self.values["count"] or max(plan.in_all, 1)


def _budget(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Say how much may be released, and offer what would allow more."""
    asked, names = Asked.of(query, context), source.table_of(query, context).value.names
    plan, on = asked.budget(step), switch_keys(query)
    base = plan
    if on:  # what is offered stays as it is while it is tried
        plain = QueryParams([(name, text) for name, text in query.multi_items() if name != "try"])
        base = Asked.of(plain, context).budget(step)
    switches = switches_of(base, names, asked.table.reading.schema.visits, on)
    parts = {
        "verdict": piece("budget_verdict.html", plan=plan, mark=asked.mark, table=asked.table, tried=bool(on)),
        "switches": piece("budget_switches.html", switches=switches, on=on),
        "budget": piece("budget_more.html", plan=plan),
        "note": piece("budget_note.html", table=asked.table),
    }
    told = asked.table.records.schema.plainly
    return Answer({name: told(part) for name, part in parts.items()}, {"budget": untitled(budget_figure(plan))})


def _people(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """List those likeliest to be disclosed; who hardly can be are counted."""
    asked = Asked.of(query, context)
    plan, shown = asked.budget(step), asked.values["shown"]
    count = asked.count(plan)
    lines, others = forecast.likely_people(plan, count, shown)
    if shown > FIRST:  # who hardly can be, too, if somebody asks
        lines = forecast.people_lines(plan, count, shown)
        others = replace(others, many=len(plan.rows) - len(lines))
    part = piece(
        "budget_people.html", asked=asked, plan=plan, count=count, lines=lines, shown=shown, most=MOST_SHOWN,
        others=others, first=FIRST,
    )  # fmt: skip
    figures = {}
    if plan.case.is_plain and plan.case.has_law:
        lineup = plan.lineup
        chances, records = plan.chances(count)[lineup.order], plan.case.records
        who = list(map(records.who, range(len(plan.rows))))
        figures["records"] = records_figure(lineup, plan.rows, count, chances, who)
    return Answer({"people": part}, figures)


def _apply(query: QueryParams, sent: Mapping[str, str], context: RequestContext, step: Progress) -> Answer:
    """Make the changes that are tried those of the address, so that every step and the table file have them."""
    names = source.table_of(query, context).value.names
    made, fields = switched(query, names), dict[str, str | list[str]](**{"try": ""})
    fields |= {name: made.get(name, "") for name in ("rows", "leave")}
    fields |= {name: made.get(name, "") for name in made if name.startswith(f"{declared.MORE.name}-")}
    if source.COLUMNS in made:
        fields[source.COLUMNS] = made.getlist(source.COLUMNS)
    if "prior" in switch_keys(query):
        people = f"{len(source.chosen(made, context).records.values)}"
        fields |= {"prior": "public", "weight": people, "extra": people}
    return Answer(fields=fields)


# One record after a trial release.


def _record(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Look at one record after a trial release."""
    if not query.get("row"):
        return Answer({"told": "", "record": "", "measures": ""})
    asked = Asked.of(query, context)
    if asked.table.is_mixed:
        return _mixed_record(asked, step)
    plan = asked.budget(step)
    found = _findings(asked, plan, step)
    if found is None:
        records = asked.table.records
        who = records.who(records.place_of(int(asked.values["row"])))
        size = f"{asked.request.rows:,} rows and {len(asked.table.records.columns):,} columns"
        return Answer({"record": piece("record_too_large.html", who=who, size=size), "told": "", "measures": ""})
    columns, schema = found.attack.columns, asked.table.records.schema
    labels = [schema.column(name).on_scale for name in columns]
    across, upwards = record.axes(columns, asked.values["x"], asked.values["y"]) if found.view else (0, 0)
    epsilon, law, rule = None, found.attack.law, asked.request.rule
    if not (asked.values["without"] or asked.values["missing"]):  # it is of the usual adversary
        epsilon = epsilon_of_one(law, found.measures.leverage, found.count, len(asked.table.records.values))
    values = record.values_of(found.row, found.attack, found.measures, rule, schema)
    told = f"this trial release of {counted(found.count, found.attack.noun)}", found.measures.evidence
    parts = {
        "told": record.verdict_piece(values, rule, *told, _one_draw(asked, plan, found)),
        "record": piece(
            "record_opened.html", found=found, schema=schema,
            lines=record.attribute_lines(found.attributes, schema), columns=columns, across=across,
            upwards=upwards, hidden=asked.values["hidden"], most=found.attack.most,
        ),
        "measures": record.measures_piece(found.measures, found.attack.noun, "/budget/measures.csv", epsilon),
    }  # fmt: skip
    return Answer(parts, {"landscape": view_drawing(found.view, labels)} if found.view else {})


def _mixed_record(asked: Asked, step: Progress) -> Answer:
    """Say of a record of any table what a trial release discloses of it: no landscape, but every value."""
    table, rule, plan = asked.table, asked.request.rule, asked.budget(step)
    row = record.row_of(asked.values["row"], table.records.rows)
    if asked.values["missing"] or record.names_in(asked.values["without"]):
        name = "missing" if asked.values["missing"] else "without"
        raise forms.FieldError(name, "is for tables of measurements alone here", "leave it as it is")
    count, place = min(asked.count(plan), record.TRIAL_OF_CELLS), table.records.place_of(row)

    def attacked() -> dict[str, np.ndarray]:
        with step("Drawing a trial release", None):
            trial = record.mixed_trial(table, asked.request.rows, count)
        with step(f"Attacking {asked.table.records.who(asked.table.records.place_of(row))}", None):
            rng = np.random.default_rng(0)
            return risk_columns(table.records, trial, rule=rule, rng=rng, rows=np.array([place]))

    risk = table.held.get_or_compute(("told", *table.key, asked.request.rows, rule, count, row), attacked)
    told, noun = ToldValues.of(risk, rule), "parameter draw" if asked.request.rows is None else "dataset"
    schema, columns = table.records.schema, np.arange(len(told.names))
    values = values_at(risk, told, np.zeros(len(columns), dtype=int), columns, schema.known, schema)
    own = float(plan.chances(min(count, plan.case.most))[place])
    evidence = float(risk[EVIDENCE][0]) if EVIDENCE in risk else None
    said = record.verdict_piece(
        values, rule, f"this trial release of {counted(count, noun)}", evidence, record.OneDraw(own)
    )
    return Answer(
        {"told": said, "record": piece("record_mixed.html", row=row, noun=noun, count=count), "measures": ""}
    )


def _one_draw(asked: Asked, plan: Budget, found: record.RecordFindings) -> record.OneDraw:
    """Return how often such releases disclose the record, as the list of people has it, and what is lacked."""
    own = plan.chances(min(found.count, plan.case.most))[asked.table.records.place_of(found.row)]
    without = record.names_in(asked.values["without"])
    lacking = []
    if found.missing:
        lacking.append(f"{counted(found.missing, 'record')} besides this one")
    if without:
        lacking.append(f"the column{'s' * (len(without) > 1)} {joined(without)} of everyone")
    return record.OneDraw(float(own), joined(lacking))


def _findings(asked: Asked, plan: Budget, step: Progress) -> record.RecordFindings | None:
    """Return what a trial release tells of the row; None where none of this size is drawn."""
    row = record.row_of(asked.values["row"], asked.table.records.rows)
    hidden = asked.values["hidden"]
    if hidden not in get_args(landscape.Hidden):
        raise forms.FieldError(
            "hidden", f"{hidden[:60]!r} cannot be used", "give mode or integrated", where="The other columns"
        )
    without = record.names_in(asked.values["without"])
    try:
        known_columns(asked.table.records.columns, without)
    except InputError as error:
        raise forms.FieldError("without", error.problem, *error.cures, where="Columns of everyone") from error
    with step("Drawing a trial release", None):
        release = record.trial(asked.table, asked.request.rows)
    if release is None:
        return None
    with step(f"Attacking {asked.table.records.who(asked.table.records.place_of(row))}", None):
        shown = asked.values["x"], asked.values["y"], hidden
        lacking = {"without": without, "missing": asked.values["missing"]}
        return record.findings_of(asked.table, release, row, asked.count(plan), *shown, **lacking)


def _measures_file(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    asked = Asked.of(query, context)
    if asked.table.is_mixed:
        raise InputError("there are measures of single records for tables of measurements alone", "draw a release")
    found = _findings(asked, asked.budget(step), step)
    if found is None:
        raise InputError("there is no trial release of this size to measure", Cure("choose fewer", "rows"))
    return record.measures_csv(found.measures)


def _file(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return every record from the one likeliest to be disclosed down: row numbers and measures, no names."""
    asked = Asked.of(query, context)
    plan = asked.budget(step)
    count = asked.count(plan)
    columns, order = plan.columns(), plan.ranked(count)
    columns[f"chance_at_{count}"] = plan.chances(count)
    return as_csv("records.csv", {name: column[order].tolist() for name, column in columns.items()})


_OF_BUDGET = (*source.CARRIED, *forecast.ASKED, "try")
PAGE = Page(
    "budget",
    "Budget",
    GROUPS,
    answers={
        "budget": Source(_budget, _OF_BUDGET, slow=True),
        "people": Source(_people, (*_OF_BUDGET, "count", "shown"), slow=True),
        "record": Source(
            _record, (*_OF_BUDGET, "count", *forms.names((LACKING, SEEN), but=("shown", "table"))), slow=True
        ),
        **forecast.CHIP,
    },
    files={"records.csv": _file, "measures.csv": _measures_file, "table.toml": write_table_file},
    acts={"apply": _apply},
    carried=forecast.CARRIED,
    step=3,
)
