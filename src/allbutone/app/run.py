"""Start the app on this computer, and open it."""

import socket
import threading
import webbrowser
from collections.abc import Callable

import uvicorn

from allbutone.app.page import Settings
from allbutone.app.server import create_app
from allbutone.errors import InputError, reason
from allbutone.threads import one_thread

HOME = "127.0.0.1"


def serve(settings: Settings, host: str, port: int, *, browser: bool, ready: Callable[[], None]) -> None:
    """Serve until interrupted; once the server listens `ready` is called, and `browser` opens the page."""
    own = ("127.0.0.1", "localhost", "[::1]") if host == HOME else ()
    # browsers leave out the usual port
    app = create_app(settings, [f"{name}:{port}" if port != 80 else name for name in own])
    with _listening(host, port) as listener:
        ready()
        if browser:
            # what connects waits until the server answers
            threading.Timer(
                0.3, webbrowser.open, [f"http://{HOME if host == '0.0.0.0' else host}:{port}/"]
            ).start()
        quiet = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False, ws_max_size=1024)
        # many small products, in as many threads as there are cores: none of the linear algebra's own
        with one_thread():
            uvicorn.Server(quiet).run([listener])


def _listening(host: str, port: int) -> socket.socket:
    try:
        listener = socket.create_server((host, port), backlog=128)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}:{port}: {reason(error)}; is the app running already? Choose another --port"
        ) from error
    return listener
