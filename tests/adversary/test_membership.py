"""Membership: the likelihood ratio of a release with and without a person, by literal formulas and simulation."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import allbutone as abo
from allbutone.adversary.membership import evidence_of_measurements
from allbutone.releases.release import Release
from clinic import clinic
from paper import log_evidence, log_niw, posterior


def literal(prior):
    return prior.mean, prior.mean_weight, prior.df, prior.scale


@pytest.mark.parametrize("p", [1, 2])
def test_it_is_the_ratio_of_the_release_s_own_densities(rng, p):
    """log p(Z | X) − log p(Z | X₋), the evidence of each dataset under the posterior of either table."""
    values, prior = rng.standard_normal((9, p)), abo.NIW.default(p)
    values[4] += 4
    release = Release.draw(prior.update(values), [7, 7, 20], rng, prior=prior)
    found = abo.risk(values, release)["membership_evidence"]
    for row in (0, 4):
        others = np.delete(values, row, axis=0)
        expected = sum(
            log_evidence(each, *posterior(values, *literal(prior)))
            - log_evidence(each, *posterior(others, *literal(prior)))
            for each in release.values
        )
        assert float(found[row]) == pytest.approx(expected, abs=1e-8)


def test_by_quadrature_over_the_parameters(rng):
    """At p = 1, where a dataset's density is an integral over mean and variance that can be done on a grid."""
    values, prior = np.append(rng.standard_normal(7), 3.0)[:, None], abo.NIW.default(1)
    release = Release.draw(prior.update(values), [5], rng, prior=prior)
    (dataset,) = release.values
    means, logs = np.linspace(-8, 8, 1601), np.linspace(-5, 6, 1601)
    variance = np.exp(logs)
    points = norm.logpdf(dataset[:, 0, None, None], means[:, None], np.sqrt(variance)).sum(axis=0)

    def log_density(records):
        model = posterior(records, *literal(prior))
        weight = [[log_niw(np.array([0.0]), np.array([[one]]), *model)] for one in variance]
        centre = -0.5 * model[1] * ((means[:, None] - model[0]) ** 2 - model[0] ** 2) / variance  # off the mean 0
        return np.log(np.sum(np.exp(points + centre + np.array(weight).T + logs)))

    expected = log_density(values) - log_density(values[:-1])
    assert float(abo.risk(values, release)["membership_evidence"][-1]) == pytest.approx(expected, abs=1e-6)


def test_by_quadrature_over_covariances_in_two_columns(rng):
    """At p = 2: over Σ = LLᵀ, L = [[eᵃ, 0], [t·eᵇ, eᵇ]], by the trapezoid rule; the mean by Gauss's convolution.

    Neither the inverse-Wishart's constant nor a Student t is used: both integrals are on the same grid.
    """
    values, prior = np.vstack([rng.standard_normal((8, 2)), [2.5, -2.0]]), abo.NIW.default(2)
    release = Release.draw(prior.update(values), [6], rng, prior=prior)
    (dataset,) = release.values
    a, b, t = np.meshgrid(np.linspace(-3, 4, 90), np.linspace(-3, 4, 90), np.linspace(-9, 9, 181), indexing="ij")

    def squared(scatter):
        """Return tr(Σ⁻¹S): L⁻¹ has the rows (e⁻ᵃ, 0) and (−t·e⁻ᵃ, e⁻ᵇ)."""
        first, cross, second = scatter[0, 0] * np.exp(-2 * a), scatter[0, 1] * np.exp(-a - b), scatter[1, 1]
        return first * (1 + t**2) - 2 * t * cross + second * np.exp(-2 * b)

    def log_density(records):
        mean, kappa, df, scale = posterior(records, *literal(prior))
        n, middle = len(dataset), dataset.mean(axis=0)
        model = -(df + 3) * (a + b) - 0.5 * squared(scale) + 3 * a + 3 * b  # dΣ = 4·e³ᵃ⁺³ᵇ da db dt
        apart, within = middle - mean, dataset - middle
        scatter = within.T @ within + kappa * n / (kappa + n) * np.outer(apart, apart)
        data = -n * (a + b) - 0.5 * squared(scatter) + np.log(kappa / (kappa + n))
        return np.log(np.sum(np.exp(model + data))) - np.log(np.sum(np.exp(model)))

    expected = log_density(values) - log_density(values[:-1])
    assert float(abo.risk(values, release)["membership_evidence"][-1]) == pytest.approx(expected, abs=1e-6)


def test_parameters_tell_it_by_their_own_density(rng):
    values, prior = rng.standard_normal((12, 2)), abo.NIW.default(2)
    release = Release.draw_parameters(prior.update(values), 3, rng, prior=prior)
    found = abo.risk(values, release)["membership_evidence"]
    drawn = release.normal
    for row in (0, 5):
        models = [posterior(each, *literal(prior)) for each in (values, np.delete(values, row, axis=0))]
        with_it, without = (
            sum(log_niw(mu, sigma, *model) for mu, sigma in zip(drawn.means, drawn.covariances, strict=True))
            for model in models
        )
        assert float(found[row]) == pytest.approx(with_it - without, abs=1e-8)


def test_a_category_that_everybody_shares_says_nothing(rng):
    """The road for categories, and that for gaps, tell what the closed form of measurements does."""
    people = pd.DataFrame(clinic(rng, 36))[["age", "bili"]]
    release = abo.Synthesizer().fit(people).sample(datasets=2, rows=36)
    usual = abo.risk(people, release, mass=False)["membership_evidence"]
    own = abo.risk(people, release, abo.Adversary(prior=release.prior), mass=False)["membership_evidence"]
    np.testing.assert_allclose(own, usual, atol=1e-8)


def test_it_is_calibrated_from_even_odds(rng):
    """Of people who are in every second table, those of whom 70 % is stated are in 70 % of the tables."""
    stated, truth, prior = [], [], abo.NIW.default(2)
    for _ in range(600):
        values = rng.standard_normal((8, 2))
        person = 2.5 * rng.standard_normal(2)
        member = bool(rng.integers(2))
        table = np.vstack([values, person]) if member else values
        release = Release.draw(prior.update(table), [10, 10], rng)
        # who attacks has the others and the person's record, and not whether it is in the table
        evidence = evidence_of_measurements(prior, np.vstack([values, person]), release.values)[-1]
        stated.append(1 / (1 + np.exp(-evidence)))
        truth.append(member)
    stated, truth = np.array(stated), np.array(truth)
    for low, high in ((0.0, 0.35), (0.35, 0.65), (0.65, 1.0)):
        here = (stated >= low) & (stated < high)
        error = np.sqrt(np.sum(stated[here] * (1 - stated[here]))) / max(np.sum(here), 1)
        assert abs(np.mean(truth[here]) - np.mean(stated[here])) < 4 * error + 1e-9
    assert np.sum(stated > 0.65) > 50


@pytest.mark.parametrize(
    ("how", "replicates"),
    [({}, 200), ({"missing": "impute"}, 200), ({"model": "classes", "classes": 2}, 60)],
    ids=["categories", "gaps", "classes"],
)
def test_it_is_calibrated_for_every_kind_of_table(rng, how, replicates):
    """Of one person who is in every second table: 70 % is stated as often as they are in 70 % of these."""
    table = pd.DataFrame(rng.standard_normal((16, 2)), columns=["x", "y"])
    table.loc[15] = 2.4, -1.8
    if "missing" in how:
        table.loc[[2, 5, 9], "x"] = np.nan
    else:
        table["group"] = rng.choice(["a", "b"], 16)
    members = rng.integers(2, size=replicates).astype(bool)
    stated = np.empty(replicates)
    for each, member in enumerate(members):
        synthesizer = abo.Synthesizer(**how).fit(table if member else table[:-1])
        stated[each] = np.asarray(abo.risk(table, synthesizer.sample(datasets=2, rows=12))["membership"])[-1]
    for here in (stated < 0.5, stated >= 0.5):
        error = np.sqrt(np.sum(stated[here] * (1 - stated[here])))
        assert abs(np.sum(members[here] - stated[here])) < 4 * error
    assert np.mean(stated[members]) - np.mean(stated[~members]) > 0.1  # it tells something


def test_more_than_the_stated_probability_counts_as_disclosed(rng):
    values = rng.standard_normal((30, 2))
    values[3] = 9
    release = abo.Synthesizer(prior=abo.NIW.default(2)).fit(values).sample(datasets=3, rows=60)
    found = abo.risk(values, release)
    probability = np.asarray(found["membership"])
    np.testing.assert_allclose(probability, 1 / (1 + np.exp(-np.asarray(found["membership_evidence"]))))
    np.testing.assert_array_equal(np.asarray(found["membership_disclosed"]), probability >= 0.9)
    assert probability[3] >= 0.9
    doubtful = abo.risk(values, release, membership_odds=0.01)
    assert np.all(np.asarray(doubtful["membership"]) <= probability)
    with pytest.raises(abo.InputError, match="between 0 and 1"):
        abo.risk(values, release, membership=1.5)
    with pytest.raises(abo.InputError, match="odds"):
        abo.risk(values, release, membership_odds=0)
