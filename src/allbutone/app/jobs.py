"""Work beside the server's loop, and what it answers: quick ones at once, slow ones with their progress."""

import asyncio
import io
import json
import re
import time
import traceback
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Any, TypeAlias

import anyio
import pyarrow as pa
import pyarrow.csv
from numpy.linalg import LinAlgError
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from allbutone.app.forms import FieldError, in_app_words
from allbutone.figures.export import typed
from allbutone.support.errors import InputError
from allbutone.support.parallel import cores


@dataclass(frozen=True)
class Answer:
    """What to put into the page: HTML by the id of its place, figures by name, values of fields to set.

    `error` says what is wrong where there is something to show all the same.
    """

    parts: Mapping[str, str] = field(default_factory=dict)
    figures: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, str | list[str]] = field(default_factory=dict)
    error: str = ""

    def to_json(self) -> str:
        """Return one line."""
        drawn = {  # figures, or their plain data and layout
            name: json.dumps(figure, default=typed) if isinstance(figure, dict) else figure.to_json()
            for name, figure in self.figures.items()
        }
        figures = ",".join(f"{json.dumps(name)}:{text}" for name, text in drawn.items())
        rest = json.dumps(
            {"parts": dict(self.parts), "fields": dict(self.fields), "error": self.error}, ensure_ascii=False
        )
        return f'{rest[:-1]},"figures":{{{figures}}}}}\n'


@dataclass(frozen=True)
class Download:
    """A file for the user."""

    name: str
    content: bytes
    media_type: str = "text/csv; charset=utf-8"

    def response(self) -> Response:
        """Return it so that a browser saves it."""
        quoted = re.sub(r"[^A-Za-z0-9_.-]", "_", self.name)
        headers = {"Content-Disposition": f'attachment; filename="{quoted}"'}
        return Response(self.content, media_type=self.media_type, headers=headers)


def as_csv(name: str, columns: Mapping[str, Sequence[Any]]) -> Download:
    """Return columns as a CSV file."""
    content = io.BytesIO()
    pyarrow.csv.write_csv(pa.table(dict(columns)), content)
    return Download(name, content.getvalue())


PATIENCE = 0.4  # seconds before progress is shown
MEDIA = "application/x-ndjson"

Result: TypeAlias = str | Download
Job: TypeAlias = "asyncio.Task[tuple[Result, int]]"


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
        self._count(0)
        yield self._count

    def _count(self, done: int) -> None:
        self.done += done
        if self.unwanted.is_set():
            raise Unwanted

    def to_json(self) -> str:
        """Return one line."""
        return json.dumps({"step": self.step, "done": self.done, "parts": self.parts}) + "\n"


class JobRunner:
    """Where jobs are done: as many at once as there are cores; slow ones, where there are several, not on all."""

    def __init__(self) -> None:
        count = cores()
        self._quick, self._files = anyio.CapacityLimiter(count), anyio.CapacityLimiter(count)
        self._slow = anyio.CapacityLimiter(max(1, count - 1))
        self._wanted: set[Progress] = set()

    async def answer(
        self, work: Callable[[Progress], Answer], slow: bool, patience: float | None = PATIENCE
    ) -> Response:
        """Return the answer, or, where it takes longer than `patience`, a stream of progress that ends with it."""
        progress, start = Progress(), time.perf_counter()
        task = self._begin(lambda: work(progress).to_json(), progress, self._slow if slow else self._quick)
        await asyncio.wait({task}, timeout=patience)
        if not task.done():
            return StreamingResponse(_lines(task, progress), media_type=MEDIA)
        timing = {"Server-Timing": f"answer;dur={1000 * (time.perf_counter() - start):.1f}"}
        return _response(*task.result(), timing)

    async def download(self, work: Callable[[Progress], Download], request: Request) -> Response:
        """Return a file, as long as someone waits for it."""
        progress = Progress()
        task = self._begin(lambda: work(progress), progress, self._files)
        while not task.done():
            await asyncio.wait({task}, timeout=0.25)
            if await request.is_disconnected():
                progress.unwanted.set()
        return _response(*task.result())

    def stop(self) -> None:
        """Let no job go on."""
        for progress in list(self._wanted):
            progress.unwanted.set()

    def _begin(self, work: Callable[[], Result], progress: Progress, limiter: anyio.CapacityLimiter) -> Job:
        """Start a job; it ends with its result and a status, what cannot be used being said in words."""

        def job() -> tuple[Result, int]:
            try:
                return work(), 200
            except InputError as error:
                return refusal(error), 422
            except LinAlgError:
                words = "these numbers are so far apart that rounding leaves nothing to compute with"
                return refusal(InputError(words, "choose milder ones")), 422
            except MemoryError:
                return refusal(InputError("there is not enough memory for this", "ask for less")), 422
            except Unwanted:
                return "", 204
            except Exception:  # whatever it is, the page must hear of it, and the terminal all about it
                if progress.unwanted.is_set():  # nobody waits: the app is being stopped, and its threads end
                    return "", 204
                traceback.print_exc()
                return refusal(InputError("Something went wrong in the app", "the terminal says what")), 500
            finally:
                self._wanted.discard(progress)

        self._wanted.add(progress)
        return asyncio.create_task(anyio.to_thread.run_sync(job, limiter=limiter))


def refusal(error: InputError) -> str:
    """Return why something cannot be done, and which field to correct, as a line."""
    field = error.name if isinstance(error, FieldError) else None
    return json.dumps({"error": error.worded(in_app_words), "field": field}) + "\n"


def _response(result: Result, status: int, headers: dict[str, str] | None = None) -> Response:
    return result.response() if isinstance(result, Download) else Response(result, status, headers, MEDIA)


async def _lines(task: Job, progress: Progress) -> AsyncIterator[str]:
    try:
        while not (task.done() or progress.unwanted.is_set()):
            yield progress.to_json()
            await asyncio.wait({task}, timeout=0.25)
        if task.done():
            yield str(task.result()[0])
    finally:
        progress.unwanted.set()
