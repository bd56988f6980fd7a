"""The special ways through `risk` are the general one, to ten digits in all that is closed or of like points."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import allbutone as abo
from allbutone.disclosure import risk as room
from allbutone.disclosure.gap_risk import attacked_with_gaps
from allbutone.disclosure.question import Question
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.table_risk import stream_risk
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records

PEOPLE = 40
RELEASES = ["draw", "dataset", "datasets"]
BY_POINTS = {"mass", "information_gain"}  # of several datasets; a mass always
LAW = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def people(rng):
    return pd.DataFrame(rng.normal(size=(PEOPLE, 3)) @ rng.normal(size=(3, 3)), columns=["a", "b", "c"])


def released(table, rng, what, **how):
    fitted = abo.Synthesizer(prior={"centre": [0, 0, 0], "spread": [1, 1, 1]}, **how).fit(table)
    if what == "draw":
        return fitted.sample_parameters(1, rng_for_tests=rng)
    return fitted.sample(datasets=3 if what == "datasets" else 1, rng_for_tests=rng)


@pytest.mark.parametrize("what", RELEASES)
@pytest.mark.parametrize("known", [None, ["b"]])
def test_measurements_alone_are_one_cell(people, rng, what, known):
    question = Question.of(Records.of(people), released(people, rng, what), abo.Adversary(known=known))
    fast, general = room.exact_in_one_cell(question), room.exact_in_cells(question)
    np.testing.assert_allclose(fast.guess, general.guess, **LAW)
    for name, column in fast.measures.items():
        if name not in (BY_POINTS if what == "datasets" else {"mass"}):
            np.testing.assert_allclose(column, general.measures[name], **LAW, err_msg=name)
    pairs = [(fast.rest_known, general.rest_known)] if known is None else []
    for one, two in pairs if what == "datasets" else [*pairs, (fast.beliefs, general.beliefs)]:
        for name in ("probability", "baseline"):
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), **LAW, err_msg=name)


@pytest.mark.parametrize("what", RELEASES)
@pytest.mark.parametrize("kind", ["measurements", "categories"])
def test_a_table_in_its_engine_is_the_table_in_memory(people, rng, what, kind):
    if kind == "categories":
        people["sex"] = rng.permutation(["f", "m"] * (PEOPLE // 2))
    release = released(people, rng, what)
    here = risk_columns(
        Records.of(people, categories=kind == "categories"), release, mass=False, rng=np.random.default_rng(0)
    )
    lazy = LazyRecords.of(pl.from_pandas(people).lazy(), **({"categories": True} if kind == "categories" else {}))
    there = list(stream_risk(lazy, release, mass=False, block_rows=17))
    assert len(there) > 1
    for name, column in here.items():
        if column.dtype.kind == "f":
            np.testing.assert_allclose(np.concatenate([each[name] for each in there]), column, **LAW, err_msg=name)


@pytest.mark.parametrize("what", RELEASES)
@pytest.mark.parametrize("kind", ["measurements", "categories", "kept"])
def test_without_gaps_there_is_one_draw_of_them(people, rng, what, kind):
    if kind != "measurements":
        people["sex"] = rng.permutation(["f", "m"] * (PEOPLE // 2))
    release = released(people, rng, what, keep=["sex"] if kind == "kept" else [])
    question = Question.of(Records.of(people, categories=kind != "measurements"), release)
    exact, averaged = room.attacked_exactly(question), attacked_with_gaps(question)
    names = ["membership_evidence"] if "membership_evidence" in exact.measures else []
    names += [] if kind != "measurements" else ["distance", "baseline_distance", "exposure", "relative_error"]
    for name in names:
        np.testing.assert_allclose(averaged.measures[name], exact.measures[name], **LAW, err_msg=name)
    for name in ("probability", "baseline"):
        np.testing.assert_allclose(getattr(averaged.rest_known, name), getattr(exact.rest_known, name), **LAW)
    for name, levels in exact.rest_known.levels.items():
        for one, two in zip(averaged.rest_known.levels[name], levels, strict=True):
            np.testing.assert_allclose(one, two, **LAW, err_msg=name)
    error = averaged.beliefs.probability_error + exact.beliefs.probability_error
    error = np.maximum(error, np.median(error))  # of four replicates it is rough
    assert np.all(np.abs(averaged.beliefs.probability - exact.beliefs.probability) <= 6 * error)
