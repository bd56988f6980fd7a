"""The one way to work in parallel: threads over a list of items, here or on a cluster, the same numbers."""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.metadata import version
from threading import Lock, local
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from allbutone.support.errors import InputError, optional_module

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
            results = []
            for item in jobs:
                results.append(work(item))
                watch(results[-1])
            return results
        with ThreadPoolExecutor(count, initializer=partial(setattr, _here, "worker", True)) as pool:
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


_here = local()  # `worker`: whether this thread is one of `in_parallel`'s
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


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep linear algebra to one thread.

    Several would add in another order, so that a seed gave other last digits on a computer with more cores; and
    where blocks of work have threads of their own, they would wait for each other.
    In the libraries that come with NumPy and SciPy the number is the whole process's: who enters first limits it,
    who leaves last restores it.
    """
    global _inside, _limiter
    with _counting:
        if not _inside:
            _release()
            _limiter = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _counting:
            _inside -= 1
            if not _inside:
                _release()
                _limiter.restore_original_limits()


_counting, _inside = Lock(), 0  # how many have linear algebra kept to one thread
_limiter: Any = None  # what the first of them has changed


def _release() -> None:
    """Let this thread set the number; later versions of threadpoolctl heed only the thread that was first."""
    for library in _controller().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@cache
def _controller() -> ThreadpoolController:
    # finding the libraries takes longer than limiting them
    return ThreadpoolController()


# Work on a Dask cluster that is there: the same blocks, the same numbers, on more machines.


SECONDS = 10  # to wait for the scheduler
MOST_DEATHS = 10  # of workers, that a block may be tried again after


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Let the Dask cluster at this address (tcp://HOST:PORT) do what `in_parallel` may send away; None: none.

    Dask begins anew what a worker had begun when it died, and nothing else.
    """
    if address is None:
        yield
        return
    client = _client(address)
    try:
        _require_same_versions(client)
        with sending(lambda work, jobs, watch: _sent(client, work, jobs, watch)):
            yield
    finally:
        client.close()


def _client(address: str) -> Any:
    distributed = optional_module("distributed", "dask", "what speaks with a Dask cluster")
    try:
        return distributed.Client(address, timeout=SECONDS, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r:.80}", "give its address, such as tcp://HOST:8786"
        ) from error


def _sent(client: Any, work: Callable[[Any], Any], jobs: list[Any], watch: Callable[[Any], None]) -> list[Any]:
    """Return work(job) for each job, in order."""
    distributed = import_module("distributed")
    # a task, not scattered data: what a dead worker held is then made again from what the scheduler has
    shared = client.submit(_same, work, pure=False)
    futures = [client.submit(as_worker, shared, job, pure=False, retries=MOST_DEATHS) for job in jobs]
    places = {future.key: place for place, future in enumerate(futures)}
    results: list[Any] = [None] * len(jobs)
    try:
        for future in distributed.as_completed(futures, loop=client.loop):
            result = future.result()
            results[places[future.key]] = result
            watch(result)
            future.release()
    except (distributed.CancelledError, distributed.KilledWorker, OSError) as error:
        raise InputError(
            "the Dask cluster ended before the work was done", "start it again, with more workers or memory"
        ) from error
    finally:
        client.cancel(futures)
    return results


def _same(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return work


def _versions() -> list[str]:
    return [version(name) for name in ("allbutone", "numpy", "scipy")]


def _require_same_versions(client: Any) -> None:
    """Refuse workers whose numbers could have other last digits."""
    here = _versions()
    try:
        found = client.run(_versions)
    except Exception as error:  # what a worker raised, such as a missing module
        raise InputError(
            "allbutone is not installed on all workers", "install it there, in this version"
        ) from error
    if not found:
        raise InputError("the Dask cluster has no workers", "start some: dask worker tcp://HOST:8786")
    if any(versions != here for versions in found.values()):
        raise InputError(
            f"a worker has other versions of allbutone, NumPy or SciPy than {', '.join(here)}",
            "install these there",
        )
