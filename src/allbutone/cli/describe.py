"""The commands that look and change nothing: at a table, at a release before it goes out, at a word."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.onward import next_after_check, next_after_describe
from allbutone.cli.options import (
    OF_FILE,
    REQUIRED,
    TABLE_FILE,
    Force,
    TableOptions,
    argument,
    command,
    offers,
    option,
)
from allbutone.cli.output import console, show, show_next, show_notes, sparkline
from allbutone.cli.reading import declared, read_content
from allbutone.releases.check import check_release, zip_release
from allbutone.releases.check_values import ReleaseCheck
from allbutone.releases.folder import is_release
from allbutone.releases.ledger import ledger_path, read_ledger, release_digest
from allbutone.reports.glossary import GLOSSARY, find_term
from allbutone.support.errors import InputError
from allbutone.support.text import counted, percent
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
from allbutone.tables.formats import labels_in
from allbutone.tables.look import MANY_GAPS, Look, draft, left_out_because, look_at
from allbutone.tables.names import chosen_frame, row_names_left_out
from allbutone.tables.safe_io import fresh_file, require_distinct
from allbutone.tables.schema import Schema


@command
def describe(
    *,
    context: typer.Context,
    source: Annotated[TableOptions, offers(*OF_FILE, "table_file", "rows_are_people", table=TABLE_FILE)],
    out: Path | None = option("Where to write a draft of a table file (.toml)."),
    force: Force = False,
) -> None:
    """Look at every column of a table: what it is, what will be done with it, and a table file to start from."""
    if out is not None and out.suffix != ".toml":
        raise InputError(f"--out names a .toml file, got {str(out)!r}", "write table.toml, say")
    content = read_content(source)
    schema = declared(source, content.column_names)
    frame = chosen_frame(content, source.chosen, source.dropped)
    looks, rows = look_at(frame, schema, trusted=source.chosen is not None, categories=True), len(frame)
    if not source.rows_are_people:
        require_one_row_each(content, schema)
        require_different_rows(looks)
    others = _others(looks, rows, schema)
    if out is not None:
        require_distinct([out], [source.table, source.table_file])
        with fresh_file(out, force=force) as path:
            path.write_text(draft(looks, rows, others, schema, labels_in(content)), encoding="utf-8")
    others |= dict.fromkeys((name for name in schema.left_out), "declared so")
    kept = [look for look in looks if not left_out_because(look, rows) and look.name not in others]
    gaps, measured_too = any(look.missing for look in kept), any(not look.is_category for look in kept)
    console.print(f"[bold]{escape(_sentence(source.table.name, looks, kept, rows))}[/bold]\n")
    _show_looks(looks, rows, others, schema)
    if kept and not measured_too:
        console.print("No measurement is among them, and categories alone cannot be synthesized yet.")
    if measured_too and out is not None:
        console.print(
            f"\nWritten: {escape(str(out))}. Read it, confirm what it proposes, and fill in what is public."
        )
    next_after_describe(context, source.table, out, gaps, measured_too)
    row_names = row_names_left_out(content.column_names, source.chosen, source.drop)
    show_notes([*row_names, *doubts_of(kept), levels_in_words(kept), few_rows(rows, len(kept)) if kept else ""])


def _others(looks: list[Look], rows: int, schema: Schema) -> dict[str, str]:
    """Return why columns that are usable by themselves are not usable beside the others."""
    usable = [look for look in looks if not left_out_because(look, rows)]
    if not usable:
        return {}
    rows_kept = rows_of(usable, rows)
    values, names = measured(usable, schema, rows_kept)
    problems = columns_together(values, names, categories_of(usable, rows_kept))
    return {problem.column: problem.words for problem in problems}


def _sentence(name: str, looks: list[Look], kept: list[Look], rows: int) -> str:
    whole = f"{name}: {counted(rows, 'row')}, {counted(len(looks), 'column')}."
    complete = np.ones(rows, dtype=bool)
    for look in kept:
        complete &= ~look.gaps
    words = f"{whole} {len(kept)} can be used" + (
        "" if len(kept) == len(looks) else f", {len(looks) - len(kept)} not"
    )
    if kept and not complete.all():
        words += f"; {int(complete.sum()):,} rows have no gap in them"
    return words + "."


def _show_looks(looks: list[Look], rows: int, others: dict[str, str], schema: Schema) -> None:
    lines = []
    for look in looks:
        there = look.numbers[~look.gaps] if look.usable and not look.is_category else np.zeros(0)
        picture = sparkline(there, 12) if len(there) else ""
        gaps = percent(look.missing / rows) if look.missing else ""
        lines.append(
            (
                escape(look.name),
                look.kind,
                gaps,
                picture,
                escape(_what(look, rows, others, schema.column(look.name))),
            )
        )
    headings = ("column", "what it is", "gaps", "low to high", "what will be done")
    show("Confidential: the table's columns", headings, lines, words=(headings[0], headings[1], *headings[3:]))


def _what(look: Look, rows: int, others: dict[str, str], declared: Column) -> str:
    """Say in a few words what will be done with a column."""
    if look.problem:
        return f"left out: {look.problem}"
    if look.name in others:
        return f"left out: {others[look.name]}"
    if look.missing > MANY_GAPS * rows:
        return "left out: too many gaps"
    if look.is_category:
        return f"kept as a category: {_levels(look)}" + (
            "; rows without it go, or are imputed" if look.missing else ""
        )
    kept = "kept" if look.scale == "as it is" else f"kept; the scale {look.scale} is proposed"
    if declared.in_words:
        kept = f"kept, {declared.in_words}"
    return kept + ("; rows without it go, or are imputed" if look.missing else "")


def _levels(look: Look, most: int = 8) -> str:
    """Return the levels, each with how many people have it."""
    counts = np.bincount(look.codes[look.codes >= 0], minlength=len(look.levels))
    some = [f"{level} ({count:,})" for level, count in zip(look.levels[:most], counts, strict=False)]
    return ", ".join(some) + (f" and {len(look.levels) - most} more" if len(look.levels) > most else "")


AGAINST = (Path | None, option("The confidential table, to find what of it was carried over."))
OF_CHECKED = ("columns", "no_header", "encoding", "sheet", "table_file")


@command
def check(
    *,
    release: Path = argument(
        "A release's folder, its zip file (also the app's), or one dataset of it.", REQUIRED, metavar="RELEASE"
    ),
    source: Annotated[TableOptions, offers(*OF_CHECKED, table=AGAINST)],
    people_confidential: bool = option("The number of people in the table may not be told either.", False),
    zip: Path | None = option("A zip file to write the release to, if it is clean: no times, no users."),
    force: Force = False,
) -> None:
    """Say whether a release holds only what may be released; list all else, with its cure, and exit with 1."""
    table = source.table
    if table is None and (people_confidential or any(getattr(source, name) for name in OF_CHECKED)):
        raise InputError("options about the table go with --table", "name it")
    if zip is not None:
        _require_zip(zip, release, table)
    content = None if table is None else read_content(source)
    schema = source.table_file or (None if table is None else _table_file(table, release))
    checked = check_release(release, content, schema=schema, people_confidential=people_confidential)
    _show_check(release, checked)
    if not checked.is_clean:
        raise typer.Exit(1)
    if zip is not None:
        with fresh_file(zip, force=force) as path:
            path.write_bytes(zip_release(release))
        console.print(f"Written: {escape(str(zip))}, without times, users or paths.")
    elif release.is_dir():
        next_after_check(release)


def _table_file(table: Path, release: Path) -> Path | None:
    """Return the table file that the ledger says the release was made with, if both are still there."""
    ledger = read_ledger(ledger_path(table))
    entry = (
        ledger.recorded(release_digest(release)) if ledger and release.is_dir() and is_release(release) else None
    )
    place = ledger.path.parent / entry.table_file if ledger and entry and entry.table_file else None
    return place if place and place.is_file() else None


def _require_zip(zip: Path, release: Path, table: Path | None) -> None:
    if zip.suffix != ".zip":
        raise InputError(f"--zip names a .zip file, got {str(zip)!r}", "write release.zip, say")
    if not release.is_dir():
        raise InputError("--zip packs a release's folder", "name that folder, or leave --zip out")
    require_distinct([zip], [table])
    if zip.resolve().is_relative_to(release.resolve()):
        raise InputError(f"{zip} lies in the release itself", "choose another place")


def _show_check(release: Path, checked: ReleaseCheck) -> None:
    mark, colour = ("✔", "green") if checked.is_clean else ("✘", "red")
    console.print(f"[{colour}]{mark}[/{colour}] [bold]{escape(str(release))}: {escape(checked.verdict)}[/bold]")
    for each in checked.findings:
        console.print(f"- {escape(each.where)}: {escape(each.problem)}.\n  What to do: {escape(each.cure)}.")
    console.print(f"Looked at: {escape(checked.checked)}.")
    if checked.is_clean:
        console.print(
            "Clean says how a release is written, not what it gives away of each person: `risk` tells that."
        )
    show_notes(checked.notes)


@command
def explain(
    *,
    word: list[str] | None = argument("A word, such as disclosed or budget; all, if none is given."),
) -> None:
    """Say what a word of this program means, in a sentence for everybody and by its definition."""
    if word:
        term = find_term(" ".join(word))
        console.print(f"[bold]{escape(term.name)}[/bold]: {escape(term.plain)}")
        console.print(f"For experts: {escape(term.expert)}")
        return
    for term in sorted(GLOSSARY.values(), key=lambda term: term.name.lower()):
        console.print(f"[bold]{escape(term.name)}[/bold]: {escape(term.plain)}")
    show_next("the definition of one of them:", ["explain", "disclosed"])
