"""The app asked directly, without a network: one request, one answer."""

import asyncio
from collections.abc import Sequence
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
    return _KEPT["loop"].run_until_complete(_answer(scope, body))


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
