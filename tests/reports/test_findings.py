"""Verdicts speak where there is something to say, and keep quiet where there is not."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import allbutone as abo
from allbutone.app.page import piece
from allbutone.disclosure.budget import Alternative, budget
from allbutone.reports.findings import (
    Finding,
    budget_words,
    fidelity_finding,
    model_finding,
    remedies,
    values_finding,
)
from allbutone.support.errors import Cure
from allbutone.utility.natural_scale import Oddity
from allbutone.utility.normality import Fitness
from cases import LONG

TRIES = 40 if LONG else 20
# a rate of 5 % seen in more than this share of the tries has a chance below 1 in 1000
SELDOM = 0.05 + 3.3 * np.sqrt(0.05 * 0.95 / TRIES)


def simulated(rng, n, p, datasets, prior=None):
    columns = tuple(f"c{place}" for place in range(p))
    values = rng.standard_normal((n, p)) @ np.linalg.cholesky(0.5 * np.eye(p) + 0.5).T
    prior = prior or abo.NIW.default(p)
    release = abo.Release.draw(prior.update(values), [n] * datasets, rng, columns=columns, prior=prior)
    return abo.Records(values, columns), release


@pytest.mark.parametrize(("n", "p", "datasets"), [(50, 1, 1), (50, 3, 1), (50, 3, 5), (200, 5, 1), (100, 2, 12)])
def test_a_right_model_is_seldom_accused(n, p, datasets):
    rng = np.random.default_rng(5)
    fidelity, model = 0, 0
    for _ in range(TRIES):
        records, release = simulated(rng, n, p, datasets)
        fidelity += fidelity_finding(abo.fidelity(records, release)).against
        model += model_finding(abo.check_normality(records)).against
    assert fidelity / TRIES <= SELDOM
    assert model / TRIES <= SELDOM


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (abo.NIW(np.zeros(2), 1.0, 2000.0, 1997 * np.eye(2)), "in the correlations of"),
        (abo.NIW(np.zeros(2), 1.0, 2000.0, 9000 * np.array([[1, 0.5], [0.5, 1]])), "in the spreads of"),
        (abo.NIW(np.full(2, 3.0), 100.0, 4.0, np.eye(2)), "in the averages of"),
    ],
)
def test_a_prior_that_destroys_the_data_is_accused(prior, words):
    records, release = simulated(np.random.default_rng(8), 100, 2, 30, prior)
    finding = fidelity_finding(abo.fidelity(records, release))
    assert finding.against
    assert words in finding.words


def test_the_model_is_judged_in_plain_words():
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.standard_normal(200), np.exp(rng.standard_normal(200))])
    finding = model_finding(abo.check_normality(abo.Records(values, ("bmi", "crp"))))
    assert finding.against
    assert finding.words.startswith("The model assumes bell-shaped columns. Not bell-shaped: crp")
    assert "Why, for crp: long right tail (skewness" in finding.words
    assert 'declare the scale "log" for it: skewness ' in finding.words
    fit = model_finding(abo.check_normality(abo.Records(values[:, :1], ("bmi",))))
    assert (
        fit.words == "The column has the bell shape that the model assumes, and on which the probabilities rest."
    )


@pytest.fixture(scope="module")
def plan():
    values = np.random.default_rng(5).standard_normal((40, 2))
    return abo.budget(abo.Records(values, ("a", "b")), abo.NIW.flat(2), rows=50, rng=1)


@pytest.mark.parametrize(
    ("released", "words"),
    [
        (3, "Up to 4 more datasets of 50 rows may be released"),
        (6, "One more dataset of 50 rows may be released, but not two,"),
        (7, "No more datasets of 50 rows may be released"),
        (8, "No more datasets of 50 rows may be released"),
    ],
)
def test_the_budget_says_what_is_left(plan, released, words):
    told = budget_words(replace(plan, in_all=7, before=released), released)
    assert told.startswith(words)
    assert f": 7 in all, and {released} are out;" in told
    assert told.endswith("This release is counted as out.")
    earlier = budget_words(replace(plan, in_all=7, before=6), 2, earlier=4)
    assert earlier.startswith("One more dataset")
    assert earlier.endswith("Counted in are this release (2) and what went out earlier (4).")


def test_remedies_name_the_number_that_each_allows(plan):
    others = (
        Alternative("leave row 8 out", 30),
        Alternative("leave the five people furthest from the others out", 12, "the others then vary less"),
        Alternative("datasets of 500 rows", 2),
    )
    told = remedies(replace(plan, in_all=7, before=20, alternatives=others), 20)
    assert told[:3] == [
        "Fewer: up to 7 datasets of 50 rows, drawn once, in place of this.",
        "Leave row 8 out: up to 30 datasets, as many as this release has or more.",
        "Leave the five people furthest from the others out: up to 12 datasets (the others then vary less).",
    ]
    assert not any("500 rows" in words for words in told)
    assert remedies(replace(plan, in_all=30, before=20), 20)[0].startswith("As many, drawn once more")


def test_what_is_out_already_is_not_there_to_be_drawn_instead(plan):
    """Of seven in all five went out earlier: two may be drawn in place of the four that do not pass."""
    others = (Alternative("datasets of 5 rows", 70, rows=5), Alternative("leave the column a out", 8, drop=("a",)))
    told = remedies(replace(plan, in_all=7, before=9, alternatives=others), 4)
    assert told[0] == "Fewer: up to 2 datasets of 50 rows, drawn once, in place of this."
    assert told[1].startswith("Datasets of 5 rows: up to 20 datasets")  # two sevenths of them are left
    assert not any("column a" in words for words in told)


def test_nothing_that_was_not_tried_is_said_to_pass(plan):
    told = remedies(replace(plan, in_all=0, before=1), 1)
    assert told[0].startswith("Nothing else that was tried would pass")


def test_of_many_columns_a_page_names_the_first():
    doubtful = [Fitness("dose", "not fit", "long right tail", "leave it out")]
    fit = [f"column_{place}" for place in range(1, 41)]
    said = piece(
        "mend_model.html", finding=Finding("Model", True, "Doubtful."), doubtful=doubtful, fit=fit, classes=None
    )
    assert "column_20 and 20 more." in said


def test_a_guarantee_is_suggested_only_where_one_can_be_had(plan, rng):
    words = "A guarantee, which adds noise"
    assert any(each.startswith(words) for each in remedies(plan, 20))
    frame = pl.LazyFrame(rng.standard_normal((40, 2)), schema=["bmi", "ldl"])
    lazy = budget(frame, abo.NIW.flat(2), rows=40)
    assert remedies(lazy, 20)
    assert not any(each.startswith(words) for each in remedies(lazy, 20))


@pytest.mark.usefixtures("few_trials")
def test_public_names_are_the_classes_that_a_report_returns(rng, tmp_path):
    values = rng.standard_normal((40, 2))
    table = abo.Records(values, ("a", "b"))
    release = abo.Synthesizer().fit(table).sample(datasets=1)
    found = abo.report(table, release, out=tmp_path / "report.html")
    assert isinstance(found.verdict, abo.Verdict)
    assert found.findings
    assert all(isinstance(each, abo.Finding) for each in found.findings)


@pytest.mark.parametrize(
    ("shift", "heading"), [(0.0, "in order"), (0.3, "worth knowing"), (0.9, "needs attention")]
)
def test_an_average_that_is_off_needs_attention_from_half_a_standard_deviation_on(shift, heading):
    rng = np.random.default_rng(11)
    records = abo.Records(rng.standard_normal((2000, 1)), ("bmi",))
    datasets = [records.values[rng.permutation(2000)] + shift for _ in range(5)]
    release = abo.Release.of(datasets, columns=("bmi",), prior=abo.NIW.flat(1))
    finding = fidelity_finding(abo.fidelity(records, release))
    assert finding.heading == heading
    assert (f"bmi ({shift:.2f} SD)" in finding.words) == (shift > 0)


def test_what_is_doubtful_is_worth_knowing_and_only_what_is_far_off_needs_attention():
    rng = np.random.default_rng(5)
    skewed = rng.gamma(8, 1, 400)  # skewness 0.7
    finding = model_finding(abo.check_normality(abo.Records(skewed[:, None], ("age",))))
    assert (finding.against, finding.noted, finding.heading) == (False, True, "worth knowing")
    wild = model_finding(abo.check_normality(abo.Records(np.exp(skewed)[:, None], ("crp",))))
    assert wild.heading == "needs attention"
    rounded = values_finding([Oddity("recorded with few decimals", Cure("declare the decimals"), False)], str)
    assert rounded.heading == "worth knowing"
