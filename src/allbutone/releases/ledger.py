"""The ledger of a table: what was released of it, kept in a file beside it, and all of it taken together."""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from allbutone.releases.description import MANIFEST
from allbutone.releases.folder import load_release, release_of
from allbutone.releases.ledger_file import (
    ADDED,
    DRAWN,
    Entry,
    Judged,
    Terms,
    Voided,
    description_of,
    digest_of_declaration,
    digest_of_records,
    digest_of_release,
    ledger_content,
    ledger_text,
)
from allbutone.releases.several import Part, Released, Releases, drawn_twice, parts_of, prints_of
from allbutone.support.errors import Cure, InputError, reason
from allbutone.support.text import counted, listed
from allbutone.tables.records import Records
from allbutone.tables.safe_io import fresh_file, locked, read_text

ENDING = ".ledger.toml"
# a command asks for the ledger in several places; as long as its text is the same, so is what it says
_content = lru_cache(maxsize=4)(ledger_content)


@dataclass(frozen=True, kw_only=True)
class Ledger:
    """All that was recorded of a table's releases, in order; `path` is where it is kept.

    salt: random bytes in hexadecimal that go into the digests of the table. limit: a declared total guarantee.
    What changes it writes the file, while nobody else does, and returns the ledger as it is then.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> abo.save_release(abo.Synthesizer().fit(cohort).sample(datasets=1), "release")
    >>> ledger = abo.Ledger.of("cohort.csv")  # beside the table; empty as long as nothing is recorded
    >>> ledger.path.name, len(ledger.releases)
    ('cohort.csv.ledger.toml', 0)
    >>> ledger = ledger.record(cohort, "release")
    >>> ledger.void(1, "drawn, never given out").releases[0].counts
    False
    """

    path: Path
    salt: str = field(default_factory=lambda: secrets.token_hex(16))
    releases: tuple[Entry, ...] = ()
    limit: Terms | None = None

    @classmethod
    def of(cls, table: str | Path) -> "Ledger":
        """Return the ledger of a table: beside it, under its name."""
        return cls.at(cls.place_of(table))

    @classmethod
    def at(cls, path: str | Path) -> "Ledger":
        """Return the ledger kept in this file; an empty one where there is no such file."""
        path = Path(path)
        if not os.path.lexists(path):
            return cls(path=path)
        salt, limit, releases = _content(read_text(path, "let it be readable"), str(path))
        return cls(path=path, salt=salt, releases=releases, limit=limit)

    @staticmethod
    def place_of(table: str | Path) -> Path:
        """Return where the ledger of a table is kept; two names of one file have one ledger."""
        return Path(f"{os.path.realpath(table)}{ENDING}")

    @property
    def is_there(self) -> bool:
        """Whether there is such a file."""
        return os.path.lexists(self.path)

    @property
    def counted(self) -> tuple[Entry, ...]:
        """The entries that were not voided."""
        return tuple(entry for entry in self.releases if entry.counts)

    @property
    def draws_in_words(self) -> str:
        """How often the table was drawn from so far, and how many of these releases were given out."""
        times, out = len(self.releases), len(self.counted)
        if not times:
            return "Drawn so far: never."
        kept = f", {times - out:,} not" if times > out else ""
        return f"Drawn so far: {'once' if times == 1 else f'{times:,} times'} ({out:,} given out{kept})."

    def entry(self, number: int) -> Entry:
        """Return the entry of this number."""
        for entry in self.releases:
            if entry.number == number:
                return entry
        has = f"its releases are numbered 1 to {len(self.releases)}" if self.releases else "it has none yet"
        raise InputError(f"{self.path.name} has no release {number}", has)

    def entry_of(self, folder: str | Path) -> Entry | None:
        """Return the entry that counts of the release in this folder, if there is one."""
        return self._recorded(digest_of_release(Path(folder)))

    def _recorded(self, files: str) -> Entry | None:
        return next((entry for entry in self.counted if entry.files == files), None)

    def folder_of(self, entry: Entry) -> Path:
        """Return where the release was, as seen from here."""
        return self.path.parent / entry.place

    def lost(self, entry: Entry) -> str:
        """Say what is wrong with the folder of a release."""
        folder, cure = self.folder_of(entry), "(allbutone ledger add tells its new place)"
        if not folder.is_dir():
            return f"its folder {entry.place} is not there {cure}"
        try:
            same = digest_of_release(folder) == entry.files
        except InputError:
            same = False
        return "" if same else f"what is in {entry.place} now is not what was recorded {cure}"

    def record(
        self,
        records: Records,
        folder: str | Path,
        *,
        how: str = ADDED,
        place: Path | None = None,
        guarantee: Terms | None = None,
        table_file: Path | None = None,
        check: Callable[["Ledger"], None] = lambda ledger: None,
    ) -> "Ledger":
        """Record the release in this folder, or give one that is recorded already its new place.

        The records are those it was made from, in its columns. place: where the folder will be, if it lies aside
        now. table_file: what was declared of the table, so that it need not be named again. check: raises where
        the ledger, as it is when nobody else writes it, does not allow one more.
        """
        folder = Path(folder)
        manifest, files = description_of(folder), digest_of_release(folder)
        where = self._seen_from_here(place or folder)

        def with_entry(ledger: Ledger) -> Ledger:
            if known := ledger._recorded(files):
                return ledger._with(replace(known, place=where, guarantee=guarantee or known.guarantee))
            check(ledger)
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
                table_file=self._seen_from_here(table_file) if table_file else None,
            )
            return ledger._with(entry)

        return self._change(with_entry)

    def void(self, number: int, reason: str) -> "Ledger":
        """Say of a release that it does not count, and why: it was drawn and never given out."""
        if not reason.strip():
            raise InputError("a release is voided for a reason", "give one, such as: drawn, never given out")
        if not self.is_there:
            raise InputError(f"there is no ledger {self.path}", "record a release first (allbutone ledger add)")

        def voided(ledger: Ledger) -> Ledger:
            entry = ledger.entry(number)
            if not entry.counts:
                raise InputError(f"release {number} is voided already")
            return ledger._with(replace(entry, voided=Voided(_now(), reason.strip())))

        return self._change(voided)

    def note_drawn(
        self,
        records: Records,
        folder: str | Path,
        *,
        passed: bool | None,
        reason: str,
        place: Path,
        guarantee: Terms | None = None,
    ) -> tuple["Ledger", int]:
        """Record a release that nobody has, and its verdict, where it was read; return its number, too.

        It does not count, unless it is given out after all, and is an attempt where another is.
        """
        noted = self.record(records, folder, how=DRAWN, place=place, guarantee=guarantee)
        noted = noted if passed is None else noted.judge([folder], passed=passed)
        number = noted.releases[-1].number
        return noted.void(number, reason), number

    def give_out(self, number: int, folder: str | Path, place: Path) -> "Ledger":
        """Say of a release that was noted when it was drawn that it counts: it is taken home in this folder."""
        files, where = digest_of_release(Path(folder)), self._seen_from_here(place)

        def with_entry(ledger: Ledger) -> Ledger:
            return ledger._with(replace(ledger.entry(number), voided=None, files=files, place=where))

        return self._change(with_entry)

    def judge(self, folders: Sequence[str | Path], *, passed: bool) -> "Ledger":
        """Record of the releases in these folders that their verdict was read; the first one stays.

        A release that was judged and is voided later was an attempt: what is given out in its place was chosen.
        """
        mine = {digest_of_release(Path(folder)) for folder in folders}

        def with_verdict(ledger: Ledger) -> Ledger:
            for entry in ledger.releases:
                if entry.files in mine and entry.judged is None:
                    ledger = ledger._with(replace(entry, judged=Judged(_now(), passed)))
            return ledger

        unread = any(entry.files in mine and entry.judged is None for entry in self.releases)
        return self._change(with_verdict) if unread else self

    def attempts_before(self, folders: Sequence[str | Path] = ()) -> tuple[Entry, ...]:
        """Return the releases that were drawn before those in these folders, judged, and not given out."""
        mine = {digest_of_release(Path(folder)) for folder in folders}
        first = min((entry.number for entry in self.releases if entry.files in mine), default=np.inf)
        return tuple(entry for entry in self.releases if entry.is_attempt and entry.number < first)

    def declare_limit(self, limit: Terms | None) -> "Ledger":
        """Declare the guarantee that all releases together must keep, or none any more."""
        return self._change(lambda ledger: replace(ledger, limit=limit))

    def require_writable(self) -> None:
        """Refuse where a ledger cannot be read or written, before anything is drawn."""
        with self._alone():
            Ledger.at(self.path)

    def _with(self, entry: Entry) -> "Ledger":
        """Return the ledger with this entry in place of that of its number, or at the end."""
        others = tuple(each for each in self.releases if each.number != entry.number)
        return replace(self, releases=tuple(sorted((*others, entry), key=lambda each: each.number)))

    def _change(self, change: Callable[["Ledger"], "Ledger"]) -> "Ledger":
        """Read, change and write the file while nobody else does; what is left as it was is not written."""
        with self._alone():
            before = Ledger.at(self.path)
            after = change(before)
            if after != before:
                # who may read it: as before or, at first, as the table beside it; else the owner alone
                known = (self.path, self.path.with_name(self.path.name.removesuffix(ENDING)))
                readers = next((each.stat().st_mode & 0o666 for each in known if each.is_file()), 0o600)
                with fresh_file(self.path, force=True, private=True) as aside:
                    aside.write_text(ledger_text(after.salt, after.limit, after.releases), encoding="utf-8")
                self.path.chmod(readers)
        return after

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the file; where that cannot be, say what can be done instead."""
        with ExitStack() as held:
            try:
                held.enter_context(locked(self.path))
            except OSError as error:
                raise InputError(
                    f"the release cannot be recorded in the ledger {self.path}: {reason(error)}",
                    Cure("keep the ledger elsewhere, and name it from now on", "ledger"),
                    Cure("record it nowhere, and keep count of the releases yourself", "no_ledger", True),
                ) from error
            yield

    def _seen_from_here(self, folder: Path) -> str:
        """Return a folder as seen from the ledger's, so that both can move together."""
        there, here = os.path.realpath(folder), os.path.realpath(self.path.parent)
        try:
            return Path(os.path.relpath(there, here)).as_posix()
        except ValueError:  # another drive
            return there

    def together(
        self,
        records: Records,
        release: Released | None = None,
        folders: Sequence[Path] = (),
        *,
        mixed: bool = False,
    ) -> "Together":
        """Put what is asked about together with all releases named here: every front end judges by this.

        records: the table as it is now, in the release's columns. folders: where the release lies, if it does.
        mixed: where nothing is asked about yet, whether the next release is of the model with categories.

        >>> import allbutone as abo
        >>> cohort = abo.demo_cohort()
        >>> release = abo.Synthesizer().fit(cohort).sample(datasets=2)
        >>> abo.Ledger.of("unreleased.csv").together(cohort, release).release is release
        True
        """
        if not self.is_there:
            return Together(records, release)
        mine = {digest_of_release(folder): folder for folder in folders}
        records, doubt = self._made_from(list(mine), records)
        known = [] if release is None else [prints_of(release)]
        parts: list[Part] = []
        used: list[Entry] = []
        left_out: list[tuple[Entry, str]] = []
        for entry in (entry for entry in self.counted if entry.files not in mine):
            like = release if release is not None or not parts else parts[0].release
            part = self._part(entry, records, like, mixed)
            if isinstance(part, Part) and part.people is not None and release is None:
                part = self._growth(entry, records)  # nothing yet is of all records
            if isinstance(part, str):
                left_out.append((entry, part))
                continue
            prints = prints_of(part.release)
            if not any(drawn_twice(prints, other) for other in known):  # else it counts already
                known.append(prints)
                used.append(entry)
                parts.append(part)
        whole = [part.release for part in parts if part.people is None]
        return Together(
            records,
            release,
            release_of(whole) if whole else None,
            tuple(part for part in parts if part.people is not None),
            tuple(used),
            tuple(left_out),
            doubt,
            tuple(self._remarks(mine)),
            self.attempts_before(folders) if release is not None else (),
        )

    def _made_from(self, asked: Sequence[str], records: Records) -> tuple[Records, str]:
        """Return the records that the releases with these files were made from, and what to say of that."""
        known = [entry for files in asked if (entry := self._recorded(files))]
        fewer = [entry for entry in known if self._place(entry, records) != ("all", slice(None))]
        if not fewer:
            return records, ""
        place = self._place(fewer[0], records)
        if place and len({entry.table for entry in known}) == 1:
            since = self._growth(fewer[0], records, f"release {fewer[0].number}")
            return records.take(place[1]), f"{since[0].upper()}{since[1:]}; judged are those."
        doubt = (
            f"Not exact: the table is not the one that release {fewer[0].number} was made from "
            f"({counted(fewer[0].people, 'record')}), and what is said here holds only for the one it was made "
            "from."
        )
        if place:
            doubt += " Name the newest release alone: those of fewer records are added as they are."
        return records, doubt

    def _part(self, entry: Entry, records: Records, like: Released | None, mixed: bool) -> Part | str:
        """Return the release of an entry, or why it cannot be judged in one with another like this."""
        if entry.columns != records.order:
            return f"it is of other columns, or in another order ({listed(entry.columns)})"
        place = self._place(entry, records)
        if place is None:
            size = counted(entry.people, "record")
            return (
                f"it was made from another table than this one ({size}), and releases of different tables do not "
                "add up"
            )
        if why := self.lost(entry):
            return why
        release = load_release(self.folder_of(entry))
        if release.noisy is not None:
            return "it has a guarantee, which is added up with others of its kind instead"
        if like is None and release.mechanism.is_normal == mixed:
            return "it was made by another model"
        if not records.schema.same_mechanism(release.schema):
            return "it was made with other scales, limits, decimals or levels"
        if like is not None and {*like.mechanism.keep} != {*release.mechanism.keep}:
            return "it keeps other columns as they are"
        which, rows = place
        return Part(release, None if which == "all" else rows)

    def _place(self, entry: Entry, records: Records) -> tuple[str, slice] | None:
        """Find the records that a release was made from: all of these, the first so many, or the last."""
        fewer, now = entry.people, len(records.values)
        places = {"all": slice(None)} if fewer == now else {}
        if fewer < now:
            places = {"first": slice(0, fewer), "last": slice(now - fewer, None)}
        for which, rows in places.items():
            if digest_of_records(records.take(rows), self.salt) == entry.table:
                return which, rows
        return None

    def _growth(self, entry: Entry, records: Records, what: str = "it") -> str:
        """Say how the table has grown since a release was made from the first or last of its records."""
        new, place = counted(len(records.values) - entry.people, "record"), self._place(entry, records)
        assert place is not None
        return f"the table has grown by {new} since {what} was made from its {place[0]} {entry.people:,}"

    def _remarks(self, mine: dict[str, Path]) -> Iterator[str]:
        """Note of what was asked about what the ledger says, if it does not count or is not there."""
        for files, folder in mine.items():
            if self._recorded(files):
                continue
            voided = [(entry, entry.voided) for entry in self.releases if entry.files == files and entry.voided]
            if voided:
                entry, how = voided[-1]
                yield f"{folder} is release {entry.number} of the ledger, voided: {how.reason}."
            else:
                yield f"{folder} is not in the ledger; if it is given out, record it: allbutone ledger add."


@dataclass(frozen=True, eq=False)
class Together:
    """What was asked about and all earlier releases that the ledger names: what an adversary has who kept it all.

    records: those that what was asked about was made from, fewer than there are now if the table has grown.
    asked: what was asked about, if anything; earlier: the other releases, as one, if any could be counted.
    fewer: releases made when the table had fewer records, each with the places of those.
    counted: the entries of all these; left_out: those that could not be counted, and why. doubt: what is wrong
    with the table. remarks: what else there is to note. attempts: the releases that were drawn before what was
    asked about, judged, and not given out.
    """

    records: Records
    asked: Released | None = None
    earlier: Released | None = None
    fewer: tuple[Part, ...] = ()
    counted: tuple[Entry, ...] = ()
    left_out: tuple[tuple[Entry, str], ...] = ()
    doubt: str = ""
    remarks: tuple[str, ...] = ()
    attempts: tuple[Entry, ...] = ()

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
            named = "; ".join(f"{entry.number}: {self._named(entry)}" for entry in self.counted)
            words.append(f"Judged together with {counted(len(self.counted), 'earlier release')} ({named}).")
        words += [
            f"Not counted: release {entry.number} ({entry.in_words}), because {why}."
            for entry, why in self.left_out
        ]
        if self.left_out:
            which = "it" if len(self.left_out) == 1 else "them"
            words.append(f"So this is not the whole sum: with {which}, more may be known than is said here.")
        return " ".join(words)

    @property
    def selection(self) -> str:
        """That this is not the first attempt, and what that tells; nothing of a first one."""
        if not self.attempts:
            return ""
        many, named = len(self.attempts), "; ".join(f"{one.number}: {one.in_words}" for one in self.attempts)
        return (
            f"This is attempt {many + 1}: {counted(many, 'release')} of the table "
            f"{'was' if many == 1 else 'were'} drawn before it, judged, and not given out ({named}). "
            "What is given out because it passed tells by that, too: values of which it would have failed are "
            "excluded, and all others gain. Within the budget "
            "hardly any release fails, and this is next to nothing; beyond it probabilities are not what they "
            "seem."
        )

    def _named(self, entry: Entry) -> str:
        of_fewer = entry.people < len(self.records.values)
        return entry.in_words + f", made when the table had {counted(entry.people, 'record')}" * of_fewer


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
    if "class_weight" in prior:
        return f"of classes, without units; {MANIFEST} has its numbers"
    weight = float(prior["mean_weight"])
    if weight == 0 and float(prior["df"]) <= -1:
        return "flat"
    return f"worth {weight:g} record{'' if weight == 1 else 's'} for the mean; {MANIFEST} has its numbers"


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)
