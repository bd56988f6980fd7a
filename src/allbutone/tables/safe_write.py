"""Writing so that a crash, Ctrl-C or kill -9 at any moment leaves the whole result or none of it."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from allbutone.support.errors import InputError, reason


@contextmanager
def fresh_folder(target: Path, *, ours: Callable[[Path], bool], force: bool = False) -> Iterator[Path]:
    """Yield a folder to write into; it becomes `target` only when the block ends well.

    With `force` an existing folder is replaced, but only one that is empty or of which `ours` says that this
    package made it and everything in it.
    """
    target = Path(os.path.abspath(target))
    require_free(target, ours=ours, force=force)
    with _explained(target):
        work = Path(tempfile.mkdtemp(prefix=_aside(target), dir=target.parent))
        try:
            yield work
            work.chmod(0o755)
            require_free(target, ours=ours, force=force)  # again: it may have come to be in the meantime
            _put(work, target)
        finally:
            shutil.rmtree(work, ignore_errors=True)


@contextmanager
def fresh_file(target: Path, *, force: bool = False, private: bool = False) -> Iterator[Path]:
    """Yield a path to write; it becomes `target` only when the block ends well. Private: owner only."""
    target = Path(os.path.abspath(target))
    with _explained(target):
        _require_absent(target, force)
        handle, name = tempfile.mkstemp(prefix=_aside(target), suffix=target.suffix, dir=target.parent)
        os.close(handle)
        try:
            yield Path(name)
            Path(name).chmod(0o600 if private else 0o644)
            _require_absent(target, force)
            Path(name).replace(target)
        finally:
            Path(name).unlink(missing_ok=True)


def require_free(target: Path, *, ours: Callable[[Path], bool], force: bool) -> None:
    """Refuse a folder that exists, unless `force` may replace it."""
    with _explained(target):
        if not _exists(target):
            return
        _require_absent(target, force)
        if target.is_symlink() or not target.is_dir():
            raise InputError(f"{target} is not a folder; choose another name")
        if any(target.iterdir()) and not ours(target):
            raise InputError(
                f"{target} was not made by allbutone, or holds something added since, so force=True (--force) "
                "will not replace it; choose another folder"
            )


def _require_absent(target: Path, force: bool) -> None:
    if not force and _exists(target):
        raise InputError(f"{target} exists; choose another name, or replace it with force=True (--force)")


def _exists(target: Path) -> bool:
    try:
        target.lstat()
    except FileNotFoundError:
        return False
    return True


def _put(work: Path, target: Path) -> None:
    """Rename `work` to `target`; what is there is moved aside first, and back if that fails."""
    if not _exists(target):
        work.rename(target)
        return
    # two renames: between them there is no release, never half of one
    old = Path(tempfile.mkdtemp(prefix=_aside(target), dir=target.parent)) / "old"
    try:
        target.rename(old)
        work.rename(target)
    finally:
        if not _exists(target):
            old.rename(target)
        shutil.rmtree(old.parent, ignore_errors=True)


def _aside(target: Path) -> str:
    return f".{target.name[:40]}.partial-"


@contextmanager
def _explained(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {target}: {reason(error)}; nothing was written; free space or choose another place"
        ) from error
