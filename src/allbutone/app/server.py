"""The server: addresses to pages, a session for each browser, headers that keep everything at home."""

import asyncio
import errno
import ipaddress
import mimetypes
import os
import socket
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from urllib.parse import parse_qsl

import plotly
import uvicorn
from plotly.offline import get_plotlyjs
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from allbutone.app.jobs import MEDIA, JobRunner, refusal
from allbutone.app.page import MEGABYTE, Act, Fetch, Page, RequestContext, Sessions, Settings, Source, Take, piece
from allbutone.app.pages import budget, decide, draw, explore, mend, studies, upload
from allbutone.support.errors import Cure, InputError, reason
from allbutone.support.parallel import one_thread

PAGES = (upload.PAGE, mend.PAGE, budget.PAGE, draw.PAGE, decide.PAGE, explore.PAGE, studies.PAGE)
JAVASCRIPT = "text/javascript"
mimetypes.add_type(JAVASCRIPT, ".js")  # some systems call it plain text, which browsers then do not run
SWEEP_SECONDS = 2.0
SHORT = 10_000  # bytes of a form
HEADERS = {
    # plotly writes styles of its own and makes pictures of them; nothing else comes from anywhere but here
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


def create_app(settings: Settings, hosts: Sequence[str] = ()) -> Starlette:
    """Return the app. It answers only requests that name one of `hosts` as their host; any, if none is given.

    A page of another site cannot make the browser ask for it under a name of its own (DNS rebinding).
    """
    sessions, jobs = Sessions(), JobRunner()

    async def sweep() -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            sessions.sweep()

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        sweeper = asyncio.create_task(sweep())
        yield
        sweeper.cancel()

    routes: list[BaseRoute] = [
        Route("/", lambda request: RedirectResponse("/upload")),
        Route("/favicon.ico", lambda request: RedirectResponse("/static/mark.svg")),
        Route("/glossary", lambda request: HTMLResponse(piece("glossary.html"))),
        Route("/static/plotly.js", _plotly),
        Mount("/static", _OwnFiles(packages=[("allbutone.app", "static")])),
        WebSocketRoute("/here", partial(_stay, sessions)),
    ]
    for page in PAGES:
        routes += _routes(page, settings, sessions, jobs)
    # the browser left while it was sending
    gone = {ClientDisconnect: lambda request, error: Response(status_code=204)}
    app = Starlette(routes=routes, lifespan=life, exception_handlers=gone)
    app.state.sessions, app.state.jobs = sessions, jobs
    app.add_middleware(SecurityMiddleware, hosts=tuple(hosts))
    return app


class _OwnFiles(StaticFiles):
    """The app's own files. No file's name holds a zero byte, at which the look-up of older Starlettes fails."""

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        return ("", None) if "\0" in path else super().lookup_path(path)


class SecurityMiddleware:
    """Lets in only what was meant for this server and comes from its own pages, and sets every header."""

    def __init__(self, app: ASGIApp, hosts: tuple[str, ...]) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = {name for name, _ in message["headers"]}
                message["headers"] += [
                    (name.lower().encode(), value.encode())
                    for name, value in HEADERS.items()
                    if name.lower().encode() not in given
                ]
            await send(message)

        if self._refused(Headers(scope=scope)):
            refuse = PlainTextResponse("This address is not one that the app was started with.", 421)
            await refuse(scope, receive, send_guarded)
        else:
            await self._app(scope, receive, send_guarded)

    def _refused(self, headers: Headers) -> bool:
        host, origin = headers.get("host", ""), headers.get("origin")
        # other sites may link here, and nothing else
        cross = headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate"
        strange = bool(self._hosts) and host not in self._hosts
        return strange or cross or (origin is not None and origin.partition("://")[2] != host)


def _routes(page: Page, settings: Settings, sessions: Sessions, jobs: JobRunner) -> list[BaseRoute]:
    def route(
        path: str, reply: Callable[[Request, RequestContext], Awaitable[Response]], method: str = "GET"
    ) -> Route:
        async def reply_in_session(request: Request) -> Response:
            token, session = sessions.open(request.cookies.get(_cookie(request)))
            response = await reply(request, RequestContext(session, settings))
            if request.cookies.get(_cookie(request)) != token:
                response.set_cookie(_cookie(request), token, httponly=True, samesite="lax")
            return response

        return Route(f"/{page.name}{path}", reply_in_session, methods=[method])

    async def show(request: Request, context: RequestContext) -> Response:
        where = {"page": page, "pages": PAGES, "query": request.query_params, "settings": settings}
        return HTMLResponse(piece(f"{page.name}.html", **where, plotly_version=plotly.__version__))

    async def answer(source: Source, request: Request, context: RequestContext) -> Response:
        return await jobs.answer(partial(source.ask, request.query_params, context), source.slow)

    async def download(fetch: Fetch, request: Request, context: RequestContext) -> Response:
        return await jobs.download(partial(fetch, request.query_params, context), request)

    return [
        route("", show),
        *(route(f"/{name}", partial(answer, source)) for name, source in page.answers.items()),
        *(route(f"/{name}", partial(download, fetch)) for name, fetch in page.files.items()),
        *(route(f"/{name}", partial(_taken, jobs, take), "POST") for name, take in page.takes.items()),
        *(route(f"/{name}", partial(_done, jobs, act), "POST") for name, act in page.acts.items()),
    ]


async def _taken(jobs: JobRunner, take: Take, request: Request, context: RequestContext) -> Response:
    """Write what is sent to a folder that only we can read, hand it over, and leave nothing of it."""
    limit = context.settings.upload_limit
    with tempfile.TemporaryDirectory(prefix="allbutone-") as folder:
        place, size = Path(folder) / "body", 0
        with place.open("wb") as file:
            async for block in request.stream():
                size += len(block)
                if size <= limit:  # the rest is read and dropped, so that the browser hears the answer
                    file.write(block)
        if size > limit:
            error = InputError(
                f"the file is larger than the {limit / MEGABYTE:,.0f} MB that the app takes",
                "start it with a higher --upload-limit",
                "use the command line, which takes larger files",
            )
            return Response(refusal(error), 413, media_type=MEDIA)
        work = partial(take, request.query_params, context, place)
        # without patience: the folder must outlive the work
        return await jobs.answer(lambda step: work(), slow=False, patience=None)


async def _done(jobs: JobRunner, act: Act, request: Request, context: RequestContext) -> Response:
    """Do what a short form asks for."""
    form = bytearray()
    async for block in request.stream():
        form += block
        if len(form) > SHORT:
            error = InputError("this form is longer than any of ours", "send less")
            return Response(refusal(error), 413, media_type=MEDIA)
    sent = dict(parse_qsl(form.decode("utf-8", "replace"), keep_blank_values=True))
    return await jobs.answer(partial(act, request.query_params, sent, context), slow=True)


def _cookie(asked: HTTPConnection) -> str:
    """Return the cookie's name: a browser sends cookies of one host to all its ports."""
    return f"allbutone-{asked.url.port or 80}"


async def _stay(sessions: Sessions, socket: WebSocket) -> None:
    """Hold a session as long as a page of it is open."""
    token, session = sessions.open(socket.cookies.get(_cookie(socket)))
    # a page that outlives its session, or the app, learns of its new one
    cookie = f"{_cookie(socket)}={token}; HttpOnly; Path=/; SameSite=lax"
    await socket.accept(headers=[(b"set-cookie", cookie.encode())])
    session.pages += 1
    try:
        # whatever a page says, text or bytes, it says that it is there
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass
    finally:
        sessions.leave(session)


async def _plotly(request: Request) -> Response:
    keep = {"Cache-Control": "max-age=31536000, immutable"} if request.query_params.get("v") else {}
    return Response(get_plotlyjs(), media_type=JAVASCRIPT, headers=keep)


OWN = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = ("0.0.0.0", "::")  # under names that nobody can list
PATIENCE = 3  # seconds that a job has to end when the app is stopped


class Server(uvicorn.Server):
    """A server that lets no job go on when it is stopped."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop."""
        self.config.app.state.jobs.stop()  # type: ignore[union-attr]
        super().handle_exit(sig, frame)


def serve(settings: Settings, host: str, port: int, *, browser: bool, ready: Callable[[str], None]) -> None:
    """Serve until interrupted; once the server listens `ready` is told its address, and `browser` opens it."""
    name = f"[{host}]" if ":" in host else host
    # browsers leave out the usual port
    names = () if host in EVERYWHERE else (*OWN, name) if is_this_machine(host) else (name,)
    hosts = [f"{own}:{port}" if port != 80 else own for own in names]
    app = create_app(settings, hosts)
    with _listening(host, port) as listener:
        address = f"http://{name}:{port}"
        ready(address)
        if browser:
            # what connects waits until the server answers
            threading.Timer(0.3, webbrowser.open, [address.replace("0.0.0.0", OWN[0])]).start()
        quiet = uvicorn.Config(
            app, log_level="warning", access_log=False, server_header=False, ws_max_size=1024,
            timeout_graceful_shutdown=PATIENCE,
        )  # fmt: skip
        # many small products, in as many threads as there are cores: none of the linear algebra's own
        with one_thread():
            Server(quiet).run([listener])


def is_this_machine(host: str) -> bool:
    """Say whether only this computer can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listening(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        cures: list[Cure | str] = ["stop the app if it is running already", Cure("choose another port", "port")]
        if error.errno == errno.EADDRNOTAVAIL:
            cures = [Cure("give an address that this computer has", "host", "127.0.0.1")]
        raise InputError(f"cannot listen on {host}:{port}: {reason(error)}", *cures) from error
