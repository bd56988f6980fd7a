"""The exposure law, its exact distribution by leverage, and the theorem behind both."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.proposal import Points
from allbutone.disclosure.epsilon import PrivacyLoss
from allbutone.disclosure.exposure_law import ExposureLaw, lattice, leverages
from allbutone.disclosure.measures import Effort, measure
from allbutone.disclosure.simulation import SimulatedReleases, expected_exposure, simulate
from cases import cases, positive_definite

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))


@given(cases(max_p=6, max_n=40, min_n=2))
def test_leverage_is_its_definition(case):
    prior = abo.NIW(*case.prior)
    records = case.records.copy()
    records[0] += 1e3 * case.records.std(axis=0)
    found = leverages(records, prior)
    for row in range(len(records)):
        crowd = prior.update(np.delete(records, row, axis=0))
        step = records[row] - crowd.mean
        c = crowd.mean_weight / (crowd.mean_weight + 1)
        assert found[row] == pytest.approx(c * step @ np.linalg.solve(crowd.scale, step), rel=1e-6)


@settings(max_examples=30)
@given(cases(max_p=5, max_n=30, min_n=3))
def test_leverage_does_not_change_with_the_columns_scale_or_direction(case):
    p = case.records.shape[1]
    turn = np.linalg.qr(case.rng.standard_normal((p, p)))[0] * 10 ** case.rng.uniform(-2, 2, p)
    moved = abo.NIW(turn @ case.mean + 1, case.mean_weight, case.df, turn @ case.scale @ turn.T)
    ours = leverages(case.records, abo.NIW(*case.prior))
    np.testing.assert_allclose(leverages(case.records @ turn.T + 1, moved), ours, rtol=1e-5)


@pytest.mark.parametrize("rows", [None, 7, 503])
def test_the_law_its_threshold_and_its_inverse_agree(rows):
    setting, leverage = ExposureLaw.of(abo.NIW.default(3), 2000, rows), np.geomspace(0.1, 10, 12)
    threshold = setting.threshold(leverage)
    assert np.all(setting.sizes(leverage, np.maximum(threshold * 0.6, 1), [0.5]) < 0.15)
    assert np.all(setting.sizes(leverage, threshold * 2 + 1, [0.5]) > 0.25)
    for limit in (0.1, 0.5, 0.9):
        most = setting.most(leverage, limit)
        assert np.all(setting.exposure(leverage, most) <= limit)
        assert np.all(setting.exposure(leverage, most + 1) > limit)
    many = ExposureLaw.of(abo.NIW.default(3), 200, 10**9)
    draws = ExposureLaw.of(abo.NIW.default(3), 200, None)
    np.testing.assert_allclose(many.exposure(leverage, 50), draws.exposure(leverage, 50), atol=1e-6)


@pytest.mark.parametrize("rows", [None, 100])
def test_without_noise_the_law_is_that_of_the_averaged_score(rows):
    """q·t² = ((k − 1)·q − r)/(k + r − 1), r = 1 + ν′/n_z: endless records of one column leave no noise."""
    people = 10**8
    law = ExposureLaw.of(abo.NIW.flat(1), people, rows and people // rows)
    leverage, count = np.array([0.3, 1.0, 4.0]), np.array([[2.0], [20.0], [500.0], [40_000.0]])
    travelled = ((count - 1) * leverage - law.ratio) / (count + law.ratio - 1)
    expected = np.sqrt(np.maximum(travelled, 0) / leverage)
    np.testing.assert_allclose(law.exposure(leverage, count), expected, atol=2e-3)


def test_many_records_are_interpolated(rng):
    law = ExposureLaw.of(abo.NIW.flat(4), 3000, 500)
    leverage = rng.chisquare(4, 1000) / 3000 * rng.choice([1, 100], 1000)
    some = slice(0, 1000, 50)
    np.testing.assert_allclose(law.exposure(leverage, 30)[some], law.exposure(leverage[some], 30), atol=0.01)


def attacked(rng, prior, others, target, rows, count, replicates):
    """Relative errors and exposures of real releases of a real table."""
    records = np.vstack([others, target])
    posterior, last = prior.update(records), np.array([len(others)])
    errors, exposures = [], []
    for _ in range(replicates):
        if rows is None:
            release = abo.Release.draw_parameters(posterior, count, rng)
        else:
            release = abo.Release.draw(posterior, [rows] * count, rng)
        problem = LeaveOneOut.of(records, release, prior, None, "record").problem(last, ())
        found = measure(problem, target[None])
        errors.append(found.relative_error[0])
        exposures.append(found.exposure[0])
    return np.array(errors), np.array(exposures)


@pytest.mark.parametrize("rows", [None, 40])
@pytest.mark.parametrize("beyond", [0.5, 1.0, 3.0], ids=["below", "at the threshold", "beyond"])
def test_leverage_is_all_there_is(rows, beyond, rng):
    """Same leverage, other correlations, directions, scales and people: the same distribution as simulated."""
    p, people, count = 3, 60, 4
    prior = abo.NIW.default(p)
    setting = ExposureLaw.of(prior, people, rows)
    leverage = setting.ratio * beyond / (count - 1)
    expected, expected_errors = simulate(setting, leverage, count, 1500, rng)
    for table in ("isotropic", "correlated"):
        others = rng.standard_normal((people - 1, p))
        if table == "correlated":
            others = 100 + others @ np.linalg.cholesky(positive_definite(rng, p, 30.0)).T
        crowd = prior.update(others)
        direction = crowd.root @ rng.standard_normal(p)
        c = crowd.mean_weight / (crowd.mean_weight + 1)
        direction *= np.sqrt(leverage / c / (direction @ np.linalg.solve(crowd.scale, direction)))
        errors, exposures = attacked(rng, prior, others, crowd.mean + direction, rows, count, 150)
        assert stats.ks_2samp(errors, expected_errors).pvalue > 1e-5
        assert stats.ks_2samp(exposures, expected).pvalue > 1e-5


def test_one_draw_exposes_nobody_and_gives_away_26_nats(rng):
    """The paper's own example (p = 2, n = 100): what the distance hides."""
    setting = ExposureLaw.of(abo.NIW.default(2), 100, None)
    problem = SimulatedReleases.of(setting, 1, 800, rng).problem(2.4)
    found = measure(*problem, Effort(Points.of(rng), 128, replicates=2))
    assert setting.exposure(2.4, 1) < 0.05
    assert np.quantile(found.exposure, 0.95) < 0.1
    expected = PrivacyLoss(setting).columns(np.array([2.4]))["gain_of_one"][0]
    error = found.information_gain.std() / np.sqrt(800)
    assert abs(found.information_gain.mean() - expected) < 5 * error + 0.5
    assert 25 < expected < 27


def random_setting(rng, most_columns):
    """A law, a leverage between a third and ten times that of the threshold, and a count: all at random."""
    while True:
        p = round(np.exp(rng.uniform(0, np.log(most_columns))))
        people = int(np.exp(rng.uniform(np.log(max(50, 3 * p)), np.log(5000))))
        rows = None if rng.random() < 0.35 else max(5, int(people * np.exp(rng.uniform(-3, 1.6))))
        count = round(np.exp(rng.uniform(np.log(2), np.log(60))))
        law = ExposureLaw.of(abo.NIW.flat(p), people, rows)
        leverage = law.ratio / (count - 1) * np.exp(rng.uniform(-1.2, 2.3))
        if law.holds(leverage, count) and (rows is None or count * p**2 < 100_000):
            return law, leverage, count


def test_quantiles_of_exposure_are_those_of_simulated_releases(rng):
    """Within 0.03 of the 5, 50 and 95 % points of its size, wherever the closed form says that it holds.

    The simulated quantile has four standard errors, in its level, to be off.
    """
    levels, size = (0.05, 0.5, 0.95), 600
    for _ in range(200 if LONG else 12):
        law, leverage, count = random_setting(rng, 200 if LONG else 40)
        found = np.abs(simulate(law, leverage, count, size, rng)[0])
        here = law.sizes(leverage, count, levels)
        half = 4 * np.sqrt(np.array([0.05, 0.5, 0.05]) * np.array([0.95, 0.5, 0.95]) / size)
        low, high = (np.quantile(found, np.clip(np.array(levels) + side * half, 0, 1)) for side in (-1, 1))
        said = f"{law}, leverage {leverage:.4g}, count {count}: {here} not within {low} to {high}"
        assert np.all((low - 0.03 <= here) & (here <= high + 0.03)), said


@pytest.mark.parametrize("rows", [None, 500])
def test_where_the_records_side_is_all_but_certain_exposure_is_its_size(rows):
    law, levels = ExposureLaw.of(abo.NIW.flat(3), 500, rows), (0.05, 0.5, 0.95)
    assert law.right_mode(4.0, 40) > 0.9999
    np.testing.assert_allclose(law.quantiles(4.0, 40, levels), law.sizes(4.0, 40, levels), atol=1e-3)
    assert law.right_mode(0.5, 8) < 0.95
    assert law.quantiles(0.5, 8, levels)[0] < -0.5  # the mirror image
    assert law.sizes(0.5, 8, levels)[0] > 0.4


@pytest.mark.parametrize(
    ("law", "leverage", "count"),
    [(ExposureLaw(1, 97.0, 96.0, None), 0.077, 33), (ExposureLaw(1, 301.0, 300.0, None), 0.0146, 38)],
)
def test_more_points_do_not_change_the_quantiles_of_exposure(law, leverage, count, monkeypatch):
    """Near the threshold the exposure's tails are long, where few points are."""
    levels = (0.05, 0.5, 0.95)
    here = law.sizes(leverage, count, levels)
    monkeypatch.setattr("allbutone.disclosure.exposure_law.MANY", lattice(10946, 6765))
    np.testing.assert_allclose(here, law.sizes(leverage, count, levels), atol=0.02)


@pytest.mark.parametrize("rows", [None, 200])
def test_more_columns_expose_more_near_the_threshold(rows):
    """A wide table's other columns lift the record's eigenvalue out earlier."""
    narrow, wide = (ExposureLaw.of(abo.NIW.flat(p), 500, rows) for p in (1, 50))
    count = int(narrow.threshold(1.0))
    assert wide.threshold(1.0) < narrow.threshold(1.0)
    assert wide.sizes(1.0, count, [0.5]) > narrow.sizes(1.0, count, [0.5]) + 0.05


def test_a_record_that_cannot_be_pointed_at_is_not_exposed_and_the_law_says_where_it_ends():
    law = ExposureLaw.of(abo.NIW.flat(30), 500, None)
    assert law.quantiles(0.05, 3, [0.95])[0] < 0.15
    assert law.quantiles(5.0, 1000, [0.05])[0] > 0.9
    assert law.holds(1.0, 10)
    assert not law.holds(0.06, 30)
    assert expected_exposure(law, 1.0, 10)[1] == 0
    assert expected_exposure(law, 0.06, 30)[1] == 200
