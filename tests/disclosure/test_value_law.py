"""The probability of a value within its tolerance: the law of the rule beside the paper's score, in 50 digits.

A release all of whose draws, or datasets, are alike, with the eigenvalue, the axis and the lean that the law
reckons with, is put into the score literally. In units where the others' scale matrix is the identity, and along
the released precision's axis and across it, a candidate is v = (s, w). What the law leaves out, that a candidate
pulls the means along, makes a difference of k·s²: it rather says too much than too little.
"""

import mpmath as mp
import numpy as np
import pytest

import allbutone as abo
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lineup import EIGENVALUES, _held, _inside, _Posteriors
from allbutone.disclosure.standing import Standing
from cases import LONG

PEOPLE = 200
LEVERAGE = np.array([0.05, 0.4])


def standing(law, cosines):
    """People of some leverages who stand out in this direction, each value known to half its deviation."""
    distance = np.sqrt(law.df * (law.mean_weight + 1) / law.mean_weight * LEVERAGE)
    deviation = distance[:, None] * cosines
    reach = np.maximum(0.25, 0.5 * np.abs(deviation))
    return Standing(
        LEVERAGE, distance, deviation, deviation - reach, deviation + reach, np.full_like(deviation, 0.5)
    )


def score(law, count, eigenvalue, lean):
    """Half the paper's score of v = (s, w): Λ₊ = I + vvᵀ, log det Λ₊ = log(1 + ‖v‖²), and the release's part.

    With one record more the mean is m + d/(κ + 1), v = √(κ/(κ + 1))·d; every released mean stands on the axis.
    """
    nu, kappa, k = mp.mpf(law.df + 1), mp.mpf(law.mean_weight), mp.mpf(count)
    shift = mp.sqrt(kappa * (kappa + 1))  # v in units of the mean's shift: m₊ − m = v/√(κ(κ + 1))

    def of_parameters(s, w):
        along, across = nu * eigenvalue, nu * (w is not None)
        v2 = s**2 + (w or 0) ** 2
        trace = along * s**2 + across * (w or 0) ** 2
        gap = (lean * mp.sqrt(kappa / (kappa + 1)) - s / shift, -(w or 0) / shift)
        far = (kappa + 1) * (along * gap[0] ** 2 + across * gap[1] ** 2)
        return ((k - 1) * nu * mp.log(1 + v2) - k * (trace + far)) / 2

    def of_datasets(s, w):
        n = mp.mpf(law.rows)
        bulk = nu / (nu + n)
        weight = (kappa + 1) * n / (kappa + 1 + n)
        mean = lean * shift / weight
        gap = (mean - s / shift, -(w or 0) / shift)
        first = 1 / (bulk * eigenvalue) + s**2 + weight * gap[0] ** 2
        if w is None:
            joint = first
        else:
            second = 1 / bulk + w**2 + weight * gap[1] ** 2
            joint = first * second - (s * w + weight * gap[0] * gap[1]) ** 2
        v2 = s**2 + (w or 0) ** 2
        return ((k - 1) * nu * mp.log(1 + v2) - k * (nu + n) * mp.log(joint)) / 2

    return of_parameters if law.rows is None else of_datasets


def exact_probability(law, count, eigenvalue, lean, along, low, high, reach, across):
    """Integrate the score over the interval of a value, √ν·(along·s + √(1 − along²)·w), and over everything."""
    log_density, unit = score(law, count, mp.mpf(eigenvalue), mp.mpf(lean)), mp.sqrt(mp.mpf(law.df))
    ends = [mp.mpf(each) for each in np.linspace(-reach, reach, 9)]
    top = max(
        log_density(s, None if law.p == 1 else mp.mpf(0)) for s in np.linspace(-reach, reach, 201) * mp.mpf(1)
    )
    if law.p == 1:
        low, high = (min(max(mp.mpf(each) / unit, ends[0]), ends[-1]) for each in (low, high))

        def density(s):
            return mp.exp(log_density(s, None) - top)

        within = [low, *(each for each in ends if low < each < high), high]
        return mp.quad(density, within) / mp.quad(density, ends)
    side = mp.sqrt(1 - mp.mpf(along) ** 2)

    def strip(s, bounds):
        return mp.quad(lambda w: mp.exp(log_density(s, w) - top), bounds, method="gauss-legendre", maxdegree=4)

    def inner(s):
        bounds = [min(max((mp.mpf(each) / unit - along * s) / side, -across), across) for each in (low, high)]
        return strip(s, bounds) if bounds[0] < bounds[1] else mp.mpf(0)

    whole = mp.quad(lambda s: strip(s, [-across, 0, across]), ends[::2], method="gauss-legendre", maxdegree=3)
    return mp.quad(inner, ends[::2], method="gauss-legendre", maxdegree=3) / whole


def beliefs(p, rows, count, places, tilt=1.0):
    """Yield the probability of a value, exact and by the law, after releases of some eigenvalues."""
    law = ExposureLaw.of(abo.NIW.flat(p), PEOPLE, rows)
    cosines = np.array([1.0] if p == 1 else [0.8, 0.6])
    people = standing(law, cosines)
    found = _Posteriors.of(law, people, count)
    held = _held(found, [_inside(found, 0.0)], tilt)[0]
    centre, spread, overlap = law.spike(LEVERAGE[:, None], count)
    for person in range(len(LEVERAGE)):
        for place in places:
            eigenvalue = float(centre[person, 0] + spread[person, 0] * EIGENVALUES[place])
            lean = float(found.lean[person, 0] + found.noise[person, 0] * tilt)
            along = float(overlap[person, 0] * cosines[0])
            reach = 1.3 * float(found.places[person, place, -1])
            across = 8 / np.sqrt(float(found.across[person, place].min()))
            low, high = people.low[person, 0], people.high[person, 0]
            true = exact_probability(law, count, eigenvalue, lean, along, low, high, reach, mp.mpf(across))
            yield float(true), float(held[person, place, 0])


CASES = [(1, None, 2), (1, None, 20), (1, 200, 20), (1, 20, 20), (2, 200, 20)]
LONG_CASES = [(p, rows, count) for p in (1, 2) for rows in (None, 200, 20) for count in (2, 20)]


@pytest.mark.parametrize(("p", "rows", "count"), LONG_CASES if LONG else CASES)
def test_the_probability_of_a_value_is_that_of_the_score(p, rows, count):
    places = (6, 10, 14) if p == 1 or LONG else (10,)
    with mp.workdps(50):
        found = list(beliefs(p, rows, count, places))
    for true, ours in found:
        assert -0.025 < ours - true < 0.7 * count / PEOPLE
