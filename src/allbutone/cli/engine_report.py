"""How report answers for a table that stays where it is."""

from pathlib import Path

import narwhals as nw
import typer
from rich.markup import escape

from allbutone.cli.assessed import describe, describe_public, write_page
from allbutone.cli.elsewhere import Address, inputs_of, lazy_and_prior, require_no_ledger, source_of
from allbutone.cli.options import following, free_name
from allbutone.cli.output import console, late_progress, show_next, show_notes
from allbutone.cli.reading import columns_of
from allbutone.disclosure.rule import Rule
from allbutone.releases.folder import load_measurements
from allbutone.reports.engine_assessment import assess_in_engine
from allbutone.reports.html import public_report
from allbutone.tables.engines.queries import names_in
from allbutone.tables.safe_write import fresh_file, require_distinct


def engine_report(context: typer.Context, table: Path | Address, release_dir: Path) -> None:
    """Write the case for or against a release; of the records, only those that stand out most are fetched."""
    given, out = context.params, context.params["out"]
    require_no_ledger(context)
    require_distinct([out], [*inputs_of(context, table), given["prior"]])
    with fresh_file(out, force=given["force"], private=not given["public"]) as path:
        release = load_measurements(release_dir)
        if given["public"]:
            source = source_of(context, table)
            assert source is not None
            columns_of(release, list(names_in(nw.from_native(source.open()))), str(source), False)
            path.write_text(public_report(release, given["note"]), encoding="utf-8")
        else:
            records, prior = lazy_and_prior(context, table, release)
            assessment = assess_in_engine(
                records,
                release,
                prior,
                probability=Rule.of(given["probability"]),
                most=given["worst"],
                key=given["key"],
                step=late_progress,
            )
            write_page(path, assessment, following(context, "report", table, release_dir), given["note"])
    if given["public"]:
        describe_public(out, str(table), bool(given["note"]), mixed=False)
        return
    describe(assessment)
    for words in assessment.left_out:
        console.print(f"Not told, because the records stay where they are: {escape(words)}")
    console.print(f"Written: {escape(str(out))}. Confidential: keep it as you keep the table.")
    if assessment.verdict.may_go_out:
        onward = following(context, "report", table, release_dir, public=True, out=free_name("public.html"))
        show_next("a page about the release that may go with it:", onward)
    show_notes(records.notes)
