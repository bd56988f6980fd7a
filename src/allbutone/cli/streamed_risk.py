"""How risk answers for all records of a table that stays where it is: a block at a time, into the file."""

from pathlib import Path

import typer

from allbutone.cli.elsewhere import Address, lazy_and_prior, source_of
from allbutone.cli.output import console, late_progress
from allbutone.cli.reading import named_columns
from allbutone.cli.results import Outputs
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.streamed_risk import WorstSoFar, stream_risk
from allbutone.releases.joined import Released
from allbutone.support.cluster import on_cluster
from allbutone.support.errors import InputError
from allbutone.tables.engines.lazy_records import BLOCK_ROWS, LazyRecords


def judge_all(
    context: typer.Context,
    table: Path | Address,
    release: Released,
    save: Outputs,
) -> tuple[LazyRecords, WorstSoFar]:
    """Attack one block of records after another and write each; return the worst of all, for words and figures."""
    given = context.params
    if source_of(context, table) is None:
        raise InputError(
            "--all is for a table that stays where it is; of one that is read all records are judged anyway",
            "leave --all out",
        )
    if given["pooled"] is not None:
        raise InputError("--all goes by the table's moments, and --pooled by those of all sites", "leave one out")
    records, prior = lazy_and_prior(context, table, release)
    worst = WorstSoFar(Rule.of(given["probability"]))
    with on_cluster(given["dask"]), late_progress("Attacking records", len(records)) as watch:
        for block in stream_risk(
            records,
            release,
            prior,
            key=given["key"],
            known=named_columns(given["known"], list(records.columns)),
            lacking_columns=named_columns(given["lacking_columns"], list(records.columns)),
            lacking_records=given["lacking_records"],
            rule=worst.rule,
            radius=given["radius"],
            mass=not given["no_mass"],
            device=given["device"],
            watch=watch,
        ):
            save.append(block)
            worst.add(block)
    return records, worst


def tell_all(worst: WorstSoFar, key: str | None) -> None:
    """Say how many were judged, and how."""
    counted = "" if key else " Rows are counted as the engine gives them: name a --key to know them by."
    console.print(
        f"Judged are all {worst.people:,} records, {BLOCK_ROWS:,} at a time: no more than these, and those "
        f"closest to being disclosed, were held at once.{counted}"
    )
