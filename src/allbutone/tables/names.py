"""Column names and dataframes of any library: which columns are chosen, and how answers go back."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import narwhals as nw
import numpy as np

from allbutone.support.arrays import real_array
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import listed
from allbutone.tables.dates import Calendar

# Column names: which are chosen, and which may be copied into what is released.


_IDENTIFIER = re.compile(
    r"(.*[_\W])?(id|ids|iid|fid|eid|pid|guid|uuid|identifier|cpr|ssn|mrn)([_ ]?(number|no|nr))?"
    r"|index|row|rowid|record|name|barcode|pseudonym|unnamed: 0"
    r"|.*[a-z](Id|ID)"
)
# what R (write.csv), pandas (to_csv), readr and DuckDB call the column of row names, which comes first
_ROW_NAMES = re.compile(r"\s*|unnamed: 0|row[._ ]?names?|column0+|\.\.\.1", re.IGNORECASE)
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff\"'`]|<[a-zA-Z/!?]|^\s*[=+@-]")
# what Arrow reads as a missing value, and the numbers that are written in letters
_MISSING = {"#N/A", "#N/A N/A", "#NA", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null", "<NA>", "None"}
_LETTERED = re.compile(r"[+-]?(inf|infinity|nan|1\.#ind|1\.#qnan|0x[0-9a-f]+)", re.IGNORECASE)
# what pandas and polars append to a name that is there already, and R puts before one that is a number
_ADDED = re.compile(r"(\.\d+|_duplicated_\d+)$")
_NUMBER_IN_R = re.compile(r"X\.?(?=\d+\.\d)")
_MONTHS = (
    "jan(uary?|vier|uar)?|feb(ruary?|ruar)?|f[eé]v(rier)?|m[aä]r(ch|z|s|ts)?|mars|apr(il)?|avr(il)?|ma[iyj]|jun[ei]?|juin"
    "|jul[iy]?|juil(let)?|aug(ust)?|ao[uû]t|sept?(ember|embre)?|o[ck]t(ober|obre)?|nov(ember|embre)?|d[eé][cz](ember|embre)?"
)
_DATE = re.compile(rf"(\d+\W*)?({_MONTHS})\W*(\d+\W*)?\d{{4}}|\d+\W*({_MONTHS})\W*\d+", re.IGNORECASE)
# the letters within numbers and times: 1e5, 2024-01-31T12:00Z, 5 PM
_WITHIN = re.compile(r"(?<=\d)e(?=[+-]?\d)|(?<=\d\d)t(?=\d\d)|(?<=\d)\s?(z|utc|gmt|am|pm)\b", re.IGNORECASE)
# the cure for a file whose first line is a record
NO_HEADER = Cure("if the file has no header line, say so", "header", False)


def choose(names: Sequence[str], columns: Any, drop: Any) -> list[int]:
    """Return the positions of the columns to keep, after checking their names."""
    if columns is not None and drop is not None:
        raise InputError("columns to keep and columns to drop are both given", "give one of the two")
    known = set(names)
    named = split_names(columns if drop is None else drop, known)
    for name in named:
        if name not in known:
            raise InputError(f"there is no column {name!r}", f"choose among {listed(names)}")
    if columns is None:
        left_out, first = set(named), 1 if has_row_names(names) else 0
        positions = [position for position, name in enumerate(names) if position >= first and name not in left_out]
    else:
        if len(set(named)) < len(named):
            raise InputError("a column is asked for twice", "name each once")
        order = {name: place for place, name in enumerate(named)}
        positions = [position for position, name in enumerate(names) if name in order]
        positions.sort(key=lambda position: order[names[position]])
    if not positions:
        raise InputError("no column is left" if names else "the table has no columns", "keep at least one")
    check_names([names[position] for position in positions])
    return positions


def has_row_names(names: Sequence[str]) -> bool:
    """Say whether the first of several columns is that of row names: it has no name, or one that says so."""
    if len(names) < 2 or not _ROW_NAMES.fullmatch(names[0]):
        return False
    # column0, column1, … are names that a library gave to all columns, not to one of row names
    stem = names[0].rstrip("0123456789")
    return names[1].rstrip("0123456789") != stem or stem == names[0]


def row_names_left_out(names: Sequence[str], columns: Any, drop: Any) -> tuple[str, ...]:
    """Say that the column of row names is left out, where it is and nobody asked for it."""
    if columns is not None or not has_row_names(names) or names[0] in split_names(drop, set(names)):
        return ()
    label = f"({names[0]!r})" if names[0].strip() else "(it has no name)"
    return (f"Left out the first column {label}: such a column holds row names, which describe nobody.",)


def split_names(asked: Any, known: set[str]) -> list[str]:
    """Return the names asked for; what is no name as it stands is several, separated by commas."""
    entries = [asked] if isinstance(asked, str) else [str(entry) for entry in asked or ()]
    groups = ([entry] if entry in known else [part.strip() for part in entry.split(",")] for entry in entries)
    return [name for group in groups for name in group]


def check_names(names: Sequence[str]) -> None:
    """Refuse column names that are missing, repeated, data, or not safe to copy into released files."""
    others = Cure("choose other columns", "columns")
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise InputError(
                f"column {position} of those kept has no name", "give it one in the header", others, NO_HEADER
            )
        if reads_as_data(name):
            raise InputError(
                f"column name {name!r} reads as a value, so it may be someone's data, and names are released",
                NO_HEADER,
                "if it is a name, rename it with a letter",
            )
        if _UNSAFE.search(name):
            raise InputError(
                f"column name {name!r} holds quotes, line breaks, markup or a spreadsheet formula, which is not "
                "safe to copy into released files",
                "rename it",
                others,
            )
    name, count = Counter(names).most_common(1)[0] if names else ("", 0)
    if count > 1:
        raise InputError(f"column name {name!r} appears {count} times", "rename one", others)


def reads_as_data(name: str) -> bool:
    """Say whether a column name reads as a number, a date, a time or a missing value.

    So does every name that is made from the first record of a file without a header, if its column holds numbers.
    """
    plain = name.strip().strip("\"'")
    return any(_is_value(text.strip()) for text in (plain, _ADDED.sub("", plain), _NUMBER_IN_R.sub("", plain)))


def _is_value(text: str) -> bool:
    if text in _MISSING or _LETTERED.fullmatch(text) or _DATE.fullmatch(text):
        return True
    return text != "" and not any(character.isalpha() for character in _WITHIN.sub("", text))


def looks_like_identifier(name: str) -> bool:
    """Say whether a column is named as what names people is."""
    return bool(_IDENTIFIER.fullmatch(name) or _IDENTIFIER.fullmatch(name.lower()))


# Dataframes of any library: which columns are chosen, what they are called, and how answers go back in them.


LIBRARIES = ("pyarrow", "polars", "pandas")


def chosen_frame(table: Any, columns: Any, drop: Any, left_out: Sequence[str] = ()) -> nw.DataFrame[Any]:
    """Return the chosen columns; among the others names may be missing, unsafe or repeated.

    `left_out`: those that a table file leaves out; the ones this table has go with those to drop.
    """
    if isinstance(table, np.ndarray):
        table = _name_columns(table)
    names = names_of(table)
    if not_here := [name for name in left_out if name in names]:
        drop = [*(split_names(drop, set(names)) if drop is not None else ()), *not_here]
    positions = choose(names, columns, drop)
    return frame_at(table, positions, [names[position] for position in positions])


def frame_at(table: Any, positions: Sequence[int], chosen: Sequence[str]) -> nw.DataFrame[Any]:
    """Return the columns at these positions of a table of any library, by these names."""
    # by position, before narwhals sees it: it would refuse a repeated name wherever it is
    if hasattr(table, "iloc"):
        table = table.iloc[:, list(positions)].set_axis(list(chosen), axis=1)
    elif hasattr(table, "column_names"):
        table = table.select(list(positions))
    try:
        return nw.from_native(table, eager_only=True).select(list(chosen))
    except TypeError as error:
        raise _no_table(table) from error


def column_at(table: Any, place: int, name: str) -> nw.Series[Any]:
    """Return the column at this place of a table of any library, whatever the others are called."""
    if hasattr(table, "iloc"):
        return nw.from_native(table.iloc[:, place], series_only=True).alias(name)
    if hasattr(table, "column_names"):
        return nw.from_native(table.column(place), series_only=True).alias(name)
    return nw.from_native(table, eager_only=True)[name]


def is_lazy_frame(table: Any) -> bool:
    """Say whether it is a lazy frame of any library; narwhals refuses a repeated name, which those do not have."""
    try:
        return isinstance(nw.from_native(table, pass_through=True), nw.LazyFrame)
    except nw.exceptions.DuplicateError:
        return False


def names_of(table: Any) -> list[str]:
    """Return the names of all columns of a table."""
    if isinstance(table, np.ndarray):
        return [f"x{position + 1}" for position in range(table.shape[-1])]
    if is_lazy_frame(table):
        raise InputError(
            f"a {type(table).__name__} stays in its engine, and this needs the rows here",
            "collect it, or name the files on the command line, which leaves them where they are",
        )
    labels = getattr(table, "column_names", getattr(table, "columns", None))
    if labels is None:
        raise _no_table(table)
    return _names(list(labels))


def _names(labels: list[Any]) -> list[str]:
    """Return the labels as names; columns that pandas has only numbered are named as those of a matrix."""
    if all(isinstance(label, int | np.integer) for label in labels) and labels == list(range(len(labels))):
        return [f"x{position}" for position in range(1, len(labels) + 1)]
    return [str(label) for label in labels]


def _no_table(table: Any) -> InputError:
    return InputError(
        f"cannot read a {type(table).__name__} as a table",
        "give a file, a NumPy matrix, or a pandas, polars or pyarrow table",
    )


def _name_columns(matrix: np.ndarray) -> Any:
    if matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InputError(f"a matrix of records has shape (n, p), p > 0, got {matrix.shape}", "try reshape(-1, 1)")
    names = _names(list(range(matrix.shape[1])))
    values = np.asarray(real_array(matrix, "a matrix of records"))
    return nw.from_numpy(values, schema=names, backend=_library()).to_native()


def _library() -> Any:
    """Return the dataframe library that matrices are read with: pyarrow, or one that is there instead."""
    for name in LIBRARIES:
        try:
            import_module(name)
        except ModuleNotFoundError:
            continue
        return name
    raise InputError("no dataframe library is installed", f"install one: pip install {LIBRARIES[0]}")


def frame_of(
    columns: dict[str, Any],
    levels: dict[str, tuple[str, ...]],
    backend: Any,
    dates: Mapping[str, Calendar] | None = None,
) -> Any:
    """Return a dataframe of numbers, missing where NaN, and of level numbers, missing where -1, by level names.

    A column of levels has its library's own type for them, which keeps their order: categorical, Enum, dictionary.
    `dates`: which numbers go out as dates, and how.
    """
    import pyarrow as pa

    arrays = {}
    for name, values in columns.items():
        if name in levels:
            codes = pa.array(values.astype(np.int32), mask=values < 0)
            arrays[name] = pa.DictionaryArray.from_arrays(codes, pa.array(levels[name], pa.string()))
        elif dates and name in dates:
            arrays[name] = dates[name].written(values)
        else:  # what names people may be text
            arrays[name] = pa.array(values, mask=None if values.dtype == object else np.isnan(values))
    frame = nw.from_arrow(pa.table(arrays), backend=backend)
    if frame.implementation.is_polars():
        texts = [nw.col(name).cast(nw.String).cast(nw.Enum(each)) for name, each in levels.items()]
        frame = frame.with_columns(*texts)
    return frame.to_native()
