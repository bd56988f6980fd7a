"""The exposure law, its exact distribution by leverage, and the theorem behind both."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.measures import measure
from allbutone.disclosure.simulation import simulate
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
    setting, leverage = ExposureLaw.of(abo.NIW.default(3), 200, rows), np.geomspace(0.01, 10, 20)
    threshold = setting.threshold(leverage)
    np.testing.assert_allclose(setting.exposure(leverage, threshold), 0, atol=1e-7)
    assert np.all(setting.exposure(leverage, threshold * 1.01) > 0)
    for limit in (0.1, 0.5, 0.9):
        most = setting.most(leverage, limit)
        assert np.all(setting.exposure(leverage, most) <= limit + 1e-9)
        assert np.all(setting.exposure(leverage, most + 1) > limit)
    many = ExposureLaw.of(abo.NIW.default(3), 200, 10**9)
    draws = ExposureLaw.of(abo.NIW.default(3), 200, None)
    np.testing.assert_allclose(many.exposure(leverage, 50), draws.exposure(leverage, 50), atol=1e-4)


@pytest.mark.parametrize("p", [2, 5, 10])
@pytest.mark.parametrize("people", [50, 300, 1000])
@pytest.mark.parametrize("rows", [None, 10, 100, 1000])
def test_the_closed_form_is_the_median_away_from_the_threshold(p, people, rows, rng):
    """Within 5 % of the record's distance, for records that stand out (ten times the average leverage p/n)."""
    setting = ExposureLaw.of(abo.NIW.default(p), people, rows)
    for count in (2, 3, 5, 10, 100):
        for beyond in (0.25, 4.0, 20.0):
            leverage = setting.ratio * beyond / (count - 1)
            if not 10 * p / people <= leverage <= 1e3:
                continue
            found = simulate(setting, np.array([leverage]), count, 150, rng)
            median = np.median(found.relative_error[0])
            error = 1.25 * np.std(found.relative_error[0][found.exposure[0] > 0]) / np.sqrt(150)
            predicted = 1 - float(setting.exposure(leverage, count))
            if found.right_mode[0] > 0.8:  # else the median itself may belong to the mirror image
                assert abs(median - predicted) < 0.05 + 4 * error
            if rows != 10 and beyond > 1:
                chance = float(setting.right_mode(leverage, count))
                assert abs(found.right_mode[0] - chance) < 0.03 + 5 * np.sqrt(chance * (1 - chance) / 150)


def attacked(rng, prior, others, target, rows, count, replicates):
    """Relative errors and exposures of real releases of a real table."""
    records = np.vstack([others, target])
    posterior, last = prior.update(records), np.array([len(others)])
    errors, exposures = [], []
    for _ in range(replicates):
        if rows is None:
            release = abo.ParameterRelease.draw(posterior, count, rng)
        else:
            release = abo.DatasetRelease.draw(posterior, [rows] * count, rng)
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
    expected = simulate(setting, np.array([leverage]), count, 1500, rng)
    for table in ("isotropic", "correlated"):
        others = rng.standard_normal((people - 1, p))
        if table == "correlated":
            others = 100 + others @ np.linalg.cholesky(positive_definite(rng, p, 30.0)).T
        crowd = prior.update(others)
        direction = crowd.root @ rng.standard_normal(p)
        c = crowd.mean_weight / (crowd.mean_weight + 1)
        direction *= np.sqrt(leverage / c / (direction @ np.linalg.solve(crowd.scale, direction)))
        errors, exposures = attacked(rng, prior, others, crowd.mean + direction, rows, count, 150)
        assert stats.ks_2samp(errors, expected.relative_error[0]).pvalue > 1e-5
        assert stats.ks_2samp(exposures, expected.exposure[0]).pvalue > 1e-5


def test_one_draw_exposes_nobody_and_gives_away_26_nats(rng):
    """The paper's own example (p = 2, n = 100): what the distance hides."""
    setting = ExposureLaw.of(abo.NIW.default(2), 100, None)
    found = simulate(setting, np.array([2.4]), 1, 800, rng, gain=True)
    assert setting.exposure(2.4, 1) == 0
    assert np.quantile(found.exposure[0], 0.95) < 0.1
    error = found.information_gain[0].std() / np.sqrt(800)
    assert abs(found.information_gain[0].mean() - setting.gain_of_one_draw(2.4)) < 5 * error + 0.5
    assert 25 < setting.gain_of_one_draw(2.4) < 27


@pytest.mark.parametrize("p", [1, 2, 5, 30, *([10, 50, 100, 200] if LONG else [])])
def test_quantiles_of_exposure_are_those_of_simulated_releases(rng, p):
    """Outside the zone named: not within a tenth of the threshold, and leverage ten times the average or more."""
    for _ in range(25 if LONG else 3):
        people = int(rng.choice([max(200, 5 * p), 1000]))
        rows = [None, people, people // 5, 5 * people][rng.integers(4)]
        law = ExposureLaw.of(abo.NIW.flat(p), people, rows)
        count = int(rng.choice([2, 3, 5, 10, 20]))
        beyond = law.ratio / (count - 1)  # the leverage whose threshold this count is
        q = max(beyond * np.exp(rng.choice([-1, 1]) * rng.uniform(0.3, 1.5)), 10 * p / people)
        if abs(np.log(q / beyond)) < 0.1:
            continue
        found = np.abs(simulate(law, np.array([q]), count, 400, rng).exposure[0])
        for level, expected in zip((0.05, 0.5, 0.95), law.quantiles(q, count, (0.05, 0.5, 0.95)), strict=True):
            half = 4 * np.sqrt(level * (1 - level) / 400)
            low, high = np.quantile(found, np.clip([level - half, level + half], 0, 1))
            # below the threshold the closed form says 0, and noise a little more
            assert low - (0.05 if expected > 0 else 0.15) <= expected <= high + 0.05


def test_a_record_that_cannot_be_pointed_at_is_not_exposed():
    law = ExposureLaw.of(abo.NIW.flat(30), 500, None)
    assert law.quantiles(0.05, 3, [0.95]) == 0
    assert law.quantiles(5.0, 1000, [0.05]) > 0.9
