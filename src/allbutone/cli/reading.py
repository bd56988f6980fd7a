"""How a table is read: the options that every command on a table has, and what they come to."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from allbutone.model.niw import NIW
from allbutone.releases.folder import is_release, load_unguaranteed, without_categories
from allbutone.releases.joined import Released
from allbutone.releases.ledger.file import ledger_path, read_ledger
from allbutone.releases.mixed.mechanism import REFUSE
from allbutone.releases.mixed.release import Release, reading_of
from allbutone.releases.release import PlainRelease
from allbutone.support.errors import Cure, InputError
from allbutone.tables.declared.schema import Schema
from allbutone.tables.files import read_table
from allbutone.tables.names import NO_HEADER, choose, reads_as_data, split_names
from allbutone.tables.records import Records

Columns = Annotated[
    list[str] | None,
    typer.Option(help="A column to keep, or several separated by commas; all by default. May be repeated."),
]
ReleaseColumns = Annotated[
    list[str] | None,
    typer.Option(help="The columns of the table to use; those of the release by default. May be repeated."),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="A column to leave out, or several separated by commas. May be repeated."),
]
NoHeader = Annotated[
    bool,
    typer.Option(
        "--no-header",
        help="The first line of the file is a record: --columns names all columns in order, or they are x1, x2, …",
    ),
]
Encoding = Annotated[
    str | None, typer.Option(help="How the text of the file is encoded, such as latin-1; UTF-8 by default.")
]
Sheet = Annotated[str | None, typer.Option(help="The sheet of an Excel workbook that has several.")]

TableFile = Annotated[
    Path | None,
    typer.Option(
        "--table-file", help="What is public of each column: scale, limits, decimals, prior. describe drafts it."
    ),
]
Log = Annotated[
    list[str] | None,
    typer.Option(help="A positive column to model on a log scale, or several separated by commas."),
]
Positive = Annotated[
    list[str] | None, typer.Option(help="A column of which no value below 0 goes out, or several.")
]
Decimals = Annotated[
    list[str] | None,
    typer.Option(help="Decimals to round released values to: 1 for all columns, or bili=1,age=0."),
]
MissingCodes = Annotated[
    list[str] | None,
    typer.Option(help="A number that stands for a missing value, such as -999, or several separated by commas."),
]
CompleteCases = Annotated[
    bool, typer.Option("--complete-cases", help="Leave out rows with gaps, and say how many.")
]
DropUnusable = Annotated[
    bool, typer.Option("--drop-unusable", help="Leave out columns that cannot be used, and say which.")
]
RowsArePeople = Annotated[
    bool,
    typer.Option(
        "--rows-are-people",
        help="Each row is another person, although rows, or values of what seems to name people, repeat.",
    ),
]


Like = Annotated[
    Path | None,
    typer.Option(help="A release made before: take its columns, prior, model, scales, limits and decimals."),
]


# what a command may be asked about how it reads a table: each option's kind and default
OF_FILE: dict[str, tuple[Any, Any]] = {
    "columns": (Columns, None),
    "drop": (Drop, None),
    "no_header": (NoHeader, False),
    "encoding": (Encoding, None),
    "sheet": (Sheet, None),
    "missing_codes": (MissingCodes, None),
}
OF_TABLE = OF_FILE | {
    "complete_cases": (CompleteCases, False),
    "drop_unusable": (DropUnusable, False),
    "rows_are_people": (RowsArePeople, False),
    "table_file": (TableFile, None),
    "log": (Log, None),
    "positive": (Positive, None),
    "decimals": (Decimals, None),
}
OF_RELEASE = OF_FILE | {"columns": (ReleaseColumns, None), "complete_cases": (CompleteCases, False)}
LIKE: dict[str, tuple[Any, Any]] = {"like": (Like, None)}
# what says how a table is read and modelled, and what a release decides instead
HOW_READ = (
    "prior", "table_file", "log", "positive", "decimals", "drop", "drop_unusable", "keep", "cells", "cell_weight",
    "missing", "columns",
)  # fmt: skip
BEFORE = "allbutone.made_before"


def also_asked(options: dict[str, tuple[Any, Any]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options; their values are in its context, from which this room reads them."""

    def widened(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            command(**{name: value for name, value in given.items() if name not in options})

        signature = inspect.signature(command)
        more = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
            for name, (kind, default) in options.items()
        ]
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *more])  # type: ignore[attr-defined]
        run.__annotations__ = command.__annotations__ | {name: kind for name, (kind, _) in options.items()}
        return run

    return widened


def read_records(context: typer.Context, table: Path, *, mixed: bool = False) -> Records:
    """Read the table as the options of this command say, or as the release that it is to be like.

    Categories and gaps are let in where the command can do with them (`mixed`).
    """
    given = context.params
    like = any_release_like(context) if mixed else release_like(context)
    content = read_content(given, table)
    said: tuple[str, ...] = ()
    if like is None and (before := made_before(context, table, content.column_names)):
        like, said = before
        context.meta[BEFORE] = like
    columns, missing = chosen_columns(given), given.get("missing") or REFUSE
    if like is not None:
        columns = columns_of(like, content.column_names, table.name, given["no_header"])
        mixed = isinstance(like, Release)
        missing = like.mechanism.missing if isinstance(like, Release) else REFUSE
    with ways_out(without=() if "missing" in given else ("missing",)):
        found = Records.of(
            content,
            columns=columns,
            drop=list(given["drop"] or ()) or None,
            schema=declared(given, content.column_names, like),
            # a release that has no word for gaps was made from the rows without any
            complete_cases=given["complete_cases"] or (like is not None and missing == REFUSE),
            drop_unusable=given["drop_unusable"],
            rows_are_people=given["rows_are_people"] or like is not None,
            categories=mixed,
            gaps=missing != REFUSE,
        )
    return replace(found, notes=(*said, *found.notes))


def made_before(
    context: typer.Context, table: Path, names: Sequence[str]
) -> tuple[PlainRelease | Release, tuple[str]] | None:
    """Return the last release of the table by its ledger, and a sentence: the table is read as that one was made.

    None where the command has no part in the ledger, or is told how to read the table.
    """
    given = context.params
    told = [name for name in HOW_READ if given.get(name) and not (name == "columns" and given["no_header"])]
    if "ledger" not in given or given.get("no_ledger") or told:
        return None
    ledger = read_ledger(given["ledger"] or ledger_path(table))
    for entry in reversed(ledger.counted if ledger else ()):
        folder = ledger.folder_of(entry) if ledger else Path()
        if entry.guarantee is None and is_release(folder) and set(entry.columns) <= set(names):
            return load_unguaranteed(folder), (
                f"Read as release {entry.number} of the ledger was made: its columns, scales, limits, model and "
                "prior. --table-file, --columns, --drop or --prior would read it anew.",
            )
    return None


def records_of(context: typer.Context, table: Path, release: Released | Release) -> Records:
    """Read the release's columns of the table, or those asked for."""
    given = context.params
    content = read_content(given, table)
    names, columns = content.column_names, chosen_columns(given)
    drop = named_columns(given["drop"], names)
    if not columns and set(drop).isdisjoint(_names_of(release)):  # what is left out has no part in the release
        columns, drop = columns_of(release, names, table.name, given["no_header"]), []
    how = reading_of(release)
    how |= {"columns": columns, "drop": drop or None, "schema": declared(given, names, release)}
    # a release that has no word for gaps was made from the rows without any
    how["complete_cases"] = given["complete_cases"] or not how.get("gaps", False)
    return Records.of(content, **how)


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


def read_content(given: dict[str, Any], table: Path) -> pa.Table:
    """Read the file itself; without a header, --columns names all its columns."""
    names = list(given["columns"] or ()) if given["no_header"] else []
    how = {name: given[name] for name in ("encoding", "sheet")}
    return read_table(table, header=not given["no_header"], names=names or None, **how)


def chosen_columns(given: dict[str, Any]) -> list[str] | None:
    """Return the columns asked for; those of a file without a header are all its names, and no choice."""
    return None if given["no_header"] else list(given["columns"] or ()) or None


def as_made(context: typer.Context) -> PlainRelease | Release | None:
    """Return the release whose reading, model and prior hold: that of --like, or the last one of the ledger."""
    return any_release_like(context) or context.meta.get(BEFORE)


def any_release_like(context: typer.Context) -> PlainRelease | Release | None:
    """Return the release that --like names; what it decides cannot be asked for besides."""
    given = context.params
    if given.get("like") is None:
        return None
    decided = [name for name in HOW_READ if name != "columns" or not given["no_header"]]
    if both := [name for name in decided if given.get(name)]:
        flag = f"--{both[0].replace('_', '-')}"
        raise InputError(f"--like and {flag} are both given", "leave one out: a release says it all")
    # once: a release may have many datasets, and several ask for it
    if _LIKE not in context.meta:
        context.meta[_LIKE] = load_unguaranteed(given["like"])
    found: PlainRelease | Release = context.meta[_LIKE]
    return found


_LIKE = f"{__name__}.like"


def release_like(context: typer.Context) -> PlainRelease | None:
    """Return the release of measurements that --like names; one with categories is refused."""
    like = any_release_like(context)
    return None if like is None else without_categories(like)


def given_prior(context: typer.Context) -> NIW | Path | None:
    """Return the prior file of this command, or the prior of the release that it is to be like."""
    like = as_made(context)
    return context.params["prior"] if like is None else like.prior


def declared(given: dict[str, Any], names: list[str], like: Released | Release | None = None) -> Schema:
    """Return what the table file, or a release, and the short options declare of the columns."""
    schema = Schema.of(given.get("table_file")) if like is None else like.schema
    log, positive = (named_columns(given.get(option), names) for option in ("log", "positive"))
    decimals = _decimals(given.get("decimals"), names)
    return schema.adjusted(log, positive, decimals, _codes(given.get("missing_codes")))


def named_columns(asked: Sequence[str] | None, names: list[str]) -> list[str]:
    """Return the columns that an option names, one at a time or several between commas."""
    return [names[place] for place in choose(names, asked, None)] if asked else []


def _decimals(asked: Sequence[str] | None, names: list[str]) -> dict[str, int]:
    """Read --decimals: a number for all columns, or name=number."""
    found: dict[str, int] = {}
    for part in split_names(asked, set()) if asked else ():
        name, _, digits = part.rpartition("=")
        try:
            count = int(digits)
        except ValueError as error:
            cure = Cure("write a number for all, or one for each column", "decimals", "bili=1,age=0")
            raise InputError(f"--decimals cannot be {part!r:.60}", cure) from error
        found |= dict.fromkeys(named_columns([name], names) if name else names, count)
    return found


def _codes(asked: Sequence[str] | None) -> list[float]:
    try:
        return [float(part) for part in split_names(asked, set())] if asked else []
    except ValueError as error:
        cure = Cure("write numbers separated by commas", "missing_codes", "-999")
        raise InputError(f"--missing-codes cannot be {', '.join(asked or ())!r:.60}", cure) from error


def _names_of(release: Released | Release) -> tuple[str, ...]:
    return release.order if isinstance(release, Release) else release.column_names


def columns_of(release: Released | Release, names: list[str], file: str, no_header: bool) -> list[str]:
    """Return the release's columns, which the table must have."""
    absent = [name for name in _names_of(release) if name not in names]
    if not absent:
        return list(_names_of(release))
    cures: list[Cure | str] = ["give the table that it was made from"]
    if no_header:
        cures.append(Cure("name every column of the file, in order", "columns"))
    elif any(map(reads_as_data, names)):
        cures.append(NO_HEADER)
    listed = ", ".join(_names_of(release))
    raise InputError(f"the release is of the columns {listed}, and {file} has no {', '.join(absent)}", *cures)
