"""How budget answers for a table that stays where it is."""

from pathlib import Path

import typer
from rich.markup import escape

from allbutone.cli.elsewhere import Address, inputs_of, require_no_ledger
from allbutone.cli.options import ReleaseKind, describe_prior, fit, following, free_name
from allbutone.cli.output import console, show, show_next, show_notes
from allbutone.cli.reading import given_prior
from allbutone.cli.results import outputs, show_files
from allbutone.disclosure.engine_budget import plan_engine_budget
from allbutone.plots.engine_budget import engine_budget_figure
from allbutone.plots.framing import titled
from allbutone.support.errors import InputError
from allbutone.support.text import counted, number
from allbutone.tables.engines.lazy_records import LazyRecords


def engine_budget(context: typer.Context, table: Path | Address, records: LazyRecords, counts: list[int]) -> None:
    """Find the records that stand out in the engine, and say by the closed form how much may be released."""
    given = context.params
    require_no_ledger(context)
    if given["verify"] is not None:
        raise InputError("a table that stays where it is cannot be simulated", "leave --verify out")
    out, size = given["out"], None
    if given["release"] is ReleaseKind.datasets:
        size = given["rows"] or len(records)
    with outputs(out, given["force"], [*inputs_of(context, table), given["prior"], given["table_file"]]) as save:
        synthesizer, note = fit(records, given_prior(context))
        plan = plan_engine_budget(
            records,
            synthesizer.prior,
            rows=size,
            probability=given["probability"],
            counts=counts,
            most=given["worst"],
            key=given["key"],
        )
        save(plan.columns(), titled(engine_budget_figure(plan)))
    console.print(f"[bold]{escape(plan.sentence)}[/bold]\n")
    lines = [[number(value) for value in step.values()] for step in plan.ladder()]
    show("How many stand out, and what a record of that leverage allows", list(plan.ladder()[0]), lines)
    fetched = counted(len(plan.standing.records.values), "record")
    console.print(f"\nFetched: {fetched} of the highest leverage; {plan.standing.others:,} stayed where they are.")
    show_files(out)
    console.print(
        f"{escape(plan.assumptions)} In use: {escape(describe_prior(given['prior'], synthesizer.prior))}."
    )
    if plan.confident_count:
        release = {"out": free_name("release"), "datasets": min(plan.confident_count, 5)}
        show_next("draw some of it, and judge that:", following(context, "synthesize", table, **release))
    show_notes([*records.notes, note])
