"""The app asked directly, without a network: one request, one answer."""

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote, urlencode

_KEPT: dict[str, Any] = {}


def ask(method: str, path: str, query: Sequence[str] = (), body: bytes = b"") -> tuple[int, bytes]:
    """Return status and body of what the app answers."""
    if not _KEPT:
        from allbutone.app.page import Settings
        from allbutone.app.server import create_app

        _KEPT.update(app=create_app(Settings()), loop=asyncio.new_event_loop())
    pairs = [each.partition("=")[::2] for each in query]
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "scheme": "http", "path": path, "root_path": "",
        "raw_path": quote(path).encode(), "query_string": urlencode(pairs, errors="replace").encode(),
        "headers": [(b"host", b"127.0.0.1")], "server": ("127.0.0.1", 80), "client": ("127.0.0.1", 1),
        "asgi": {"version": "3.0"},
    }  # fmt: skip
    return _completed(_answer(scope, body))


def _completed(work: Coroutine[Any, Any, tuple[int, bytes]]) -> tuple[int, bytes]:
    run = _KEPT["loop"].run_until_complete
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return run(work)
    with ThreadPoolExecutor(1) as other:  # where a browser's test holds this thread's loop
        return other.submit(run, work).result()


async def _answer(scope: dict[str, Any], body: bytes) -> tuple[int, bytes]:
    sent: list[dict[str, Any]] = []
    waiting = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if waiting:
            return waiting.pop()
        await asyncio.sleep(3600)  # the browser stays
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await _KEPT["app"](scope, receive, send)
    parts = [message.get("body", b"") for message in sent if message["type"] == "http.response.body"]
    return sent[0]["status"], b"".join(parts)
