"""All but one value: the posterior of a value when all others of its record are known, by literal formulas."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import multivariate_t
from scipy.stats import t as student

import allbutone as abo
from allbutone.adversary.averaged import StudentMixture
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.one_value import Nearness, along_axes, mixture_along_axes, value_beliefs
from allbutone.releases.release import Release
from clinic import clinic
from paper import score_datasets, score_parameters


def attacked(values, release, prior):
    return LeaveOneOut.of(values, release, prior, None, "record").problem(np.arange(len(values)), ())


def around(values, width=0.4):
    """An interval that was declared."""
    return Nearness(Intervals(values - width, values + 1.5 * width), np.zeros(values.shape[1], dtype=bool))


def share_inside(log_density, truth, low, high):
    """The probability of an interval by adaptive quadrature, piece by piece."""
    top = max(log_density(each) for each in np.linspace(truth - 8, truth + 8, 65))
    edges = [truth - 80, truth - 8, low, truth, high, truth + 8, truth + 80]
    pieces = [
        quad(lambda x: np.exp(log_density(x) - top), start, end, epsabs=1e-9)[0] for start, end in pairwise(edges)
    ]
    return (pieces[2] + pieces[3]) / sum(pieces)


@pytest.mark.parametrize("kind", ["datasets", "parameters"])
def test_it_is_the_paper_s_posterior_along_the_axis_of_the_value(rng, kind):
    values = rng.standard_normal((14, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    values[3] += 6
    prior = abo.NIW.default(2)
    post = prior.update(values)
    drawn = Release.draw_parameters(post, 3, rng)
    release = Release.draw(post, [20, 20, 35], rng) if kind == "datasets" else drawn
    near = around(values).least
    found = value_beliefs(attacked(values, release, prior), values, around(values)).probability
    literal = (prior.mean, prior.mean_weight, prior.df, prior.scale)
    for row, column in ((3, 0), (7, 1)):
        others, interval = np.delete(values, row, axis=0), (near.low[row, column], near.high[row, column])

        def log_density(x, others=others, row=row, column=column):
            point = values[row].copy()
            point[column] = x
            if kind == "datasets":
                return score_datasets(point, others, release.values, literal) / 2
            return score_parameters(point, others, drawn.normal.means, drawn.normal.covariances, literal) / 2

        expected = share_inside(log_density, values[row, column], *interval)
        assert found[row, column] == pytest.approx(expected, abs=1e-6)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 6), st.integers(0, 5), st.integers(0, 2**32 - 1))
def test_after_one_dataset_it_is_a_conditional_student_t(p, row, seed):
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((p + 12, p)) * rng.uniform(0.1, 10, p)
    values[row] += rng.uniform(-9, 9, p)
    prior = abo.NIW.flat(p)
    release = Release.draw(prior.update(values), [int(rng.integers(5, 60))], rng)
    nearness = around(values, np.std(values, axis=0) / 3)
    found, near = value_beliefs(attacked(values, release, prior), values, nearness), nearness.least
    others = np.delete(values, row, axis=0)
    for known, ours in (
        (others, found.baseline),
        (np.concatenate([others, release.values[0]]), found.probability),
    ):
        n, mean = len(known), known.mean(axis=0)
        scatter = (known - mean).T @ (known - mean)
        df = n - p  # of the predictive: ν − p + 1 with ν = n − 1
        scale = scatter * (n + 1) / (n * df)
        inverse = np.linalg.inv(scale)
        away = values[row] - mean
        bent = inverse @ away
        for column in range(p):
            own = inverse[column, column]
            rest = away @ bent - bent[column] ** 2 / own
            spread = np.sqrt((df + rest) / (df + p - 1) / own)
            line = student(df + p - 1, values[row, column] - bent[column] / own, spread)
            expected = line.cdf(near.high[row, column]) - line.cdf(near.low[row, column])
            assert ours[row, column] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("count", [2, 9])
def test_it_is_the_family_s_own_conditional(rng, count):
    """Fixing all other features by `given` leads to the same posterior, up to a constant."""
    values = rng.standard_normal((30, 4))
    values[0] += 5
    prior = abo.NIW.flat(4)
    release = Release.draw(prior.update(values), [25] * (count - 1) + [60], rng)
    problem = attacked(values, release, prior)
    lines = along_axes(problem, values)
    for column in range(4):
        known = tuple(place for place in range(4) if place != column)
        alone = problem.given(known, values[:, known])
        here = np.arange(30) * 4 + column
        points = values[:, None, column] + np.linspace(-3, 3, 7)
        theirs = np.stack([alone.log_density_unnormalized(each[:, None]) for each in points.T])
        ours = np.stack([lines.take(here).log_density_unnormalized(each[:, None]) for each in points.T])
        np.testing.assert_allclose(ours - ours[3], theirs - theirs[3], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("normal", [False, True])
def test_mixtures_along_axes_are_their_conditionals(rng, normal):
    t, parts, p = 3, 4, 3
    roots = rng.standard_normal((t, parts, p, p))
    mixture = StudentMixture.of(
        np.log(rng.dirichlet(np.ones(parts), t)),
        rng.standard_normal((t, parts, p)),
        roots @ roots.swapaxes(-1, -2) + 0.1 * np.eye(p),
        np.full((t, parts), np.inf) if normal else rng.uniform(2, 30, (t, parts)),
    )
    truth = rng.standard_normal((t, p))
    lines = mixture_along_axes(mixture, truth)
    for column in range(p):
        known = np.array([place for place in range(p) if place != column])
        given_rest = mixture.given(known, truth[:, known])
        for name in ("log_weights", "locations", "precisions", "dfs", "heights"):
            ours = getattr(lines, name)[np.arange(t) * p + column]
            np.testing.assert_allclose(ours, getattr(given_rest, name), rtol=1e-9, atol=1e-9)


def test_without_a_declared_tolerance_it_reaches_half_way_to_what_the_rest_lets_expect(rng):
    values = rng.standard_normal((40, 2)) @ np.array([[1.0, 0.9], [0.0, 0.3]])
    values[0] = [2.0, -3.0]
    prior = abo.NIW.flat(2)
    release = Release.draw(prior.update(values), [40], rng)
    least = Intervals(values - 0.1, values + 0.1)
    found = value_beliefs(attacked(values, release, prior), values, Nearness(least, np.array([True, False])))
    slope, intercept = np.polyfit(values[1:, 1], values[1:, 0], 1)
    assert found.expected[0, 0] == pytest.approx(intercept + slope * values[0, 1])
    half = abs(values[0, 0] - found.expected[0, 0]) / 2
    assert found.near.low[0, 0] == pytest.approx(values[0, 0] - half)
    np.testing.assert_allclose(found.near.high[:, 1], values[:, 1] + 0.1)


@pytest.mark.parametrize("missing", ["refuse", "impute"])
def test_each_value_is_judged_as_against_who_is_said_to_know_the_rest(rng, missing):
    """Of measurements, categories and gaps: the same as an adversary of whom that is said, one value at a time."""
    people = pd.DataFrame(clinic(rng, 36)).drop(columns=["treated", "arm"])
    schema = abo.Schema.of({"columns": {"age": {"tolerance": 4.0}, "bili": {"tolerance": 0.5}}})
    if missing == "impute":
        people.loc[3, "bili"] = None
    release = (
        abo.Synthesizer(missing=missing, schema=schema).fit(people).sample(datasets=2, rows=36, rng_for_tests=rng)
    )
    found = abo.risk(people, release, mass=False, rng=np.random.default_rng(1))
    for name in people.columns:
        rest = abo.Adversary(known=[each for each in people.columns if each != name])
        alone = abo.risk(people, release, rest, mass=False, rng=np.random.default_rng(1))
        for kind in ("probability_", "baseline_"):
            ours, theirs = found["rest_known_" + kind + name], alone[kind + name]
            error = np.hypot(alone["probability_error_" + name], found["rest_known_probability_error_" + name])
            error = np.maximum(error, np.nanmedian(error))  # of four replicates it is rough
            assert np.all((np.abs(ours - theirs) <= 5 * error + 1e-9) | (np.isnan(ours) & np.isnan(theirs)))


@pytest.mark.usefixtures("seeded_noise")
def test_after_noisy_moments_it_is_the_density_of_the_noise_along_the_axis(rng):
    """The others' conditional Student t times the normal density of what the noise must have been."""
    values = rng.standard_normal((60, 2))
    values[5] = [2.5, -2.0]
    limits = {name: {"low": -4.0, "high": 4.0, "tolerance": 0.5} for name in ("a", "b")}
    table = pd.DataFrame(values, columns=["a", "b"])
    release = abo.Synthesizer(schema={"columns": limits}, epsilon=9.0).fit(table).sample(datasets=1)
    found = abo.risk(table, release)
    noisy = release.noisy
    ball, others = noisy.ball, np.delete(values, 5, axis=0)

    def told(x):
        return np.append(ball.shrunk((np.clip(x, -4, 4) - ball.centre) / ball.unit), ball.eta)

    left = noisy.matrix - sum(np.outer(told(x), told(x)) for x in others)
    n, mean = len(others), others.mean(axis=0)
    scatter = (others - mean).T @ (others - mean)
    predictive = multivariate_t(mean, scatter * (n + 1) / (n * (n - 2)), n - 2)
    grid = values[5, 0] + np.linspace(-12, 12, 4801)
    logs = np.empty(len(grid))
    for place, x in enumerate(grid):
        point = np.array([x, values[5, 1]])
        off = left - np.outer(told(point), told(point))
        logs[place] = predictive.logpdf(point) - np.sum(off**2) / (2 * noisy.noise**2)
    weights = np.exp(logs - logs.max())
    inside = np.abs(grid - values[5, 0]) <= 0.5
    expected = np.sum(weights[inside]) / np.sum(weights)
    assert float(found["rest_known_probability_a"][5]) == pytest.approx(expected, abs=0.003)
