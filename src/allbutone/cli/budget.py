"""The commands about how much may be released: by the rule, before anyone is disclosed, or with a guarantee."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
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
from allbutone.disclosure.budget import (
    COUNTS,
    Budget,
    EngineBudget,
    ladder_of,
    plan_budget,
    plan_engine_budget,
    plan_mixed_engine_budget,
    verify_budget,
)
from allbutone.disclosure.guarantee_plan import ERRORS, ROUTES, plan_guarantee, useful
from allbutone.disclosure.mixed_budget import EXPECTED_RELEASES, MixedBudget, law_of, plan_mixed_budget
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.standing import StandingOut
from allbutone.figures.budget import budget_figure, engine_budget_figure, guarantee_figure, mixed_budget_figure
from allbutone.figures.export import write_figure
from allbutone.figures.style import titled
from allbutone.model.niw import NIW
from allbutone.releases.private_mechanism import DELTA
from allbutone.releases.release import Release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.releases.together import Together
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.text import counted, number
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from allbutone.tables.safe_io import fresh_file, require_distinct
from allbutone.tables.schema import Schema

USUAL_COUNTS = ",".join(map(str, COUNTS))


@dataclass(frozen=True)
class Asked:
    """What the budget is asked for: rows of each dataset (None: parameters), the rule, the check, what is out."""

    rows: int | None
    rule: Rule
    counts: tuple[int, ...]
    verify: int | None
    stream: np.random.Generator
    earlier: Any = None


@dataclass(frozen=True)
class Planned:
    """A budget, its figure, the prior it rests on, what a check says of it, and what there is to note.

    standing, ladder: of a table that stays where it is, who stands out, and how many do by how much.
    """

    plan: Budget | MixedBudget | EngineBudget
    figure: go.Figure
    prior: NIW
    checked: str = ""
    note: str = ""
    standing: StandingOut | None = None
    ladder: Sequence[dict[str, Any]] = ()


@command
def budget(
    *,
    context: typer.Context,
    source: Annotated[TableOptions, offers(*OF_TABLE, *OF_ENGINE, "key", "worst")],
    # gaps have no budget yet
    model: Annotated[ModelOptions, offers("prior", "like", "keep", "cells", "cell_weight")],
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
        table = read(source, model, None if elsewhere else ledger.content, categories=True)
        judged = None if elsewhere else _out_already(ledger, table)
        _require_possible(table, numbers, verify, elsewhere)
        # who has the parameters learns nothing more from the datasets drawn from them
        size = (rows or table.people) if release is ReleaseKind.datasets else None
        earlier = judged.release if judged and judged.any else None
        asked = Asked(size, rule, numbers, verify, np.random.default_rng(seed), earlier)
        planned = _planned(source, table, asked)
        plan = planned.plan
        save(plan.columns(numbers) if isinstance(plan, Budget) else plan.columns(), planned.figure)
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    if judged:
        show_together(judged)
    _show_plan(planned)
    show_files(out)
    console.print(f"{escape(plan.assumptions)} In use: {escape(describe_prior(model.prior, planned.prior))}.")
    next_after_budget(context, source.table, plan, out, table.keeps, elsewhere)
    show_notes([*table.records.notes, planned.note])


def _out_already(ledger: TableLedger, table: TableAsRead) -> Together:
    """Return what is out: what the ledger counts, and the release to be like, unless the ledger says it is not."""
    assert isinstance(table.records, Records)
    folder = table.model.like
    if folder is None or ledger.voids(folder):
        return ledger.judged(table.records, mixed=table.is_mixed)
    return ledger.judged(table.records, table.model.release_like, [folder])


def _require_possible(table: TableAsRead, counts: tuple[int, ...], verify: int | None, elsewhere: bool) -> None:
    """Refuse what cannot be asked of this kind of table."""
    if table.is_mixed and counts != COUNTS:
        only = "of a table with categories, or with columns to keep,"
        raise InputError(f"the file {only} has no exposures at numbers of datasets", "leave --counts out")
    if table.has_gaps:
        raise InputError(
            "there is no budget yet for a table with gaps",
            Cure("leave rows with gaps out", "complete_cases", True),
        )
    if elsewhere and not table.is_mixed and verify is not None:
        raise InputError("a table that stays where it is cannot be simulated", "leave --verify out")


def _planned(source: TableOptions, table: TableAsRead, asked: Asked) -> Planned:
    """Plan by the closed form and simulated releases; of a table that stays where it is, from who stands out."""
    records = table.records
    if isinstance(records, LazyRecords):
        standing_out = {"probability": asked.rule, "most": source.worst, "key": source.key}
        return (_in_engine_by_cells if table.is_mixed else _in_engine)(records, table, asked, standing_out)
    return (_by_cells if table.is_mixed else _of_measurements)(records, table, asked)


def _of_measurements(records: Records, table: TableAsRead, asked: Asked) -> Planned:
    synthesizer, note = fit_normal(records, table.prior)
    with late_progress("Trying numbers of datasets", None) as watch:
        plan = plan_budget(
            records,
            synthesizer.prior,
            rows=asked.rows,
            probability=asked.rule,
            earlier=asked.earlier,
            rng=asked.stream,
            watch=watch,
        )
    checked = _verified(plan, asked, records, synthesizer.prior)
    return Planned(plan, budget_figure(plan), synthesizer.prior, checked, note)


def _by_cells(records: Records, table: TableAsRead, asked: Asked) -> Planned:
    told = table.mechanism
    told.pop("missing")
    mechanism = Synthesizer(**told).fit(records).mechanism
    assert asked.earlier is None or isinstance(asked.earlier, Release)
    with late_progress("Simulating releases", EXPECTED_RELEASES, cut_short=True) as watch:
        plan = plan_mixed_budget(
            records,
            rows=asked.rows,
            probability=asked.rule,
            earlier=asked.earlier,
            **told,
            rng=asked.stream,
            watch=watch,
        )
    return Planned(plan, _figure_by_cells(plan), mechanism.require_prior(), _verified(plan, asked))


def _figure_by_cells(plan: MixedBudget) -> go.Figure:
    return titled(mixed_budget_figure(plan)).update_layout(height=None)


def _in_engine(records: LazyRecords, table: TableAsRead, asked: Asked, standing_out: dict[str, Any]) -> Planned:
    synthesizer, note = fit_normal(records, table.prior)
    plan = plan_engine_budget(
        records, synthesizer.prior, rows=asked.rows, counts=list(asked.counts), **standing_out
    )
    figure, ladder = titled(engine_budget_figure(plan)), ladder_of(plan.standing, plan.law)
    return Planned(plan, figure, synthesizer.prior, "", note, plan.standing, ladder)


def _in_engine_by_cells(
    records: LazyRecords, table: TableAsRead, asked: Asked, standing_out: dict[str, Any]
) -> Planned:
    synthesizer = Synthesizer(**table.mechanism).fit(records)
    mechanism = synthesizer.mechanism
    with late_progress("Trying numbers of datasets", None) as watch:
        plan, standing = plan_mixed_engine_budget(
            records, mechanism, rows=asked.rows, rng=asked.stream, watch=watch, **standing_out
        )
    ladder = ladder_of(standing, law_of(synthesizer.posterior, len(records), asked.rows))
    return Planned(plan, _figure_by_cells(plan), mechanism.require_prior(), "", "", standing, ladder)


def _verified(
    plan: Budget | MixedBudget, asked: Asked, records: Records | None = None, prior: NIW | None = None
) -> str:
    """Check the number on as many simulated releases more as were asked for, and say what came of it."""
    if not asked.verify:
        return ""
    with late_progress("Simulating releases", asked.verify) as watch:
        checked = verify_budget(records, prior, plan, asked.verify, asked.stream, watch)
    return (
        f"Checked on {counted(checked['releases'], 'simulated release')} of {max(plan.in_all, 1):,} "
        f"{plan.what}, attacking the {counted(checked['attacked'], 'record')} likeliest to be disclosed: "
        f"{checked['passed']:,} disclosed someone ({checked['share']:.0%}; 95 % interval {checked['low']:.0%} to "
        f"{checked['high']:.0%})."
    )


def _show_plan(planned: Planned) -> None:
    """Show who sets the limit, what would allow more, how many stand out, and what a check came to."""
    plan = planned.plan
    if isinstance(plan, Budget):
        _show_chances(plan)
    elif isinstance(plan, MixedBudget):
        columns = plan.columns()
        rows = [[escape(number(column[place])) for column in columns.values()] for place in plan.places[:10]]
        headings = (*list(columns)[:-1], "most allowed by its own chances")
        lowered = plan.in_all < float(np.min(plan.max_datasets)) and not plan.simulated.cut_short
        fewer = "; all together allow fewer" * lowered
        show(f"The ten rows that allow least, each looked at alone{fewer}", headings, rows)
        console.print(f"\n{plan.parts}{chr(10) * bool(planned.standing)}")
    if planned.ladder:  # a strong prior may leave nobody above the average
        lines = [[number(value) for value in step.values()] for step in planned.ladder]
        title = "How many stand out, and what a record of that leverage allows"
        show(title, list(planned.ladder[0]), lines)
    if planned.standing:
        console.print(
            f"\nFetched: {planned.standing.in_words}; {planned.standing.others:,} stayed where they are."
        )
    if planned.checked:
        console.print(planned.checked)


def _show_chances(plan: Budget) -> None:
    """Show whose values are likeliest to be disclosed, and what would allow more."""
    at = max(plan.in_all, 1)
    here, twice = plan.chances(at), plan.chances(2 * at)
    rows = [
        [str(plan.rows[place]), f"{here[place]:.1%}", f"{twice[place]:.1%}", number(plan.leverage[place])]
        for place in plan.places[:10]
    ]
    headings = ("row", f"disclosed by {at:,}{' in all' * bool(plan.before)}", f"by {2 * at:,}", "leverage")
    title = "The ten people at most risk: how often releases would disclose a value of theirs"
    show(title, headings, rows)
    console.print()
    if plan.alternatives:
        changes = [[escape(each.in_words), f"{each.datasets:,}"] for each in plan.alternatives]
        noun = "parameter draws" if plan.law.rows is None else "datasets"
        title = "What another choice would allow" + " in all" * bool(plan.before) + " (closed form)"
        show(title, ("change", noun), changes, words=("change",))
        console.print()


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
