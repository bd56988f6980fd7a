"""The table of columns on Your data: what is said of each, and table files up and down."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from starlette.datastructures import QueryParams

from allbutone.app.answer import Answer, Download
from allbutone.app.forms import in_app_words, read, takes
from allbutone.app.jobs import Progress
from allbutone.app.page import RequestContext, piece
from allbutone.app.pages.columns import (
    KEEP,
    KIND,
    LEVELS,
    OF_A_MEASUREMENT,
    WORDS,
    Declaration,
    declaration,
    declared_in_words,
    fields_of,
    kind_in_words,
    proposed_in_words,
)
from allbutone.app.pages.source import COLUMNS, GROUPS, chosen, table_of
from allbutone.app.pages.uploads import sent_file
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import listed
from allbutone.tables.admission import ColumnsError, Problem, refusal
from allbutone.tables.declared.column import LEFT_OUT
from allbutone.tables.declared.draft import draft, left_out_because, table_file
from allbutone.tables.declared.schema import Schema
from allbutone.tables.formats.labels import labels_in
from allbutone.tables.safe_read import parse


def columns_parts(query: QueryParams, context: RequestContext) -> dict[str, str]:
    """Return the table of columns, and what is said beside each: all problems of all columns at once."""
    said = _declared(query, context)
    problems, doubted = _problems(query, context)
    codes = read(GROUPS, query, "codes")["codes"]
    kept = "" if doubted else query.get("measured", "no")
    parts = {
        "columns": piece(
            "data_columns.html", columns=said.schema.columns, kind=KIND, keep=KEEP, levels=LEVELS,
            measured=OF_A_MEASUREMENT, words=WORDS,
        ),
        "doubt": piece("data_doubt.html", doubted=doubted, kept=kept == "yes"),
    }  # fmt: skip
    for place, (column, look) in enumerate(zip(said.schema.columns, said.looks, strict=True), start=1):
        problem = problems.get(column.name)
        parts[f"what-{place}"] = piece(
            "data_kind.html", kind=kind_in_words(look), more=declared_in_words(column, codes)
        )
        parts[f"said-{place}"] = piece(
            "data_said.html", problem=problem, cures=_cures(problem), look=look,
            proposed=proposed_in_words(look, column),
        )  # fmt: skip
    return parts


def _declared(query: QueryParams, context: RequestContext) -> Declaration:
    return declaration(query, table_of(query, context), read(GROUPS, query))


def _problems(query: QueryParams, context: RequestContext) -> tuple[dict[str, Problem], bool]:
    """Return each refused column's problem, and whether one of them is that it may name people."""
    try:
        chosen(query, context)
    except ColumnsError as error:
        doubted = any(problem.is_name for problem in error.problems)
        return {problem.column: problem for problem in error.problems}, doubted
    except InputError:  # of the table or the prior as a whole, which the page's main answer says
        pass
    return {}, False


def _cures(problem: Problem | None) -> str:
    cures = [Cure(cure) if isinstance(cure, str) else cure for cure in (problem.cures if problem else ())]
    return ", or ".join(map(in_app_words, cures))


def read_table_file(query: QueryParams, context: RequestContext, place: Path) -> Answer:
    """Fill the fields from a table file that was sent, and say what of it and of the table does not meet."""
    path = sent_file(query, place, ".toml")
    names = table_of(query, context).thing.names
    schema = Schema.of(path)
    said = {column.name for column in schema.columns}
    absent, silent = sorted(said - set(names)), [name for name in names if name not in said]
    note = piece("data_declared.html", file=path.name, absent=listed(absent), silent=listed(silent))
    return Answer({"declared-note": note}, fields=fields_of(schema, names))


def take_proposals(query: QueryParams, sent: Mapping[str, str], context: RequestContext, step: Progress) -> Answer:
    """Fill the fields with what a draft of a table file proposes."""
    table = table_of(query, context).thing
    text = draft(_declared(query, context).looks, table.content.num_rows, {}, labels=labels_in(table.content))
    schema = Schema.of_entries(parse(text, "TOML", "the draft"), "the draft")
    proposed = ("columns", "scale-", "low-", "decimals-", "label-")  # the rest is left as it is
    fields = {name: text for name, text in fields_of(schema, table.names).items() if takes(proposed, name)}
    return Answer({"declared-note": piece("data_proposed.html")}, fields=fields)


def write_table_file(query: QueryParams, context: RequestContext, step: Progress) -> Download:
    """Return what is declared now as a table file; columns that are not ticked are left out in it."""
    said = _declared(query, context)
    ticked, table = query.getlist(COLUMNS), table_of(query, context).thing
    if wrong := [fault for fault in said.problems if not ticked or fault.column in ticked]:
        raise refusal(wrong)
    rows, columns, found = table.content.num_rows, [], {}
    for look, column in zip(said.looks, said.schema.columns, strict=True):
        if ticked and look.name not in ticked:
            why = left_out_because(look, rows) or "not used"
            column = replace(column, kind=LEFT_OUT, levels=(), why=why)
        elif look.is_category and not column.levels:
            found[look.name] = look.levels
        columns.append(column)
    text = table_file(Schema(tuple(columns)), found)
    return Download("table.toml", text.encode(), "application/toml; charset=utf-8")
