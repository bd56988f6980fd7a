"""The app in a real browser: from a slider's move to the new landscape, and twenty browsers at once.

What twenty wait for the server is asked without browsers, whose own drawing takes nine tenths of the same cores.
"""

import asyncio
import http.client
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from playwright.async_api import Page as AsyncPage
from playwright.async_api import async_playwright
from playwright.sync_api import CDPSession, Page, Playwright, sync_playwright

from allbutone.support.parallel import cores
from benchmarks.clock import Row

CHROMIUM = shutil.which("chromium")
DONE = "body[data-pending='0']"
BEFORE = 19.0  # seconds that the predecessor takes at 100 datasets
# moves a slider as a hand does, and waits for the first picture drawn after that
MOVE = """async value => {
  const slider = document.querySelector('input[data-for=correlation]');
  const land = document.querySelector('[data-figure=landscape] .plot');
  const start = performance.now();
  const seen = new Promise(done => land.once('plotly_afterplot',
    () => requestAnimationFrame(() => done(performance.now() - start))));
  slider.value = value;
  slider.dispatchEvent(new Event('input', {bubbles: true}));
  return await seen;
}"""
SERVER = """() => performance.getEntriesByType('resource').filter(one => one.name.includes('/explore/answer'))
  .map(one => one.serverTiming[0]?.duration).filter(Boolean)"""


@contextmanager
def running() -> Iterator[tuple[int, int]]:
    """Run the app; give its port and its process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "allbutone", "app", "--no-browser", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as app:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.2)
        try:
            yield port, app.pid
        finally:
            app.terminate()


def rows() -> Iterator[Row]:
    if CHROMIUM is None:
        return
    with running() as (port, process):
        with sync_playwright() as playwright:
            yield from _alone(playwright, port)
        yield from asyncio.run(_crowd(port, process))
        yield _served(port, process)


def _alone(playwright: Playwright, port: int) -> Iterator[Row]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
    for kind in ("datasets", "parameters"):
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(f"http://127.0.0.1:{port}/explore?n=100&rows=100&count=100&kind={kind}")
        page.wait_for_selector(DONE, state="attached")
        yield from _moved(page, kind)
        page.close()
    browser.close()


def _moved(page: Page, kind: str) -> Iterator[Row]:
    clock = page.context.new_cdp_session(page)
    clock.send("Performance.enable")
    begun = _busy(clock)
    moves = [page.evaluate(MOVE, place / 100) for place in range(-30, 31)]
    drawing = (_busy(clock) - begun) / len(moves)
    server = statistics.median(page.evaluate(SERVER)[-len(moves) :]) / 1e3
    what = f"slider to landscape in the browser, n = 100, 100 {kind}"
    yield Row(what, statistics.median(moves) / 1e3, "the page's own work", drawing, most=0.2)
    yield Row(f"{what}: the server's part", server, "the predecessor, at 100 datasets", BEFORE, most=0.03)


def _busy(clock: CDPSession) -> float:
    """The seconds of CPU that the page's main thread has used."""
    metrics = {one["name"]: one["value"] for one in clock.send("Performance.getMetrics")["metrics"]}
    return metrics["ThreadTime"]


async def _crowd(port: int, process: int, browsers: int = 20, rounds: int = 5) -> list[Row]:
    """Let twenty browsers, on the same cores as the server, each look at a table of its own.

    What the server does of it, spread evenly over the cores, stands beside: the rest is the browsers' drawing.
    """
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        pages = [await (await browser.new_context()).new_page() for _ in range(browsers)]
        for seed, page in enumerate(pages):
            await page.goto(f"http://127.0.0.1:{port}/explore?count=100&seed={seed}")
            await page.wait_for_selector(DONE, state="attached")
        apart, before = await _in_turn(pages, rounds), _processor_time(process)
        together = await _at_once(pages, rounds)
        server = (_processor_time(process) - before) / rounds / cores()
        shown = [await page.locator("#measures").text_content() for page in pages]
        errors = [await page.locator("#error").is_visible() for page in pages]
        answers = [each for page in pages for each in await page.evaluate(SERVER)]
        await browser.close()
    assert len(set(shown)) == browsers, "someone saw another's table"
    assert not any(errors), "a session failed"
    what, one = f"{browsers} browsers on the same cores", statistics.median(answers) / 1e3
    all_of_it = f"the server's part of all {browsers}, on {cores()} cores"
    return [
        Row(
            f"{what}, each moves a slider every 3 s: the longest",
            max(apart) / 1e3,
            "the server's part",
            one,
            most=1,
        ),
        Row(f"{what}, all at the same moment: the longest, drawn", max(together) / 1e3, all_of_it, server),
    ]


def _served(port: int, process: int, many: int = 20, rounds: int = 5) -> Row:
    """Let so many ask for a new table each at the same moment, and draw nothing: what is waited for the server."""
    together = threading.Barrier(many)

    def one(seed: int) -> list[float]:
        connection, waits = http.client.HTTPConnection("127.0.0.1", port), list[float]()
        for turn in range(rounds):
            together.wait(600)
            start = time.monotonic()
            connection.request("GET", f"/explore/answer?count=100&seed={seed}&correlation={0.05 + turn / 10}")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, "someone was not answered"
            waits.append(time.monotonic() - start)
        return waits

    begun = _processor_time(process)
    with ThreadPoolExecutor(many) as pool:
        longest = max(map(max, pool.map(one, range(many))))
    work = (_processor_time(process) - begun) / rounds
    what = f"{many} ask at the same moment: the longest wait for the server's part"
    return Row(what, longest, "its work for all of them, on one core", work, most=1)


def _processor_time(process: int) -> float:
    """The seconds of CPU that a process has used."""
    with open(f"/proc/{process}/stat") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def _in_turn(pages: list[AsyncPage], rounds: int, every: float = 3.0) -> list[float]:
    async def one(place: int) -> list[float]:
        await asyncio.sleep(every * place / len(pages))
        took = []
        for move in range(rounds):
            start = time.monotonic()
            took.append(await pages[place].evaluate(MOVE, (move - 2) / 10))
            await asyncio.sleep(max(0.0, every - (time.monotonic() - start)))
        return took

    return [each for part in await asyncio.gather(*map(one, range(len(pages)))) for each in part]


async def _at_once(pages: list[AsyncPage], rounds: int) -> list[float]:
    took: list[float] = []
    for move in range(rounds):
        took += await asyncio.gather(*(page.evaluate(MOVE, 0.05 + (move - 2) / 10) for page in pages))
        for page in pages:
            await page.wait_for_selector(DONE, state="attached")
    return took
