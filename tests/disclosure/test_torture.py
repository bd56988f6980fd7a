"""What sixteen digits make of hard tables, against the same formulas in at least 60: right, or refused."""

import os

import mpmath as mp
import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtr

import allbutone as abo
import exact
import exact_privacy
from allbutone.adversary.build import log_posterior
from allbutone.adversary.integrate import Intervals, interval_probability
from allbutone.disclosure.epsilon import PrivacyLoss
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.lineup import disclosure_chances
from allbutone.disclosure.measures import measure
from allbutone.disclosure.standing import Standing
from hard_tables import hard_tables

HARD = {hard.name: hard for hard in hard_tables()}
LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
# released covariances hold squares, and where columns nearly repeat others few digits of what tells them apart
RIGHT = {"parameters": 1e-3, "datasets": 1e-5}


def errors(hard, kind):
    """The largest relative errors of what the package says of a target, by what it is; log densities above 1."""
    prior = (hard.prior.mean, hard.prior.mean_weight, hard.prior.df, hard.prior.scale)
    release = hard.release(kind)
    given = (release.normal.means, release.normal.covariances) if kind == "parameters" else list(release.values)
    posterior = log_posterior(hard.others, release, prior=hard.prior)
    centre = np.asarray(posterior.centre)
    points = [centre, hard.target, (centre + hard.target) / 2, centre + posterior.root @ np.ones(len(centre))]
    with mp.workdps(500 if np.ptp(np.log10(np.abs(points[-1] - centre))) > 20 else 60):
        mean, kappa, _, scale = exact.posterior(hard.others, *prior)
        away = exact.column(hard.target) - mean
        normal = mp.lu_solve(scale, away)
        squared = (away.T * normal)[0]
        truth = [score / 2 for score in exact.scores(points, hard.others, given, prior)]
        found = [mp.mpf(float(posterior.log_density_unnormalized(point))) for point in points]
        off = [
            abs((f - found[0]) - (t - truth[0])) / max(1, abs(t - truth[0]))
            for f, t in zip(found, truth, strict=True)
        ]
        told = {"log density": float(max(off))}
        measured = measure(posterior.as_batch(), hard.target[None])
        attack = abo.attack(hard.others, release, prior=hard.prior)
        mode, bowl = exact.mode_near(attack.mode, hard.others, given, prior)
        apart = exact.column(attack.mode) - mode
        told["mode"] = float(mp.sqrt(abs((apart.T * bowl * apart)[0])))
        if squared <= 1e-20:
            assert np.isnan(measured.exposure[0])
            return told
        way = (normal.T * (mode - mean))[0] / squared
        told["exposure"] = float(abs(mp.mpf(float(measured.exposure[0])) - way) / max(1, abs(way)))
        leverage, true = leverages(hard.records, hard.prior)[-1], kappa / (kappa + 1) * squared
        told["leverage"] = float(abs(mp.mpf(float(leverage)) - true) / true)
    return told


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize("name", HARD)
def test_right_or_refused(kind, name):
    hard = HARD[name]
    try:
        release = hard.release(kind)
    except abo.InputError:
        # squares of an outlier at 1e8 deviations leave no digit of the others' covariance
        assert kind == "parameters"
        assert "1e+08" in name or "1e+14" in name
        return
    assert release.count == hard.count
    told = errors(hard, kind)
    assert max(told.values()) < RIGHT[kind], told
    assert told.get("leverage", 0) < 1e-6


def test_ten_thousand_datasets_of_one_row():
    """s(x) = (k − 1)ν′·log(1 + c·q₀) − Σⱼ (ν′ + 1)·log(1 + hⱼ(x − rⱼ)²/Bⱼ) of one column."""
    others, prior = np.random.default_rng(9).standard_normal((6, 1)), abo.NIW.flat(1)
    rows = np.random.default_rng(8).standard_normal((10_000, 1, 1)) * 3
    release = abo.Release.of(rows, prior=prior)
    mean, kappa, df, _ = exact.posterior(others, [0.0], 0, -1, [[0.0]])
    mean, scale = mean[0], sum((mp.mpf(float(x)) - mean[0]) ** 2 for x in others[:, 0])
    away = [mp.mpf(z) - mean for z in rows[:, 0, 0].tolist()]
    wells = [(mean + d / (kappa + 1), scale + kappa / (kappa + 1) * d**2) for d in away]

    def score(x):
        x, k = mp.mpf(float(x)), len(wells)
        found = (k - 1) * (df + 1) * mp.log(1 + kappa / (kappa + 1) * (x - mean) ** 2 / scale)
        h = (kappa + 1) / (kappa + 2)
        return found - (df + 2) * sum(mp.log(1 + h * (x - r) ** 2 / b) for r, b in wells)

    posterior, attack = log_posterior(others, release, prior=prior), abo.attack(others, release, prior=prior)
    at = [float(attack.mode[0]), 0.0, 3.0]
    truth, found = [score(x) / 2 for x in at], posterior.log_density_unnormalized(np.array(at)[:, None])
    for t, f in zip(truth[1:], found[1:], strict=True):
        assert abs((t - truth[0]) - (mp.mpf(float(f)) - mp.mpf(float(found[0])))) < 1e-11 * abs(t - truth[0])
    deviation = float(np.sqrt(attack.covariance[0, 0]))
    assert truth[0] > max(score(at[0] + side * 1e-4 * deviation) / 2 for side in (-1, 1))


@pytest.mark.skipif(not LONG, reason="a minute of 60-digit arithmetic: make test-long runs it")
def test_two_hundred_columns():
    rng = np.random.default_rng(5)
    others = rng.standard_normal((260, 200)) * np.geomspace(1e-6, 1e6, 200)
    others[:, 7] += others[:, 3] * 1e-3
    target, prior = others[0] * 4, abo.NIW.flat(200)
    _, kappa, _, scale = exact.posterior(others, prior.mean, 0, -1, prior.scale)
    mean = exact.posterior(others, prior.mean, 0, -1, prior.scale)[0]
    away = exact.column(target) - mean
    true = kappa / (kappa + 1) * (away.T * mp.cholesky_solve(scale, away))[0]
    assert abs(leverages(np.vstack([others, target]), prior)[-1] / float(true) - 1) < 1e-10


@pytest.mark.parametrize("name", ["condition number 1e+14", "an outlier at 1e+08 deviations, among the others"])
def test_moments_and_their_factor(name):
    records = HARD[name].others
    moments = abo.Moments.of(records)
    mean, _, _, scatter = exact.posterior(records, np.zeros(records.shape[1]), 0, -1, 0 * np.eye(records.shape[1]))
    size = np.sqrt(np.diagonal(moments.scatter))
    for i in range(len(size)):
        assert abs(mp.mpf(float(moments.mean[i])) - mean[i]) < 1e-15 * max(abs(records[:, i]))
        for j in range(len(size)):
            assert abs(mp.mpf(float(moments.scatter[i, j])) - scatter[i, j]) < 1e-14 * size[i] * size[j]
    # the last column's own part, of which the scatter has kept no digit
    root = abo.NIW.flat(len(size)).update(moments).root
    true = mp.cholesky(scatter)[len(size) - 1, len(size) - 1]
    assert abs(mp.mpf(float(root[-1, -1])) / true - 1) < 1e-7


def test_records_that_leave_the_others_no_distribution_are_refused():
    """Three people, however often repeated, span a plane: without the fourth, columns determine others."""
    people = np.random.default_rng(2).standard_normal((4, 3))
    others, prior = np.repeat(people[:3], 5, axis=0), abo.NIW.flat(3)
    records = np.vstack([others, people[3]])
    release = abo.Release.draw(prior.update(records), [5] * 3, np.random.default_rng(1))
    with pytest.raises(abo.InputError, match="every direction"):
        abo.attack(others, release, prior=prior)
    with pytest.raises(abo.InputError, match="every direction"):
        leverages(records, prior)
    with pytest.raises(abo.InputError, match="every direction"):
        abo.privacy(pd.DataFrame(records, columns=["a", "b", "c"]), draws=1)


@pytest.mark.parametrize("scale", [1e-155, 1e-160, 1e-170, 1e-300])
def test_spreads_whose_squares_lose_digits_are_refused(scale):
    values = scale * np.random.default_rng(3).standard_normal((20, 2))
    with pytest.raises(abo.InputError, match=r"loses digits|smaller unit"):
        abo.Records.of(pd.DataFrame(values, columns=["a", "b"]))
    with pytest.raises(abo.InputError):
        abo.NIW.flat(2).update(values)


def test_columns_that_vary_in_their_last_digits_only_are_refused():
    values = np.random.default_rng(4).standard_normal((20, 2)) + 1e14
    with pytest.raises(abo.InputError, match="subtract a constant"):
        abo.NIW.flat(2).update(values)


def test_a_record_beyond_all_numbers_is_refused():
    values = 1e-140 * np.random.default_rng(5).standard_normal((20, 2))
    values[4, 0] = 1e69
    with pytest.raises(abo.InputError, match="too far"):
        leverages(values, abo.NIW.from_spread([0, 0], [1e-140, 1e-140]))


CASES = [  # people, columns, leverage, draws
    (4, 1, 1e-16, 1), (4, 1, 1e8, 1), (4, 1, 1e16, 10_000), (50, 1, 1e3, 1),
    (4, 1, 1.0, 1), (8, 5, 1.0, 1), (40, 3, 1e-3, 10_000), (40, 3, 1e12, 1), (203, 200, 1.0, 1),
]  # fmt: skip


def epsilon_error(people, p, leverage, draws, delta=1e-6):
    law = ExposureLaw.of(abo.NIW.flat(p), people, None)
    found = PrivacyLoss(law, draws, delta).columns(np.array([leverage]))
    kappa, augmented = mp.mpf(law.mean_weight), mp.mpf(leverage)
    augmented = augmented * (kappa + 1) / kappa + 1 / kappa
    gain = exact_privacy.mean_loss(p, kappa, law.df, augmented)
    of_gain = float(abs(mp.mpf(float(found["gain_of_one"][0])) / gain - 1))
    return exact_privacy.relative_error(found["epsilon"][0], delta, p, kappa, law.df, augmented, draws), of_gain


@pytest.mark.parametrize("case", CASES if LONG else CASES[:4], ids=str)
def test_epsilon_and_gain(case):
    of_epsilon, of_gain = epsilon_error(*case)
    assert of_epsilon < 1e-7, of_epsilon
    assert of_gain < 1e-12


LEVERAGES = np.array([0.0, 1e-300, 1e-32, 1e-16, 1e-8, 1e-3, 1.0, 1e3, 1e8, 1e16, 1e32, 1e100])


@pytest.mark.parametrize("rows", [None, 1, 40, 10**12])
@pytest.mark.parametrize(("p", "people"), [(1, 3), (3, 40), (200, 203), (3, 10**9)])
@pytest.mark.parametrize("count", [1, 2, 10_000, 10**6])
def test_the_laws_at_every_leverage(p, people, rows, count):
    law = ExposureLaw.of(abo.NIW.flat(p), people, rows)
    assert np.all((law.right_mode(LEVERAGES, count) >= 0.5) & (law.right_mode(LEVERAGES, count) <= 1))
    sizes = law.sizes(LEVERAGES, count, [0.05, 0.5, 0.95])
    assert np.all(np.isfinite(sizes) & (sizes >= 0))
    chances = disclosure_chances(law, standing(law), count)
    assert np.all((chances >= 0) & (chances <= 1 + 1e-12))


def standing(law):
    """People of each leverage who stand out alike in all columns."""
    distance = np.sqrt(law.df * (law.mean_weight + 1) / law.mean_weight * LEVERAGES)
    deviation = np.repeat(distance[:, None], law.p, axis=1) / np.sqrt(law.p)
    reach = np.maximum(0.25, 0.5 * deviation)
    needed = np.full(deviation.shape, 0.5)
    return Standing(LEVERAGES, distance, deviation, deviation - reach, deviation + reach, needed)


@pytest.mark.usefixtures("few_trials")
def test_a_budget_where_someone_stands_at_the_others_mean():
    values = np.random.default_rng(6).standard_normal((15, 2))
    table = pd.DataFrame(np.vstack([values, -values, [[0.0, 0.0]]]), columns=["a", "b"])
    found = abo.budget(table, abo.NIW.flat(2), rows=30).to_frame()
    assert np.isfinite(found.to_numpy()[:, :4]).all()
    release = abo.Release.draw(abo.NIW.flat(2).update(table.to_numpy()), [30], np.random.default_rng(1))
    told = abo.risk(table, abo.Release.of(release.values, ["a", "b"], abo.NIW.flat(2)), mass=False)
    assert np.isnan(told["exposure"].iloc[-1])
    assert told["risk"].between(0, 1).all()
    assert np.isfinite(abo.privacy(table, draws=2)["epsilon"]).all()


def test_the_epsilon_of_a_dataset_where_someone_stands_at_the_others_mean():
    found = PrivacyLoss(ExposureLaw.of(abo.NIW.flat(3), 50, 1)).columns(np.array([0.0, 1e-18]))
    assert np.all((found["epsilon"] > 0) & (found["epsilon"] < 20))


@pytest.mark.parametrize("freedom", [1.0, 3.5, 200.0])
@pytest.mark.parametrize(("low", "high"), [(-1, 1), (30, 31), (-1e8, -0.5e8), (1e-9, 2e-9)])
def test_the_probability_of_an_interval_has_digits_in_the_tails(freedom, low, high):
    near = Intervals(np.array([[float(low)]]), np.array([[float(high)]]))
    found = interval_probability(np.zeros((1, 1)), np.ones((1, 1)), freedom, near.low, near.high)[0, 0]
    nu = mp.mpf(freedom)
    constant = mp.gamma((nu + 1) / 2) / mp.gamma(nu / 2) / mp.sqrt(nu * mp.pi)
    true = mp.quad(lambda x: constant * (1 + x * x / nu) ** (-(nu + 1) / 2), mp.linspace(low, high, 9))
    tail = stdtr(freedom, -min(abs(low), abs(high)))
    assert abs(found - float(true)) <= 1e-12 * float(true) + 1e-9 * tail
