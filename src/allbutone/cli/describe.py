"""The commands that look and change nothing: at a table, at a release before it goes out, at a word."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli.reading import declared, read_content
from allbutone.releases.check import ReleaseCheck
from allbutone.releases.check import check as check_release
from allbutone.releases.check_files import zip_release
from allbutone.releases.folder import is_release
from allbutone.releases.ledger import Ledger
from allbutone.releases.mechanism import CLASSES
from allbutone.reports.glossary import GLOSSARY, find_term
from allbutone.support.errors import InputError
from allbutone.support.text import percent
from allbutone.tables.described import Described, described
from allbutone.tables.formats import labels_in
from allbutone.tables.safe_io import fresh_file, require_distinct

ROOM_FOR_PICTURES = 100  # characters of a terminal


@ask.command
def describe(
    *,
    context: typer.Context,
    source: Annotated[
        ask.TableOptions,
        ask.Offers(*ask.OF_FILE, "table_file", "rows_are_people", "person", "visit", table=ask.TABLE_FILE),
    ],
    out: Path | None = ask.option("Where to write a draft of a table file (.toml)."),
    force: ask.Force = False,
) -> None:
    """Look at every column of a table: what it is, what will be done with it, and a table file to start from."""
    if out is not None and out.suffix != ".toml":
        raise InputError(f"--out names a .toml file, got {str(out)!r}", "write table.toml, say")
    content = read_content(source)
    found = described(
        content,
        columns=source.chosen,
        drop=source.dropped,
        schema=declared(replace(source, person=None, visit=None), content.column_names),
        rows_are_people=source.rows_are_people,
        labels=labels_in(content),
        person=source.person,
        visit=source.visit,
    )
    if out is not None:
        require_distinct([out], [source.table, source.table_file])
        found.write(out, force=force)
    gaps, measured_too = found.has_gaps, found.has_measurements
    terminal.say(f"{source.table.name}: {found.sentence}\n", "bold")
    _show_looks(found)
    if found.kept and not measured_too:
        terminal.say("No measurement is among them: categories alone are drawn through classes (--model classes).")
    if found.kept and out is not None:
        terminal.say(f"\nWritten: {out}. Read it, confirm what it proposes, and fill in what is public.")
    if not found.kept:
        terminal.show_next("choose other columns, or another table:", ["describe", "--help"])
    elif out is None:
        words = "draft a table file with these proposals, to confirm and fill in:"
        terminal.propose(context, words, "describe", source.table, out="table.toml")
    else:
        words = "see how much may be released with it, before anything is drawn"
        more = " (or with --missing impute, to use the rows with gaps, too)"
        options: dict[str, Any] = {"table_file": out, "complete_cases": gaps, "out": "budget.csv"}
        options |= {} if measured_too else {"model": CLASSES}
        if found.seen is not None:  # who missed a visit would be left out
            more = ", in which nobody misses a visit (keep: as many do as here)"
            missing = "impute" if gaps else None
            options |= {"complete_cases": False, "missing": missing, "person": None, "visit": None}
        terminal.propose(context, f"{words}{more * gaps}:", "budget", source.table, **options)
    terminal.show_notes(found.notes)


def _show_looks(found: Described) -> None:
    """Show a line a column, with a small histogram where there is room for it."""
    headings = ["column", "what it is", "gaps", "what will be done"]
    lines = []
    for look, line in zip(found.looks, found.lines(), strict=True):
        gaps = percent(look.missing / found.rows) if look.missing else ""
        lines.append([look.name, look.kind, gaps, line["what"]])
    if not terminal.console.is_terminal or terminal.console.width >= ROOM_FOR_PICTURES:
        headings.insert(3, "low to high")
        for look, shown in zip(found.looks, lines, strict=True):
            there = look.numbers[~look.gaps] if look.usable and not look.is_category else np.zeros(0)
            shown.insert(3, terminal.sparkline(there, 12) if len(there) else "")
    words = [heading for heading in headings if heading != "gaps"]
    terminal.show("Confidential: the table's columns", headings, lines, words=words)


AGAINST = (Path | None, ask.option("The confidential table, to find what of it was carried over."))
OF_CHECKED = ("columns", "no_header", "encoding", "sheet", "table_file")


@ask.command
def check(
    *,
    release: Path = ask.argument(
        "A release's folder, its zip file (also the app's), or one dataset of it.", ask.REQUIRED, metavar="RELEASE"
    ),
    source: Annotated[ask.TableOptions, ask.Offers(*OF_CHECKED, table=AGAINST)],
    people_confidential: bool = ask.option("The number of people in the table may not be told either.", False),
    zip: Path | None = ask.option("A zip file to write the release to, if it is clean: no times, no users."),
    force: ask.Force = False,
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
        terminal.say(f"Written: {zip}, without times, users or paths.")
    elif release.is_dir():
        name = terminal.free_name(f"{release.resolve().name}.zip")
        terminal.show_next(
            "put it into one file to hand out:", ["check", terminal.as_argument(release), "--zip", str(name)]
        )


def _table_file(table: Path, release: Path) -> Path | None:
    """Return the table file that the ledger says the release was made with, if both are still there."""
    ledger = Ledger.of(table)
    entry = ledger.entry_of(release) if ledger.releases and release.is_dir() and is_release(release) else None
    place = ledger.path.parent / entry.table_file if entry and entry.table_file else None
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
    terminal.headline(mark, colour, f"{release}: {checked.verdict}")
    for each in checked.findings:
        terminal.say(f"- {each.where}: {each.problem}.\n  What to do: {each.cure}.")
    terminal.say(f"Looked at: {checked.checked}.")
    if checked.is_clean:
        terminal.say(
            "Clean says how a release is written, not what it gives away of each person: `risk` tells that."
        )
    terminal.show_notes(checked.notes)


@ask.command
def explain(
    *,
    word: list[str] | None = ask.argument("A word, such as disclosed or budget; all, if none is given."),
) -> None:
    """Say what a word of this program means, in a sentence for everybody and by its definition."""
    if word:
        term = find_term(" ".join(word))
        terminal.console.print(f"[bold]{escape(term.name)}[/bold]: {escape(term.plain)}")
        terminal.say(f"For experts: {term.expert}")
        return
    for term in sorted(GLOSSARY.values(), key=lambda term: term.name.lower()):
        terminal.console.print(f"[bold]{escape(term.name)}[/bold]: {escape(term.plain)}")
    terminal.show_next("the definition of one of them:", ["explain", "disclosed"])
