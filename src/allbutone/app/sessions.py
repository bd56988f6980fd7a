"""What a browser has uploaded or drawn: in memory, seen by that browser alone, gone when it leaves."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import Any, TypeVar

from allbutone.support.errors import InputError

GRACE = 20.0  # seconds without an open page after which a session ends: enough to go from one page to the next
MOST_HELD = 6  # tables and releases of a session; of more the one not used for longest goes
# bytes of the tables and releases of all sessions together; what is computed of them may take twice as much again
MOST_BYTES = 1_000_000_000
MOST_FOUND = 6  # results of a kind that are kept of each of them
LARGE = {"records": 2, "trial": 2}  # fewer of those that may fill the memory

Kind = TypeVar("Kind")


@dataclass(eq=False)
class Held:
    """A thing of some bytes kept for a session, with what was computed of it."""

    thing: Any
    size: int = 0
    found: dict[tuple[Any, ...], Any] = field(default_factory=dict)
    used: float = field(default_factory=time.monotonic)
    _busy: dict[tuple[Any, ...], list[Lock]] = field(default_factory=dict)
    _guard: Lock = field(default_factory=Lock)

    def get_or_compute(self, key: tuple[Any, ...], compute: Callable[[], Kind]) -> Kind:
        """Return what was computed under this key, or compute it now; nothing is computed twice at a time.

        A key begins with the kind of the result. What is asked under another key does not wait for it.
        """
        with self._alone(key):
            # used last, it goes last
            found = self.found.pop(key, self)
            found = self.found[key] = compute() if found is self else found
            alike = [other for other in list(self.found) if other[0] == key[0]]
            for old in alike[: -LARGE.get(key[0], MOST_FOUND)]:
                self.found.pop(old, None)
            return found

    @contextmanager
    def _alone(self, key: tuple[Any, ...]) -> Iterator[None]:
        """Let one thread at a time work under a key; the lock goes with the last that needs it."""
        with self._guard:
            queue = self._busy.setdefault(key, [])
            lock = queue[0] if queue else Lock()
            queue.append(lock)
        try:
            with lock:
                yield
        finally:
            with self._guard:
                queue.pop()
                if not queue:
                    del self._busy[key]


@dataclass(eq=False)
class Session:
    """One browser: its open pages, and what it keeps under names that nobody can guess."""

    held: dict[str, Held] = field(default_factory=dict)
    pages: int = 0
    seen: float = field(default_factory=time.monotonic)
    elsewhere: Callable[[], int] = lambda: 0  # the bytes that all other sessions hold

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return sum(held.size for held in list(self.held.values()))

    def keep(self, thing: Any, size: int) -> str:
        """Keep a thing of so many bytes and return its name; what was not used for longest makes room for it."""
        free = MOST_BYTES - self.elsewhere()
        if size > free:
            raise InputError(
                f"this would take {size / 1e9:.2g} GB of memory, and the app, which holds at most "
                f"{MOST_BYTES / 1e9:.2g} GB for all who use it, has {max(free, 0) / 1e9:.2g} GB left",
                f"wait until others have closed their pages for {GRACE:.0f} seconds",
                "use the command line",
            )
        while self.held and (len(self.held) >= MOST_HELD or self.size + size > free):
            oldest = min(list(self.held.items()), key=lambda item: item[1].used)
            self.held.pop(oldest[0], None)
        name = secrets.token_urlsafe(9)
        self.held[name] = Held(thing, size)
        return name

    def find(self, name: str, kind: type[Kind], what: str) -> Held:
        """Return what is kept under a name, or say that it is gone."""
        held = self.held.get(name)
        if held is None or not isinstance(held.thing, kind):
            raise InputError(
                f"{what} is not here (any more): what is uploaded or drawn belongs to one browser, which keeps "
                f"the last {MOST_HELD}, and is gone when its pages are closed",
                "upload or draw it again",
            )
        held.used = time.monotonic()
        return held


class Sessions:
    """All sessions by their secret token."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._by_token: dict[str, Session] = {}
        self._clock = clock

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._by_token)

    def open(self, token: str | None) -> tuple[str, Session]:
        """Return the session of a token, a new one where there is none."""
        if token is None or token not in self._by_token:
            token = secrets.token_urlsafe(24)
            self._by_token[token] = Session(elsewhere=partial(self._bytes_but_of, token))
        session = self._by_token[token]
        session.seen = self._clock()
        return token, session

    def _bytes_but_of(self, token: str) -> int:
        return sum(session.size for other, session in list(self._by_token.items()) if other != token)

    def leave(self, session: Session) -> None:
        """Note that a page was closed just now."""
        session.pages -= 1
        session.seen = self._clock()

    def sweep(self) -> None:
        """End the sessions whose pages are all closed."""
        now = self._clock()
        for token, session in list(self._by_token.items()):
            if session.pages == 0 and now - session.seen > GRACE:
                del self._by_token[token]
