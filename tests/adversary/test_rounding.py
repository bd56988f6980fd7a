"""What sixteen digits allow: the status of an attack against the same attack in 60-digit arithmetic."""

import warnings

import mpmath as mp
import numpy as np
import pytest

import allbutone as abo
import exact

STATUS = {"global", "converged", "tie", "limited by rounding", "not converged"}


def off_by(mode, others, release, prior):
    """By how many posterior standard deviations a mode is off."""
    given = list(release.values)
    if release.parameters is not None:
        given = release.normal.means, release.normal.covariances
    truth, bowl = exact.mode_near(mode, others, given, (prior.mean, prior.mean_weight, prior.df, prior.scale))
    apart = exact.column(mode) - truth
    return float(mp.sqrt((apart.T * bowl * apart)[0]))


@pytest.mark.parametrize("kind", ["parameters", "datasets"])
@pytest.mark.parametrize("where", ["an outlier among the others", "an outlier missing", "an offset"])
@pytest.mark.parametrize("size", [1.0, 1e4, 1e6, 1e7, 1e8])
def test_an_attack_that_does_not_say_limited_by_rounding_has_its_mode(kind, where, size):
    rng = np.random.default_rng(int(size) + len(where))
    p, prior = 3, abo.NIW.default(3)
    others, target = rng.standard_normal((12, p)), np.full(p, 3.0)
    direction = rng.standard_normal(p)
    if where == "an outlier among the others":
        others[4] = size * direction
    elif where == "an outlier missing":
        target = size * direction
    else:
        others, target = others + size * direction, target + size * direction
    records = np.vstack([others, target])
    posterior = prior.update(records)
    if kind == "parameters":
        try:
            release = abo.Release.draw_parameters(posterior, 4, rng)
        except abo.InputError:
            assert size >= 1e7  # covariances are squares: of the smallest of what they add up no digit is left
            return
    else:
        release = abo.Release.draw(posterior, [6] * 4, rng)
    found, many = abo.attack(others, release, prior=prior), abo.attack(records, release, rows="all", prior=prior)
    for mode, status in ((found.mode, found.status), (many.mode[-1], many.status[-1])):
        error = off_by(mode, others, release, prior)
        assert status == "limited by rounding" if error > 1e-3 else status in STATUS - {"not converged"}
    if size <= 1e4:
        assert found.status != "limited by rounding"
    if size == 1e8 and where != "an outlier missing":
        assert found.status == "limited by rounding"
    known = np.where(np.arange(p) == 0, target, np.nan)
    narrower = abo.attack(others, release, abo.Adversary(known=known), prior=prior)
    assert (narrower.status == "limited by rounding") >= (size == 1e8 and where != "an outlier missing")


def extreme(seed):
    """What the gate admits and nobody should ask for: spreads, priors and targets across a dozen orders."""
    rng = np.random.default_rng(seed)
    p, n = int(rng.integers(2, 7)), int(rng.choice([2, 3, 9]))

    def prior():
        mean, weight = rng.choice([0, 1, -50, 1e6], size=p), 10.0 ** rng.integers(-3, 5)
        df, scale = p + float(rng.choice([-0.9, 2, 1e4])), 10.0 ** rng.integers(-4, 7)
        return abo.NIW(mean, weight, df, scale * np.eye(p))

    spread = 10.0 ** rng.integers(-3, 5, size=p)
    others = rng.choice([0, 1e6]) + spread * (rng.standard_normal((n, p)) * 0.1 + rng.standard_normal((n, 1)))
    target = others[0] + spread * rng.choice([0, 4, 1e6, -1e8], size=p)
    own, mechanism = prior(), prior()
    posterior, count = mechanism.update(np.vstack([others, target])), int(rng.choice([2, 10]))
    if seed % 2:
        release = abo.Release.draw_parameters(posterior, count, rng)
    else:
        release = abo.Release.draw(posterior, [int(rng.choice([1, 3]))] * count, rng)
    return others, release, mechanism, own


def test_extremes_end_in_a_status_or_in_words():
    """On most of these seeds, for lack of digits, a matrix is singular or a logarithm not a number."""
    for seed in (*range(20, 40), 55, 63, 71, 73, 93, 109, 119, 125, 129, 151, 163, 173, 178, 247):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                others, release, prior, own = extreme(seed)
                found = abo.attack(others, release, abo.Adversary(prior=own), prior=prior)
            except abo.InputError:
                continue
            assert found.status in STATUS, seed
