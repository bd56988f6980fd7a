"""Verdicts speak where there is something to say, and keep quiet where there is not."""

import numpy as np
import pytest

import allbutone as abo
from allbutone.disclosure.per_record import risk_columns
from allbutone.reports.findings import (
    exposure_finding,
    fidelity_finding,
    gain_finding,
    model_finding,
    most_exposed,
)
from cases import LONG

TRIES = 40 if LONG else 20
# a rate of 5 % seen in more than this share of the tries has a chance below 1 in 1000
SELDOM = 0.05 + 3.3 * np.sqrt(0.05 * 0.95 / TRIES)


def simulated(rng, n, p, datasets, prior=None):
    columns = tuple(f"c{place}" for place in range(p))
    values = rng.standard_normal((n, p)) @ np.linalg.cholesky(0.5 * np.eye(p) + 0.5).T
    prior = prior or abo.NIW.default(p)
    release = abo.DatasetRelease.draw(prior.update(values), [n] * datasets, rng, columns=columns, prior=prior)
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


def test_luck_is_not_exposure():
    """Many values of one column lie at the centre, near any guess: nobody is exposed by three datasets."""
    rng = np.random.default_rng(6)
    accused = 0
    for _ in range(20):
        records, release = simulated(rng, 200, 1, 3)
        found = risk_columns(records, release, mass=False)
        assert np.any(found["relative_error"] <= 0.5)
        accused += exposure_finding(found).against
    assert accused <= 1


def test_an_outlier_is_exposed():
    rng = np.random.default_rng(7)
    values = rng.standard_normal((50, 2))
    values[7] = 9.0
    prior = abo.NIW.default(2)
    release = abo.DatasetRelease.draw(prior.update(values), [50] * 30, rng, columns=("a", "b"), prior=prior)
    finding = exposure_finding(risk_columns(abo.Records(values, ("a", "b")), release, mass=False))
    assert finding.against
    assert "row 8 the most" in finding.words


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (abo.NIW(np.zeros(2), 1.0, 2000.0, 1997 * np.eye(2)), "correlations differ"),
        (abo.NIW(np.zeros(2), 1.0, 2000.0, 9000 * np.array([[1, 0.5], [0.5, 1]])), "spreads differ"),
        (abo.NIW(np.full(2, 3.0), 100.0, 4.0, np.eye(2)), "means differ"),
    ],
)
def test_a_prior_that_destroys_the_data_is_accused(prior, words):
    records, release = simulated(np.random.default_rng(8), 100, 2, 30, prior)
    finding = fidelity_finding(abo.fidelity(records, release))
    assert finding.against
    assert words in finding.words


def test_what_cannot_be_computed_is_named_and_comes_first():
    found = {
        "row": np.arange(1, 5),
        "relative_error": np.array([0.9, 0.3, np.nan, 0.8]),
        "information_gain": np.array([0.1, 2.0, 1.0, -np.inf]),
    }
    assert set(most_exposed(found)[:2]) == {2, 3}
    finding = exposure_finding(found)
    assert finding.against
    assert finding.words.startswith("3 of 4 records are exposed by half or more, row 2 the most")
    assert "rows 3, 4 could not be computed: they count as exposed" in finding.words
    assert "row 2" in gain_finding(found).words


@pytest.mark.parametrize(
    ("gain", "words"),
    [
        (0.7, "2 times"),
        (5.0, "148 times"),
        (19.0, "more than 178 million times"),
        (500.0, "thousand trillion times"),
    ],
)
def test_a_gain_is_told_in_words(gain, words):
    found = {"row": np.array([7]), "relative_error": np.array([0.9]), "information_gain": np.array([gain])}
    assert words in gain_finding(found).words
