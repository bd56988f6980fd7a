"""Somebody a hundred or a thousand standard deviations out: probabilities against formulas written out here."""

import numpy as np
import pytest
from scipy.stats import multivariate_t, norm
from scipy.stats import t as student

import allbutone as abo
from allbutone.adversary.integrate import Intervals, integrate
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points
from allbutone.disclosure.measures import Effort, measure
from allbutone.disclosure.rule import near_truth
from allbutone.releases.release import Release

FIRST = np.array([0])


def with_somebody_out(rng, people, far, p=1):
    """A table whose first person stands so many deviations out."""
    values = rng.standard_normal((people, p)) @ np.linalg.cholesky(0.7 * np.eye(p) + 0.3)
    values[0] += far
    return values


def released(rng, values, kind, count, rows):
    model = abo.NIW.flat(values.shape[1]).update(values)
    if kind == "parameters":
        return Release.draw_parameters(model, count, rng)
    return Release.draw(model, [rows] * count, rng)


def known_of_the_first(values, release):
    """What `risk` says of the first person, and the interval it speaks of."""
    near = near_truth(abo.Records(values, tuple("xyz"[: values.shape[1]]))).take(FIRST)
    everyone = LeaveOneOut.of(values, release, abo.NIW.flat(values.shape[1]), None, "record")
    return measure(everyone.problem(FIRST, ()), values[:1], Effort(size=512), near=near), near


def log_predictive(values, x):
    """The next value of a column with a flat prior: Student's t with n − 1 degrees of freedom."""
    n = len(values)
    return student.logpdf(x, n - 1, np.mean(values), np.std(values, ddof=1) * np.sqrt(1 + 1 / n))


def by_quadrature(values, release, low, high):
    """The probability between two ends under Π p(x | others, release j)/p(x | others)^(m − 1)."""
    others = values[1:, 0]
    edges = np.mean(others) + np.std(others) * np.sinh(np.linspace(-18, 18, 4001))
    edges = np.unique(np.append(edges, [low, high]))
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(edges)[:, None] / 2
    x = edges[:-1, None] + half + half * nodes
    if release.parameters is not None:
        pairs = zip(release.normal.means[:, 0], release.normal.covariances[:, 0, 0], strict=True)
        opinions = [norm.logpdf(x, mean, np.sqrt(variance)) for mean, variance in pairs]
    else:
        opinions = [log_predictive(np.append(others, data[:, 0]), x) for data in release.values]
    height = sum(opinions) - (len(opinions) - 1) * log_predictive(others, x)
    mass = np.sum(np.exp(height - height.max()) * half * weights, axis=1)
    inside = (edges[:-1] >= low) & (edges[1:] <= high)
    return mass[inside].sum() / mass.sum()


def test_after_one_draw_the_probability_is_that_of_the_released_normal(rng):
    values = with_somebody_out(rng, 10, 100.0, p=2)
    release = released(rng, values, "parameters", 1, None)
    found, near = known_of_the_first(values, release)
    spread = np.sqrt(np.diagonal(release.normal.covariances[0]))
    below, above = ((end[0] - release.normal.means[0]) / spread for end in (near.low, near.high))
    np.testing.assert_allclose(found.probability[0], norm.sf(below) - norm.sf(above), rtol=1e-9, atol=1e-12)
    assert np.all(found.probability_error == 0)


def test_after_one_dataset_the_probability_is_that_of_a_student_t(rng):
    values = with_somebody_out(rng, 10, 100.0, p=2)
    release = released(rng, values, "datasets", 1, 7)
    found, near = known_of_the_first(values, release)
    both = np.vstack([values[1:], release.values[0]])
    freedom = len(both) - 2
    scatter = np.diagonal((both - both.mean(axis=0)).T @ (both - both.mean(axis=0)))
    spread = np.sqrt(scatter * (1 + 1 / len(both)) / freedom)
    below, above = ((end[0] - both.mean(axis=0)) / spread for end in (near.low, near.high))
    exact = student.sf(below, freedom) - student.sf(above, freedom)
    np.testing.assert_allclose(found.probability[0], exact, rtol=1e-9, atol=1e-12)
    assert np.all(found.probability_error == 0)


@pytest.mark.parametrize("people", [4, 10, 150])
@pytest.mark.parametrize("kind", ["parameters", "datasets"])
def test_after_several_releases_the_probability_is_that_of_quadrature(rng, people, kind):
    off, error = [], []
    for far in (100.0, 250.0, 1000.0):
        for count, rows in ((2, 5), (2, 10 * people), (5, people)):
            values = with_somebody_out(rng, people, far)
            release = released(rng, values, kind, count, rows)
            found, near = known_of_the_first(values, release)
            off.append(found.probability[0, 0] - by_quadrature(values, release, near.low[0, 0], near.high[0, 0]))
            error.append(found.probability_error[0, 0])
    # four replicates: Student's t with three degrees of freedom
    assert np.all(np.abs(off) < 8 * np.array(error))
    assert np.sqrt(np.mean((np.array(off) / error) ** 2)) < 2.5
    assert np.max(np.abs(off)) < 0.02


@pytest.mark.parametrize("people", [4, 6])  # p + 2 is the fewest that leave the others a distribution
def test_of_two_columns_the_probability_is_that_of_brute_force(rng, people):
    """Candidates drawn from each dataset's own opinion, weighed by all of them together."""

    def predictive(values):
        n, centred = len(values), values - values.mean(axis=0)
        freedom = n - 2
        return multivariate_t(values.mean(axis=0), centred.T @ centred * (1 + 1 / n) / freedom, freedom)

    for far in (100.0, 400.0):
        values = with_somebody_out(rng, people, far, p=2)
        release = released(rng, values, "datasets", 3, people)
        found, near = known_of_the_first(values, release)
        opinions = [predictive(np.vstack([values[1:], data])) for data in release.values]
        drawn = np.concatenate([each.rvs(30_000, random_state=rng) for each in opinions])
        heights = np.array([each.logpdf(drawn) for each in opinions])
        logs = heights.sum(axis=0) - 2 * predictive(values[1:]).logpdf(drawn) - np.logaddexp.reduce(heights)
        weights = np.exp(logs - logs.max())
        inside = (drawn >= near.low) & (drawn <= near.high)
        share = weights @ inside / weights.sum()
        error = np.sqrt(np.sum((weights[:, None] * (inside - share)) ** 2, axis=0)) / weights.sum()
        off = np.abs(found.probability[0] - share)
        assert np.all(off < 8 * np.hypot(error, found.probability_error[0]))
        assert np.max(off) < 0.03


def test_an_interval_that_no_point_meets_has_an_error_of_a_points_worth(rng):
    values = with_somebody_out(rng, 30, 5.0)
    release = released(rng, values, "datasets", 4, 30)
    problem = LeaveOneOut.of(values, release, abo.NIW.flat(1), None, "record").problem(FIRST, ())
    far = Intervals(np.array([[1e6]]), np.array([[1e6 + 1]]))
    found = integrate(problem, find_modes(problem), None, Points(), 256, 4, far)
    assert found.within[0, 0] < 1e-9
    assert 1 / (4 * 2 * 256) < found.within_error[0, 0] < 0.02
