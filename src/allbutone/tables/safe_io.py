"""Files are read with care, whatever they are, and written whole or not at all, by one program at a time."""

import ctypes
import errno
import json
import os
import shutil
import stat
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

from allbutone.support.errors import Cure, InputError, reason

# Writing so that a crash, Ctrl-C, kill -9 or power cut at any moment leaves the whole result or none of it.
#
# What is new is written aside, flushed to the disk and only then put under its name. Folders change places in one
# step where the system can do that; where it cannot, the old one is moved aside first, and whoever next asks for
# it after a crash in between puts it back (`restore_replaced`).


_REPLACE = Cure("replace it", "force", True)
MANY_FILES = 100  # one by one they take about 5 ms each; beyond so many the whole file system is flushed at once
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2  # of renameat2(2)
_CANNOT_EXCHANGE = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


@contextmanager
def fresh_folder(
    target: Path,
    *,
    ours: Callable[[Path], bool],
    force: bool = False,
    finished: Callable[[Path], object] = lambda work: None,
) -> Iterator[Path]:
    """Yield a folder to write into; it becomes `target` only when the block ends well.

    With `force` an existing folder is replaced, but only one that is empty or of which `ours` says that this
    package made it and everything in it. `finished` sees the folder as the last thing before it becomes `target`,
    when nothing is left to do that takes time.
    """
    target = Path(os.path.abspath(target))
    require_free(target, ours=ours, force=force)
    with _explained(target):
        work = Path(tempfile.mkdtemp(prefix=_aside(target), dir=target.parent))
        try:
            yield work
            work.chmod(0o755)
            _flush_tree(work)
            require_free(target, ours=ours, force=force)  # again: it may have come to be in the meantime
            finished(work)
            _put(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def fresh_files(targets: Sequence[Path], *, force: bool = False, private: bool = False) -> Iterator[list[Path]]:
    """Yield a path to write for each target; they become the targets only when the block ends well.

    Private: only the owner may read them.
    """
    targets = [Path(os.path.abspath(target)) for target in targets]
    work: list[Path] = []
    with _explained(targets[0]):
        try:
            for target in targets:
                _require_place(target, force)
                handle, name = tempfile.mkstemp(prefix=_aside(target), suffix=target.suffix, dir=target.parent)
                os.close(handle)
                work.append(Path(name))
            yield work
            for path, target in zip(work, targets, strict=True):
                path.chmod(0o600 if private else 0o644)
                _flush(path)
                _require_place(target, force)
            for path, target in zip(work, targets, strict=True):
                path.replace(target)
                _flush(target.parent)
        finally:
            for path in work:
                path.unlink(missing_ok=True)


@contextmanager
def fresh_file(target: Path, *, force: bool = False, private: bool = False) -> Iterator[Path]:
    """Yield a path to write; it becomes `target` only when the block ends well. Private: owner only."""
    with fresh_files([target], force=force, private=private) as [path]:
        yield path


def require_free(target: Path, *, ours: Callable[[Path], bool], force: bool) -> None:
    """Refuse a folder that exists, unless `force` may replace it."""
    restore_replaced(target)
    with _explained(target):
        if not _exists(target):
            return
        _require_absent(target, force)
        if target.is_symlink() or not target.is_dir():
            raise InputError(f"{target} is not a folder", "choose another name")
        if any(target.iterdir()) and not ours(target):
            raise InputError(
                f"{target} was not made by allbutone, or holds something added since, so it cannot be replaced",
                "choose another folder",
            )


def require_distinct(outputs: Sequence[Path], inputs: Sequence[Path | None]) -> None:
    """Refuse to write over what is read: an output that is an input by any name, or a folder that holds one."""
    for output in outputs:
        for given in inputs:
            if given is None:
                continue
            place, source = Path(os.path.realpath(output)), Path(os.path.realpath(given))
            # os.path, since Path.exists fails at a name that is too long, of which who writes it tells more
            both = os.path.exists(place) and os.path.exists(source)
            if source == place or (both and place.samefile(source)):
                raise InputError(f"{output} is the same file as the input {given}", "choose another name")
            if source.is_relative_to(place):
                raise InputError(
                    f"the input {given} lies inside {output}, which would be replaced", "choose another folder"
                )


def require_outside(out: Path, release_dir: Path) -> None:
    """Refuse to write what is confidential into the folder that goes out."""
    if Path(os.path.realpath(out)).is_relative_to(os.path.realpath(release_dir)):
        raise InputError(
            f"{out} lies in {release_dir}, which is to be released, and this file is confidential",
            Cure("name another place", "out"),
        )


def restore_replaced(target: Path) -> None:
    """Put a folder back under its name that a run, killed while it replaced it, had moved aside."""
    target = Path(os.path.abspath(target))
    with _explained(target):
        if _exists(target) or not target.parent.is_dir():
            return
        for aside in target.parent.iterdir():
            if aside.name.startswith(_moved(target)) and aside.is_dir() and _exists(aside / target.name):
                (aside / target.name).rename(target)
                shutil.rmtree(aside, ignore_errors=True)
                return


def _require_place(target: Path, force: bool) -> None:
    _require_absent(target, force)
    if target.is_dir():
        raise InputError(f"{target} is a folder, where a file is to be written", "choose another name")


def _require_absent(target: Path, force: bool) -> None:
    if not force and _exists(target):
        raise InputError(f"{target} exists", "choose another name", _REPLACE)


def _exists(target: Path) -> bool:
    """Say whether something has this name; unlike os.path.lexists, fail where no name can be that long."""
    try:
        target.lstat()
    except FileNotFoundError:
        return False
    return True


def _put(work: Path, target: Path) -> None:
    """Rename `work` to `target`; what was there before is found in `work`, or is gone."""
    if not _exists(target):
        work.rename(target)
    elif not _exchange(work, target):
        _exchange_by_steps(work, target)
    _flush(target.parent)


def _exchange(one: Path, other: Path) -> bool:
    """Let two folders change places in one step; say whether the system can."""
    rename = _libc_function("renameat2")  # glibc has it since 2018
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _CANNOT_EXCHANGE:  # some file systems cannot
        return False
    raise OSError(code, os.strerror(code), str(other))


def _exchange_by_steps(work: Path, target: Path) -> None:
    """Move what is there aside, `work` to its place, and remove the former; back if that fails."""
    aside = Path(tempfile.mkdtemp(prefix=_moved(target), dir=target.parent))
    old = aside / target.name
    try:
        target.rename(old)
        work.rename(target)
    finally:
        if not _exists(target):
            old.rename(target)
        shutil.rmtree(aside, ignore_errors=True)


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    folder = path.is_dir()
    if folder and os.name != "posix":  # elsewhere folders cannot be opened
        return
    handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
    try:
        os.fsync(handle)
    except OSError as error:
        if not folder or error.errno != errno.EINVAL:  # some network drives keep no folders to flush
            raise
    finally:
        os.close(handle)


def _flush_tree(folder: Path) -> None:
    if sum(len(names) for _, _, names in os.walk(folder)) > MANY_FILES and _flush_file_system(folder):
        return
    for place, _, names in os.walk(folder):
        for name in names:
            _flush(Path(place, name))
        _flush(Path(place))


def _flush_file_system(folder: Path) -> bool:
    """Wait until all that was written to the folder's file system is on the disk; say whether the system can."""
    flush = _libc_function("syncfs")
    if flush is None:
        return False
    handle = os.open(folder, os.O_RDONLY)
    try:
        if flush(handle) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))
    finally:
        os.close(handle)
    return True


def _libc_function(name: str) -> Any:
    """Return a function of Linux that Python does not offer, or None."""
    return getattr(ctypes.CDLL(None, use_errno=True), name, None) if sys.platform.startswith("linux") else None


def _aside(target: Path) -> str:
    return f".{target.name[:40]}.partial-"


def _moved(target: Path) -> str:
    return f".{target.name[:40]}.replaced-"


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {reason(error)}; nothing was written", "free space", "choose another place"
        ) from error


# Reading files that may be anything: a folder, a pipe that never ends, text in another encoding, bad syntax.


# what becomes of reading entries, of the right syntax, that are not as this program writes them
NOT_AS_WRITTEN = (KeyError, TypeError, ValueError, OverflowError, AttributeError)


def open_file(path: Path, cure: str) -> BufferedIOBase:
    """Open an ordinary file; refuse folders, and pipes and devices, on which reading could wait forever."""
    try:
        ordinary = stat.S_ISREG(path.stat().st_mode)
        file = path.open("rb") if ordinary else None
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}", cure) from error
    except ValueError as error:  # a name with a zero byte in it
        raise InputError(f"{str(path)!r} cannot be the name of a file", cure) from error
    if file is None:
        raise InputError(f"{path} is not an ordinary file", cure)
    return file


def read_bytes(path: Path, cure: str) -> bytes:
    """Return the content of an ordinary file."""
    with open_file(path, cure) as file:
        try:
            return file.read()
        except OSError as error:
            raise InputError(f"cannot read {path}: {reason(error)}", cure) from error


def read_text(path: Path, cure: str) -> str:
    """Return the text of an ordinary file in UTF-8."""
    try:
        return read_bytes(path, cure).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text", "save it again with UTF-8 encoding") from error


def parse(text: str, language: str, where: str) -> Any:
    """Return what the text of a file says in TOML or JSON; `where` names the file."""
    try:
        return tomllib.loads(text) if language == "TOML" else json.loads(text)
    except (ValueError, RecursionError) as error:
        fault = (
            "it is nested too deep" if isinstance(error, RecursionError) else "a number has thousands of digits"
        )
        if isinstance(error, tomllib.TOMLDecodeError | json.JSONDecodeError):
            fault = str(error)
        raise InputError(f"not valid {language}: {fault}", "correct it", where=where) from error


# A lock on a file, so that two programs that change it do so one after the other.


@contextmanager
def locked(target: Path) -> Iterator[None]:
    """Let only one program at a time read, change and write the file of this name; the others wait.

    The lock is a file beside it that the system lets go when its holder ends, however that comes.
    """
    lock = target.with_name(f".{target.name}.lock")
    handle = _hold(lock)
    try:
        yield
    finally:
        if os.name == "posix":  # elsewhere an open file cannot be removed
            lock.unlink(missing_ok=True)
        os.close(handle)


def _hold(lock: Path) -> int:
    """Open the file of a lock and wait for it."""
    while True:
        handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _wait_for(handle)
            # whoever had it before has removed it: then this is a lock that nobody else will find
            if os.name != "posix" or (lock.exists() and os.path.samestat(os.fstat(handle), lock.stat())):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _wait_for(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
