"""Writing so that a crash, Ctrl-C or kill -9 at any moment leaves the whole result or none of it."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from allbutone.errors import InputError


@contextmanager
def fresh_folder(target: Path, *, marker: str, force: bool = False) -> Iterator[Path]:
    """Yield a folder to write into; it becomes `target` only when the block ends well.

    With `force` an existing folder is replaced, but only one that is empty or holds the file `marker`, which
    shows that this package made it.
    """
    target = Path(os.path.abspath(target))
    if target.exists() or target.is_symlink():
        _check_replaceable(target, marker, force)
    aside = _aside(target)
    try:
        work = Path(tempfile.mkdtemp(prefix=aside, dir=target.parent))
    except OSError as error:
        raise InputError(f"cannot write into {target.parent}: {error.strerror}") from error
    try:
        yield work
        work.chmod(0o755)
        if target.exists():
            # two renames: between them there is no release, never half of one
            old = Path(tempfile.mkdtemp(prefix=aside, dir=target.parent))
            target.rename(old / "old")
            work.rename(target)
            shutil.rmtree(old)
        else:
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def fresh_file(target: Path, *, force: bool = False, private: bool = False) -> Iterator[Path]:
    """Yield a path to write; it becomes `target` only when the block ends well. Private: owner only."""
    target = Path(os.path.abspath(target))
    if target.exists() and not force:
        raise InputError(f"{target.name} exists; choose another name or use --force")
    try:
        handle, name = tempfile.mkstemp(prefix=_aside(target), suffix=target.suffix, dir=target.parent)
    except OSError as error:
        raise InputError(f"cannot write into {target.parent}: {error.strerror}") from error
    os.close(handle)
    try:
        yield Path(name)
        Path(name).chmod(0o600 if private else 0o644)
        Path(name).replace(target)
    finally:
        Path(name).unlink(missing_ok=True)


def _aside(target: Path) -> str:
    return f".{target.name}.partial-"


def _check_replaceable(target: Path, marker: str, force: bool) -> None:
    if not force:
        raise InputError(f"{target} exists; choose another folder or use --force")
    if target.is_symlink() or not target.is_dir():
        raise InputError(f"{target} is not a folder; choose another name")
    if any(target.iterdir()) and not (target / marker).is_file():
        raise InputError(
            f"{target} holds no {marker}, so it was not made by allbutone and --force will not replace it; "
            "choose another folder"
        )
