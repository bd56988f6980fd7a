"""What commands show and write: words, tables, a bar for long work, numbers with their figure, what is next."""

import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count
from pathlib import Path
from threading import Event, Timer, current_thread, main_thread
from typing import Any

import numpy as np
import plotly.graph_objects as go
import typer
from rich import progress
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from allbutone.cli.options import ImageFormat, flag_of
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.simulated_budget import CutShort
from allbutone.figures.export import write_figure, write_images
from allbutone.figures.style import titled
from allbutone.reports.verdict import NOTHING, Verdict, value_lines, values_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import fitted_widths, number
from allbutone.tables.files import TableWriter
from allbutone.tables.safe_io import fresh_file, fresh_files, require_distinct
from allbutone.tables.schema import Schema


class Prose(Console):
    """A console whose lines are broken between words at a terminal's width; a file or a pipe gets whole lines."""

    def print(self, *objects: Any, soft_wrap: bool | None = None, **how: Any) -> None:
        """Print as `Console` does; soft_wrap: leave long lines as they are."""
        super().print(*objects, soft_wrap=not self.is_terminal if soft_wrap is None else soft_wrap, **how)


console: Prose = Prose(highlight=False, emoji=False)
notes: Prose = Prose(stderr=True, highlight=False, emoji=False)

PROGRESS_AFTER_SECONDS = 2.0
LONG = 20.0  # seconds that are worth a word beforehand
WIDEST = 1000  # characters of a table
SHOWN = 10  # values in the table of those closest to being disclosed
# where and how a command writes is its own affair; all else that it was asked holds for the next one, too
OWN = frozenset({"out", "force", "seed", "new_repeat_key", "repeat_key", "format", "public", "page"})

Watch = Callable[[int], None]


@contextmanager
def late_progress(what: str, total: int | None, cut_short: bool = False) -> Iterator[Watch]:
    """Yield a function that counts work done; a bar with the time left appears after two seconds.

    Of what takes long it is said how long, as soon as that can be told. With `cut_short` Ctrl-C ends it with what
    is there (`CutShort`); pressed twice, it ends everything, as ever.
    """
    shown = (
        progress.TextColumn(what), progress.BarColumn(), progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(), progress.TimeRemainingColumn(),
    )  # fmt: skip
    # a file or a pipe would get an empty line for a bar
    bar = progress.Progress(*shown, console=notes, transient=True, disable=not notes.is_terminal)
    task, start, ended, estimated = bar.add_task(what, total=total), time.monotonic(), Event(), Event()
    # by the clock, not by the work: its first part may itself be long
    timer = Timer(PROGRESS_AFTER_SECONDS, bar.start)
    timer.daemon = True
    timer.start()

    def watch(done: int) -> None:
        bar.advance(task, done)
        if ended.is_set():
            raise CutShort
        seconds = time.monotonic() - start
        if total and seconds >= PROGRESS_AFTER_SECONDS and not estimated.is_set():
            estimated.set()
            left = seconds * (total / bar.tasks[task].completed - 1)
            if left >= LONG:
                how = "Ctrl-C ends it with what is there." if cut_short else ""
                notes.print(f"{escape(what)}: this will take about {_duration(left)} more. {how}")

    try:
        if cut_short and current_thread() is main_thread():
            with _first_interrupt(ended):
                yield watch
        else:
            yield watch
    finally:
        timer.cancel()
        timer.join()
        if bar.live.is_started:
            bar.stop()


@contextmanager
def _first_interrupt(ended: Event) -> Iterator[None]:
    """Take the first Ctrl-C as a wish to end this step."""

    def pressed(signum: int, frame: object) -> None:
        if ended.is_set():
            raise KeyboardInterrupt
        ended.set()
        notes.print("Ending with what is there; Ctrl-C once more ends everything.")

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _duration(seconds: float) -> str:
    """Return about how long, in minutes or tens of seconds."""
    return f"{10 * round(seconds / 10)} seconds" if seconds < 90 else f"{round(seconds / 60)} minutes"


def say(words: str, style: str = "", soft_wrap: bool | None = None) -> None:
    """Print words as they are: names of files and columns may hold anything."""
    console.print(words, markup=False, style=style, soft_wrap=soft_wrap)


def show(title: str, headings: Sequence[str], rows: Sequence[Sequence[Any]], words: Sequence[str] = ()) -> None:
    """Print a small table; numbers stand to the right, the columns named in `words` to the left."""
    lines = [[number(cell) for cell in row] for row in rows]
    # as wide as it is, or as the terminal is, where cells are broken between words
    room = (console.width if console.is_terminal else WIDEST) - 2 * len(headings)
    widths = fitted_widths(list(zip(headings, *lines, strict=True)), room)
    picture = Table(title=escape(title), title_justify="left", box=None)
    for heading, width in zip(headings, widths, strict=True):
        picture.add_column(heading, justify="left" if heading in words else "right", width=width, overflow="fold")
    for line in lines:
        picture.add_row(*map(escape, line))
    picture.width = sum(widths) + 2 * len(headings)
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
    say(f"\nNext: {words}")
    say(f"  {program()} {shlex.join(command)}", "bold", soft_wrap=True)  # one line, to be copied


def propose(context: typer.Context, words: str, command: str, *arguments: object, **options: Any) -> None:
    """Print the command to run next, with all that was asked of this one and holds for that one, too."""
    show_next(words, following(context, command, *arguments, **options))


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


def following(context: typer.Context, command: str, *arguments: object, **options: Any) -> list[str]:
    """Return the command to run next: with every option given to this one that the next one has as well.

    `options` come on top, or in place of those; what is the default anyway is left out. What the next one writes
    gets a name that is free, with the figure beside it.
    """
    if out := options.get("out"):
        options["out"] = free_name(out, *[".html"] * (Path(out).suffix in (".csv", ".parquet")))
    takes = {
        parameter.name: parameter
        for parameter in context.find_root().command.commands[command].params  # type: ignore[attr-defined]
        if parameter.opts[0].startswith("--")
    }
    given = {
        name: value
        for name, value in context.params.items()
        if name in takes.keys() - OWN and getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    }
    typed = [command, *map(as_argument, arguments)]
    for name, value in (given | options).items():
        if str(value) != str(takes[name].default):
            typed += as_typed(takes[name].opts[0], value)
    return typed


def as_argument(value: object) -> str:
    """Return a name as it is typed, so that none reads as an option."""
    return f"./{value}" if str(value).startswith("-") else str(value)


def as_typed(option: str, value: Any) -> list[str]:
    """Return an option and its value as they are typed: a list with commas, a flag without a value."""
    if value is None or value is False:
        return []
    if value is True:
        return [option]
    if not isinstance(value, list | tuple):
        return [option, str(value)]
    value = [each if isinstance(each, str) else f"{each:g}" for each in value]
    if any("," in each for each in value):  # a name that holds a comma goes in an option of its own
        return [word for each in value for word in (option, each)]
    return [option, ",".join(value)] if value else []


def in_flags(cure: Cure, options: Container[str]) -> str:
    """Word a cure for the command line: the argument that does it as an option, if it is one of `options`."""
    name, value = cure.argument, cure.value
    if value is False:  # header=False is --no-header
        name, value = f"no_{name}", True
    if name not in options:
        return cure.words
    typed = f"{flag_of(name)} …" if value is None else shlex.join(as_typed(flag_of(name), value))
    return f"{cure.words} ({typed})" if typed else cure.words


def free_name(name: str | Path, *endings: str) -> Path:
    """Return the name, or the first of name-2, name-3, … that is free, also with each of the other endings."""
    first = Path(name)
    places = chain([first], (first.with_stem(f"{first.stem}-{turn}") for turn in count(2)))
    return next(
        place
        for place in places
        if not any(os.path.lexists(each) for each in (place, *map(place.with_suffix, endings)))
    )


def from_here(path: Path) -> str:
    """Return a path as one types it here, where it is not longer so."""
    return min(str(path), os.path.relpath(path), key=len)


@contextmanager
def outputs(
    out: Path, force: bool, inputs: list[Path | None], images: ImageFormat | None = None
) -> Iterator[Callable[..., None]]:
    """Yield what writes rows of numbers, at once or some more, and the figures; at last all of it or nothing."""
    if out.suffix not in (".csv", ".parquet"):
        raise InputError(
            f"--out names a .csv or .parquet file, got {str(out)!r}", "the figure goes beside it as .html"
        )
    places = [out, out.with_suffix(".html")]
    require_distinct(places, inputs)
    with fresh_files(places, force=force, private=True) as [numbers, place], TableWriter(numbers) as writer:

        def save(columns: dict[str, np.ndarray] | None, *figures: Any, page: str = "") -> None:
            if columns is not None:
                writer.write_columns(columns)
            if figures:
                write_figure(figures[0], place, *figures[1:])
                if images:
                    write_pictures(out, images, force, figures)
            if page:
                place.write_text(page, encoding="utf-8")

        yield save


def write_pictures(out: Path, images: ImageFormat, force: bool, figures: Sequence[go.Figure]) -> None:
    """Write figures as pictures beside what they are of, each with its message on it: out.png, out-2.png, …"""
    places = [
        out.with_name(f"{out.stem}{f'-{turn}' * (turn > 1)}.{images}") for turn in range(1, len(figures) + 1)
    ]
    with fresh_files(places, force=force, private=True) as paths:
        drawn = (figure if figure.layout.title.text else titled(figure) for figure in figures)
        write_images(dict(zip(paths, drawn, strict=True)))
    notes.print(f"Pictures: {escape(', '.join(map(str, places)))}")


def show_files(out: Path, line: str = "one row for each person", page: str = "the figure") -> None:
    """Say what was written, and that it is confidential."""
    say(
        f"Written: {out} ({line}) and {out.with_suffix('.html')} ({page}; opens in any browser, offline).\n"
        "Both are confidential, as the table is: they describe individual records. Only you can read them."
    )


def headline(mark: str, colour: str, bold: str, words: str = "") -> None:
    """Print a sign in its colour, and what it stands for."""
    sign = f"[{colour}]{mark}[/{colour}] " if mark else ""
    console.print(f"{sign}[bold]{escape(bold)}[/bold]{escape(words)}")


def show_verdict(verdict: Verdict) -> None:
    """Print the decision, then who and what, how sure, and of membership the same."""
    colour = {"for": "green", "luck": "yellow", "against": "red", "open": "default"}[verdict.standing]
    headline(verdict.mark, colour, f"{verdict.headline}.")
    if verdict.remark:
        say(verdict.remark)
    if not verdict.passed:
        say(f"Who, and what: {verdict.who}")
    say(f"How sure: {verdict.how_sure}")
    if verdict.membership:
        say(f"Membership: {verdict.membership}")
    say(f"The rule: {verdict.rule_words}")


def show_values(
    columns: dict[str, np.ndarray], rule: Rule, outside: Sequence[str] = (), schema: Schema = NOTHING
) -> None:
    """Print the values that are disclosed, or come closest to it."""
    lines = value_lines(values_of(columns, rule, SHOWN, outside, schema))
    rows = [list(line.values()) for line in lines]
    show("\nThe values closest to being disclosed", list(lines[0]), rows, words=("column", "adversary", "verdict"))
