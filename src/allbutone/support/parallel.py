"""How many threads the linear algebra itself may use."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep linear algebra to one thread.

    Several would add in another order, so that a seed gave other last digits on a computer with more cores; and
    where blocks of work have threads of their own, they would wait for each other.
    In the libraries that come with NumPy and SciPy the number is the whole process's: who enters first limits it,
    who leaves last restores it.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


class _Limit:
    """How many are inside, and what the first one has changed."""

    def __init__(self) -> None:
        self.lock, self.inside = Lock(), 0
        self.limiter: Any = None

    def enter(self) -> None:
        with self.lock:
            if not self.inside:
                _release()
                self.limiter = _controller().limit(limits=1, user_api="blas")
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                _release()
                self.limiter.restore_original_limits()


_limit = _Limit()


def _release() -> None:
    """Let this thread set the number; later versions of threadpoolctl heed only the thread that was first."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _controller() -> ThreadpoolController:
    # finding the libraries takes longer than limiting them
    return ThreadpoolController()
