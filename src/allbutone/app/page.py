"""A page: what can be asked on it, who answers, what can be taken home, and what this browser has uploaded."""

import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import QueryParams

from allbutone.app.forms import Group, takes
from allbutone.app.jobs import Answer, Download, Progress
from allbutone.releases.ledger import ENDING
from allbutone.reports.glossary import GLOSSARY
from allbutone.support.errors import InputError
from allbutone.support.text import chance, listed, number

GRACE = 20.0  # seconds without an open page after which a session ends: enough to go from one page to the next
MOST_HELD = 6  # tables and releases of a session; of more the one not used for longest goes
# bytes of the tables and releases of all sessions together; what is computed of them may take twice as much again
MOST_BYTES = 1_000_000_000
MOST_FOUND = 6  # results of a kind that are kept of each of them
LARGE = {"records": 2, "trial": 2}  # fewer of those that may fill the memory

Kind = TypeVar("Kind")


@dataclass(eq=False)
class Held:
    """What is kept for a session, with what was computed of it."""

    value: Any
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
    draws: Counter[str] = field(default_factory=Counter)  # releases of each table that were drawn
    elsewhere: Callable[[], int] = lambda: 0  # the bytes that all other sessions hold

    @property
    def size(self) -> int:
        """How many bytes it holds."""
        return sum(held.size for held in list(self.held.values()))

    def keep(self, value: Any, size: int) -> str:
        """Keep something of so many bytes and return its name; what was not used for longest makes room for it."""
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
        self.held[name] = Held(value, size)
        return name

    def find(self, name: str, kind: type[Kind], what: str) -> Held:
        """Return what is kept under a name, or say that it is gone."""
        held = self.held.get(name)
        if held is None or not isinstance(held.value, kind):
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


MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Settings:
    """What the app was started with; `ledgers` are of tables, each known by its name."""

    upload_limit: int = 200 * MEGABYTE
    studies: tuple[Path, ...] = ()
    ledgers: tuple[Path, ...] = ()

    def ledger_of(self, table: str) -> Path | None:
        """Return the ledger of a table of this name, if the app was told of one."""
        return next((path for path in self.ledgers if path.name == f"{table}{ENDING}"), None)


@dataclass(frozen=True)
class RequestContext:
    """Where a question is asked: whose browser, and in which app."""

    session: Session
    settings: Settings


Ask = Callable[[QueryParams, RequestContext, Progress], Answer]
Fetch = Callable[[QueryParams, RequestContext, Progress], Download]
Take = Callable[[QueryParams, RequestContext, Path], Answer]
Act = Callable[[QueryParams, Mapping[str, str], RequestContext, Progress], Answer]


@dataclass(frozen=True)
class Source:
    """One answer of a page: who gives it, and the fields that it depends on, which alone are sent.

    It is asked for whenever one of them changes; with `later` only once the others are drawn. `slow` ones leave a
    core to the quick.
    """

    ask: Ask
    fields: tuple[str, ...]
    slow: bool = False
    later: bool = False


@dataclass(frozen=True)
class Preset:
    """A setting worth seeing: its name, what it shows, and the fields that differ from what is usual."""

    name: str
    words: str
    fields: Mapping[str, str]


@dataclass(frozen=True)
class Page:
    """One page of the app: its answers, its files, and what a body of bytes can be sent to, by name.

    `acts` change something: they are asked by POST with a short form.
    The template has the page's name; `carried` are the fields that links to other pages take along; `step`: which
    one of the path it is, 0 for what stands beside it.
    """

    name: str
    title: str
    groups: tuple[Group, ...]
    answers: Mapping[str, Source] = field(default_factory=dict)
    files: Mapping[str, Fetch] = field(default_factory=dict)
    takes: Mapping[str, Take] = field(default_factory=dict)
    acts: Mapping[str, Act] = field(default_factory=dict)
    carried: tuple[str, ...] = ()
    presets: tuple[Preset, ...] = ()
    step: int = 0

    @property
    def sources(self) -> list[dict[str, Any]]:
        """What the page's script has to know of the answers, in the order in which they are asked for."""
        return [{"path": name, "fields": one.fields, "later": one.later} for name, one in self.answers.items()]


templates: Environment = Environment(
    loader=PackageLoader("allbutone.app"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


def _link(page: Page, other: Page, query: QueryParams, preset: Preset | None = None) -> str:
    """Return the address of another page, or of a preset of this one, with what is taken along from here."""
    both = set(page.carried) & set(other.carried)
    taken = [(name, text) for name, text in query.multi_items() if takes(both, name)]
    taken += preset.fields.items() if preset else ()
    return f"/{other.name}" + (f"?{urlencode(taken)}" if taken else "")


templates.globals["GLOSSARY"] = GLOSSARY
templates.filters |= {
    "number": number,
    "chance": chance,
    "listed": listed,
    "link": _link,
}


def piece(template: str, **content: object) -> str:
    """Return a piece of HTML; names and values in it are escaped."""
    return templates.get_template(template).render(content)
