"""What a ledger's file holds: an entry a release, written as text and read back, and digests that tell no value.

Confidential, as the table is. Never in it: a seed or repeat key, a value or a statistic of the table.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import file_digest, scrypt, sha256
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int

from allbutone.releases.description import MANIFEST, contents_in_words, read_json
from allbutone.support.errors import InputError, reason
from allbutone.support.text import counted
from allbutone.tables.records import Records
from allbutone.tables.safe_io import NOT_AS_WRITTEN, parse
from allbutone.tables.schema import Schema

FORMAT = 1
DRAWN, ADDED = "drawn", "added"
_TOP = """\
# CONFIDENTIAL: keep this file beside the table and as you keep the table; never give it out with a release.
# What was released of the table, so that all of it is judged together. allbutone writes it; to change it:
#   allbutone ledger show, add, void, limit
# place: the folder of the release, seen from here; files: a digest of what is in it.
# table: a slow, salted digest of the records in any order; declaration: of their scales, limits and decimals.
"""
_END = "# end of the ledger: "


@dataclass(frozen=True, kw_only=True)
class Terms:
    """A guarantee of differential privacy: of one release, or the total declared for all; what is unset is open.

    adjacency: which two tables are compared, such as "replace one record". basis: what it rests on, in words.
    rho: of zero-concentrated privacy. half_df, most: k and E of posterior draws (`guarantee`), whose loss is that
    of two gamma variates: what is needed to add several up exactly.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    half_df: float | None = None
    most: float | None = None
    adjacency: str = ""
    basis: str = ""


@dataclass(frozen=True)
class Voided:
    """That an entry does not count any more, since when and why."""

    date: datetime
    reason: str


@dataclass(frozen=True)
class Judged:
    """That somebody read what a release discloses, since when, and whether it passed by the rule."""

    date: datetime
    passed: bool


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release of the table.

    place: its folder, as seen from the ledger's. how: drawn by allbutone, or added by hand. count: how many
    datasets, or parameter draws. rows: the sizes that its datasets have. prior: in words; the release has its
    numbers. columns: in the release's order. people: the number of records. table, declaration, files: digests.
    table_file: where the table file was, as seen from the ledger's folder. judged: its first verdict, if any.
    """

    number: int
    date: datetime
    how: str
    place: str
    kind: str
    count: int
    rows: tuple[int, ...]
    columns: tuple[str, ...]
    prior: str
    people: int
    table: str
    declaration: str
    files: str
    guarantee: Terms | None = None
    voided: Voided | None = None
    table_file: str | None = None
    judged: Judged | None = None

    @property
    def counts(self) -> bool:
        """Whether it is judged with the others: it was not voided."""
        return self.voided is None

    @property
    def is_attempt(self) -> bool:
        """Whether it was drawn and judged, and not given out: who draws again then chooses what goes out."""
        return self.judged is not None and not self.counts

    @property
    def what(self) -> str:
        """What went out, in words: 5 datasets of 503 rows."""
        noun = "dataset" if self.kind == "datasets" else "parameter draw"
        return contents_in_words(self.count, noun, self.rows, with_datasets=self.kind == "both")

    @property
    def in_words(self) -> str:
        """What went out, when, and where it is."""
        return f"{self.what}, {self.date.day} {self.date:%B %Y}, {self.place}"


# The text: one TOML table an entry. A field that is added to these classes with a default is written and read
# without more, and ledgers that do not have it yet can still be read.


def ledger_text(salt: str, limit: Terms | None, releases: Sequence[Entry]) -> str:
    """Return the file that keeps all this; its last line tells whether something was cut off or changed."""
    parts = [_TOP, f"\nformat = {FORMAT}\nsalt = {_toml(salt)}\n"]
    if limit:
        parts.append(f"limit = {_toml(limit)}\n")
    for entry in releases:
        lines = (f"{name} = {_toml(value)}\n" for name, value in _set(entry).items())
        parts.append("\n[[releases]]\n" + "".join(lines))
    body = "".join(parts)
    return f"{body}\n{_end(body, len(releases))}"


def ledger_content(text: str, where: str) -> tuple[str, Terms | None, tuple[Entry, ...]]:
    """Read such a text; what was cut off, changed by hand or written by a newer version is refused."""
    body, _, end = text.rpartition(f"\n{_END}")
    damaged = InputError(
        "the ledger was cut short, or changed by hand, and may not name every release any more",
        "put back a copy of it",
        "move it aside and add each release anew (allbutone ledger add)",
        where=where,
    )
    try:
        content = parse(body or text, "TOML", where)
    except InputError as error:
        raise damaged from error
    if content.get("format", FORMAT) != FORMAT:
        raise InputError("the ledger was written by another version of allbutone", "use that one", where=where)
    try:
        releases = tuple(_read(Entry, each) for each in content.get("releases", []))
        salt, limit = _text(content["salt"]), content.get("limit")
        terms = _read(Terms, limit) if limit else None
    except NOT_AS_WRITTEN as error:
        raise damaged from error
    numbered = [each.number for each in releases] == list(range(1, len(releases) + 1))
    if f"{_END}{end}" != _end(body, len(releases)) or not numbered:
        raise damaged
    return salt, terms, releases


def _end(body: str, releases: int) -> str:
    """Return the last line: against accidents, not against one who wants to forge it."""
    check = sha256(body.encode()).hexdigest()[:16]
    return f"{_END}{counted(releases, 'release')}, check {check}\n"


def _set(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that say more than their defaults."""
    said = ((each.name, getattr(value, each.name), each.default) for each in fields(value))
    return {name: content for name, content, default in said if content != default}


def _toml(value: Any) -> str:
    """Write a value as TOML does; its texts, numbers and lists are those of JSON."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if is_dataclass(value):
        return "{ " + ", ".join(f"{name} = {_toml(part)}" for name, part in _set(value).items()) + " }"
    # the one character that JSON lets stand in a text and TOML does not
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _date(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError("not a date")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("neither true nor false")
    return value


_READERS: dict[Any, Callable[[Any], Any]] = {  # by the type of a field
    int: int,
    bool: _flag,
    float | None: float,
    str: _text,
    str | None: _text,
    datetime: _date,
    tuple[int, ...]: lambda value: tuple(map(int, value)),
    tuple[str, ...]: lambda value: tuple(map(_text, value)),
    Terms | None: lambda value: _read(Terms, value),
    Voided | None: lambda value: _read(Voided, value),
    Judged | None: lambda value: _read(Judged, value),
}
A = TypeVar("A")


def _read(kind: type[A], given: Mapping[str, Any]) -> A:
    """Read the fields of a dataclass; one that it does not have is an error."""
    readers = {each.name: _READERS[each.type] for each in fields(kind)}  # type: ignore[arg-type]
    return kind(**{name: readers[name](value) for name, value in given.items()})


# Digests by which a ledger knows its table and its releases again, and tells no value of either.


# of scrypt: 16 MB and about a twentieth of a second for each try
_WORK = {"n": 1 << 14, "r": 8, "p": 1, "dklen": 16}
_ROUNDED = 16  # bits of a double, of 52, that are rounded away: a way to another scale and back must not matter


def digest_of_records(records: Records, salt: str) -> str:
    """Return a digest of the records as they were read: their values and levels under their columns' names.

    The order of rows and of columns does not matter, nor does the file's format. It is salted, so that two ledgers
    cannot be compared, and slow to compute: one who has the ledger and all records but one can still try values
    of the missing one, about twenty a second, which is why the ledger is confidential.
    """
    names = sorted(records.order)
    rows = np.column_stack([_column(records, name) for name in names])
    mixed = np.zeros(len(rows), dtype=np.uint64)  # one number a row, to sort by: quicker than by all columns
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    plain = sha256(json.dumps(names).encode())
    plain.update(np.ascontiguousarray(rows[np.argsort(mixed)], dtype="<i8").tobytes())
    return _slowly(plain.digest(), bytes.fromhex(salt))


def digest_of_declaration(schema: Schema) -> str:
    """Return a digest of what is declared of the columns and changes the numbers that go out; it is public."""
    return sha256(json.dumps(schema.mechanism.entries(), sort_keys=True).encode()).hexdigest()[:16]


def digest_of_release(folder: Path) -> str:
    """Return the digest of a release's files, by name, by which a ledger knows it again."""
    whole = sha256()
    for name in sorted([MANIFEST, *description_of(folder)["files"]]):
        try:
            with (folder / name).open("rb") as file:
                content = file_digest(file, "sha256").hexdigest()
        except OSError as error:
            raise InputError(f"cannot read {folder / name}: {reason(error)}", "give the whole release") from error
        whole.update(json.dumps([name, content]).encode())
    return whole.hexdigest()[:32]


def description_of(folder: Path) -> dict[str, Any]:
    """Return what release.json says, whose files must lie in the folder itself."""
    manifest = read_json(folder / MANIFEST)
    names = manifest.get("files")
    if not isinstance(names, list) or not all(isinstance(each, str) and Path(each).name == each for each in names):
        raise InputError(
            "not the description of a release", "name the folder of one", where=str(folder / MANIFEST)
        )
    return manifest


@lru_cache(maxsize=256)
def _slowly(plain: bytes, salt: bytes) -> str:
    return scrypt(plain, salt=salt, **_WORK).hex()


def _column(records: Records, name: str) -> Int[np.ndarray, " n"]:
    """Return a whole number for each value of a column, equal where values are."""
    if name in records.categories.columns:
        place = records.categories.columns.index(name)
        # by name, not by number: other levels may be declared later
        digests = [sha256(level.encode()).digest() for level in records.categories.levels[place]]
        of_level = [int.from_bytes(each[:7], "big") for each in digests]
        return np.array([*of_level, -1], dtype=np.int64)[records.categories.codes[:, place]]
    values = records.natural[:, records.columns.index(name)] + 0.0  # no minus before a zero
    bits = np.where(np.isnan(values), np.nan, values).astype("<f8").view("<i8")
    return (bits + (1 << (_ROUNDED - 1))) >> _ROUNDED
