"""The regression on covariates: conjugate algebra, the normal model as its case, the attack given covariates."""

from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import invwishart, matrix_normal, multivariate_normal

import allbutone as abo
from allbutone.adversary.build import log_posterior
from allbutone.adversary.mixed import from_terms
from allbutone.adversary.modes import find_modes
from allbutone.adversary.posterior import Posterior
from allbutone.model.location import Regression
from cases import positive_definite

P, R = 3, 2


def proper(rng, p=P, r=R):
    root = np.linalg.cholesky(positive_definite(rng, r)).T
    return Regression(rng.standard_normal((r, p)), root, p + 1.5, positive_definite(rng, p))


def of_normal(prior):
    return Regression(prior.mean[None, :], np.atleast_2d(np.sqrt(prior.mean_weight)), prior.df, prior.scale)


def flat(r):
    """p(B, Σ) ∝ |Σ|^(−(p+1)/2)."""
    return Regression(np.zeros((r, P)), np.zeros((r, r)), -float(r), np.zeros((P, P)))


def flat_intercept(r):
    """The first covariate, always 1, and Σ are flat; all other effects are N(0, Σ)."""
    return Regression(np.zeros((r, P)), np.diag(np.append(0.0, np.ones(r - 1))), -1.0, np.zeros((P, P)))


def covariates(rng, n, r=R):
    return np.column_stack([np.ones(n), rng.integers(0, 2, (n, r - 1)) + 0.1 * rng.standard_normal((n, r - 1))])


def measured(rng, n, p=P):
    return rng.standard_normal((n, p)) @ positive_definite(rng, p)


def literally_updated(model, records, known):
    """The textbook's update by raw second moments and inverses."""
    weight = model.root.T @ model.root
    after = weight + known.T @ known
    mean = np.linalg.inv(after) @ (weight @ model.coefficients + known.T @ records)
    before = model.coefficients.T @ weight @ model.coefficients
    scale = model.scale + records.T @ records + before - mean.T @ after @ mean
    return mean, after, model.df + len(records), scale


def log_prior(model, coefficients, covariance):
    weight = model.root.T @ model.root
    normal = matrix_normal.logpdf(coefficients, model.coefficients, np.linalg.inv(weight), covariance)
    return normal + invwishart.logpdf(covariance, model.df, model.scale)


def log_likelihood(records, known, coefficients, covariance):
    return np.sum(multivariate_normal.logpdf(records - known @ coefficients, np.zeros(P), covariance))


def test_the_update_is_the_textbooks(rng):
    model, records, known = proper(rng), measured(rng, 20), covariates(rng, 20)
    found = model.update(records, known)
    mean, weight, df, scale = literally_updated(model, records, known)
    np.testing.assert_allclose(found.coefficients, mean, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.root.T @ found.root, weight, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.scale, scale, rtol=1e-9)
    assert found.df == df


def test_one_by_one_is_all_at_once_and_the_evidence_is_the_product_of_predictives(rng):
    model, records, known = proper(rng), measured(rng, 12), covariates(rng, 12)
    total, turn = 0.0, model
    for record, each in zip(records, known, strict=True):
        total += float(turn.predictive(each).log_density(record))
        turn = turn.update(record[None], each[None])
    whole = model.update(records, known)
    np.testing.assert_allclose(turn.scale, whole.scale, rtol=1e-10)
    np.testing.assert_allclose(turn.coefficients, whole.coefficients, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(total, model.log_evidence(records, known), rtol=1e-10)


def test_prior_times_likelihood_is_posterior_times_evidence(rng):
    """At any (B, Σ): the one identity that fixes update and evidence, by SciPy's densities."""
    model, records, known = proper(rng), measured(rng, 9), covariates(rng, 9)
    after, evidence = model.update(records, known), model.log_evidence(records, known)
    for _ in range(3):
        at = rng.standard_normal((R, P)), positive_definite(rng, P)
        left = log_prior(model, *at) + log_likelihood(records, known, *at)
        np.testing.assert_allclose(left, log_prior(after, *at) + evidence, rtol=1e-10)


def test_the_normal_model_is_the_case_of_one_constant_covariate(rng):
    prior, records, ones = abo.NIW(np.ones(P), 0.7, P + 1.5, positive_definite(rng, P)), measured(rng, 15), [1.0]
    regression = of_normal(prior)
    ours, theirs = regression.update(records, np.ones((15, 1))).at(ones), prior.update(records)
    for field in ("mean", "mean_weight", "df", "scale"):
        np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), rtol=1e-12)
    np.testing.assert_allclose(
        regression.log_evidence(records, np.ones((15, 1))), prior.log_evidence(records), rtol=1e-12
    )
    for prior in (flat(1), flat_intercept(1), of_normal(abo.NIW.flat(P))):
        ours, theirs = prior.update(records, np.ones((15, 1))).at(ones), abo.NIW.flat(P).update(records)
        for field in ("mean", "mean_weight", "df", "scale"):
            np.testing.assert_allclose(getattr(ours, field), getattr(theirs, field), rtol=1e-12)


def test_the_flat_prior_is_least_squares(rng):
    records, known = measured(rng, 30), covariates(rng, 30, 3)
    found = flat(3).update(records, known)
    squares, _, _, _ = np.linalg.lstsq(known, records, rcond=None)
    np.testing.assert_allclose(found.coefficients, squares, rtol=1e-9, atol=1e-11)
    left = records - known @ squares
    np.testing.assert_allclose(found.scale, left.T @ left, rtol=1e-10)
    assert found.df == 27


def test_large_means_cost_no_digits(rng):
    """Columns at 10⁸ with unit spread: the raw second moments of the textbook would leave nothing."""
    records, known = measured(rng, 25), covariates(rng, 25)
    near, far = (flat(R).update(records + shift, known) for shift in (0.0, 1e8))
    np.testing.assert_allclose(far.scale, near.scale, rtol=1e-6, atol=1e-6 * np.abs(near.scale).max())


def test_a_level_that_one_person_has_still_has_a_predictive(rng):
    records, known = measured(rng, 12), np.column_stack([np.ones(12), np.zeros(12)])
    found = flat_intercept(2).update(records, known)
    far, near = found.at([1.0, 1.0]), found.at([1.0, 0.0])
    assert 1 / far.mean_weight == pytest.approx(1 + 1 / near.mean_weight)  # N(0, Σ) on top
    with pytest.raises(abo.InputError, match="do not tell the covariates' effects apart"):
        flat(2).update(records, known)
    with pytest.raises(abo.InputError, match="predicts nothing"):
        flat(2).at([1.0, 0.0])
    with pytest.raises(abo.InputError, match="predicts nothing"):
        flat_intercept(2).log_evidence(records, known)
    with pytest.raises(abo.InputError, match="covariates \\(n, 2\\)"):
        found.update(records, known[:, :1])
    with pytest.raises(abo.InputError, match="2 values"):
        found.at([1.0])


def test_draws_have_the_moments_of_their_distribution(rng):
    model, count = proper(rng).update(measured(rng, 20), covariates(rng, 20)), 20_000
    coefficients, covariances = model.draw(rng, count)
    expected = model.scale / (model.df - P - 1)
    off = covariances.mean(axis=0) - expected
    assert np.all(np.abs(off) < 5 * covariances.std(axis=0) / np.sqrt(count))
    away = (coefficients - model.coefficients).reshape(count, -1)
    assert np.all(np.abs(away.mean(axis=0)) < 5 * away.std(axis=0) / np.sqrt(count))
    products = away[:, :, None] * away[:, None, :]
    kron = np.kron(np.linalg.inv(model.root.T @ model.root), expected)
    assert np.all(np.abs(products.mean(axis=0) - kron) < 5 * products.std(axis=0) / np.sqrt(count))


# the attack


def releases(rng, model, known, draws, datasets):
    parameters = list(zip(*model.draw(rng, draws), strict=True)) if draws else []
    drawn = []
    for coefficients, covariance in zip(*model.draw(rng, datasets), strict=True) if datasets else ():
        noise = rng.multivariate_normal(np.zeros(P), covariance, len(known))
        drawn.append((known @ coefficients + noise, known))
    return parameters, drawn


def log_posterior_given(others, z, datasets=(), parameters=()):
    """The log posterior of a missing record with covariates z, at which a regression is an NIW."""
    z = np.atleast_2d(z)
    before = others.at(z)
    precision, pull = np.zeros((1, others.p, others.p)), np.zeros((1, others.p))
    for coefficients, covariance in parameters:
        half = before.root[0].T @ np.linalg.inv(covariance)
        precision, pull = precision + half @ before.root[0], pull + (z @ coefficients - before.mean) @ half.T
    terms = [(others.update(*each).at(z), 1) for each in datasets]
    power = 1 - len(terms) - len(parameters)
    return from_terms(before, power, terms, (precision, pull, np.zeros(1)))[0].take(0)


@pytest.mark.parametrize(("draws", "datasets"), [(3, 0), (0, 3), (2, 2), (1, 0), (0, 1)])
def test_the_attack_is_bayes_rule_by_brute_force(draws, datasets, rng):
    prior, records, known = proper(rng), measured(rng, 15), covariates(rng, 15)
    others, z = prior.update(records[1:], known[1:]), known[0]
    parameters, drawn = releases(rng, prior.update(records, known), known, draws, datasets)
    found = log_posterior_given(others, z, datasets=drawn, parameters=parameters)
    candidates = records[0] * np.linspace(-2, 2, 7)[:, None] + records[:7]
    literal = []
    for candidate in candidates:
        model = others.update(candidate[None], z[None])
        total = float(others.predictive(z).log_density(candidate))
        total += sum(log_prior(model, *each) for each in parameters)
        literal.append(total + sum(model.log_evidence(*each) for each in drawn))
    ours = found.log_density_unnormalized(candidates)
    np.testing.assert_allclose(ours - ours[0], np.array(literal) - literal[0], rtol=1e-10, atol=1e-9)


def test_with_one_constant_covariate_it_is_the_usual_attack(rng):
    records, prior, one = measured(rng, 20), abo.NIW.default(P), np.ones((20, 1))
    release = abo.Release.draw(prior.update(records), [20] * 4, rng)
    usual = log_posterior(records[1:], release, prior=prior)
    others = of_normal(prior).update(records[1:], one[1:])
    ours = log_posterior_given(others, [1.0], datasets=[(data, one) for data in release.values])
    values = [each.log_density_unnormalized(records) for each in (ours, usual)]
    np.testing.assert_allclose(values[0], values[1], rtol=1e-10)
    np.testing.assert_allclose(
        *(each.unwhiten(find_modes(each).best) for each in (ours, usual)), rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize(("draws", "datasets"), [(2, 0), (0, 2)])
def test_who_knows_the_covariates_is_calibrated(draws, datasets, rng):
    prior, levels, hits = proper(rng), np.array([0.5, 0.8, 0.95]), []
    for _ in range(150):
        records, known = measured(rng, 10), covariates(rng, 11)
        others, z = prior.update(records, known[1:]), known[0]
        record = others.predictive(z).draw(rng, 1)
        parameters, drawn = releases(rng, others.update(record, z[None]), known, draws, datasets)
        found = log_posterior_given(others, z, datasets=drawn, parameters=parameters)
        posterior = Posterior(**{field.name: getattr(found, field.name) for field in fields(found)})
        sample = posterior.importance_sample(rng, 1 << 10)
        higher = sample.log_values > posterior.log_density_unnormalized(record[0])
        hits.append(np.sum(sample.weights[higher]) <= levels)
    share = np.mean(hits, axis=0)
    assert np.all(np.abs(share - levels) < 3.5 * np.sqrt(levels * (1 - levels) / len(hits))), share
