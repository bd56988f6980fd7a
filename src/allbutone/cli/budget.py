"""The command about the budget: how much may be released before anyone is exposed or found out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import typer
from rich.markup import escape

from allbutone.cli.earlier import EARLIER, judged_with_earlier, show_together
from allbutone.cli.elsewhere import KEY, OF_ENGINE, AnyTable, lazy_of, source_of
from allbutone.cli.engine_budget import engine_budget
from allbutone.cli.mixed import OF_MIXED, is_mixed, mechanism_options
from allbutone.cli.mixed_budget import require_plain, show_mixed
from allbutone.cli.options import (
    Kind,
    Prior,
    Probability,
    ReleaseKind,
    Rows,
    describe_prior,
    fit,
    following,
    free_name,
    require_rows_of_datasets,
)
from allbutone.cli.output import console, late_progress, show, show_next, show_notes
from allbutone.cli.reading import LIKE, OF_TABLE, also_asked, any_release_like, given_prior, read_records
from allbutone.cli.results import outputs, show_files, whole_numbers
from allbutone.disclosure.budget import Budget, plan_budget
from allbutone.disclosure.budget_check import verify_budget
from allbutone.disclosure.engine_budget import COUNTS
from allbutone.disclosure.mixed_budget import MixedBudget, plan_mixed_budget
from allbutone.disclosure.rule import Rule
from allbutone.model.niw import NIW
from allbutone.plots.budget import budget_figure
from allbutone.plots.framing import titled
from allbutone.plots.mixed_budget import mixed_budget_figure
from allbutone.releases.ledger.entries import Entry
from allbutone.releases.ledger.together import Together, in_words
from allbutone.releases.mixed.release import MixedRelease
from allbutone.releases.mixed.synthesizer import MixedSynthesizer
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, number
from allbutone.tables.records import Records

Counts = Annotated[str, typer.Option(help="The numbers of datasets for which the file gives every exposure.")]
Verify = Annotated[
    int | None, typer.Option(help="Check the verdict on so many simulated releases of this very table.")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the simulations; another one shows how much chance decides.")]
File = Annotated[Path, typer.Option(help="The .csv or .parquet file to write; the figure is written beside it.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files of these names.")]
MODEL = {name: option for name, option in OF_MIXED.items() if name != "missing"}  # gaps have no budget yet
USUAL_COUNTS = ",".join(map(str, COUNTS))


@dataclass(frozen=True)
class Planned:
    """A budget, its figure, which prior it rests on, what a check says of it, and what there is to note."""

    plan: Budget | MixedBudget
    figure: go.Figure
    prior: NIW
    checked: str = ""
    note: str = ""


@also_asked(OF_TABLE | LIKE | MODEL | EARLIER | OF_ENGINE | KEY)
def budget(
    context: typer.Context,
    table: AnyTable,
    rows: Rows = None,
    release: Kind = ReleaseKind.datasets,
    probability: Probability = 0.5,
    counts: Counts = USUAL_COUNTS,
    verify: Verify = None,
    prior: Prior = None,
    out: File = Path("budget.csv"),
    seed: Seed = 0,  # as in a report, so that both say the same
    force: Force = False,
) -> None:
    """Say how many datasets, or parameter draws, may be released before a value of anyone is disclosed.

    What was released before, according to the ledger, counts.
    """
    require_rows_of_datasets(rows, release)
    asked, rule = whole_numbers("counts", counts), Rule.of(probability)
    if verify is not None:
        count_of("verify", verify)
    stream = np.random.default_rng(seed)
    if source_of(context, table) is not None:
        engine_budget(context, table, lazy_of(context, table, mixed=True), asked, stream)
        return
    with outputs(out, force, [table, prior, context.params["table_file"]]) as save:
        records = read_records(context, table, mixed=True)
        # who has the parameters learns nothing more from the datasets drawn from them
        size = (rows or len(records.values)) if release is ReleaseKind.datasets else None
        mixed = is_mixed(context, records)
        judged = judged_with_earlier(context, table, records, mixed=mixed)
        if mixed:
            require_plain(context)
            planned = _plan_mixed(context, records, size, rule, stream)
        else:
            planned = _plan(context, records, size, rule, judged, stream)
        plan = planned.plan
        save(plan.columns(tuple(asked)) if isinstance(plan, Budget) else plan.columns(), planned.figure)
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    left, used = plan.confident_count, 0
    if isinstance(plan, Budget):
        used = plan.before  # which the number counts already
        show_together(judged)
        _show_budget(plan)
    else:
        used = used_up(judged, size)
        left -= used
        _show_used(judged, size, plan.confident_count)
        show_mixed(plan)
    if planned.checked:
        console.print(planned.checked)
    show_files(out)
    console.print(f"{escape(plan.assumptions)} In use: {escape(describe_prior(prior, planned.prior))}.")
    _next(context, table, left, used, size, out)
    show_notes([*records.notes, planned.note])


def _plan(
    context: typer.Context,
    records: Records,
    size: int | None,
    rule: Rule,
    judged: Together,
    stream: np.random.Generator,
) -> Planned:
    synthesizer, note = fit(records, given_prior(context))
    verify = context.params["verify"]
    earlier = judged.earlier or any_release_like(context)
    with late_progress("Trying numbers of datasets", None) as watch:
        plan = plan_budget(
            records, synthesizer.prior, rows=size, probability=rule, earlier=earlier, rng=stream, watch=watch
        )
    with late_progress("Simulating releases", verify) as watch:
        checked = verify and verify_budget(records, synthesizer.prior, plan, verify, stream, watch)
    return Planned(plan, budget_figure(plan), synthesizer.prior, _checked(plan, checked) if checked else "", note)


def _plan_mixed(
    context: typer.Context, records: Records, size: int | None, rule: Rule, stream: np.random.Generator
) -> Planned:
    told = mechanism_options(context, records)
    if records.has_gaps:
        raise InputError(
            "there is no budget yet for a table with gaps",
            Cure("leave rows with gaps out", "complete_cases", True),
        )
    told.pop("missing")
    mechanism = MixedSynthesizer(**told).fit(records).mechanism
    with late_progress("Trying numbers of datasets", None) as watch:
        plan = plan_mixed_budget(records, rows=size, probability=rule, **told, rng=stream, watch=watch)
    return Planned(plan, titled(mixed_budget_figure(plan)).update_layout(height=None), mechanism.normal)


def _show_budget(plan: Budget) -> None:
    """Show whose values are likeliest to be disclosed, and what would allow more."""
    at = max(plan.confident_count, 1)
    here, twice = plan.chances(at), plan.chances(2 * at)
    rows = [
        [str(plan.rows[place]), f"{here[place]:.1%}", f"{twice[place]:.1%}", number(plan.leverage[place])]
        for place in plan.places[:10]
    ]
    headings = ("row", f"disclosed by {at:,}", f"by {2 * at:,}", "leverage")
    title = "The ten people at most risk: how often releases would disclose a value of theirs"
    if plan.before:
        title += " (so many more, if earlier ones told as much as others do on average)"
    show(title, headings, rows)
    console.print()
    if plan.alternatives:
        changes = [[escape(each.in_words), f"{each.datasets:,}"] for each in plan.alternatives]
        noun = "parameter draws" if plan.law.rows is None else "datasets"
        title = "What another choice would allow" + " in all" * bool(plan.before) + " (closed form)"
        show(title, ("change", noun), changes, words=("change",))
        console.print()


def _checked(plan: Budget, checked: dict[str, Any]) -> str:
    return (
        f"Checked on {counted(checked['releases'], 'simulated release')} of {max(plan.confident_count, 1):,} "
        f"{plan.what}, attacking the {counted(checked['attacked'], 'record')} likeliest to be disclosed: "
        f"{checked['passed']:,} disclosed someone ({checked['share']:.0%}; 95 % interval {checked['low']:.0%} to "
        f"{checked['high']:.0%})."
    )


def used_up(judged: Together, size: int | None) -> int:
    """Return how many of a budget of datasets of so many rows, or of parameter draws, were released before."""
    return sum(entry.count for entry in judged.counted if _is_like(entry, size))


def _is_like(entry: Entry, size: int | None) -> bool:
    return entry.kind != "datasets" if size is None else entry.kind == "datasets" and entry.rows == (size,)


def _show_used(judged: Together, size: int | None, count: int) -> None:
    """Say what of the budget was released before, and what was released that it does not count."""
    counted_ones = [entry for entry in judged.counted if _is_like(entry, size)]
    if counted_ones:
        used = used_up(judged, size)
        console.print(
            f"Released before, according to the ledger: {escape('; '.join(map(in_words, counted_ones)))}. "
            f"That is {used:,} of these, which leaves {max(count - used, 0):,}.\n"
        )
    others = [
        f"release {entry.number} ({in_words(entry)})" for entry in judged.counted if not _is_like(entry, size)
    ]
    others += [f"release {each.entry.number} ({in_words(each.entry)}): {each.why}" for each in judged.left_out]
    if others:
        console.print(
            f"Also released, and not counted in this number: {escape('; '.join(others))}. So less is left than "
            "this says; risk judges all of it together.\n"
        )


def _next(context: typer.Context, table: Path, left: int, used: int, size: int | None, out: Path) -> None:
    """Name the command that releases as much as the budget has left, or one that may leave more."""
    like, given = any_release_like(context), context.params
    kept = given["keep"] or (isinstance(like, MixedRelease) and like.mechanism.keep)
    rows: dict[str, Any] = {"rows": None} if kept else {}  # then there is a row for each person
    if used and left < 1:
        words = "it is used up; see what was released before:"
        command = following(context, "ledger", "show", table)
        if like:
            words = f"{given['like']} has used it up; see the case for or against it:"
            command = following(context, "report", table, given["like"], out=free_name("report.html"))
        show_next(words, command)
    elif left > 0:
        words = "release so many more:" if used else "release that much:"
        command = following(context, "synthesize", table, out=free_name("release"), datasets=left, **rows)
        show_next(words, command)
    elif size is None or size == 1 or kept:
        show_next("see what leaving columns out would allow:", ["budget", "--help"])
    else:
        fewer = {"rows": max(1, size // 10), "out": free_name(out, ".html")}
        show_next("see what smaller datasets would allow:", following(context, "budget", table, **fewer))
