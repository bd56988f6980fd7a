"""The command about the budget: how much may be released before anyone is exposed or found out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import plotly.graph_objects as go
import typer
from rich.markup import escape

from allbutone.cli.earlier import EARLIER, is_voided, judged_with_earlier, ledger_of, show_together
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
from allbutone.disclosure.mixed_budget import EXPECTED_RELEASES, MixedBudget, plan_mixed_budget
from allbutone.disclosure.rule import Rule
from allbutone.model.niw import NIW
from allbutone.plots.budget import budget_figure
from allbutone.plots.framing import titled
from allbutone.plots.mixed_budget import mixed_budget_figure
from allbutone.releases.ledger.together import Together
from allbutone.releases.mixed.release import Release
from allbutone.releases.mixed.synthesizer import Synthesizer
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
        judged = _out_already(context, table, records, mixed)
        if mixed:
            require_plain(context)
            planned = _plan_mixed(context, records, size, rule, judged, stream)
        else:
            planned = _plan(context, records, size, rule, judged, stream)
        plan = planned.plan
        save(plan.columns(tuple(asked)) if isinstance(plan, Budget) else plan.columns(), planned.figure)
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    show_together(judged)
    if isinstance(plan, Budget):
        _show_budget(plan)
    else:
        show_mixed(plan)
    if planned.checked:
        console.print(planned.checked)
    show_files(out)
    console.print(f"{escape(plan.assumptions)} In use: {escape(describe_prior(prior, planned.prior))}.")
    _next(context, table, plan, out)
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
    with late_progress("Trying numbers of datasets", None) as watch:
        plan = plan_budget(
            records,
            synthesizer.prior,
            rows=size,
            probability=rule,
            earlier=judged.release if judged.any else None,
            rng=stream,
            watch=watch,
        )
    checked = _verified(context, plan, stream, records, synthesizer.prior)
    return Planned(plan, budget_figure(plan), synthesizer.prior, checked, note)


def _out_already(context: typer.Context, table: Path, records: Records, mixed: bool) -> Together:
    """Return what is out: what the ledger counts, and the release to be like, unless the ledger says it is not."""
    like, folder = any_release_like(context), context.params["like"]
    if like is not None and not context.params["alone"] and is_voided(ledger_of(context, table), folder):
        like = None
    if like is None:
        return judged_with_earlier(context, table, records, mixed=mixed)
    return judged_with_earlier(context, table, records, like, [folder])


def _plan_mixed(
    context: typer.Context,
    records: Records,
    size: int | None,
    rule: Rule,
    judged: Together,
    stream: np.random.Generator,
) -> Planned:
    told = mechanism_options(context, records)
    if records.has_gaps:
        raise InputError(
            "there is no budget yet for a table with gaps",
            Cure("leave rows with gaps out", "complete_cases", True),
        )
    told.pop("missing")
    mechanism = Synthesizer(**told).fit(records).mechanism
    earlier = judged.release if judged.any else None
    assert earlier is None or isinstance(earlier, Release)
    with late_progress("Simulating releases", EXPECTED_RELEASES, cut_short=True) as watch:
        plan = plan_mixed_budget(
            records, rows=size, probability=rule, earlier=earlier, **told, rng=stream, watch=watch
        )
    figure = titled(mixed_budget_figure(plan)).update_layout(height=None)
    return Planned(plan, figure, mechanism.normal, _verified(context, plan, stream))


def _verified(
    context: typer.Context,
    plan: Budget | MixedBudget,
    stream: np.random.Generator,
    records: Records | None = None,
    prior: NIW | None = None,
) -> str:
    """Check the number on as many simulated releases more as were asked for, and say what came of it."""
    verify = context.params["verify"]
    if not verify:
        return ""
    with late_progress("Simulating releases", verify) as watch:
        return _checked(plan, verify_budget(records, prior, plan, verify, stream, watch))


def _show_budget(plan: Budget) -> None:
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


def _checked(plan: Budget | MixedBudget, checked: dict[str, Any]) -> str:
    return (
        f"Checked on {counted(checked['releases'], 'simulated release')} of {max(plan.in_all, 1):,} "
        f"{plan.what}, attacking the {counted(checked['attacked'], 'record')} likeliest to be disclosed: "
        f"{checked['passed']:,} disclosed someone ({checked['share']:.0%}; 95 % interval {checked['low']:.0%} to "
        f"{checked['high']:.0%})."
    )


def _next(context: typer.Context, table: Path, plan: Budget | MixedBudget, out: Path) -> None:
    """Name the command that releases as much as the budget has left, or one that may leave more."""
    like, given, left, size = any_release_like(context), context.params, plan.confident_count, plan.rows_of_each
    kept = given["keep"] or (isinstance(like, Release) and like.mechanism.keep)
    rows: dict[str, Any] = {"rows": None} if kept else {}  # then there is a row for each person
    if left > 0:
        words = "release so many more:" if plan.before else "release that much:"
        show_next(words, following(context, "synthesize", table, out=free_name("release"), datasets=left, **rows))
    elif plan.before and plan.in_all:
        words = "it is used up; see what was released before, and void what nobody has:"
        show_next(words, following(context, "ledger", "show", table))
    elif size is None or size == 1 or kept:
        show_next("see what leaving columns out would allow:", ["budget", "--help"])
    else:
        fewer = {"rows": max(1, size // 10), "out": free_name(out, ".html")}
        show_next("see what smaller datasets would allow:", following(context, "budget", table, **fewer))
