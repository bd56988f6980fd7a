"""How commands use the ledger of a table: what they record in it, and what was released before."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from allbutone.cli.output import console
from allbutone.disclosure.composition import passed_limit, total_in_words
from allbutone.releases.folder import is_release
from allbutone.releases.ledger.entries import DRAWN, Terms
from allbutone.releases.ledger.file import (
    ledger_path,
    read_ledger,
    record_release,
    release_digest,
    require_recordable,
)
from allbutone.releases.ledger.together import AReleased, Together, with_earlier
from allbutone.support.errors import InputError
from allbutone.tables.records import Records
from allbutone.tables.safe_write import require_distinct, require_outside

LedgerFile = Annotated[
    Path | None,
    typer.Option(
        "--ledger", help="The ledger of what was released of the table; beside the table, as TABLE.ledger.toml."
    ),
]
Alone = Annotated[
    bool, typer.Option("--alone", help="Leave out of account what the ledger says was released before.")
]
NoLedger = Annotated[
    bool,
    typer.Option("--no-ledger", help="Do not record the release in the table's ledger: then nobody counts it."),
]
OF_LEDGER: dict[str, tuple[Any, Any]] = {"ledger": (LedgerFile, None)}
EARLIER = OF_LEDGER | {"alone": (Alone, False)}
RECORDED = OF_LEDGER | {"no_ledger": (NoLedger, False)}


def ledger_of(context: typer.Context, table: Path) -> Path:
    """Return where this table's ledger is, or would be."""
    return context.params.get("ledger") or ledger_path(table)


def judged_with_earlier(
    context: typer.Context,
    table: Path,
    records: Records,
    release: AReleased | None = None,
    folders: Sequence[Path] = (),
    *,
    mixed: bool = False,
) -> Together:
    """Put what is asked about together with what was released before, unless it is to be judged alone."""
    if context.params["alone"]:
        return Together(records, release)
    path = ledger_of(context, table)
    ledger = read_ledger(path)
    if ledger is None and context.params["ledger"] is not None:
        raise InputError(
            f"there is no ledger {from_here(path)}", "name the one that synthesize wrote, or leave --ledger out"
        )
    return with_earlier(ledger, records, release, folders, mixed=mixed)


def is_voided(path: Path, folder: Path) -> bool:
    """Say whether the ledger has this release, and that it does not count."""
    ledger = read_ledger(path)
    if ledger is None:
        return False
    files = release_digest(folder)
    return not ledger.recorded(files) and any(entry.files == files for entry in ledger.releases)


def show_together(judged: Together) -> None:
    """Say what is judged together, and what the ledger does not know."""
    if judged.sentence:
        console.print(f"{escape(judged.sentence)} --alone leaves earlier releases out of account.\n")


def require_ledger(context: typer.Context, table: Path, out: Path) -> Path | None:
    """Return the ledger that is to record a release into `out`; refuse, before it is drawn, where it could not."""
    given = context.params
    if given["no_ledger"]:
        if given["ledger"]:
            raise InputError("--ledger and --no-ledger are both given", "leave one out")
        return None
    path = ledger_of(context, table)
    require_outside(path, out)
    require_distinct([path], [table, given.get("prior"), given.get("table_file")])
    require_recordable(path)
    ledger = read_ledger(path)
    # a release that may have been given out is needed to judge those that follow
    entry = ledger.recorded(release_digest(out)) if ledger and os.path.lexists(out) and is_release(out) else None
    if entry:
        raise InputError(
            f"{out} is release {entry.number} of the ledger, and without its files nobody can judge what follows",
            "choose another folder",
            f"void it first, if it was never given out (allbutone ledger void {table} {entry.number} --reason …)",
        )
    return path


def recording(
    path: Path | None, records: Any, out: Path, guarantee: Terms | None = None, table_file: Path | None = None
) -> Callable[[Path], object]:
    """Return what records a release whose files all lie aside, just before they are put into `out`.

    In this order no release is ever there unrecorded; a crash in between leaves an entry without a folder.
    """
    if path is None:
        return lambda work: None
    return lambda work: record_release(
        path, records, work, how=DRAWN, place=out, guarantee=guarantee, table_file=table_file
    )


def require_within_limit(path: Path | None, planned: Terms | None) -> None:
    """Refuse, before anything is drawn, what would pass the total that was declared for the table."""
    ledger = read_ledger(path) if path else None
    if ledger is not None and (message := passed_limit(ledger, planned)):
        raise InputError(
            message,
            "release nothing more",
            "declare another total, if the board agrees (allbutone ledger limit)",
        )


def show_total(path: Path | None) -> None:
    """Say what all releases with a guarantee come to together, where there are several."""
    ledger = read_ledger(path) if path else None
    if ledger is not None and (told := total_in_words(ledger)):
        console.print(told)


def show_recorded(path: Path | None, out: Path) -> None:
    """Say where the release is counted, or that it is not."""
    if path is None:
        console.print("Recorded in no ledger: what is judged later will not count it, unless you name it.")
        return
    ledger = read_ledger(path)
    entry = ledger.recorded(release_digest(out)) if ledger else None
    assert ledger is not None
    assert entry is not None
    together = len(ledger.counted)
    judged = f"; risk, budget and report now judge {together} releases together" if together > 1 else ""
    console.print(
        f"Recorded as release {entry.number} in {escape(from_here(path))}{judged}. Keep the ledger as you keep "
        "the table, and the release's folder as it is."
    )


def from_here(path: Path) -> str:
    """Return a path as one types it here, where it is not longer so."""
    return min(str(path), os.path.relpath(path), key=len)
