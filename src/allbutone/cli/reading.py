"""How a table is read, whether it is a file or stays where it is, and the ledger of what was released of it."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from allbutone.cli.options import LedgerOptions, ModelOptions, TableOptions, flag_of
from allbutone.cli.output import from_here, say
from allbutone.disclosure.guarantee import require_within_limit, total_in_words
from allbutone.model.niw import NIW
from allbutone.model.prior import read_prior
from allbutone.releases.folder import is_release, load_release
from allbutone.releases.ledger import Ledger, Together
from allbutone.releases.ledger_file import DRAWN, Entry, Terms, digest_of_release
from allbutone.releases.mechanism import CLASSES, REFUSE
from allbutone.releases.public_ball import without_limits
from allbutone.releases.release import Release, reading_of
from allbutone.releases.several import Released
from allbutone.support.errors import Cure, InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.queries import names_in
from allbutone.tables.files import read_table
from allbutone.tables.names import NO_HEADER, choose, reads_as_data, split_names
from allbutone.tables.records import Records
from allbutone.tables.safe_io import require_distinct, require_outside
from allbutone.tables.schema import Schema
from allbutone.tables.visits import times_in

# what says how a table is read, and how it is modelled: a release made before decides all of it
HOW_READ = (
    "table_file", "person", "visit", "visits", "once", "log", "positive", "decimals", "drop", "drop_unusable"
)  # fmt: skip
HOW_MODELLED = ("prior", "model", "classes", "keep", "cells", "cell_weight", "missing")


@dataclass(frozen=True)
class TableAsRead:
    """The records of a table, and the release that they are read and modelled like, if there is one.

    like: that of --like, or the last one of the ledger where nothing was asked about the reading.
    """

    records: Records | LazyRecords
    model: ModelOptions
    like: Release | None = None

    @property
    def people(self) -> int:
        """How many records there are."""
        return len(self.records.values if isinstance(self.records, Records) else self.records)

    @property
    def is_mixed(self) -> bool:
        """Whether it takes more than the normal model: categories, columns to keep, or gaps."""
        if self.like is not None:
            return not self.like.mechanism.is_normal
        gaps = isinstance(self.records, Records) and self.records.has_gaps  # an engine gives complete rows alone
        return self.model.has_classes or bool(self.records.categories.columns or self.model.keep or gaps)

    @property
    def keeps(self) -> bool:
        """Whether columns go out as they are: then there is a row for each person."""
        return bool(self.model.keep or (self.like is not None and self.like.mechanism.keep))

    @property
    def mechanism(self) -> dict[str, Any]:
        """What a `Synthesizer` is asked by the options, or by the release to be like."""
        if self.like is not None and not self.like.mechanism.is_normal:
            old = self.like.mechanism
            if old.has_classes:
                return {"prior": None, "model": CLASSES, "classes": old.classes, "missing": old.missing}
            names = ("cells", "cell_weight", "keep", "missing")
            return {"prior": old.normal, **{name: getattr(old, name) for name in names}}
        model = self.model
        keep = list(dict.fromkeys(split_names(model.keep or (), set(self.records.order))))
        asked = {"keep": keep, "cell_weight": model.cell_weight, "missing": model.missing or REFUSE}
        if model.has_classes:
            return {"prior": model.prior, "model": CLASSES, "classes": model.classes, **asked}
        if model.cells is not None:
            asked["cells"] = model.cells.replace("-", " ")
        return {"prior": model.prior if self.like is None else self.like.prior, **asked}


def read(
    source: TableOptions,
    model: ModelOptions | None = None,
    ledger: Ledger | None = None,
    *,
    categories: bool = False,
    may_impute: bool = False,
) -> TableAsRead:
    """Read the table, or have its engine add it up, as the options say or as a release that it is to be like.

    ledger: whose last release says how, where nothing is asked. Categories are let in where the command can do
    with them; may_impute: whether it has a word for gaps.
    """
    model = model or ModelOptions()
    asked = [name for name in HOW_MODELLED if getattr(model, name)]
    asked += [name for name in HOW_READ if getattr(source, name)]
    asked += ["columns"] * bool(source.chosen)
    if model.like is not None and asked:
        raise InputError(f"--like and {flag_of(asked[0])} are both given", "leave one out: a release says it all")
    like, notes = model.release_like, tuple[str, ...]()
    content, names = _opened(source)
    if like is None and ledger and not asked:
        like, notes = _made_before(ledger, names)
    schema = declared(source, names, like)
    names = with_visits(names, schema)
    columns, missing = source.chosen, model.missing or REFUSE
    if like is not None:
        columns = columns_of(like, names, source)
        categories, missing = not like.mechanism.is_normal, like.mechanism.missing
    how: dict[str, Any] = {
        "columns": columns,
        "drop": source.dropped,
        "schema": schema,
        "complete_cases": source.complete_cases,
        "drop_unusable": source.drop_unusable,
        "rows_are_people": source.rows_are_people or like is not None,
        "categories": categories,
    }
    if source.stays_in_engine:
        return _checked(source, TableAsRead(LazyRecords.of(content, **how), model, like))
    # a release that has no word for gaps was made from the rows without any
    how["complete_cases"] |= like is not None and missing == REFUSE
    with ways_out(without=() if may_impute else ("missing",)):
        many = model.has_classes if like is None else like.mechanism.has_classes
        records = Records.of(content, **how, gaps=missing != REFUSE, many_cells=many)
    return _checked(source, TableAsRead(replace(records, notes=(*notes, *records.notes)), model, like))


def _checked(source: TableOptions, table: TableAsRead) -> TableAsRead:
    """Refuse options of the model that have nothing to be about in this table."""
    if table.like is not None:
        return table
    for name in ("cells", "cell_weight"):
        if getattr(table.model, name) is not None and table.model.has_classes:
            raise InputError(f"{flag_of(name)} is about cells, and classes have none", "leave it out")
        if getattr(table.model, name) is not None and not table.records.categories.columns:
            raise InputError(
                f"{flag_of(name)} is about categories, and none of the columns used is one", "leave it out"
            )
    missing = table.model.missing or REFUSE
    if source.complete_cases and missing != REFUSE:
        raise InputError(
            f"--complete-cases leaves no gap, and --missing {missing} is about gaps", "give one of them"
        )
    return table


def read_records(source: TableOptions) -> Records:
    """Read a table of measurements into memory, as the options say."""
    return in_memory(read(source).records)


def in_memory(records: Records | LazyRecords) -> Records:
    """Return records that were read; a command that takes no other has no options for an engine."""
    assert isinstance(records, Records)
    return records


def records_like(source: TableOptions, release: Released) -> Records | LazyRecords:
    """Read, or have the engine add up, the release's columns of the table, or those asked for."""
    content, names = _opened(source)
    if isinstance(release, Release) and release.noisy is not None:
        # values that pass the limits were brought in when it was made
        how = reading_of(release) | {"schema": without_limits(release.schema), "one_by_one": True}
        return Records.of(content, **how)
    schema = declared(source, names, release)
    names = with_visits(names, schema)
    columns, drop = source.chosen, named_columns(source.drop, names)
    if not columns and set(drop).isdisjoint(release.released_order):  # what is left out has no part in the release
        columns, drop = columns_of(release, names, source), []
    how = reading_of(release)
    how |= {"columns": columns, "drop": drop or None, "schema": schema}
    gaps = how.pop("gaps", False)
    if source.stays_in_engine:
        return LazyRecords.of(content, **how, complete_cases=source.complete_cases)
    # a release that has no word for gaps was made from the rows without any
    return Records.of(content, **how, gaps=gaps, complete_cases=source.complete_cases or not gaps)


def require_columns(source: TableOptions, release: Released) -> None:
    """Refuse a table, wherever it lies, that lacks a column of the release."""
    if source.stays_in_engine:
        columns_of(release, with_visits(_opened(source)[1], release.schema), source)
    else:
        records_like(source, release)


def _opened(source: TableOptions) -> tuple[Any, list[str]]:
    """Read the table, or open it where it stays; return it and the names of its columns."""
    if source.place is None:
        content = read_content(source)
        return content, content.column_names
    for name in ("no_header", "encoding", "sheet"):
        if getattr(source, name):
            raise InputError(f"{source.table} is not read line by line", f"leave {flag_of(name)} out")
    frame = source.place.open()
    return frame, list(names_in(nw.from_native(frame)))


def _made_before(ledger: Ledger, names: Sequence[str]) -> tuple[Release | None, tuple[str, ...]]:
    """Return the last release of the table by its ledger, and a sentence: the table is read as that was made."""
    for entry in reversed(ledger.counted):
        folder = ledger.folder_of(entry)
        if entry.guarantee is not None or not is_release(folder):
            continue
        release = load_release(folder)
        if set(release.order) <= set(with_visits(names, release.schema)):
            return release, (
                f"Read as release {entry.number} of the ledger was made: its columns, scales, limits, model and "
                "prior. --table-file, --columns, --drop or --prior would read it anew.",
            )
    return None, ()


@contextmanager
def ways_out(without: Sequence[str]) -> Iterator[None]:
    """Leave out of an error the ways that are closed here, by their arguments."""
    try:
        yield
    except InputError as error:
        error.cures = tuple(cure for cure in error.cures if cure.argument not in without)
        raise


def read_content(source: TableOptions, path: Path | None = None) -> pa.Table:
    """Read the file itself, or another one in the same way; without a header, --columns names all its columns."""
    names = list(source.columns or ()) if source.no_header else []
    return read_table(
        path or source.table,
        header=not source.no_header,
        names=names or None,
        encoding=source.encoding,
        sheet=source.sheet,
    )


def prior_of(model: ModelOptions, records: Records | LazyRecords) -> NIW | None:
    """Read the prior file that was given, if one was, for the columns of these records."""
    return read_prior(model.prior, records.columns, records.schema) if model.prior else None


def mechanism_prior(model: ModelOptions, records: Records | LazyRecords, release: Released) -> NIW:
    """Return the prior that a release was made with, which it or a file must say."""
    prior = prior_of(model, records) or release.prior
    if prior is None:
        raise InputError("the release does not say which prior it was made with", Cure("give it", "prior"))
    return prior


def declared(source: TableOptions, names: list[str], like: Released | None = None) -> Schema:
    """Return what the table file, or a release, and the short options declare of the columns."""
    schema = Schema.of(source.table_file) if like is None else like.schema
    if like is None:
        once = named_columns(source.once, names)
        times = times_in(split_names(source.visits, set()) if source.visits else [])
        schema = schema.with_visits(source.person, source.visit, times, once)
    log, positive = named_columns(source.log, names), named_columns(source.positive, names)
    return schema.adjusted(log, positive, _decimals(source.decimals, names), _codes(source.missing_codes))


def with_visits(names: Sequence[str], schema: Schema) -> list[str]:
    """Return the names by which columns of a table can be called: of a long one, those at visits, too."""
    if schema.visits is None:
        return list(names)
    return list(dict.fromkeys([*names, *(each for name in names for each in schema.visits.names(name))]))


def named_columns(asked: Sequence[str] | None, names: Sequence[str]) -> list[str]:
    """Return the columns that an option names, one at a time or several between commas."""
    return [names[place] for place in choose(list(names), asked, None)] if asked else []


def _decimals(asked: Sequence[str] | None, names: list[str]) -> dict[str, int]:
    """Read --decimals: a number for all columns, or name=number."""
    decimals: dict[str, int] = {}
    for part in split_names(asked, set()) if asked else ():
        name, _, digits = part.rpartition("=")
        try:
            count = int(digits)
        except ValueError as error:
            cure = Cure("write a number for all, or one for each column", "decimals", "bili=1,age=0")
            raise InputError(f"--decimals cannot be {part!r:.60}", cure) from error
        decimals |= dict.fromkeys(named_columns([name], names) if name else names, count)
    return decimals


def _codes(asked: Sequence[str] | None) -> list[float]:
    try:
        return [float(part) for part in split_names(asked, set())] if asked else []
    except ValueError as error:
        cure = Cure("write numbers separated by commas", "missing_codes", "-999")
        raise InputError(f"--missing-codes cannot be {', '.join(asked or ())!r:.60}", cure) from error


def columns_of(release: Released, names: list[str], source: TableOptions) -> list[str]:
    """Return the release's columns, which the table must have."""
    of_release = release.released_order
    absent = [name for name in of_release if name not in names]
    if not absent:
        return list(of_release)
    cures: list[Cure | str] = ["give the table that it was made from"]
    if source.no_header:
        cures.append(Cure("name every column of the file, in order", "columns"))
    elif any(map(reads_as_data, names)):
        cures.append(NO_HEADER)
    file = source.table if source.stays_in_engine else source.table.name
    listed = ", ".join(of_release)
    raise InputError(f"the release is of the columns {listed}, and {file} has no {', '.join(absent)}", *cures)


@dataclass(frozen=True)
class TableLedger:
    """The ledger of a table: where it is, or would be, and what it says at the beginning of a command."""

    options: LedgerOptions
    table: Path | str

    @property
    def path(self) -> Path:
        """Where it lies: beside the table, unless another place is named."""
        return self.options.ledger or Ledger.place_of(self.table)

    @cached_property
    def content(self) -> Ledger:
        """What it says, read once; nothing where it is to be left aside."""
        return Ledger(path=self.path) if self.options.no_ledger else Ledger.at(self.path)

    def judged(
        self, records: Records, release: Released | None = None, folders: Sequence[Path] = (), mixed: bool = False
    ) -> Together:
        """Put what is asked about together with what was released before, unless it is to be judged alone."""
        if self.options.alone:
            return Together(records, release, attempts=self.content.attempts_before(folders) if release else ())
        if not self.content.is_there and self.options.ledger is not None:
            cure = "name the one that synthesize wrote, or leave --ledger out"
            raise InputError(f"there is no ledger {from_here(self.path)}", cure)
        return self.content.together(records, release, folders, mixed=mixed)

    def judge(self, folders: Sequence[Path], *, passed: bool) -> tuple[str, ...]:
        """Record that the verdict on these releases was read; return what is to be noted where that cannot be."""
        try:
            self.content.judge(folders, passed=passed)
        except InputError as error:
            return (f"That this was judged is not recorded: {error}",)
        return ()

    def entry_of(self, folder: Path) -> Entry | None:
        """Return the entry that counts of the release in this folder, if there is one."""
        if self.options.alone or not self.content.releases or not os.path.lexists(folder):
            return None
        return self.content.entry_of(folder) if is_release(folder) else None

    def voids(self, folder: Path) -> bool:
        """Say whether the release in this folder is recorded, and does not count."""
        if self.options.alone or not self.content.releases:
            return False
        files = digest_of_release(folder)
        same = [entry for entry in self.content.releases if entry.files == files]
        return bool(same) and not any(entry.counts for entry in same)

    def require_room(self, out: Path, others: Sequence[Path | None], planned: Terms | None = None) -> None:
        """Refuse, before anything is drawn, what could not be recorded or would pass a declared total."""
        if self.options.no_ledger:
            if self.options.ledger:
                raise InputError("--ledger and --no-ledger are both given", "leave one out")
            return
        require_outside(self.path, out)
        require_distinct([self.path], list(others))
        self.content.require_writable()
        # a release that may have been given out is needed to judge those that follow
        if entry := self.entry_of(out):
            raise InputError(
                f"{out} is release {entry.number} of the ledger, and without its files nobody can judge what "
                "follows",
                "choose another folder",
                f"void it first, if it was never given out (allbutone ledger void {self.table} {entry.number} "
                "--reason …)",
            )
        require_within_limit(self.content, planned)

    def recording(self, records: Any, out: Path, **more: Any) -> Callable[[Path], object]:
        """Return what records a release whose files all lie aside, just before they are put into `out`.

        In this order no release is ever there unrecorded; a crash in between leaves an entry without a folder.
        """
        if self.options.no_ledger:
            return lambda work: None
        # once more, while nobody else writes: two may have been drawn at a time
        check = partial(require_within_limit, planned=more.get("guarantee"))
        return lambda work: self.content.record(records, work, how=DRAWN, place=out, check=check, **more)

    def show_recorded(self, out: Path) -> None:
        """Say where a release is counted, with what, and what all guarantees come to; or that it is not."""
        if self.options.no_ledger:
            say("Recorded in no ledger: what is judged later will not count it, unless you name it.")
            return
        now = Ledger.at(self.path)
        entry, together = now.entry_of(out), len(now.counted)
        assert entry is not None
        judged = f"; risk, budget and report now judge {together} releases together" if together > 1 else ""
        say(
            f"Recorded as release {entry.number} in {from_here(self.path)}{judged}. Keep the ledger as you keep "
            "the table, and the release's folder as it is."
        )
        if entry.guarantee and (words := total_in_words(now)):
            say(words)


def open_ledger(source: TableOptions, options: LedgerOptions, *, moments: bool = False) -> TableLedger:
    """Return the ledger of a table; none has one that stays where it is, which would have to be read whole."""
    if not (source.stays_in_engine or moments):
        return TableLedger(options, source.table)
    if options.ledger is not None:
        raise InputError(
            "a table that stays where it is has no ledger, which would have to read all of it",
            "leave --ledger out, and name all releases of the table when you ask for its risk",
        )
    return TableLedger(LedgerOptions(alone=True, no_ledger=True), source.table)


def show_together(judged: Together | None) -> None:
    """Say what is judged together, what the ledger does not know, and which attempt this is."""
    if judged and judged.selection:
        say(f"{judged.selection}\n")
    if judged and judged.sentence:
        say(f"{judged.sentence} --alone leaves earlier releases out of account.\n")
