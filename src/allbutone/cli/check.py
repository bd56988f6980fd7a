"""The command that looks at a release before it goes out."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from allbutone.cli.options import as_argument, free_name
from allbutone.cli.output import console, show_next, show_notes
from allbutone.cli.reading import OF_TABLE, also_asked, read_content
from allbutone.releases.archive import zip_release
from allbutone.releases.folder import is_release
from allbutone.releases.hygiene.check import check_release
from allbutone.releases.hygiene.findings import ReleaseCheck
from allbutone.releases.ledger.file import ledger_path, read_ledger, release_digest
from allbutone.support.errors import InputError
from allbutone.tables.safe_write import fresh_file, require_distinct

ToCheck = Annotated[
    Path, typer.Argument(metavar="RELEASE", help="A release's folder, its zip file, or one dataset of it.")
]
AgainstTable = Annotated[
    Path | None, typer.Option(help="The confidential table, to find what of it was carried over.")
]
PeopleConfidential = Annotated[
    bool, typer.Option("--people-confidential", help="The number of people in the table may not be told either.")
]
Zip = Annotated[
    Path | None,
    typer.Option("--zip", help="A zip file to write the release to, if it is clean: no times, no users."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of this name.")]
_TABLE_OPTIONS = {name: OF_TABLE[name] for name in ("columns", "no_header", "encoding", "sheet", "table_file")}


@also_asked(_TABLE_OPTIONS)
def check(
    context: typer.Context,
    release: ToCheck,
    table: AgainstTable = None,
    people_confidential: PeopleConfidential = False,
    zip: Zip = None,
    force: Force = False,
) -> None:
    """Say whether a release holds only what may be released; list all else, with its cure, and exit with 1."""
    given = context.params
    if table is None and any(given[name] for name in (*_TABLE_OPTIONS, "people_confidential")):
        raise InputError("options about the table go with --table", "name it")
    if zip is not None:
        _require_zip(zip, release, table)
    content = None if table is None else read_content(given, table)
    schema = given["table_file"] or (None if table is None else _table_file(table, release))
    found = check_release(release, content, schema=schema, people_confidential=people_confidential)
    _show(release, found)
    if not found.is_clean:
        raise typer.Exit(1)
    if zip is not None:
        with fresh_file(zip, force=force) as path:
            path.write_bytes(zip_release(release))
        console.print(f"Written: {escape(str(zip))}, without times, users or paths.")
    elif release.is_dir():
        name = free_name(f"{release.resolve().name}.zip")
        show_next("put it into one file to hand out:", ["check", as_argument(release), "--zip", str(name)])


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


def _show(release: Path, found: ReleaseCheck) -> None:
    mark, colour = ("✔", "green") if found.is_clean else ("✘", "red")
    console.print(f"[{colour}]{mark}[/{colour}] [bold]{escape(str(release))}: {escape(found.verdict)}[/bold]")
    for each in found.findings:
        console.print(f"- {escape(each.where)}: {escape(each.problem)}.\n  What to do: {escape(each.cure)}.")
    console.print(f"Looked at: {escape(found.checked)}.")
    if found.is_clean:
        console.print(
            "Clean says how a release is written, not what it gives away of each person: `risk` tells that."
        )
    show_notes(found.notes)
