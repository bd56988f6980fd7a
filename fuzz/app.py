"""The app asked directly, without a network: one request, one answer."""

import asyncio
import io
import json
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from allbutone.support.errors import InputError
from fuzz.seeds import MIXED, TABLE

OTHERS = ("/", "/explore", "/data", "/release", "/studies", "/static/page.js", "/static/../server.py", "/glossary")
FIELDS = {  # of a table's columns, and what is looked at; the rest of a page's fields are known to the page
    "data": ("columns=bmi", "columns=ldl", "kind-1=measured", "scale-1=log", "low-2=0", "decimals-1=2",
             "keep-1=yes", "centre-1=0", "spread-1=1", "levels-4=f,m", "count=2", "rows=10"),
    "release": ("columns=bmi", "columns=ldl", "datasets=2", "rows=10"),
    "studies": ("study=study", "figure=exposure", "p=2", "release=datasets", "verdict=agrees"),
}  # fmt: skip


class Reply(NamedTuple):
    """What the app answered, what it wrote to the terminal meanwhile, and the cookie of the session."""

    status: int
    body: bytes
    errors: str
    cookie: bytes

    def result(self) -> dict[str, Any]:
        """Return the answer's last line, a refusal as such; a fault of the app's own is no answer."""
        went_wrong = self.status >= 500 or b"Something went wrong in the app" in self.body or self.errors
        assert not went_wrong, (self.status, self.errors[-800:] or self.body[-300:])
        try:
            told = json.loads(self.body.splitlines()[-1])
        except (ValueError, IndexError):  # a page, a file or nothing
            told = {}
        told = told if isinstance(told, dict) else {}
        if self.status >= 400 or told.get("error"):
            raise InputError(f"answered with {self.status}: {told.get('error')}")
        return told


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()  # it lasts as long as the process


class App:
    """The app as one process has it, with what a browser has uploaded and drawn; it begins when first asked."""

    def __init__(self, valid: Path) -> None:
        self._valid, self._app, self._cookie = valid, None, b""
        self._names: dict[str, str] = {}

    def address(self, data: bytes, folder: Path) -> object:
        """Ask for an address: words kept apart by zero bytes, a first one that is not a path being the method.

        In it @table and @mixed stand for tables uploaded before, @drawn for a release drawn before.
        """
        words = [self._named(word) for word in data.decode("utf-8", "replace").split("\x00")]
        method = words.pop(0) if words[0] == "POST" else "GET"
        path, *query = words or ["/"]
        return self._ask(method, path or "/", query, cookie=self._cookie).result()

    def upload(self, data: bytes, folder: Path) -> object:
        """Send a table, and look at it as the page does."""
        reply = self._ask("POST", "/data/upload", ["name=table.csv"], data)
        name = reply.result()["fields"]["table"]
        return self._ask("GET", "/data/table", [f"table={name}"], cookie=reply.cookie).result()

    def _named(self, word: str) -> str:
        before, at, name = word.partition("=@")
        if not at or name not in ("table", "mixed", "drawn"):
            return word
        if name not in self._names:
            if name == "drawn":
                query = [self._named("table=@table"), "datasets=1", "rows=5"]
                reply = self._ask("POST", "/release/draw", query, cookie=self._cookie)
            else:
                file = {"table": TABLE, "mixed": MIXED}[name]
                content = (self._valid / file).read_bytes()
                reply = self._ask("POST", "/data/upload", [f"name={file}"], content, self._cookie)
            self._names[name] = reply.result()["fields"]["drawn" if name == "drawn" else "table"]
            self._cookie = reply.cookie or self._cookie
        return f"{before}={self._names[name]}"

    def _ask(self, method: str, path: str, query: Sequence[str], body: bytes = b"", cookie: bytes = b"") -> Reply:
        if self._app is None:
            from allbutone.app.page import Settings
            from allbutone.app.server import create_app

            self._app = create_app(Settings(studies=(self._valid / "study",)))
        pairs = [each.partition("=")[::2] for each in query]
        headers = [(b"host", b"127.0.0.1"), *([(b"cookie", cookie)] if cookie else [])]
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path,
            "root_path": "", "raw_path": quote(path).encode(), "headers": headers,
            "query_string": urlencode(pairs, errors="replace").encode(), "server": ("127.0.0.1", 80),
            "client": ("127.0.0.1", 1), "asgi": {"version": "3.0"},
        }  # fmt: skip
        with redirect_stderr(io.StringIO()) as errors:
            status, given, content = self._completed(_answer(self._app, scope, body))
        return Reply(status, content, errors.getvalue(), given.get(b"set-cookie", b"").partition(b";")[0])

    @staticmethod
    def _completed(work: Coroutine[Any, Any, Any]) -> Any:
        run = _loop().run_until_complete
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return run(work)
        with ThreadPoolExecutor(1) as other:  # where a browser's test holds this thread's loop
            return other.submit(run, work).result()


async def _answer(app: Any, scope: dict[str, Any], body: bytes) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(3600)  # the browser stays
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await app(scope, receive, send)
    parts = [message.get("body", b"") for message in sent if message["type"] == "http.response.body"]
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(parts)


def addresses() -> tuple[bytes, ...]:
    """Return every address of every page, with its fields as they begin, of every table."""
    return tuple("\x00".join(words).encode() for words in (*([path] for path in OTHERS), *_with_fields()))


def _with_fields() -> Iterator[list[str]]:
    from allbutone.app.forms import every
    from allbutone.app.server import PAGES

    for page in PAGES:
        begun = [f"{name}={field.default}" for name, field in every(page.groups).items()]
        for table in ("cohort", "@table", "@mixed"):
            fields = [*(word for word in begun if not word.startswith(("table=", "drawn="))), f"table={table}"]
            drawn = ["drawn=@drawn"] if page.name == "release" else []
            for name in (*page.answers, *page.files):
                yield [f"/{page.name}/{name}", *fields, *drawn]
                yield [f"/{page.name}/{name}", f"table={table}", *FIELDS.get(page.name, ()), *drawn]
            for name in (*page.takes, *page.acts):
                yield ["POST", f"/{page.name}/{name}", *fields, "name=table.csv"]
