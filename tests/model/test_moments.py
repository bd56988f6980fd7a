"""Laws of count, mean and scatter."""

import array_api_strict
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import allbutone as abo
from allbutone.model import moments as moments_module
from cases import cases, relative_error


def exact(records):
    """Mean and scatter in extended precision."""
    wide = records.astype(np.longdouble)
    mean = wide.mean(axis=0)
    return mean, (wide - mean).T @ (wide - mean)


@given(cases())
def test_summary_is_the_definition(case):
    mean, scatter = exact(case.records)
    summary = abo.Moments.of(case.records)
    assert summary.count == len(case.records)
    # relative to the values, not to their mean, which may cancel to next to nothing
    assert np.all(np.abs(summary.mean - mean) <= 1e-14 * np.max(np.abs(case.records), axis=0))
    if len(case.records) > 1:
        assert relative_error(summary.scatter, scatter) < 1e-12


@given(cases(max_p=8, min_n=2), st.data(), st.sampled_from([0.0, 1e8]))
def test_any_split_in_any_order_merges_to_the_whole(case, data, offset):
    # standardised columns around `offset`: at 1e8 raw second moments would not even be positive definite
    spread = case.records.std(axis=0) + 1e-300
    records = offset + (case.records - case.records.mean(axis=0)) / spread
    cuts = data.draw(st.lists(st.integers(0, len(records)), max_size=5))
    parts = np.split(records[case.rng.permutation(len(records))], sorted(cuts))
    whole = abo.Moments.none(records.shape[1], like=records)
    for part in case.rng.permutation(len(parts)):
        whole = whole.merge(abo.Moments.of(parts[part]))
    mean, scatter = exact(records)
    assert whole.count == len(records)
    assert np.max(np.abs(whole.mean - mean)) <= 1e-12 * max(1.0, offset)
    assert relative_error(whole.scatter, scatter) < 1e-12


@given(cases(max_p=8, min_n=2))
def test_remove_undoes_add(case):
    *others, last = case.records
    fewer = abo.Moments.of(np.array(others))
    more = fewer.add(last)
    assert relative_error(more.scatter, exact(case.records)[1]) < 1e-12
    again = more.remove(last)
    assert again.count == fewer.count
    # removing cancels what the record added, so the error is relative to the larger scatter
    assert np.max(np.abs(again.scatter - fewer.scatter)) <= 1e-12 * np.max(np.abs(more.scatter))


@given(cases(max_p=5, max_n=30, min_n=3), st.data())
def test_what_is_left_of_a_table_without_some_records(case, data):
    records, cut = case.records, data.draw(st.integers(1, len(case.records) - 1))
    whole, some = abo.Moments.of(records), abo.Moments.of(records[:cut])
    left = whole.without(some)
    assert left.count == len(records) - cut
    assert np.max(np.abs(left.scatter - exact(records[cut:])[1])) <= 1e-11 * np.max(np.abs(whole.scatter))
    nothing = whole.without(whole)
    assert nothing.count == 0
    assert not nothing.scatter.any()
    with pytest.raises(abo.InputError, match="cannot be taken out of"):
        some.without(whole)


def test_some_columns_have_the_moments_of_a_table_of_them(rng):
    records = rng.normal(size=(20, 4))
    some, alone = abo.Moments.of(records).select([3, 1]), abo.Moments.of(records[:, [3, 1]])
    assert relative_error(some.mean, alone.mean) < 1e-12
    assert relative_error(some.scatter, alone.scatter) < 1e-12
    bare = abo.Moments(20.0, records.mean(axis=0), some.scatter[[0, 0, 1, 1]][:, [0, 0, 1, 1]])  # without a tail
    np.testing.assert_array_equal(bare.select([2]).mean, records.mean(axis=0)[[2]])


@pytest.mark.parametrize(
    ("count", "mean", "scatter", "words"),
    [
        (3.0, np.zeros((4, 2)), np.zeros((4, 2, 2)), "of one table"),
        (-1.0, np.zeros(2), np.eye(2), "cannot count -1"),
        (3.0, np.zeros(2), -np.eye(2), "negative eigenvalue"),
    ],
)
def test_moments_that_no_table_has_are_refused(count, mean, scatter, words):
    with pytest.raises(abo.InputError, match=words):
        abo.Moments(count, mean, scatter).require_possible()


def test_the_last_record_can_be_removed():
    nothing = abo.Moments.of(np.array([[3.0, 4.0]])).remove(np.array([3.0, 4.0]))
    assert nothing.count == 0
    assert not nothing.scatter.any()


@pytest.mark.parametrize("order", ["shuffled", "sorted"])
def test_many_blocks_equal_one(monkeypatch, order):
    rng = np.random.default_rng(1)
    records = 1e8 + rng.standard_normal((5000, 3))
    if order == "sorted":
        records = np.sort(records, axis=0)
    monkeypatch.setattr(moments_module, "BLOCK_BYTES", 100 * 3 * 8)
    mean, scatter = exact(records)
    summary = abo.Moments.of(records)
    assert relative_error(summary.scatter, scatter) < 1e-12
    assert relative_error(summary.mean, mean) < 1e-15


def test_missing_and_infinite_values_are_refused():
    for bad in (np.nan, np.inf, 1e300):
        with pytest.raises(abo.InputError, match="missing, infinite or too large"):
            abo.Moments.of(np.array([[1.0, 2.0], [bad, 1.0]]))


@pytest.mark.parametrize(
    ("records", "message"),
    [
        (np.ones((3, 0)), "p > 0"),
        (np.ones(3), "shape"),
        (np.ones((3, 2), dtype=object), "real numbers, got dtype object"),
        (np.ones((3, 2), dtype=complex), "real numbers, got dtype complex128"),
        (np.ma.masked_array([[1.0], [2.0]], [[True], [False]]), "masked"),
    ],
)
def test_what_is_no_matrix_of_numbers_is_refused(records, message):
    with pytest.raises(abo.InputError, match=message):
        abo.Moments.of(records)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("dtype", [">f8", np.longdouble, np.float32, np.int16])
def test_every_kind_of_real_number_comes_in(dtype):
    records = np.array([[1, 2], [3, 5]], dtype=dtype)
    for table in (records, np.asmatrix(records), pd.DataFrame({"a": [1, 3], "id": [2, 5]})):
        np.testing.assert_array_equal(abo.Moments.of(table).scatter, [[2.0, 3.0], [3.0, 4.5]])


def test_moments_need_no_spread_but_the_same_columns():
    constant = abo.Moments.of(pd.DataFrame({"a": [4.0, 4.0]}))
    assert constant.scatter == 0
    with pytest.raises(abo.InputError, match="1 and 2 columns"):
        constant.merge(abo.Moments.of(np.ones((2, 2))))


@given(cases(max_p=5, max_n=30, min_n=2))
def test_the_same_lines_run_on_the_array_standard(case):
    strict = array_api_strict.asarray(case.records)
    whole = abo.Moments.of(strict[:1, :]).merge(abo.Moments.of(strict[1:, :]))
    assert relative_error(np.asarray(whole.scatter), exact(case.records)[1]) < 1e-12
