"""Start the app on this computer, and open it."""

import errno
import ipaddress
import socket
import threading
import webbrowser
from collections.abc import Callable
from types import FrameType

import uvicorn

from allbutone.app.page import Settings
from allbutone.app.server import create_app
from allbutone.support.errors import Cure, InputError, reason
from allbutone.support.parallel import one_thread

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
    names = () if host in EVERYWHERE else (*OWN, name) if is_home(host) else (name,)
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


def is_home(host: str) -> bool:
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
