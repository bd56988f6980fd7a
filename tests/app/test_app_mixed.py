"""Tables with categories in the app: declared, kept, released, and what that tells of whom."""

import csv
import html
import io
import json
import re
import tomllib
import zipfile
from urllib.parse import urlencode

import numpy as np
import pyarrow.csv
import pytest
from test_app_uploads import send

import allbutone as abo
from allbutone.disclosure.budget import budget
from allbutone.disclosure.rule import Rule
from allbutone.reports.verdict import verdict_of
from allbutone.tables.records import Records
from allbutone.tables.schema import Schema
from app_server import Browser, cut_off, last_line, opened, settled

NAMES = ("sex", "stage", "score", "age", "bili")


def clinic(n=60):
    """Two categories of text, codes of three values, two measurements."""
    rng = np.random.default_rng(8)
    sex, stage = rng.permutation(["f"] * (n - 20) + ["m"] * 20), rng.permutation(["I", "II, or more"] * (n // 2))
    numbers = rng.integers(1, 4, n), rng.normal(50, 10, n).round(1), np.exp(rng.normal(0, 0.5, n)).round(2)
    lines = zip(sex, stage, *numbers, strict=True)
    content = io.StringIO()
    csv.writer(content).writerows([NAMES, *lines])
    return content.getvalue().encode()


@pytest.fixture
def asked(served, few_trials):
    """A browser with the table, and a function that asks: `asked("budget/people", kind_3="category")`."""
    browser = Browser(served.host)
    table = browser.send(clinic(), "clinic.csv")[1]["fields"]["table"]

    def ask(path, method="GET", body=None, **fields):
        state = urlencode(
            {"table": table, **{name.replace("_", "-"): text for name, text in fields.items()}}, True
        )
        status, _, found = browser.ask(f"/{path}?{state}", method, body)
        if status != 200 or "." not in path:
            return last_line(found)
        return found.decode() if path.endswith("html") else found

    return ask


def words(part):
    """What a part says, without its markup."""
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", part))).strip()


def draw(asked, **fields):
    """Ask for a release, confirming what must be; return its name."""
    answer = asked("draw/draw", "POST", b"", **fields)
    if "confirm" in answer["parts"]:
        mark = re.search(r'id="anyway"[^>]*value="(\w+)"', answer["parts"]["confirm"])[1]
        answer = asked("draw/draw", "POST", f"confirm={mark}".encode(), **fields)
    return answer["fields"]["drawn"]


def drawn(asked, **fields):
    """Draw a release; return its name, what is said of it, its files, and the risk of everyone."""
    name = draw(asked, **fields)
    after = asked("decide/after", drawn=name, **fields)
    files = zipfile.ZipFile(io.BytesIO(asked("decide/release.zip", drawn=name, **fields)))
    lines = list(csv.DictReader(io.StringIO(asked("decide/risk.csv", drawn=name, **fields).decode())))
    numbers = [
        column for column in lines[0] if "disclosed" not in column and column not in ("riskiest", "adversary")
    ]
    risk = {column: np.array([float(line[column]) for line in lines]) for column in numbers}
    return name, after, files, risk


def test_each_column_is_what_it_looks_like_until_it_is_declared(asked):
    parts = asked("mend/table")["parts"]
    assert [words(parts[f"what-{place}"]) for place in (1, 2, 3)] == [
        "category: f, m", "category: I, II, or more", "few values",
    ]  # fmt: skip
    assert 'name="levels-1"' in parts["columns"]
    assert 'name="scale-1"' not in parts["columns"]
    assert 'name="levels-3"' not in parts["columns"]
    parts = asked("mend/table", kind_3="category", levels_1="m, f, x", low_1="3")["parts"]
    assert words(parts["what-3"]) == "category: 1, 2, 3"
    assert words(parts["what-1"]) == "category: m, f, x"
    wrong = asked("mend/table", levels_1="f, d", kind_2="measurement", kind_3="category", levels_3="1, 2, 2")[
        "parts"
    ]
    assert "none of its declared levels in 20 rows" in words(wrong["said-1"])
    assert "holds no numbers" in words(wrong["said-2"])
    assert "a level is named twice" in words(wrong["said-3"])


def test_a_table_file_carries_kinds_and_levels_and_proposals_put_no_value_into_the_address(asked):
    declared = {
        "sex": {"kind": "category", "levels": ["m", "f"]},
        "stage": {"kind": "category", "levels": ["II, or more", "I"]},
        "score": {"kind": "category", "levels": ["1", "2", "3"]},
        "age": {"low": 0.0},
    }
    sent = asked("mend/declare", "POST", json.dumps({"columns": declared}).encode(), name="all.json")
    fields = sent["fields"]
    assert fields["levels-1"] == "m, f"
    back = Schema.of_entries(tomllib.loads(asked("mend/table.toml", **fields).decode()), "it")
    assert {name: back.column(name).entries() for name in declared} == declared
    # what nobody declared is found in the file, which says so, and not in an address
    text = asked("mend/table.toml").decode()
    assert 'levels = ["f", "m"]  # those of this table' in text
    proposed = asked("mend/standing")["parts"]["standing"]
    assert "levels-" not in proposed
    assert "or more" not in proposed


def test_a_record_of_any_table_is_judged_after_a_trial_release(asked):
    """The probabilities are those of `risk` of the same release; there is no landscape, and that is said."""
    found = asked("budget/record", row="3", count="2")
    assert "no value of this record" in words(found["parts"]["told"]) or "discloses" in words(
        found["parts"]["told"]
    )
    assert found["parts"]["told"].count("<tr>") == 1 + 2 * 5, "each of five columns, to each adversary"
    assert "There is no landscape of such a table" in words(found["parts"]["record"])
    assert found["figures"] == {}
    assert "'sex', 'stage': categories whose levels are those of this table" in words(
        asked("budget/budget")["parts"]["note"]
    )
    assert "tables of measurements alone" in asked("budget/measures.csv", row="3")["error"]
    assert asked("budget/record", row="3", missing="2")["field"] == "missing"


def test_the_budget_is_that_of_the_package_and_more_is_drawn_only_when_confirmed(asked, tmp_path):
    (tmp_path / "clinic.csv").write_bytes(clinic())
    plan = budget(tmp_path / "clinic.csv", rows=60, rng=0)
    found = asked("budget/budget")
    assert words(plan.sentence) in words(found["parts"]["verdict"])
    assert list(found["figures"]) == ["budget"]
    every = list(csv.DictReader(io.StringIO(asked("budget/records.csv").decode())))
    assert sorted(int(line["row"]) for line in every) == list(range(1, 61))
    people = asked("budget/people")["parts"]["people"]
    assert re.search(r'data-row="(\d+)"', people)[1] == every[0]["row"] == str(plan.limiting_row)
    within, beyond = str(plan.confident_count), str(plan.confident_count + 1)
    assert "Within the budget" in asked("draw/ahead", number=within)["parts"]["ahead"]
    refused = asked("draw/draw", "POST", b"confirm=yes", number=beyond)
    assert "may be released" in refused["error"]
    whom = r"(?:may disclose|discloses) values or the membership of rows? ((?:\d+, )*\d+)"
    named = re.search(whom, words(refused["parts"]["confirm"]))[1]
    assert named.split(", ")[0] == str(plan.limiting_row)
    assert refused["fields"] == {}
    after = asked("decide/after", number=beyond, drawn=draw(asked, number=beyond))["parts"]["after"]
    assert "may be released" in after


def test_a_release_is_that_of_the_package_and_tells_whose_category_is_found_out(asked, tmp_path):
    how = {"kind_3": "category", "scale_5": "log", "decimals_5": "2"}
    drawn_as, after, files, risk = drawn(asked, number="6", **how)
    files.extractall(tmp_path / "release")
    (tmp_path / "clinic.csv").write_bytes(clinic())
    again = abo.risk(tmp_path / "clinic.csv", tmp_path / "release", rng=np.random.default_rng(0))
    for name in ("row", "exposure", "information_gain", "probability_sex", "baseline_sex", "probability_score"):
        np.testing.assert_allclose(risk[name], again[name].to_numpy(), rtol=1e-6)
    verdict = verdict_of({name: again[name].to_numpy() for name in again.column_names}, Rule())
    said = words(after["parts"]["after"])
    assert verdict.headline in said
    assert words(verdict.how_sure) in said
    assert words(verdict.membership)[1:] in said  # in a sentence there
    report, public = (asked(f"decide/{name}.html", drawn=drawn_as, **how) for name in ("report", "public"))
    assert verdict.headline in report
    assert "--table-file table.json" in html.unescape(report)
    assert "II, or more" in words(public)
    with files.open("dataset-001.csv") as one:
        synthetic = Records.of_synthetic(pyarrow.csv.read_csv(one), abo.load_release(tmp_path / "release").schema)
    assert len(synthetic.values) == 60


def with_gap():
    lines = clinic().replace(b"\r\n", b"\n").split(b"\n")
    lines[3] = b"," + lines[3].split(b",", 1)[1]
    return b"\n".join(lines)


@pytest.mark.parametrize(("gaps", "people"), [("leave-out", 59), ("impute", 60), ("keep", 60)])
def test_gaps_are_left_out_imputed_or_kept(served, few_trials, tmp_path, gaps, people):
    browser = Browser(served.host)
    table = browser.send(with_gap(), "gaps.csv")[1]["fields"]["table"]
    refused = last_line(browser.ask(f"/budget/people?table={table}")[2])["error"]
    assert "1 column cannot be used yet (sex)" in refused
    state = f"table={table}&gaps={gaps}"
    standing = words(last_line(browser.ask(f"/mend/standing?{state}")[2])["parts"]["standing"])
    assert f"Nothing stands in the way: {people} people and 5 columns" in standing
    (tmp_path / "gaps.csv").write_bytes(with_gap())
    how = {"complete_cases": True} if gaps == "leave-out" else {"missing": gaps}
    plan = budget(tmp_path / "gaps.csv", rows=people, rng=0, **how)
    assert words(plan.sentence) in words(last_line(browser.ask(f"/budget/budget?{state}")[2])["parts"]["verdict"])


def test_a_table_through_classes_is_drawn_and_judged(asked, few_trials):
    how = {"model": "classes", "classes": "3", "columns": ["sex", "age", "bili"]}
    _, after, files, risk = drawn(asked, number="1", **how)
    assert "classes that nobody has observed" in words(after["parts"]["after"])
    assert json.loads(files.read("release.json"))["model"] == "classes"
    assert len(risk["row"]) == 60
    public = {"prior": "public", "centre_4": "50", "spread_4": "10", "centre_5": "1", "spread_5": "1"}
    assert "classes have a prior of their own" in asked("budget/people", **public, **how)["error"]


def test_cells_have_spreads_of_their_own_if_that_is_said(asked):
    _, _, files, _ = drawn(asked, number="1", cells="separate", columns=["sex", "age", "bili"])
    assert json.loads(files.read("release.json"))["cells"] == "separate"


def test_columns_that_are_kept_go_out_as_they_are(asked):
    keep = {"keep_1": "yes", "keep_2": "yes", "keep_4": "yes"}
    state = words(asked("draw/table", **keep)["parts"]["table"])
    assert "kept as they are: sex, stage, age" in state
    _, after, files, risk = drawn(asked, number="2", **keep)
    real = list(csv.DictReader(io.StringIO(clinic().decode())))
    synthetic = list(csv.DictReader(io.TextIOWrapper(files.open("dataset-002.csv"))))

    def kept(lines):
        return sorted((line["sex"], line["stage"], float(line["age"])) for line in lines)

    assert kept(synthetic) == kept(real)
    assert not any(name.endswith(("_sex", "_stage", "_age")) for name in risk)
    assert 'id="values"' in after["parts"]["after"]
    refused = asked("draw/table", rows="30", **keep)
    assert (refused["field"], "a row for each person" in refused["error"]) == ("rows", True)
    alone = asked("budget/people", keep_4="yes")  # no category can be drawn given a measurement
    assert "do not keep the measurement (at “Keep” of Mend)" in alone["error"]
    assert "no measurement is left to be drawn" in asked("budget/people", columns=["sex", "stage"])["error"]


def test_a_prior_from_public_knowledge_is_of_the_measurements_that_are_drawn(asked):
    how = {"prior": "public", "columns": ["sex", "age", "bili"], "centre_4": "50", "spread_4": "10"}
    assert "bili: has no centre and spread" in words(asked("mend/standing", **how)["parts"]["standing"])
    kept = asked("mend/standing", keep_1="yes", keep_5="yes", **how)["parts"]["standing"]
    assert "Nothing stands in the way" in words(kept)
    files = drawn(asked, centre_5="1", spread_5="0.5", **how)[2]
    prior = json.loads(files.read("release.json"))["prior"]
    assert np.ravel(prior["mean"]).tolist() == pytest.approx([50, 1])


def fits(page):
    """Say whether nothing is cut off, on a telephone either, with all folds open."""
    page.evaluate("document.querySelectorAll('details').forEach(fold => fold.open = true)")
    page.wait_for_timeout(300)
    wide = cut_off(page)
    page.set_viewport_size({"width": 390, "height": 900})
    page.wait_for_timeout(300)  # figures follow the window's size a moment later
    narrow = cut_off(page)
    page.set_viewport_size({"width": 1280, "height": 900})
    return wide == narrow == []


def test_in_a_browser_a_column_becomes_a_category_and_the_steps_follow(tab, address, few_trials):
    opened(tab, f"{address}/upload")
    send(tab, "clinic.csv", clinic())
    tab.select_option("#kind-3", "category")
    settled(tab)
    assert tab.is_visible("#levels-3")
    assert tab.is_visible("#judged")
    assert fits(tab)
    with tab.expect_navigation():
        tab.click("#next")
    settled(tab)
    assert tab.is_visible("#verdict .verdict")
    assert tab.is_visible("#plan")
    assert tab.is_hidden("#figure-records")
    assert fits(tab)
    with tab.expect_navigation():
        tab.click("#next")
    settled(tab)
    tab.click("#draw")
    tab.wait_for_selector("#values, dialog[open]")
    if tab.is_visible("dialog[open]"):
        tab.check("#known")
        tab.click("#anyway")
        tab.wait_for_selector("#values")
    settled(tab)
    assert fits(tab)
