"""What a browser uploads is its own: seen by no other, gone with its pages, and nothing of it left behind."""

import gc
import io
import json
import re
import tempfile
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from urllib.parse import urlencode

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from app_server import TABLE, Browser, last_line, serving


def test_the_order_of_named_columns_is_not_forgotten(browser):
    """What was computed of the same columns in another order is not shown for these."""
    name = browser.send(TABLE)[1]["fields"]["table"]
    state = f"table={name}&columns=b&columns=a&prior=public&centre-2=100&spread-2=20&centre-1=0&spread-1=1"
    in_order = last_line(browser.ask(f"/budget/people?{state}&measured=yes")[2])["parts"]["people"]
    other = Browser(browser.host)
    again = state.replace(name, other.send(TABLE)[1]["fields"]["table"])
    with other.stay():  # however long an answer takes
        other.ask(f"/budget/people?{again}&measured=no")
        shown = last_line(other.ask(f"/budget/people?{again}&measured=yes")[2])["parts"]["people"]

    def rows(part):
        return re.findall(r'data-row="(\d+)"', part)

    assert rows(shown) == rows(in_order)


def test_two_browsers_never_see_each_others_tables(served):
    one, two = Browser(served.host), Browser(served.host)
    name = one.send(TABLE)[1]["fields"]["table"]
    two.ask("/upload")
    assert one.cookie != two.cookie
    for source in ("mend/table", "draw/table", "draw/ahead"):
        assert one.ask(f"/{source}?table={name}")[0] == 200
        status, _, body = two.ask(f"/{source}?table={name}")
        assert status == 422 or "error" in last_line(body)
        assert "is not here (any more)" in last_line(body)["error"]
    assert two.ask(f"/budget/records.csv?table={name}")[0] == 422
    three = Browser(served.host)
    three.cookie = one.cookie[:-1]
    assert three.ask(f"/mend/table?table={name}")[0] == 422


def gone(sessions, browser):
    """Wait until the server has noticed that no page of a browser is open."""
    deadline = time.monotonic() + 60
    while sessions.open(browser.cookie.split("=")[1])[1].pages and time.monotonic() < deadline:
        time.sleep(0.02)


def test_a_session_ends_with_its_last_page_and_frees_its_memory(monkeypatch):
    from allbutone.app.page import GRACE

    monkeypatch.setattr("allbutone.app.server.SWEEP_SECONDS", 0.1)
    with serving() as served:
        browser, sessions = Browser(served.host), served.app.state.sessions
        late = [0.0]
        monkeypatch.setattr(sessions, "_clock", lambda: time.monotonic() + late[0])
        browser.ask("/upload")
        with browser.stay():
            name = browser.send(TABLE)[1]["fields"]["table"]
            assert browser.ask(f"/mend/table?table={name}")[0] == 200
            kept = weakref.ref(sessions.open(browser.cookie.split("=")[1])[1].held[name].value)
            late[0] += 2 * GRACE
            time.sleep(0.5)  # several sweeps
            assert browser.ask(f"/mend/table?table={name}")[0] == 200
        gone(sessions, browser)
        time.sleep(0.3)  # several sweeps
        assert len(sessions) == 1, "someone may be on the way from one page to the next"
        late[0] += 2 * GRACE
        deadline = time.monotonic() + 60
        while len(sessions) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(sessions) == 0
        gc.collect()
        assert kept() is None
        assert browser.ask(f"/mend/table?table={name}")[0] == 422


def test_a_page_that_outlives_its_session_learns_of_the_new_one(monkeypatch):
    from allbutone.app.page import GRACE

    monkeypatch.setattr("allbutone.app.server.SWEEP_SECONDS", 0.1)
    with serving() as served:
        late, sessions = [0.0], served.app.state.sessions
        monkeypatch.setattr(sessions, "_clock", lambda: time.monotonic() + late[0])
        browser = Browser(served.host)
        browser.cookie = f"allbutone-{served.host.split(':')[1]}=of-an-app-that-was-stopped"
        with browser.stay() as page:
            browser.cookie = page.response.headers["set-cookie"].split(";")[0]
            name = browser.send(TABLE)[1]["fields"]["table"]
            late[0] += 2 * GRACE
            time.sleep(0.5)  # several sweeps
            assert browser.ask(f"/mend/table?table={name}")[0] == 200


def test_an_upload_does_not_wait_for_anyones_slow_work(served, browser, monkeypatch):
    from threading import Event

    begun, go_on = Event(), Event()

    def slow(*args, **options):
        begun.set()
        assert go_on.wait(60)
        raise InputError("enough")

    from allbutone.support.errors import InputError

    monkeypatch.setattr("allbutone.app.pages.forecast.budget", slow)
    with ThreadPoolExecutor(1) as pool:
        other = Browser(served.host)
        name = other.send(TABLE)[1]["fields"]["table"]
        waiting = pool.submit(other.ask, f"/budget/budget?table={name}")
        assert begun.wait(60)
        assert browser.send(TABLE)[0] == 200
        assert browser.ask("/explore/measures.csv")[0] == 200
        assert not waiting.done()
        go_on.set()
        assert last_line(waiting.result()[2])["error"] == "enough"


@pytest.mark.parametrize(
    ("name", "content", "status"),
    [("t.csv", TABLE, 200), ("t.csv", b"a,b\n1,\xff\xfe\n", 422), ("t.csv", b"", 422), ("t.exe", TABLE, 422),
     ("", TABLE, 422), ("../../t.csv", TABLE, 200), ("t.parquet", TABLE, 422), ("..", TABLE, 422),
     ("a\0b.csv", TABLE, 422), ("x" * 400 + ".csv", TABLE, 422), ("t.csv", TABLE * 100, 413)],
)  # fmt: skip
def test_an_upload_leaves_no_file_behind(serve_app, monkeypatch, tmp_path, name, content, status):
    monkeypatch.setattr(tempfile, "tempdir", f"{tmp_path}")
    browser = Browser(_small(serve_app).host)
    found, answer = browser.send(content, name)
    assert found == status
    assert bool(answer.get("error")) == (status != 200)
    if status == 413:
        assert "--upload-limit" in answer["error"]
        assert _small(serve_app).app.state.sessions.open(browser.cookie.split("=")[1])[1].held == {}
    assert list(tmp_path.rglob("*")) == []


def test_nothing_is_kept_of_what_could_not_be_computed():
    """Whatever is asked, and fails, leaves no lock behind; and nothing is computed twice at a time."""
    from allbutone.app.page import MOST_FOUND, Held

    held, at_work, most = Held(None), [], []

    def fails():
        raise LookupError

    def computes():
        at_work.append(1)
        most.append(len(at_work))
        time.sleep(0.01)
        at_work.pop()
        raise LookupError

    def size():
        return sum(len(part) for part in vars(held).values() if isinstance(part, dict))

    for turn in range(200):
        with pytest.raises(LookupError):
            held.get_or_compute(("budget", turn), fails)
    assert size() == 0
    with ThreadPoolExecutor(8) as pool:
        found = [pool.submit(held.get_or_compute, ("one",), computes) for _ in range(16)]
    assert all(isinstance(one.exception(), LookupError) for one in found)
    assert len(most) == 16
    assert max(most) == 1
    assert size() == 0
    for turn in range(200):
        assert held.get_or_compute(("budget", turn), lambda turn=turn: turn) == turn
    assert size() == MOST_FOUND


def test_all_browsers_together_hold_no_more_than_fits(monkeypatch):
    """One browser's older tables make room for its next; nobody's tables make room for another's."""
    from allbutone.app.page import Session, Sessions
    from allbutone.support.errors import InputError

    monkeypatch.setattr("allbutone.app.page.MOST_BYTES", 100)
    assert Session().keep("alone", 100)
    sessions = Sessions()
    (_, one), (_, two) = sessions.open(None), sessions.open(None)
    first, second = one.keep("first", 40), one.keep("second", 40)
    kept = two.keep("kept", 20)
    with pytest.raises(InputError, match="GB left"):
        two.keep("too much", 21)
    assert set(two.held) == {kept}, "what cannot be kept costs nothing"
    one.find(first, str, "It")
    third = one.keep("third", 40)
    assert set(one.held) == {first, third}
    assert second not in one.held
    with pytest.raises(InputError, match="GB left"):
        one.keep("never", 81)
    assert set(one.held) == {first, third}
    assert one.size + two.size == 100


def test_a_small_file_of_a_large_table_is_refused_before_it_is_read(browser, tmp_path):
    """A few bytes hold the same number a hundred million times."""
    path, block = tmp_path / "same.parquet", pa.table({"a": np.zeros(1_000_000)})
    with pyarrow.parquet.ParquetWriter(path, block.schema) as writer:
        for _ in range(100):
            writer.write_table(block)
    assert path.stat().st_size < 500_000
    pool = pa.default_memory_pool()
    before = pool.max_memory()
    status, answer = browser.send(path.read_bytes(), "same.parquet")
    assert status == 422
    assert "100,000,000 values, and at most 20,000,000 are read" in answer["error"]
    assert pool.max_memory() - before < 10_000_000


@pytest.mark.parametrize("name", ["wide.csv", "wide.parquet"])
def test_too_many_columns_are_refused_before_they_are_read(browser, tmp_path, name):
    names = [f"c{place}" for place in range(600_000 if name.endswith("csv") else 5_000)]
    if name.endswith("csv"):
        content = f"{','.join(names)}\n{','.join('1' * len(names))}\n".encode()
    else:
        place = io.BytesIO()
        pyarrow.parquet.write_table(pa.table({name: [1.0, 2.0] for name in names}), place)
        content = place.getvalue()
    status, answer = browser.send(content, name)
    assert status == 422
    assert f"has {len(names):,} columns, and at most 200 are read" in answer["error"]


@lru_cache(maxsize=1)
def _small(serve_app):
    return serve_app(upload_limit=20_000)


def test_twenty_at_once_are_all_answered_rightly(served):
    from starlette.datastructures import QueryParams

    from allbutone.app.jobs import Progress
    from allbutone.app.page import RequestContext, Session, Settings
    from allbutone.app.pages import explore

    asked = [urlencode({"count": 100, "correlation": turn / 25, "seed": turn}) for turn in range(20)]

    def ask(turn):
        browser = Browser(served.host)
        found = browser.ask(f"/explore/answer?{asked[turn]}")
        name = browser.send(TABLE + b"9,9\n" * turn)[1]["fields"]["table"]
        about = last_line(browser.ask(f"/mend/table?table={name}")[2])["parts"]["about"]
        return found, browser.cookie, name, about

    with ThreadPoolExecutor(20) as pool:
        found, cookies, names, tables = zip(*pool.map(ask, range(20)), strict=True)
    assert len(set(cookies)) == len(set(names)) == 20
    rows = TABLE.count(b"\n") - 1
    assert all(f"{rows + turn} rows" in about for turn, about in enumerate(tables)), "each its own table"
    explore._simulated.cache_clear()
    for query, (status, _, body) in zip(asked, found, strict=True):
        alone = explore.PAGE.answers["answer"].ask(
            QueryParams(query), RequestContext(Session(), Settings()), Progress()
        )
        assert status == 200
        assert last_line(body) == json.loads(alone.to_json())
