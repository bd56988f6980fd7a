"""A lock on a file, so that two programs that change it do so one after the other."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
