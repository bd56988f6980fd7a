"""Budget, as a user meets it: a file in, its budget and its people out, what would allow more, one record."""

import csv
import io
import json

import numpy as np
import pytest
from test_app_uploads import NAMES, VALUES, as_csv, send, ticked

import allbutone as abo
from allbutone.disclosure.budget import budget, stronger_prior
from allbutone.support.text import chance
from allbutone.tables.records import demo_cohort
from app_server import cut_off, last_line, opened, settled

# the place of a dot, in pixels of the page
DOT = """row => {
  const plot = document.querySelector('[data-figure="records"] .plot');
  const traces = plot.data.filter(trace => trace.type === 'scatter' || !trace.type);
  const place = traces.findIndex(trace => trace.customdata), at = [...traces[place].customdata].indexOf(row);
  const dot = plot.querySelectorAll('.scatterlayer .trace')[place].querySelectorAll('.point')[at];
  const { x, y, width, height } = dot.getBoundingClientRect();
  return [x + width / 2, y + height / 2];
}"""


def ranked(page):
    return [int(cell.replace(",", "")) for cell in page.locator("#ranking [data-row] th").all_inner_texts()]


def listed(plan, count):
    """The rows that a page lists: who sets the limit, then by chance, as long as that is not next to nothing."""
    ranked = plan.ranked(count)
    return plan.rows[ranked[: max(1, int(np.sum(plan.chances(count) >= 0.001)))]].tolist()


def test_the_cohort_is_there_with_its_budget_and_its_people(tab, address):
    opened(tab, f"{address}/budget")
    plan = budget(demo_cohort(), abo.NIW.flat(5), rows=503, rng=0)
    assert tab.inner_text("#verdict .verdict") == f"✘ {plan.sentence}"
    assert tab.inner_text("#chip") == plan.in_short
    assert tab.is_hidden("#error")
    assert tab.get_attribute("#verdict", "aria-live") == "polite"
    assert "nobody in it is real" in tab.inner_text("#note")
    # the answer, the curve, the people, and then the form
    order = [tab.locator(part).bounding_box()["y"] for part in ("#verdict", "#plan", "#people", "#controls")]
    assert order == sorted(order)
    assert ranked(tab) == listed(plan, 1) == [212]
    first = tab.locator("#ranking tbody tr").first.locator("th, td").all_inner_texts()
    assert first[:2] == ["212", chance(plan.chances(1)[211])]
    assert tab.inner_text(".others").split("\t")[:2] == ["502 others", "below 0.1\u00a0% by the closed form"]
    tab.click("#more")
    settled(tab)
    assert ranked(tab) == plan.rows[plan.ranked(1)[:26]].tolist()
    assert "shown=26" in tab.url


def test_what_would_pass_is_tried_at_once_and_applied_by_a_click(tab, address, few_trials):
    opened(tab, f"{address}/upload")
    send(tab, "mine.csv", as_csv())
    opened(tab, f"{tab.url.replace('/mend', '/budget')}&rows=20")
    records = abo.Records(VALUES, NAMES)
    before = budget(records, abo.NIW.flat(3), rows=20, rng=0)
    assert tab.inner_text("#verdict .verdict")[2:] == before.sentence
    tab.check("#try-leave-17")
    settled(tab)
    without = records.take(np.delete(np.arange(40), 16))
    plan = budget(without, abo.NIW.flat(3), rows=20, rng=0)
    assert tab.inner_text("#verdict .verdict")[2:] == plan.sentence != before.sentence
    assert "Tried, not applied" in tab.inner_text("#verdict")
    assert tab.inner_text("#chip").startswith(before.in_short), "what is tried is not yet so"
    tab.check("#try-size-10")
    tab.check("#try-size-2")
    settled(tab)
    assert not tab.is_checked("#try-size-10"), "of sizes one"
    smaller = budget(without, abo.NIW.flat(3), rows=2, rng=0)
    assert tab.inner_text("#verdict .verdict")[2:] == smaller.sentence
    tab.click("#apply")
    settled(tab)
    assert "rows=2" in tab.url
    assert "leave=17" in tab.url
    assert "try=" not in tab.url
    assert tab.inner_text("#verdict .verdict")[2:] == smaller.sentence
    assert tab.inner_text("#chip").startswith(smaller.in_short)
    assert "Left out as you chose: row 17." in tab.inner_text("#note")


def test_a_stronger_prior_is_tried_by_the_tables_numbers_and_asks_for_public_ones(browser, few_trials):
    table = browser.send(as_csv(), "mine.csv")[1]["fields"]["table"]
    with browser.stay():
        state = f"table={table}&rows=20&try=prior,leave-17"
        said = last_line(browser.ask(f"/budget/budget?{state}")[2])["parts"]["verdict"]
        records = abo.Records(VALUES, NAMES).take(np.delete(np.arange(40), 16))
        assert budget(records, stronger_prior(records, abo.NIW.flat(3)), rows=20, rng=0).sentence in said
        made = last_line(browser.ask(f"/budget/apply?{state}", "POST", b"")[2])["fields"]
        assert made == {"try": "", "rows": "20", "leave": "17", "prior": "public", "weight": "39", "extra": "39"}
        standing = last_line(browser.ask(f"/mend/standing?table={table}&prior=public&weight=39")[2])["parts"][
            "standing"
        ]
        assert "bmi, ldl and hba1c: has no centre and spread" in standing


def test_another_release_has_another_budget(tab, address):
    opened(tab, f"{address}/budget?kind=parameters&probability=0.75&count=3&columns=BMI&columns=HBA1C")
    records = abo.Records.of(demo_cohort(), columns=["BMI", "HBA1C"])
    plan = budget(records, abo.NIW.flat(2), rows=None, probability=0.75, rng=0)
    assert tab.inner_text("#verdict .verdict")[2:] == plan.sentence
    assert tab.is_hidden("#rows")


def test_a_file_in_its_records_out(tab, address):
    opened(tab, f"{address}/upload?columns=BMI&shown=50")
    send(tab, "mine.csv", as_csv())
    assert ticked(tab) == [[name, True] for name in NAMES]
    assert "columns" not in tab.url
    opened(tab, f"{tab.url.replace('/mend', '/budget')}&count=10")
    plan = budget(abo.Records(VALUES, NAMES), abo.NIW.flat(3), rows=40, rng=0)
    assert tab.inner_text("#verdict .verdict")[2:] == plan.sentence
    assert ranked(tab) == listed(plan, 10)[:25]
    assert "Confidential" in tab.inner_text("#note")
    # a record, by keyboard
    before = tab.url
    tab.focus("#row-17")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#attributes")
    settled(tab)
    assert "row=17" in tab.url
    assert tab.inner_text("#opened-name") == "Row 17"
    assert tab.evaluate("document.activeElement.id") == "opened-name"
    assert tab.get_attribute("#row-17", "aria-pressed") == "true"
    lines = [line.split("\t") for line in tab.locator("#attributes tbody tr").all_inner_texts()]
    assert [(name, float(true)) for name, _, true, *_ in lines] == list(zip(NAMES, VALUES[16], strict=True))
    assert "trial release" in tab.inner_text("#record")
    assert "instead of ±" in lines[0][1]
    assert tab.locator("#figure-landscape .main-svg").first.is_visible()
    assert tab.inner_text("#told .verdict")[2:].startswith(
        "By the rule this trial release of 10 datasets discloses"
    )
    # each value twice: to who knows nothing of the person, and to who knows all else of them
    twice = [f"{name} {adversary}" for name in NAMES for adversary in ("lacks the record", "knows the rest")]
    assert tab.locator("#values tbody th").all_inner_texts() == twice
    assert "sure that it is in the table" in tab.inner_text("#membership")
    tab.get_by_text("For experts: how it comes about").click()
    assert "Information gain" in tab.inner_text("#measures")
    assert "confidential, and not a guarantee" in " ".join(tab.inner_text("#measures").split())
    # other columns, and the focus stays where it was
    tab.focus("#axis-x")
    tab.select_option("#axis-x", "hba1c")
    settled(tab)
    assert "x=hba1c" in tab.url
    assert tab.evaluate("document.activeElement.id") == "axis-x"
    assert tab.locator("#figure-landscape .xtitle").text_content().startswith("hba1c")
    tab.go_back()
    tab.go_back()
    settled(tab)
    assert tab.url == before
    assert tab.is_hidden("#opened")


def test_a_dot_opens_its_record_and_closing_returns(tab, address):
    opened(tab, f"{address}/budget")
    tab.locator("#figure-records").scroll_into_view_if_needed()
    tab.mouse.move(*tab.evaluate(DOT, 212))
    tab.mouse.click(*tab.evaluate(DOT, 212))
    tab.wait_for_selector("#attributes")
    assert "row=212" in settled(tab).url
    tab.click("#close")
    assert tab.is_hidden("#opened")
    assert tab.evaluate("document.activeElement.id") == "row-212"


def test_all_records_come_as_a_file(tab, address):
    opened(tab, f"{address}/budget?count=7")
    with tab.expect_download() as coming:
        tab.click("#ranking a.csv")
    lines = list(csv.DictReader(io.StringIO(coming.value.path().read_text())))
    assert lines[0]["row"] == "212"
    plan = budget(demo_cohort(), abo.NIW.flat(5), rows=503, rng=0)
    order = [int(line["row"]) for line in lines]
    assert order == plan.rows[plan.ranked(7)].tolist()
    np.testing.assert_allclose([float(line["leverage"]) for line in lines], plan.leverage[np.array(order) - 1])
    assert float(lines[0]["chance_at_7"]) == pytest.approx(plan.chances(7)[211])
    assert not {"T2D", "BMI"} & set(lines[0])


def test_one_column_has_no_landscape(tab, address):
    opened(tab, f"{address}/budget?columns=BMI&row=212&count=5")
    assert "one column" in tab.inner_text("#record")
    assert tab.locator("#values tbody tr").count() == 2
    assert "Expected exposure (closed form)" in tab.text_content("#measures")
    assert tab.is_hidden("#figure-landscape")


def test_scale_far_from_the_prior_is_noted(tab, address):
    opened(tab, f"{address}/upload")
    send(tab, "units.csv", as_csv(100 + 20 * VALUES))
    note = tab.locator("#prior-note")
    assert note.count() == 0  # the flat prior has no units
    tab.select_option("#prior", "public")
    settled(tab)
    assert tab.locator(".problem:has-text('no centre and spread')").count() == 3
    for centre, spread, fits in (("0", "1", False), ("100", "20", True)):
        for place in (1, 2, 3):
            tab.fill(f"#centre-{place}", centre)
            tab.fill(f"#spread-{place}", spread)
        tab.keyboard.press("Tab")
        settled(tab)
        assert (note.count() == 0) == fits


def test_what_an_address_cannot_mean_is_said(tab, address):
    for query, message in {
        "table=gone": "not here (any more)",
        "row=504": "'504' is none of this table; give one from 1 to 503",
        "row=1&hidden=both": "give mode or integrated",
        "row=1&count=0": "a number from 1 to",
        "row=1&rows=two": "Rows of each dataset",
        "row=1&probability=none": "A value is disclosed from a probability of",
        "row=1&columns=XYZ": "there is no column 'XYZ'",
        "try=column-99,size-,leave-x,nothing": "",
        "row=1&prior=public&centre-1=1&spread-1=1": "4 columns cannot be used yet (CAD, HT, BMI, HBA1C)",
        "row=1&leave=504": "'504' is none of this table",
        "row=1&gaps=maybe": "Rows with gaps",
    }.items():
        path = "record" if "row" in query else "people"
        # the last line: others tell of progress, if it takes long
        answer = tab.request.get(f"{address}/budget/{path}?{query}").text()
        assert message in json.loads(answer.splitlines()[-1])["error"], query
    opened(tab, f"{address}/budget?row=0&count=3")
    assert "'0' is none of this table" in tab.inner_text("#error")
    assert tab.is_visible("#found")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(tabs, address, scheme):
    page = tabs(width=390, color_scheme=scheme)
    opened(page, f"{address}/budget?row=212")
    assert cut_off(page) == []
    assert page.locator("#figure-landscape .main-svg").first.is_visible()
