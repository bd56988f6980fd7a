"""The commands that make a release: synthesize, from a table, and demo, from a simulated one."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from allbutone.cli.ledger import TableLedger, require_no_ledger, show_recorded, terms_of
from allbutone.cli.onward import in_flags, next_after_release
from allbutone.cli.options import (
    REQUIRED,
    Force,
    Kind,
    LedgerOptions,
    ModelOptions,
    ReleaseKind,
    Rows,
    TableAnywhere,
    TableOptions,
    argument,
    command,
    flag_of,
    offers,
    option,
    require_rows_of_datasets,
)
from allbutone.cli.output import console, late_progress, show, show_notes, sparkline
from allbutone.cli.reading import declared, inputs_of, read, read_content, source_of, ways_out
from allbutone.model.location import SEPARATE
from allbutone.model.niw import NIW
from allbutone.model.prior import PriorScaleWarning
from allbutone.model.sites import SiteMoments
from allbutone.model.sites import pool as pooled_moments
from allbutone.releases import sampling
from allbutone.releases.folder import is_release, require_place, save_release, synthesize_to_folder
from allbutone.releases.ledger import DRAWN, Terms, ledger_path, record_release
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.private_mechanism import DELTA, delta_of, model_limits, without_limits, zcdp_rho
from allbutone.releases.private_release import ADJACENCY, refuse_seed
from allbutone.releases.release import MOST_DATASETS, Release
from allbutone.releases.synthesizer import Synthesizer
from allbutone.support.errors import Cure, InputError, count_of
from allbutone.support.text import bell_curves, counted, percent
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.files import TableWriter
from allbutone.tables.records import COLUMNS, OUTLIER, PEOPLE, Records, demo_cohort
from allbutone.tables.safe_io import fresh_folder, require_distinct
from allbutone.tables.schema import Schema
from allbutone.utility.natural_scale import Oddity, ValueCounter, odd_values


class FileFormat(StrEnum):
    """How to write datasets."""

    csv = "csv"
    parquet = "parquet"


@dataclass(frozen=True)
class Wanted:
    """What is to be drawn, and where it goes."""

    out: Path
    datasets: int
    rows: int | None
    kind: ReleaseKind
    format: str
    repeat_key: str | None
    force: bool
    record: Callable[[Path], object] = lambda work: None  # sees the files when they all lie aside

    def in_words(self, rows: int) -> str:
        """Say what was drawn, and where it is."""
        if self.kind is ReleaseKind.parameters:
            return f"{counted(self.datasets, 'parameter draw')} in {escape(str(self.out))}"
        return f"{counted(self.datasets, 'dataset')} of {counted(rows, 'row')} in {escape(str(self.out))}"


@command
def synthesize(
    *,
    context: typer.Context,
    source: TableAnywhere,
    model: ModelOptions,
    book: Annotated[LedgerOptions, offers("ledger", "no_ledger")],
    out: Path = option("The folder to create for the release.", REQUIRED),
    more: list[Path] | None = argument("The other sites' files, with --moments."),
    moments: bool = option("TABLE and what follows are files of moments, one of each site, or pooled.", False),
    datasets: int = option(f"How many datasets (or parameter draws) to release, at most {MOST_DATASETS:,}.", 1),
    rows: Rows = None,
    release: Kind = ReleaseKind.datasets,
    format: FileFormat = option("The format of the datasets.", FileFormat.csv),
    new_repeat_key: bool = option(
        "Make a key of 128 bits that repeats this release, and show it once: a secret.", False
    ),
    repeat_key: str | None = option(
        "The key that --new-repeat-key showed: draws the same release of the same table again."
    ),
    seed: str | None = option("Refused: a seed can be found by trying.", hidden=True),
    force: Force = False,
) -> None:
    """Fit the model to a table and write a release: synthetic datasets, draws of the parameters, or both."""
    count_of("datasets", datasets, MOST_DATASETS)
    private = _asks_for_guarantee(model)
    if private and (seed is not None or repeat_key is not None or new_repeat_key):
        refuse_seed()
    key = _key(new_repeat_key, repeat_key, seed)
    require_rows_of_datasets(rows, release)
    require_distinct([out], [*inputs_of(source), *(more or ()), model.prior])
    require_place(out, force=force)
    wanted = Wanted(out, datasets, rows, release, format, key, force)
    ledger = TableLedger(book, source.table)
    if private:
        _release_private(context, source, model, ledger, wanted, moments)
        return
    if more and not moments:
        raise InputError(f"{more[0]} is one table too many", "give one, or several files of --moments")
    if moments or source_of(source) is not None:
        require_no_ledger(book)
        ledger = TableLedger(LedgerOptions(no_ledger=True), source.table)
    if moments:
        sites = pooled_moments([SiteMoments.load(path) for path in (Path(source.table), *(more or ()))])
        notes = [*sites.notes, *_release(sites, {"prior": model.prior}, model.prior, wanted)]
    else:
        table = read(source, model, ledger.content, categories=True, may_impute=True)
        ledger.require_room(out, [*inputs_of(source), model.prior])
        wanted = replace(wanted, record=ledger.recording(table.records, out, table_file=source.table_file))
        notes = [*table.records.notes, *_release(table.records, table.mechanism, model.prior, wanted)]
    if release is ReleaseKind.both:
        console.print(
            "With its parameters each dataset tells no more of the records than the parameters alone: `risk` "
            "attacks those, and the datasets are there to be used."
        )
    show_recorded(None if ledger.options.no_ledger else ledger.path, out)
    if new_repeat_key:
        _show_key(key)
    if moments:
        console.print("Each site can judge it for its own records: allbutone risk TABLE RELEASE --pooled FILE.")
    else:
        told = {"prior": None} if table.is_mixed else {}  # the release has it
        next_after_release(context, source.table, out, model.like, **told)
    show_notes(notes)


@command
def demo(
    *,
    context: typer.Context,
    out: Path = option("The folder to create.", Path("demo")),
    force: Force = False,
) -> None:
    """Synthesize a simulated cohort of 503 people with five polygenic scores: a safe place to start."""
    cohort = demo_cohort()
    synthesizer = Synthesizer().fit(cohort)
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
    _show_values(what, synthesizer.columns, release.values[0])
    console.print(escape(_assumed(synthesizer.mechanism, None)))
    show_recorded(ledger_path(out / "cohort.csv"), out / "release")
    next_after_release(context, out / "cohort.csv", out / "release")


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
    return sampling.new_repeat_key() if new else given


def _show_key(key: str | None) -> None:
    console.print(
        f"Repeat key: {key}\nIt is shown this once and stored nowhere. Keep it as you keep the table, or not "
        "at all: whoever has it, the release and the other records has the missing one."
    )


def fit_normal(
    records: Records | LazyRecords | SiteMoments, prior: NIW | Path | None, **how: Any
) -> tuple[Synthesizer, str]:
    """Return the fitted synthesizer and what there is to note about its prior."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PriorScaleWarning)
        synthesizer = Synthesizer(prior, **how).fit(records)
    return synthesizer, "\n".join(str(warning.message) for warning in caught)


def describe_prior(given: Path | None, prior: NIW) -> str:
    """Return in words which prior is in use."""
    if prior.is_flat:
        return "the flat prior (it has no units and says nothing of the data)"
    return f"the prior of {given}" if given else "the prior of the table file, or of the release to be like"


def _prior_and_worth(given: Path | None, prior: NIW) -> str:
    """Return in words which prior is in use, and how much it counts."""
    weight = prior.mean_weight
    worth = f", worth {weight:g} record{'' if weight == 1 else 's'} for the mean" if weight else ""
    return describe_prior(given, prior) + worth


def _worded(odd: Oddity) -> str:
    """Say what is odd about synthetic values, and which option cures it."""
    return f"{odd.words}; {in_flags(odd.cure, {'log', 'decimals', 'positive'})}."


def _release(
    records: Records | LazyRecords | SiteMoments, how: dict[str, Any], given: Path | None, wanted: Wanted
) -> list[str]:
    """Draw and write a release, say so, and return what there is to note; given: the file of the prior."""
    synthesizer, note = fit_normal(records, **how)
    odd: Sequence[Oddity] = ()
    if synthesizer.mechanism.is_normal and wanted.kind is ReleaseKind.datasets:
        counter = ValueCounter(records.schema)
        first = _stream(synthesizer, wanted, counter)
        _show_values(wanted.in_words(synthesizer.sizes(1, wanted.rows)[0]), synthesizer.columns, first)
        odd = counter.oddities(records) if isinstance(records, Records) else ()
    else:
        release = _draw(synthesizer, wanted)
        if release.tables:
            _show_tables(wanted.in_words(release.rows[0]), release)
            odd = odd_values(records, release) if isinstance(records, Records) else ()
        else:
            _show_parameters(wanted.in_words(0), release)
    console.print(escape(_assumed(synthesizer.mechanism, given)))
    if synthesizer.gaps_in_words:
        console.print(escape(synthesizer.gaps_in_words))
    return [*map(_worded, odd), note]


def _draw(synthesizer: Synthesizer, wanted: Wanted) -> Release:
    """Draw a release and write it."""
    with late_progress("Drawing", None):
        if wanted.kind is ReleaseKind.parameters:
            release = synthesizer.sample_parameters(wanted.datasets, repeat_key=wanted.repeat_key)
        else:
            release = synthesizer.sample(
                datasets=wanted.datasets,
                rows=wanted.rows,
                parameters=wanted.kind is ReleaseKind.both,
                repeat_key=wanted.repeat_key,
            )
        save_release(release, wanted.out, format=wanted.format, force=wanted.force, finished=wanted.record)
    return release


def _stream(synthesizer: Synthesizer, wanted: Wanted, counter: ValueCounter) -> np.ndarray:
    """Draw and write datasets of measurements block by block, none held whole; return the first block."""
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
            mechanism=synthesizer.mechanism,
            format=wanted.format,
            force=wanted.force,
            watch=watch,
            finished=wanted.record,
        )
    return seen[0]


def _show_values(what: str, columns: Sequence[str], first: np.ndarray) -> None:
    """Show the shape of the first rows: synthetic values only."""
    rows = [_line(name, values) for name, values in zip(columns, first.T, strict=True)]
    headings = ("column", "mean", "SD", "from lowest to highest")
    show(f"{what}: the first synthetic dataset", headings, rows, words=(headings[0], headings[-1]))


def _line(name: str, values: np.ndarray) -> tuple[str, str, str, str]:
    return escape(name), f"{values.mean():.4g}", f"{values.std():.4g}", sparkline(values)


def _show_tables(what: str, release: Release) -> None:
    """Show the shape of the first synthetic table."""
    first = release.tables[0]
    natural = dict(zip(first.columns, first.natural.T, strict=True))
    lines = []
    for name in first.order:
        if name in natural:
            lines.append(_line(name, natural[name][~np.isnan(natural[name])]))
        else:
            place = first.categories.columns.index(name)
            codes, levels = first.categories.codes[:, place], first.categories.levels[place]
            there = codes[codes >= 0]
            shares = np.bincount(there, minlength=len(levels)) / max(len(there), 1)
            lines.append((escape(name), "", "", escape(_shares(levels, shares))))
    headings = ("column", "mean", "SD", "from lowest to highest, or levels")
    show(f"{what}: the first synthetic dataset", headings, lines, words=(headings[0], headings[-1]))


def _show_parameters(what: str, release: Release) -> None:
    """Show the first draw of the parameters: means and deviations, or the shares of the levels."""
    mechanism, parameters = release.mechanism, release.parameters
    assert parameters is not None
    if mechanism.is_normal:
        means, covariances = np.asarray(release.normal.means)[0], np.asarray(release.normal.covariances)[0]
        rows = [
            (escape(name), f"{mean:.4g}", f"{variance**0.5:.4g}")
            for name, mean, variance in zip(release.columns, means, np.diagonal(covariances), strict=True)
        ]
        show(f"{what}: the first draw", ("column", "mean", "SD"), rows, words=("column",))
        return
    codes = mechanism.prior.cells.codes
    lines = [
        (escape(name), escape(_shares(levels, np.bincount(codes[:, place], parameters.shares[0]))))
        for place, (name, levels) in enumerate(zip(mechanism.categories, mechanism.levels, strict=True))
    ]
    if not lines:
        console.print(f"{what}: coefficients and covariances.")
        return
    headings = ("column", "levels")
    show(f"{what}: the first draw, beside coefficients and covariances", headings, lines, headings)


def _shares(levels: tuple[str, ...], shares: np.ndarray, most: int = 8) -> str:
    """Return levels, each with its share; of very many, the first."""
    some = [f"{level} {percent(share)}" for level, share in zip(levels[:most], shares, strict=False)]
    return ", ".join(some) + (f" and {len(levels) - most} more" if len(levels) > most else "")


def _assumed(mechanism: Mechanism, prior: Path | None) -> str:
    """Say what the model takes for granted, and what is public from now on."""
    p, sizes = len(mechanism.measurements), mechanism.sizes
    drawn = mechanism.schema.for_columns(mechanism.measurements)
    what = bell_curves(p, "column" if mechanism.is_normal else "measurement") + drawn.scales_in_words
    parts, weight = [], ""
    if sizes:
        cells = mechanism.prior.cells.count
        named = [
            f"{name} ({counted(size, 'level')})" for name, size in zip(mechanism.categories, sizes, strict=True)
        ]
        parts.append(f"{_and(named)} {'make' if len(sizes) > 1 else 'makes'} {counted(cells, 'cell')}")
        what = f"in each cell {what}"
        if mechanism.cells == SEPARATE:
            what += ", with means and spreads of its own"
        else:
            what += ", with means that every level moves (main effects) and the same spread in all"
        weight = f", and {_records(mechanism.cell_weight * cells)} for the shares of all cells"
    if mechanism.covariates:
        what += f"; they depend on {_and(mechanism.covariates)} in straight lines"
    parts += [
        what,
        _prior_and_worth(prior, mechanism.require_prior()) + weight,
        "each dataset from parameters of its own, drawn at random",
    ]
    lines = [f"Assumed: {'; '.join(parts)}."]
    if mechanism.keep:
        lines.append(
            f"Kept as they are, a row for each person: {', '.join(mechanism.keep)}. Whoever has the release has "
            "these of everyone: keep only what is public anyway."
        )
    public = "the names of all columns" + (" and levels" if sizes else "")
    lines.append(f"Public with the release: {public}, the model and its prior.")
    return "\n".join(lines)


def _records(weight: float) -> str:
    told = f"{weight:.2g}"
    return "one record" if told == "1" else "half a record" if told == "0.5" else f"{told} records"


def _and(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else str(last)


def _asks_for_guarantee(model: ModelOptions) -> bool:
    """Say whether a guarantee was asked for; a δ without an ε is refused."""
    if model.epsilon is None and model.delta is not None:
        raise InputError("--delta goes with a guarantee", Cure("say how strong it is to be", "epsilon", 1.0))
    return model.epsilon is not None


def _release_private(
    context: typer.Context,
    source: TableOptions,
    model: ModelOptions,
    ledger: TableLedger,
    wanted: Wanted,
    moments: bool,
) -> None:
    """Spend ε on the table, write the release, and say what is guaranteed and what it rests on."""
    if moments or source_of(source) is not None:
        raise InputError(
            "a guarantee takes the records themselves, and these stay where they are", "give one file that is read"
        )
    _require_nothing_else(source, model, wanted.kind)
    delta = DELTA if model.delta is None else model.delta
    assert model.epsilon is not None
    synthesizer = Synthesizer(epsilon=model.epsilon, delta=delta)
    records, schema = _read_wide(source)
    planned = Terms(rho=zcdp_rho(model.epsilon, delta_of(delta, len(records.values))), adjacency=ADJACENCY)
    ledger.require_room(wanted.out, inputs_of(source), planned)
    release = synthesizer.fit(records, schema=schema).sample(datasets=wanted.datasets, rows=wanted.rows)
    record = ledger.recording(records, wanted.out, guarantee=terms_of(release))
    save_release(release, wanted.out, format=wanted.format, force=wanted.force, finished=record)
    _show_values(wanted.in_words(release.rows[0]), release.columns, release.values[0])
    _show_guarantee(release)
    show_recorded(None if ledger.options.no_ledger else ledger.path, wanted.out)
    next_after_release(context, source.table, wanted.out, drop=None)
    assert release.convergence is not None
    settled = "" if release.convergence.reached else f"The draws have {release.convergence.words}."
    show_notes([*records.notes, settled])


def _require_nothing_else(source: TableOptions, model: ModelOptions, kind: ReleaseKind) -> None:
    """Refuse what does not go with a guarantee."""
    asked = [name for name in ("prior", "like", "keep", "cells", "cell_weight", "missing") if getattr(model, name)]
    asked += [name for name in ("complete_cases", "drop_unusable") if getattr(source, name)]
    if asked:
        cure = "leave it out; what depends on the table must be done before, by rules that are fixed beforehand"
        raise InputError(f"--epsilon and {flag_of(asked[0])} do not go together", cure)
    if kind is not ReleaseKind.datasets:
        raise InputError(
            "with --epsilon datasets are released, beside the noisy moments themselves", "leave --release out"
        )


def _read_wide(source: TableOptions) -> tuple[Records, Schema]:
    """Read a table whose values may pass the limits, which must be declared."""
    content = read_content(source)
    schema = declared(source, content.column_names)
    if source.table_file is None:
        raise InputError(
            "a guarantee needs public limits of every column", Cure("declare low and high", "table_file")
        )
    with ways_out(("missing", "complete_cases"), "prepare the table before, by rules that are fixed beforehand"):
        records = Records.of(
            content,
            columns=source.chosen,
            drop=source.dropped,
            schema=without_limits(schema),
            rows_are_people=source.rows_are_people,
        )
    schema = schema.for_columns(records.order)
    model_limits(schema)
    return records, schema


def _show_guarantee(release: Release) -> None:
    """Say what is guaranteed, and what that rests on."""
    told = release.noisy
    assert told is not None
    console.print(f"[bold]Guaranteed: {told.in_words}[/bold]")
    unit = "spreads" if told.ball.spread == 1.0 else "half widths of the limits"
    console.print(
        "It rests on this: the limits, centres and spreads in the table file and the number of people are "
        "public and were fixed before anyone looked at the table; nothing else of the table is released, or it is "
        f"counted with this (ρ = {told.rho:.3g}). Records beyond the limits, or farther than "
        f"{told.ball.radius:.3g} {unit} from the centre, were brought in first. More datasets from these noisy "
        "moments cost nothing; running this command again costs ε again."
    )
    if told.ball.spread != 1.0:
        show_notes(
            ["With a public centre and spread for every column in the table file there would be less noise."]
        )
