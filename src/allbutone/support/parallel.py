"""The one way to work in parallel: threads over a list of items, and none of the linear algebra's own."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from threading import Lock, local
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")

MEMORY_KEPT = 31 << 20  # just below the most that glibc learns from


def cores() -> int:
    """Return how many processor cores this process may use; nothing but speed may depend on it."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parallel(
    work: Callable[[Item], Result],
    items: Iterable[Item],
    *,
    threads: int | None = None,
    watch: Callable[[Result], None] = lambda result: None,
    anywhere: bool = False,
) -> list[Result]:
    """Return work(item) for each item, in the items' order; `threads` is the number of cores if not given.

    `watch` is called in the caller's thread with each result as it comes, in any order. The first error, of `work`
    or of `watch`, ends it all: what has begun is finished, what has not is left out.
    Inside a worker everything runs in that worker's thread: two levels of threads would wait for each other.
    `anywhere`: whether `work` changes nothing here, so that a cluster may do it where one is in use.
    """
    jobs = list(items)
    if anywhere and _away is not None and not getattr(_here, "worker", False):
        return _away(work, jobs, watch)
    count = min(threads or cores(), len(jobs))
    if len(jobs) > 1:
        keep_freed_memory()
    with one_thread():
        if count <= 1 or getattr(_here, "worker", False):
            return [_watched(work(item), watch) for item in jobs]
        with ThreadPoolExecutor(count, initializer=_become_worker) as pool:
            futures = [pool.submit(work, item) for item in jobs]
            try:
                for future in as_completed(futures):
                    watch(future.result())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
            return [future.result() for future in futures]


@cache
def keep_freed_memory() -> None:
    """Free a large piece of memory, untouched: then glibc keeps what is freed instead of handing it back.

    To get every item's arrays from the system again would be a fifth of the time of attacks on many datasets
    (benchmarks/memory.py).
    """
    np.empty(MEMORY_KEPT, dtype=np.uint8)


_here = local()


def _become_worker() -> None:
    _here.worker = True


_away: Callable[[Callable[[Any], Any], list[Any], Callable[[Any], None]], list[Any]] | None = None


@contextmanager
def sending(away: Callable[[Callable[[Any], Any], list[Any], Callable[[Any], None]], list[Any]]) -> Iterator[None]:
    """Let `away(work, items, watch)` do what may be done anywhere, in the whole process."""
    global _away
    before, _away = _away, away
    try:
        yield
    finally:
        _away = before


def as_worker(work: Callable[[Item], Result], item: Item) -> Result:
    """Return work(item) as a thread of `in_parallel` does it, in another process."""
    before = getattr(_here, "worker", False)
    _here.worker = True
    try:
        with one_thread():
            return work(item)
    finally:
        _here.worker = before


def _watched(result: Result, watch: Callable[[Result], None]) -> Result:
    watch(result)
    return result


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
