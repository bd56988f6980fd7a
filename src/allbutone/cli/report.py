"""The commands that assess a release: the report on a release, and the paper's application."""

import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.assessed import describe, describe_public, write_page
from allbutone.cli.earlier import EARLIER, judged_with_earlier, ledger_of, show_together
from allbutone.cli.elsewhere import KEY, OF_ENGINE, AnyTable, source_of
from allbutone.cli.engine_report import engine_report
from allbutone.cli.options import (
    MechanismPrior,
    Probability,
    ReleaseDir,
    ReleaseKind,
    describe_prior,
    following,
    free_name,
)
from allbutone.cli.output import Images, console, late_progress, show, show_next, show_notes, write_named
from allbutone.cli.reading import (
    OF_RELEASE,
    OF_TABLE,
    also_asked,
    read_records,
    records_of,
)
from allbutone.disclosure.rule import Rule
from allbutone.model.niw import NIW
from allbutone.model.prior_file import read_prior
from allbutone.releases.folder import load_unguaranteed
from allbutone.releases.ledger.file import read_ledger, release_digest
from allbutone.releases.mixed.release import Release
from allbutone.releases.release import DatasetRelease
from allbutone.reports.assessment import PAPER_COUNTS, SIMULATING, Assessment, assess
from allbutone.reports.findings import instead_of, passing
from allbutone.reports.html import paper_figures, public_report
from allbutone.reports.paper import papers_prior
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, number
from allbutone.tables.demo import demo_cohort
from allbutone.tables.files import write_columns
from allbutone.tables.records import Records
from allbutone.tables.safe_write import fresh_file, fresh_folder, require_distinct, require_outside

Page = Annotated[Path, typer.Option(help="The .html file to write.")]
Public = Annotated[
    bool,
    typer.Option("--public", help="A page to go with the release, made from the release alone."),
]
Note = Annotated[str, typer.Option(help="A sentence about the data that the report must carry.")]
Force = Annotated[bool, typer.Option("--force", help="Replace what an earlier run wrote.")]
Table = Annotated[
    Path | None,
    typer.Argument(
        help="A confidential table, as `synthesize` reads it; without one, the embedded simulated cohort."
    ),
]
Folder = Annotated[Path, typer.Option(help="The folder to create.")]
PriorFile = Annotated[Path | None, typer.Option(help="A prior file; the paper's prior by default.")]
Datasets = Annotated[int, typer.Option(help="How many datasets to draw.")]
Seed = Annotated[int | None, typer.Option(min=0, help="Makes it repeatable.")]

Figures = Annotated[bool, typer.Option("--figures", help="Also write each figure, named as in the paper.")]

FIGURES = "figures"  # the folder of them
PAPERS_PRIOR = "the paper's prior (mean 1.1, scale I, worth one record)"
APPLICATION_FILES = {
    "report.html",
    "kolmogorov_smirnov.csv",
    "correlations.csv",
    "mean_differences.csv",
    "distances.csv",
    "budget.csv",
}


@also_asked(OF_RELEASE | EARLIER | OF_ENGINE | KEY)
def report(
    context: typer.Context,
    table: AnyTable,
    release_dir: ReleaseDir,
    out: Page = Path("report.html"),
    public: Public = False,
    probability: Probability = 0.5,
    prior: MechanismPrior = None,
    note: Note = "",
    force: Force = False,
) -> None:
    """Put the whole case for or against a release into one HTML file that a board can read."""
    if out.suffix != ".html":
        raise InputError(f"--out names an .html file, got {str(out)!r}", Cure("name one", "out", "report.html"))
    rule = Rule.of(probability)
    if not public:
        require_outside(out, release_dir)
    if source_of(context, table) is not None:
        engine_report(context, table, release_dir)
        return
    require_distinct([out], [table, prior])
    with fresh_file(out, force=force, private=not public) as path:
        release = load_unguaranteed(release_dir)
        records = records_of(context, table, release)
        if public:
            path.write_text(public_report(release, note), encoding="utf-8")
        else:
            given = read_prior(prior, records.columns, records.schema) if prior else None
            judged = judged_with_earlier(context, table, records, release, [release_dir])
            assessment = assess(records, release, given, probability=rule, judged=judged, step=_step)
            again = following(context, "report", table, release_dir)
            write_page(path, assessment, again, note)
    if public:
        describe_public(out, table, bool(note), isinstance(release, Release))
        onward = following(context, "check", release_dir, table=table)
        show_next("look at the folder itself once more, before it goes out:", onward)
        return
    describe(assessment)
    show_together(judged)
    console.print(
        f"Written: {escape(str(out))} (opens in any browser, offline, and prints). Confidential: keep it as "
        "you keep the table; only you can read it."
    )
    if assessment.verdict.may_go_out:
        onward = following(context, "report", table, release_dir, public=True, out=free_name("public.html"))
        show_next("a page about the release that may go with it:", onward)
    else:
        _next_instead(context, table, release_dir, assessment)
    show_notes([*records.notes, *judged.remarks])


def _step(name: str, parts: int | None) -> AbstractContextManager[Callable[[int], None]]:
    """Show how far a step is; the longest, of a table with categories, ends with what is there on Ctrl-C."""
    return late_progress(name, parts, cut_short=name == SIMULATING)


def _next_instead(context: typer.Context, table: Path, release_dir: Path, assessment: Assessment) -> None:
    """Say how to take a release that must not go out out of account, and what may be drawn in its place."""
    path = ledger_of(context, table)
    ledger = None if context.params["alone"] else read_ledger(path)
    entry = ledger.recorded(release_digest(release_dir)) if ledger else None
    if entry:
        void = ["ledger", "void", str(table), f"{entry.number}", "--reason", "drawn, never given out"]
        if context.params["ledger"]:
            void += ["--ledger", str(path)]
        show_next("do not give it out; if nobody has it, say so:", void)
    budget = assessment.budget
    if budget is None:
        return
    options: dict[str, Any] = {"out": free_name("release"), "like": release_dir}
    if budget.noun == "parameter draw":
        options["release"] = ReleaseKind.parameters
    elif not (isinstance(assessment.release, Release) and assessment.release.mechanism.keep):
        options["rows"] = budget.rows_of_each
    count = instead_of(budget, assessment.count)
    if not count:
        smaller = [one for one in passing(budget, assessment.count) if one.rows]
        if not smaller:
            return
        options["rows"], count = smaller[-1].rows, smaller[-1].datasets
    words = (
        "then draw once what the budget allows:" if entry else "what the budget allows in its place, drawn once:"
    )
    show_next(words, following(context, "synthesize", table, datasets=count, **options))


@also_asked(OF_TABLE)
def application(
    context: typer.Context,
    table: Table = None,
    out: Folder = Path("application"),
    datasets: Datasets = 1000,
    prior: PriorFile = None,
    note: Note = "",
    seed: Seed = None,
    figures: Figures = False,
    images: Images = None,
    force: Force = False,
) -> None:
    """Run the paper's application: 1000 synthetic datasets, their fidelity, and the risk as their number grows."""
    count_of("datasets", datasets)
    seed = secrets.randbelow(1 << 32) if seed is None else seed
    require_distinct([out], [table, prior, context.params["table_file"]])
    with fresh_folder(out, ours=_is_application, force=force) as work:
        records = read_records(context, table) if table else demo_cohort()
        mechanism = (
            read_prior(prior, records.columns, records.schema) if prior else papers_prior(len(records.columns))
        )
        release = _draw(records, mechanism, datasets, seed)
        counts = sorted({*PAPER_COUNTS, datasets})
        assessment = assess(records, release, counts=counts, mass=False, step=late_progress)
        words = note or ("" if table else "A simulated cohort: no person stands behind any row.")
        again = following(context, "application", *([table] if table else []), seed=seed)
        write_page(work / "report.html", assessment, again, words)
        _write_tables(assessment, work)
        if figures or images:
            write_named(paper_figures(assessment), work / FIGURES, images)
        for path in work.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
    describe(assessment)
    _show_application(assessment)
    _tell_application(context, table, out, describe_prior(prior, mechanism) if prior else PAPERS_PRIOR)


def _tell_application(context: typer.Context, table: Path | None, out: Path, prior: str) -> None:
    """Say what was assumed and written, and what to do next."""
    console.print(f"Assumed: {escape(prior)}; the columns are jointly normal.")
    drawn = context.params["figures"] or context.params["images"]
    console.print(
        f"Written: report.html and its numbers as .csv files in {escape(str(out))}"
        f"{f', and the figures under their names in the paper in {FIGURES}' * bool(drawn)}. "
        "Confidential, as the table is."
    )
    if table is None:
        show_next("the same for a table of your own:", ["application", "--help"])
    else:
        words = f"how much may be released{' under the flat prior' * (context.params['prior'] is None)}:"
        show_next(words, following(context, "budget", table, out=free_name("budget.csv", ".html")))


def _draw(records: Records, mechanism: NIW, datasets: int, seed: int) -> DatasetRelease:
    with late_progress("Drawing datasets", None):
        return DatasetRelease.draw(
            mechanism.update(records.values),
            [len(records.values)] * datasets,
            np.random.default_rng(seed),
            columns=records.columns,
            prior=mechanism,
            schema=records.schema,
        )


def _is_application(folder: Path) -> bool:
    ours = all(path.suffix in (".html", ".png", ".svg") for path in folder.glob(f"{FIGURES}/*"))
    return ours and {path.name for path in folder.iterdir()} - {FIGURES} == APPLICATION_FILES


def _show_application(assessment: Assessment) -> None:
    assert assessment.fidelity is not None
    table = assessment.fidelity.ks_table()
    lines = [
        [escape(str(name)), *(f"{value:.3f}" for value in values)]
        for name, *values in zip(*table.values(), strict=True)
    ]
    show(
        "Kolmogorov-Smirnov, real against synthetic",
        ["column", "mean D", "SD", "mean p", "SD", "share p > 0.05"],
        lines,
        words=("column",),
    )
    console.print()
    rows = [[number(value) for value in line.values()] for line in assessment.growth]
    headings = ["datasets", "median distance", "baseline", "relative error", "disclosed", "largest gain"]
    show(f"Leave-one-out attacks on {counted(len(assessment.records.values), 'record')}", headings, rows)
    console.print()


def _write_tables(assessment: Assessment, folder: Path) -> None:
    """Write the numbers behind the report."""
    assert assessment.fidelity is not None
    assert assessment.budget is not None
    names = assessment.records.columns
    write_columns(folder / "kolmogorov_smirnov.csv", assessment.fidelity.ks_table())
    low, middle, high = assessment.fidelity.correlation_quartiles
    one, two = np.triu_indices(len(names), 1)
    write_columns(
        folder / "correlations.csv",
        {
            "first": np.array([names[place] for place in one]),
            "second": np.array([names[place] for place in two]),
            "real": assessment.fidelity.correlations[one, two],
            "synthetic_median": middle[one, two],
            "synthetic_q25": low[one, two],
            "synthetic_q75": high[one, two],
            "mean_difference": assessment.fidelity.mean_correlation_differences[one, two],
        },
    )
    low, middle, high = assessment.fidelity.mean_difference_quartiles
    mean = assessment.fidelity.mean_differences.mean(axis=0)
    means = {"column": np.array(names), "median": middle, "q25": low, "q75": high, "mean": mean}
    write_columns(folder / "mean_differences.csv", means)
    by_count = {"row": assessment.risk["row"], "baseline": assessment.risk["baseline_distance"]}
    for count, found in assessment.by_count.items():
        by_count |= {f"distance_{count}": found["distance"], f"relative_error_{count}": found["relative_error"]}
    write_columns(folder / "distances.csv", by_count)
    write_columns(folder / "budget.csv", assessment.budget.columns())
