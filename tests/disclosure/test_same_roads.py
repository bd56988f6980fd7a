"""The special ways through `risk` are the general one: after one release, where all is closed, to ten digits."""

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


@pytest.fixture
def people(rng):
    return pd.DataFrame(rng.normal(size=(PEOPLE, 3)) @ rng.normal(size=(3, 3)), columns=["a", "b", "c"])


def released(table, rng, what):
    fitted = abo.Synthesizer(prior={"centre": [0, 0, 0], "spread": [1, 1, 1]}).fit(table)
    return fitted.sample_parameters(1, rng_for_tests=rng) if what == "draw" else fitted.sample(rng_for_tests=rng)


@pytest.mark.parametrize("what", ["draw", "dataset"])
@pytest.mark.parametrize("known", [None, ["b"]])
def test_measurements_alone_are_one_cell(people, rng, what, known):
    question = Question.of(Records.of(people), released(people, rng, what), abo.Adversary(known=known))
    fast, general = room.exact_in_one_cell(question), room.exact_in_cells(question)
    np.testing.assert_allclose(fast.guess, general.guess, atol=1e-9)
    for name, column in fast.measures.items():
        if name != "mass":  # of a ball, by points
            np.testing.assert_allclose(column, general.measures[name], rtol=1e-8, atol=1e-10, err_msg=name)
    for one, two in ((fast.beliefs, general.beliefs), (fast.rest_known, general.rest_known)):
        for name in ("probability", "baseline") if one is not None else ():
            np.testing.assert_allclose(getattr(one, name), getattr(two, name), atol=1e-10, err_msg=name)


@pytest.mark.parametrize("what", ["draw", "dataset"])
def test_a_table_in_its_engine_is_the_table_in_memory(people, rng, what):
    release = released(people, rng, what)
    here = risk_columns(Records.of(people), release, mass=False)
    blocks = stream_risk(LazyRecords.of(pl.from_pandas(people).lazy()), release, mass=False, block_rows=17)
    there = [*blocks]
    assert len(there) > 1
    for name in here:
        if here[name].dtype.kind == "f":
            joined = np.concatenate([each[name] for each in there])
            np.testing.assert_allclose(joined, here[name], rtol=1e-8, atol=1e-10, err_msg=name)


def test_without_gaps_there_is_one_draw_of_them(people, rng):
    question = Question.of(Records.of(people), released(people, rng, "dataset"), abo.Adversary(known=[]))
    exact, averaged = room.attacked_exactly(question), attacked_with_gaps(question)
    for name in ("distance", "baseline_distance", "exposure", "relative_error", "membership_evidence"):
        np.testing.assert_allclose(
            averaged.measures[name], exact.measures[name], rtol=1e-6, atol=1e-8, err_msg=name
        )
    error = averaged.beliefs.probability_error
    error = np.maximum(error, np.median(error))  # of four replicates it is rough
    assert np.all(np.abs(averaged.beliefs.probability - exact.beliefs.probability) <= 6 * error)
