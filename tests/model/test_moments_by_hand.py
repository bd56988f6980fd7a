"""Count, mean and scatter at their edges, by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

import allbutone as abo
from allbutone.model import moments as moments_module
from allbutone.model.moments import Moments
from allbutone.tables.records import Sums

FAR = 1e8  # where a mean in float64 loses half the digits of a deviation
RECORDS = FAR + np.array([[0.1, 0.5], [1.7, -0.3], [-2.2, 0.9], [0.4, 0.4], [3.1, -1.3]])


def assert_are(found, records, digits=1e-13):
    """These are the records' moments: mean and tail together have more than sixteen digits."""
    off = (records - records[0]).astype(np.longdouble)  # without rounding, so close are they
    mean = off.mean(axis=0)
    assert found.count == len(records)
    np.testing.assert_allclose(
        np.asarray((found.mean - records[0]) + found.mean_tail - mean, float), 0, atol=1e-14
    )
    np.testing.assert_allclose(found.scatter, np.asarray((off - mean).T @ (off - mean), float), rtol=digits)


def test_what_is_put_together_can_be_taken_apart():
    one, other = Moments.of(RECORDS[:2]), Moments.of(RECORDS[2:])
    whole = one.merge(other)
    assert_are(whole, RECORDS)
    assert_are(whole.without(other), RECORDS[:2], 1e-12)
    assert_are(whole.without(one), RECORDS[2:], 1e-12)
    assert_are(whole.remove(RECORDS[-1]), RECORDS[:-1], 1e-12)
    assert_are(whole.add(RECORDS[0]), np.vstack([RECORDS, RECORDS[:1]]))
    nobody = whole.without(whole)
    assert nobody.count == 0
    np.testing.assert_array_equal(nobody.mean, [0, 0])
    np.testing.assert_array_equal(nobody.scatter, np.zeros((2, 2)))
    assert whole.merge(nobody) is whole
    assert nobody.merge(whole) is whole
    with pytest.raises(abo.InputError, match="5 records cannot be taken out of 2"):
        one.without(whole)


def test_one_record_is_added_to_and_taken_out_of_each_of_a_batch():
    whole = Moments.of(RECORDS)
    grown = whole.add(RECORDS[:2])
    for row in (0, 1):
        each = Moments(grown.count, grown.mean[row], grown.scatter[row], grown.mean_tail[row])
        assert_are(each, np.vstack([RECORDS, RECORDS[row]]))
    fewer = whole.remove(RECORDS[:2])
    for row in (0, 1):
        each = Moments(fewer.count, fewer.mean[row], fewer.scatter[row], fewer.mean_tail[row])
        assert_are(each, np.delete(RECORDS, row, axis=0), 1e-12)


def test_batches_with_counts_of_their_own_are_merged():
    parts = [RECORDS[:2], RECORDS[:3]]
    each = [Moments.of(part) for part in parts]
    batch = Moments(
        np.array([2.0, 3.0]), np.stack([one.mean for one in each]), np.stack([one.scatter for one in each]),
        np.stack([one.mean_tail for one in each]),
    )  # fmt: skip
    rest = Moments.of(RECORDS[3:])
    for whole in (batch.merge(rest), rest.merge(batch)):
        for row, part in enumerate(parts):
            found = Moments(whole.count[row], whole.mean[row], whole.scatter[row], whole.mean_tail[row])
            assert_are(found, np.vstack([part, RECORDS[3:]]))


def test_columns_are_chosen_with_their_tails():
    three = np.column_stack([RECORDS, RECORDS[:, 0] ** 0.5])
    assert_are(Moments.of(three).select([2, 0]), three[:, [2, 0]])
    plain = Moments(2.0, np.arange(3.0), np.arange(9.0).reshape(3, 3)).select([2, 0])
    np.testing.assert_array_equal(plain.mean, [2, 0])
    np.testing.assert_array_equal(plain.scatter, [[8, 6], [2, 0]])
    assert plain.mean_tail == 0.0


def test_sums_of_cells_make_the_moments_of_all():
    origin = np.array([FAR, FAR])
    off = RECORDS - origin
    parts = [off[:2], off[2:]]
    sums = Sums(
        origin, np.array([2.0, 3.0]), np.stack([part.sum(axis=0) for part in parts]),
        np.stack([part.T @ part for part in parts]), np.array([[0], [1]]),
    )  # fmt: skip
    assert_are(Moments.of_sums(sums), RECORDS)


@pytest.mark.parametrize("bytes_a_block", [1, 3 * 3 * 8, 1 << 20], ids=["a row", "three rows", "all"])
def test_a_factor_comes_where_squares_have_too_few_digits(rng, monkeypatch, bytes_a_block):
    monkeypatch.setattr(moments_module, "BLOCK_BYTES", bytes_a_block)
    records = FAR + rng.standard_normal((10, 3))
    usual = Moments.of(records)
    assert usual.factor is None
    np.testing.assert_allclose(usual.half @ usual.half.T, usual.scatter, rtol=1e-12)
    records[:, 2] = records[:, 0] + 2.0**-14 * rng.integers(-5, 5, 10)  # nearly the first again
    nearly = Moments.of(records)
    centred = records.astype(np.longdouble) - records.astype(np.longdouble).mean(axis=0)
    exactly = np.abs(np.linalg.qr(centred.astype(float))[1].T)
    np.testing.assert_allclose(np.abs(nearly.factor), exactly, rtol=1e-7)
    assert nearly.half is nearly.factor
    few = Moments.of(records[:2])  # fewer records than columns
    np.testing.assert_allclose(few.half @ few.half.T, few.scatter, atol=1e-10)


@pytest.mark.parametrize(("left", "has"), [(1e-5, True), (1e-7, False)])
def test_a_root_of_the_scatter_serves_where_enough_of_each_column_is_left(left, has):
    shared = np.sqrt(1 - left)
    found = Moments(9.0, np.zeros(2), np.array([[1.0, shared], [shared, 1.0]])).half
    assert (found is not None) == has
    assert Moments(9.0, np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]])).half is None
    assert Moments(9.0, np.zeros(2), np.array([[np.nan, 0.0], [0.0, 1.0]])).half is None


GOOD = (3.0, np.zeros(2), np.eye(2))


@pytest.mark.parametrize(
    ("count", "mean", "scatter", "message"),
    [
        (3.0, np.zeros((1, 2)), np.eye(2)[None], "the moments of one table"),
        (3.0, np.zeros((1, 1)), np.eye(1), "the moments of one table"),
        (3.0, np.zeros(0), np.zeros((0, 0)), "the moments of one table"),
        (3.0, np.zeros(2), np.eye(3), "the moments of one table"),
        (np.full(4, 3.0), np.zeros(2), np.eye(2), "the moments of one table"),
        (-1e-9, np.zeros(2), np.eye(2), "cannot count"),
        (np.inf, np.zeros(2), np.eye(2), "cannot count inf"),
        (np.nan, np.zeros(2), np.eye(2), "cannot count nan"),
        (3.0, np.zeros(2), np.array([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (3.0, np.zeros(2), np.diag([1.0, -0.0011]), "negative eigenvalue -0.0011"),
    ],
)
def test_moments_that_no_table_has_are_refused(count, mean, scatter, message):
    Moments(*GOOD).require_possible()
    Moments(0.0, np.zeros(2), np.zeros((2, 2))).require_possible()
    Moments(3.0, np.zeros(1), np.eye(1)).require_possible()
    Moments(3.0, np.zeros(2), np.diag([1.0, -0.0009])).require_possible()  # rounding, where an outlier was removed
    with pytest.raises(abo.InputError, match=message):
        # not by the constructor, whose shapes are checked here, but not where the package is used
        Moments.require_possible(SimpleNamespace(count=count, mean=mean, scatter=scatter))


def test_no_records_and_records_of_no_columns():
    nothing = Moments.of(np.zeros((0, 3)))
    assert (nothing.count, nothing.mean.shape, nothing.scatter.shape) == (0.0, (3,), (3, 3))
    assert Moments.of(nothing) is nothing
    for shape in ((3,), (2, 0), (1, 2, 2)):
        with pytest.raises(abo.InputError, match="p > 0"):
            Moments.of(np.zeros(shape))
