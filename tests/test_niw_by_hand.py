"""The model at its edges, by hand: what constructors give, and the first value on either side of each bound."""

import numpy as np
import pytest

import allbutone as abo


def test_a_prior_from_spreads_is_what_its_docstring_says():
    for df, told in ((None, 4.0), (7.5, 7.5)):
        prior = abo.NIW.from_spread([25, 3.4], [4.5, 0.9], mean_weight=2.0, df=df)
        np.testing.assert_allclose(prior.mean, [25, 3.4])
        assert (prior.mean_weight, prior.df) == (2.0, told)
        np.testing.assert_allclose(prior.scale, (told - 3) * np.diag([4.5**2, 0.9**2]))
    assert abo.NIW.from_spread([1.0], [2.0]).mean_weight == 1.0


@pytest.mark.parametrize(
    ("centre", "spread", "df", "message"),
    [
        ([1.0, 2.0], [1.0], None, "one value a column"),
        ([[1.0, 2.0]], [[1.0, 2.0]], None, "one value a column"),
        ([1.0, 2.0], [1.0, 0.0], None, "must exceed 0"),
        ([1.0, 2.0], [1.0, 1.0], 3.0, "df must exceed p \\+ 1 = 3"),
    ],
)
def test_spreads_that_give_no_prior(centre, spread, df, message):
    with pytest.raises(abo.InputError, match=message):
        abo.NIW.from_spread(centre, spread, df=df)
    assert abo.NIW.from_spread([1.0, 2.0], [1.0, 1e-9], df=3.0001).df == 3.0001


def test_the_default_and_the_flat_prior():
    usual, flat = abo.NIW.default(3), abo.NIW.flat(3)
    assert (usual.mean_weight, usual.df, flat.mean_weight, flat.df) == (1.0, 5.0, 0.0, -1.0)
    np.testing.assert_array_equal(usual.scale, np.eye(3))
    np.testing.assert_array_equal(usual.mean, np.zeros(3))
    np.testing.assert_array_equal(flat.scale, np.zeros((3, 3)))
    np.testing.assert_array_equal(flat.mean, np.zeros(3))
    assert flat.is_flat
    assert not usual.is_flat
    # a marginal of the flat prior is flat, with as many degrees of freedom less as columns
    assert flat.marginal([2, 0]).df == -2.0
    assert flat.marginal([2, 0]).is_flat
    with pytest.raises(abo.InputError, match="no distribution"):
        _ = flat.root


def test_bounds_of_the_weights():
    p, eye = 2, np.eye(2)
    for weight, df in ((1e-300, 5.0), (1.0, np.nextafter(p - 1, p)), (2.0**53 - 1, 5.0), (1.0, 2.0**53 - 1)):
        assert abo.NIW(np.zeros(p), weight, df, eye).df == df
    for weight, df, name in ((0.0, 5.0, "mean_weight"), (2.0**53, 5.0, "mean_weight"), (1.0, p - 1.0, "df"),
                             (1.0, 2.0**53, "df"), (np.nan, 5.0, "mean_weight"), (1.0, np.inf, "df")):  # fmt: skip
        with pytest.raises(abo.InputError, match=name):
            abo.NIW(np.zeros(p), weight, df, eye)
    for weight in (True, "1", None):
        with pytest.raises(abo.InputError, match="must be a number"):
            abo.NIW(np.zeros(p), weight, 5.0, eye)


def test_the_flat_prior_needs_more_records_than_columns():
    records = np.array([[1.0, 2.0], [2.0, 5.0], [4.0, 3.0]])
    found = abo.NIW.flat(2).update(records)
    centred = records - records.mean(axis=0)
    np.testing.assert_allclose(found.mean, records.mean(axis=0))
    np.testing.assert_allclose(found.scale, centred.T @ centred)
    assert (found.mean_weight, found.df) == (3.0, 2.0)
    with pytest.raises(abo.InputError, match="2 for 2 do not suffice"):
        abo.NIW.flat(2).update(records[:2])


def test_a_marginal_is_literal_and_of_all_columns_the_same_object():
    scale = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    prior = abo.NIW([1.0, 2.0, 3.0], 2.0, 6.0, scale)
    part = prior.marginal([2, 0])
    np.testing.assert_array_equal(part.mean, [3.0, 1.0])
    np.testing.assert_array_equal(part.scale, [[2.0, 0.5], [0.5, 4.0]])
    assert (part.mean_weight, part.df) == (2.0, 5.0)
    assert prior.marginal([0, 1, 2]) is prior
    np.testing.assert_array_equal(prior.marginal([1, 0, 2]).mean, [2.0, 1.0, 3.0])


def test_the_next_record_by_hand():
    prior = abo.NIW([1.0, 2.0], 4.0, 7.0, np.array([[3.0, 1.0], [1.0, 2.0]]))
    following = prior.predictive()
    assert following.df == 6.0  # ν − p + 1
    np.testing.assert_allclose(following.scale, 5 / (4 * 6) * np.array([[3.0, 1.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(following.location, [1.0, 2.0])


def test_a_prior_has_columns_and_a_batch_has_one_shape():
    with pytest.raises(abo.InputError, match="mean must have shape"):
        abo.NIW(np.asarray(3.0), 1.0, 3.0, np.eye(1))
    several = abo.NIW([1.0, 2.0], np.array([1.0, 2.0, 3.0]), 5.0, np.eye(2))
    assert several.mean.shape == (3, 2)
    assert several.scale.shape == (3, 2, 2)
    assert abo.NIW(np.zeros((3, 2)), 1.0, 5.0, np.eye(2)).scale.shape == (3, 2, 2)
    assert abo.NIW(np.zeros(2), 1.0, 5.0, np.stack([np.eye(2)] * 3)).mean.shape == (3, 2)
