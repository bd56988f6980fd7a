"""The commands about risk: what each person stands to lose, and how much may be released."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.mixed_risk import mixed_assumed, mixed_risk, next_after_mixed, show_categories
from allbutone.cli.options import (
    Kind,
    LimitText,
    MechanismPrior,
    Prior,
    ReleaseKind,
    Rows,
    Table,
    describe_prior,
    fit,
    following,
    free_name,
    require_rows_of_datasets,
)
from allbutone.cli.output import console, late_progress, show, show_next, show_notes
from allbutone.cli.reading import (
    LIKE,
    OF_RELEASE,
    OF_TABLE,
    also_asked,
    given_prior,
    read_records,
    records_of,
    release_like,
)
from allbutone.cli.results import adversary_in_words, not_shown, outputs, show_files, whole_numbers
from allbutone.disclosure.budget import Budget, plan_budget
from allbutone.disclosure.budget_check import verify_budget
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.measures import RADIUS
from allbutone.disclosure.mixed_risk import judged_categories
from allbutone.disclosure.per_record import risk_columns
from allbutone.model.prior_file import read_prior
from allbutone.plots.budget import budget_figure
from allbutone.plots.categories import category_figure
from allbutone.plots.framing import titled
from allbutone.plots.risk import risk_figure
from allbutone.releases.folder import any_release_of
from allbutone.releases.joined import Released
from allbutone.releases.mixed.release import MixedRelease
from allbutone.releases.release import DatasetRelease
from allbutone.reports.findings import most_exposed, risk_sentence
from allbutone.support.checks import count_of
from allbutone.support.text import counted, number
from allbutone.tables.records import Records
from allbutone.tables.safe_write import require_outside

ReleaseDirs = Annotated[
    list[Path],
    typer.Argument(help="The folder of the release, or several folders: one attack on all."),
]
Known = Annotated[
    list[str] | None,
    typer.Option(help="A column the adversary knows of everyone, or several separated by commas."),
]
LackingColumns = Annotated[
    list[str] | None,
    typer.Option(help="A column the adversary lacks of everyone, or several separated by commas."),
]
LackingRecords = Annotated[
    int, typer.Option(min=0, help="How many records the adversary lacks besides the target, chosen at random.")
]
Radius = Annotated[float, typer.Option(help="How near the truth counts as near: a Mahalanobis distance.")]
NoMass = Annotated[
    bool, typer.Option("--no-mass", help="Leave out the mass near the truth: several times faster.")
]
Counts = Annotated[str, typer.Option(help="The numbers of datasets for which the file gives every exposure.")]
Verify = Annotated[
    int | None, typer.Option(help="Check the verdict on so many simulated releases of this very table.")
]
Seed = Annotated[int | None, typer.Option(min=0, help="Makes the simulations repeatable.")]
File = Annotated[Path, typer.Option(help="The .csv file to write; the figure is written beside it.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files of these names.")]


@also_asked(OF_RELEASE)
def risk(
    context: typer.Context,
    table: Table,
    release_dir: ReleaseDirs,
    prior: MechanismPrior = None,
    known: Known = None,
    lacking_columns: LackingColumns = None,
    lacking_records: LackingRecords = 0,
    radius: Radius = RADIUS,
    no_mass: NoMass = False,
    out: File = Path("risk.csv"),
    force: Force = False,
) -> None:
    """Play the adversary against every record of the table: who is exposed by this release, and how badly.

    Several releases of the table are attacked together.
    """
    for folder in release_dir:
        require_outside(out, folder)
    with outputs(out, force, [table, prior]) as save:
        release = any_release_of(release_dir)
        records = records_of(context, table, release)
        with late_progress("Attacking records", len(records.values)) as watch:
            if isinstance(release, MixedRelease):
                found = mixed_risk(context, records, release, watch)
            else:
                found = _risk_of_measurements(context, records, release, watch)
        save(found, *_figures(found))
    console.print(f"[bold]{escape(risk_sentence(found))}[/bold]\n")
    if "relative_error" in found:
        _show_risk(found, most_exposed(found)[:10])
    show_categories(found, records)
    show_files(out)
    if isinstance(release, MixedRelease):
        console.print(mixed_assumed(context, release, found))
        next_after_mixed(context, table, release, found)
    else:
        console.print(_risk_assumed(context, records))
        _next_after_risk(context, table, release_dir, release)
    show_notes(records.notes)


def _risk_of_measurements(
    context: typer.Context, records: Records, release: Released, watch: Callable[[int], None]
) -> dict[str, np.ndarray]:
    given = context.params
    prior = read_prior(given["prior"], records.columns, records.schema) if given["prior"] else None
    return risk_columns(
        records,
        release,
        prior,
        known=_columns(records, given["known"]),
        lacking_columns=_columns(records, given["lacking_columns"]),
        lacking_records=given["lacking_records"],
        radius=given["radius"],
        mass=not given["no_mass"],
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        rng=np.random.default_rng(0),
        watch=watch,
    )


@also_asked(OF_TABLE | LIKE)
def budget(
    context: typer.Context,
    table: Table,
    rows: Rows = None,
    release: Kind = ReleaseKind.datasets,
    limit: LimitText = "exposure=0.5",
    counts: Counts = "1,2,5,10,20,50,100",
    verify: Verify = None,
    prior: Prior = None,
    out: File = Path("budget.csv"),
    seed: Seed = None,
    force: Force = False,
) -> None:
    """Say how many datasets, or parameter draws, may be released before anyone is exposed."""
    require_rows_of_datasets(rows, release)
    asked, bound = whole_numbers("counts", counts), Limit.of(limit)
    if verify is not None:
        count_of("verify", verify)
    stream = np.random.default_rng(seed)
    with outputs(out, force, [table, prior, context.params["table_file"]]) as save:
        records = read_records(context, table)
        synthesizer, note = fit(records, given_prior(context))
        # who has the parameters learns nothing more from the datasets drawn from them
        size = (rows or len(records.values)) if release is ReleaseKind.datasets else None
        with late_progress("Trying numbers of datasets", None) as watch:
            plan = plan_budget(
                records, synthesizer.prior, rows=size, limit=bound, counts=asked, rng=stream, watch=watch
            )
        with late_progress("Simulating releases", verify) as watch:
            checked = verify and verify_budget(records, synthesizer.prior, plan, verify, stream, watch)
        save(plan.columns(), budget_figure(plan))
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    _show_budget(plan)
    if checked:
        console.print(_checked(plan, checked))
    show_files(out)
    console.print(f"{escape(plan.assumptions)} In use: {escape(describe_prior(prior, synthesizer.prior))}.")
    _next_after_budget(context, table, plan, out)
    show_notes([*records.notes, note])


def _columns(records: Records, asked: Sequence[str] | None) -> tuple[str, ...]:
    return Records.of_numbers(records, columns=list(asked)).columns if asked else ()


def _figures(found: dict[str, np.ndarray]) -> list[Any]:
    """Draw what was found of the measurements, unless all are known, and of each category."""
    figures = [category_figure(found, name) for name in judged_categories(found)]
    if "relative_error" not in found:
        return [titled(figures[0]), *figures[1:]]
    names = [name.removeprefix("error_") for name in found if name.startswith("error_")]
    return [risk_figure(found, names, most_exposed(found)), *figures]


def _show_risk(found: dict[str, np.ndarray], places: np.ndarray) -> None:
    headings = {
        "row": "row",
        "exposure": "exposure",
        "relative_error": "relative error",
        "information_gain": "gain (nats)",
        "mass": "mass near truth",
        "prior_mass": "without release",
    }
    kept = [name for name in headings if name in found]
    rows = [[number(found[name][place]) for name in kept] for place in places]
    show("The ten most exposed rows, by guess or by gain", [headings[name] for name in kept], rows)


def _show_budget(plan: Budget) -> None:
    columns, at = plan.columns(), max(plan.confident_count, 1)
    places = np.argsort(-plan.leverage)[:10]
    predicted = plan.law.exposure(plan.leverage[places], at)
    kept = [columns[name][places] for name in ("row", "leverage", "threshold_datasets", "max_datasets")]
    rows = [[number(value) for value in line] for line in zip(*kept, predicted, strict=True)]
    headings = ("row", "leverage", "leaves the others' centre at", "most allowed", f"exposure at {at:,}")
    show("The ten most exposed rows", headings, rows)
    console.print()
    for title, table in (
        (
            f"Row {plan.limiting_row} by every measure, median and 95 % point: one released, or {at:,}",
            plan.measures,
        ),
        ("Many small datasets, or few large ones (expected, closed form)", plan.row_tradeoff),
        ("What if (expected, closed form)", plan.what_if),
    ):
        if table:
            names = list(table[0])
            shown = [[escape(number(line[name])) for name in names] for line in table]
            show(title, [name.replace("_", " ") for name in names], shown, words=("measure", "change"))
            console.print()


def _checked(plan: Budget, checked: dict[str, Any]) -> str:
    return (
        f"Checked on {counted(checked['releases'], 'simulated release')} of {max(plan.confident_count, 1):,} "
        f"{plan.what}, attacking the {counted(checked['attacked'], 'record')} likeliest to pass: in "
        f"{checked['passed']:,} some record passed {plan.limit} ({checked['share']:.0%}; 95 % interval "
        f"{checked['low']:.0%} to {checked['high']:.0%})."
    )


def _risk_assumed(context: typer.Context, records: Records) -> str:
    given, p = context.params, len(records.columns)
    known, lacking = (_columns(records, given[name]) for name in ("known", "lacking_columns"))
    missing = given["lacking_records"]
    normal = "the column is normal" if p == 1 else f"the {p} columns are jointly normal"
    normal += records.schema.scales_in_words
    has = (
        f"every record but one and {counted(missing, 'other')} chosen at random"
        if missing
        else "every record but one"
    )
    has += f" without everyone's {', '.join(lacking)}" if lacking else ""
    weaker = " The usual adversary, who lacks nothing, learns more." if missing or lacking else ""
    return escape(
        f"Assumed: {normal}, {adversary_in_words(given['release_dir'], known, has)}{weaker}\n"
        f"{not_shown(given['release_dir'])}"
    )


def _next_after_risk(context: typer.Context, table: Path, release_dir: list[Path], release: Released) -> None:
    if len(release_dir) > 1:
        options: dict[str, Any] = {"out": free_name("report.html"), "prior": None}
        words = "the case for or against the last of them by itself:"
        show_next(words, following(context, "report", table, release_dir[-1], **options))
        return
    words = "how much of this table may be released before anyone is exposed"
    options = {"out": free_name("budget.csv", ".html")}
    if release.rows:
        options["rows"] = max(release.rows)
    if not isinstance(release, DatasetRelease):
        options["release"] = ReleaseKind.both if release.rows else ReleaseKind.parameters
    options |= {"like": release_dir[0], "prior": None, "drop": None}
    if not context.params["no_header"]:  # where --columns are the names of all
        options["columns"] = None
    show_next(f"{words}:", following(context, "budget", table, **options))


def _next_after_budget(context: typer.Context, table: Path, plan: Budget, out: Path) -> None:
    like = release_like(context)
    left = plan.confident_count - (like.count if like else 0)
    if plan.confident_count and left < 1:
        where = context.params["like"]
        words = f"{where} has used it up; see the case for or against it:"
        show_next(words, following(context, "report", table, where, out=free_name("report.html")))
    elif plan.confident_count:
        words, count = "release that much, if you accept every measure above:", left
        if like:
            words = f"release so many more, {context.params['like']} counted, if you accept every measure above:"
        show_next(words, following(context, "synthesize", table, out=free_name("release"), datasets=count))
    elif plan.law.rows is None or plan.law.rows == 1:
        show_next("see what leaving columns out would allow:", ["budget", "--help"])
    else:
        fewer = {"rows": max(1, plan.law.rows // 10), "out": free_name(out, ".html")}
        show_next("see what smaller datasets would allow:", following(context, "budget", table, **fewer))
