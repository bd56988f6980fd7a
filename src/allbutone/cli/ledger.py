"""The command that shows the ledger of a table, and changes it."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from allbutone.cli import options as ask
from allbutone.cli.output import from_here, propose, say, show, show_notes
from allbutone.cli.reading import TableLedger, in_memory, records_like
from allbutone.disclosure.guarantee import left_in_words, terms_of, total_in_words
from allbutone.releases.folder import load_release
from allbutone.releases.ledger import Ledger
from allbutone.releases.ledger_file import Terms
from allbutone.support.errors import InputError
from allbutone.support.text import counted

NAMED_TABLE = (Path | None, ask.argument("The confidential table.", show_default=False))
NEEDS_RELEASE = {"show": False, "limit": False, "add": True, "void": True}  # by action
USE = (
    "allbutone ledger show TABLE", "allbutone ledger add TABLE DIR", "allbutone ledger void TABLE 2 --reason TEXT",
    "allbutone ledger limit TABLE --epsilon 3 --delta 1e-6",
)  # fmt: skip


@ask.command
def ledger(
    *,
    context: typer.Context,
    action: str = ask.argument(
        "show what was released, add a release, void one, or declare a limit for all together.", ask.REQUIRED
    ),
    source: Annotated[
        ask.TableOptions,
        ask.Offers(*ask.OF_FILE, "complete_cases", table=NAMED_TABLE, columns=ask.OF_RELEASE),
    ],
    book: Annotated[ask.LedgerOptions, ask.Offers("ledger")],
    release: str | None = ask.argument(
        "With add: the folder of a release. With void: the number of one.", metavar="RELEASE", show_default=False
    ),
    reason: str = ask.option("With void: why it does not count, such as: drawn, never given out.", ""),
    epsilon: float | None = ask.option("With limit: the ε that all together must keep.", min=0),
    delta: float | None = ask.option("With limit: the δ that all together must keep.", min=0, max=1),
    rho: float | None = ask.option("With limit: the ρ (zero-concentrated), instead of ε and δ.", min=0),
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
    if action != "limit" and terms != Terms():
        raise InputError("--epsilon, --delta and --rho go with ledger limit", "leave them out")
    content, notes = Ledger.at(TableLedger(book, table).path), tuple[str, ...]()
    if action == "add":
        content, notes = _add(source, content, Path(str(release)))
    elif action == "void":
        content = _void(content, table, str(release), reason)
    elif action == "limit":
        if terms == Terms():
            raise InputError("a limit needs a number", "give --epsilon and --delta, or --rho")
        if rho is not None and (epsilon is not None or delta is not None):
            raise InputError("a limit is ρ, or ε and δ", "give --rho, or --epsilon with --delta")
        if delta is not None and not 0 < delta < 1:
            raise InputError(f"δ lies between 0 and 1, got {delta:g}", "give one below one over the people")
        content = content.declare_limit(terms)
        say(f"Declared for all releases of {table} together: {_terms(terms)}.")
    if not content.is_there:
        say(f"No release of {table} is recorded: there is no {from_here(content.path)}.")
        propose(context, "how much may be released:", "budget", table, out="budget.csv")
        return
    if action == "show":
        _show(content)
    _show_next(context, source, table, content)
    show_notes(notes)


def _add(source: ask.TableOptions, ledger: Ledger, folder: Path) -> tuple[Ledger, tuple[str, ...]]:
    release = load_release(folder)
    records = in_memory(records_like(source, release))
    guarantee = terms_of(release) if release.noisy is not None else None
    ledger = ledger.record(records, folder, guarantee=guarantee)
    entry = ledger.entry_of(folder)
    assert entry is not None
    say(f"{folder} is release {entry.number} in {from_here(ledger.path)}: {entry.what}.")
    say("Not checked, because nobody could: that it was made from this very table. It counts as if it was.")
    return ledger, records.notes


def _void(ledger: Ledger, table: Path, release: str, reason: str) -> Ledger:
    if not release.isdecimal():
        raise InputError(
            f"a release is voided by its number, got {release!r:.60}", "see it in allbutone ledger show"
        )
    if not reason.strip():
        again = shlex.join(["ledger", "void", str(table), release, "--reason", "drawn, never given out"])
        raise InputError("a release is voided for a reason", f"give one: allbutone {again}")
    ledger = ledger.void(int(release), reason)
    entry = ledger.entry(int(release))
    say(f"Release {entry.number} ({entry.what}, {entry.place}) does not count any more.")
    say("If anyone ever got it, add it again: what is out cannot be called back.")
    return ledger


def _show(ledger: Ledger) -> None:
    counts, voided = len(ledger.counted), len(ledger.releases) - len(ledger.counted)
    without = f"; {voided} {'was' if voided == 1 else 'were'} voided" if voided else ""
    say(f"{counted(counts, 'release')} of this table {'counts' if counts == 1 else 'count'}{without}.\n", "bold")
    headings = ("", "date", "what", "people", "prior", "folder", "state")
    rows = []
    for entry in ledger.releases:
        prior, state = entry.prior.split(";")[0], ledger.lost(entry) or "counts"
        if entry.voided:
            state = f"voided {entry.voided.date:%Y-%m-%d}: {entry.voided.reason}"
        if entry.judged:
            passed = "passed" if entry.judged.passed else "did not pass"
            state += f"; first judged {entry.judged.date:%Y-%m-%d}: {passed}"
        rows.append([entry.number, f"{entry.date:%Y-%m-%d}", entry.what, entry.people, prior, entry.place, state])
    show(from_here(ledger.path), headings, rows, words=("date", "what", "prior", "folder", "state"))
    for entry in ledger.counted:
        if entry.guarantee:
            say(f"Release {entry.number} keeps {_terms(entry.guarantee)}.")
    if words := total_in_words(ledger):
        say(words)
    if ledger.limit:
        say(left_in_words(ledger))


def _terms(terms: Terms) -> str:
    signs = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}
    values = {sign: getattr(terms, name) for name, sign in signs.items()}
    numbers = [f"{sign} = {value:g}" for sign, value in values.items() if value is not None]
    return ", ".join(numbers) + (f" ({terms.adjacency})" if terms.adjacency else "")


def _show_next(context: typer.Context, source: ask.TableOptions, table: Path, ledger: Ledger) -> None:
    """Propose the command that says what is left, for more of what was released last."""
    # with void the argument RELEASE is a number, which is not what budget's --release means
    options: dict[str, Any] = {"out": "budget.csv", "release": ask.ReleaseKind.datasets}
    there = [entry for entry in ledger.counted if not ledger.lost(entry)]
    if not ledger.counted:  # what was voided still says how the table is read
        there = [entry for entry in ledger.releases if not (entry.guarantee or ledger.lost(entry))]
    if there and there[-1].guarantee:
        folder = from_here(ledger.folder_of(there[-1]))
        propose(context, "what the last release gives away:", "risk", table, folder, out="risk.csv")
        return
    if there:
        last = there[-1]
        options |= {"like": from_here(ledger.folder_of(last)), **source.as_released}
        if last.rows:
            options["rows"] = last.rows[-1]
        if last.kind != ask.ReleaseKind.datasets:
            options["release"] = ask.ReleaseKind(last.kind)
    propose(context, "what is left to be released:", "budget", table, **options)
