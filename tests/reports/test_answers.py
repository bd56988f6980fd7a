"""The annex for those who decide: the sentences of an impact assessment hold the figures of the report."""

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import allbutone as abo
from allbutone.reports.answers import ANSWERS, impact_sentences
from allbutone.reports.assessment import assess
from allbutone.reports.report import confidential_report
from allbutone.support.text import chance

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"
ASSESSMENT = PAGE.with_name("assessment.md")


@pytest.fixture(scope="module")
def case():
    values = np.random.default_rng(8).standard_normal((50, 3))
    values[4] = [7.0, -7.0, 7.0]
    names = ("age", "bmi", "crp")
    declared = {"columns": {"age": {"secret": False, "known": True}, "bmi": {}, "crp": {}}}
    records = abo.Records.of(pl.DataFrame(values, schema=list(names)), schema=declared)
    release = abo.Synthesizer().fit(records).sample(datasets=3, rng_for_tests=np.random.default_rng(2))
    return assess(records, release)


def test_the_sentences_hold_the_figures_of_the_report(case):
    words = impact_sentences(case, "The budget.")
    disclosed, people = int(np.sum(case.risk["disclosed"])), len(case.risk["row"])
    values, member = (
        words[f"What a person stands to lose: {what}"] for what in ("their values", "that they are in the table")
    )
    assert f"of {disclosed} of {people} people; the surest is known" in values
    surest = case.verdict.disclosed[0]
    assert f"a probability of {chance(surest.after)}, without the release {chance(surest.before)}." in values
    assert "Not judged, as public of people anyway: age." in values
    assert "or the person’s age." in words["Who is taken to attack"]
    members = int(np.sum(case.risk["membership_disclosed"]))
    assert f"of {members} of {people} people; the highest" in member
    assert words["How often chance would decide otherwise"] == "The budget."
    assert case.remedies[0] in words["What was done against it"]
    page = confidential_report(case)
    for sentence in (values, member):
        assert sentence in page
    assert all(text in page.replace("&amp;", "&") for text, _, _ in ANSWERS)


def test_every_heading_that_the_page_promises_is_in_the_report(case):
    table = ASSESSMENT.read_text(encoding="utf-8").split("## What only you can say")[0]
    promised = re.findall(r"^\| (?!the heading|---)([^|]+?) \|", table, re.MULTILINE)
    assert promised == list(impact_sentences(case, "The budget."))


def test_every_text_of_the_annex_is_on_the_page_at_length():
    page = PAGE.read_text(encoding="utf-8").replace("‑", "-")
    for name in (
        "Opinion 05/2014",
        "C-582/14",
        "C-413/23 P",
        "2025/327",
        "Policy 0070",
        "27559",
        "20889",
        "800-226",
        "ICO",
        "164.514(b)(1)",
    ):
        assert name in page
        assert any(name in text for text, _, _ in ANSWERS), name
    rows = re.findall(r"^\| \*\*", page, re.MULTILINE)
    assert len(rows) >= len(ANSWERS)
