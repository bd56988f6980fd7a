"""People with several rows in the app: declared by one click, judged as people, released as visits again."""

import csv
import html
import io
import json
import re
import tomllib
import zipfile
from urllib.parse import urlencode

import numpy as np
import pandas as pd
import pytest
from test_app_mixed import draw, words

import allbutone as abo
from allbutone.disclosure.budget import budget
from allbutone.tables.schema import Schema
from app_server import Browser, last_line

TIMES = (0, 6, 12)


def growth(missed=0.0, people=40):
    """Children at three visits: a length and a weight at each, and once what they weighed at birth."""
    rng, rows = np.random.default_rng(5), []
    for child in range(people):
        birth, tall, heavy = rng.normal(3400, 450), *rng.normal(0, 1, 2)
        for month in TIMES:
            length = 52 + 4 * tall + 1.3 * month + rng.normal(0, 1)
            weight = 4 + 0.4 * heavy + (0.5 + 0.05 * heavy) * month + rng.normal(0, 0.3)
            if rng.uniform() >= missed:
                rows.append((f"P{100 + child}", month, round(birth), round(length, 1), round(weight, 2)))
    return pd.DataFrame(rows, columns=["child", "month", "birth", "length", "weight"])


@pytest.fixture
def asked(served, few_trials):
    """Upload a long table; ask of it what stands in an address, which `asked.state` holds, and more."""
    browser = Browser(served.host)

    class Asked:
        def __init__(self):
            self.state = {}

        def send(self, table):
            content = table.to_csv(index=False).encode()
            self.state = {"table": browser.send(content, "growth.csv")[1]["fields"]["table"]}
            return self

        def __call__(self, path, method="GET", body=None, **more):
            fields = urlencode(self.state | {name.replace("_", "-"): text for name, text in more.items()}, True)
            status, _, found = browser.ask(f"/{path}?{fields}", method, body)
            return last_line(found) if status != 200 or "." not in path else found

        def buttons(self):
            """What each button of Mend sets, by its words."""
            part = self("mend/standing")["parts"]["standing"]
            found = re.findall(r'data-fields="([^"]*)">([^<]*)<', part)
            return {html.unescape(label): json.loads(html.unescape(html.unescape(text))) for text, label in found}

        def click(self, words):
            (fields,) = [fields for label, fields in self.buttons().items() if label.startswith(words)]
            self.state |= fields
            return words

        def standing(self):
            return words(self("mend/standing")["parts"]["standing"])

    return Asked()


def test_rows_become_visits_by_one_click_and_go_out_as_rows_again(asked):
    asked.send(growth())
    assert "some people have several rows" in asked.standing()
    assert "Proposed" not in asked.standing(), "whose rows these are comes first"
    assert next(iter(asked.buttons())) == "Rows are visits (month 0, 6, 12) of people (child)"
    asked.click("Rows are visits")
    assert "Nothing stands in the way: 40 people and 7 columns are used" in asked.standing()
    asked.click("Apply all")
    parts = asked("mend/table")["parts"]
    assert [words(parts[f"said-{place}"])[:11] for place in (1, 2)] == ["Names peopl", "Tells the v"]
    # what is declared is a table file that reads the table as the app does
    text = asked("mend/table.toml").decode()
    schema = Schema.of_entries(tomllib.loads(text), "it")
    assert (schema.visits.person, schema.visits.times, schema.visits.once) == ("child", TIMES, ("birth",))
    assert schema.column("length").decimals == 1
    plan = budget(growth(), schema=schema, rows=40, rng=0)
    assert words(plan.sentence) in words(asked("budget/budget")["parts"]["verdict"])
    every = list(csv.DictReader(io.StringIO(asked("budget/records.csv").decode())))
    assert every[0]["person"] == plan.case.records.persons[plan.case.records.place_of(plan.limiting_row)]
    people = asked("budget/people")["parts"]["people"]
    assert f'data-who="person {every[0]["person"]}"' in people
    told = asked("budget/record", row=str(plan.limiting_row), count="1")
    assert "at month 12" in words(told["parts"]["told"])
    assert "@" not in words(told["parts"]["told"])
    # drawn, it is a long table of new people
    drawn = draw(asked, rows="20")
    files = zipfile.ZipFile(io.BytesIO(asked("decide/release.zip", drawn=drawn)))
    with files.open("dataset-001.csv") as one:
        found = pd.read_csv(one)
    assert list(found.columns) == list(growth().columns)
    assert list(found["child"].unique()) == list(range(1, 21))
    assert list(found["month"]) == [*TIMES] * 20
    assert found.groupby("child")["birth"].nunique().max() == 1
    assert json.loads(files.read("release.json"))["visits"] == [*TIMES]


def test_the_risk_is_that_of_the_package_and_the_page_names_people(asked, tmp_path):
    asked.send(growth()).click("Rows are visits")
    asked.state |= {"number": "4", "rows": "20"}
    asked.state["drawn"] = draw(asked)
    zipfile.ZipFile(io.BytesIO(asked("decide/release.zip"))).extractall(tmp_path / "release")
    again = abo.risk(growth(), tmp_path / "release", rng=np.random.default_rng(0))
    after = words(asked("decide/after")["parts"]["after"])
    assert again.verdict.headline in after
    assert "length at month 0" in after
    assert "@" not in after
    lines = list(csv.DictReader(io.StringIO(asked("decide/risk.csv").decode())))
    assert [line["person"] for line in lines] == list(again.measures["person"])
    for name in ("exposure", "probability_weight@6", "baseline_birth"):
        found = [float(line[name]) for line in lines]
        np.testing.assert_allclose(found, again.measures[name], rtol=1e-6)
    third = lines[2]["person"]
    assert f"What this very release tells of person {third}" in words(
        asked("decide/one", row=third)["parts"]["one"]
    )
    assert "'3' is nobody of this table" in asked("decide/one", row="3")["error"]
    report = asked("decide/report.html").decode()
    assert '"person": "child"' in html.unescape(report)
    assert "--table-file table.json" in html.unescape(report)


def test_rows_that_are_no_visits_are_named_with_the_reason(asked):
    asked.send(pd.concat([growth(), growth().iloc[[4]]], ignore_index=True))
    said = asked.standing()
    assert "'month' would tell their visits, but a person has two rows for one visit in 2 rows (5, 121)" in said
    assert "describe" not in said
    assert next(iter(asked.buttons())) == "Each row is another person"


def test_missed_visits_are_gaps_of_people_and_choices_are_taken_back(asked):
    long = growth(missed=0.1)
    came = long.groupby("child")["month"].nunique()
    asked.send(long).click("Rows are visits")
    lacking = [f"weight at month {time} ({len(came) - np.sum(long['month'] == time)})" for time in TIMES]
    said = asked.standing()
    assert f"{np.sum(came < 3)} of {len(came)} people lack a value" in said
    assert all(each in said for each in lacking)
    asked.click(f"Use the {np.sum(came == 3)} of {len(came)} people who lack nothing")
    assert f"{np.sum(came == 3)} people and 7 columns are used" in asked.standing()
    asked.state |= {"gaps": "keep", "leave": "2"}
    said = asked.standing()
    assert f"{len(came) - 1} people and 7 columns are used" in said
    name = long["child"].drop_duplicates().iloc[1]
    assert f"Left out: person {name}." in said
    assert f"Left out as you chose: person {name}." in said
    del asked.state["leave"]
    part = asked("mend/standing")["parts"]["standing"]
    (back,) = re.findall(r'data-fields="([^"]*person[^"]*)"', part)
    asked.state |= json.loads(html.unescape(html.unescape(back)))
    assert "some people have several rows" in asked.standing()
    assert "once" not in "".join(text for name, text in asked.state.items() if name.startswith("more-"))


def test_what_is_wrong_with_visits_is_said_where_they_are_declared(asked):
    asked.send(pd.concat([growth(), growth().tail(1).assign(month=9)]))
    asked.state |= {"person": "child", "visit": "month"}
    assert "visits is not given" in asked.standing()
    asked.state["visits"] = "0, 6, 12"
    said = asked.standing()
    assert "'month' has '9' in" in said
    assert "'birth' does not change within anybody" in said, "and all else in the same list"
    long = growth()
    asked.send(long.assign(copy=long["length"].where(long["month"] == 6, long["weight"])))
    asked.state |= {"person": "child", "visit": "month", "visits": "0, 6, 12", "more-3": "once = true"}
    assert "copy at month 6 is determined by 'length at month 6'" in asked.standing()
    asked.state |= {"visit": "mont", "visits": "0, 6"}
    assert "is 'month' meant?" in asked.standing()
    asked.state |= {"person": "", "visit": "", "visits": "", "more-4": "once = true"}
    assert "no column names people" in asked.standing()
    assert set(asked("mend/table")["parts"]) >= {"columns", "said-4"}, "and the columns are there to correct it"
    asked.send(growth()).click("Rows are visits")
    asked.state["guarantee"] = "noise"
    assert "a guarantee needs public limits" in asked.standing()


def test_a_table_file_of_visits_fills_the_fields_and_one_visit_of_a_column_can_be_left_out(asked):
    asked.send(growth())
    declared = {
        "person": "child", "visit": "month", "visits": [*TIMES],
        "columns": {
            "birth": {"once": True, "decimals": 0},
            "length": {"course": "line", "deviation": 1.0},
            "weight": {"scale": "log", "visits": [0, 12]},
        },
    }  # fmt: skip
    answer = asked("mend/declare", "POST", json.dumps(declared).encode(), name="growth.json")
    asked.state |= answer["fields"]
    assert asked.state["visits"] == "0, 6, 12"
    assert asked.state["more-4"] == 'deviation = 1.0, course = "line"'
    assert "not in this table" not in words(answer["parts"]["declared-note"])
    assert "one visit alone" not in words(answer["parts"]["declared-note"])
    alone = {**declared, "columns": {**declared["columns"], "weight@0": {"decimals": 1}, "height": {}}}
    said = words(
        asked("mend/declare", "POST", json.dumps(alone).encode(), name="g.json")["parts"]["declared-note"]
    )
    assert "what is said of the column counts there: weight at month 0." in said
    assert "Declared there, but not in this table: height." in said
    assert "40 people and 5 columns are used" in asked.standing()
    saved = tomllib.loads(asked("mend/table.toml").decode())
    found, given = Schema.of_entries(saved, "it"), Schema.of_entries(declared, "it")
    assert found.visits == given.visits
    assert found.column("weight").scale == given.column("weight").scale
    applied = asked("budget/apply", "POST", b"", **{"try": "visit-5-3"})["fields"]
    assert applied["more-5"] == "visits = [0]"
    asked.state |= applied
    assert "40 people and 4 columns are used" in asked.standing()
