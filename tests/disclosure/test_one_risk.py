"""One risk for every kind of table: what one road says of a table, every other road that can take it says, too."""

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import allbutone as abo
from allbutone.disclosure import risk as room
from allbutone.disclosure.gap_risk import attacked_with_gaps
from allbutone.disclosure.question import Question, without_lacking
from allbutone.disclosure.risk import records_of_release, risk_columns
from allbutone.disclosure.table_risk import stream_risk
from allbutone.releases.release import reading_of
from allbutone.releases.several import in_columns
from allbutone.tables.engines.lazy_records import LazyRecords

PRIOR = {"centre": [50.0, 3.0], "spread": [8.0, 1.0]}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(5)
    sex = rng.integers(0, 2, 60)
    table = pd.DataFrame({"age": rng.normal(50, 9, 60) + 4 * sex, "ldl": rng.normal(3, 1, 60)})
    table.loc[0, "age"] = 110.0
    return table.assign(sex=np.array(["f", "m"])[sex])


def released(table, **how):
    return abo.Synthesizer(**how).fit(table).sample(datasets=3, rng_for_tests=np.random.default_rng(1))


def asked_of(table, release, who=None, **how):
    records = records_of_release(table, release)
    return risk_columns(records, release, who or abo.Adversary(), rng=np.random.default_rng(2), **how)


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_a_table_of_measurements_is_one_cell(people, kind):
    """The fast path of one cell and the road of many give the same posteriors."""
    table, fitted = people[["age", "ldl"]], abo.Synthesizer().fit(people[["age", "ldl"]])
    release = fitted.sample(datasets=3) if kind == "datasets" else fitted.sample_parameters(3)
    usual = asked_of(table, release)
    general = asked_of(table, release, abo.Adversary(prior=release.prior))  # which only the general road takes
    for name in ("distance", "relative_error", "exposure", "error_age", "tolerance_ldl"):
        np.testing.assert_allclose(general[name], usual[name], rtol=1e-6, atol=1e-7)
    for name in ("information_gain", "mass", "probability_age", "baseline_ldl"):
        np.testing.assert_allclose(general[name], usual[name], atol=0.03)


@pytest.mark.parametrize("how", [{}, {"cells": "separate"}, {"keep": ["sex"]}])
def test_the_mechanisms_own_prior_changes_nothing(people, how):
    prior = PRIOR if how.get("cells") else None
    release = released(people, prior=prior, **how)
    usual, same = (asked_of(people, release, who) for who in (None, abo.Adversary(prior=release.prior)))
    assert list(usual) == list(same)
    for name in ("exposure", "relative_error"):
        np.testing.assert_allclose(same[name], usual[name], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(same["information_gain"], usual["information_gain"], atol=0.03)


def test_another_prior_of_the_adversary_moves_what_is_known_before(people):
    release = released(people)
    usual, sure = (
        asked_of(people, release, who, mass=False)
        for who in (None, abo.Adversary(prior=PRIOR | {"mean_weight": 500.0, "df": 500.0}))
    )
    assert not np.allclose(usual["baseline_age"], sure["baseline_age"], atol=0.01)


@pytest.mark.parametrize("how", [{}, {"cells": "separate", "prior": PRIOR}, {"keep": ["sex"]}])
def test_in_every_cell_the_model_without_a_column_is_the_marginal(people, how):
    """Updating and leaving a measurement out may change places: ν loses 1, m and Λ lose a row and a column."""
    release = released(people, **how)
    records = records_of_release(people, release)
    some, part, _ = without_lacking(records, release, ["ldl"])
    for whole, rest in ((release, part), *zip([release] * 3, [part] * 3, strict=True)):
        cells = np.arange(whole.mechanism.prior.cells.count)
        models = [
            each.mechanism.prior.update(each.mechanism.split(table)).at(cells, np.zeros((len(cells), 0)))
            for each, table in ((whole, records), (rest, some))
        ]
        expected = models[0].marginal([0])
        for name in ("mean", "mean_weight", "df", "scale"):
            ours, theirs = (np.asarray(getattr(each, name)) for each in (models[1], expected))
            np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-10)
    columns = asked_of(people, release, abo.Adversary(lacking_columns="ldl"))
    assert "probability_age" in columns
    assert "probability_ldl" not in columns
    assert in_columns(release, [0, 1]).order == release.order


def test_releases_by_different_mechanisms_are_attacked_together_in_any_order(people):
    """With a prior of their own the adversary takes every release for what it says, whichever comes first."""
    one, two = released(people), released(people, prior=PRIOR)
    who = abo.Adversary(prior=PRIOR)
    first, second = (
        abo.risk(people, both, who, mass=False, rng=np.random.default_rng(2)) for both in ([one, two], [two, one])
    )
    np.testing.assert_allclose(first["information_gain"], second["information_gain"], atol=0.05)
    np.testing.assert_allclose(first["error_age"], second["error_age"], rtol=1e-4, atol=1e-4)
    alone = abo.risk(people, one, who, mass=False, rng=np.random.default_rng(2))
    assert not np.allclose(alone["information_gain"], first["information_gain"], atol=0.05)


def test_without_gaps_averages_are_the_closed_form(people):
    """A table that lacks nothing is one draw of its gaps, for an adversary with a prior of their own, too."""
    release = released(people)
    who = abo.Adversary(prior=PRIOR)
    records = records_of_release(people, release)
    question = replace(Question.of(records, release, who), rng=np.random.default_rng(1))
    exact, averaged = room.attacked_exactly(question), attacked_with_gaps(question)
    for name in ("information_gain", "mass", "prior_mass"):
        np.testing.assert_allclose(averaged.measures[name], exact.measures[name], atol=0.05)
    evidence = (each.measures["membership_evidence"] for each in (averaged, exact))
    np.testing.assert_allclose(*evidence, atol=1e-8)
    # all else known, both are quadratures of one function on a line, and sums over the levels of a category
    for one, two, tolerance in ((averaged, exact, 0.05), (averaged.rest_known, exact.rest_known, 1e-7)):
        ours, theirs = (getattr(each, "beliefs", each) for each in (one, two))
        np.testing.assert_allclose(ours.probability, theirs.probability, atol=tolerance)
        np.testing.assert_allclose(ours.baseline, theirs.baseline, atol=tolerance)
        for own, other in zip(ours.levels["sex"], theirs.levels["sex"], strict=True):
            np.testing.assert_allclose(own, other, atol=tolerance)


def test_with_gaps_the_mechanisms_own_prior_changes_little_and_others_are_taken(people):
    holes = people.iloc[:40].copy()
    holes.loc[3, "ldl"], holes.loc[5, "sex"] = None, None
    release = released(holes, prior=PRIOR, missing="impute")
    usual, same = (asked_of(holes, release, who, mass=False) for who in (None, abo.Adversary(prior=release.prior)))
    error = np.hypot(usual["information_gain_error"], same["information_gain_error"])
    assert np.all(np.abs(usual["information_gain"] - same["information_gain"]) < 6 * error + 0.02)
    fewer = asked_of(holes, release, abo.Adversary(lacking_columns="ldl"), mass=False)
    assert np.isfinite(fewer["probability_age"]).all()


def test_a_table_with_categories_is_judged_in_its_engine_as_in_memory(people):
    release = released(people)
    points = np.random.default_rng(np.random.default_rng(3).integers(2**63))  # the same ones serve every block
    here = abo.risk(people, release, mass=False, rng=points)
    reading = {name: each for name, each in reading_of(release, {}).items() if name != "gaps"}
    lazy = LazyRecords.of(pl.from_pandas(people).lazy(), **reading)
    blocks = list(stream_risk(lazy, release, mass=False, rng=np.random.default_rng(3), block_rows=25))
    there = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    assert len(blocks) > 1
    for name in ("exposure", "distance", "probability_sex", "baseline_sex", "tolerance_age", "error_ldl"):
        np.testing.assert_allclose(there[name], here[name], rtol=1e-6, atol=1e-6)


def test_only_some_records_are_judged_as_among_all(people):
    release = released(people)
    every = asked_of(people, release)
    some = asked_of(people, release, rows=np.array([7, 0]))
    assert some["row"].tolist() == [8, 1]
    for name in every:
        if every[name].dtype.kind == "f":
            np.testing.assert_allclose(some[name], every[name][[7, 0]], rtol=1e-10)


def test_columns_can_be_lacking_of_a_table_in_an_engine():
    cohort = abo.demo_cohort().to_frame("polars")
    release = abo.Synthesizer().fit(cohort).sample(datasets=1, rng_for_tests=np.random.default_rng(1))
    who, asked = abo.Adversary(lacking_columns=["BMI"]), {"mass": False}
    here, there = (abo.risk(table, release, who, **asked) for table in (cohort, cohort.lazy()))
    assert "probability_BMI" not in there.columns
    np.testing.assert_allclose(there["exposure"], here["exposure"], rtol=1e-8)


def test_a_release_with_a_guarantee_takes_the_table_file_that_it_was_made_with():
    cohort = abo.demo_cohort()
    limits = {name: {"low": -8, "high": 8, "centre": 0, "spread": 1} for name in cohort.columns}
    schema, table = {"columns": limits}, cohort.to_frame("pandas")
    release = abo.Synthesizer(epsilon=3.0).fit(table, schema=schema).sample(datasets=1, rows=50)
    told, usual = (abo.risk(table, release, **how) for how in ({"schema": schema}, {}))
    np.testing.assert_array_equal(told["risk"], usual["risk"])
