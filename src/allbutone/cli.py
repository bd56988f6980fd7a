"""The command line: wiring, words and exit codes; no numerics."""

import errno
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as RichTable

from allbutone import __version__
from allbutone.atomic import fresh_folder
from allbutone.cohort import COLUMNS, OUTLIER, PEOPLE, demo_cohort
from allbutone.errors import InputError
from allbutone.folder import save_release, synthesize_to_folder
from allbutone.prior import PriorScaleWarning
from allbutone.records import Records
from allbutone.synthesizer import NIWSynthesizer
from allbutone.tables import TableWriter

app = typer.Typer(
    help="Synthetic continuous data, with what each person in it stands to lose.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
console = Console(highlight=False, soft_wrap=True)
notes = Console(stderr=True, highlight=False, soft_wrap=True)

PROGRESS_AFTER_SECONDS = 2.0


class ReleaseKind(StrEnum):
    """What to release."""

    datasets = "datasets"
    parameters = "parameters"


class FileFormat(StrEnum):
    """How to write datasets."""

    csv = "csv"
    parquet = "parquet"


Table = Annotated[Path, typer.Argument(help="The confidential table: a .csv, .tsv or .parquet file.")]
Out = Annotated[Path, typer.Option(help="The folder to create for the release.")]
Datasets = Annotated[int, typer.Option(help="How many datasets (or parameter draws) to release.")]
Rows = Annotated[int | None, typer.Option(help="Rows of each dataset; as many as the table has by default.")]
Kind = Annotated[ReleaseKind, typer.Option("--release", help="Synthetic datasets, or the model's parameters.")]
Prior = Annotated[
    Path | None,
    typer.Option(help="A TOML or JSON prior file, from public knowledge, never from this table."),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(help="Columns to keep, separated by commas; all by default. May be repeated."),
]
Drop = Annotated[
    list[str] | None, typer.Option(help="Columns to leave out, separated by commas. May be repeated.")
]
Format = Annotated[FileFormat, typer.Option("--format", help="The format of the datasets.")]
Seed = Annotated[
    int | None,
    typer.Option(min=0, help="Makes the release repeatable. It is a secret: it is not written anywhere."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing release folder.")]


def main() -> None:
    """Run the command line; bad input ends in one clear line and exit code 2."""
    try:
        app(standalone_mode=True)
    except InputError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EACCES, errno.EROFS, errno.EIO):
            raise
        _fail(f"cannot write: {error.strerror}; nothing was released; free space or choose another folder")


def _fail(message: str) -> None:
    print("Error:", " ".join(message.splitlines()), file=sys.stderr)
    sys.exit(2)


@app.callback(invoke_without_command=True)
def about(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Synthetic continuous data, with what each person in it stands to lose."""
    if version:
        console.print(f"allbutone {__version__}")
        raise typer.Exit


@app.command()
def synthesize(
    table: Table,
    out: Out,
    datasets: Datasets = 1,
    rows: Rows = None,
    release: Kind = ReleaseKind.datasets,
    prior: Prior = None,
    columns: Columns = None,
    drop: Drop = None,
    format: Format = FileFormat.csv,
    seed: Seed = None,
    force: Force = False,
) -> None:
    """Fit the model to a table and write a release: synthetic datasets, or draws of the model's parameters."""
    records = Records.of(table, columns=_split(columns), drop=_split(drop))
    synthesizer = _fit(records, prior)
    first = _release(synthesizer, out, datasets, rows, release, format, seed, force)
    if release is ReleaseKind.parameters:
        _describe_parameters(synthesizer, first, f"{_plural(datasets, 'parameter draw')} in {escape(str(out))}")
    else:
        what = f"{_plural(datasets, 'dataset')} of {_plural(rows or len(records.values), 'row')}"
        _describe_datasets(synthesizer, first, f"{what} in {escape(str(out))}")
    console.print(_assumed(synthesizer, prior))
    console.print(f"\nNext: look inside [bold]{escape(str(out))}[/bold]; release.json says how it was made.")


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder to create.")] = Path("demo"),
    force: Force = False,
) -> None:
    """Synthesize a simulated cohort of 503 people with five polygenic scores: a safe place to start."""
    cohort = demo_cohort()
    synthesizer = NIWSynthesizer().fit(cohort)
    release = synthesizer.sample(datasets=5)
    with fresh_folder(out, marker="cohort.csv", force=force) as work:
        with TableWriter(work / "cohort.csv", COLUMNS) as writer:
            writer.write(cohort.values)
        save_release(release, work / "release")
    table = escape(str(out / "cohort.csv"))
    console.print(
        f"Simulated {PEOPLE} people with five polygenic scores; the person in row {OUTLIER} is far outside.\n"
        f"{table} stands in for a confidential table.\n"
    )
    what = f"5 datasets of {PEOPLE} rows in {escape(str(out / 'release'))}"
    _describe_datasets(synthesizer, release.datasets[0], what)
    console.print(_assumed(synthesizer, None))
    console.print(
        "\nNext: do it yourself, on this table or yours:\n"
        f"  [bold]allbutone synthesize {table} --out my-release --datasets 3[/bold]"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def _split(names: list[str] | None) -> list[str] | None:
    return None if names is None else [name.strip() for group in names for name in group.split(",")]


def _fit(records: Records, prior: Path | None) -> NIWSynthesizer:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PriorScaleWarning)
        synthesizer = NIWSynthesizer(prior).fit(records)
    for warning in caught:
        notes.print(f"[yellow]Note:[/yellow] {escape(str(warning.message))}\n")
    return synthesizer


def _release(
    synthesizer: NIWSynthesizer,
    out: Path,
    datasets: int,
    rows: int | None,
    kind: ReleaseKind,
    format: FileFormat,
    seed: int | None,
    force: bool,
) -> np.ndarray:
    """Draw and write the release; return its first rows, or the first draw's mean and deviations."""
    rng = np.random.default_rng(seed)
    if kind is ReleaseKind.parameters:
        if rows is not None:
            raise InputError("--rows goes with --release datasets; parameters have no rows")
        drawn = synthesizer.sample_parameters(datasets, rng)
        save_release(drawn, out, force=force)
        return np.stack([drawn.means[0], np.sqrt(np.diagonal(drawn.covariances[0]))])
    sizes = synthesizer.sizes(datasets, rows)
    seen: list[np.ndarray] = []
    with late_progress("Writing rows", sum(sizes)) as advance:

        def watch(block: np.ndarray) -> None:
            advance(len(block))
            if not seen:
                seen.append(block)

        synthesize_to_folder(
            synthesizer.posterior,
            sizes,
            rng,
            out,
            columns=synthesizer.columns,
            prior=synthesizer.prior,
            format=format,
            force=force,
            watch=watch,
        )
    return seen[0]


@contextmanager
def late_progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Yield a function that counts work done; a bar with the time left appears after two seconds."""
    bar = Progress(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=notes,
        transient=True,
    )
    task, started, done = bar.add_task(what, total=total), time.monotonic(), 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        if time.monotonic() - started > PROGRESS_AFTER_SECONDS:
            bar.start()
            bar.update(task, completed=done)

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


def _describe_datasets(synthesizer: NIWSynthesizer, first: np.ndarray, what: str) -> None:
    """Say what was assumed and show the first rows' shape: synthetic values only."""
    picture = RichTable(title=f"{what}: the first synthetic dataset", title_justify="left", box=None)
    for heading in ("column", "mean", "SD", "from lowest to highest"):
        picture.add_column(heading, justify="right" if heading in ("mean", "SD") else "left")
    for name, values in zip(synthesizer.columns, first.T, strict=True):
        shape = _sparkline(values)
        picture.add_row(escape(name), f"{values.mean():.4g}", f"{values.std():.4g}", shape)
    console.print(picture)


def _describe_parameters(synthesizer: NIWSynthesizer, first: np.ndarray, what: str) -> None:
    picture = RichTable(title=f"{what}: the first draw", title_justify="left", box=None)
    for heading in ("column", "mean", "SD"):
        picture.add_column(heading, justify="left" if heading == "column" else "right")
    for name, mean, deviation in zip(synthesizer.columns, *first, strict=True):
        picture.add_row(escape(name), f"{mean:.4g}", f"{deviation:.4g}")
    console.print(picture)


def _sparkline(values: np.ndarray) -> str:
    counts, _ = np.histogram(values, bins=24)
    levels = np.ceil(8 * counts / counts.max()).astype(int)
    return "".join(" ▁▂▃▄▅▆▇█"[level] for level in levels)


def _assumed(synthesizer: NIWSynthesizer, given: Path | None) -> str:
    prior = "the prior of " + escape(str(given)) if given else "the default prior (mean 0, spread 1)"
    return (
        f"Assumed: the {len(synthesizer.columns)} columns are jointly normal; {prior}, worth "
        f"{synthesizer.prior.mean_weight:g} record for the mean; each dataset from its own posterior draw."
    )
