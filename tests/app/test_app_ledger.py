"""The app and the ledger: what is taken home is recorded, and judged with what was released before."""

import csv
import io
import re
import zipfile
from urllib.parse import quote

import numpy as np
import pytest

import allbutone as abo
from app_server import Browser, last_line

pytestmark = pytest.mark.usefixtures("few_trials")


@pytest.fixture
def used(serve_app, tmp_path):
    """A table with a release in its ledger, and a browser that has uploaded it to an app that knows the ledger."""
    path = tmp_path / "people.csv"
    values = np.random.default_rng(5).normal(size=(40, 2)).round(2)
    path.write_text("a,b\n" + "\n".join(f"{one},{two}" for one, two in values) + "\n")
    records = abo.Records.of(path)
    abo.save_release(abo.Synthesizer().fit(records).sample(datasets=2), tmp_path / "before")
    abo.Ledger.of(path).record(records, tmp_path / "before")
    browser = Browser(serve_app(ledgers=(abo.Ledger.place_of(path),)).host)
    browser.ask("/upload")
    return path, browser


def drawn(browser, content, name):
    """Upload a table, draw a release and return its address and what the page says of it."""
    state = f"table={browser.send(content, name)[1]['fields']['table']}&number=1"

    def post(body):
        return last_line(browser.ask(f"/draw/draw?{state}", "POST", body, content_type=FORM)[2])

    answer = post("")
    if "confirm" in answer["parts"]:
        mark = re.search(r'id="anyway"[^>]*value="(\w+)"', answer["parts"]["confirm"])[1]
        answer = post(f"confirm={quote(mark)}")
    state += f"&drawn={answer['fields']['drawn']}"
    return state, last_line(browser.ask(f"/decide/after?{state}")[2])["parts"]["after"]


FORM = "application/x-www-form-urlencoded"


def test_what_is_taken_home_is_recorded_and_judged_with_what_was_before(used, tmp_path):
    path, browser = used
    with browser.stay():
        state, page = drawn(browser, path.read_bytes(), "people.csv")
        assert "Judged together with 1 earlier release (1: 2 datasets of 40 rows" in page
        (_, noted), counted = abo.Ledger.of(path).releases, abo.Ledger.of(path).counted
        assert noted.is_attempt
        assert noted.voided.reason == "drawn and judged in the app, not taken home"
        assert len(counted) == 1, "what is drawn and left is not counted"
        for _ in range(2):
            content = browser.ask(f"/decide/release.zip?{state}")[2]
        _, second = abo.Ledger.of(path).releases
        assert (second.place, second.how, second.what) == ("release", "drawn", "1 dataset of 40 rows")
        assert second.counts
        report = browser.ask(f"/decide/report.html?{state}")[2].decode()
        assert "Judged together with 1 earlier release (1: 2 datasets of 40 rows" in report
        # the same numbers as the command line has for both together
        zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path / "release")
        lines = csv.DictReader(io.StringIO(browser.ask(f"/decide/risk.csv?{state}")[2].decode("utf-8-sig")))
        found = [float(line["information_gain"]) for line in lines]
        both = [tmp_path / "release", tmp_path / "before"]
        expected = abo.risk(path, both, rng=np.random.default_rng(0)).to_pandas()["information_gain"]
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_who_draws_again_is_told_that_it_is_another_attempt(used):
    path, browser = used
    with browser.stay():
        drawn(browser, path.read_bytes(), "people.csv")
        _, page = drawn(browser, path.read_bytes(), "people.csv")
        assert "This is attempt 2: 1 release of the table was drawn before it, judged, and not given out" in page
    first, *attempts = abo.Ledger.of(path).releases
    assert first.counts
    assert [entry.is_attempt for entry in attempts] == [True, True]


def test_what_is_allowed_out_and_left_is_said_alike_everywhere(used, allbutone):
    """The chip of every step, the verdict of the budget and of the draw, and the command line: one budget."""
    path, browser = used
    with browser.stay():
        state, _ = drawn(browser, path.read_bytes(), "people.csv")
        for taken in (False, True):  # home: only then the release on the page counts
            records, ledger = abo.Records.of(path), abo.Ledger.of(path)
            out = ledger.together(records).release
            plan = abo.budget(records, rows=40, release=out, rng=0)
            chips = {}
            for step in ("budget", "draw", "decide", "mend", "upload"):
                chip = last_line(browser.ask(f"/{step}/chip?{state}")[2])["parts"]["chip"]
                chips[step] = re.sub("<[^>]*>", "", chip).strip()
            beside = "" if taken else " · without this"
            assert chips.pop("decide") == f"{plan.in_short}{beside}"
            assert set(chips.values()) == {plan.in_short}
            assert plan.in_short in allbutone("budget", path.name, "--rows", "40", "--force")[1]
            verdict = last_line(browser.ask(f"/budget/budget?{state}")[2])["parts"]["verdict"]
            ahead = last_line(browser.ask(f"/draw/ahead?{state}")[2])["parts"]["ahead"]
            assert plan.sentence in verdict
            assert plan.sentence in ahead
            times = len(ledger.releases)
            said = last_line(browser.ask(f"/draw/table?{state}")[2])["parts"]["table"]
            assert f"Drawn so far: {times} times ({len(ledger.counted)} given out" in said
            content = browser.ask(f"/decide/release.zip?{state}")[2]
            zipfile.ZipFile(io.BytesIO(content)).extractall(path.parent / "release")
        assert plan.before == 3


ANSWERS = ("Who", "How sure", "How much more", "Not computed")  # of a page to sign; what to do is worded for each


def answered(page):
    """Return the verdict of a page to sign, and its answers and facts by their question."""
    verdict = re.search(r'<p class="verdict">(.*?)</p>', page, re.DOTALL)[1]
    told = {"verdict": verdict} | dict(re.findall(r"<dt>([^<]*)</dt>\s*<dd>(.*?)</dd>", page, re.DOTALL))
    return {name: told[name] for name in ("verdict", *ANSWERS, "Ledger", "Limits") if name in told}


def test_the_page_to_sign_names_the_entry_once_it_is_taken_home(used, allbutone):
    """And says what the command's says: verdict, most exposed, membership, how much is left, and attempts."""
    path, browser = used
    with browser.stay():
        drawn(browser, path.read_bytes(), "people.csv")  # an attempt
        state, page = drawn(browser, path.read_bytes(), "people.csv")
        assert "not recorded in people.csv.ledger.toml" in page
        content = browser.ask(f"/decide/release.zip?{state}")[2]
        digest = abo.Ledger.of(path).releases[-1].files
        files = [browser.ask(f"/decide/{name}?{state}")[2].decode() for name in ("page.html", "report.html")]
        signed = [last_line(browser.ask(f"/decide/after?{state}")[2])["parts"]["after"], *files]
        for text in signed:
            assert "entry 3 of people.csv.ledger.toml" in text
            assert digest in text
    zipfile.ZipFile(io.BytesIO(content)).extractall(path.parent / "release")
    assert allbutone("report", path.name, "release", "--page", "--out", "page.html")[0] == 0
    said = answered((path.parent / "page.html").read_text(encoding="utf-8"))
    assert {"verdict", "Who", "How sure", "How much more"} <= set(said)
    assert "(membership)" in said["Who"]
    assert "Drawn before it, judged and not given out: release 2 of the ledger" in said["How much more"]
    for text in signed:
        assert answered(text) == said


def test_draws_are_counted_without_a_ledger_too(used):
    path, browser = used
    with browser.stay():
        assert "of this table here" not in drawn(browser, path.read_bytes(), "others.csv")[1]
        assert "This is draw 2 of this table here" in drawn(browser, path.read_bytes(), "others.csv")[1]


def test_a_table_of_another_name_is_no_affair_of_the_ledger(used):
    path, browser = used
    with browser.stay():
        state, page = drawn(browser, path.read_bytes(), "others.csv")
        assert "Judged together" not in page
        assert "allbutone ledger add others.csv FOLDER" in page
        assert browser.ask(f"/decide/release.zip?{state}")[0] == 200
    assert len(abo.Ledger.of(path).releases) == 1


def test_only_files_named_as_ledgers_are_taken(allbutone, tmp_path):
    code, _, err = allbutone("app", "--ledger", "people.csv", "--no-browser")
    assert code == 2
    assert "not named as a ledger" in err
