"""Work on a Dask cluster that is there: the same blocks, the same numbers, on more machines."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from typing import Any

from allbutone.support import parallel
from allbutone.support.errors import InputError

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
        with parallel.sending(lambda work, jobs, watch: _sent(client, work, jobs, watch)):
            yield
    finally:
        client.close()


def _client(address: str) -> Any:
    try:
        distributed = import_module("distributed")
    except ModuleNotFoundError as error:
        cure = 'install it: pip install "allbutone[dask]"'
        raise InputError("what speaks with a Dask cluster is not installed", cure) from error
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
    futures = [client.submit(_done, shared, job, pure=False, retries=MOST_DEATHS) for job in jobs]
    places = {future.key: place for place, future in enumerate(futures)}
    results: list[Any] = [None] * len(jobs)
    try:
        for future in distributed.as_completed(futures, loop=client.loop):
            found = future.result()
            results[places[future.key]] = found
            watch(found)
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


def _done(work: Callable[[Any], Any], job: Any) -> Any:
    """Do a job as a thread of `in_parallel` does, wherever this runs."""
    return parallel.as_worker(work, job)


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
