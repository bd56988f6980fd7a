"""Work beside the server's loop: quick answers at once, slow ones with their progress, unwanted ones dropped."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event

import anyio
from starlette.responses import Response, StreamingResponse

from allbutone.app.answer import Answer, Download
from allbutone.app.fields import FieldError
from allbutone.errors import InputError

PATIENCE = 0.4  # seconds before progress is shown
MEDIA = "application/x-ndjson"


class Unwanted(Exception):
    """Nobody waits for this answer any more."""


@dataclass(eq=False)
class Progress:
    """How far a job is: the name of its step, and its parts done of how many."""

    step: str = "Working"
    done: int = 0
    parts: int | None = None
    unwanted: Event = field(default_factory=Event)

    @contextmanager
    def __call__(self, step: str, parts: int | None) -> Iterator[Callable[[int], None]]:
        """Open a step; what it yields counts the parts done, and ends the job if nobody waits for it."""
        self.step, self.done, self.parts = step, 0, parts
        self._go_on()
        yield self._count

    def _count(self, done: int) -> None:
        self.done += done
        self._go_on()

    def _go_on(self) -> None:
        if self.unwanted.is_set():
            raise Unwanted

    def to_json(self) -> str:
        """Return one line."""
        return json.dumps({"step": self.step, "done": self.done, "parts": self.parts}) + "\n"


class Desk:
    """Where jobs are done: as many at once as there are cores, and slow ones never on all of them."""

    def __init__(self) -> None:
        cores = os.cpu_count() or 1
        self._quick = anyio.CapacityLimiter(cores)
        self._slow = anyio.CapacityLimiter(max(1, cores - 1))

    async def answer(
        self, work: Callable[[Progress], Answer], slow: bool, patience: float | None = PATIENCE
    ) -> Response:
        """Return the answer, or, where it takes longer than `patience`, a stream of progress that ends with it."""
        progress, start = Progress(), time.perf_counter()
        task = asyncio.create_task(self._run(work, progress, slow))
        await asyncio.wait({task}, timeout=patience)
        if not task.done():
            return StreamingResponse(_lines(task, progress), media_type=MEDIA)
        line, status = task.result()
        timing = {"Server-Timing": f"answer;dur={1000 * (time.perf_counter() - start):.1f}"}
        return Response(line, status, timing, MEDIA)

    async def download(self, work: Callable[[Progress], Download]) -> Response:
        """Return a file."""
        file = await anyio.to_thread.run_sync(work, Progress(), limiter=self._slow)
        return file.response()

    async def _run(self, work: Callable[[Progress], Answer], progress: Progress, slow: bool) -> tuple[str, int]:
        """Return the answer's line and its status; what cannot be used is answered in words."""

        def job() -> tuple[str, int]:
            try:
                return work(progress).to_json(), 200
            except InputError as error:
                return refusal(error), 422
            except MemoryError:
                return refusal(InputError("not enough memory for this; ask for less")), 422
            except Unwanted:
                return "", 204

        return await anyio.to_thread.run_sync(job, limiter=self._slow if slow else self._quick)


def refusal(error: InputError) -> str:
    """Return why something cannot be done, and which field to correct, as a line."""
    return json.dumps({"error": str(error), "field": error.name if isinstance(error, FieldError) else None}) + "\n"


async def _lines(task: "asyncio.Task[tuple[str, int]]", progress: Progress) -> AsyncIterator[str]:
    try:
        while not task.done():
            yield progress.to_json()
            await asyncio.wait({task}, timeout=0.25)
        yield task.result()[0]
    finally:
        progress.unwanted.set()
