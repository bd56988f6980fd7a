"""Mend: all that stands in the way at once, mended one by one, table files, and natural units."""

import html
import io
import json
import re
import tomllib
import zipfile
from urllib.parse import quote, urlencode

import numpy as np
import pyarrow.csv
import pytest
from test_app_uploads import send

import allbutone as abo
from allbutone.tables.schema import Schema
from app_server import Browser, last_line, opened, settled

ROWS = 60


def messy():
    """An identifier, a skewed column, gaps, a category, a constant, a code for missing values, a copy."""
    rng = np.random.default_rng(3)
    lines = ["id,age,bili,chol,sex,centre,albumin,twice"]
    for row in range(ROWS):
        age, bili = rng.normal(50, 10), np.exp(rng.normal(0.5, 1))
        chol = "" if row % 15 == 4 else f"{rng.normal(300, 60):.0f}"
        albumin = "-999" if row == 30 else f"{rng.normal(3.5, 0.4):.2f}"
        lines.append(
            f"{row + 1},{age:.1f},{bili:.2f},{chol},{'fm'[row % 2]},7,{albumin},{2 * float(f'{age:.1f}'):.1f}"
        )
    return "\n".join(lines).encode()


def problems(page):
    """The columns that have one, by their places."""
    return [
        int(place)
        for place in re.findall(r'id="said-(\d+)">\s*<span class="problem"', page.inner_html("#columns"))
    ]


def test_all_problems_stand_beside_their_columns_and_go_when_mended(tab, address, tmp_path):
    opened(tab, f"{address}/upload")
    send(tab, "messy.csv", messy())
    assert problems(tab) == [1, 4, 6, 7, 8]
    lines = tab.locator("#hindrances li").all_inner_texts()
    assert len(lines) == 3, "what can only be left out, a code, and gaps"
    assert "Leave out id, centre and twice" in lines[0]
    assert "-999 stands for a missing value" in lines[1]
    assert "4 of 60 rows lack a value: chol (4)." in lines[2] or "5 of 60" in lines[2]
    assert "is determined by 'age'" in tab.inner_text("#said-8").replace("Is", "is")
    assert tab.inner_text("#what-4") == "whole numbers; 4 gaps"
    assert "Proposed: scale log" in tab.inner_text("#said-3")
    tab.fill("#codes", "-999")
    tab.keyboard.press("Tab")
    tab.select_option("#gaps", "leave-out")
    settled(tab)
    assert problems(tab) == [1, 6, 8]
    tab.select_option("#unusable", "leave-out")
    settled(tab)
    assert problems(tab) == []
    note = tab.inner_text("#standing")
    assert "Nothing stands in the way" in note
    assert "Left out 3 columns:" in note
    assert "Left out 5 rows of 60 with gaps; 55 are used." in note
    # what is typed wrongly is said there, and gone when it is right
    tab.fill("#low-2", "200")
    tab.keyboard.press("Tab")
    settled(tab)
    assert "outside its declared limits" in tab.inner_text("#standing")  # it cannot be used, and is left out
    tab.fill("#low-2", "many")
    tab.keyboard.press("Tab")
    settled(tab)
    assert problems(tab) == [2]
    assert "low must be a number" in tab.inner_text("#said-2")
    tab.fill("#low-2", "0")
    tab.keyboard.press("Tab")
    settled(tab)
    assert problems(tab) == []
    tab.select_option("#scale-3", "log")
    settled(tab)
    with tab.expect_download() as coming:
        tab.click("text=Save as a table file")
    text = coming.value.path().read_text(encoding="utf-8")
    saved = tmp_path / "table.toml"
    saved.write_text(text + "[columns.extra]\ndecimals = 1\n[columns.albumin.nothing]\n", encoding="utf-8")
    tab.set_input_files("#table-file", saved)
    tab.wait_for_selector("#error:visible")
    assert "there is no entry" in tab.inner_text("#error")
    saved.write_text(text.replace("low = 0.0", "low = 10") + "[columns.extra]\ndecimals = 1\n", encoding="utf-8")
    tab.set_input_files("#table-file", saved)
    tab.wait_for_selector("#declared-note .banner")
    settled(tab)
    assert tab.is_hidden("#error")
    assert "not in this table: extra" in tab.inner_text("#declared-note")
    assert (tab.input_value("#low-2"), tab.input_value("#scale-3")) == ("10", "log")
    assert tab.input_value("#codes") == "-999"
    assert "missing" not in tab.url


def test_a_table_file_comes_back_as_it_went(browser):
    table = browser.send(messy(), "messy.csv")[1]["fields"]["table"]
    declared = {
        "bili": {"scale": "log(x + 0.5)", "decimals": 2, "label": "Bilirubin", "unit": "mg/dl"},
        "age": {"low": 0.0, "high": 120.0, "scale": "logit", "centre": 50.0, "spread": 10.0},
        "chol": {"scale": "quantiles", "quantiles": [[0.1, 200.0], [0.9, 400.0]], "missing": [-1.0]},
        "sex": {"kind": "left out", "why": "not used"},
    }
    body = json.dumps({"columns": declared}).encode()
    _, _, sent = browser.ask(f"/mend/declare?table={table}&name=all.json", "POST", body)
    fields = last_line(sent)["fields"]
    state = urlencode({"table": table, **fields}, doseq=True)
    status, headers, text = browser.ask(f"/mend/table.toml?{state}")
    assert status == 200
    assert "table.toml" in headers["content-disposition"]
    found = Schema.of_entries(tomllib.loads(text.decode()), "it")
    for name, entries in declared.items():
        assert found.column(name).entries() == entries


def test_proposals_are_those_of_a_draft_one_click_away_and_tell_no_value(browser):
    table = browser.send(messy(), "messy.csv")[1]["fields"]["table"]
    part = last_line(browser.ask(f"/mend/standing?table={table}&codes=-999")[2])["parts"]["standing"]
    (every,) = re.findall(r'id="propose" data-fields="([^"]*)"', part)
    fields = json.loads(html.unescape(html.unescape(every)))
    assert fields["scale-3"] == "log"
    assert fields["decimals-2"] == "1"
    assert {text for name, text in fields.items() if name.startswith(("low-", "high-"))} <= {"", "0"}
    assert {re.sub(r"\d+$", "", name) for name in fields} == {
        "scale-", "low-", "high-", "decimals-", "step-", "step_of-", "label-"
    }  # fmt: skip


def test_a_clinical_table_is_mended_by_clicks_alone(tab, address):
    """An identifier, dates and gaps: each goes by a button, and every button leads to a table that can be used."""
    rng = np.random.default_rng(4)
    lines = ["patient_id,admitted,age,ldl"]
    for row in range(50):
        ldl = "" if row % 10 == 3 else f"{rng.normal(3, 1):.2f}"
        lines.append(f"P{row:03d},2020-01-{row % 28 + 1:02d},{rng.normal(50, 9):.1f},{ldl}")
    opened(tab, f"{address}/upload")
    send(tab, "clinical.csv", "\n".join(lines).encode())
    ways = ["Use the 45 complete rows of 50", "Impute what is missing", "Keep the gaps"]
    assert tab.locator("#hindrances li").last.locator("button").all_inner_texts() == ways
    while (leave := tab.locator("#hindrances button", has_text="Leave out")).count():  # patient_id, and admitted
        leave.first.click()
        settled(tab)
    start = tab.url
    for turn, people in enumerate((45, 50, 50)):
        opened(tab, start)
        tab.locator("#hindrances button", has_text=ways[turn]).click()
        settled(tab)
        assert f"Nothing stands in the way: {people} people and 2 columns" in tab.inner_text("#standing")
        assert "patient_id" not in tab.url


@pytest.fixture
def skewed(served):
    """A browser with a table of one skewed column among two, declared, and its state."""
    rng = np.random.default_rng(5)
    values = np.column_stack([np.exp(rng.normal(1, 0.8, 80)).round(2) + 0.01, rng.normal(40, 5, 80).round(1)])
    lines = [",".join(map(str, line)) for line in values.tolist()]
    browser = Browser(served.host)
    table = browser.send("\n".join(["bili,age", *lines]).encode(), "t.csv")[1]["fields"]["table"]
    return browser, values, f"table={table}&scale-1=log&decimals-1=2&low-2=0&decimals-2=1"


def test_a_record_is_told_in_natural_units(skewed):
    browser, values, state = skewed
    found = last_line(browser.ask(f"/budget/record?{state}&row=3&count=5")[2])
    true = [float(text) for text in re.findall(r'data-value="([^"]+)"', found["parts"]["record"])[::3]]
    assert true == pytest.approx(values[2].tolist())
    assert found["figures"]["landscape"]["layout"]["xaxis"]["title"]["text"].startswith("bili (log)")


def drawn_anyway(browser, state):
    """Draw a release, confirming it where it is beyond the budget; return its name."""
    answer = last_line(browser.ask(f"/draw/draw?{state}", "POST", b"")[2])
    if "confirm" in answer["parts"]:
        mark = re.search(r'id="anyway"[^>]*value="(\w+)"', answer["parts"]["confirm"])[1]
        answer = last_line(browser.ask(f"/draw/draw?{state}", "POST", f"confirm={mark}".encode())[2])
    return answer["fields"]["drawn"]


def test_a_release_is_in_natural_units_as_the_attack_on_the_logged_table_is(skewed):
    browser, values, state = skewed
    drawn = drawn_anyway(browser, f"{state}&number=2")
    content = zipfile.ZipFile(io.BytesIO(browser.ask(f"/decide/release.zip?{state}&drawn={drawn}")[2]))
    name = next(name for name in content.namelist() if name.endswith(".csv"))
    synthetic = pyarrow.csv.read_csv(io.BytesIO(content.read(name)))
    bili, age = (synthetic.column(place).to_numpy() for place in (0, 1))
    assert bili.min() > 0
    assert np.array_equal(bili, bili.round(2))
    assert np.array_equal(age, age.round(1))
    ranking = last_line(browser.ask(f"/budget/people?{state}&count=1&shown=26")[2])["parts"]["people"]
    logged = abo.Records(np.column_stack([np.log(values[:, 0]), values[:, 1]]), ("bili", "age"))
    plan = abo.budget(logged, abo.NIW.flat(2), rows=80, rng=0)
    assert [int(row) for row in re.findall(r'data-row="(\d+)"', ranking)] == plan.rows[
        plan.ranked(1)[:26]
    ].tolist()
    report = html.unescape(browser.ask(f"/decide/report.html?{state}&drawn={drawn}")[2].decode())
    assert "--table-file table.json" in report


def test_odd_values_are_told_with_the_controls_that_cure_them(skewed):
    browser, _, state = skewed
    plain = state.split("&")[0]
    drawn = drawn_anyway(browser, f"{plain}&number=1")
    after = html.unescape(
        last_line(browser.ask(f"/decide/after?{plain}&drawn={quote(drawn)}")[2])["parts"]["after"]
    )
    assert "'bili' is negative, and no real value is: model them on a log scale (at “Scale” of Mend)" in after
    assert "declare the decimals (at “Decimals” of Mend)" in after
    assert re.search(r'class="against"><b>Values: needs attention</b>', after)


def related():
    """A body mass index, an obese group, both pressures, a stay from one date to another, a time to an event."""
    rng = np.random.default_rng(8)
    n = 150
    weight, height = rng.normal(78, 12, n).round(1), rng.normal(170, 9, n).round()
    low = rng.normal(80, 9, n).round()
    high = low + np.exp(rng.normal(3.8, 0.3, n)).round()
    came = np.datetime64("2015-01-01") + rng.integers(0, 1400, n)
    went = came + np.exp(rng.normal(1.6, 0.7, n)).round().astype(int)
    lines = ["weight,height,bmi,diastolic,systolic,came,went,days,status"]
    for row in range(n):
        bmi = f"{weight[row] / (height[row] / 100) ** 2:.1f}"
        dates = ",".join(f"{str(day)[8:]}.{str(day)[5:7]}.{str(day)[:4]}" for day in (came[row], went[row]))
        pressures = f"{low[row]:.0f},{high[row]:.0f}"
        time, status = int(rng.exponential(300)) + 1, rng.choice(["alive", "dead"])
        lines.append(f"{weight[row]},{height[row]:.0f},{bmi},{pressures},{dates},{time},{status}")
    return "\n".join(lines).encode()


def test_columns_that_belong_together_are_declared_by_clicks(browser):
    """Dates, a formula, orders, an event are proposed; what is applied reads the table, and is its file."""
    table = browser.send(related(), "related.csv")[1]["fields"]["table"]
    part = last_line(browser.ask(f"/mend/standing?table={table}")[2])["parts"]["standing"]
    assert "Take it as a date" in part
    (every,) = re.findall(r'id="propose" data-fields="([^"]*)"', part)
    fields = json.loads(html.unescape(html.unescape(every)))
    assert fields["more-3"] == 'derived = "weight / (height / 100) ** 2"'
    assert fields["more-5"] == 'above = "diastolic"'
    assert fields["kind-6"] == fields["kind-7"] == "date"
    assert 'above = "came"' in fields["more-7"]
    state = urlencode({"table": table, **fields}, doseq=True)
    answer = last_line(browser.ask(f"/mend/standing?{state}")[2])
    assert "Nothing stands in the way" in answer["parts"]["standing"]
    text = browser.ask(f"/mend/table.toml?{state}")[2].decode()
    schema = Schema.of_entries(tomllib.loads(text), "it")
    assert schema.column("systolic").order.low == "diastolic"
    assert schema.column("days").event.level == "dead"
    assert [column.name for column in schema.derived] == ["bmi"]
    _, _, sent = browser.ask(f"/mend/declare?table={table}&name=table.toml", "POST", text.encode())
    again = last_line(sent)["fields"]
    assert {again[f"more-{place}"] for place in (3, 5)} == {fields["more-3"], fields["more-5"]}
    assert again["scale-5"] == fields["scale-5"]


def test_what_is_declared_of_columns_together_is_checked_where_it_stands(browser):
    table = browser.send(related(), "related.csv")[1]["fields"]["table"]
    for place, text, problem in (
        (3, 'derived = "weight / hight"', "s computed from &#39;hight&#39;"),
        (3, 'derived = "weight / height"', "s not weight / height in"),
        (4, 'above = "systolic"', "s not above systolic in"),
        (4, 'above "systolic"', "cannot be read"),
        (4, 'higher = "systolic"', "there is no entry"),
    ):
        state = urlencode({"table": table, f"more-{place}": text, "unusable": "refuse"})
        parts = last_line(browser.ask(f"/mend/table?{state}")[2])["parts"]
        assert problem in parts[f"said-{place}"], parts[f"said-{place}"]
