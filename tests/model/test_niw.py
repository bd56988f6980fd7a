"""Laws of the normal-inverse-Wishart model; the paper's formulas, written out, are the oracle."""

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import allbutone as abo
import paper
from allbutone.model.niw import Normal
from cases import cases, positive_definite, relative_error

Z = 5.0  # standard errors a Monte Carlo mean may stray: for any seed, about one failure in a million


@given(cases())
def test_update_is_the_papers(case):
    posterior = abo.NIW(*case.prior).update(case.records)
    mean, mean_weight, df, scale = paper.posterior(case.records, *case.prior)
    assert relative_error(posterior.mean, mean) < 1e-10
    assert relative_error(posterior.scale, scale) < 1e-10
    assert (posterior.mean_weight, posterior.df) == pytest.approx((mean_weight, df))


@given(cases(max_p=10, max_n=30))
def test_one_at_a_time_equals_all_at_once(case):
    together = abo.NIW(*case.prior).update(case.records)
    one_by_one = abo.NIW(*case.prior)
    for record in case.records:
        one_by_one = one_by_one.update(record[None, :])
    assert relative_error(one_by_one.scale, together.scale) < 1e-10
    assert relative_error(one_by_one.mean, together.mean) < 1e-10


@given(cases(max_p=12, max_n=40))
def test_log_density_is_the_papers(case):
    posterior = abo.NIW(*case.prior).update(case.records)
    means, covariances = posterior.draw(case.rng, 3)
    parameters = paper.posterior(case.records, *case.prior)
    truth = [paper.log_niw(m, s, *parameters) for m, s in zip(means, covariances, strict=True)]
    np.testing.assert_allclose(posterior.log_density(means, covariances), truth, rtol=1e-10, atol=1e-8)


@given(cases(max_p=12, max_n=40))
def test_predictive_is_the_papers_student_t(case):
    predictive = abo.NIW(*case.prior).update(case.records).predictive()
    t = paper.predictive(*paper.posterior(case.records, *case.prior))
    truth = [paper.log_student_t(x, *t) for x in case.records]
    np.testing.assert_allclose(predictive.log_density(case.records), truth, rtol=1e-10, atol=1e-9)


@given(cases(max_p=10, max_n=30))
def test_evidence_is_the_papers_and_the_product_of_predictives(case):
    prior = abo.NIW(*case.prior)
    evidence = float(prior.log_evidence(case.records))
    assert evidence == pytest.approx(paper.log_evidence(case.records, *case.prior), rel=1e-10, abs=1e-8)
    chain = 0.0
    for record in case.records:
        chain += float(prior.predictive().log_density(record))
        prior = prior.update(record[None, :])
    assert evidence == pytest.approx(chain, rel=1e-9, abs=1e-7)


@given(cases(max_p=6, max_n=20))
def test_evidence_is_likelihood_times_prior_over_posterior(case):
    prior = abo.NIW(*case.prior)
    posterior = prior.update(case.records)
    (mean,), (covariance,) = posterior.draw(case.rng, 1)
    likelihood = float(Normal(mean, covariance).log_density(case.records).sum())
    ratio = float(prior.log_density(mean, covariance) - posterior.log_density(mean, covariance))
    evidence = float(prior.log_evidence(case.records))
    assert evidence == pytest.approx(likelihood + ratio, rel=1e-9, abs=1e-6)


@given(cases(max_p=6, max_n=20, min_n=2))
def test_affine_equivariance(case):
    p = case.records.shape[1]
    turn, shift = np.linalg.qr(case.rng.standard_normal((p, p)))[0] * 3.0, case.rng.standard_normal(p)
    moved_prior = abo.NIW(case.mean @ turn.T + shift, case.mean_weight, case.df, turn @ case.scale @ turn.T)
    moved = moved_prior.update(case.records @ turn.T + shift)
    posterior = abo.NIW(*case.prior).update(case.records)
    assert relative_error(moved.mean, posterior.mean @ turn.T + shift) < 1e-9
    assert relative_error(moved.scale, turn @ posterior.scale @ turn.T) < 1e-9


@pytest.mark.parametrize("p", [1, 2, 5])
def test_draws_have_the_right_means_and_covariances(p, rng):
    niw = abo.NIW(rng.standard_normal(p), 3.0, p + 9.0, positive_definite(rng, p))
    count = 40_000
    means, covariances = niw.draw(rng, count)
    _within(covariances, niw.scale / (niw.df - p - 1))
    _within(means, niw.mean)
    centred = means - niw.mean
    _within(centred[:, :, None] * centred[:, None, :], niw.scale / (niw.df - p - 1) / niw.mean_weight)
    # E[Σ⁻¹] = νΛ⁻¹ pins the degrees of freedom as well as the scale
    _within(np.linalg.inv(covariances), niw.df * np.linalg.inv(niw.scale))


def _within(draws, expected):
    error = draws.std(axis=0) / np.sqrt(len(draws))
    assert np.all(np.abs(draws.mean(axis=0) - expected) <= Z * error)


@pytest.mark.parametrize("p", [1, 3])
def test_covariances_follow_scipys_inverse_wishart(p, rng):
    niw = abo.NIW(np.zeros(p), 1.0, p + 3.0, positive_definite(rng, p))
    _, ours = niw.draw(rng, 4000)
    theirs = stats.invwishart.rvs(niw.df, niw.scale, size=4000, random_state=rng).reshape(-1, p, p)
    for statistic in (lambda s: s[:, 0, 0], lambda s: s[:, -1, 0], np.linalg.det):
        assert stats.ks_2samp(statistic(ours), statistic(theirs)).pvalue > 1e-6


def test_batched_draws_are_draws_of_each(rng):
    prior = abo.NIW.default(2)
    batch = abo.NIW(
        np.zeros((3, 2)), 1.0, np.array([6.0, 8.0, 60.0]), np.stack([np.eye(2) * s for s in (1.0, 2.0, 3.0)])
    )
    means, covariances = batch.draw(rng, 20_000)
    assert means.shape == (20_000, 3, 2)
    for member, (df, size) in enumerate(zip(batch.df, (1.0, 2.0, 3.0), strict=True)):
        _within(np.linalg.inv(covariances[:, member]), df / size * np.eye(2))
    assert prior.draw(rng, 1)[0].shape == (1, 2)


@settings(max_examples=20)
@given(cases(max_p=4, max_n=20), st.integers(1, 3))
def test_the_same_lines_run_on_the_array_standard(case, count):
    xp = array_api_strict
    prior = abo.NIW(xp.asarray(case.mean), case.mean_weight, case.df, xp.asarray(case.scale))
    posterior = prior.update(xp.asarray(case.records))
    plain = abo.NIW(*case.prior).update(case.records)
    means, covariances = plain.draw(case.rng, count)
    strict = posterior.log_density(xp.asarray(means), xp.asarray(covariances))
    np.testing.assert_allclose(np.asarray(strict), plain.log_density(means, covariances), rtol=1e-9)
    t = posterior.predictive().log_density(xp.asarray(case.records))
    np.testing.assert_allclose(np.asarray(t), plain.predictive().log_density(case.records), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"df": 1.0}, "df must exceed p - 1 = 1 and be finite.*, got 1.0"),
        ({"df": float("nan")}, "df must exceed"),
        ({"df": np.array([3.0, np.inf])}, "be finite"),
        ({"df": "5"}, "df must be a number, got '5'"),
        ({"mean_weight": 0}, "mean_weight must be a finite number above 0.*, got 0"),
        ({"mean_weight": float("inf")}, "mean_weight must be a finite number above 0.*, got inf"),
        ({"mean_weight": True}, "mean_weight must be a number, got True"),
        ({"mean": ["a", "b"]}, "mean must be an array of numbers"),
        ({"mean": np.zeros(2, complex)}, "mean must hold real numbers, got dtype complex128"),
        ({"mean": np.ma.masked_array([1.0, 2.0], [True, False])}, "mean is a masked array"),
        ({"mean": np.zeros((3, 2)), "df": np.full(4, 5.0)}, r"batch shapes \(3,\), \(\), \(\), \(4,\)"),
        ({"mean": [0.0, 0.0, 0.0]}, "got \\(3,\\) and \\(2, 2\\)"),
        ({"scale": [[1.0, 2.0], [2.0, 1.0]]}, "positive definite"),
        ({"scale": [[1.0, 0.5], [0.0, 1.0]]}, "symmetric"),
        ({"scale": [[1.0, float("nan")], [0.0, 1.0]]}, "finite"),
    ],
)
def test_impossible_priors_are_refused_with_the_cure(change, message):
    good = {"mean": [0.0, 0.0], "mean_weight": 1.0, "df": 4.0, "scale": np.eye(2)}
    abo.NIW(**good)
    with pytest.raises(abo.InputError, match=message):
        abo.NIW(**(good | change))


def test_records_of_another_width_are_refused():
    with pytest.raises(abo.InputError, match="prior is for 3 columns, the records have 2"):
        abo.NIW.default(3).update(np.ones((4, 2)))


def test_batch_shapes_are_broadcast(rng):
    batch = abo.NIW(np.zeros(2), np.array([1.0, 2.0, 3.0]), 4, np.eye(2, dtype=">f4"))
    assert batch.scale.shape == (3, 2, 2)
    assert batch.draw(rng, 5)[0].shape == (5, 3, 2)
    records = np.array([[1.0, 2.0], [2.0, 0.0]])
    for member, weight in enumerate((1.0, 2.0, 3.0)):
        single = abo.NIW(np.zeros(2), weight, 4, np.eye(2)).update(records)
        np.testing.assert_allclose(batch.update(records).scale[member], single.scale)


def test_values_over_arrays_are_compared_by_identity():
    prior = abo.NIW.default(2)
    assert prior == prior
    assert prior != abo.NIW.default(2)


@pytest.mark.parametrize(
    ("prior", "records", "message"),
    [
        (abo.NIW.default(3), 1e10, "prior's mean is too far from the records"),
        (abo.NIW([0.0] * 3, 1.0, 5.0, 1e-30 * np.eye(3)), 0.0, "drop a column that repeats others"),
    ],
)
def test_a_posterior_beyond_float64_is_explained(prior, records, message):
    column = np.array([-1.0, 0.3, 0.9, 2.1])
    with pytest.raises(abo.InputError, match=message):
        prior.update(records + np.column_stack([column, column[::-1] if records else column, column**2]))


SAME = np.ones((2, 2))  # of two columns that are one


@pytest.mark.parametrize(
    ("prior", "mean", "scatter", "words"),
    [
        (abo.NIW.flat(2), [0.0, 0.0], SAME, "do not vary in every direction"),
        (abo.NIW.default(2), [0.0, 0.0], 1e17 * SAME, "drop a column that repeats others"),
        (abo.NIW.flat(2), [0.0, 0.0], [[1.0, 0.0], [0.0, 1e-320]], "write the column in a smaller unit"),
        (abo.NIW.default(2), [np.nan, 0.0], np.eye(2), "missing or infinite"),
        (abo.NIW.flat(2), [1e14, 0.0], np.eye(2), "too few digits; subtract a constant"),
    ],
)
def test_moments_that_leave_no_digits_are_refused_each_with_its_cure(prior, mean, scatter, words):
    with pytest.raises(abo.InputError, match=words):
        prior.update(abo.Moments(30.0, np.array(mean), np.array(scatter)))


def test_a_prior_has_a_finite_mean():
    with pytest.raises(abo.InputError, match="mean must hold finite numbers"):
        abo.NIW([np.inf, 0.0], 1.0, 5.0, np.eye(2))


def test_draws_that_overflow_are_refused(rng):
    with pytest.raises(abo.InputError, match="raise df"):
        abo.NIW(np.zeros(2), 1.0, 1.0 + 1e-4, np.eye(2)).draw(rng, 1000)
