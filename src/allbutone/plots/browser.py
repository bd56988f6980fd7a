"""A browser without a window: runs a page, offline, and returns what the page leaves."""

import html
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from allbutone.support.errors import InputError

KNOWN = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
FLAGS = (
    "--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=60000",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-sandbox",  # which needs rights that a container lacks; the page is our own and fetches nothing
)  # fmt: skip


def text_left_by(page: str, patience: float) -> str:
    """Run a page for at most `patience` seconds; return the text of its body once its scripts have run.

    The browser is the one that BROWSER_PATH names, or the first known one on the path.
    """
    browser = _browser()
    with tempfile.TemporaryDirectory(prefix="allbutone-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / "page.html"
        place.write_text(page, encoding="utf-8")
        command = [browser, *FLAGS, f"--user-data-dir={folder}/profile", "--dump-dom", place.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=patience, check=False)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{browser} did not finish in {patience:.0f} s; ask for fewer pictures") from error
        except OSError as error:
            raise InputError(f"cannot run {browser}: {error.strerror}; name another in BROWSER_PATH") from error
    found = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    if found is None:
        fault = done.stderr.strip().splitlines() or ["it said nothing"]
        raise InputError(f"{browser} opened no page: {fault[-1]:.200}; name another browser in BROWSER_PATH")
    return html.unescape(found[1]).strip()


def _browser() -> str:
    named = os.environ.get("BROWSER_PATH")
    for name in (named,) if named else KNOWN:
        if found := shutil.which(name):
            return found
    raise InputError(
        f"pictures are drawn by a browser, and {named or 'Chromium or Chrome'} was not found; install it "
        "(Debian: sudo apt-get install chromium), name it in BROWSER_PATH, or open the .html files instead"
    )
