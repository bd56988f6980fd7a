"""Your data: a table and what is declared of it, how much of it may be released, and who stands out."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from starlette.datastructures import QueryParams

from allbutone.adversary import landscape
from allbutone.app import forms
from allbutone.app.jobs import Answer, Download, Progress, as_csv
from allbutone.app.page import Page, RequestContext, Source, piece
from allbutone.app.pages import columns as declared
from allbutone.app.pages import record, source
from allbutone.app.pages.forecast import PROBABILITY, RELEASE_KIND, ROWS, budget_of, normality_of, rows_of, rule_of
from allbutone.disclosure.budget import Budget
from allbutone.disclosure.epsilon import epsilon_of_one
from allbutone.disclosure.lineup import Lineup, likeliest
from allbutone.disclosure.rule import Rule
from allbutone.figures.attack_view import view_drawing
from allbutone.figures.budget import budget_figure, records_figure
from allbutone.figures.export import untitled
from allbutone.figures.shapes import distance_qq_figure, qq_figure
from allbutone.releases.several import known_columns
from allbutone.reports.findings import model_finding
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, joined, listed
from allbutone.tables.admission import ColumnsError, Problem, refusal
from allbutone.tables.column import LEFT_OUT
from allbutone.tables.formats import labels_in
from allbutone.tables.look import draft, left_out_because, table_file
from allbutone.tables.safe_io import parse
from allbutone.tables.schema import Schema, refuse_derived


def _columns(query: QueryParams, context: RequestContext) -> dict[str, str]:
    """Return the table of columns, and what is said beside each: all problems of all columns at once."""
    said, codes = _declared(query, context), forms.read(source.SOURCE_GROUPS, query, "codes")["codes"]
    problems: dict[str, Problem] = {}
    try:
        source.chosen(query, context)
    except ColumnsError as error:
        problems = {problem.column: problem for problem in error.problems}
    except InputError:  # of the table or the prior as a whole, which the page's main answer says
        pass
    doubted = any(problem.is_name for problem in problems.values())
    measured = query.get("measured") == "yes" and not doubted
    fields = {"kind": declared.KIND, "keep": declared.KEEP, "levels": declared.LEVELS, "words": declared.WORDS}
    fields["measured"] = declared.OF_A_MEASUREMENT
    parts = {
        "columns": piece("data_columns.html", columns=said.schema.columns, **fields),
        "doubt": piece("data_doubt.html", doubted=doubted, kept=measured),
    }
    for place, (column, look) in enumerate(zip(said.schema.columns, said.looks, strict=True), start=1):
        problem, more = problems.get(column.name), declared.declared_in_words(column, codes)
        cures = [Cure(cure) if isinstance(cure, str) else cure for cure in (problem.cures if problem else ())]
        parts[f"what-{place}"] = piece("data_kind.html", kind=declared.kind_in_words(look), more=more)
        parts[f"said-{place}"] = piece(
            "data_said.html", problem=problem, cures=", or ".join(map(forms.in_app_words, cures)), look=look,
            proposed=declared.proposed_in_words(look, column),
        )  # fmt: skip
    return parts


def _declared(query: QueryParams, context: RequestContext) -> declared.Declaration:
    return declared.declaration(query, source.table_of(query, context), forms.read(source.SOURCE_GROUPS, query))


def _read_table_file(query: QueryParams, context: RequestContext, place: Path) -> Answer:
    """Fill the fields from a table file that was sent, and say what of it and of the table does not meet."""
    path = declared.sent_file(query, place, ".toml")
    names, schema = source.table_of(query, context).thing.names, Schema.of(path)
    refuse_derived(schema.among(names), "the app", "use the command line, or Python")
    said = {column.name for column in schema.columns}
    absent, silent = sorted(said - set(names)), [name for name in names if name not in said]
    note = piece("data_declared.html", file=path.name, absent=listed(absent), silent=listed(silent))
    return Answer({"declared-note": note}, fields=declared.fields_of(schema, names))


def _take_proposals(
    query: QueryParams, sent: Mapping[str, str], context: RequestContext, step: Progress
) -> Answer:
    """Fill the fields with what a draft of a table file proposes."""
    table = source.table_of(query, context).thing
    text = draft(_declared(query, context).looks, table.content.num_rows, {}, labels=labels_in(table.content))
    schema = Schema.of_entries(parse(text, "TOML", "the draft"), "the draft")
    proposed = (
        "columns",
        "scale-",
        "low-",
        "decimals-",
        "step-",
        "step_of-",
        "label-",
    )  # the rest is left as it is
    fields = declared.fields_of(schema, table.names).items()
    taken = {name: text for name, text in fields if forms.takes(proposed, name)}
    return Answer({"declared-note": piece("data_proposed.html")}, fields=taken)


def _write_table_file(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return what is declared now as a table file; columns that are not ticked are left out in it."""
    said = _declared(query, context)
    ticked, table = query.getlist(source.COLUMNS), source.table_of(query, context).thing
    if wrong := [fault for fault in said.problems if not ticked or fault.column in ticked]:
        raise refusal(wrong)
    columns, levels = [], {}
    for look, column in zip(said.looks, said.schema.columns, strict=True):
        if ticked and look.name not in ticked:
            why = left_out_because(look, table.content.num_rows) or "not used"
            column = replace(column, kind=LEFT_OUT, levels=(), why=why)
        elif look.is_category and not column.levels:
            levels[look.name] = look.levels
        columns.append(column)
    text = table_file(Schema(tuple(columns)), levels)
    return Download("table.toml", text.encode(), "application/toml; charset=utf-8")


FIRST = 10  # of those likeliest to be disclosed, where there is no ranking
MOST_SHOWN = 1000  # records in the page's table

RELEASE = forms.Group(
    "What would be released",
    (
        RELEASE_KIND,
        ROWS,
        PROBABILITY,
        forms.Whole(
            "count", "After how many to look at the records", "10",
            "So many datasets, or draws: the chances listed, and the trial release that a record is shown with.",
            1, 1000, 1, (1, 100),
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
        forms.HiddenWhole("shown", "Records listed", "25", "", 1, MOST_SHOWN, reset_by="table"),
        forms.Hidden("row", "Row", reset_by="table"),
        forms.Hidden("x", "Across", reset_by="table"),
        forms.Hidden("y", "Upwards", reset_by="table"),
        forms.Hidden("hidden", "The other columns", "mode"),
    ),
)
GROUPS = (source.TABLE, declared.GAPS, RELEASE, source.PRIOR, source.PUBLIC, LACKING, SEEN)


@dataclass(frozen=True, eq=False)
class Asked:
    """The table and what is asked of it; `rows` is None for released parameters."""

    table: source.Chosen
    values: dict[str, Any]
    rows: int | None
    rule: Rule

    @classmethod
    def of(cls, query: QueryParams, context: RequestContext) -> "Asked":
        """Read an address."""
        values, table = forms.read(GROUPS, query), source.chosen(query, context)
        return cls(table, values, rows_of(values, table), rule_of(values))

    @property
    def count(self) -> int:
        """After how many datasets, or draws, the records are looked at."""
        return self.values["count"]

    @property
    def lineup(self) -> Lineup:
        """The table's people, from the one who stands out most down."""
        key = ("lineup", *self.table.key, self.rows, self.rule)
        return self.table.held.get_or_compute(
            key, lambda: Lineup.of(self.table.records, self.table.prior, self.rows, self.rule)
        )

    @property
    def mark(self) -> str:
        """A name of what the budget is about: two pieces of a page that bear the same belong together."""
        return f"{abs(hash((id(self.table.held), *self.table.key, self.rows, self.rule))):x}"

    def budget(self, step: Progress) -> Budget:
        """Return the budget, which is simulated."""
        return budget_of(self.table, self.rows, self.rule, step)


def _table(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Name the table and say of each of its columns what there is to know, whatever the gate says of them."""
    table = source.table_of(query, context).thing
    size = {"rows": table.content.num_rows, "columns": len(table.names)}
    about = piece("data_about.html", name=table.name, note=table.note, **size)
    with step("Looking at the columns", None):
        return Answer({"about": about, **_columns(query, context)})


def _answer(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Rank the records by their chances to be disclosed."""
    asked = Asked.of(query, context)
    note = piece("data_note.html", table=asked.table, note=asked.table.note)
    if asked.table.is_mixed:
        return Answer({"note": note, "mixed": piece("data_mixed.html", table=asked.table, mark=asked.mark)})
    with step("Looking at everybody", None):
        lineup, rows = asked.lineup, asked.table.records.rows
        chances = lineup.chances(asked.count)
    shown = asked.values["shown"]
    first = likeliest(chances)[:shown]
    places = lineup.order[first]
    parts = {
        "note": note,
        "mixed": "",
        "ranking": piece(
            "data_records.html", asked=asked, people=len(rows), most=MOST_SHOWN,
            rows=list(zip(rows[places], chances[first], lineup.leverage[places], strict=True)), shown=shown,
        ),
    }  # fmt: skip
    return Answer(parts, {"records": records_figure(lineup, rows, asked.count, chances)})


def _model(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Judge whether the normal model fits; what is wrong with the table another answer says."""
    table = source.chosen(query, context)
    found = normality_of(table, step)
    doubtful = [verdict for verdict in found.every if verdict.level != "fit"]
    fit = [verdict.subject for verdict in found.every if verdict.level == "fit"]
    parts = {"model": piece("data_model.html", finding=model_finding(found), doubtful=doubtful, fit=fit)}
    return Answer(parts, {"qq": qq_figure(found), "distances": distance_qq_figure(found)})


def _budget(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    asked = Asked.of(query, context)
    plan = asked.budget(step)
    first = plan.places[:FIRST] if asked.table.is_mixed else plan.places[:0]  # others are ranked for any number
    chances = plan.chances(max(plan.in_all, 1))
    # where simulated releases allow less than the closed form, it knows nothing of other choices either
    changes = [[each.in_words, each.datasets] for each in plan.alternatives if plan.closed_form_holds]
    parts = {
        "verdict": piece("data_verdict.html", plan=plan, mark=asked.mark),
        "budget": piece(
            "data_budget.html", plan=plan, changes=changes,
            lines=list(zip(plan.rows[first], chances[first], plan.leverage[first], strict=True)),
        ),
    }  # fmt: skip
    return Answer(parts, {"budget": untitled(budget_figure(plan))})


def _record(query: QueryParams, context: RequestContext, step: Progress) -> Answer:
    """Look at one record after a trial release."""
    if not query.get("row"):
        return Answer({"told": "", "record": "", "measures": ""})
    asked = Asked.of(query, context)
    if asked.table.is_mixed:
        return Answer()
    found = _findings(asked, step)
    if found is None:
        row, size = asked.values["row"], f"{asked.rows:,} rows and {len(asked.table.records.columns):,} columns"
        return Answer({"record": piece("data_too_large.html", row=row, size=size), "told": "", "measures": ""})
    columns, schema = found.attack.columns, asked.table.records.schema
    labels = [schema.column(name).on_scale for name in columns]
    across, upwards = record.axes(columns, asked.values["x"], asked.values["y"]) if found.view else (0, 0)
    draw, epsilon, law = _one_draw(asked, found), None, found.attack.law
    if not (asked.values["without"] or asked.values["missing"]):  # it is of the usual adversary
        epsilon = epsilon_of_one(law, found.measures.leverage, found.count, len(asked.table.records.values))
    released = counted(found.count, found.attack.noun)
    values = record.values_of(found.row, found.attack, found.measures, asked.rule)
    told = f"this trial release of {released}", found.measures.evidence
    parts = {
        "told": record.verdict_piece(values, asked.rule, *told, draw),
        "record": piece(
            "data_record.html", found=found, lines=record.attribute_lines(found.attributes, schema),
            columns=columns, across=across, upwards=upwards, hidden=asked.values["hidden"],
            most=found.attack.most,
        ),
        "measures": record.measures_piece(found.measures, found.attack.noun, "/data/measures.csv", epsilon),
    }  # fmt: skip
    return Answer(parts, {"landscape": view_drawing(found.view, labels)} if found.view else {})


def _one_draw(asked: Asked, found: record.RecordFindings) -> record.OneDraw:
    """Return how often such releases disclose the record, as the list of records has it, and what is lacked."""
    lineup, place = asked.lineup, asked.table.records.place_of(found.row)
    (own,) = lineup.chances(found.count)[lineup.order == place]
    without = record.names_in(asked.values["without"])
    lacking = []
    if found.missing:
        lacking.append(f"{counted(found.missing, 'record')} besides this one")
    if without:
        lacking.append(f"the column{'s' * (len(without) > 1)} {joined(without)} of everyone")
    return record.OneDraw(float(own), joined(lacking))


def _findings(asked: Asked, step: Progress) -> record.RecordFindings | None:
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
        release = record.trial(asked.table, asked.rows)
    if release is None:
        return None
    with step(f"Attacking row {row:,}", None):
        shown = asked.values["x"], asked.values["y"], hidden
        missing = asked.values["missing"]
        return record.findings_of(asked.table, release, row, asked.count, *shown, without=without, missing=missing)


def _measures_file(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    asked = Asked.of(query, context)
    if asked.table.is_mixed:
        raise InputError("there are no trials of a table with categories or columns to keep", "draw a release")
    found = _findings(asked, step)
    if found is None:
        raise InputError("there is no trial release of this size to measure", Cure("choose fewer", "rows"))
    return record.measures_csv(found.measures)


def _file(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return every record from the one likeliest to be disclosed down: row numbers and measures, no names."""
    asked = Asked.of(query, context)
    plan = asked.budget(step)
    columns, order = plan.columns(), plan.ranked(asked.count)
    columns[f"chance_at_{asked.count}"] = plan.chances(asked.count)
    return as_csv("records.csv", {name: column[order].tolist() for name, column in columns.items()})


PAGE = Page(
    "data",
    "Your data",
    GROUPS,
    answers={
        "table": Source(_table, (*source.READ, "prior", "centre-", "spread-")),
        "answer": Source(_answer, (*source.CARRIED, "kind", "rows", "probability", "count", "shown")),
        "record": Source(
            _record,
            (
                *source.CARRIED,
                "kind",
                "rows",
                "probability",
                "count",
                *forms.names((LACKING, SEEN), but=("shown",)),
            ),
        ),
        "model": Source(_model, (*source.READ, "keep-"), slow=True),
        "budget": Source(_budget, (*source.CARRIED, "kind", "rows", "probability"), slow=True),
    },
    files={"records.csv": _file, "measures.csv": _measures_file, "table.toml": _write_table_file},
    takes={"upload": declared.upload, "declare": _read_table_file},
    acts={"propose": _take_proposals},
    carried=source.CARRIED,
)
