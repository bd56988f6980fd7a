"""The app on a real server, and a real browser before it.

The package is imported only inside functions: the hook that checks shapes must be in place first.
"""

import http.client
import json
import re
import shutil
import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from websockets.sync.client import connect

WAIT = 240_000  # milliseconds; a machine that runs all tests at once is slow
RUNNING: set[str] = set()  # the hosts of the servers that run now

# text of a figure that sticks out of it, and anything that makes the page itself scroll sideways
CUT_OFF = """() => {
  const found = [];
  const wide = document.documentElement;
  if (wide.scrollWidth > wide.clientWidth + 1) {  // widths are rounded up
    const beyond = [...document.querySelectorAll('body *')].filter(
      one => one.getBoundingClientRect().right > wide.clientWidth + 1);
    found.push(`page ${wide.scrollWidth} > ${wide.clientWidth}: ` +
      beyond.slice(0, 8).map(one => `${one.tagName} ${one.id || one.className}`).join(", "));
  }
  for (const plot of document.querySelectorAll('.plot')) {
    const box = plot.getBoundingClientRect();
    if (!box.width || !plot.querySelector('.main-svg')) continue;
    for (const text of plot.querySelectorAll('text')) {
      const own = text.getBoundingClientRect();
      if (own.width && (own.left < box.left - 1 || own.right > box.right + 1 ||
          own.top < box.top - 1 || own.bottom > box.bottom + 1))
        found.push(`${plot.parentElement.id}: ${text.textContent}`);
    }
  }
  return found;
}"""


@dataclass
class Served:
    """A running app: where, and the app itself, whose `state.sessions` a test may look into."""

    address: str
    app: Any

    @property
    def host(self):
        return self.address.removeprefix("http://")


@contextmanager
def serving(**settings):
    """Serve the app on a free port of this computer, as `allbutone app` does."""
    import uvicorn

    from allbutone.app import page
    from allbutone.app.page import Settings
    from allbutone.app.server import create_app
    from allbutone.support.parallel import one_thread

    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener, pytest.MonkeyPatch.context() as patch:
        patch.setattr(page, "GRACE", 600.0)  # a test without an open page may be slow
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        app = create_app(Settings(**settings), [host])
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False, ws_max_size=1024))
        thread = threading.Thread(target=server.run, args=([listener],))
        with one_thread():
            thread.start()
            while not server.started:
                assert thread.is_alive()
                time.sleep(0.01)
            RUNNING.add(host)
            try:
                yield Served(f"http://{host}", app)
            finally:
                RUNNING.discard(host)
                server.should_exit = True
                thread.join(WAIT / 1000)
                assert not thread.is_alive()


@pytest.fixture(scope="module")
def serve_app():
    """Start an app with settings of one's own: `serve_app(upload_limit=1000).address`."""
    running = []

    def start(**settings):
        running.append(serving(**settings))
        return running[-1].__enter__()

    yield start
    for one in running:
        one.__exit__(None, None, None)


@pytest.fixture(scope="module")
def served(serve_app):
    """An app with the usual settings."""
    return serve_app()


@pytest.fixture(scope="module")
def address(served):
    """Its address, without a slash at the end."""
    return served.address


@pytest.fixture
def browser(served):
    """A browser that only asks."""
    return Browser(served.host)


@pytest.fixture(scope="session")
def chromium():
    """A browser, the same for all tests: two of Playwright cannot run in one thread, and it is slow to start."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=WAIT)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tabs(chromium):
    """Open pages, each in a browser of its own: `tabs(width=390, color_scheme="dark")`.

    At the end nothing may have gone wrong in them, and nothing may have been asked of anybody but our servers.
    """
    contexts, wrong = [], []

    def note(message):
        # what the app refuses in words, the browser reports as an error, too
        refused = re.search(r"status of (413|422)", message.text)
        if message.type == "error" and not refused:
            wrong.append(f"console: {message.text}")

    def ask(request):
        where = urlsplit(request.url)
        if where.scheme not in ("blob", "data") and where.netloc not in RUNNING:
            wrong.append(f"asked {request.url}")

    def opened(width=1280, height=900, **options):
        context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        context.set_default_timeout(WAIT)
        page = context.new_page()
        page.on("console", note)
        page.on("pageerror", lambda error: wrong.append(f"page: {error}"))
        page.on("request", ask)
        page.on("websocket", lambda channel: ask(channel))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert wrong == []


@pytest.fixture
def tab(tabs):
    """A page of 1280 × 900 in a browser of its own, watched as `tabs` says."""
    return tabs()


def settled(page):
    """Wait until every answer has come and is drawn."""
    # not wait_for_function, which needs eval, which our pages forbid
    page.wait_for_selector("body[data-pending='0']", state="attached")
    return page


def opened(page, address):
    """Go to an address, and wait until all of it is drawn."""
    page.goto(address)
    return settled(page)


def inaccessible(page):
    """Return what axe-core finds wrong with a page as it stands: each rule with the places that break it.

    And names that several places have, of which what is written for one of them may end in another.
    """
    from importlib.resources import files

    page.evaluate(files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    twice = page.evaluate("""[...document.querySelectorAll('[id]')].map(one => one.id)
        .filter((id, place, all) => all.indexOf(id) < place)""")
    named = {"names that stand twice": twice} if twice else {}
    return named | {one["id"]: [node["html"] for node in one["nodes"]] for one in found}


def cut_off(page):
    """Return what does not fit into a page, or nothing as soon as its figures have come to rest."""
    for _ in range(100):
        found = page.evaluate(CUT_OFF)
        if not found:
            break
        page.wait_for_timeout(200)  # figures follow the window's size a moment later
    return found


def unfolded(page):
    """Open all that is folded, as somebody would who looks for a control."""
    page.evaluate("document.querySelectorAll('details.group').forEach(fold => { fold.open = true; })")
    return page


TABLE = b"a,b\n" + b"\n".join(b"%d.5,%d.25" % (turn * 7 % 23, turn * turn % 17) for turn in range(40)) + b"\n"


class Browser:
    """Keeps a cookie, as a browser does."""

    def __init__(self, host):
        self.host, self.cookie = host, ""

    def ask(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection(self.host, timeout=WAIT / 1000)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**({"Cookie": self.cookie} if self.cookie else {}), **given})
        response = connection.getresponse()
        found = response.status, dict(response.headers.items()), response.read()
        connection.close()
        if "set-cookie" in found[1]:
            self.cookie = found[1]["set-cookie"].split(";")[0]
        return found

    def send(self, content, name="table.csv"):
        """Upload a table; returns the status and what was answered."""
        status, _, body = self.ask(f"/upload/upload?name={quote(name)}", "POST", content)
        return status, json.loads(body)

    def stay(self):
        """Hold the connection that an open page holds."""
        return connect(f"ws://{self.host}/here", additional_headers={"Cookie": self.cookie})


def last_line(body):
    return json.loads(body.decode().splitlines()[-1])
