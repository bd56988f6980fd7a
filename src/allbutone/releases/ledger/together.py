"""Everything that was released of a table, as one: what an adversary has who kept it all."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from allbutone.releases.folder import any_release_of, load_release
from allbutone.releases.joined import Prints, Released, drawn_twice, prints_of
from allbutone.releases.ledger.digests import digest_of_records
from allbutone.releases.ledger.entries import Entry, Ledger
from allbutone.releases.ledger.file import release_digest
from allbutone.releases.mixed.release import MixedRelease, mixed_prints_of
from allbutone.releases.private.release import PrivateRelease
from allbutone.support.errors import InputError
from allbutone.support.text import counted, listed
from allbutone.tables.records import Records

AReleased = Released | MixedRelease


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
    counted, left_out: the entries of these, and of those that could not be. doubt: what is wrong with the table.
    remarks: what else there is to note.
    """

    records: Records
    asked: AReleased | None = None
    earlier: AReleased | None = None
    counted: tuple[Entry, ...] = ()
    left_out: tuple[NotCounted, ...] = ()
    doubt: str = ""
    remarks: tuple[str, ...] = ()

    @property
    def release(self) -> AReleased:
        """All of it, as one release."""
        parts = [part for part in (self.asked, self.earlier) if part is not None]
        return any_release_of(parts) if len(parts) > 1 else parts[0]

    def of(self, folders: Sequence[Path]) -> list[object]:
        """Return all that is judged, by its folders or entries: first what was asked about."""
        return [*folders, *self.counted]

    @property
    def sentence(self) -> str:
        """What is judged together, for a board; nothing where the ledger names no other release."""
        words = [self.doubt] if self.doubt else []
        if self.counted:
            named = "; ".join(f"{entry.number}: {in_words(entry)}" for entry in self.counted)
            words.append(f"Judged together with {counted(len(self.counted), 'earlier release')} ({named}).")
        words += [
            f"Not counted: release {each.entry.number} ({in_words(each.entry)}), because {each.why}."
            for each in self.left_out
        ]
        if self.left_out:
            which = "it" if len(self.left_out) == 1 else "them"
            words.append(f"So this is not the whole sum: with {which}, more may be known than is said here.")
        return " ".join(words)


def in_words(entry: Entry) -> str:
    """Return what a release was, when, and where it is."""
    return f"{entry.what}, {entry.date.day} {entry.date:%B %Y}, {entry.place}"


def with_earlier(
    ledger: Ledger | None,
    records: Records,
    asked: AReleased | None = None,
    folders: Sequence[Path] = (),
    *,
    mixed: bool = False,
) -> Together:
    """Put what is asked about together with all releases in the ledger: every front end judges by this.

    records: the table as it is now, in the columns of what is asked about. folders: where that lies, if it does.
    mixed: where nothing is asked about yet, whether the next release is of the model with categories.
    """
    if ledger is None:
        return Together(records, asked)
    mine = {release_digest(folder): folder for folder in folders}
    records, doubt = _made_from(ledger, [ledger.recorded(files) for files in mine], records)
    known = [] if asked is None else [_prints(asked)]
    found: list[AReleased] = []
    used: list[Entry] = []
    left_out: list[NotCounted] = []
    for entry in (entry for entry in ledger.counted if entry.files not in mine):
        like = asked if asked is not None else next(iter(found), None)
        release = _usable(ledger, entry, records, like, mixed)
        if isinstance(release, NotCounted):
            left_out.append(release)
            continue
        prints = _prints(release)
        if not any(drawn_twice(prints, other) for other in known):  # else it counts already
            known.append(prints)
            found.append(release)
            used.append(entry)
    earlier = any_release_of(found) if found else None
    remarks = tuple(_remarks(ledger, mine))
    return Together(records, asked, earlier, tuple(used), tuple(left_out), doubt, remarks)


def _made_from(ledger: Ledger, asked: Sequence[Entry | None], records: Records) -> tuple[Records, str]:
    """Return the records that what is asked about was made from, as far as the ledger knows, and what to say."""
    for entry in asked:
        if entry is None or is_of(ledger, entry, records):
            continue
        if part := grown_from(ledger, entry, records):
            new = counted(len(records.values) - entry.people, "record")
            words = (
                f"The table has grown by {new} since release {entry.number} was made from its {part[0]} "
                f"{entry.people:,}; judged are those."
            )
            return records.take(part[1]), words
        doubt = (
            f"Not exact: the table is not the one that release {entry.number} was made from "
            f"({counted(entry.people, 'record')}), and what is said here holds only for the one it was made from."
        )
        return records, doubt
    return records, ""


def _prints(release: AReleased) -> Prints:
    return mixed_prints_of(release) if isinstance(release, MixedRelease) else prints_of(release)


def _usable(
    ledger: Ledger, entry: Entry, records: Records, like: AReleased | None, mixed: bool
) -> AReleased | NotCounted:
    """Return the release of an entry, or why it cannot be judged in one with another like this."""
    if why := _changed(ledger, entry, records) or lost(ledger, entry):
        return NotCounted(entry, why)
    release = load_release(ledger.folder_of(entry))
    if isinstance(release, PrivateRelease):
        return NotCounted(entry, "it has a guarantee, which is added up with others of its kind instead")
    if isinstance(release, MixedRelease) != (mixed if like is None else isinstance(like, MixedRelease)):
        return NotCounted(entry, "it was made by another model")
    if not records.schema.same_mechanism(release.schema):
        return NotCounted(entry, "it was made with other scales, limits, decimals or levels")
    mechanisms = [each.mechanism for each in (release, like) if isinstance(each, MixedRelease)]
    if len(mechanisms) == 2 and not mechanisms[0].same_as(mechanisms[1]):
        return NotCounted(entry, "it was made with another prior, other cells or other kept columns")
    return release


def _changed(ledger: Ledger, entry: Entry, records: Records) -> str:
    """Say what is not as it was when a release was made: the columns, or the records."""
    if entry.columns != records.order:
        return f"it is of other columns, or in another order ({listed(entry.columns)})"
    if is_of(ledger, entry, records):
        return ""
    apart = "releases of different tables are not judged in one"
    if part := grown_from(ledger, entry, records):
        new = counted(len(records.values) - entry.people, "record")
        return f"the table has grown by {new} since it was made from the {part[0]} {entry.people:,}, and {apart}"
    return f"it was made from another table than this one ({counted(entry.people, 'record')}), and {apart}"


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
