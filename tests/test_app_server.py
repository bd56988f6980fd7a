"""The app's server: headers, strangers, sessions, uploads, nonsense, and many at once."""

import gc
import http.client
import json
import re
import tempfile
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app_server import serving

TABLE = b"a,b\n" + b"\n".join(b"%d.5,%d.25" % (turn * 7 % 23, turn * turn % 17) for turn in range(40)) + b"\n"
PAGES = ("explore", "data", "release", "studies")


class Browser:
    """Keeps a cookie, as a browser does."""

    def __init__(self, host):
        self.host, self.cookie = host, ""

    def ask(self, path, method="GET", body=None, **headers):
        connection = http.client.HTTPConnection(self.host, timeout=60)
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
        status, _, body = self.ask(f"/data/upload?name={quote(name)}", "POST", content)
        return status, json.loads(body)

    def stay(self):
        """Hold the connection that an open page holds."""
        return connect(f"ws://{self.host}/here", additional_headers={"Cookie": self.cookie})


@pytest.fixture(scope="module")
def served(serve_app):
    return serve_app()


@pytest.fixture
def browser(served):
    return Browser(served.host)


def last_line(body):
    return json.loads(body.decode().splitlines()[-1])


@pytest.mark.parametrize(
    "path", ["/", *(f"/{name}" for name in PAGES), "/explore/answer", "/explore/answer?n=x", "/static/page.js",
             "/static/app.css", "/static/mark.svg", "/static/plotly.js?v=1", "/nowhere", "/favicon.ico"],
)  # fmt: skip
def test_every_response_keeps_everything_at_home(browser, path):
    status, headers, _ = browser.ask(path)
    assert status < 500
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert ("no-store" in headers["cache-control"]) != ("plotly" in path)
    assert "access-control-allow-origin" not in headers


def test_no_page_has_a_script_of_its_own_text(browser):
    for name in PAGES:
        page = browser.ask(f"/{name}")[2].decode()
        assert re.findall(r"<script(?![^>]* src=\"/static/)", page) == []
        assert re.findall(r"\son\w+=", page) == []
        assert "http://" not in page
        assert "https://" not in page


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", ""])
def test_a_request_for_another_host_is_refused(browser, host):
    assert browser.ask("/explore", Host=host)[0] == 421
    assert "set-cookie" not in browser.ask("/explore", Host=host)[1]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://127.0.0.1:1", "null", "https://evil.example:80"]
)
def test_a_request_from_another_site_is_refused(browser, served, origin):
    browser.ask("/data")
    assert browser.ask("/explore/answer", Origin=origin)[0] == 421
    assert browser.ask("/data/upload?name=t.csv", "POST", TABLE, Origin=origin)[0] == 421
    assert browser.ask("/explore/answer", Origin=served.address)[0] == 200
    with pytest.raises(InvalidStatus) as refused, connect(f"ws://{served.host}/here", origin=origin):
        pass
    assert refused.value.response.status_code in (403, 421)


@pytest.mark.parametrize(
    "name", ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "....//server.py", "/etc/passwd",
             "%2fetc%2fpasswd", ".", "..", "", "page.js%00", "..\\server.py", "__init__.py", "x" * 5000],
)  # fmt: skip
def test_only_static_files_are_handed_out(browser, name):
    status, _, body = browser.ask(f"/static/{name}")
    assert status == 404
    assert b"import" not in body


def test_what_is_not_there_is_not_found(browser):
    for path in (
        "/nowhere",
        "/explore/nowhere",
        "/data/upload/x",
        "/studies/../etc/passwd",
        "/studies/journal.jsonl",
    ):
        assert browser.ask(path)[0] == 404
    assert browser.ask("/explore", "POST", b"x")[0] == 405
    assert browser.ask("/data/upload?name=t.csv")[0] == 405


def test_other_sites_may_link_here_and_nothing_else(browser):
    assert browser.ask("/explore", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    assert browser.ask("/explore/answer", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 421
    assert browser.ask("/explore/answer", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")[0] == 200


def test_the_order_of_named_columns_is_not_forgotten(browser):
    """What was computed of the same columns in another order is not shown for these."""
    name = browser.send(TABLE)[1]["fields"]["table"]
    state = f"table={name}&columns=b&columns=a&prior=public&centre=100,0&spread=20,1"
    in_order = last_line(browser.ask(f"/data/answer?{state}&measured=yes")[2])["parts"]["ranking"]
    other = Browser(browser.host)
    again = state.replace(name, other.send(TABLE)[1]["fields"]["table"])
    other.ask(f"/data/answer?{again}&measured=no")
    shown = last_line(other.ask(f"/data/answer?{again}&measured=yes")[2])["parts"]["ranking"]

    def rows(part):
        return re.findall(r'data-row="(\d+)"', part)

    assert rows(shown) == rows(in_order)


def test_two_browsers_never_see_each_others_tables(served):
    one, two = Browser(served.host), Browser(served.host)
    name = one.send(TABLE)[1]["fields"]["table"]
    two.ask("/data")
    assert one.cookie != two.cookie
    for source in ("data/table", "release/table", "release/ahead"):
        assert one.ask(f"/{source}?table={name}")[0] == 200
        status, _, body = two.ask(f"/{source}?table={name}")
        assert status == 422 or "error" in last_line(body)
        assert "is not here (any more)" in last_line(body)["error"]
    assert two.ask(f"/data/records.csv?table={name}")[0] == 422
    three = Browser(served.host)
    three.cookie = one.cookie[:-1]
    assert three.ask(f"/data/table?table={name}")[0] == 422


def test_a_session_ends_with_its_last_page_and_frees_its_memory(monkeypatch):
    from allbutone.app.sessions import GRACE

    monkeypatch.setattr("allbutone.app.server.SWEEP_SECONDS", 0.1)
    with serving() as served:
        browser, sessions = Browser(served.host), served.app.state.sessions
        late = [0.0]
        monkeypatch.setattr(sessions, "_clock", lambda: time.monotonic() + late[0])
        browser.ask("/data")
        with browser.stay():
            name = browser.send(TABLE)[1]["fields"]["table"]
            assert browser.ask(f"/data/table?table={name}")[0] == 200
            kept = weakref.ref(sessions.open(browser.cookie.split("=")[1])[1].held[name].thing)
            late[0] += 2 * GRACE
            time.sleep(0.5)  # several sweeps
            assert browser.ask(f"/data/table?table={name}")[0] == 200
        time.sleep(0.5)
        assert len(sessions) == 1, "someone may be on the way from one page to the next"
        late[0] += 2 * GRACE
        deadline = time.monotonic() + 30
        while len(sessions) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(sessions) == 0
        gc.collect()
        assert kept() is None
        assert browser.ask(f"/data/table?table={name}")[0] == 422


def test_a_page_that_outlives_its_session_learns_of_the_new_one(monkeypatch):
    from allbutone.app.sessions import GRACE

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
            assert browser.ask(f"/data/table?table={name}")[0] == 200


@pytest.mark.parametrize("seconds", [0, 1])
def test_whatever_goes_wrong_is_said_in_the_page_and_in_full_on_the_terminal(browser, monkeypatch, capfd, seconds):
    """At once, and in the middle of a stream of progress."""

    def fails(query):
        time.sleep(seconds)
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("allbutone.app.explore._stage", fails)
    status, headers, body = browser.ask("/explore/answer")
    assert status == (200 if seconds else 500)
    assert last_line(body)["error"] == "Something went wrong in the app; the terminal says what."
    assert b"a fault of ours" not in body
    assert "content-security-policy" in headers
    assert "RuntimeError: a fault of ours" in capfd.readouterr().err
    assert browser.ask("/explore/measures.csv")[0] == 500


def test_an_upload_does_not_wait_for_anyones_slow_work(served, browser, monkeypatch):
    from threading import Event

    begun, go_on = Event(), Event()

    def slow(*args, **options):
        begun.set()
        assert go_on.wait(60)
        raise InputError("enough")

    from allbutone.errors import InputError

    monkeypatch.setattr("allbutone.app.terms.plan_budget", slow)
    with ThreadPoolExecutor(1) as pool:
        other = Browser(served.host)
        name = other.send(TABLE)[1]["fields"]["table"]
        waiting = pool.submit(other.ask, f"/data/budget?table={name}")
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


@lru_cache(maxsize=1)
def _small(serve_app):
    return serve_app(upload_limit=20_000)


def sources():
    """Every answer of every page, with the page's fields."""
    from allbutone.app.fields import every
    from allbutone.app.server import PAGES

    return [(page.name, name, every(page.groups)) for page in PAGES for name in {**page.quick, **page.slow}]


def test_the_usual_state_of_every_page_is_answered(browser):
    for page, source, _ in sources():
        status, _, body = browser.ask(f"/{page}/{source}")
        # there is no study to show unless one was given
        assert status == (422 if page == "studies" else 200), (page, source, body[:300])
        assert page == "studies" or not last_line(body).get("error")


def test_every_field_refuses_nonsense_by_its_name(browser):
    refused, wanted = set(), set()
    for page, source, fields in sources():
        for name, field in fields.items():
            if field.kind in ("hidden", "text"):
                continue
            wanted.add((page, name))
            status, _, body = browser.ask(f"/{page}/{source}?{urlencode({name: 'n☃nsense'})}")
            assert status in (200, 422)
            answer = last_line(body)
            if answer.get("field") == name and field.label in answer["error"]:
                refused.add((page, name))
    assert refused == wanted


ODD = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "9" * 5000,
            "0" * 5000 + "1",
            "nan",
            "inf",
            "-inf",
            "1e400",
            "-1",
            "0",
            "1_0",
            "٣",
            "0x10",
            ",",
            "1,,2",
            "1e308,1e308",
            "\0",
        ]
    ),
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_is_asked_the_server_does_not_break(served, data):
    page, source, fields = data.draw(st.sampled_from(sources()))
    names = [*fields, "columns", "table", "study", "figure"]
    query = data.draw(st.dictionaries(st.sampled_from(names), ODD, min_size=1, max_size=3))
    status, _, body = Browser(served.host).ask(f"/{page}/{source}?{urlencode(query, errors='replace')}")
    assert status in (200, 422)
    last_line(body)
    assert Browser(served.host).ask(f"/{page}?{urlencode(query, errors='replace')}")[0] == 200


def test_twenty_at_once_are_all_answered_rightly(served):
    from starlette.datastructures import QueryParams

    from allbutone.app import explore
    from allbutone.app.jobs import Progress
    from allbutone.app.page import Here, Settings
    from allbutone.app.sessions import Session

    asked = [urlencode({"count": 100, "correlation": turn / 25, "seed": turn}) for turn in range(20)]

    def ask(turn):
        browser = Browser(served.host)
        found = browser.ask(f"/explore/answer?{asked[turn]}")
        name = browser.send(TABLE + b"9,9\n" * turn)[1]["fields"]["table"]
        about = last_line(browser.ask(f"/data/table?table={name}")[2])["parts"]["about"]
        return found, browser.cookie, name, about

    with ThreadPoolExecutor(20) as pool:
        found, cookies, names, tables = zip(*pool.map(ask, range(20)), strict=True)
    assert len(set(cookies)) == len(set(names)) == 20
    rows = TABLE.count(b"\n") - 1
    assert all(f"{rows + turn} rows" in about for turn, about in enumerate(tables)), "each its own table"
    explore._simulated.cache_clear()
    for query, (status, _, body) in zip(asked, found, strict=True):
        alone = explore.PAGE.quick["answer"](QueryParams(query), Here(Session(), Settings()), Progress())
        assert status == 200
        assert last_line(body) == json.loads(alone.to_json())


def test_the_cookie_is_the_ports_own_and_out_of_reach(served, browser):
    cookie = browser.ask("/explore")[1]["set-cookie"]
    name = f"allbutone-{served.host.split(':')[1]}"
    assert cookie.startswith(f"{name}=")
    assert {"httponly", "samesite=lax"} <= {part.strip().lower() for part in cookie.split(";")}
    assert "set-cookie" not in browser.ask("/explore")[1]
