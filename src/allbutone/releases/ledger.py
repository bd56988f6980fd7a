"""The ledger of a table: one entry a release, in a file beside the table, changed by one program at a time."""

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import scrypt, sha256
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int, UInt

from allbutone.releases.description import MANIFEST, read_json
from allbutone.support.errors import Cure, InputError, reason
from allbutone.support.text import counted, listed
from allbutone.tables.records import Records
from allbutone.tables.safe_io import NOT_AS_WRITTEN, fresh_file, locked, parse, read_text
from allbutone.tables.schema import Schema

# The ledger of a table: one entry a release, and the text of the file that keeps them.
#
# Confidential, as the table is. Never in it: a seed or repeat key, a value or a statistic of the table.


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
    plain = sha256(json.dumps(names).encode())
    plain.update(np.ascontiguousarray(rows[np.argsort(_mixed(rows))], dtype="<i8").tobytes())
    return _slowly(plain.digest(), bytes.fromhex(salt))


def digest_of_declaration(schema: Schema) -> str:
    """Return a digest of what is declared of the columns and changes the numbers that go out; it is public."""
    return sha256(json.dumps(schema.mechanism.entries(), sort_keys=True).encode()).hexdigest()[:16]


def digest_of_files(folder: Path, names: Iterable[str]) -> str:
    """Return a digest of these files of a release, by name."""
    whole = sha256()
    for name in sorted(names):
        try:
            with (folder / name).open("rb") as file:
                content = sha256()
                while block := file.read(1 << 20):
                    content.update(block)
        except OSError as error:
            raise InputError(f"cannot read {folder / name}: {reason(error)}", "give the whole release") from error
        whole.update(json.dumps([name, content.hexdigest()]).encode())
    return whole.hexdigest()[:32]


@lru_cache(maxsize=256)
def _slowly(plain: bytes, salt: bytes) -> str:
    return scrypt(plain, salt=salt, **_WORK).hex()


def _column(records: Records, name: str) -> Int[np.ndarray, " n"]:
    """Return a whole number for each value of a column, equal where values are."""
    if name in records.categories.columns:
        place = records.categories.columns.index(name)
        # by name, not by number: other levels may be declared later
        of_level = [_number_of(level) for level in records.categories.levels[place]]
        return np.array([*of_level, -1], dtype=np.int64)[records.categories.codes[:, place]]
    values = records.natural[:, records.columns.index(name)] + 0.0  # no minus before a zero
    bits = np.where(np.isnan(values), np.nan, values).astype("<f8").view("<i8")
    return (bits + (1 << (_ROUNDED - 1))) >> _ROUNDED


def _mixed(rows: Int[np.ndarray, "n d"]) -> UInt[np.ndarray, " n"]:
    """Return one number for each row, to sort by: ten times quicker than by all columns in turn."""
    mixed = np.zeros(len(rows), dtype=np.uint64)
    for column in rows.T:
        mixed = (mixed ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(32)
    return mixed


def _number_of(level: str) -> int:
    return int.from_bytes(sha256(level.encode()).digest()[:7], "big")


# The ledger's file beside the table: read, and changed by one program at a time, whole or not at all.


ENDING = ".ledger.toml"


def ledger_path(table: str | Path) -> Path:
    """Return where the ledger of a table is kept: beside it, under its name.

    >>> import allbutone as abo
    >>> abo.ledger_path("clinic.csv").name
    'clinic.csv.ledger.toml'
    """
    # two names of one file have one ledger
    return Path(f"{os.path.realpath(table)}{ENDING}")


def read_ledger(path: str | Path) -> Ledger | None:
    """Return the ledger kept in this file, or None where there is no such file.

    >>> import allbutone as abo
    >>> abo.read_ledger("nothing-was-released.csv.ledger.toml") is None
    True
    """
    path = Path(path)
    return _parsed(read_text(path, "let it be readable"), path) if os.path.lexists(path) else None


# a command asks for the ledger in several places; as long as its text is the same, so is what it says
_parsed = lru_cache(maxsize=4)(ledger_from)


def change_ledger(path: Path, change: Callable[[Ledger], Ledger]) -> Ledger:
    """Read, change and write a ledger while nobody else does, and return it as it is now.

    What is not there yet begins empty; what is left as it was is not written.
    """
    with _alone(path):
        before = read_ledger(path)
        after = change(before or Ledger(path=path, salt=secrets.token_hex(16)))
        if after != before:
            readers = _readers(path)
            with fresh_file(path, force=True, private=True) as aside:
                aside.write_text(after.text(), encoding="utf-8")
            path.chmod(readers)
    return after


def require_recordable(path: Path) -> None:
    """Refuse where a ledger cannot be read or written, before anything is drawn."""
    with _alone(path):
        read_ledger(path)


def record_release(
    path: str | Path,
    records: Records,
    folder: str | Path,
    *,
    how: str = ADDED,
    place: Path | None = None,
    guarantee: Terms | None = None,
    table_file: Path | None = None,
) -> Entry:
    """Record the release in this folder, or give one that is recorded already its new place.

    The records are those it was made from, in its columns. place: where the folder will be, if it lies aside now.
    table_file: what was declared of the table, so that it need not be named again.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> abo.save_release(abo.Synthesizer().fit(cohort).sample(datasets=1), "release")
    >>> abo.record_release("cohort.csv.ledger.toml", cohort, "release").number
    1
    """
    path, folder = Path(path), Path(folder)
    manifest, files = _description(folder), release_digest(folder)
    where = _seen_from(path, place or folder)

    def recorded(ledger: Ledger) -> Ledger:
        if known := ledger.recorded(files):
            return ledger.with_entry(replace(known, place=where, guarantee=guarantee or known.guarantee))
        entry = Entry(
            number=len(ledger.releases) + 1,
            date=_now(),
            how=how,
            place=where,
            **_sizes(manifest),
            prior=_prior_in_words(manifest["prior"]),
            people=len(records.values),
            table=digest_of_records(records, ledger.salt),
            declaration=digest_of_declaration(records.schema),
            files=files,
            guarantee=guarantee,
            table_file=_seen_from(path, table_file) if table_file else None,
        )
        return ledger.with_entry(entry)

    found = change_ledger(path, recorded).recorded(files)
    assert found is not None
    return found


def void_release(path: str | Path, number: int, reason: str) -> Ledger:
    """Say of a release that it does not count, and why: it was drawn and never given out.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> abo.save_release(abo.Synthesizer().fit(cohort).sample(datasets=1), "release")
    >>> _ = abo.record_release("cohort.csv.ledger.toml", cohort, "release")
    >>> abo.void_release("cohort.csv.ledger.toml", 1, "drawn, never given out").releases[0].voided is None
    False
    """
    if not reason.strip():
        raise InputError("a release is voided for a reason", "give one, such as: drawn, never given out")
    path = Path(path)
    _require_ledger(path)

    def voided(ledger: Ledger) -> Ledger:
        entry = ledger.entry(number)
        if not entry.counts:
            raise InputError(f"release {number} is voided already")
        return ledger.with_entry(replace(entry, voided=Voided(_now(), reason.strip())))

    return change_ledger(path, voided)


def declare_limit(path: Path, limit: Terms | None) -> Ledger:
    """Declare the guarantee that all releases together must keep, or none any more."""
    return change_ledger(path, lambda ledger: replace(ledger, limit=limit))


def release_digest(folder: Path) -> str:
    """Return the digest of a release's files by which a ledger knows it again."""
    return digest_of_files(folder, [MANIFEST, *_description(folder)["files"]])


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the ledger; where that cannot be, say what can be done instead."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(path))
        except OSError as error:
            raise InputError(
                f"the release cannot be recorded in the ledger {path}: {reason(error)}",
                Cure("keep the ledger elsewhere, and name it from now on", "ledger"),
                Cure("record it nowhere, and keep count of the releases yourself", "no_ledger", True),
            ) from error
        yield


def _readers(path: Path) -> int:
    """Return who may read the ledger: as before or, at first, as the table beside it; else the owner alone."""
    for known in (path, path.with_name(path.name.removesuffix(ENDING))):
        if known.is_file():
            return known.stat().st_mode & 0o666
    return 0o600


def _require_ledger(path: Path) -> None:
    if not os.path.lexists(path):
        raise InputError(f"there is no ledger {path}", "record a release first (allbutone ledger add)")


def _description(folder: Path) -> dict[str, Any]:
    manifest = read_json(folder / MANIFEST)
    names = manifest.get("files")
    if not isinstance(names, list) or not all(isinstance(each, str) and Path(each).name == each for each in names):
        raise InputError(
            "not the description of a release", "name the folder of one", where=str(folder / MANIFEST)
        )
    return manifest


def _sizes(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return what a release holds, as its description has it, so that large ones need not be read."""
    draws = manifest.get("draws", 0)
    # datasets that come with their parameters say nothing more
    apart = manifest.get("datasets", 0) if "model" in manifest or not draws else 0
    return {
        "kind": manifest["release"],
        "count": draws + apart,
        "rows": tuple(sorted(set(manifest.get("rows", ())))),
        "columns": tuple(manifest["columns"]),
    }


def _prior_in_words(prior: dict[str, Any]) -> str:
    weight = float(prior["mean_weight"])
    if weight == 0 and float(prior["df"]) <= -1:
        return "flat"
    return f"worth {weight:g} record{'' if weight == 1 else 's'} for the mean; {MANIFEST} has its numbers"


def _seen_from(path: Path, folder: Path) -> str:
    """Return a folder as seen from the ledger's, so that both can move together."""
    there, here = os.path.realpath(folder), os.path.realpath(path.parent)
    try:
        return Path(os.path.relpath(there, here)).as_posix()
    except ValueError:  # another drive
        return there


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
