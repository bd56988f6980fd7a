"""The commands that make a release: synthesize, from a table, and demo, from a simulated one."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.earlier import RECORDED, recording, require_ledger, require_within_limit, show_recorded
from allbutone.cli.elsewhere import (
    OF_ENGINE,
    Address,
    AnyTable,
    inputs_of,
    read_any,
    require_here,
    require_no_ledger,
)
from allbutone.cli.mixed import OF_MIXED, is_mixed, release_mixed
from allbutone.cli.moments import pooled_of
from allbutone.cli.options import (
    Kind,
    Prior,
    ReleaseKind,
    Rows,
    Wanted,
    fit,
    following,
    free_name,
    prior_and_worth,
    require_rows_of_datasets,
    worded,
)
from allbutone.cli.output import console, late_progress, show, show_next, show_notes, sparkline
from allbutone.cli.private import OF_PRIVATE, asks_for_guarantee, release_private
from allbutone.cli.reading import (
    LIKE,
    OF_TABLE,
    also_asked,
    given_prior,
)
from allbutone.model.site_moments import SiteMoments
from allbutone.releases import entropy
from allbutone.releases.folder import is_release, require_place, save_release, synthesize_to_folder
from allbutone.releases.ledger.entries import DRAWN
from allbutone.releases.ledger.file import ledger_path, record_release
from allbutone.releases.release import MOST_DATASETS
from allbutone.releases.synthesizer import NIWSynthesizer
from allbutone.support.checks import count_of
from allbutone.support.errors import InputError
from allbutone.support.text import bell_curves, counted
from allbutone.tables.demo import COLUMNS, OUTLIER, PEOPLE, demo_cohort
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.files import TableWriter
from allbutone.tables.records import Records
from allbutone.tables.safe_write import fresh_folder, require_distinct
from allbutone.utility.released_values import ValueCounter


class FileFormat(StrEnum):
    """How to write datasets."""

    csv = "csv"
    parquet = "parquet"


More = Annotated[list[Path] | None, typer.Argument(help="The other sites' files, with --moments.")]
FromMoments = Annotated[
    bool,
    typer.Option("--moments", help="TABLE and what follows are files of moments, one of each site, or pooled."),
]
Out = Annotated[Path, typer.Option(help="The folder to create for the release.")]
Datasets = Annotated[int, typer.Option(help="How many datasets (or parameter draws) to release.")]
Format = Annotated[FileFormat, typer.Option("--format", help="The format of the datasets.")]
NewRepeatKey = Annotated[
    bool,
    typer.Option(
        "--new-repeat-key", help="Make a key that repeats this release, and show it once. It is a secret."
    ),
]
RepeatKey = Annotated[
    str | None,
    typer.Option(help="The key that --new-repeat-key showed: draws the same release of the same table again."),
]
Seed = Annotated[str | None, typer.Option(hidden=True, help="Refused: a seed can be found by trying.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing release folder.")]


@also_asked(OF_TABLE | OF_MIXED | LIKE | RECORDED | OF_ENGINE | OF_PRIVATE)
def synthesize(
    context: typer.Context,
    table: AnyTable,
    out: Out,
    more: More = None,
    moments: FromMoments = False,
    datasets: Datasets = 1,
    rows: Rows = None,
    release: Kind = ReleaseKind.datasets,
    prior: Prior = None,
    format: Format = FileFormat.csv,
    new_repeat_key: NewRepeatKey = False,
    repeat_key: RepeatKey = None,
    seed: Seed = None,
    force: Force = False,
) -> None:
    """Fit the model to a table and write a release: synthetic datasets, draws of the parameters, or both."""
    count_of("datasets", datasets, MOST_DATASETS)
    private = asks_for_guarantee(context)
    key = None if private else _key(new_repeat_key, repeat_key, seed)
    require_rows_of_datasets(rows, release)
    require_distinct([out], [*inputs_of(context, table), *(more or ()), prior, context.params["table_file"]])
    require_place(out, force=force)
    if private:
        require_here(context, table)
        release_private(context, table)
        return
    if more and not moments:
        raise InputError(f"{more[0]} is one table too many", "give one, or several files of --moments")
    records: Records | LazyRecords | SiteMoments
    records = pooled_of([Path(table), *(more or ())]) if moments else read_any(context, table, mixed=True)
    ledger: Path | None = None
    if isinstance(records, Records):
        ledger = require_ledger(context, table, out)
        require_within_limit(ledger, None)
    else:
        require_no_ledger(context)
    record = recording(ledger, records, out, table_file=context.params["table_file"])
    wanted = Wanted(out, datasets, rows, release, format, key, force, record)
    mixed = False
    if isinstance(records, SiteMoments) or not (mixed := is_mixed(context, records)):
        remarks = _release_normal(context, records, wanted)
    else:
        remarks = release_mixed(context, records, wanted)
    if release is ReleaseKind.both:
        console.print(
            "With its parameters each dataset tells no more of the records than the parameters alone: `risk` "
            "attacks those, and the datasets are there to be used."
        )
    show_recorded(ledger, out)
    if new_repeat_key:
        _show_key(key)
    if moments:
        console.print("Each site can judge it for its own records: allbutone risk TABLE RELEASE --pooled FILE.")
    else:
        _show_next(context, table, out, mixed)
    show_notes([*records.notes, *remarks])


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to create.")] = Path("demo"),
    force: Force = False,
) -> None:
    """Synthesize a simulated cohort of 503 people with five polygenic scores: a safe place to start."""
    cohort = demo_cohort()
    synthesizer = NIWSynthesizer().fit(cohort)
    release = synthesizer.sample(datasets=5)
    with fresh_folder(out, ours=_is_demo, force=force) as work:
        with TableWriter(work / "cohort.csv", COLUMNS) as writer:
            writer.write(cohort.values)
        save_release(release, work / "release")
        record_release(ledger_path(work / "cohort.csv"), cohort, work / "release", how=DRAWN)
    table = escape(str(out / "cohort.csv"))
    console.print(
        f"Simulated {PEOPLE} people with five polygenic scores; the person in row {OUTLIER} is far outside.\n"
        f"{table} stands in for a confidential table.\n"
    )
    what = f"5 datasets of {PEOPLE} rows in {escape(str(out / 'release'))}"
    _describe_datasets(synthesizer, release.datasets[0], what)
    console.print(_assumed(synthesizer, None))
    show_recorded(ledger_path(out / "cohort.csv"), out / "release")
    _show_next(context, out / "cohort.csv", out / "release")


def _show_next(context: typer.Context, table: Path | Address, release: Path, mixed: bool = False) -> None:
    before = context.params.get("like")  # what is out already is attacked together with it
    releases = [release] if before is None else [before, release]
    told = {"prior": None} if mixed else {}  # the release has it
    command = following(context, "risk", table, *releases, out=free_name("risk.csv", ".html"), **told)
    with_it = "" if before is None else f" together with {before}"
    show_next(f"see what it gives away of each record{with_it}, before anyone else does:", command)


def _is_demo(folder: Path) -> bool:
    parts = {path.name for path in folder.iterdir()}
    ours = {"cohort.csv", "release"}
    return ours <= parts <= {*ours, ledger_path("cohort.csv").name} and is_release(folder / "release")


def _key(new: bool, given: str | None, seed: str | None) -> str | None:
    """Return the repeat key to draw with, a new one if asked for, or None for a release that nobody can repeat."""
    if seed is not None:
        raise InputError(
            "a seed that a person chooses can be found by trying, and with it a missing record, exactly",
            "leave --seed out",
            "to be able to repeat the release, give --new-repeat-key, which makes and shows a key",
        )
    if new and given is not None:
        raise InputError(
            "--new-repeat-key makes a key and --repeat-key uses one",
            "give the first to begin, the second to repeat",
        )
    return entropy.new_repeat_key() if new else given


def _show_key(key: str | None) -> None:
    console.print(
        f"Repeat key: {key}\nIt is shown this once and stored nowhere. Keep it as you keep the table, or not "
        "at all: whoever has it, the release and the other records has the missing one."
    )


def _release_normal(
    context: typer.Context, records: Records | LazyRecords | SiteMoments, wanted: Wanted
) -> list[str]:
    """Draw and write a release of measurements, say so, and return what there is to note."""
    synthesizer, note = fit(records, given_prior(context))
    counter = ValueCounter(records.schema)
    first = _write(synthesizer, wanted, counter)
    place = escape(str(wanted.out))
    if wanted.kind is ReleaseKind.parameters:
        _describe_parameters(synthesizer, first, f"{counted(wanted.datasets, 'parameter draw')} in {place}")
    else:
        rows = counted(synthesizer.sizes(1, wanted.rows)[0], "row")
        _describe_datasets(synthesizer, first, f"{counted(wanted.datasets, 'dataset')} of {rows} in {place}")
    console.print(_assumed(synthesizer, context.params["prior"]))
    odd = []
    if isinstance(records, Records) and wanted.kind is not ReleaseKind.parameters:
        odd = counter.oddities(records)
    return [*map(worded, odd), note]


def _write(synthesizer: NIWSynthesizer, wanted: Wanted, counter: ValueCounter) -> np.ndarray:
    """Draw and write the release; return its first rows, or the first draw's mean and deviations."""
    if wanted.kind is ReleaseKind.parameters:
        drawn = synthesizer.sample_parameters(wanted.datasets, repeat_key=wanted.repeat_key)
        save_release(drawn, wanted.out, force=wanted.force, finished=wanted.record)
        return np.stack([drawn.means[0], np.sqrt(np.diagonal(drawn.covariances[0]))])
    if wanted.kind is ReleaseKind.both:
        both = synthesizer.sample(
            datasets=wanted.datasets, rows=wanted.rows, parameters=True, repeat_key=wanted.repeat_key
        )
        save_release(both, wanted.out, format=wanted.format, force=wanted.force, finished=wanted.record)
        for dataset in both.datasets:
            counter.add(dataset, dataset)
        return both.datasets[0]
    return _stream(synthesizer, wanted, counter)


def _stream(synthesizer: NIWSynthesizer, wanted: Wanted, counter: ValueCounter) -> np.ndarray:
    """Draw and write datasets block by block; return the first block."""
    seen: list[np.ndarray] = []
    sizes = synthesizer.sizes(wanted.datasets, wanted.rows)
    with late_progress("Writing rows", sum(sizes)) as advance:

        def watch(drawn: np.ndarray, block: np.ndarray) -> None:
            advance(len(block))
            counter.add(drawn, block)
            if not seen:
                seen.append(block)

        synthesize_to_folder(
            synthesizer.posterior,
            sizes,
            synthesizer.generator("datasets", sizes, wanted.repeat_key),
            wanted.out,
            columns=synthesizer.columns,
            prior=synthesizer.prior,
            schema=synthesizer.schema,
            format=wanted.format,
            force=wanted.force,
            watch=watch,
            finished=wanted.record,
        )
    return seen[0]


def _describe_datasets(synthesizer: NIWSynthesizer, first: np.ndarray, what: str) -> None:
    """Show the shape of the first rows: synthetic values only."""
    rows = [
        (escape(name), f"{values.mean():.4g}", f"{values.std():.4g}", sparkline(values))
        for name, values in zip(synthesizer.columns, first.T, strict=True)
    ]
    headings = ("column", "mean", "SD", "from lowest to highest")
    show(f"{what}: the first synthetic dataset", headings, rows, words=(headings[0], headings[-1]))


def _describe_parameters(synthesizer: NIWSynthesizer, first: np.ndarray, what: str) -> None:
    pairs = zip(synthesizer.columns, *first, strict=True)
    rows = [(escape(name), f"{mean:.4g}", f"{deviation:.4g}") for name, mean, deviation in pairs]
    show(f"{what}: the first draw", ("column", "mean", "SD"), rows, words=("column",))


def _assumed(synthesizer: NIWSynthesizer, given: Path | None) -> str:
    p = len(synthesizer.columns)
    what = bell_curves(p) + escape(synthesizer.schema.scales_in_words)
    prior = escape(prior_and_worth(given, synthesizer.prior))
    return f"Assumed: {what}; {prior}; each dataset from parameters of its own, drawn at random."
