"""A release as one zip file that tells nothing of the computer it was made on, and whether another one does."""

import io
import lzma
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allbutone.releases.hygiene.findings import Flaw
from allbutone.support.errors import InputError
from allbutone.tables.formats.limits import LIMITS

_AGAIN = "unpack it, and let allbutone check FOLDER --zip FILE write it again"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the first time that a zip file can tell
# what zipfile says of damage, of a password or compression that it does not know, of names that no file can have
_UNREADABLE = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError, OSError, ValueError)
_LINUX, _READABLE = 3, 0o644 << 16


def zip_release(folder: Path) -> bytes:
    """Return a folder's files as a zip file: names and content, without times, users or paths."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path in sorted(folder.iterdir()):
            about = zipfile.ZipInfo(path.name, _EPOCH)  # whatever the clock says
            about.create_system, about.external_attr = _LINUX, _READABLE
            archive.writestr(about, path.read_bytes(), zipfile.ZIP_DEFLATED, compresslevel=3)
    return content.getvalue()


@contextmanager
def unpacked(path: Path) -> Iterator[tuple[Path, list[Flaw]]]:
    """Yield a folder with an archive's files, and what the archive tells besides."""
    with tempfile.TemporaryDirectory(prefix="allbutone-") as place:
        yield Path(place), _unpack(path, Path(place))


def _unpack(path: Path, place: Path) -> list[Flaw]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            LIMITS.require(path.name, 0, 0, sum(entry.file_size for entry in entries))
            flat = [entry for entry in entries if _is_plain(entry.filename)]
            for entry in flat:
                (place / entry.filename).write_bytes(archive.read(entry))
            return list(_archive_findings(path, archive, len(entries) - len(flat)))
    except InputError:
        raise
    except _UNREADABLE as error:
        raise InputError(f"{path.name} is not a zip file that can be read ({error})", "zip it again") from error


def _is_plain(name: str) -> bool:
    """Return whether it names a file in the folder itself: nothing deeper, above or elsewhere."""
    return name not in ("", "..") and Path(name).name == name


def _archive_findings(path: Path, archive: zipfile.ZipFile, deeper: int) -> Iterator[Flaw]:
    entries = archive.infolist()
    if archive.comment or any(entry.comment for entry in entries):
        yield Flaw(path.name, "the archive holds a comment", _AGAIN)
    if any(entry.date_time != _EPOCH for entry in entries):
        yield Flaw(path.name, "the archive tells when each file was written", _AGAIN)
    if any(entry.extra for entry in entries):
        yield Flaw(path.name, "the archive holds extra fields, such as the numbers of a user and a group", _AGAIN)
    if deeper:
        yield Flaw(path.name, "the archive holds folders, whose names tell a path", _AGAIN)
    if len({entry.filename for entry in entries}) < len(entries):
        yield Flaw(path.name, "the archive holds a file twice", _AGAIN)
    told = sum(entry.compress_size for entry in entries)
    # a local header of 30 bytes, an entry of the directory of 46, both with the name, and an end of 22
    frame = sum(30 + 46 + 2 * len(entry.filename.encode()) for entry in entries) + 22
    if path.stat().st_size != told + frame and not any(entry.extra or entry.comment for entry in entries):
        yield Flaw(path.name, "the archive holds bytes that belong to none of its files", _AGAIN)
