"""How many simulated releases call a number of datasets safe: with several looks as seldom wrongly as with one."""

import numpy as np
import pytest
from scipy.stats import binom

from allbutone.disclosure.class_releases import CLASS_LOOKS
from allbutone.disclosure.simulated_budget import CutShort, most_safe

PEOPLE = np.arange(3)


class Chances:
    """Releases that disclose the first person with a chance that depends on the number of datasets."""

    def __init__(self, rng, *chances):
        self.chances, self.asked = (0.0, *chances), []
        self.uniform = rng.random(10_000)

    def discloses(self, count, people, releases):
        self.asked += [(count, release) for release in releases]
        found = self.uniform[np.asarray(releases)] < self.chances[count]
        return found[:, None] & (np.arange(len(people)) == 0)


def called_safe(chance):
    """The chance that a look calls releases safe each of which discloses somebody with this chance."""
    going, done, safe = np.ones(1), 0, 0.0
    for releases, accepted in CLASS_LOOKS:
        more = binom.pmf(np.arange(releases - done + 1), releases - done, chance)
        going, done = np.convolve(going, more), releases
        safe += going[: accepted + 1].sum()
        going[: accepted + 1] = 0.0
    return safe


def test_one_in_twenty_is_seldom_called_safe_and_one_in_a_hundred_mostly():
    assert called_safe(0.05) < 0.05
    assert called_safe(0.01) > 0.95
    assert (1 - 0.01) ** 60 < 0.55  # what none of sixty would call safe, as seldom wrongly


@pytest.mark.parametrize("chance", [0.01, 0.05])
def test_the_looks_call_safe_as_often_as_the_binomial_says(chance, rng):
    times = 500
    found = [
        most_safe(Chances(rng, chance), PEOPLE, 1, lambda done: None, CLASS_LOOKS).count for _ in range(times)
    ]
    exact = called_safe(chance)
    assert abs(np.mean(found) - exact) < 5 * np.sqrt(exact * (1 - exact) / times)


def test_it_ends_as_soon_as_it_is_decided(rng):
    nobody, everybody = Chances(rng, 0.0), Chances(rng, 1.0)
    none = most_safe(nobody, PEOPLE, 1, lambda done: None, CLASS_LOOKS)
    assert (none.count, none.tried[1].releases, none.accepted) == (1, 80, 4)
    assert "up to 0 of 80, 1 of 120, 2 of 160 or 4 of 200 may" in none.in_words
    every = most_safe(everybody, PEOPLE, 1, lambda done: None, CLASS_LOOKS)
    assert (every.count, every.tried[1].releases) == (0, 8)
    assert len(nobody.asked) == 80
    assert len(everybody.asked) == 8


def test_the_largest_that_a_look_calls_safe_is_found_and_kept_where_it_is_cut_short(rng):
    for safe in range(6):
        chances = [0.0] * safe + [0.9] * (5 - safe)
        found = most_safe(Chances(rng, *chances), PEOPLE, 5, lambda done: None, CLASS_LOOKS, first=1)
        assert found.count == safe
    done = []

    def watch(count):
        done.append(count)
        if sum(done) > 100:
            raise CutShort

    cut = most_safe(Chances(rng, *[0.0] * 5), PEOPLE, 5, watch, CLASS_LOOKS, first=1)
    assert (cut.count, cut.cut_short) == (1, True)
