"""What the commands about risk write and how they say so: numbers and a figure beside them, both confidential."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.markup import escape

from allbutone.cli.output import console
from allbutone.plots.export import write_figure
from allbutone.reports.verdict import Verdict
from allbutone.support.checks import count_of
from allbutone.support.errors import Cure, InputError
from allbutone.tables.files import TableWriter
from allbutone.tables.safe_write import fresh_files, require_distinct


@dataclass
class Outputs:
    """Writes numbers, all at once or a block at a time, and the figures beside them."""

    numbers: TableWriter
    page: Path

    def append(self, columns: dict[str, np.ndarray]) -> None:
        """Write some rows more."""
        self.numbers.write_columns(columns)

    def draw(self, figure: Any, *below: Any) -> None:
        """Write the figures."""
        write_figure(figure, self.page, *below)

    def __call__(self, columns: dict[str, np.ndarray], figure: Any, *below: Any) -> None:
        """Write everything."""
        self.append(columns)
        self.draw(figure, *below)


@contextmanager
def outputs(out: Path, force: bool, inputs: list[Path | None]) -> Iterator[Outputs]:
    """Yield what writes the numbers and the figures, all or none; refuses at once where it could not."""
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(
            f"--out names a .csv or .parquet file, got {str(out)!r}", "the figure goes beside it as .html"
        )
    outputs = [out, out.with_suffix(".html")]
    require_distinct(outputs, inputs)
    with fresh_files(outputs, force=force, private=True) as [numbers, page], TableWriter(numbers) as writer:
        yield Outputs(writer, page)


def whole_numbers(option: str, text: str) -> list[int]:
    """Read whole numbers between commas."""
    try:
        counts = {int(part) for part in text.split(",")}
    except ValueError as error:
        cure = Cure("list some", option, "1,5,10")
        raise InputError(f"--{option} are whole numbers separated by commas, got {text!r}", cure) from error
    return sorted(count_of(option, count) for count in counts)


def show_files(out: Path, line: str = "one row for each person") -> None:
    """Say what was written, and that it is confidential."""
    console.print(
        f"Written: {escape(str(out))} ({line}) and {escape(str(out.with_suffix('.html')))} (the figure; "
        "opens in any browser, offline).\nBoth are confidential, as the table is: they describe individual "
        "records. Only you can read them."
    )


def show_verdict(verdict: Verdict) -> None:
    """Print the decision, then who and what, and how sure."""
    colour = {"for": "green", "luck": "yellow", "against": "red"}[verdict.standing]
    console.print(f"[{colour}]{verdict.mark}[/{colour}] [bold]{escape(verdict.headline)}.[/bold]")
    if verdict.remark:
        console.print(verdict.remark)
    if not verdict.passed:
        console.print(f"Who, and what: {escape(verdict.who)}")
    console.print(f"How sure: {escape(verdict.how_sure)}")
    console.print(f"The rule: {escape(verdict.rule.in_full)}")


def adversary_in_words(
    releases: Sequence[object], known: Sequence[str], has: str = "everybody else's records"
) -> str:
    """Say what is assumed of the adversary, to go after what is assumed of the table."""
    what, made = "the release", "it was made"
    if len(releases) > 1:
        what, made = f"all {len(releases)} releases", "they were made"
    knows = f" and knows everyone's {', '.join(known)}" if known else ""
    return (
        f"the prior in {releases[0]} was written without looking at the table, and the adversary has {has}, "
        f"{what}, and knows how {made}{knows}."
    )


def not_shown(releases: Sequence[object]) -> str:
    """Say what a measurement of the risk leaves open."""
    besides = "what several releases of this table give away together"
    if len(releases) > 1:
        besides = "what was released of this table besides"
    return (
        f"Not shown: what another release of the same size would give away, {besides}, and an adversary who knows "
        "more of a person (--known). This is a measurement, not a guarantee."
    )
