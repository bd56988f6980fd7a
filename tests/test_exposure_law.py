"""The exposure law, its exact distribution by leverage, and the theorem behind both."""

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

import allbutone as abo
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.measures import measure
from allbutone.disclosure.simulation import quantiles, simulate
from cases import cases, positive_definite


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


@pytest.mark.parametrize("rows", [None, 60])
def test_quantiles_of_every_record_are_those_of_its_leverage(rows, rng):
    """The look-up on a grid against a simulation at the record's own leverage, the threshold included."""
    setting = ExposureLaw.of(abo.NIW.default(3), 120, rows)
    count = 6
    threshold = setting.ratio / (count - 1)
    leverage = threshold * np.array([0.2, 0.55, 1.0, 1.7, 5.0])
    exposure, error = quantiles(setting, leverage, count, (0.1, 0.5, 0.9), 1000)
    for place, q in enumerate(leverage):
        found = simulate(setting, np.array([q]), count, 1000, rng)
        for level, ours, theirs in zip((0.1, 0.5, 0.9), exposure[:, place], error[:, place], strict=True):
            # a quantile's Monte Carlo interval, in both simulations: ranks 5·√2 standard errors away
            half = 5 * np.sqrt(2 * level * (1 - level) / 1000) + 0.01
            for value, values in ((ours, found.exposure[0]), (theirs, found.relative_error[0])):
                low, high = np.quantile(values, np.clip([level - half, level + half], 0, 1))
                assert low - 1e-3 <= value <= high + 1e-3


@pytest.mark.parametrize(
    ("people", "p", "q", "count", "rows", "at"),
    [
        (500, 5, 1.0, 5, 500, 0.58),
        (500, 30, 0.3, 12, 500, 0.62),
        (500, 50, 1.0, 2, None, 0.3),
        (300, 3, 2.0, 4, 100, 0.6),
    ],
)
def test_the_chance_to_pass_is_near_that_of_simulated_releases(rng, people, p, q, count, rows, at):
    law = ExposureLaw.of(abo.NIW.flat(p), people, rows)
    found = np.abs(simulate(law, np.array([q]), count, 400, rng).exposure[0])
    for level in (at - 0.05, at, at + 0.05):
        share = np.mean(found > level)
        # the closed form is one of large samples: within 0.1 beyond the simulation's noise
        assert abs(law.chance_to_pass(q, count, level) - share) < 0.1 + 3 * np.sqrt(0.25 / 400)


def test_a_record_that_cannot_be_pointed_at_has_no_chance_to_pass():
    law = ExposureLaw.of(abo.NIW.flat(30), 500, None)
    assert law.chance_to_pass(0.05, 3, 0.5) == 0
    assert law.chance_to_pass(5.0, 1000, 0.5) > 0.999
