"""A page: what can be asked on it, who answers, and what can be taken home from it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.datastructures import QueryParams

from allbutone.app.answer import Answer, Download
from allbutone.app.forms import Group, takes
from allbutone.app.jobs import Progress
from allbutone.app.sessions import Session
from allbutone.releases.ledger.file import ENDING
from allbutone.reports.glossary import GLOSSARY
from allbutone.support.text import at_most, chance, listed, number

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
    The template has the page's name; `carried` are the fields that links to other pages take along.
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


def _link(page: Page, other: Page, query: QueryParams) -> str:
    """Return the address of another page, with what that takes along from here."""
    both = set(page.carried) & set(other.carried)
    taken = [(name, text) for name, text in query.multi_items() if takes(both, name)]
    return f"/{other.name}" + (f"?{urlencode(taken)}" if taken else "")


def _preset_link(page: Page, preset: Preset, query: QueryParams) -> str:
    """Return the address of a preset, with what other pages take along from here."""
    kept = [(name, text) for name, text in query.multi_items() if takes(page.carried, name)]
    return f"/{page.name}?{urlencode([*kept, *preset.fields.items()])}"


templates.globals["GLOSSARY"] = GLOSSARY
templates.filters |= {
    "number": number,
    "chance": chance,
    "at_most": at_most,
    "listed": listed,
    "link": _link,
    "preset_link": _preset_link,
}


def piece(template: str, **content: object) -> str:
    """Return a piece of HTML; names and values in it are escaped."""
    return templates.get_template(template).render(content)
