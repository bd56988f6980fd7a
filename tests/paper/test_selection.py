"""What was given out because it passed: stated and true, and the posterior that knows of it."""

import numpy as np
import pytest
from replication.selection import Posteriors, Setting, chances_to_pass, selected

import allbutone as abo
from allbutone.disclosure.risk import risk_columns

SURE = 0.45  # guesses that are stated with at least this


def off(stated, true, least=SURE):
    """Return by how much more is stated than comes true of the sure guesses, in standard errors, and how many."""
    sure = stated >= least
    spread = np.sqrt(np.sum(stated[sure] * (1 - stated[sure])))
    return (np.sum(stated[sure]) - np.sum(true[sure])) / spread, int(np.sum(sure))


@pytest.mark.parametrize("attempts", [1, 5])
def test_guesses_of_what_was_chosen_are_calibrated_only_if_that_is_counted(rng, attempts):
    """One column, on a grid: all that was drawn, what passed, and what passed with the selection counted."""
    setting = Setting(1, 12)
    chances = chances_to_pass(setting, rng, 80) if attempts > 1 else None
    everything = selected(setting, rng, 2000, select=False)
    assert abs(off(everything.stated[0], everything.true[0])[0]) < 4
    chosen = selected(setting, rng, 3000, attempts, chances)
    away, many = off(chosen.stated[0], chosen.true[0])
    assert many > 60
    assert away > 4  # the stated probability is too high by far
    for least in (0.0, SURE):
        assert abs(off(chosen.stated[1], chosen.true[1], least)[0]) < 4


def test_what_values_gain_is_bounded_by_the_probability_that_it_would_have_failed(rng):
    """Each value that would pass gains at most 1/(1 − q) times the ratio of the chances to pass; others vanish."""
    setting = Setting(1, 8)
    chances = chances_to_pass(setting, rng, 100)
    truth = setting.people_at_random(rng, 60)
    for _, found in setting.posteriors(rng, truth):
        corrected = found.given_that_it_passed(1 / chances)
        possible = found.passes & (found.mass > 1e-12)
        ratio = np.where(possible, corrected.mass / np.maximum(found.mass, 1e-300), 0.0)
        highest = np.max(np.where(possible, chances, 0.0), axis=1, keepdims=True)
        bound = highest / chances / (1 - found.would_have_failed[:, None])
        assert np.all(ratio <= bound * (1 + 1e-9))
        assert not np.any(corrected.mass[~found.passes])
        np.testing.assert_allclose(np.sum(corrected.mass, axis=1), 1)


@pytest.mark.parametrize("p", [1, 2])
def test_the_grid_judges_as_risk_does(rng, p):
    """The same releases judged by the package: membership to 1e-8, and the verdict of the person."""
    setting, agree = Setting(p, 3), 0
    n = setting.people - 1
    others = rng.standard_normal((n, p))
    others -= others.mean(axis=0)
    others = others @ np.linalg.inv(np.linalg.cholesky(others.T @ others / (n - 1))).T  # mean 0, covariance I
    for _ in range(6):
        truth = 1.5 * setting.people_at_random(rng, 1)
        step = setting.axis[1] - setting.axis[0]
        truth = np.rint(truth / step) * step  # a point of the grid
        table = np.vstack([truth, others])
        prior = abo.NIW.flat(p)
        release = abo.Release.draw(prior.update(table), [setting.rows] * setting.datasets, rng, prior=prior)
        before = prior.update(others)
        density = sum(
            before.update(each.values).predictive().log_density(setting.grid) - setting.before
            for each in release.datasets
        )
        grid = Posteriors(setting, density[None])
        risks = risk_columns(abo.Records(table, release.columns), release, rows=np.array([0]))
        place = np.rint((truth[0] - setting.axis[0]) / step).astype(int)
        np.testing.assert_allclose(grid.evidence[0, *place], risks["membership_evidence"][0], atol=1e-8)
        fails = bool(risks["disclosed"][0] or risks["membership_disclosed"][0])
        agree += bool(grid.at(truth)[0]) != fails
    assert agree == 6
