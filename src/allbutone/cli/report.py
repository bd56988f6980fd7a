"""The command that puts the whole case for or against a release into one file."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli.reading import (
    TableLedger,
    in_memory,
    mechanism_prior,
    open_ledger,
    prior_of,
    records_like,
    require_columns,
    show_together,
)
from allbutone.disclosure.guarantee import left_in_words
from allbutone.figures.export import write_pdf
from allbutone.releases.folder import load_release
from allbutone.releases.ledger_file import Entry
from allbutone.releases.release import Release
from allbutone.releases.several import of_measurements
from allbutone.reports.assessment import SIMULATING, Assessment, assess, assess_in_engine
from allbutone.reports.board import Origin
from allbutone.reports.findings import Finding, budget_words, instead_of, passing, private_risk_sentence
from allbutone.reports.guaranteed import GuaranteedCase, assess_guaranteed, require_declared_prior
from allbutone.reports.report import full_report, page_report, public_report
from allbutone.support.errors import Cure, InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.safe_io import fresh_file, require_distinct, require_outside

Note = Annotated[str, typer.Option(help="A sentence about the data that the report must carry.")]


@ask.command
def report(
    *,
    context: typer.Context,
    source: ask.JudgedAnywhere,
    release_dir: ask.ReleaseDir,
    model: ask.PriorOfRelease,
    attack: Annotated[ask.AttackOptions, ask.Offers("secret", *ask.RULE)],
    book: ask.EarlierReleases,
    out: Annotated[
        Path | None,
        typer.Option(help="The .html file to write, or .pdf, which Chromium prints; report.html, or page.html."),
    ] = None,
    page: bool = ask.option("The board's page alone, which prints on one sheet, to be signed.", False),
    public: bool = ask.option("A page to go with the release, made from the release alone.", False),
    note: Note = "",
    force: ask.Force = False,
) -> None:
    """Put the whole case for or against a release into one HTML file that a board can read."""
    out = _place(out, page, public)
    rule, table = attack.rule, source.table
    if not public:
        require_outside(out, release_dir)
    ledger = open_ledger(source, book)
    require_distinct([out], [*source.files, model.prior])
    with fresh_file(out, force=force, private=not public) as path:
        release = load_release(release_dir)
        if source.stays_in_engine:
            of_measurements(release)
        if public:
            require_columns(source, release)
            _write(path, out, public_report(release, note, attack.declared(release.schema, release.order)))
        elif release.noisy is not None:
            require_declared_prior(model.prior)
            wide = attack.judging(records_like(source, release))
            left = left_in_words(ledger.content)
            with terminal.late_progress("Attacking records", None):
                guaranteed = assess_guaranteed(in_memory(wide), release, rule, left)
            again = terminal.following(context, "report", table, release_dir)
            _write(path, out, _pages(guaranteed, again, note, _origin(ledger, release_dir), alone=page))
        else:
            records, judged = attack.judging(records_like(source, release)), None
            if isinstance(records, LazyRecords):
                how: dict[str, Any] = {"most": source.worst, "key": source.key, "step": terminal.late_progress}
                how["prior"] = mechanism_prior(model, records, release)
                case = assess_in_engine(records, release, probability=rule, **how)
            else:
                judged = ledger.judged(records, release, [release_dir])
                prior = prior_of(model, records)
                case = assess(records, release, prior, probability=rule, judged=judged, step=_step)
            again = terminal.following(context, "report", table, release_dir)
            _write(path, out, _pages(case, again, note, _origin(ledger, release_dir), alone=page))
    if public:
        _show_public(out, table, note, release)
        if not source.stays_in_engine:
            words = "look at the folder itself once more, before it goes out:"
            terminal.propose(context, words, "check", release_dir, table=table)
        return
    if release.noisy is not None:
        _show_guaranteed(guaranteed, out)
        _show_next(context, source, release_dir, guaranteed, ledger.entry_of(release_dir), book.ledger)
        terminal.show_notes([*wide.notes, *ledger.judge([release_dir], passed=guaranteed.verdict.passed)])
        return
    describe_assessment(case)
    show_together(judged)
    if case.selection:
        terminal.say(f"{case.selection.in_words}\n")
    for words in case.left_out:
        terminal.say(f"Not told, because the records stay where they are: {words}")
    _show_written(out)
    _show_next(context, source, release_dir, case, ledger.entry_of(release_dir), book.ledger)
    unrecorded = ledger.judge([release_dir], passed=case.verdict.passed)
    terminal.show_notes([*records.notes, *(judged.remarks if judged else ()), *unrecorded])


def _show_guaranteed(case: GuaranteedCase, out: Path) -> None:
    """Print the verdict on a release with a guarantee, what is guaranteed, and what else to know."""
    terminal.show_verdict(case.verdict)
    terminal.say(f"{private_risk_sentence(case.risk, case.noisy)}\n\nGuaranteed: {case.noisy.in_words}")
    if case.left:
        terminal.say(case.left)
    _show_findings(case.findings)
    _show_written(out)


def _step(name: str, parts: int | None) -> Any:
    """Show how far a step is; the longest, of a table with categories, ends with what is there on Ctrl-C."""
    return terminal.late_progress(name, parts, cut_short=name == SIMULATING)


def _place(out: Path | None, page: bool, public: bool) -> Path:
    """Return the file to write: an .html or a .pdf."""
    usual = "page.html" if page else "report.html"
    if page and public:
        raise InputError("--page is for the board, --public for everybody", "leave one of them out")
    if out is not None and out.suffix not in (".html", ".pdf"):
        problem = f"--out names an .html or a .pdf file, got {str(out)!r}"
        raise InputError(problem, Cure("name one", "out", usual))
    return out or Path(usual)


def _origin(ledger: TableLedger, folder: Path) -> Origin:
    """Return where the page comes from; a ledger that is left aside was not looked at."""
    aside = ledger.options.alone or not ledger.content.is_there
    return Origin.of(ledger.table, folder, None if aside else ledger.content)


def _pages(
    case: Assessment | GuaranteedCase, command: Sequence[str], note: str, origin: Origin, alone: bool = False
) -> str:
    """Return the report, with the command that makes it again, or the board's page alone."""
    with terminal.late_progress("Writing the report", None):
        again = [shlex.join(["allbutone", *command])]
        return page_report(case, note, origin) if alone else full_report(case, again, note, origin)


def _write(path: Path, out: Path, page: str) -> None:
    """Write a page, or print it where a PDF is asked for; `path` is where `out` lies until it is whole."""
    if out.suffix == ".pdf":
        with terminal.late_progress("Printing", None):
            write_pdf(page, path)
    else:
        path.write_text(page, encoding="utf-8")


def _show_written(out: Path) -> None:
    how = "" if out.suffix == ".pdf" else " (opens in any browser, offline, and prints)"
    terminal.say(f"Written: {out}{how}. Confidential: keep it as you keep the table; only you can read it.")


def write_page(path: Path, assessment: Assessment, command: Sequence[str], note: str) -> None:
    """Write the report, with the command that makes it again."""
    _write(path, path, _pages(assessment, command, note, Origin()))


def _show_public(out: Path, table: Path | str, note: str, release: Release) -> None:
    """Say what a public page holds, and what nobody has checked."""
    mixed = not release.mechanism.is_normal
    names = "the names of columns and levels" if mixed else "the column names"
    unchecked = f"{names} and your note" if note else names
    terminal.say(
        f"Written: {out}, to go with the release. It was made from the release alone: its column "
        f"names, sizes and prior, {'levels, their shares, ' * mixed}and the means and SDs of the released values"
        f"{', and your note' * bool(note)}. "
        f"{Path(table).name} was read only to check that it has these columns.\n"
        f"Not checked: what the release gives away, and what {unchecked} may tell of anyone. Read the page first."
    )


def describe_assessment(assessment: Assessment) -> None:
    """Print the verdict, what would pass, how much in all, and what else to know."""
    terminal.show_verdict(assessment.verdict)
    if assessment.remedies:
        terminal.say("What would pass:")
    for words in assessment.remedies:
        terminal.say(f"  - {words}")
    if assessment.budget:
        in_all = budget_words(assessment.budget, assessment.count, assessment.earlier_count)
        terminal.say(f"How much in all: {in_all}")
    _show_findings(assessment.findings)


def _show_findings(findings: Sequence[Finding]) -> None:
    """Print what else to know."""
    terminal.say("\nBefore it goes out, read also:")
    for finding in findings:
        sign = ("!", "yellow") if finding.against else ("·", "default") if finding.noted else ("✔", "green")
        terminal.headline(*sign, finding.subject, f": {finding.words}")
    terminal.say("")


def _show_next(
    context: typer.Context,
    source: ask.TableOptions,
    folder: Path,
    assessment: Assessment | GuaranteedCase,
    entry: Entry | None,
    ledger: Path | None,
) -> None:
    """Propose the public page; where the release must not go out, how it is voided, and what to draw instead."""
    table = source.table
    if assessment.verdict.may_go_out:
        words = "a page about the release that may go with it:"
        terminal.propose(context, words, "report", table, folder, public=True, out="public.html")
        return
    if entry:
        void = ["ledger", "void", terminal.as_argument(table), f"{entry.number}"]
        void += ["--reason", "drawn, never given out"]
        void += ["--ledger", str(ledger)] if ledger else []
        terminal.show_next("do not give it out; if nobody has it, say so:", void)
    if isinstance(assessment, GuaranteedCase):
        return
    budget = assessment.budget
    options: dict[str, Any] = {"out": "release", "like": folder, **source.as_released}
    if budget.noun == "parameter draw":
        options["release"] = ask.ReleaseKind.parameters
    elif not assessment.release.mechanism.keep:
        options["rows"] = budget.rows_of_each
    datasets = instead_of(budget, assessment.count)
    if not datasets:
        smaller = [one for one in passing(budget, assessment.count) if one.rows]
        if not smaller:
            return
        options["rows"], datasets = smaller[-1].rows, smaller[-1].datasets
    words = (
        "then draw once what the budget allows:" if entry else "what the budget allows in its place, drawn once:"
    )
    terminal.propose(context, words, "synthesize", table, datasets=datasets, **options)
