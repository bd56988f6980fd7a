"""Figures as files: pages that open offline, parts of a page, and pictures drawn by a browser without a window."""

import base64
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote_to_bytes

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from allbutone.support.errors import InputError

NO_REQUESTS = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; '
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:\">"
)
# buttons are named one by one, so that none can ever send a figure anywhere
_CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}
_NOT_TOO_LOW = "<style>#figure { min-height: 640px }</style>"  # a lower window scrolls
_SIDE_BY_SIDE = (
    "<style>main { display: flex; flex-wrap: wrap; gap: 1.5rem; font-family: Arial, Helvetica, sans-serif }"
    "main section { flex: 1 1 340px; min-width: 0 } main h2 { font-size: 17px; font-weight: normal }</style>"
)
_PAGE = """<!doctype html><html><head><meta charset="utf-8">{meta}<script>{plotly}</script></head><body><script>
(async () => {{
  const urls = [];
  for (const [figure, options] of {jobs}) urls.push(await Plotly.toImage(figure, options));
  return urls.join(" ");
}})().catch(error => "error: " + error).then(text => {{
  document.querySelectorAll("script").forEach(script => script.remove());
  document.body.textContent = text;
}});
</script></body></html>"""
KNOWN = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "msedge")
FLAGS = (
    "--headless", "--disable-gpu", "--no-first-run", "--hide-scrollbars", "--virtual-time-budget=60000",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--no-sandbox",  # which needs rights that a container lacks; the page is our own and fetches nothing
)  # fmt: skip


def write_figure(figure: go.Figure, path: Path, *below: go.Figure) -> None:
    """Write a page of its own that opens offline and asks nothing of any server.

    Figures that carry no title stand `below`, as many beside each other as fit, each under its message.
    """
    page = figure.to_html(include_plotlyjs=True, div_id="figure", default_height="96vh", config=_CONFIG)
    page = page.replace("<head>", "<head>" + NO_REQUESTS + _NOT_TOO_LOW, 1)
    if below:
        heads = [f"<h2>{html.escape(each.layout.meta['message'])}</h2>" for each in below]
        drawn = [embedded(each, f"below-{turn}") for turn, each in enumerate(below, 1)]
        parts = [f"<section>{head}{each}</section>" for head, each in zip(heads, drawn, strict=True)]
        end = page.rindex("</body>")
        page = f"{page[:end]}{_SIDE_BY_SIDE}<main>{''.join(parts)}</main>{page[end:]}"
    path.write_text(page, encoding="utf-8")


def embedded(figure: go.Figure, name: str) -> str:
    """Return a figure as a part of a page that has Plotly already and prints the figure's message itself."""
    return untitled(figure).to_html(full_html=False, include_plotlyjs=False, div_id=name, config=_CONFIG)


def untitled(figure: go.Figure) -> go.Figure:
    """Return a figure for a page that prints its message: without a title, nor the room for it."""
    copy = go.Figure(figure).update_layout(title=None, font_size=13)
    if figure.layout.title.text:  # made to stand alone, with room for the title
        margin = figure.layout.margin
        copy.update_layout(margin={"t": max(30, margin.t - 105), "l": 85, "r": min(margin.r, 70), "b": 90})
    return copy


def write_image(figure: go.Figure, path: Path) -> None:
    """Write a figure as a picture, PNG or SVG by the file's name."""
    write_images({path: figure})


def write_images(figures: Mapping[Path, go.Figure], width: int = 1280, height: int = 900) -> None:
    """Write figures as pictures, PNG or SVG by the files' names, in one start of a browser, offline.

    A figure that has a width or height of its own keeps it.
    """
    jobs = []
    for path, figure in figures.items():
        kind = path.suffix.lower().removeprefix(".")
        if kind not in ("png", "svg"):
            raise InputError("pictures are written as .png or .svg", "name one", "write .html", where=str(path))
        size = {"width": figure.layout.width or width, "height": figure.layout.height or height}
        jobs.append(f"[{figure.to_json()},{json.dumps({'format': kind, **size})}]")
    page = _PAGE.format(meta=NO_REQUESTS, plotly=get_plotlyjs(), jobs=f"[{','.join(jobs)}]")
    left = text_left_by(page, 60 + 20 * len(jobs))
    if not left.startswith("data:image"):
        raise InputError(f"the browser did not draw the pictures: {left:.200}", "open the .html files instead")
    for path, url in zip(figures, left.split(), strict=True):
        head, data = url.split(",", 1)
        path.write_bytes(base64.b64decode(data) if head.endswith("base64") else unquote_to_bytes(data))


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
            raise InputError(f"{browser} did not finish in {patience:.0f} s", "ask for fewer pictures") from error
        except OSError as error:
            cure = "name another in BROWSER_PATH"
            raise InputError(f"cannot run {browser}: {error.strerror}", cure) from error
    found = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    if found is None:
        fault = done.stderr.strip().splitlines() or ["it said nothing"]
        raise InputError(f"{browser} opened no page: {fault[-1]:.200}", "name another browser in BROWSER_PATH")
    return html.unescape(found[1]).strip()


def _browser() -> str:
    named = os.environ.get("BROWSER_PATH")
    for name in (named,) if named else KNOWN:
        if found := shutil.which(name):
            return found
    raise InputError(
        f"pictures are drawn by a browser, and {named or 'Chromium or Chrome'} was not found",
        "install it (Debian: sudo apt-get install chromium)",
        "name it in BROWSER_PATH",
        "open the .html files instead",
    )
