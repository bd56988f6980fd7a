"""δ and ε by an integral along a line: against the Gaussian mechanism, where both are known."""

import numpy as np
from scipy.stats import norm

from allbutone.disclosure.draw_loss import DrawLoss
from allbutone.disclosure.loss_profile import Loss, delta, epsilon, separation, separation_by_area


class Gaussian(Loss):
    """The loss of the Gaussian mechanism, whose δ(ε) is known; in reverse it is the same."""

    def __init__(self, mu):
        self.mu = mu

    @property
    def end(self):
        return np.full(self.mu.shape, np.inf)

    def at(self, s):
        return self.mu[:, None] ** 2 * s * (s - 1) / 2

    def slopes(self, s):
        return self.mu**2 * s * (s - 1) / 2, self.mu**2 * (s - 0.5), self.mu**2 + 0 * s


def known_delta(mu, level):
    return norm.cdf(mu / 2 - level / mu) - np.exp(level + norm.logcdf(-mu / 2 - level / mu))


def test_the_integral_along_a_line_is_the_gaussian_mechanism_s_delta():
    mu = np.array([1e-5, 1e-3, 0.1, 1.0, 5.0, 30.0])
    for level in (0.0, 0.5, 2.0, 10.0, 40.0):
        levels = np.full(len(mu), level)
        np.testing.assert_allclose(delta(Gaussian(mu), levels), known_delta(mu, levels), rtol=1e-8, atol=1e-30)
    for wanted in (1e-3, 1e-6, 1e-12):
        found = epsilon(Gaussian(mu), wanted)
        needed = known_delta(mu, np.zeros(len(mu))) > wanted  # else ε = 0 serves
        np.testing.assert_allclose(known_delta(mu, found)[needed], wanted, rtol=1e-7)
        assert np.all(found[~needed] <= 0)


def test_the_gaussian_mechanisms_trade_off_is_that_of_two_normals():
    mu = np.array([1e-5, 1e-3, 0.1, 1.0, 5.0, 30.0])
    for alarms in (1e-6, 0.01, 0.05, 0.5, 0.99):
        found = separation(Gaussian(mu), np.full(len(mu), alarms), checked=True)
        np.testing.assert_allclose(found, mu, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(separation_by_area(Gaussian(mu)), mu, rtol=1e-7, atol=1e-9)
    several = separation(Gaussian(mu / 3), np.full(len(mu), 0.05), 9)
    np.testing.assert_allclose(several, mu, rtol=1e-7, atol=1e-9)


def test_delta_needs_no_simulation_down_to_1e_minus_30():
    levels = np.array([6.0, 9.0, 12.0])
    found = delta(Gaussian(np.ones(3)), levels)
    np.testing.assert_allclose(found, known_delta(1.0, levels), rtol=1e-6)
    assert found[-1] < 1e-29


def test_beyond_the_largest_loss_nothing_is_left():
    law = DrawLoss(5, 1656.0, 1656.0, np.array([2.4e2, 5.4e5]))
    largest = epsilon(law, 1e-12, 2)
    assert np.all(delta(law, 0.5 * largest, 2) == 1)
    np.testing.assert_allclose(delta(law, 1.1 * largest, 2), 0, atol=1e-200)


def test_a_million_records_lose_no_digits():
    """What is left after all linear terms cancel is tiny; the Gaussian mechanism with μ² = K″ agrees."""
    law = DrawLoss(5, 1e8, 1e8, np.array([5e-8, 1e-7]))
    mu = np.sqrt(law.slopes(np.ones(2))[2])
    np.testing.assert_allclose(epsilon(law, 1e-6), epsilon(Gaussian(mu), 1e-6), rtol=1e-2)
    np.testing.assert_allclose(separation(law, np.full(2, 0.01)), mu, rtol=1e-2)
    np.testing.assert_allclose(separation_by_area(law), mu, rtol=1e-2)
