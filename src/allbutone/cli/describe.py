"""The command that looks at a table before anything is drawn."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.options import (
    Table,
    following,
    free_name,
)
from allbutone.cli.output import console, show, show_next, show_notes, sparkline
from allbutone.cli.reading import (
    OF_FILE,
    OF_TABLE,
    also_asked,
    chosen_columns,
    declared,
    read_content,
)
from allbutone.support.errors import InputError
from allbutone.support.text import counted, percent
from allbutone.tables.admission import (
    categories_of,
    columns_together,
    doubts_of,
    few_rows,
    levels_in_words,
    measured,
    rows_of,
)
from allbutone.tables.declared.column import Column
from allbutone.tables.declared.draft import MANY_GAPS, draft, left_out_because
from allbutone.tables.declared.schema import Schema
from allbutone.tables.formats.labels import labels_in
from allbutone.tables.frames import chosen_frame
from allbutone.tables.look import Look, look_at
from allbutone.tables.names import row_names_left_out
from allbutone.tables.repeated import require_different_rows, require_one_row_each
from allbutone.tables.safe_write import fresh_file, require_distinct

Draft = Annotated[Path | None, typer.Option("--out", help="Where to write a draft of a table file (.toml).")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of this name.")]


@also_asked(OF_FILE | {name: OF_TABLE[name] for name in ("table_file", "rows_are_people")})
def describe(
    context: typer.Context,
    table: Table,
    out: Draft = None,
    force: Force = False,
) -> None:
    """Look at every column of a table: what it is, what will be done with it, and a table file to start from."""
    if out is not None and out.suffix != ".toml":
        raise InputError(f"--out names a .toml file, got {str(out)!r}", "write table.toml, say")
    content = read_content(context.params, table)
    schema = declared(context.params, content.column_names)
    columns = chosen_columns(context.params)
    frame = chosen_frame(content, columns, list(context.params["drop"] or ()) or None)
    looks, rows = look_at(frame, schema, trusted=columns is not None, categories=True), len(frame)
    if not context.params["rows_are_people"]:
        require_one_row_each(content, schema)
        require_different_rows(looks)
    others = _others(looks, rows, schema)
    if out is not None:
        require_distinct([out], [table, context.params["table_file"]])
        with fresh_file(out, force=force) as path:
            path.write_text(draft(looks, rows, others, schema, labels_in(content)), encoding="utf-8")
    others |= dict.fromkeys((name for name in schema.left_out), "declared so")
    kept = [look for look in looks if not left_out_because(look, rows) and look.name not in others]
    gaps, measured_too = any(look.missing for look in kept), any(not look.is_category for look in kept)
    console.print(f"[bold]{escape(_sentence(table.name, looks, kept, rows))}[/bold]\n")
    _show(looks, rows, others, schema)
    if kept and not measured_too:
        console.print("No measurement is among them, and categories alone cannot be synthesized yet.")
    _show_onward(context, table, out, gaps, measured_too)
    row_names = row_names_left_out(content.column_names, columns, context.params["drop"])
    show_notes([*row_names, *doubts_of(kept), levels_in_words(kept), few_rows(rows, len(kept)) if kept else ""])


def _others(looks: list[Look], rows: int, schema: Schema) -> dict[str, str]:
    """Return why columns that are usable by themselves are not usable beside the others."""
    usable = [look for look in looks if not left_out_because(look, rows)]
    if not usable:
        return {}
    rows_kept = rows_of(usable, rows)
    values, names = measured(usable, schema, rows_kept)
    found = columns_together(values, names, categories_of(usable, rows_kept))
    return {problem.column: problem.words for problem in found}


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


def _show(looks: list[Look], rows: int, others: dict[str, str], schema: Schema) -> None:
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


def _show_onward(context: typer.Context, table: Path, out: Path | None, gaps: bool, usable: bool) -> None:
    if not usable:
        show_next("choose other columns, or another table:", ["describe", "--help"])
    elif out is None:
        words = "draft a table file with these proposals, to confirm and fill in:"
        show_next(words, following(context, "describe", table, out=free_name("table.toml")))
    else:
        console.print(
            f"\nWritten: {escape(str(out))}. Read it, confirm what it proposes, and fill in what is public."
        )
        onward = following(
            context, "synthesize", table, table_file=out, complete_cases=gaps, out=free_name("release")
        )
        words = "make a release with it"
        words += " (or with --missing impute, to use the rows with gaps, too)" if gaps else ""
        show_next(f"{words}:", onward)
