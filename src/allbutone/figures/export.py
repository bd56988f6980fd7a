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
from typing import Any
from urllib.parse import unquote_to_bytes

import numpy as np
import plotly.graph_objects as go
from plotly.io.json import to_json_plotly
from plotly.offline import get_plotlyjs

from allbutone.figures import style
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
# figures are drawn when all of a page is there, and each has its width; what lies in a closed part of it has none,
# and is drawn when that is opened or printed
_DRAW = """
const waiting = [];
function draw(name, figure) {
  waiting.push([document.getElementById(name), figure]);
  if (document.readyState !== "loading") drawVisible();
}
function drawVisible() {
  for (const one of waiting.filter(([place]) => place.offsetWidth)) {
    waiting.splice(waiting.indexOf(one), 1);
    Plotly.newPlot(one[0], one[1].data, one[1].layout, %s);
  }
}
addEventListener("DOMContentLoaded", drawVisible);
addEventListener("toggle", drawVisible, true);
// on paper (`figure` of a report): drawn larger than it is printed, low, and as wide as its place; then as it was
const PAPER = {
  half: [440, 345], high: [440, 540], deep: [440, 640], tall: [900, 720], wide: [900, 900], page: [900, 980],
};
const onPaper = () => [...document.querySelectorAll("figure .js-plotly-plot")];
addEventListener("beforeprint", () => {
  document.querySelectorAll("details:not(.long)").forEach(part => part.open = true);
  drawVisible();
  for (const place of onPaper()) {
    place.ownHeight ??= place.layout.height ?? null;
    const [width, most] = PAPER[place.closest("figure").className] ?? [900, 310];
    Plotly.relayout(place, { width, height: Math.min(place.ownHeight ?? most, most), autosize: false });
  }
});
addEventListener("afterprint", () => {
  for (const place of onPaper()) Plotly.relayout(place, { width: null, height: place.ownHeight, autosize: true });
});
"""
_FIGURES = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">{meta}
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 16px/1.45 Arial, Helvetica, sans-serif; color: #222; margin: 12px 16px; overflow-wrap: anywhere }}
h1 {{ font-size: 20px; margin: 4px 0 }} h2 {{ font-size: 17px; font-weight: normal }}
p {{ color: #555; font-size: 14px; margin: 4px 0 }}
#figure {{ height: {height}; min-height: 480px }}
main {{ display: flex; flex-wrap: wrap; gap: 1.5rem }} main section {{ flex: 1 1 340px; min-width: 0 }}
</style>
<script>{library}</script></head><body>
<h1>{title}</h1>
{about}{figure}
{below}
</body></html>"""
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

    The message stands above the figure as text, which any screen has room for. Figures that carry no title stand
    `below`, as many beside each other as fit, each under its message.
    """
    said = figure.layout.meta or {}
    parts = [
        f"<section><h2>{html.escape(each.layout.meta['message'])}</h2>{embedded(each, f'below-{turn}')}</section>"
        for turn, each in enumerate(below, 1)
    ]
    page = _FIGURES.format(
        meta=NO_REQUESTS,
        title=html.escape(said.get("message", "")),
        height=f"{figure.layout.height}px" if figure.layout.height else "calc(100vh - 130px)",
        library=library(),
        about=f"<p>{html.escape(said['below'])}</p>" if said.get("below") else "",
        figure=embedded(figure, "figure"),
        below=f"<main>{''.join(parts)}</main>" if parts else "",
    )
    path.write_text(page, encoding="utf-8")


def library() -> str:
    """Return the script that a page with figures has once: Plotly, and what draws those that can be seen."""
    return get_plotlyjs() + _DRAW % json.dumps(_CONFIG)


def embedded(figure: go.Figure, name: str) -> str:
    """Return a figure as a part of a page that has the `library` already and prints its message itself."""
    shown = untitled(figure)
    sized = f' style="min-height: {shown.layout.height}px"' if shown.layout.height else ""
    # part by part: a whole figure's arrays would be turned to text at once
    parts = {"data": [trace.to_plotly_json() for trace in shown.data], "layout": shown.layout.to_plotly_json()}
    text = to_json_plotly(_compact(parts))
    return f'<div id="{name}" class="plotly-graph-div"{sized}></div><script>draw("{name}", {text})</script>'


def _compact(part: Any) -> Any:
    """Write the numbers of a figure as bytes, and halved where nobody could see the difference."""
    if isinstance(part, dict):
        return {key: _compact(each) for key, each in part.items()}
    if isinstance(part, list | tuple):
        return [_compact(each) for each in part]
    if not isinstance(part, np.ndarray) or part.dtype not in (np.float64, np.float32):
        return part
    seen = part[np.isfinite(part)]
    coarse = len(seen) and np.abs(seen).max() * np.finfo(np.float32).eps < 1e-4 * np.ptp(seen)
    return typed(part.astype(np.float32) if coarse else part)


def typed(array: np.ndarray) -> dict[str, str]:
    """Return an array as plotly.js reads it: its bytes, what numbers they are, and its shape."""
    array = array if array.dtype == np.float32 else array.astype(np.float64)
    content = base64.b64encode(array.tobytes()).decode()
    return {"dtype": f"f{array.itemsize}", "bdata": content, "shape": ", ".join(map(str, array.shape))}


def untitled(figure: go.Figure) -> go.Figure:
    """Return a figure for a page that prints its message: without a title, nor the room for it."""
    copy = go.Figure(figure).update_layout(title=None, font_size=13)
    if figure.layout.title.text:  # made to stand alone, with room for the title
        margin = figure.layout.margin
        copy.update_layout(margin={"t": max(30, margin.t - 105), "l": 85, "r": min(margin.r, 70), "b": 90})
        copy.update_xaxes(style.LETTERS).update_yaxes(style.LETTERS)
    return copy


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
    """Run a page for at most `patience` seconds; return the text of its body once its scripts have run."""
    browser, done = _run(page, patience, "--dump-dom")
    body = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    if body is None:
        fault = done.stderr.strip().splitlines() or ["it said nothing"]
        raise InputError(f"{browser} opened no page: {fault[-1]:.200}", "name another browser in BROWSER_PATH")
    return html.unescape(body[1]).strip()


def write_pdf(page: str, path: Path) -> None:
    """Print a page as a PDF on A4, by a browser without a window, offline."""
    page = page.replace("</head>", "<style>@page { size: A4 }</style></head>", 1)
    browser, done = _run(page, 120, "--no-pdf-header-footer", f"--print-to-pdf={path.resolve()}")
    if not path.is_file() or not path.read_bytes().startswith(b"%PDF"):
        fault = done.stderr.strip().splitlines() or ["it said nothing"]
        raise InputError(f"{browser} printed no page: {fault[-1]:.200}", "write .html, and print it")


def _run(page: str, patience: float, *asked: str) -> tuple[str, subprocess.CompletedProcess[str]]:
    """Open a page in a browser, and do what is asked once its scripts have run; return which browser it was.

    It is the one that BROWSER_PATH names, or the first known one on the path.
    """
    browser = _browser()
    with tempfile.TemporaryDirectory(prefix="allbutone-", ignore_cleanup_errors=True) as folder:
        place = Path(folder) / "page.html"
        place.write_text(page, encoding="utf-8")
        command = [browser, *FLAGS, f"--user-data-dir={folder}/profile", *asked, place.as_uri()]
        # what it keeps from one start to the next goes with the folder
        kept = os.environ | {"XDG_CACHE_HOME": f"{folder}/cache", "XDG_CONFIG_HOME": f"{folder}/config"}
        how: dict[str, Any] = {"capture_output": True, "encoding": "utf-8", "check": False, "env": kept}
        try:
            return browser, subprocess.run(command, timeout=patience, **how)
        except subprocess.TimeoutExpired as error:
            raise InputError(f"{browser} did not finish in {patience:.0f} s", "ask for fewer pictures") from error
        except OSError as error:
            cure = "name another in BROWSER_PATH"
            raise InputError(f"cannot run {browser}: {error.strerror}", cure) from error


def _browser() -> str:
    named = os.environ.get("BROWSER_PATH")
    for name in (named,) if named else KNOWN:
        if path := shutil.which(name):
            return path
    raise InputError(
        f"pictures and PDF files are made by a browser, and {named or 'Chromium or Chrome'} was not found",
        "install it (Debian: sudo apt-get install chromium)",
        "name it in BROWSER_PATH",
        "open the .html files instead",
    )
