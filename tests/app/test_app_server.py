"""The app's server: headers, strangers, sessions, uploads, nonsense, and many at once."""

import html
import json
import re
import time
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from app_server import TABLE, Browser, last_line

PAGES = ("upload", "mend", "budget", "draw", "decide", "explore", "studies")


@pytest.mark.parametrize(
    "path", ["/", *(f"/{name}" for name in PAGES), "/glossary", "/explore/answer", "/explore/answer?n=x",
             "/static/page.js", "/static/app.css", "/static/mark.svg", "/static/plotly.js?v=1", "/nowhere",
             "/favicon.ico"],
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
    browser.ask("/upload")
    assert browser.ask("/explore/answer", Origin=origin)[0] == 421
    assert browser.ask("/upload/upload?name=t.csv", "POST", TABLE, Origin=origin)[0] == 421
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
        "/upload/upload/x",
        "/studies/../etc/passwd",
        "/studies/journal.jsonl",
    ):
        assert browser.ask(path)[0] == 404
    assert browser.ask("/explore", "POST", b"x")[0] == 405
    assert browser.ask("/upload/upload?name=t.csv")[0] == 405


def test_other_sites_may_link_here_and_nothing_else(browser):
    assert browser.ask("/explore", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate")[0] == 200
    assert browser.ask("/explore/answer", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")[0] == 421
    assert browser.ask("/explore/answer", Sec_Fetch_Site="same-origin", Sec_Fetch_Mode="cors")[0] == 200


@pytest.mark.parametrize("seconds", [0, 1])
def test_whatever_goes_wrong_is_said_in_the_page_and_in_full_on_the_terminal(browser, monkeypatch, capfd, seconds):
    """At once, and in the middle of a stream of progress."""

    def fails(query):
        time.sleep(seconds)
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("allbutone.app.pages.explore._record_attack", fails)
    status, headers, body = browser.ask("/explore/answer")
    assert status == (200 if seconds else 500)
    assert last_line(body)["error"] == "Something went wrong in the app; the terminal says what"
    assert b"a fault of ours" not in body
    assert "content-security-policy" in headers
    assert "RuntimeError: a fault of ours" in capfd.readouterr().err
    assert browser.ask("/explore/measures.csv")[0] == 500


def sources():
    """Every answer of every page, with the page's fields."""
    from allbutone.app.forms import every
    from allbutone.app.server import PAGES

    return [(page.name, name, every(page.groups)) for page in PAGES for name in page.answers]


def test_the_usual_state_of_every_page_is_answered(browser):
    for page, source, _ in sources():
        _, _, body = browser.ask(f"/{page}/{source}")
        assert not last_line(body).get("error"), (page, source, body[:300])


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


def test_an_answer_is_asked_for_with_the_fields_that_the_server_declares(browser):
    """What the server declares of an answer is what the page's script is told; every field is a page's own."""
    from allbutone.app.forms import every
    from allbutone.app.server import PAGES

    for page in PAGES:
        declared = html.unescape(re.search(r'data-sources="([^"]*)"', browser.ask(f"/{page.name}")[2].decode())[1])
        told = {one["path"]: set(one["fields"]) for one in json.loads(declared)}
        assert told == {name: set(source.fields) for name, source in page.answers.items()}
        if page.name != "studies":  # whose fields depend on the study
            assert set.union(*told.values()) <= {*every(page.groups), *page.carried}


def test_a_page_may_say_anything_and_stays(served, browser, capfd):
    browser.ask("/upload")
    with browser.stay() as page:
        for message in (b"\x00\xff", "text", b"", ""):
            page.send(message)
        page.ping().wait(60)
        token = browser.cookie.split("=")[1]
        assert served.app.state.sessions.open(token)[1].pages == 1
    deadline = time.monotonic() + 60
    while served.app.state.sessions.open(token)[1].pages and time.monotonic() < deadline:
        time.sleep(0.02)
    assert served.app.state.sessions.open(token)[1].pages == 0
    assert "Traceback" not in capfd.readouterr().err


def test_ways_out_name_controls_that_are_there(browser):
    from allbutone.app.forms import CONTROLS, in_app_words
    from allbutone.support.errors import Cure

    parts = last_line(browser.ask("/mend/table")[2])["parts"]
    shown = html.unescape("".join([parts["columns"], *(browser.ask(f"/{name}")[2].decode() for name in PAGES)]))
    for argument, control in CONTROLS.items():
        if control != "on the command line only":
            (label,) = re.findall("“(.*?)”", control)
            assert re.search(rf">\s*{re.escape(label)}\s*<", shown), label
        assert control in in_app_words(Cure("do so", argument))
    assert in_app_words(Cure("do so", "rng")) == in_app_words(Cure("do so")) == "do so"


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


def test_the_cookie_is_the_ports_own_and_out_of_reach(served, browser):
    cookie = browser.ask("/explore")[1]["set-cookie"]
    name = f"allbutone-{served.host.split(':')[1]}"
    assert cookie.startswith(f"{name}=")
    assert {"httponly", "samesite=lax"} <= {part.strip().lower() for part in cookie.split(";")}
    assert "set-cookie" not in browser.ask("/explore")[1]


def test_the_answer_is_small(browser):
    content = browser.ask("/explore/answer?count=100")[2]
    assert len(content) < 120_000
    assert set(last_line(content)) == {"parts", "fields", "figures", "error"}
