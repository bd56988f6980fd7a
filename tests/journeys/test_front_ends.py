"""The same number for the same inputs, whoever is asked: Python, the command line, the report."""

import html
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import allbutone as abo
from allbutone.disclosure.rule import Rule
from allbutone.reports.assessment import assess
from allbutone.reports.verdict import verdict_of
from allbutone.tables.records import Records


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a table in which row 8 lies far out, and a release that discloses them."""
    rng, folder = np.random.default_rng(3), tmp_path_factory.mktemp("same")
    values = rng.standard_normal((40, 2)) + 10
    values[7] = 18.0
    pd.DataFrame(values, columns=["bmi", "ldl"]).to_csv(folder / "table.csv", index=False)
    records = Records.of(folder / "table.csv")
    abo.save_release(abo.Synthesizer().fit(records).sample(datasets=30, rows=40), folder / "r")
    return folder


def words(text):
    return re.sub(r"\s+", " ", html.unescape(re.sub("<[^>]*>", " ", text)))


def test_risk_report_and_budget_say_the_same(place, allbutone, monkeypatch, few_trials):
    release, records = abo.load_release(place / "r"), Records.of(place / "table.csv")
    found = abo.risk(records, release, rng=np.random.default_rng(0))
    columns = {name: found[name].to_numpy() for name in found.column_names}
    verdict = verdict_of(columns, Rule(), schema=records.schema)
    assert 8 in verdict.rows

    assessed = assess(records, release)
    assert replace(assessed.verdict, luck=None) == verdict  # which the budget adds
    plan = abo.budget(records, release.prior, rows=40, rng=0)
    after = abo.budget(records, release.prior, rows=40, release=release, rng=0)
    assert assessed.budget.sentence == after.sentence

    monkeypatch.chdir(place)
    said = {name: allbutone(name, "table.csv", "r")[1] for name in ("risk", "report")}
    said["page"] = words((place / "report.html").read_text(encoding="utf-8"))
    for told in said.values():
        for sentence in (verdict.headline, verdict.who, verdict.how_sure):
            assert words(sentence) in words(told)
    assert words(after.sentence) in words(said["page"])
    assert words(plan.sentence) in words(allbutone("budget", "table.csv", "--seed", 0)[1])
    written = pd.read_csv(place / "risk.csv")
    np.testing.assert_allclose(written["risk"], columns["risk"], rtol=1e-9)
    assert list(written["disclosed"]) == list(columns["disclosed"])


def test_without_random_numbers_of_ones_own_python_says_what_the_command_says(
    place, allbutone, monkeypatch, few_trials
):
    """Both simulate the same releases and integrate over the same points, today and tomorrow."""
    monkeypatch.chdir(place)
    told = words(allbutone("budget", "table.csv", "--out", "plan.csv")[1])
    plan = abo.budget("table.csv", rows=40)
    assert words(plan.sentence) in told
    assert plan.case.seed == abo.budget("table.csv", rows=40, rng=0).case.seed
    allbutone("risk", "table.csv", "r", "--out", "asked.csv")
    found, written = abo.risk("table.csv", "r"), pd.read_csv("asked.csv")
    numbers = [name for name in found.column_names if written[name].dtype.kind == "f"]
    assert {"risk", "exposure", "information_gain"} <= set(numbers)
    for name in numbers:
        np.testing.assert_allclose(written[name], found[name].to_numpy(), rtol=1e-9, err_msg=name)
