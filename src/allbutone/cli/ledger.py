"""The commands about the ledger: what was released of a table, and what counts."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from allbutone.cli.earlier import OF_LEDGER, from_here, ledger_of
from allbutone.cli.options import ReleaseKind, following, free_name
from allbutone.cli.output import console, show, show_next, show_notes
from allbutone.cli.private import records_as_told, terms_of
from allbutone.cli.reading import OF_RELEASE, also_asked, records_of
from allbutone.disclosure.composition import total_in_words
from allbutone.releases.folder import load_release
from allbutone.releases.ledger.entries import Entry, Ledger, Terms
from allbutone.releases.ledger.file import declare_limit, read_ledger, record_release, void_release
from allbutone.releases.ledger.together import lost
from allbutone.releases.private.release import PrivateRelease
from allbutone.support.errors import InputError
from allbutone.support.text import counted

Action = Annotated[
    str,
    typer.Argument(help="show what was released, add a release, void one, or declare a limit for all together."),
]
TableFile = Annotated[Path | None, typer.Argument(help="The confidential table.", show_default=False)]
Which = Annotated[
    str | None,
    typer.Argument(
        help="With add: the folder of a release. With void: the number of one.",
        metavar="RELEASE",
        show_default=False,
    ),
]
Reason = Annotated[str, typer.Option(help="With void: why it does not count, such as: drawn, never given out.")]
Epsilon = Annotated[float | None, typer.Option(min=0, help="With limit: the ε that all together must keep.")]
Delta = Annotated[float | None, typer.Option(min=0, max=1, help="With limit: the δ that all together must keep.")]
Rho = Annotated[
    float | None, typer.Option(min=0, help="With limit: the ρ (zero-concentrated), instead of ε and δ.")
]
ACTIONS = ("show", "add", "void", "limit")
USE = (
    "allbutone ledger show TABLE", "allbutone ledger add TABLE DIR", "allbutone ledger void TABLE 2 --reason TEXT",
    "allbutone ledger limit TABLE --epsilon 3 --delta 1e-6",
)  # fmt: skip


@also_asked(OF_LEDGER | OF_RELEASE)
def ledger(
    context: typer.Context,
    action: Action,
    table: TableFile = None,
    release: Which = None,
    reason: Reason = "",
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
) -> None:
    """Show or change the ledger of a table: what was released of it, so that all of it is judged together."""
    if action not in ACTIONS and table is None:  # allbutone ledger TABLE
        action, table = "show", Path(action)
    needs = {"show": False, "limit": False, "add": True, "void": True}
    if table is None or needs.get(action) != (release is not None):
        raise InputError("the ledger is asked in one of four ways", *USE)
    _require_its_own(action, reason, epsilon, delta, rho)
    if action == "add":
        _add(context, table, Path(str(release)))
    elif action == "void":
        _void(context, table, str(release), reason)
    elif action == "limit":
        _limit(context, table, Terms(epsilon=epsilon, delta=delta, rho=rho))
    else:
        _show_ledger(context, table)


def _require_its_own(action: str, reason: str, *numbers: float | None) -> None:
    """Refuse options of another action, which would be left aside in silence."""
    if reason and action != "void":
        raise InputError("--reason goes with ledger void", "leave it out")
    if action != "limit" and any(number is not None for number in numbers):
        raise InputError("--epsilon, --delta and --rho go with ledger limit", "leave them out")


def _show_ledger(context: typer.Context, table: Path) -> None:
    path = ledger_of(context, table)
    found = read_ledger(path)
    if found is None:
        console.print(f"No release of {escape(str(table))} is recorded: there is no {escape(from_here(path))}.")
        command = following(context, "budget", table, out=free_name("budget.csv", ".html"))
        show_next("how much may be released:", command)
        return
    _show(found)
    _next(context, table, found)


def _add(context: typer.Context, table: Path, folder: Path) -> None:
    release, path = load_release(folder), ledger_of(context, table)
    if isinstance(release, PrivateRelease):
        records, guarantee = records_as_told(context.params, table, release), terms_of(release)
    else:
        records, guarantee = records_of(context, table, release), None
    entry = record_release(path, records, folder, guarantee=guarantee)
    console.print(f"{escape(str(folder))} is release {entry.number} in {escape(from_here(path))}: {entry.what}.")
    console.print(
        "Not checked, because nobody could: that it was made from this very table. It counts as if it was."
    )
    _next(context, table, read_ledger(path))
    show_notes(records.notes)


def _void(context: typer.Context, table: Path, release: str, reason: str) -> None:
    if not release.isdecimal():
        raise InputError(
            f"a release is voided by its number, got {release!r:.60}", "see it in allbutone ledger show"
        )
    if not reason.strip():
        again = shlex.join(["ledger", "void", str(table), release, "--reason", "drawn, never given out"])
        raise InputError("a release is voided for a reason", f"give one: allbutone {again}")
    found = void_release(ledger_of(context, table), int(release), reason)
    entry = found.entry(int(release))
    console.print(f"Release {entry.number} ({entry.what}, {escape(entry.place)}) does not count any more.")
    console.print("If anyone ever got it, add it again: what is out cannot be called back.")
    _next(context, table, found)


def _limit(context: typer.Context, table: Path, terms: Terms) -> None:
    if not terms.entries():
        raise InputError("a limit needs a number", "give --epsilon and --delta, or --rho")
    found = declare_limit(ledger_of(context, table), terms)
    console.print(f"Declared for all releases of {escape(str(table))} together: {_terms(terms)}.")
    _next(context, table, found)


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


def _next(context: typer.Context, table: Path, ledger: Ledger | None) -> None:
    """Name the command that says what is left, for more of what was released last."""
    assert ledger is not None
    # with void the argument RELEASE is a number, which is not what budget's --release means
    options: dict[str, Any] = {"out": free_name("budget.csv", ".html"), "release": ReleaseKind.datasets}
    there = [entry for entry in ledger.counted if not lost(ledger, entry)]
    if not ledger.counted:  # what was voided still says how the table is read
        there = [entry for entry in ledger.releases if not (entry.guarantee or lost(ledger, entry))]
    if there and there[-1].guarantee:
        folder, options = from_here(ledger.folder_of(there[-1])), {"out": free_name("risk.csv", ".html")}
        show_next("what the last release gives away:", following(context, "risk", table, folder, **options))
        return
    if there:
        last = there[-1]
        options["like"] = from_here(ledger.folder_of(last))
        if last.rows:
            options["rows"] = last.rows[-1]
        if last.kind != ReleaseKind.datasets:
            options["release"] = ReleaseKind(last.kind)
        # the release has them; without a header --columns are the names of all
        options |= {"drop": None} | ({} if context.params["no_header"] else {"columns": None})
    show_next("what is left to be released:", following(context, "budget", table, **options))
