"""The ledger of a table: how commands record in it and judge with what it names, and the command that shows it."""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from allbutone.cli.onward import from_here, next_after_ledger, next_without_ledger
from allbutone.cli.options import (
    OF_FILE,
    OF_RELEASE,
    REQUIRED,
    LedgerOptions,
    TableOptions,
    argument,
    command,
    offers,
    option,
)
from allbutone.cli.output import console, show, show_notes
from allbutone.cli.reading import records_like
from allbutone.disclosure.loss_profile import passed_limit, total_in_words
from allbutone.releases.folder import is_release, load_release
from allbutone.releases.ledger import (
    DRAWN,
    Entry,
    Ledger,
    Terms,
    declare_limit,
    ledger_path,
    read_ledger,
    record_release,
    release_digest,
    require_recordable,
    void_release,
)
from allbutone.releases.private_release import ADJACENCY
from allbutone.releases.release import Release
from allbutone.releases.several import Released
from allbutone.releases.together import Together, lost, with_earlier
from allbutone.support.errors import InputError
from allbutone.support.text import counted
from allbutone.tables.records import Records
from allbutone.tables.safe_io import require_distinct, require_outside


@dataclass(frozen=True)
class TableLedger:
    """The ledger of a table: where it is, or would be, and what it says at the beginning of a command."""

    options: LedgerOptions
    table: Path | str

    @property
    def path(self) -> Path:
        """Where it lies: beside the table, unless another place is named."""
        return self.options.ledger or ledger_path(self.table)

    @cached_property
    def content(self) -> Ledger | None:
        """What it says, read once; None where there is none, or where it is to be left aside."""
        return None if self.options.no_ledger else read_ledger(self.path)

    def judged(
        self,
        records: Records,
        release: Released | None = None,
        folders: Sequence[Path] = (),
        *,
        mixed: bool = False,
    ) -> Together:
        """Put what is asked about together with what was released before, unless it is to be judged alone."""
        if self.options.alone:
            return Together(records, release)
        if self.content is None and self.options.ledger is not None:
            cure = "name the one that synthesize wrote, or leave --ledger out"
            raise InputError(f"there is no ledger {from_here(self.path)}", cure)
        return with_earlier(self.content, records, release, folders, mixed=mixed)

    def entry_of(self, folder: Path) -> Entry | None:
        """Return the entry that counts of the release in this folder, if there is one."""
        if self.options.alone or self.content is None or not os.path.lexists(folder) or not is_release(folder):
            return None
        return self.content.recorded(release_digest(folder))

    def voids(self, folder: Path) -> bool:
        """Say whether the release in this folder is recorded, and does not count."""
        if self.options.alone or self.content is None:
            return False
        files = release_digest(folder)
        return not self.content.recorded(files) and any(each.files == files for each in self.content.releases)

    def require_room(self, out: Path, others: Sequence[Path | None], planned: Terms | None = None) -> None:
        """Refuse, before anything is drawn, what could not be recorded or would pass a declared total."""
        if self.options.no_ledger:
            if self.options.ledger:
                raise InputError("--ledger and --no-ledger are both given", "leave one out")
            return
        require_outside(self.path, out)
        require_distinct([self.path], list(others))
        require_recordable(self.path)
        # a release that may have been given out is needed to judge those that follow
        if entry := self.entry_of(out):
            raise InputError(
                f"{out} is release {entry.number} of the ledger, and without its files nobody can judge what "
                "follows",
                "choose another folder",
                f"void it first, if it was never given out (allbutone ledger void {self.table} {entry.number} "
                "--reason …)",
            )
        if self.content is not None and (message := passed_limit(self.content, planned)):
            cure = "declare another total, if the board agrees (allbutone ledger limit)"
            raise InputError(message, "release nothing more", cure)

    def recording(self, records: Any, out: Path, **more: Any) -> Callable[[Path], object]:
        """Return what records a release whose files all lie aside, just before they are put into `out`.

        In this order no release is ever there unrecorded; a crash in between leaves an entry without a folder.
        """
        if self.options.no_ledger:
            return lambda work: None
        return lambda work: record_release(self.path, records, work, how=DRAWN, place=out, **more)


def terms_of(release: Release) -> Terms:
    """Return a release's guarantee as the ledger keeps it."""
    told = release.noisy
    assert told is not None
    basis = "OpenDP's discrete Gaussian noise on the moments"
    return Terms(epsilon=told.epsilon, delta=told.delta, rho=told.rho, adjacency=ADJACENCY, basis=basis)


def require_no_ledger(options: LedgerOptions) -> None:
    """Refuse a ledger: it knows its table by all values of it, and these stay where they are."""
    if options.ledger is not None:
        raise InputError(
            "a table that stays where it is has no ledger, which would have to read all of it",
            "leave --ledger out, and name all releases of the table when you ask for its risk",
        )


def show_together(judged: Together) -> None:
    """Say what is judged together, and what the ledger does not know."""
    if judged.sentence:
        console.print(f"{escape(judged.sentence)} --alone leaves earlier releases out of account.\n")


def show_recorded(path: Path | None, out: Path) -> None:
    """Say where a release is counted, with what, and what all guarantees come to; or that it is not counted."""
    if path is None:
        console.print("Recorded in no ledger: what is judged later will not count it, unless you name it.")
        return
    ledger = read_ledger(path)
    assert ledger is not None
    entry, together = ledger.recorded(release_digest(out)), len(ledger.counted)
    assert entry is not None
    judged = f"; risk, budget and report now judge {together} releases together" if together > 1 else ""
    console.print(
        f"Recorded as release {entry.number} in {escape(from_here(path))}{judged}. Keep the ledger as you keep "
        "the table, and the release's folder as it is."
    )
    if entry.guarantee and (told := total_in_words(ledger)):
        console.print(told)


NAMED_TABLE = (Path | None, argument("The confidential table.", show_default=False))
NEEDS_RELEASE = {"show": False, "limit": False, "add": True, "void": True}  # by action
USE = (
    "allbutone ledger show TABLE", "allbutone ledger add TABLE DIR", "allbutone ledger void TABLE 2 --reason TEXT",
    "allbutone ledger limit TABLE --epsilon 3 --delta 1e-6",
)  # fmt: skip


@command
def ledger(
    *,
    context: typer.Context,
    action: str = argument(
        "show what was released, add a release, void one, or declare a limit for all together.", REQUIRED
    ),
    source: Annotated[TableOptions, offers(*OF_FILE, "complete_cases", table=NAMED_TABLE, columns=OF_RELEASE)],
    book: Annotated[LedgerOptions, offers("ledger")],
    release: str | None = argument(
        "With add: the folder of a release. With void: the number of one.", metavar="RELEASE", show_default=False
    ),
    reason: str = option("With void: why it does not count, such as: drawn, never given out.", ""),
    epsilon: float | None = option("With limit: the ε that all together must keep.", min=0),
    delta: float | None = option("With limit: the δ that all together must keep.", min=0, max=1),
    rho: float | None = option("With limit: the ρ (zero-concentrated), instead of ε and δ.", min=0),
) -> None:
    """Show or change the ledger of a table: what was released of it, so that all of it is judged together."""
    table = source.table
    if action not in NEEDS_RELEASE and table is None:  # allbutone ledger TABLE
        action, table = "show", Path(action)
    if table is None or NEEDS_RELEASE.get(action) != (release is not None):
        raise InputError("the ledger is asked in one of four ways", *USE)
    # options of another action would be left aside in silence
    if reason and action != "void":
        raise InputError("--reason goes with ledger void", "leave it out")
    terms = Terms(epsilon=epsilon, delta=delta, rho=rho)
    if action != "limit" and terms.entries():
        raise InputError("--epsilon, --delta and --rho go with ledger limit", "leave them out")
    path = TableLedger(book, table).path
    notes: tuple[str, ...] = ()
    if action == "add":
        changed, notes = _add(source, path, Path(str(release)))
    elif action == "void":
        changed = _void(path, table, str(release), reason)
    elif action == "limit":
        changed = _limit(path, table, terms)
    else:
        content = read_ledger(path)
        if content is None:
            console.print(
                f"No release of {escape(str(table))} is recorded: there is no {escape(from_here(path))}."
            )
            next_without_ledger(context, table)
            return
        changed = content
        _show(changed)
    next_after_ledger(context, source, table, changed)
    show_notes(notes)


def _add(source: TableOptions, path: Path, folder: Path) -> tuple[Ledger, tuple[str, ...]]:
    release = load_release(folder)
    records = records_like(source, release)
    guarantee = terms_of(release) if release.noisy is not None else None
    entry = record_release(path, records, folder, guarantee=guarantee)
    console.print(f"{escape(str(folder))} is release {entry.number} in {escape(from_here(path))}: {entry.what}.")
    console.print(
        "Not checked, because nobody could: that it was made from this very table. It counts as if it was."
    )
    changed = read_ledger(path)
    assert changed is not None
    return changed, records.notes


def _void(path: Path, table: Path, release: str, reason: str) -> Ledger:
    if not release.isdecimal():
        raise InputError(
            f"a release is voided by its number, got {release!r:.60}", "see it in allbutone ledger show"
        )
    if not reason.strip():
        again = shlex.join(["ledger", "void", str(table), release, "--reason", "drawn, never given out"])
        raise InputError("a release is voided for a reason", f"give one: allbutone {again}")
    changed = void_release(path, int(release), reason)
    entry = changed.entry(int(release))
    console.print(f"Release {entry.number} ({entry.what}, {escape(entry.place)}) does not count any more.")
    console.print("If anyone ever got it, add it again: what is out cannot be called back.")
    return changed


def _limit(path: Path, table: Path, terms: Terms) -> Ledger:
    if not terms.entries():
        raise InputError("a limit needs a number", "give --epsilon and --delta, or --rho")
    changed = declare_limit(path, terms)
    console.print(f"Declared for all releases of {escape(str(table))} together: {_terms(terms)}.")
    return changed


def _show(ledger: Ledger) -> None:
    counts, voided = len(ledger.counted), len(ledger.releases) - len(ledger.counted)
    without = f"; {voided} {'was' if voided == 1 else 'were'} voided" if voided else ""
    verb = "counts" if counts == 1 else "count"
    console.print(f"[bold]{counted(counts, 'release')} of this table {verb}{without}.[/bold]\n")
    headings = ("", "date", "what", "people", "prior", "folder", "state")
    rows = [
        [f"{entry.number}", f"{entry.date:%Y-%m-%d}", entry.what, f"{entry.people:,}", entry.prior.split(";")[0],
         entry.place, _state(ledger, entry)]
        for entry in ledger.releases
    ]  # fmt: skip
    escaped = [[escape(cell) for cell in row] for row in rows]
    show(escape(from_here(ledger.path)), headings, escaped, words=("date", "what", "prior", "folder", "state"))
    for entry in ledger.counted:
        if entry.guarantee:
            console.print(f"Release {entry.number} keeps {_terms(entry.guarantee)}.")
    if told := total_in_words(ledger):
        console.print(told)
    if ledger.limit:
        console.print(f"Declared for all together: {_terms(ledger.limit)}.")


def _state(ledger: Ledger, entry: Entry) -> str:
    if entry.voided:
        return f"voided {entry.voided.date:%Y-%m-%d}: {entry.voided.reason}"
    return lost(ledger, entry) or "counts"


def _terms(terms: Terms) -> str:
    signs = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
    numbers = [f"{signs[name]} = {value:g}" for name, value in terms.entries().items() if name in signs]
    return escape(", ".join(numbers) + (f" ({terms.adjacency})" if terms.adjacency else ""))
