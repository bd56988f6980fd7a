"""The privacy loss of records of any table: of cells, counts, measurements in them, and where others have gaps."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import betabinom

import allbutone as abo
from allbutone.disclosure.epsilon import ALARMS, PrivacyLoss
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.table_loss import AveragedLoss, CountLoss, RecordLosses
from allbutone.releases.synthesizer import Synthesizer
from allbutone.tables.records import Records

PEOPLE = 30


@pytest.fixture
def people(rng):
    """Thirty people with two measurements and a category of three levels, one person alone in theirs."""
    ward = np.array(["a"] * 17 + ["b"] * 12 + ["c"])
    return pd.DataFrame({"x": rng.normal(size=PEOPLE) + (ward == "b"), "y": rng.normal(size=PEOPLE), "ward": ward})


def losses_of(table, rng, **how):
    records = Records.of(table, categories=True, gaps="missing" in how)
    mechanism = Synthesizer(**how).fit(records).mechanism
    return RecordLosses.of(records, mechanism, rng), records, mechanism


def test_measurements_alone_are_one_cell(people, rng):
    losses, records, mechanism = losses_of(people[["x", "y"]].iloc[:8], rng)
    prior = mechanism.require_prior()
    expected = PrivacyLoss(ExposureLaw.of(prior, 8, None), 3, 1e-5)
    ours, leverage = losses.columns(3, None, 1e-5, ALARMS), leverages(records.values, prior)
    for name, column in (expected.columns(leverage) | expected.best_test(leverage, ALARMS).columns).items():
        np.testing.assert_allclose(ours[name], column, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("cells", ["main effects", "separate"])
@pytest.mark.parametrize("power", [0.5, 1.5])
def test_the_moments_of_the_loss_are_those_of_drawn_parameters(people, rng, cells, power):
    prior = {"centre": [0, 0], "spread": [1, 1]}
    losses, records, mechanism = losses_of(people, rng, cells=cells, prior=prior)
    split, row, draws = mechanism.split(records), 20, 20_000
    others = split.take(np.delete(np.arange(PEOPLE), row))
    without, cell = mechanism.prior.update(others), split.cells[[row]]
    drawn, known = without.draw(rng, draws), split.covariates[[row]]
    means, spreads = without.means(drawn, cell, known)[:, 0], drawn.covariance_at(cell)[:, 0]
    away = split.values[row] - means
    bent = np.linalg.solve(spreads, away[..., None])[..., 0]
    log_normal = -np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(spreads)[1] - 0.5 * np.sum(away * bent, axis=1)
    # literally: the loss is log p(record | parameters) less log p(record | others)
    before = without.at(cell, known).predictive().log_density(split.values[[row]])
    share = without.weights[cell[0]] / np.sum(without.weights)
    loss = np.log(drawn.shares[:, cell[0]]) + log_normal - float(np.ravel(before)[0]) - np.log(share)
    sample = np.exp(power * loss)
    ours = np.exp(losses.loss(None, np.array([row])).slopes(np.array([power]))[0][0])
    assert abs(np.mean(sample) - ours) < 5 * np.std(sample) / np.sqrt(draws)


def test_what_counts_tell_is_what_their_probabilities_say():
    weight, total, rows = 2.5, 9.0, 12
    counts = np.arange(rows + 1)
    without = betabinom.pmf(counts, rows, weight, total - weight)
    there = betabinom.pmf(counts, rows, weight + 1, total - weight)
    for reverse, (one, two) in enumerate([(there, without), (without, there)]):
        loss = CountLoss(np.array([weight]), np.array([total]), np.array([rows]), bool(reverse))
        s = np.array([0.7])
        powered = np.log(np.sum(one**s * two ** (1 - s)))
        assert loss.slopes(s)[0][0] == pytest.approx(powered, abs=1e-10)
        assert loss.at(s[:, None] + 0j)[0, 0].real == pytest.approx(powered, abs=1e-10)


def test_draws_that_agree_are_one_draw(people, rng):
    losses, _, _ = losses_of(people, rng)
    which = np.flatnonzero(losses.weight[0] == losses.weight[0, 0])
    s = np.tile([0.3 + 0.2j, 1.2], (len(which), 1))
    for reverse in (False, True):
        one = losses.loss(None, which, reverse)
        three = AveragedLoss((one,) * 3, np.repeat(losses.log_density[:, which], 3, axis=0), reverse)
        np.testing.assert_allclose(three.at(s), one.at(s), rtol=1e-10)
        np.testing.assert_allclose(three.slopes(s[:, 0].real), one.slopes(s[:, 0].real), rtol=1e-9, atol=1e-12)


def test_with_gaps_the_loss_is_a_loss_and_errors_are_told(people, rng):
    people.loc[3, "x"], people.loc[5, "ward"] = None, None
    losses, _, _ = losses_of(people.iloc[[*range(6), *range(17, 21)]], rng, missing="impute")
    which = np.flatnonzero(losses.measured == 1)
    assert which.tolist() == [3]
    for s in (0.0, 1.0):
        assert losses.loss(None, which).slopes(np.array([s]))[0] == pytest.approx(0, abs=1e-10)
    found = losses.columns(1, None, 1e-4, ALARMS)
    assert np.isnan(found["epsilon"][5])
    assert not found["exact"][5]
    rest = np.delete(np.arange(10), 5)
    assert np.all(found["epsilon"][rest] > 0)
    assert np.all(found["epsilon_error"][rest] >= 0)


def test_a_person_alone_in_a_cell_loses_most_and_kept_categories_tell_nothing(people):
    drawn, kept = (abo.privacy(people, draws=1, **how) for how in ({}, {"keep": ["ward"]}))
    assert drawn["epsilon"].idxmax() == PEOPLE - 1
    assert kept["epsilon"][PEOPLE - 1] < drawn["epsilon"][PEOPLE - 1]
    few, many = (abo.privacy(people, datasets=count) for count in (1, 4))
    assert np.all(few["epsilon"] < many["epsilon"])
    assert not few["exact"].any()


def test_densities_of_records_are_the_models_own(people, rng):
    losses, records, mechanism = losses_of(people, rng)
    split, row = mechanism.split(records), 4
    without = mechanism.prior.update(split.take(np.delete(np.arange(PEOPLE), row)))
    t = without.at(split.cells[[row]], split.covariates[[row]]).predictive()
    share = without.weights[split.cells[row]] / np.sum(without.weights)
    expected = float(np.ravel(t.log_density(split.values[[row]]))[0]) + np.log(share)
    assert losses.log_density[0, row] == pytest.approx(expected, abs=1e-9)
