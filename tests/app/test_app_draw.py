"""Draw and Decide in a browser: what to expect, nobody is exposed unasked, and what came of it."""

import csv
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from app_server import WAIT, cut_off, settled

pytestmark = pytest.mark.usefixtures("few_trials")
BEYOND = "number=40&rows=30"  # of the small table


@pytest.fixture
def page(tabs):
    return tabs()


def uploaded(page, served, path):
    """Send a table and return its name in addresses."""
    sent = page.request.post(f"{served.address}/upload/upload?name={path.name}", data=path.read_bytes())
    return sent.json()["fields"]["table"]


def posted(page, served, state, **said):
    """Ask the server itself to draw, past the page."""
    answer = page.request.post(f"{served.address}/draw/draw?{state}", form=said, timeout=WAIT)
    return json.loads(answer.text().splitlines()[-1])


def fetched(page, served, name, state, drawn):
    return page.request.get(f"{served.address}/decide/{name}?{state}&drawn={drawn}", timeout=WAIT)


def mark_of(answer):
    """What the dialog's button says to the server."""
    return re.search(r'id="anyway"[^>]*value="(\w+)"', answer["parts"]["confirm"])[1]


def drawn_anyway(page, served, state, **said):
    """Draw a release, confirming what must be; return its name in addresses."""
    answer = posted(page, served, state, **said)
    if "confirm" in answer["parts"]:
        answer = posted(page, served, state, confirm=mark_of(answer), **said)
    return answer["fields"]["drawn"]


def handle(page):
    return parse_qs(urlsplit(page.url).query).get("drawn")


def releases(served, name):
    """What the server keeps for the browser that sent this table."""
    from allbutone.app.pages.decide import DrawnRelease

    (session,) = [one for one in served.app.state.sessions._by_token.values() if name in one.held]
    return [held for held in session.held.values() if isinstance(held.value, DrawnRelease)]


def most_exposed_row(path):
    from allbutone.disclosure.exposure_law import leverages
    from allbutone.model.niw import NIW
    from allbutone.tables.records import Records

    values = Records.of(path).values
    return int(leverages(values, NIW.flat(values.shape[1])).argmax()) + 1


def test_beyond_the_budget_the_server_draws_only_what_was_confirmed(page, served, table):
    name = uploaded(page, served, table)
    state = f"{BEYOND}&table={name}"
    other = mark_of(posted(page, served, f"{state}&probability=0.25"))
    larger = mark_of(posted(page, served, state.replace("rows=30", "rows=300")))
    for said in ({}, {"confirm": "yes"}, {"confirm": "40"}, {"confirm": other}, {"confirm": larger}):
        answer = posted(page, served, state, **said)
        assert answer["fields"] == {}
        assert "Nothing was drawn" in answer["error"]
        assert "may be released" in answer["error"]
        assert f"row {most_exposed_row(table)}" in answer["parts"]["confirm"]
    assert releases(served, name) == []
    assert drawn_anyway(page, served, state)
    assert len(releases(served, name)) == 1


def test_the_dialog_names_whom_it_exposes_and_asks_twice(page, served, table):
    name = uploaded(page, served, table)
    page.goto(f"{served.address}/draw?{BEYOND}&table={name}")
    settled(page)
    assert "Beyond the budget" in page.inner_text("#ahead")
    page.focus("#draw")
    page.keyboard.press("Enter")
    dialog = page.locator("dialog[open]")
    dialog.wait_for()
    assert re.search(rf"row {most_exposed_row(table)}\b.*chance of (more than )?[\d.]+\s%", dialog.inner_text())
    assert page.evaluate("document.activeElement.id") == "cancel"
    assert page.is_disabled("#anyway")
    page.keyboard.press("Escape")
    dialog.wait_for(state="detached")
    settled(page)
    assert releases(served, name) == []
    assert handle(page) is None
    assert page.evaluate("document.activeElement.id") == "draw"

    page.click("#draw")
    dialog.wait_for()
    page.check("#known")
    page.click("#anyway")
    page.wait_for_selector("#downloads")
    settled(page)
    assert len(releases(served, name)) == 1
    assert "may be released" in page.inner_text("#after .board")
    assert "No, as the verdict above says why." in page.inner_text("#downloads")


def test_going_back_leaves_no_dialog_about_another_release(page, served, table):
    name = uploaded(page, served, table)
    page.goto(f"{served.address}/draw?number=40&rows=300&table={name}")
    settled(page)
    page.fill("#rows", "30")
    page.keyboard.press("Tab")
    settled(page)
    page.click("#draw")
    page.locator("dialog[open]").wait_for()
    page.go_back()
    page.locator("dialog[open]").wait_for(state="detached")
    assert releases(served, name) == []


def test_a_file_that_cannot_be_had_is_said_in_the_page(page, served, table):
    state = f"table={uploaded(page, served, table)}"
    page.goto(f"{served.address}/decide?{state}&drawn={drawn_anyway(page, served, state)}")
    settled(page)
    session = next(
        one for one in served.app.state.sessions._by_token.values() if page.url.split("drawn=")[1] in one.held
    )
    session.held.clear()
    page.click("#downloads a:text-is('release.zip')")
    page.wait_for_selector("#error:has-text('is not here (any more)')")


def test_what_is_too_large_is_left_to_the_command_line(page, served):
    page.goto(f"{served.address}/draw?number=100&rows=1000000&format=parquet&kind=datasets")
    page.wait_for_selector("[data-too-large]")
    command = "allbutone synthesize demo/cohort.csv --out release --datasets 100 --rows 1000000 --format parquet"
    assert command in page.inner_text("#table pre")
    page.wait_for_selector("#draw:disabled")
    answer = posted(page, served, "number=100&rows=1000000")
    assert "too large" in answer["error"]
    assert "allbutone synthesize" in answer["error"]


def test_settings_changed_after_drawing_are_pointed_out(page, served, table):
    name = uploaded(page, served, table)
    drawn = drawn_anyway(page, served, f"table={name}")
    page.goto(f"{served.address}/draw?table={name}&drawn={drawn}")
    settled(page)
    assert "have changed" not in page.inner_text("#table")
    assert "Drawn so far in this browser: once." in page.inner_text("#draws")
    page.fill("#number", "2")
    page.keyboard.press("Tab")
    settled(page)
    assert "have changed" in page.inner_text("#table")
    with page.expect_navigation():
        page.click("#next")
    settled(page)
    assert "1 dataset of 30 rows" in page.inner_text("#drawn-title")


def test_on_a_phone_at_night_nothing_is_cut_off(tabs, served, table):
    page = tabs(width=390, color_scheme="dark")
    name = uploaded(page, served, table)
    drawn = drawn_anyway(page, served, f"table={name}")
    page.goto(f"{served.address}/decide?table={name}&drawn={drawn}")
    page.wait_for_selector("#downloads")
    settled(page)
    assert cut_off(page) == []


def test_every_table_can_be_taken_home(page, served):
    """What is shown, with all digits."""
    from allbutone import NIW, demo_cohort
    from allbutone.disclosure.exposure_law import leverages

    page.goto(f"{served.address}/draw?number=2")
    settled(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV of: Who is likeliest to be disclosed").click()
    assert download.value.suggested_filename == "who-is-likeliest-to-be-disclosed-by-2-datasets.csv"
    lines = list(csv.DictReader(download.value.path().read_text().splitlines()))
    assert [line["Row"] for line in lines] == page.locator("#ahead-people tbody th").all_inner_texts()
    assert list(lines[0]) == ["Row", "Chance to be disclosed", "Leverage"]
    leverage = leverages(demo_cohort().values, NIW.flat(5))
    assert lines[-1]["Row"].endswith("others")
    for line in lines[:-1]:
        assert float(line["Leverage"]) == pytest.approx(leverage[int(line["Row"]) - 1], rel=1e-12)
