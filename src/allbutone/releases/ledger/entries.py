"""The ledger of a table: one entry a release, and the text of the file that keeps them.

Confidential, as the table is. Never in it: a seed or repeat key, a value or a statistic of the table.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.safe_read import NOT_AS_WRITTEN, parse

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
    rho: of zero-concentrated privacy. half_df, most: k and wE of posterior draws (`guarantee`), whose loss is that
    of two gamma variates: what is needed to add several up exactly.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    half_df: float | None = None
    most: float | None = None
    adjacency: str = ""
    basis: str = ""

    def entries(self) -> dict[str, Any]:
        """Return what is set."""
        return {name: value for name, value in vars(self).items() if value not in (None, "")}


@dataclass(frozen=True)
class Voided:
    """That an entry does not count any more, since when and why."""

    date: datetime
    reason: str


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One release of the table.

    place: its folder, as seen from the ledger's. how: drawn by allbutone, or added by hand. count: how many
    datasets, or parameter draws. rows: the sizes that its datasets have. prior: in words; the release has its
    numbers. columns: in the release's order. people: the number of records. table, declaration, files: digests.
    table_file: where the table file was, as seen from the ledger's folder.
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

    @property
    def counts(self) -> bool:
        """Whether it is judged with the others: it was not voided."""
        return self.voided is None

    @property
    def what(self) -> str:
        """What went out, in words: 5 datasets of 503 rows."""
        noun = "parameter draw" if self.kind != "datasets" else "dataset"
        sizes = f"{self.rows[0]:,} to {self.rows[-1]:,} rows" if len(self.rows) > 1 else ""
        of_rows = f" of {sizes or counted(self.rows[0], 'row')}" if self.rows else ""
        return f"{counted(self.count, noun)}{' with datasets' * (self.kind == 'both')}{of_rows}"

    def entries(self) -> dict[str, Any]:
        """Return the entry as the ledger's file has it."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found["guarantee"] = self.guarantee.entries() if self.guarantee else None
        found["voided"] = vars(self.voided) if self.voided else None
        return {name: value for name, value in found.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All that was recorded of a table's releases, in order; `path` is where it is kept.

    salt: random bytes in hexadecimal that go into the digests of the table. limit: a declared total guarantee.
    """

    path: Path
    salt: str
    releases: tuple[Entry, ...] = ()
    limit: Terms | None = None

    @property
    def counted(self) -> tuple[Entry, ...]:
        """The entries that were not voided."""
        return tuple(entry for entry in self.releases if entry.counts)

    def entry(self, number: int) -> Entry:
        """Return the entry of this number."""
        for entry in self.releases:
            if entry.number == number:
                return entry
        has = f"its releases are numbered 1 to {len(self.releases)}" if self.releases else "it has none yet"
        raise InputError(f"{self.path.name} has no release {number}", has)

    def folder_of(self, entry: Entry) -> Path:
        """Return where the release was, as seen from here."""
        return self.path.parent / entry.place

    def with_entry(self, entry: Entry) -> "Ledger":
        """Return the ledger with this entry in place of that of its number, or at the end."""
        others = tuple(each for each in self.releases if each.number != entry.number)
        return replace(self, releases=tuple(sorted((*others, entry), key=lambda each: each.number)))

    def recorded(self, files: str) -> Entry | None:
        """Return the entry that counts of the release with these files, if there is one."""
        return next((entry for entry in self.counted if entry.files == files), None)

    def text(self) -> str:
        """Return the file that keeps this ledger; its last line tells whether something was cut off or changed."""
        parts = [_TOP, f"\nformat = {FORMAT}\nsalt = {_toml(self.salt)}\n"]
        if self.limit:
            parts.append(f"limit = {_toml(self.limit.entries())}\n")
        for entry in self.releases:
            lines = (f"{name} = {_toml(value)}\n" for name, value in entry.entries().items())
            parts.append("\n[[releases]]\n" + "".join(lines))
        body = "".join(parts)
        return f"{body}\n{_end(body, len(self.releases))}"


def ledger_from(text: str, path: Path) -> Ledger:
    """Read the text of a ledger; what was cut off, changed by hand or written by a newer version is refused."""
    body, _, end = text.rpartition(f"\n{_END}")
    try:
        content = parse(body or text, "TOML", str(path))
    except InputError as error:
        raise _damaged(path) from error
    if content.get("format", FORMAT) != FORMAT:
        raise InputError("the ledger was written by another version of allbutone", "use that one", where=str(path))
    try:
        releases = tuple(_entry(each) for each in content.get("releases", []))
        salt, limit = content["salt"], content.get("limit")
        whole = f"{_END}{end}" == _end(body, len(releases))
        found = Ledger(path=path, salt=_text(salt), releases=releases, limit=_terms(limit) if limit else None)
        whole = whole and [each.number for each in releases] == list(range(1, len(releases) + 1))
    except NOT_AS_WRITTEN as error:
        raise _damaged(path) from error
    if not whole:
        raise _damaged(path)
    return found


def _damaged(path: Path) -> InputError:
    return InputError(
        "the ledger was cut short, or changed by hand, and may not name every release any more",
        "put back a copy of it",
        "move it aside and add each release anew (allbutone ledger add)",
        where=str(path),
    )


def _end(body: str, releases: int) -> str:
    """Return the last line: against accidents, not against one who wants to forge it."""
    check = sha256(body.encode()).hexdigest()[:16]
    return f"{_END}{counted(releases, 'release')}, check {check}\n"


def _entry(given: Mapping[str, Any]) -> Entry:
    told = dict(given)
    names = {each.name for each in fields(Entry)}
    if unknown := set(told) - names:
        raise ValueError(f"unknown entries {listed(sorted(unknown))}")
    voided = told.pop("voided", None)
    guarantee = told.pop("guarantee", None)
    told |= {"rows": tuple(map(int, told["rows"])), "columns": tuple(map(_text, told["columns"]))}
    for name in ("number", "count", "people"):
        told[name] = int(told[name])
    for name in ("how", "place", "kind", "prior", "table", "declaration", "files"):
        _text(told[name])
    if "table_file" in told:
        _text(told["table_file"])
    return Entry(
        **told | {"date": _date(told["date"])},
        guarantee=_terms(guarantee) if guarantee else None,
        voided=Voided(_date(voided["date"]), _text(voided["reason"])) if voided else None,
    )


def _terms(given: Mapping[str, Any]) -> Terms:
    read: dict[str, Callable[[Any], Any]] = dict.fromkeys(("epsilon", "delta", "rho", "half_df", "most"), float)
    read |= dict.fromkeys(("adjacency", "basis"), _text)
    return Terms(**{name: read[name](value) for name, value in given.items()})


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value


def _date(value: Any) -> datetime:
    if not isinstance(value, datetime):
        raise TypeError("not a date")
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def _toml(value: Any) -> str:
    """Write a value as TOML does; its texts, numbers and lists are those of JSON."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{name} = {_toml(part)}" for name, part in value.items()) + " }"
    # the one character that JSON lets stand in a text and TOML does not
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False).replace(
        "\x7f", "\\u007f"
    )
