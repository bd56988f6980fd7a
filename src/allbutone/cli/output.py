"""What commands show and write: words, small tables, a bar when work takes long; numbers with their figure."""

import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Timer, current_thread, main_thread
from typing import Any

import numpy as np
import plotly.graph_objects as go
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from allbutone.cli.options import ImageFormat
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.simulated_budget import CutShort
from allbutone.figures.export import write_figure, write_images
from allbutone.reports.verdict import Verdict, told_of, values_of
from allbutone.support.errors import InputError
from allbutone.support.text import number
from allbutone.tables.files import TableWriter
from allbutone.tables.safe_io import fresh_file, fresh_files, require_distinct

console: Console = Console(highlight=False, soft_wrap=True, emoji=False)
notes: Console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

PROGRESS_AFTER_SECONDS = 2.0
LONG = 20.0  # seconds that are worth a word beforehand
WIDEST = 1000  # characters of a table
SHOWN = 10  # values in the table of those closest to being disclosed


@contextmanager
def late_progress(what: str, total: int | None, cut_short: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts work done; a bar with the time left appears after two seconds.

    Of what takes long it is said how long, as soon as that can be told. With `cut_short` Ctrl-C ends it with what
    is there (`CutShort`); pressed twice, it ends everything, as ever.
    """
    estimate = _Estimate(what, total, cut_short)
    shown = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    # a file or a pipe would get an empty line for a bar
    bar = Progress(*shown, console=notes, transient=True, disable=not notes.is_terminal)
    task = bar.add_task(what, total=total)
    # by the clock, not by the work: its first part may itself be long
    timer = Timer(PROGRESS_AFTER_SECONDS, bar.start)
    timer.daemon = True
    timer.start()
    try:
        with estimate.asked_to_end():

            def watch(count: int) -> None:
                bar.advance(task, count)
                estimate.count(count)

            yield watch
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


class _Estimate:
    """Says once how long something will take, if that is long, and whether Ctrl-C was pressed."""

    def __init__(self, what: str, total: int | None, cut_short: bool) -> None:
        self.what, self.total, self.cut_short = what, total, cut_short
        self.start, self.done, self.told, self.ended = time.monotonic(), 0, False, False

    def count(self, count: int) -> None:
        """Count work done; end it where Ctrl-C was pressed."""
        self.done += count
        if self.ended:
            raise CutShort
        if self.told or not self.total or time.monotonic() - self.start < PROGRESS_AFTER_SECONDS:
            return
        self.told = True
        left = (time.monotonic() - self.start) / self.done * (self.total - self.done)
        if left >= LONG:
            how = "Ctrl-C ends it with what is there." if self.cut_short else ""
            notes.print(f"{escape(self.what)}: this will take about {_duration(left)} more. {how}")

    @contextmanager
    def asked_to_end(self) -> Iterator[None]:
        """Take the first Ctrl-C as a wish to end this step, where it can be."""
        if not self.cut_short or current_thread() is not main_thread():
            yield
            return

        def pressed(signum: int, frame: object) -> None:
            if self.ended:
                raise KeyboardInterrupt
            self.ended = True
            notes.print("Ending with what is there; Ctrl-C once more ends everything.")

        before = signal.signal(signal.SIGINT, pressed)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _duration(seconds: float) -> str:
    """Return about how long, in minutes or tens of seconds."""
    return f"{10 * round(seconds / 10)} seconds" if seconds < 90 else f"{round(seconds / 60)} minutes"


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[str] = ()) -> None:
    """Print a small table; numbers stand to the right, the columns named in `words` to the left."""
    picture = Table(title=title, title_justify="left", box=None)
    for heading in headings:
        picture.add_column(heading, justify="left" if heading in words else "right")
    for row in rows:
        picture.add_row(*row)
    # as wide as it is: rich would cut headings to fit, and a terminal breaks long lines by itself
    picture.width = picture.__rich_measure__(console, console.options.update(width=WIDEST)).maximum
    console.print(picture)


def write_named(figures: Mapping[str, go.Figure], folder: Path, images: ImageFormat | None) -> None:
    """Write figures as HTML files under their names, and as pictures where that was asked for."""
    folder.mkdir(exist_ok=True)
    with late_progress("Drawing figures", len(figures)) as watch:
        for name, figure in figures.items():
            with fresh_file(folder / f"{name}.html", force=True) as path:
                write_figure(figure, path)
            watch(1)
        if images:
            write_images({folder / f"{name}.{images}": figure for name, figure in figures.items()})


def show_notes(remarks: Sequence[str]) -> None:
    """Print what there is to note, if anything."""
    for remark in filter(None, remarks):
        notes.print(f"\n[yellow]Note:[/yellow] {escape(remark)}")


def show_next(words: str, command: Sequence[str]) -> None:
    """Print the command to run next, as it can be typed."""
    console.print(f"\nNext: {words}\n  [bold]{escape(f'{program()} {shlex.join(command)}')}[/bold]")


def program() -> str:
    """Return what to type to run this program again."""
    if Path(sys.argv[0]).name == "__main__.py":
        return shlex.join([sys.executable, "-m", "allbutone"])
    return "allbutone" if shutil.which("allbutone") else shlex.quote(sys.argv[0])


def sparkline(values: np.ndarray, width: int = 24) -> str:
    """Return a histogram of so many characters."""
    low, high = values.min(), values.max()
    # not np.histogram, which fails where its bins are narrower than the numbers are apart
    places = np.minimum(width * ((values - low) / ((high - low) or 1.0)), width - 1).astype(int)
    counts = np.bincount(places, minlength=width)
    levels = np.ceil(8 * counts / counts.max()).astype(int)
    return "".join(" ▁▂▃▄▅▆▇█"[level] for level in levels)


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


def show_values(found: dict[str, np.ndarray], rule: Rule) -> None:
    """Print the values that are disclosed, or come closest to it."""
    lines = told_of(values_of(found, rule, SHOWN))
    rows = [[escape(number(value)) for value in line.values()] for line in lines]
    show("\nThe values closest to being disclosed", list(lines[0]), rows, words=("column", "verdict"))
