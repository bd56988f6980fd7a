"""Everything that was released of a table, as one: what an adversary has who kept it all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from allbutone.releases.folder import load_release, release_of
from allbutone.releases.ledger import Entry, Ledger, digest_of_records, release_digest
from allbutone.releases.several import Part, Released, Releases, drawn_twice, parts_of, prints_of
from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.records import Records


@dataclass(frozen=True)
class NotCounted:
    """An earlier release that could not be judged together with the others, and why, in words."""

    entry: Entry
    why: str


@dataclass(frozen=True, eq=False)
class Together:
    """What was asked about and all earlier releases that the ledger names, to be judged as one.

    records: those that what was asked about was made from, fewer than there are now if the table has grown.
    asked: what was asked about, if anything; earlier: the other releases, as one, if any could be counted.
    fewer: releases made when the table had fewer records, each with the places of those.
    counted, left_out: the entries of all these, and of those that could not be counted. doubt: what is wrong with
    the table. remarks: what else there is to note.
    """

    records: Records
    asked: Released | None = None
    earlier: Released | None = None
    fewer: tuple[Part, ...] = ()
    counted: tuple[Entry, ...] = ()
    left_out: tuple[NotCounted, ...] = ()
    doubt: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything was released at all."""
        return self.asked is not None or self.earlier is not None

    @property
    def release(self) -> Released:
        """All of it, as one release."""
        parts = [part for part in (self.asked, self.earlier) if part is not None]
        whole = release_of(parts) if len(parts) > 1 else parts[0]
        return Releases((*parts_of(whole), *self.fewer)) if self.fewer else whole

    def of(self, folders: Sequence[Path]) -> list[object]:
        """Return all that is judged, by its folders or entries: first what was asked about."""
        return [*folders, *self.counted]

    @property
    def sentence(self) -> str:
        """What is judged together, for a board; nothing where the ledger names no other release."""
        words = [self.doubt] if self.doubt else []
        if self.counted:
            named = "; ".join(f"{entry.number}: {self._told(entry)}" for entry in self.counted)
            words.append(f"Judged together with {counted(len(self.counted), 'earlier release')} ({named}).")
        words += [
            f"Not counted: release {each.entry.number} ({in_words(each.entry)}), because {each.why}."
            for each in self.left_out
        ]
        if self.left_out:
            which = "it" if len(self.left_out) == 1 else "them"
            words.append(f"So this is not the whole sum: with {which}, more may be known than is said here.")
        return " ".join(words)

    def _told(self, entry: Entry) -> str:
        of_fewer = entry.people < len(self.records.values)
        return in_words(entry) + f", made when the table had {counted(entry.people, 'record')}" * of_fewer


def in_words(entry: Entry) -> str:
    """Return what a release was, when, and where it is."""
    return f"{entry.what}, {entry.date.day} {entry.date:%B %Y}, {entry.place}"


def with_earlier(
    ledger: Ledger | None,
    records: Records,
    asked: Released | None = None,
    folders: Sequence[Path] = (),
    *,
    mixed: bool = False,
) -> Together:
    """Put what is asked about together with all releases in the ledger: every front end judges by this.

    records: the table as it is now, in the columns of what is asked about. folders: where that lies, if it does.
    mixed: where nothing is asked about yet, whether the next release is of the model with categories.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> release = abo.Synthesizer().fit(cohort).sample(datasets=2)
    >>> abo.with_earlier(None, cohort, release).release is release  # nothing was released before
    True
    """
    if ledger is None:
        return Together(records, asked)
    mine = {release_digest(folder): folder for folder in folders}
    records, doubt = _made_from(ledger, [ledger.recorded(files) for files in mine], records)
    known = [] if asked is None else [prints_of(asked)]
    found: list[Released] = []
    fewer: list[Part] = []
    used: list[Entry] = []
    left_out: list[NotCounted] = []
    for entry in (entry for entry in ledger.counted if entry.files not in mine):
        like = asked if asked is not None else next(iter(found), None)
        part = _usable(ledger, entry, records, like, mixed)
        if isinstance(part, NotCounted):
            left_out.append(part)
            continue
        if part.people is not None and asked is None:  # nothing yet is of all records
            left_out.append(NotCounted(entry, _grown(ledger, entry, records)))
            continue
        prints = prints_of(part.release)
        if any(drawn_twice(prints, other) for other in known):  # it counts already
            continue
        known.append(prints)
        used.append(entry)
        if part.people is None:
            found.append(part.release)
        else:
            fewer.append(part)
    earlier = release_of(found) if found else None
    remarks = tuple(_remarks(ledger, mine))
    return Together(records, asked, earlier, tuple(fewer), tuple(used), tuple(left_out), doubt, remarks)


def _made_from(ledger: Ledger, asked: Sequence[Entry | None], records: Records) -> tuple[Records, str]:
    """Return the records that what is asked about was made from, as far as the ledger knows, and what to say."""
    known = [entry for entry in asked if entry is not None]
    fewer = [entry for entry in known if not is_of(ledger, entry, records)]
    if not fewer:
        return records, ""
    part = grown_from(ledger, fewer[0], records)
    if part and len({entry.table for entry in known}) == 1:
        since = _grown(ledger, fewer[0], records, f"release {fewer[0].number}")
        return records.take(part[1]), f"{since[0].upper()}{since[1:]}; judged are those."
    doubt = (
        f"Not exact: the table is not the one that release {fewer[0].number} was made from "
        f"({counted(fewer[0].people, 'record')}), and what is said here holds only for the one it was made from."
    )
    if part:
        doubt += " Name the newest release alone: those of fewer records are added as they are."
    return records, doubt


def _usable(
    ledger: Ledger, entry: Entry, records: Records, like: Released | None, mixed: bool
) -> Part | NotCounted:
    """Return the release of an entry, or why it cannot be judged in one with another like this."""
    if why := _changed(ledger, entry, records) or lost(ledger, entry):
        return NotCounted(entry, why)
    release = load_release(ledger.folder_of(entry))
    if release.noisy is not None:
        return NotCounted(entry, "it has a guarantee, which is added up with others of its kind instead")
    is_normal = release.mechanism.is_normal
    if is_normal == (mixed if like is None else not like.mechanism.is_normal):
        return NotCounted(entry, "it was made by another model")
    if not records.schema.same_mechanism(release.schema):
        return NotCounted(entry, "it was made with other scales, limits, decimals or levels")
    if not is_normal and like is not None and not release.mechanism.same_as(like.mechanism):
        return NotCounted(entry, "it was made with another prior, other cells or other kept columns")
    part = grown_from(ledger, entry, records)
    if part and not is_normal:
        return NotCounted(entry, _grown(ledger, entry, records))
    return Part(release, part[1] if part else None)


def _changed(ledger: Ledger, entry: Entry, records: Records) -> str:
    """Say what is not as it was when a release was made, but for more records: the columns, or the records."""
    if entry.columns != records.order:
        return f"it is of other columns, or in another order ({listed(entry.columns)})"
    if is_of(ledger, entry, records):
        return ""
    if grown_from(ledger, entry, records):
        return ""
    size = counted(entry.people, "record")
    return f"it was made from another table than this one ({size}), and releases of different tables do not add up"


def _grown(ledger: Ledger, entry: Entry, records: Records, what: str = "it") -> str:
    """Say how the table has grown since a release was made; nothing where it has not."""
    part = grown_from(ledger, entry, records)
    new = counted(len(records.values) - entry.people, "record")
    return (
        f"the table has grown by {new} since {what} was made from its {part[0]} {entry.people:,}" if part else ""
    )


def is_of(ledger: Ledger, entry: Entry, records: Records) -> bool:
    """Say whether a release was made from these very records."""
    return entry.people == len(records.values) and digest_of_records(records, ledger.salt) == entry.table


def grown_from(ledger: Ledger, entry: Entry, records: Records) -> tuple[str, slice] | None:
    """Find the records that a release was made from among more: the first so many, or the last."""
    if entry.people >= len(records.values):
        return None
    places = {"first": slice(0, entry.people), "last": slice(len(records.values) - entry.people, None)}
    return next((part for part in places.items() if is_of(ledger, entry, records.take(part[1]))), None)


def lost(ledger: Ledger, entry: Entry) -> str:
    """Say what is wrong with the folder of a release."""
    folder, cure = ledger.folder_of(entry), "(allbutone ledger add tells its new place)"
    if not folder.is_dir():
        return f"its folder {entry.place} is not there {cure}"
    try:
        same = release_digest(folder) == entry.files
    except InputError:
        same = False
    return "" if same else f"what is in {entry.place} now is not what was recorded {cure}"


def _remarks(ledger: Ledger, mine: dict[str, Path]) -> Iterator[str]:
    """Note of what was asked about what the ledger says, if it does not count or is not there."""
    for files, folder in mine.items():
        if ledger.recorded(files):
            continue
        voided = [entry for entry in ledger.releases if entry.files == files and entry.voided]
        if voided:
            entry = voided[-1]
            assert entry.voided is not None
            yield f"{folder} is release {entry.number} of the ledger, voided: {entry.voided.reason}."
        else:
            yield f"{folder} is not in the ledger; if it is given out, record it: allbutone ledger add."
