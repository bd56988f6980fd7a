"""The model at its edges, by hand: what constructors give, and the first value on either side of each bound."""

import array_api_strict
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


def test_only_the_flat_prior_may_weigh_nothing():
    """With a mean, a scale or degrees of freedom, however little, it is refused."""
    zeros = np.zeros(2)
    for mean, df, scale in (
        ([0.0, 1.0], -1.0, np.zeros((2, 2))), (zeros, -1.0, np.diag([0.0, 1.0])), (zeros, -0.5, np.zeros((2, 2))),
    ):  # fmt: skip
        with pytest.raises(abo.InputError, match="mean_weight"):
            abo.NIW(mean, 0.0, df, scale)
    for bad in (np.nan, np.inf):
        with pytest.raises(abo.InputError, match="mean must hold finite"):
            abo.NIW([0.0, bad], 1.0, 4.0, np.eye(2))


def test_records_too_far_from_zero_are_refused():
    records = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, -1.0]])
    for far in (1e11, -1e11):
        abo.NIW([far, 0.0], 1.0, 4.0, np.eye(2)).update(records + np.array([far, 0.0]))
    with pytest.raises(abo.InputError, match="mean is over 1e\\+12 times"):
        abo.NIW([1e13, 0.0], 1.0, 4.0, np.eye(2)).update(records + np.array([1e13, 0.0]))


def test_a_prior_moves_to_other_arrays():
    prior, like = abo.NIW([1.0, 2.0], 3.0, 4.0, 2 * np.eye(2)), array_api_strict.zeros(1)
    moved = prior.moved(like=like)
    assert isinstance(moved.mean, type(like))
    assert isinstance(moved.scale, type(like))
    np.testing.assert_array_equal(np.asarray(moved.scale), prior.scale)
    np.testing.assert_array_equal(np.asarray(moved.mean), prior.mean)
    assert (moved.mean_weight, moved.df) == (3.0, 4.0)
    assert prior.moved(like=np.zeros(1)) is prior


def test_a_marginal_is_literal_and_of_all_columns_the_same_object():
    scale = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    prior = abo.NIW([1.0, 2.0, 3.0], 2.0, 6.0, scale)
    part = prior.marginal([2, 0])
    np.testing.assert_array_equal(part.mean, [3.0, 1.0])
    np.testing.assert_array_equal(part.scale, [[2.0, 0.5], [0.5, 4.0]])
    assert (part.mean_weight, part.df) == (2.0, 5.0)
    assert prior.marginal([0, 1, 2]) is prior
    np.testing.assert_array_equal(prior.marginal([1, 0, 2]).mean, [2.0, 1.0, 3.0])


def test_a_batch_of_one_is_the_one():
    scale = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
    one, batch = abo.NIW([1.0, 2.0, 3.0], 2.0, 6.0, scale), abo.NIW([[1.0, 2.0, 3.0]], 2.0, 6.0, scale[None])
    (mean, root), (means, roots) = (each.draw_roots(np.random.default_rng(1), 4) for each in (one, batch))
    np.testing.assert_allclose(means[:, 0], mean, rtol=1e-12)
    np.testing.assert_allclose(roots[:, 0], root, rtol=1e-12)
    part = abo.NIW([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], 2.0, 6.0, scale).marginal([2, 0])
    np.testing.assert_array_equal(part.mean, [[3.0, 1.0], [6.0, 4.0]])
    np.testing.assert_array_equal(part.scale, [[[2.0, 0.5], [0.5, 4.0]]] * 2)


def test_the_root_comes_from_the_parts_where_the_squares_lose_digits():
    """Columns that nearly repeat one another, and a prior whose mean is far off: RRᵀ = Λ' all the same."""
    rng = np.random.default_rng(3)
    records = rng.standard_normal((9, 2))
    records[:, 1] = records[:, 0] + 2.0**-14 * rng.integers(-5, 5, 9)
    for weight in (0.3, 40.0):
        found = abo.NIW([5.0, 5.001], weight, 4.0, 1e-9 * np.eye(2)).update(records)
        np.testing.assert_allclose(found.root @ found.root.T, found.scale, rtol=1e-9)


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
