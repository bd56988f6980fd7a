"""The commands that make a release: synthesize, from a table, and demo, from a simulated one."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from allbutone.cli import options as ask
from allbutone.cli import output as terminal
from allbutone.cli.reading import TableLedger, declared, open_ledger, read, read_content
from allbutone.disclosure.guarantee import terms_of
from allbutone.model.location import SEPARATE
from allbutone.model.niw import NIW
from allbutone.model.sites import SiteMoments
from allbutone.model.sites import pool as pooled_moments
from allbutone.releases import sampling
from allbutone.releases.folder import is_release, require_place, save_release, synthesize_to_folder
from allbutone.releases.gaussian_account import DELTA, delta_of, gaussian_mu
from allbutone.releases.ledger import Ledger
from allbutone.releases.ledger_file import DRAWN, Terms
from allbutone.releases.mechanism import REFUSE, Mechanism
from allbutone.releases.private_release import ADJACENCY, read_private, refuse_seed
from allbutone.releases.release import MOST_DATASETS, Release
from allbutone.releases.synthesizer import Synthesizer, require_possible_guarantee
from allbutone.support.devices import HERE, device_of, require_processor
from allbutone.support.errors import Caution, Cure, InputError, count_of
from allbutone.support.text import bell_curves, counted, joined, listed, percent
from allbutone.tables.column import level_name
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.files import TableWriter
from allbutone.tables.records import COLUMNS, OUTLIER, PEOPLE, Records, demo_cohort
from allbutone.tables.safe_io import fresh_folder, require_distinct
from allbutone.tables.schema import Schema
from allbutone.utility.natural_scale import Oddity, ValueCounter, odd_values

EVERYBODY, OTHERS = "cohort.csv", "others.csv"  # of the demo: all, and without the one who is far outside
DEMO_DATASETS = 2  # what the budget of the others allows
Recording = Callable[[Path], object]  # sees the files of a release when they all lie aside


class FileFormat(StrEnum):
    """Of the synthetic tables."""

    csv = "csv"
    parquet = "parquet"


@dataclass(frozen=True)
class Drawing:
    """What is to be drawn, and where it goes."""

    out: Path
    datasets: int
    rows: int | None
    kind: ask.ReleaseKind
    format: str
    repeat_key: str | None
    force: bool
    device: str = HERE

    def in_words(self, rows: int, schema: Schema) -> str:
        """Say what was drawn, and where it is."""
        if self.kind is ask.ReleaseKind.parameters:
            return f"{counted(self.datasets, 'parameter draw')} in {self.out}"
        return f"{counted(self.datasets, 'dataset')} of {schema.counted(rows)} in {self.out}"

    def written(self, record: Recording) -> dict[str, Any]:
        """Return how it is written and recorded."""
        return {"format": self.format, "force": self.force, "finished": record}


@ask.command
def synthesize(
    *,
    context: typer.Context,
    source: ask.TableAnywhere,
    model: ask.ModelOptions,
    book: Annotated[ask.LedgerOptions, ask.Offers("ledger", "no_ledger")],
    out: Path = ask.option("The folder to create for the release.", ask.REQUIRED),
    more: list[Path] | None = ask.argument("The other sites' files, with --moments."),
    moments: bool = ask.option("TABLE and what follows are files of moments, one of each site, or pooled.", False),
    datasets: int = ask.option(
        f"How many datasets (or parameter draws) to release, at most {MOST_DATASETS:,}.", 1
    ),
    rows: ask.Rows = None,
    release: ask.Kind = ask.ReleaseKind.datasets,
    format: FileFormat = ask.option("The format of the datasets.", FileFormat.csv),
    new_repeat_key: bool = ask.option(
        "Make a key of 128 bits that repeats this release, and show it once: a secret.", False
    ),
    repeat_key: str | None = ask.option(
        "The key that --new-repeat-key showed: draws the same release of the same table again."
    ),
    seed: str | None = ask.option("Refused: a seed can be found by trying.", hidden=True),
    force: ask.Force = False,
    device: ask.Device = HERE,
) -> None:
    """Fit the model to a table and write a release: synthetic datasets, draws of the parameters, or both."""
    count_of("datasets", datasets, MOST_DATASETS)
    if model.epsilon is None and model.delta is not None:
        raise InputError("--delta goes with a guarantee", Cure("say how strong it is to be", "epsilon", 1.0))
    if model.epsilon is not None and (seed is not None or repeat_key is not None or new_repeat_key):
        refuse_seed()
    key = _key(new_repeat_key, repeat_key, seed)
    ask.require_rows_of_datasets(rows, release)
    require_distinct([out], [*source.files, *(more or ()), model.prior])
    require_place(out, force=force)
    drawing = Drawing(out, datasets, rows, release, format, key, force, device)
    device_of(device)
    if model.epsilon is not None:
        _release_private(context, source, model, TableLedger(book, source.table), drawing, moments)
        return
    if more and not moments:
        raise InputError(f"{more[0]} is one table too many", "give one, or several files of --moments")
    ledger = open_ledger(source, book, moments=moments)
    if moments:
        sites = pooled_moments([SiteMoments.load(path) for path in (Path(source.table), *(more or ()))])
        notes = [*sites.notes, *_release(sites, {"prior": model.prior}, model.prior, drawing, lambda work: None)]
    else:
        table = read(source, model, ledger.content, categories=True, may_impute=True)
        ledger.require_room(out, [*source.files, model.prior])
        record = ledger.recording(table.records, out, table_file=source.table_file)
        notes = [*table.records.notes, *_release(table.records, table.mechanism, model.prior, drawing, record)]
    if release is ask.ReleaseKind.both:
        terminal.say(
            "With its parameters each dataset tells no more of the records than the parameters alone: `risk` "
            "attacks those, and the datasets are there to be used."
        )
    ledger.show_recorded(out)
    if new_repeat_key:
        terminal.say(
            f"Repeat key: {key}\nIt is shown this once and stored nowhere. Keep it as you keep the table, or not "
            "at all: whoever has it, the release and the other records has the missing one."
        )
    if moments:
        terminal.say("Each site can judge it for its own records: allbutone risk TABLE RELEASE --pooled FILE.")
    else:
        known = {"prior": None} if table.is_mixed else {}  # the release has it
        before = None if model.like is None or ledger.voids(model.like) else model.like
        _show_next(context, source.table, out, before, **known)
    terminal.show_notes(notes)


@ask.command
def demo(
    *,
    context: typer.Context,
    out: Path = ask.option("The folder to create.", Path("demo")),
    force: ask.Force = False,
) -> None:
    """Synthesize a simulated cohort of 503 people with five polygenic scores: a safe place to start."""
    cohort = demo_cohort()
    others = replace(cohort.take(np.delete(np.arange(PEOPLE), OUTLIER - 1)), rows=np.arange(1, PEOPLE))
    synthesizer = Synthesizer().fit(others)
    release = synthesizer.sample(datasets=DEMO_DATASETS)
    with fresh_folder(out, ours=_is_demo, force=force) as work:
        for name, records in ((EVERYBODY, cohort), (OTHERS, others)):
            with TableWriter(work / name, COLUMNS) as writer:
                writer.write(records.values)
        save_release(release, work / "release")
        Ledger.of(work / OTHERS).record(others, work / "release", how=DRAWN)
    table = out / OTHERS
    terminal.say(
        f"Simulated {PEOPLE} people with five polygenic scores; the person in row {OUTLIER} is far outside.\n"
        f"{out / EVERYBODY} stands in for a confidential table. Its budget, which is asked first, says who sets "
        f"the limit of what may be released: row {OUTLIER}.\n"
        f"{table} is the same without that row. Of this {DEMO_DATASETS} datasets were drawn, once.\n"
    )
    _show_dataset(f"{DEMO_DATASETS} datasets of {PEOPLE - 1} rows in {out / 'release'}", release.tables[0])
    terminal.say(_assumed(synthesizer.mechanism, None))
    TableLedger(ask.LedgerOptions(), table).show_recorded(out / "release")
    _show_next(context, table, out / "release")


def _is_demo(folder: Path) -> bool:
    parts = {path.name for path in folder.iterdir()}
    ours = {EVERYBODY, OTHERS, "release"}
    return ours <= parts <= {*ours, Ledger.place_of(OTHERS).name} and is_release(folder / "release")


def _show_next(
    context: typer.Context, table: Path | ask.Address, release: Path, before: Path | None = None, **options: Any
) -> None:
    """Propose the risk of a release, with that of the release that it was made like: it is out already."""
    releases, with_it = ([release], "") if before is None else ([before, release], f" together with {before}")
    words = f"see what it gives away of each record{with_it}, before anyone else does:"
    terminal.propose(context, words, "risk", table, *releases, out="risk.csv", **options)


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


def fit(
    records: Records | LazyRecords | SiteMoments, prior: NIW | Path | None, **how: Any
) -> tuple[Synthesizer, str]:
    """Return the fitted synthesizer and what there is to note about its prior."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", Caution)
        synthesizer = Synthesizer(prior, **how).fit(records)
    return synthesizer, "\n".join(str(warning.message) for warning in caught)


def describe_prior(given: Path | None, prior: NIW | None) -> str:
    """Return in words which prior is in use; None: that of classes."""
    if prior is None:
        return "the prior of classes (it has no units and says nothing of the data)"
    if prior.is_flat:
        return "the flat prior (it has no units and says nothing of the data)"
    return f"the prior of {given}" if given else "the prior of the table file, or of the release to be like"


def crowded_cells(mechanism: Mechanism, people: int) -> str:
    """Say before drawing that there are as many cells as people, where there are: they copy rare combinations."""
    drawn = set(mechanism.categories) - {*mechanism.keep}
    if mechanism.has_classes or not drawn or (cells := mechanism.prior.cells.count) < people:
        return ""
    return (
        f"Before it is drawn: the categories make {cells:,} cells for {people:,} people. With as many cells as "
        "people rare combinations come out as they are in the table, and who knows the rest of a person can read "
        "off the value that lacks. A table like that is better drawn with classes "
        "(--model classes), or with fewer categories or levels (--drop)."
    )


def _release(
    records: Records | LazyRecords | SiteMoments,
    how: dict[str, Any],
    given: Path | None,
    drawing: Drawing,
    record: Recording,
) -> list[str]:
    """Draw, write and record a release, say so, and return what there is to note; given: the file of the prior."""
    synthesizer, note = fit(records, **how)
    if not synthesizer.mechanism.has_classes:
        require_processor(drawing.device, "what is drawn without classes")
    if isinstance(records, Records | LazyRecords):
        people = len(records.values) if isinstance(records, Records) else len(records)
        if words := crowded_cells(synthesizer.mechanism, people):
            terminal.say(f"{words}\n")
    odd: Sequence[Oddity] = ()
    if synthesizer.mechanism.is_normal and drawing.kind is ask.ReleaseKind.datasets:
        counter = ValueCounter(records.schema)
        first = _stream(synthesizer, drawing, record, counter)
        rows = synthesizer.sizes(1, drawing.rows)[0]
        _show_dataset(drawing.in_words(rows, synthesizer.mechanism.schema), synthesizer.mechanism.table(first))
        odd = counter.oddities(records) if isinstance(records, Records) else ()
    else:
        release = _draw(synthesizer, drawing, record)
        if release.tables:
            _show_dataset(drawing.in_words(release.rows[0], release.schema), release.tables[0])
            odd = odd_values(records, release) if isinstance(records, Records) else ()
        else:
            _show_parameters(drawing.in_words(0, release.schema), release)
    terminal.say(_assumed(synthesizer.mechanism, given))
    if synthesizer.gaps_in_words:
        terminal.say(synthesizer.gaps_in_words)
    curable = {"log", "decimals", "positive"}
    return [*(f"{each.words}; {terminal.in_flags(each.cure, curable)}." for each in odd), note]


def _draw(synthesizer: Synthesizer, drawing: Drawing, record: Recording) -> Release:
    """Draw a release and write it."""
    count, key = drawing.datasets, drawing.repeat_key
    with terminal.late_progress("Drawing", None):
        if drawing.kind is ask.ReleaseKind.parameters:
            release = synthesizer.sample_parameters(count, repeat_key=key)
        else:
            both = drawing.kind is ask.ReleaseKind.both
            how: dict[str, Any] = {"repeat_key": key, "device": drawing.device}
            release = synthesizer.sample(datasets=count, rows=drawing.rows, parameters=both, **how)
        save_release(release, drawing.out, **drawing.written(record))
    return release


def _stream(synthesizer: Synthesizer, drawing: Drawing, record: Recording, counter: ValueCounter) -> np.ndarray:
    """Draw and write datasets of measurements block by block, none held whole; return the first block."""
    seen: list[np.ndarray] = []
    sizes = synthesizer.sizes(drawing.datasets, drawing.rows)
    rng = synthesizer.generator("datasets", sizes, drawing.repeat_key)
    with terminal.late_progress("Writing rows", sum(sizes)) as advance:

        def watch(drawn: np.ndarray, block: np.ndarray) -> None:
            advance(len(block))
            counter.add(drawn, block)
            if not seen:
                seen.append(block)

        how = {"mechanism": synthesizer.mechanism, "watch": watch, **drawing.written(record)}
        synthesize_to_folder(synthesizer.posterior, sizes, rng, drawing.out, **how)
    return seen[0]


def _show_dataset(what: str, first: Records) -> None:
    """Show the shape of the first synthetic table, or of its first rows: synthetic values only."""
    schema = first.schema
    values = dict(zip(first.columns, first.natural.T, strict=True)) | schema.derive(first.natural, synthetic=True)
    values |= {
        name: np.where(codes < 0, np.nan, codes)
        for name, codes in zip(first.categories.columns, first.categories.codes.T, strict=True)
    }
    lines = []
    for column in schema.released_columns:
        there = values[column.name][~np.isnan(values[column.name])]
        if column.has_levels:
            shares = np.bincount(there.astype(int), minlength=len(column.levels)) / max(len(there), 1)
            lines.append((schema.told_as(column.name), "", "", _shares(column.levels, shares)))
        elif len(there):
            shown = terminal.sparkline(there)
            mean, spread = f"{there.mean():.4g}", f"{there.std():.4g}"
            if column.calendar is not None:
                mean, spread = column.calendar.text(there.mean()), column.calendar.span(there.std())
            lines.append((schema.told_as(column.name), mean, spread, shown))
    shape = "from lowest to highest" + ", or levels" * any(each.has_levels for each in schema.released_columns)
    headings = ("column", "mean", "SD", shape)
    terminal.show(f"{what}: the first synthetic dataset", headings, lines, words=("column", shape))
    if (visits := schema.visits) is not None:
        terminal.say(
            f"Written as it came, a row for each visit of a person: {listed(schema.file_columns)}. People are "
            f"numbered anew ({visits.person} 1, 2, 3, …)."
        )
        for line in visits.courses:
            at = listed([level_name(time) for time in line.through])
            terminal.say(
                f"{line.column} is modelled at {visits.visit} {at}; at the other visits it lies on straight lines "
                f"between these, and {line.deviation:g} (standard deviation) beside them."
            )
    lines_of = {line.column for line in visits.courses} if visits else set()
    computed = [column for column in schema.derived if schema.of_file(column.name) not in lines_of]
    if derived := [f"{column.name} ({column.in_words})" for column in computed]:
        words = f"Computed again in every row, and no part of the model: {listed(derived)}."
        terminal.say(schema.plainly(words.replace("`", "") if schema.visits else words))


def _show_parameters(what: str, release: Release) -> None:
    """Show the first draw of the parameters: means and deviations, or the shares of the levels."""
    mechanism, parameters = release.mechanism, release.parameters
    assert parameters is not None
    if mechanism.is_normal:
        means, covariances = np.asarray(release.normal.means)[0], np.asarray(release.normal.covariances)[0]
        rows = [
            (name, f"{mean:.4g}", f"{variance**0.5:.4g}")
            for name, mean, variance in zip(release.columns, means, np.diagonal(covariances), strict=True)
        ]
        terminal.show(f"{what}: the first draw", ("column", "mean", "SD"), rows, words=("column",))
    elif mechanism.categories:
        codes, shares = mechanism.prior.cells.codes.T, parameters.shares[0]
        lines = [
            (name, _shares(levels, np.bincount(own, shares)))
            for name, levels, own in zip(mechanism.categories, mechanism.levels, codes, strict=True)
        ]
        headings = ("column", "levels")
        terminal.show(f"{what}: the first draw, beside coefficients and covariances", headings, lines, headings)
    else:
        terminal.say(f"{what}: coefficients and covariances.")


def _shares(levels: tuple[str, ...], shares: np.ndarray) -> str:
    """Return levels, each with its share; of very many, the first."""
    return listed([f"{level} {percent(share)}" for level, share in zip(levels, shares, strict=True)], 8)


def _assumed(mechanism: Mechanism, given: Path | None) -> str:
    """Say what the model takes for granted, and what is public from now on."""
    if mechanism.has_classes:
        return _assumed_of_classes(mechanism)
    p, sizes, prior = len(mechanism.measurements), mechanism.sizes, mechanism.require_prior()
    drawn = mechanism.schema.for_columns(mechanism.measurements)
    what = bell_curves(p, "column" if mechanism.is_normal else "measurement") + drawn.scales_in_words
    worth, parts = describe_prior(given, prior), []
    if weight := prior.mean_weight:
        worth += f", worth {weight:g} record{'' if weight == 1 else 's'} for the mean"
    if sizes:
        cells = mechanism.prior.cells.count
        named = [
            f"{name} ({counted(size, 'level')})" for name, size in zip(mechanism.categories, sizes, strict=True)
        ]
        parts.append(f"{joined(named)} {'make' if len(sizes) > 1 else 'makes'} {counted(cells, 'cell')}")
        what = f"in each cell {what}"
        if mechanism.cells == SEPARATE:
            what += ", with means and spreads of its own"
        else:
            what += ", with means that every level moves (main effects) and the same spread in all"
        records = f"{mechanism.cell_weight * cells:.2g} records"
        records = {"1 records": "one record", "0.5 records": "half a record"}.get(records, records)
        worth += f", and {records} for the shares of all cells"
    if mechanism.covariates:
        what += f"; they depend on {joined(mechanism.covariates)} in straight lines"
    parts += [what, worth, "each dataset from parameters of its own, drawn at random"]
    return mechanism.schema.plainly(f"Assumed: {'; '.join(parts)}.\n{_public(mechanism)}")


def _public(mechanism: Mechanism) -> str:
    """Say what is public from now on."""
    kept = ""
    if mechanism.keep:
        kept = (
            f"Kept as they are, a row for each person: {', '.join(mechanism.keep)}. Whoever has the release has "
            "these of everyone: keep only what is public anyway.\n"
        )
    names = "the names of all columns" + (" and levels" if mechanism.sizes else "")
    names += ", which visits there are" if mechanism.schema.visits is not None else ""
    return f"{kept}Public with the release: {names}, the model and its prior."


def _assumed_of_classes(mechanism: Mechanism) -> str:
    """Say what classes take for granted, and what is public from now on."""
    p, q = len(mechanism.modelled), len(mechanism.categories)
    inside = [bell_curves(p, "measurement") + mechanism.schema.scales_in_words] if p else []
    inside += ["categories independent of all else"] if q else []
    return (
        f"Assumed: each person is of one of at most {_classes(mechanism.classes)}, which nobody has observed; "
        f"within a class {' and '.join(inside)}; a prior that has no units and says nothing of the data; each "
        f"dataset from classes and parameters of its own, drawn at random.\n{_public(mechanism)}"
    )


def _classes(count: int) -> str:
    return f"{count} class" + "es" * (count != 1)


def _release_private(
    context: typer.Context,
    source: ask.TableOptions,
    model: ask.ModelOptions,
    ledger: TableLedger,
    drawing: Drawing,
    moments: bool,
) -> None:
    """Spend ε on the table, write the release, and say what is guaranteed and what it rests on."""
    if moments or source.stays_in_engine:
        raise InputError(
            "a guarantee takes the records themselves, and these stay where they are", "give one file that is read"
        )
    _require_nothing_else(source, model, drawing.kind)
    delta = DELTA if model.delta is None else model.delta
    assert model.epsilon is not None
    missing = REFUSE if model.missing is None else model.missing.value
    synthesizer = Synthesizer(epsilon=model.epsilon, delta=delta, missing=missing)
    records, schema = _read_wide(source, missing)
    mu = gaussian_mu(model.epsilon, delta_of(delta, len(records.values)))
    ledger.require_room(drawing.out, source.files, Terms(rho=mu**2 / 2, adjacency=ADJACENCY))
    release = synthesizer.fit(records, schema=schema).sample(datasets=drawing.datasets, rows=drawing.rows)
    record = ledger.recording(records, drawing.out, guarantee=terms_of(release))
    save_release(release, drawing.out, **drawing.written(record))
    _show_dataset(drawing.in_words(release.rows[0], release.schema), release.tables[0])
    _show_guarantee(release)
    ledger.show_recorded(drawing.out)
    _show_next(context, source.table, drawing.out, drop=None)
    assert release.convergence is not None
    settled = "" if release.convergence.reached else f"The draws have {release.convergence.words}."
    terminal.show_notes([*records.notes, settled])


def _require_nothing_else(source: ask.TableOptions, model: ask.ModelOptions, kind: ask.ReleaseKind) -> None:
    """Refuse what does not go with a guarantee."""
    require_possible_guarantee(model.prior, model.model, int(model.has_classes), model.keep or ())
    asked = [
        name
        for name in ("prior", "model", "classes", "like", "keep", "cells", "cell_weight")
        if getattr(model, name)
    ]
    asked += [name for name in ("complete_cases", "drop_unusable") if getattr(source, name)]
    if asked:
        cure = "leave it out; what depends on the table must be done before, by rules that are fixed beforehand"
        raise InputError(f"--epsilon and {ask.flag_of(asked[0])} do not go together", cure)
    if kind is not ask.ReleaseKind.datasets:
        raise InputError(
            "with --epsilon datasets are released, beside the noisy moments themselves", "leave --release out"
        )


def _read_wide(source: ask.TableOptions, missing: str) -> tuple[Records, Schema]:
    """Read a table whose values may pass the limits, which must be declared."""
    content = read_content(source)
    schema = declared(source, content.column_names)
    if source.table_file is None:
        raise InputError(
            "a guarantee needs public limits of every column", Cure("declare low and high", "table_file")
        )
    return read_private(
        content,
        schema,
        missing,
        columns=source.chosen,
        drop=source.dropped,
        rows_are_people=source.rows_are_people,
    )


def _show_guarantee(release: Release) -> None:
    """Say what is guaranteed, and what that rests on."""
    noisy = release.noisy
    assert noisy is not None
    terminal.say(f"Guaranteed: {noisy.in_words}", "bold")
    ball = noisy.ball
    unit = "spreads" if ball.spread == 1.0 else "half widths of the limits"
    declared = ["limits, centres, spreads"] * bool(ball.p) + ["levels"] * bool(ball.schema.categories)
    far = f"farther than {ball.radius:.3g} {unit} from the centre"
    cut = f"Records beyond the limits, or {far}, were brought in first. "
    terminal.say(
        f"It rests on this: the {' and '.join(declared)} in the table file "
        "and the number of people are public and were fixed before anyone looked at the table; nothing else of "
        f"the table is released, or it is counted with this (ρ = {noisy.rho:.3g}). {cut * bool(ball.p)}"
        "More datasets from the same noise cost nothing; running this command again costs ε again."
    )
    if ball.p and ball.spread != 1.0:
        terminal.show_notes(
            ["With a public centre and spread for every column in the table file there would be less noise."]
        )
