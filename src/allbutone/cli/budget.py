"""The commands about how much may be released: by the rule, before anyone is disclosed, or with a guarantee."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.ledger import TableLedger, require_no_ledger, show_together
from allbutone.cli.onward import next_after_budget
from allbutone.cli.options import (
    OF_ENGINE,
    OF_TABLE,
    REQUIRED,
    AttackOptions,
    EarlierReleases,
    Force,
    Kind,
    ModelOptions,
    NumbersFile,
    ReleaseKind,
    Rows,
    TableOptions,
    argument,
    command,
    offers,
    option,
    require_page,
    require_rows_of_datasets,
    whole_numbers,
)
from allbutone.cli.output import console, late_progress, outputs, show, show_files, show_notes
from allbutone.cli.reading import TableAsRead, inputs_of, read, source_of
from allbutone.cli.synthesize import describe_prior, fit_normal
from allbutone.disclosure.budget import COUNTS, EXPECTED_RELEASES, Budget
from allbutone.disclosure.budget import budget as planned
from allbutone.disclosure.guarantee_plan import ERRORS, ROUTES, plan_guarantee, useful
from allbutone.figures.budget import budget_figure, guarantee_figure
from allbutone.figures.export import write_figure
from allbutone.releases.private_mechanism import DELTA
from allbutone.releases.together import Together
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.text import counted, number
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from allbutone.tables.safe_io import fresh_file, require_distinct
from allbutone.tables.schema import Schema

USUAL_COUNTS = ",".join(map(str, COUNTS))


@command
def budget(
    *,
    context: typer.Context,
    source: Annotated[TableOptions, offers(*OF_TABLE, *OF_ENGINE, "key", "worst")],
    model: Annotated[ModelOptions, offers("prior", "like", "keep", "cells", "cell_weight", "missing")],
    attack: Annotated[AttackOptions, offers("probability")],
    book: EarlierReleases,
    rows: Rows = None,
    release: Kind = ReleaseKind.datasets,
    counts: str = option("The numbers of datasets for which the file gives every exposure.", USUAL_COUNTS),
    verify: int | None = option("Check the verdict on so many simulated releases of this very table."),
    out: NumbersFile = Path("budget.csv"),
    seed: int = option(
        "Of the simulations; another one shows how much chance decides.", 0, min=0
    ),  # as in a report, so that both say the same
    force: Force = False,
) -> None:
    """Say how many datasets, or parameter draws, may be released before a value of anyone is disclosed.

    What was released before, according to the ledger, counts.
    """
    require_rows_of_datasets(rows, release)
    numbers, rule = tuple(whole_numbers("counts", counts)), attack.rule
    if verify is not None:
        count_of("verify", verify)
    elsewhere = source_of(source) is not None
    if elsewhere:
        require_no_ledger(book)
    with outputs(out, force, [*inputs_of(source), model.prior]) as save:
        ledger = TableLedger(book, source.table)
        table = read(source, model, None if elsewhere else ledger.content, categories=True, may_impute=True)
        judged = None if elsewhere else _out_already(ledger, table)
        # who has the parameters learns nothing more from the datasets drawn from them
        size = (rows or table.people) if release is ReleaseKind.datasets else None
        stream = np.random.default_rng(seed)
        plan, note = _planned(source, table, judged, {"rows": size, "probability": rule, "rng": stream})
        save(plan.columns(numbers), budget_figure(plan))
        checked = _verified(plan, verify, stream)
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    if judged:
        show_together(judged)
    _show_plan(plan)
    if checked:
        console.print(checked)
    show_files(out)
    in_use = describe_prior(model.prior, plan.case.mechanism.require_prior())
    console.print(f"{escape(plan.assumptions)} In use: {escape(in_use)}.")
    next_after_budget(context, source.table, plan, out, table.keeps, elsewhere)
    show_notes([*table.records.notes, note])


def _out_already(ledger: TableLedger, table: TableAsRead) -> Together:
    """Return what is out: what the ledger counts, and the release to be like, unless the ledger says it is not."""
    assert isinstance(table.records, Records)
    folder = table.model.like
    if folder is None or ledger.voids(folder):
        return ledger.judged(table.records, mixed=table.is_mixed)
    return ledger.judged(table.records, table.model.release_like, [folder])


def _planned(
    source: TableOptions, table: TableAsRead, judged: Together | None, asked: dict[str, Any]
) -> tuple[Budget, str]:
    """Plan by the closed form and simulated releases; return also what there is to note about the prior."""
    note = ""
    if table.is_mixed:
        how = table.mechanism
    else:
        synthesizer, note = fit_normal(table.records, table.prior)
        how = {"prior": synthesizer.prior}
    if isinstance(table.records, LazyRecords):
        how |= {"key": source.key, "most": source.worst}
    earlier = judged.release if judged and judged.any else None
    with late_progress("Simulating releases", EXPECTED_RELEASES, cut_short=True) as watch:
        plan = planned(table.records, release=earlier, alternatives=True, watch=watch, **asked, **how)
    return plan, note


def _verified(plan: Budget, releases: int | None, stream: np.random.Generator) -> str:
    """Check the number on as many simulated releases more as were asked for, and say what came of it."""
    if not releases:
        return ""
    with late_progress("Simulating releases", releases) as watch:
        checked = plan.verify(releases, stream, watch)
    return (
        f"Checked on {counted(checked['releases'], 'simulated release')} of {max(plan.in_all, 1):,} "
        f"{plan.what}, attacking the {counted(checked['attacked'], 'record')} likeliest to be disclosed: "
        f"{checked['passed']:,} disclosed someone ({checked['share']:.0%}; 95 % interval {checked['low']:.0%} to "
        f"{checked['high']:.0%})."
    )


def _show_plan(plan: Budget) -> None:
    """Show whose values are likeliest to be disclosed, what sets the limit, and what would allow more."""
    at, standing = max(plan.in_all, 1), plan.standing
    here, twice = plan.chances(at), plan.chances(2 * at)
    names = standing.keys if standing and standing.keys else plan.rows
    rows = [
        [escape(f"{names[place]}"), f"{here[place]:.1%}", f"{twice[place]:.1%}", number(plan.leverage[place])]
        for place in plan.places[:10]
    ]
    who = "record" if standing and standing.keys else "row"
    headings = (who, f"disclosed by {at:,}{' in all' * bool(plan.before)}", f"by {2 * at:,}", "leverage")
    title = "The ten people at most risk: how often releases would disclose a value of theirs"
    show(title, headings, rows)
    console.print()
    if plan.parts:
        console.print(f"{plan.parts}\n")
    if plan.alternatives:
        changes = [[escape(each.in_words), f"{each.datasets:,}"] for each in plan.alternatives]
        title = "What another choice would allow" + " in all" * bool(plan.before) + " (closed form)"
        show(title, ("change", f"{plan.noun}s"), changes, words=("change",))
        console.print()
    if plan.ladder:  # a strong prior may leave nobody above the average
        lines = [[number(value) for value in step.values()] for step in plan.ladder]
        show("How many stand out, and what a record of that leverage allows", list(plan.ladder[0]), lines)
    if standing is not None:
        console.print(f"\nFetched: {standing.in_words}; {standing.others:,} stayed where they are.")


@command
def guarantee(
    *,
    table_file: Path = argument(
        "The table file: limits, and best also centre and spread, of every column.", REQUIRED
    ),
    people: int = option("The number of people in the table; it is public.", REQUIRED),
    epsilon: str = option("The ε to try, separated by commas.", "0.5,1,2,5,10"),
    delta: float = option("The δ of the guarantee, below one over the people.", DELTA),
    correlation: float = option("A public guess of the correlation of all pairs of columns.", 0.5),
    out: Path = option("The .html file to write the figure to.", Path("guarantee.html")),
    force: Force = False,
) -> None:
    """Tell, from public figures alone, what a guarantee would cost in accuracy, and which way to take.

    The table itself is not read.
    """
    require_page(out, "guarantee.html")
    require_distinct([out], [table_file])
    with fresh_file(out, force=force) as page:
        plan = plan_guarantee(
            Schema.of(table_file), people, _numbers(epsilon), delta=delta, correlation=correlation
        )
        write_figure(guarantee_figure(plan), page)
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    headings = ("route", "ε", "mean (spreads)", "spread (share)", "correlation", "")
    rows = [
        [
            words,
            f"{row['epsilon']:g}",
            *(f"{row[key]:.3f}" for key in ERRORS),
            "" if useful(row) else "too inexact",
        ]
        for route, words in ROUTES.items()
        for row in plan.of(route)[: 1 if route == "no privacy" else None]
    ]
    show("Expected errors of one release, by route", headings, rows, words=(headings[0], headings[-1]))
    console.print(
        f"Written: {escape(str(out))} (the figure; opens in any browser, offline). It tells nothing of the table, "
        "which was not read.\nAssumed: normal columns whose means lie near the centre of the limits, and the "
        f"correlation {correlation:g} for all pairs; one release. The guarantee itself assumes none of that. "
        "Datasets drawn by `synthesize --epsilon` have the errors of its noise, however many there are."
    )
    if plan.useful_from is not None:
        asked = f"synthesize TABLE --epsilon {plan.useful_from:g} --delta {delta:g} --table-file {table_file}"
        console.print(f"\nTo spend it, once and for all: [bold]allbutone {escape(asked)} --out release[/bold]")


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        cure = Cure("list some", "epsilon", "1,3,10")
        raise InputError(f"--epsilon are numbers separated by commas, got {text!r}", cure) from error
