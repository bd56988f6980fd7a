"""The command about guarantees: what one would cost, before anything is spent."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from allbutone.cli.output import console, show
from allbutone.disclosure.guarantee_plan import ERRORS, ROUTES, plan_guarantee, useful
from allbutone.plots.export import write_figure
from allbutone.plots.guarantee import guarantee_figure
from allbutone.releases.private.accounting import DELTA
from allbutone.support.errors import Cure, InputError
from allbutone.tables.declared.schema import Schema
from allbutone.tables.safe_write import fresh_file, require_distinct

TableFile = Annotated[
    Path, typer.Argument(help="The table file: limits, and best also centre and spread, of every column.")
]
People = Annotated[int, typer.Option(help="The number of people in the table; it is public.")]
Epsilons = Annotated[str, typer.Option(help="The ε to try, separated by commas.")]
Delta = Annotated[float, typer.Option(help="The δ of the guarantee, below one over the people.")]
Correlation = Annotated[float, typer.Option(help="A public guess of the correlation of all pairs of columns.")]
Out = Annotated[Path, typer.Option(help="The .html file to write the figure to.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing file of this name.")]


def guarantee(
    table_file: TableFile,
    people: People,
    epsilon: Epsilons = "0.5,1,2,5,10",
    delta: Delta = DELTA,
    correlation: Correlation = 0.5,
    out: Out = Path("guarantee.html"),
    force: Force = False,
) -> None:
    """Tell, from public figures alone, what a guarantee would cost in accuracy, and which way to take.

    The table itself is not read.
    """
    if out.suffix != ".html":
        raise InputError(f"--out names an .html file, got {str(out)!r}", Cure("name one", "out", "guarantee.html"))
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
