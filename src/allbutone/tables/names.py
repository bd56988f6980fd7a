"""Column names: which are chosen, and which may be copied into what is released."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from allbutone.support.errors import Cure, InputError
from allbutone.support.text import listed

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
    return len(names) > 1 and bool(_ROW_NAMES.fullmatch(names[0]))


def row_names_left_out(names: Sequence[str], columns: Any, drop: Any) -> tuple[str, ...]:
    """Say that the column of row names is left out, where it is and nobody asked for it."""
    if columns is not None or not has_row_names(names) or names[0] in split_names(drop, set(names)):
        return ()
    called = f"({names[0]!r})" if names[0].strip() else "(it has no name)"
    return (f"Left out the first column {called}: such a column holds row names, which describe nobody.",)


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
