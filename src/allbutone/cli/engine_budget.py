"""How budget answers for a table that stays where it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import typer
from rich.markup import escape

from allbutone.cli.elsewhere import Address, inputs_of, require_no_ledger
from allbutone.cli.mixed import is_mixed, mechanism_options
from allbutone.cli.mixed_budget import require_plain, show_mixed
from allbutone.cli.options import ReleaseKind, describe_prior, fit, following, free_name
from allbutone.cli.output import console, late_progress, show, show_next, show_notes
from allbutone.cli.reading import given_prior
from allbutone.cli.results import outputs, show_files
from allbutone.disclosure.engine_budget import (
    EngineBudget,
    ladder_of,
    plan_engine_budget,
    plan_mixed_engine_budget,
)
from allbutone.disclosure.mixed_budget import MixedBudget, law_of
from allbutone.disclosure.standing_out import StandingOut
from allbutone.model.niw import NIW
from allbutone.plots.engine_budget import engine_budget_figure
from allbutone.plots.framing import titled
from allbutone.plots.mixed_budget import mixed_budget_figure
from allbutone.releases.mixed.synthesizer import Synthesizer
from allbutone.support.errors import InputError
from allbutone.support.text import number
from allbutone.tables.engines.lazy_records import LazyRecords


@dataclass(frozen=True)
class _Planned:
    """A budget, its figure, who stands out, how many do by how much, the prior, and what there is to note."""

    plan: EngineBudget | MixedBudget
    figure: go.Figure
    standing: StandingOut
    ladder: Sequence[dict[str, Any]]
    prior: NIW
    note: str = ""


def engine_budget(
    context: typer.Context,
    table: Path | Address,
    records: LazyRecords,
    counts: list[int],
    stream: np.random.Generator,
) -> None:
    """Find the records that stand out in the engine, and say how much may be released."""
    given = context.params
    require_no_ledger(context)
    mixed = is_mixed(context, records)
    if mixed:
        require_plain(context)
    elif given["verify"] is not None:
        raise InputError("a table that stays where it is cannot be simulated", "leave --verify out")
    out, size = given["out"], None
    if given["release"] is ReleaseKind.datasets:
        size = given["rows"] or len(records)
    with outputs(out, given["force"], [*inputs_of(context, table), given["prior"], given["table_file"]]) as save:
        found = _mixed(context, records, size, stream) if mixed else _plain(context, records, size, counts)
        save(found.plan.columns(), found.figure)
    plan, standing = found.plan, found.standing
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    if isinstance(plan, MixedBudget):
        show_mixed(plan)
        console.print()
    if found.ladder:  # a strong prior may leave nobody above the average
        lines = [[number(value) for value in step.values()] for step in found.ladder]
        show("How many stand out, and what a record of that leverage allows", list(found.ladder[0]), lines)
    console.print(f"\nFetched: {standing.in_words}; {standing.others:,} stayed where they are.")
    show_files(out)
    console.print(f"{escape(plan.assumptions)} In use: {escape(describe_prior(given['prior'], found.prior))}.")
    if plan.confident_count:
        release = {"out": free_name("release"), "datasets": min(plan.confident_count, 5)}
        show_next("draw some of it, and judge that:", following(context, "synthesize", table, **release))
    show_notes([*records.notes, found.note])


def _plain(context: typer.Context, records: LazyRecords, size: int | None, counts: list[int]) -> _Planned:
    synthesizer, note = fit(records, given_prior(context))
    plan = plan_engine_budget(records, synthesizer.prior, rows=size, counts=counts, **_asked(context))
    ladder = ladder_of(plan.standing, plan.law)
    return _Planned(plan, titled(engine_budget_figure(plan)), plan.standing, ladder, synthesizer.prior, note)


def _mixed(
    context: typer.Context, records: LazyRecords, size: int | None, stream: np.random.Generator
) -> _Planned:
    synthesizer = Synthesizer(**mechanism_options(context, records)).fit(records)
    mechanism = synthesizer.mechanism
    with late_progress("Trying numbers of datasets", None) as watch:
        plan, standing = plan_mixed_engine_budget(
            records, mechanism, rows=size, rng=stream, watch=watch, **_asked(context)
        )
    ladder = ladder_of(standing, law_of(synthesizer.posterior, len(records), size))
    figure = titled(mixed_budget_figure(plan)).update_layout(height=None)
    return _Planned(plan, figure, standing, ladder, mechanism.normal)


def _asked(context: typer.Context) -> dict[str, Any]:
    given = context.params
    return {"probability": given["probability"], "most": given["worst"], "key": given["key"]}
