"""The command that puts the whole case for or against a release into one file."""

import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from allbutone.cli.ledger import TableLedger, require_no_ledger, show_together
from allbutone.cli.onward import following, next_after_public_page, next_after_report
from allbutone.cli.options import (
    AttackOptions,
    EarlierReleases,
    Force,
    JudgedAnywhere,
    ModelOptions,
    Page,
    PriorOfRelease,
    ReleaseDir,
    TableOptions,
    command,
    offers,
    option,
    require_page,
)
from allbutone.cli.output import console, late_progress, show_notes, show_verdict
from allbutone.cli.reading import (
    inputs_of,
    lazy_like,
    mechanism_prior,
    prior_of,
    records_like,
    require_columns,
    source_of,
)
from allbutone.disclosure.rule import Rule
from allbutone.releases.folder import load_release
from allbutone.releases.release import Release
from allbutone.releases.several import of_measurements
from allbutone.releases.together import Together
from allbutone.reports.assessment import SIMULATING, Assessment, assess, assess_in_engine
from allbutone.reports.findings import budget_words
from allbutone.reports.report import confidential_report, public_report
from allbutone.tables.safe_io import fresh_file, require_distinct, require_outside

Note = Annotated[str, typer.Option(help="A sentence about the data that the report must carry.")]


@dataclass(frozen=True)
class Assessed:
    """The case for or against a release, what it was judged with, and what there is to note of the table."""

    assessment: Assessment
    notes: tuple[str, ...]
    judged: Together | None = None


@command
def report(
    *,
    context: typer.Context,
    source: JudgedAnywhere,
    release_dir: ReleaseDir,
    model: PriorOfRelease,
    attack: Annotated[AttackOptions, offers("probability")],
    book: EarlierReleases,
    out: Page = Path("report.html"),
    public: bool = option("A page to go with the release, made from the release alone.", False),
    note: Note = "",
    force: Force = False,
) -> None:
    """Put the whole case for or against a release into one HTML file that a board can read."""
    require_page(out, "report.html")
    rule, elsewhere = attack.rule, source_of(source) is not None
    if not public:
        require_outside(out, release_dir)
    if elsewhere:
        require_no_ledger(book)
    require_distinct([out], [*inputs_of(source), model.prior])
    ledger = TableLedger(book, source.table)
    with fresh_file(out, force=force, private=not public) as path:
        release = load_release(release_dir)
        release.require_no_guarantee()
        if elsewhere:
            of_measurements(release)
        if public:
            require_columns(source, release)
            path.write_text(public_report(release, note), encoding="utf-8")
        else:
            case = _assessed(source, model, release, release_dir, rule, ledger)
            write_page(path, case.assessment, following(context, "report", source.table, release_dir), note)
    if public:
        _show_public(out, source.table, note, release)
        if not elsewhere:
            next_after_public_page(context, source.table, release_dir)
        return
    describe_assessment(case.assessment)
    if case.judged:
        show_together(case.judged)
    for words in case.assessment.left_out:
        console.print(f"Not told, because the records stay where they are: {escape(words)}")
    console.print(
        f"Written: {escape(str(out))} (opens in any browser, offline, and prints). Confidential: keep it as "
        "you keep the table; only you can read it."
    )
    entry = None if elsewhere else ledger.entry_of(release_dir)
    next_after_report(context, source.table, release_dir, case.assessment, entry, book.ledger)
    show_notes([*case.notes, *(case.judged.remarks if case.judged else ())])


def _assessed(
    source: TableOptions,
    model: ModelOptions,
    release: Release,
    folder: Path,
    rule: Rule,
    ledger: TableLedger,
) -> Assessed:
    """Assess a release with what the ledger names; of a table that stays where it is, by who stands out most."""
    if source_of(source) is None:
        records = records_like(source, release)
        judged = ledger.judged(records, release, [folder])
        prior = prior_of(model, records)
        case = assess(records, release, prior, probability=rule, judged=judged, step=_step)
        return Assessed(case, records.notes, judged)
    lazy = lazy_like(source, release)
    case = assess_in_engine(
        lazy,
        release,
        mechanism_prior(model, lazy, release),
        probability=rule,
        most=source.worst,
        key=source.key,
        step=late_progress,
    )
    return Assessed(case, lazy.notes)


def _step(name: str, parts: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """Show how far a step is; the longest, of a table with categories, ends with what is there on Ctrl-C."""
    return late_progress(name, parts, cut_short=name == SIMULATING)


def write_page(path: Path, assessment: Assessment, command: Sequence[str], note: str) -> None:
    """Write the report, with the command that makes it again."""
    with late_progress("Writing the report", None):
        again = shlex.join(["allbutone", *command])
        path.write_text(confidential_report(assessment, [again], note), encoding="utf-8")


def _show_public(out: Path, table: Path | str, note: str, release: Release) -> None:
    """Say what a public page holds, and what nobody has checked."""
    mixed = not release.mechanism.is_normal
    names = "the names of columns and levels" if mixed else "the column names"
    unchecked = f"{names} and your note" if note else names
    console.print(
        f"Written: {escape(str(out))}, to go with the release. It was made from the release alone: its column "
        f"names, sizes and prior, {'levels, their shares, ' * mixed}and the means and SDs of the released values"
        f"{', and your note' * bool(note)}. "
        f"{escape(Path(table).name)} was read only to check that it has these columns.\n"
        f"Not checked: what the release gives away, and what {unchecked} may tell of anyone. Read the page first."
    )


def describe_assessment(assessment: Assessment) -> None:
    """Print the verdict, what would pass, how much in all, and what else to know."""
    show_verdict(assessment.verdict)
    if assessment.remedies:
        console.print("What would pass:")
    for words in assessment.remedies:
        console.print(f"  - {escape(words)}")
    if assessment.budget:
        in_all = budget_words(assessment.budget, assessment.count, assessment.earlier_count)
        console.print(f"How much in all: {escape(in_all)}")
    console.print("\nBefore it goes out, read also:")
    for finding in assessment.findings:
        mark = "[yellow]![/yellow]" if finding.against else "·" if finding.noted else "[green]✔[/green]"
        console.print(f"{mark} [bold]{finding.subject}[/bold]: {escape(finding.words)}")
    console.print()
