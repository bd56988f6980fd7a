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

PAGE = Path(__file__).parents[2] / "docs" / "answers.md"


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
    assert f"Values of {disclosed} of {people} people" in words["Values"]
    assert "Not judged, as public of people anyway: age." in words["Values"]
    assert "or the person’s age." in words["Who is taken to attack"]
    members = int(np.sum(case.risk["membership_disclosed"]))
    assert f"is disclosed of {members} of {people} people" in words["Membership"]
    assert words["Chance"] == "The budget."
    page = confidential_report(case)
    for sentence in (words["Values"], words["Membership"]):
        assert sentence in page
    assert all(text in page.replace("&amp;", "&") for text, _, _ in ANSWERS)


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
