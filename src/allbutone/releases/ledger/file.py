"""The ledger's file beside the table: read, and changed by one program at a time, whole or not at all."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from allbutone.releases.description import MANIFEST, read_json
from allbutone.releases.ledger.digests import digest_of_declaration, digest_of_files, digest_of_records
from allbutone.releases.ledger.entries import ADDED, Entry, Ledger, Terms, Voided, ledger_from
from allbutone.support.errors import Cure, InputError, reason
from allbutone.tables.file_lock import locked
from allbutone.tables.records import Records
from allbutone.tables.safe_read import read_text
from allbutone.tables.safe_write import fresh_file

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
    >>> abo.save_release(abo.NIWSynthesizer().fit(cohort).sample(datasets=1), "release")
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
    >>> abo.save_release(abo.NIWSynthesizer().fit(cohort).sample(datasets=1), "release")
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
