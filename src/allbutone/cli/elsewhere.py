"""Tables that stay where they are, on the command line: patterns of files, databases, and what reads them."""

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import narwhals as nw
import typer

from allbutone.cli.reading import any_release_like, chosen_columns, columns_of, declared, read_records
from allbutone.disclosure.standing_out import MOST, StandingOut, standing_out, standing_out_in_cells
from allbutone.model.niw import NIW
from allbutone.model.prior_file import read_prior
from allbutone.releases.joined import Released
from allbutone.releases.mixed.mechanism import require_nothing_kept
from allbutone.releases.mixed.release import Release
from allbutone.support.errors import Cure, InputError
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.engines.queries import names_in
from allbutone.tables.engines.sources import Source, is_source, require_no_password
from allbutone.tables.files import READABLE
from allbutone.tables.formats.limits import LIMITS
from allbutone.tables.records import Records


class Engine(StrEnum):
    """What reads files that are not read into memory."""

    duckdb = "duckdb"
    polars = "polars"
    dask = "dask"
    spark = "spark"


class Address(str):
    """The address of a table that is not one file: a pattern, or a database."""


def _address(text: str) -> Path | Address:
    return Address(text) if is_source(text) else Path(text)


AnyTable = Annotated[
    Any,
    typer.Argument(
        parser=_address,
        metavar="TABLE",
        help=f"The confidential table: a {READABLE} file, many files ('data/*.parquet'), or a database "
        "(postgresql://HOST/NAME or a .duckdb file, with --from or --query).",
    ),
]
OF_ENGINE: dict[str, tuple[Any, Any]] = {
    "engine": (
        Annotated[
            Engine | None,
            typer.Option(
                metavar="duckdb|polars|dask|spark",
                help="What reads files that stay where they are; DuckDB or polars by default, for many files and "
                "for those beyond memory.",
            ),
        ],
        None,
    ),
    "from_table": (
        Annotated[str | None, typer.Option("--from-table", "--from", help="The table of a database.")],
        None,
    ),
    "query": (Annotated[str | None, typer.Option(help="A query whose answer is the table, of a database.")], None),
}

KEY: dict[str, tuple[Any, Any]] = {
    "key": (
        Annotated[
            str | None,
            typer.Option(help="The column by which you know a record of a table that stays where it is."),
        ],
        None,
    ),
    "worst": (
        Annotated[
            int,
            typer.Option(
                min=1,
                max=100_000,
                help="How many of its records that stand out most are fetched and judged; with categories, also "
                "those of the smallest combinations, as many again at most.",
            ),
        ],
        MOST,
    ),
}


def source_of(context: typer.Context, table: Path | Address) -> Source | None:
    """Return where the table lies if it stays there; None if it is a file to be read."""
    given = context.params
    engine = given["engine"] and str(given["engine"])
    told = {"from_table": given["from_table"], "query": given["query"]}
    require_no_password(str(table))  # before anyone says that there is no such file
    if isinstance(table, Path) and engine is None and not any(told.values()) and not _beyond_memory(table):
        return None
    return Source(str(table), engine, **told)


def require_no_ledger(context: typer.Context) -> None:
    """Refuse a ledger: it knows its table by all values of it, and these stay where they are."""
    if context.params["ledger"] is not None:
        raise InputError(
            "a table that stays where it is has no ledger, which would have to read all of it",
            "leave --ledger out, and name all releases of the table when you ask for its risk",
        )


def require_here(context: typer.Context, table: Path | Address) -> None:
    """Refuse a table whose records are not read, where they must be: its noise is added to them one by one."""
    if context.params.get("moments") or source_of(context, table) is not None:
        raise InputError(
            "a guarantee takes the records themselves, and these stay where they are", "give one file that is read"
        )


def inputs_of(context: typer.Context, table: Path | Address) -> list[Path | None]:
    """Return the files that are read, so that none is written over."""
    source = source_of(context, table)
    files = [Path(table)] if source is None or not source.files else source.files
    return [*(() if isinstance(table, Address) and "://" in table else files)]


def read_any(context: typer.Context, table: Path | Address, *, mixed: bool = False) -> Records | LazyRecords:
    """Read the table as the options say, or, where it stays, have its engine add it up."""
    if isinstance(table, Path) and source_of(context, table) is None:
        return read_records(context, table, mixed=mixed)
    return lazy_of(context, table, mixed=mixed)


def lazy_of(context: typer.Context, table: Path | Address, *, mixed: bool = False) -> LazyRecords:
    """Have the engine of a table that stays where it is check it as the options say, and add it up."""
    source, given, like = source_of(context, table), context.params, any_release_like(context)
    assert source is not None
    for name in ("no_header", "encoding", "sheet"):
        if given[name]:
            raise InputError(f"{source} is not read line by line", f"leave --{name.replace('_', '-')} out")
    frame = source.open()
    names = list(names_in(nw.from_native(frame)))
    columns = chosen_columns(given)
    if like is not None:
        columns, mixed = columns_of(like, names, str(source), False), isinstance(like, Release)
    return LazyRecords.of(
        frame,
        columns=columns,
        drop=list(given["drop"] or ()) or None,
        schema=declared(given, names, like),
        complete_cases=given["complete_cases"],
        drop_unusable=given["drop_unusable"],
        rows_are_people=given["rows_are_people"],
        categories=mixed,
    )


def worst_of(context: typer.Context, table: Path | Address, release: Released | Release) -> StandingOut | None:
    """Fetch the records that stand out most of a table that stays where it is; None if it is a file to be read."""
    if source_of(context, table) is None:
        return None
    most, key = context.params["worst"], context.params["key"]
    if isinstance(release, Release):
        require_nothing_kept(release.mechanism)
        return standing_out_in_cells(
            lazy_like(context, table, release), release.mechanism.prior, most=most, key=key
        )
    return standing_out(*lazy_and_prior(context, table, release), most=most, key=key)


def lazy_like(context: typer.Context, table: Path | Address, release: Released | Release) -> LazyRecords:
    """Have the engine add up a table that stays where it is, in the release's columns."""
    source, given = source_of(context, table), context.params
    assert source is not None
    require_no_ledger(context)
    frame = source.open()
    names = list(names_in(nw.from_native(frame)))
    return LazyRecords.of(
        frame,
        columns=chosen_columns(given) or columns_of(release, names, str(source), False),
        schema=declared(given, names, release),
        complete_cases=given["complete_cases"],
        rows_are_people=True,
        categories=isinstance(release, Release),
    )


def lazy_and_prior(context: typer.Context, table: Path | Address, release: Released) -> tuple[LazyRecords, NIW]:
    """Do so for a release of measurements, and return its prior, too."""
    records, given = lazy_like(context, table, release), context.params["prior"]
    prior = read_prior(given, records.columns, records.schema) if given else release.prior
    if prior is None:
        raise InputError("the release does not say which prior it was made with", Cure("give it", "prior"))
    return records, prior


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
