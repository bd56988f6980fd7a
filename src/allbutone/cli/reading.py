"""How a table is read: what the options about it come to, whether it is a file or stays where it is."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import narwhals as nw
import pyarrow as pa

from allbutone.cli.options import Address, ModelOptions, TableOptions, flag_of
from allbutone.model.niw import NIW
from allbutone.model.prior import read_prior
from allbutone.releases.folder import is_release, load_release
from allbutone.releases.ledger import Ledger
from allbutone.releases.mechanism import REFUSE
from allbutone.releases.private_mechanism import without_limits
from allbutone.releases.release import Release, reading_of
from allbutone.releases.several import Released
from allbutone.support.errors import Cure, InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.queries import names_in
from allbutone.tables.engines.sources import Source, require_no_password
from allbutone.tables.files import LIMITS, read_table
from allbutone.tables.names import NO_HEADER, choose, reads_as_data, split_names
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema

# what says how a table is read, and how it is modelled: a release made before decides all of it
HOW_READ = ("table_file", "log", "positive", "decimals", "drop", "drop_unusable")
HOW_MODELLED = ("prior", "keep", "cells", "cell_weight", "missing")


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
    def prior(self) -> NIW | Path | None:
        """The prior file that was given, or the prior of the release to be like."""
        return self.model.prior if self.like is None else self.like.prior

    @property
    def is_mixed(self) -> bool:
        """Whether it takes more than the normal model: categories, columns to keep, or gaps."""
        if self.like is not None:
            return not self.like.mechanism.is_normal
        return bool(self.records.categories.columns or self.model.keep or self.has_gaps)

    @property
    def has_gaps(self) -> bool:
        """Whether values are missing that the model must see to; an engine gives complete rows alone."""
        return isinstance(self.records, Records) and self.records.has_gaps

    @property
    def keeps(self) -> bool:
        """Whether columns go out as they are: then there is a row for each person."""
        return bool(self.model.keep or (self.like is not None and self.like.mechanism.keep))

    @property
    def mechanism(self) -> dict[str, Any]:
        """What a `Synthesizer` is asked by the options, or by the release to be like."""
        if self.like is not None and not self.like.mechanism.is_normal:
            old = self.like.mechanism
            names = ("cells", "cell_weight", "keep", "missing")
            return {"prior": old.normal, **{name: getattr(old, name) for name in names}}
        keep = list(dict.fromkeys(split_names(self.model.keep or (), set(self.records.order))))
        told = {"keep": keep, "cell_weight": self.model.cell_weight, "missing": self.model.missing or REFUSE}
        if self.model.cells is not None:
            told["cells"] = self.model.cells.replace("-", " ")
        return {"prior": self.prior, **told}


def read(
    source: TableOptions,
    model: ModelOptions | None = None,
    ledger: Ledger | None = None,
    *,
    categories: bool = False,
    may_impute: bool = False,
) -> TableAsRead:
    """Read the table as the options of a command say, or as a release that it is to be like.

    ledger: whose last release says how, where nothing is asked. Categories are let in where the command can do
    with them; may_impute: whether it has a word for gaps.
    """
    model = model or ModelOptions()
    like = _release_like(source, model)
    if source_of(source) is not None:
        return _checked(source, TableAsRead(_lazy(source, like, categories), model, like))
    content = read_content(source)
    notes: tuple[str, ...] = ()
    if like is None and (before := _made_before(source, model, ledger, content.column_names)):
        like, notes = before
    columns, missing = source.chosen, model.missing or REFUSE
    if like is not None:
        columns = columns_of(like, content.column_names, source)
        categories, missing = not like.mechanism.is_normal, like.mechanism.missing
    with ways_out(without=() if may_impute else ("missing",)):
        records = Records.of(
            content,
            columns=columns,
            drop=source.dropped,
            schema=declared(source, content.column_names, like),
            # a release that has no word for gaps was made from the rows without any
            complete_cases=source.complete_cases or (like is not None and missing == REFUSE),
            drop_unusable=source.drop_unusable,
            rows_are_people=source.rows_are_people or like is not None,
            categories=categories,
            gaps=missing != REFUSE,
        )
    return _checked(source, TableAsRead(replace(records, notes=(*notes, *records.notes)), model, like))


def _checked(source: TableOptions, table: TableAsRead) -> TableAsRead:
    """Refuse options of the model that have nothing to be about in this table."""
    if table.like is not None:
        return table
    for name in ("cells", "cell_weight"):
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
    records = read(source).records
    assert isinstance(records, Records)
    return records


def records_like(source: TableOptions, release: Released) -> Records:
    """Read the release's columns of the table, or those asked for."""
    content = read_content(source)
    if (
        isinstance(release, Release) and release.noisy is not None
    ):  # values that pass the limits were brought in when it was made
        how: dict[str, Any] = {"columns": list(release.columns), "schema": without_limits(release.schema)}
        return Records.of(content, **how, rows_are_people=True)
    names, columns = content.column_names, source.chosen
    drop = named_columns(source.drop, names)
    if not columns and set(drop).isdisjoint(release.order):  # what is left out has no part in the release
        columns, drop = columns_of(release, names, source), []
    how = reading_of(release)
    how |= {"columns": columns, "drop": drop or None, "schema": declared(source, names, release)}
    # a release that has no word for gaps was made from the rows without any
    how["complete_cases"] = source.complete_cases or not how.get("gaps", False)
    return Records.of(content, **how)


def lazy_like(source: TableOptions, release: Released) -> LazyRecords:
    """Have the engine add up a table that stays where it is, in the release's columns."""
    frame, names = _opened(source)
    return LazyRecords.of(
        frame,
        columns=source.chosen or columns_of(release, names, source),
        schema=declared(source, names, release),
        complete_cases=source.complete_cases,
        rows_are_people=True,
        categories=not release.mechanism.is_normal,
    )


def _lazy(source: TableOptions, like: Release | None, categories: bool) -> LazyRecords:
    """Have the engine of a table that stays where it is check it as the options say, and add it up."""
    for name in ("no_header", "encoding", "sheet"):
        if getattr(source, name):
            raise InputError(f"{source.table} is not read line by line", f"leave {flag_of(name)} out")
    frame, names = _opened(source)
    columns = source.chosen
    if like is not None:
        columns, categories = columns_of(like, names, source), not like.mechanism.is_normal
    return LazyRecords.of(
        frame,
        columns=columns,
        drop=source.dropped,
        schema=declared(source, names, like),
        complete_cases=source.complete_cases,
        drop_unusable=source.drop_unusable,
        rows_are_people=source.rows_are_people,
        categories=categories,
    )


def require_columns(source: TableOptions, release: Released) -> None:
    """Refuse a table, wherever it lies, that lacks a column of the release."""
    if source_of(source) is None:
        records_like(source, release)
    else:
        columns_of(release, _opened(source)[1], source)


def _opened(source: TableOptions) -> tuple[Any, list[str]]:
    """Open a table that stays where it is; return it and the names of its columns."""
    place = source_of(source)
    assert place is not None
    frame = place.open()
    return frame, list(names_in(nw.from_native(frame)))


def source_of(source: TableOptions) -> Source | None:
    """Return where the table lies if it stays there; None if it is a file to be read."""
    table, engine = source.table, source.engine and str(source.engine)
    require_no_password(str(table))  # before anyone says that there is no such file
    inside = source.from_table or source.query
    if isinstance(table, Path) and engine is None and not inside and not _beyond_memory(table):
        return None
    return Source(str(table), engine, from_table=source.from_table, query=source.query)


def inputs_of(source: TableOptions) -> list[Path | None]:
    """Return the files that are read, so that none is written over."""
    place = source_of(source)
    if isinstance(source.table, Address) and "://" in source.table:
        return [source.table_file]
    return [*(place.files if place and place.files else [Path(source.table)]), source.table_file]


def _beyond_memory(path: Path) -> bool:
    """Say whether a file of a kind that engines read is larger than what is read into memory."""
    name = path.name.lower()
    if not path.is_file() or not name.endswith((".parquet", ".csv", ".csv.gz")):
        return False
    if not name.endswith(".parquet"):
        return os.path.getsize(path) > LIMITS.bytes / (10 if name.endswith(".gz") else 1)
    import pyarrow.parquet

    try:
        about = pyarrow.parquet.read_metadata(path)
    except (OSError, pyarrow.ArrowException):  # who reads it says what is wrong with it
        return False
    return about.num_rows * about.num_columns > LIMITS.values


def _release_like(source: TableOptions, model: ModelOptions) -> Release | None:
    """Return the release that --like names; what it decides cannot be asked for as well."""
    if model.like is not None and (asked := _asked(source, model)):
        raise InputError(f"--like and {flag_of(asked[0])} are both given", "leave one out: a release says it all")
    return model.release_like


def _asked(source: TableOptions, model: ModelOptions) -> list[str]:
    """Return which options were given about how the table is read and modelled."""
    told = [name for name in HOW_MODELLED if getattr(model, name)]
    told += [name for name in HOW_READ if getattr(source, name)]
    return told + ["columns"] * bool(source.chosen)


def _made_before(
    source: TableOptions, model: ModelOptions, ledger: Ledger | None, names: Sequence[str]
) -> tuple[Release, tuple[str]] | None:
    """Return the last release of the table by its ledger, and a sentence: the table is read as that was made."""
    if ledger is None or _asked(source, model):
        return None
    for entry in reversed(ledger.counted):
        folder = ledger.folder_of(entry)
        if entry.guarantee is None and is_release(folder) and set(entry.columns) <= set(names):
            return load_release(folder), (
                f"Read as release {entry.number} of the ledger was made: its columns, scales, limits, model and "
                "prior. --table-file, --columns, --drop or --prior would read it anew.",
            )
    return None


@contextmanager
def ways_out(without: Sequence[str], instead: str = "") -> Iterator[None]:
    """Leave out of an error the ways that are closed here, by their arguments; name another where there is one."""
    try:
        yield
    except InputError as error:
        kept = [cure for cure in error.cures if cure.argument not in without]
        closed = len(kept) < len(error.cures)
        error.cures = (*kept, *([Cure(instead)] if instead and closed else []))
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
    log, positive = named_columns(source.log, names), named_columns(source.positive, names)
    return schema.adjusted(log, positive, _decimals(source.decimals, names), _codes(source.missing_codes))


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
    of_release = release.order
    absent = [name for name in of_release if name not in names]
    if not absent:
        return list(of_release)
    cures: list[Cure | str] = ["give the table that it was made from"]
    if source.no_header:
        cures.append(Cure("name every column of the file, in order", "columns"))
    elif any(map(reads_as_data, names)):
        cures.append(NO_HEADER)
    file = source.table.name if source_of(source) is None else source.table
    listed = ", ".join(of_release)
    raise InputError(f"the release is of the columns {listed}, and {file} has no {', '.join(absent)}", *cures)
