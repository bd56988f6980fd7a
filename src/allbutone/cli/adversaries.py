"""The command about weaker adversaries: how the risk falls with what they lack."""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.options import (
    MechanismPrior,
    ReleaseDir,
    Table,
    following,
    free_name,
)
from allbutone.cli.output import console, late_progress, show, show_next, show_notes
from allbutone.cli.reading import (
    OF_RELEASE,
    also_asked,
    records_of,
)
from allbutone.cli.results import outputs, show_files, whole_numbers
from allbutone.disclosure.per_record import risk_columns
from allbutone.disclosure.rule import USUAL
from allbutone.disclosure.told_values import ToldValues
from allbutone.disclosure.weaker_adversaries import risk_by_lacking
from allbutone.model.prior_file import read_prior
from allbutone.plots.lacking import lacking_figure
from allbutone.releases.folder import load_measurements
from allbutone.reports.html import words_of
from allbutone.support.checks import count_of
from allbutone.support.text import number
from allbutone.tables.safe_write import require_outside

Lacking = Annotated[str, typer.Option(help="How many other records are lacking, in turn.")]
People = Annotated[int, typer.Option(help="How many records to look at: those that stand out most.")]
File = Annotated[Path, typer.Option(help="The .csv or .parquet file to write; the figure is written beside it.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files of these names.")]


@also_asked(OF_RELEASE)
def adversaries(
    context: typer.Context,
    table: Table,
    release_dir: ReleaseDir,
    prior: MechanismPrior = None,
    lacking: Lacking = "1,2,5,10,20",
    people: People = 10,
    out: File = Path("adversaries.csv"),
    force: Force = False,
) -> None:
    """Show how what is learned of those at most risk falls with what the adversary lacks: records, or columns."""
    numbers = whole_numbers("lacking", lacking)
    count_of("people", people)
    require_outside(out, release_dir)
    with outputs(out, force, [table, prior]) as save:
        release = load_measurements(release_dir)
        records = records_of(context, table, release)
        given = read_prior(prior, records.columns, records.schema) if prior else None
        # random numbers that are no secret, and a fixed start gives the same answer twice
        usual = risk_columns(records, release, given, mass=False, rng=np.random.default_rng(0))
        rows = [int(usual["row"][place]) for place in ToldValues.of(usual, USUAL).order[:people]]
        settings = len(numbers) + len(records.columns) - 1
        with late_progress("Trying what the adversary may lack", settings) as watch:
            found = risk_by_lacking(
                records, release, given, rows, numbers=numbers, rng=np.random.default_rng(0), watch=watch
            )
        figure = lacking_figure(found, rows)
        save(found, figure)
    console.print(f"[bold]{escape(words_of(figure))}.[/bold]\n")
    _show(found)
    show_files(out, "one row for each record and setting")
    console.print(
        "Assumed: as for risk. Records lacking besides the target are chosen at random; of columns the median "
        "over choices is shown. Who can say that nobody has more? Judge a release by the usual adversary, too."
    )
    command = following(context, "risk", table, release_dir, out=free_name("risk.csv", ".html"))
    show_next("see what one who lacks nothing learns of each record:", command)
    show_notes(records.notes)


def _show(found: dict[str, np.ndarray]) -> None:
    """Show the medians over the records, setting by setting."""
    settings = dict.fromkeys(zip(found["lacking"].tolist(), found["number"].tolist(), strict=True))
    measures = ("exposure", "relative_error", "information_gain")
    rows = []
    for kind, count in settings:
        these = (found["lacking"] == kind) & (found["number"] == count)
        rows.append([kind, f"{count}", *(number(float(np.median(found[name][these]))) for name in measures)])
    headings = ("lacking", "how many", "exposure", "relative error", "gain (nats)")
    show("Medians over the records that stand out most", headings, rows, words=("lacking",))
