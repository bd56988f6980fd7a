"""What the commands that assess a release write and say."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from allbutone.cli.output import console
from allbutone.cli.results import show_verdict
from allbutone.reports.assessment import Assessment
from allbutone.reports.findings import budget_words
from allbutone.reports.html import confidential_report


def _typed(arguments: Sequence[str]) -> str:
    """Return a command as it can be typed again."""
    return shlex.join(["allbutone", *arguments])


def describe_public(out: Path, table: Path | str, noted: bool, mixed: bool) -> None:
    """Say what a public page holds, and what nobody has checked."""
    names = "the names of columns and levels" if mixed else "the column names"
    unchecked = f"{names} and your note" if noted else names
    console.print(
        f"Written: {escape(str(out))}, to go with the release. It was made from the release alone: its column "
        f"names, sizes and prior, {'levels, their shares, ' * mixed}and the means and SDs of the released values"
        f"{', and your note' * noted}. "
        f"{escape(Path(table).name)} was read only to check that it has these columns.\n"
        f"Not checked: what the release gives away, and what {unchecked} may tell of anyone. Read the page first."
    )


def describe(assessment: Assessment) -> None:
    """Print the verdict, what would pass, how much in all, and what else to know."""
    show_verdict(assessment.verdict)
    if assessment.remedies:
        console.print("What would pass:")
    for words in assessment.remedies:
        console.print(f"  - {escape(words)}")
    if assessment.budget:
        in_all = budget_words(assessment.budget, assessment.count, assessment.earlier_count)
        console.print(f"How much in all: {escape(in_all)}")
    console.print("\nBefore it goes out, read also:")
    for finding in assessment.findings:
        mark = "[yellow]![/yellow]" if finding.against else "·" if finding.noted else "[green]✔[/green]"
        console.print(f"{mark} [bold]{finding.subject}[/bold]: {escape(finding.words)}")
    console.print()


def write_page(path: Path, assessment: Assessment, again: list[str], note: str) -> None:
    """Write the page for the data holder."""
    path.write_text(confidential_report(assessment, [_typed(again)], note), encoding="utf-8")
