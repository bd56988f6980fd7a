"""The loss of a record by datasets far smaller than the table: against the formula written out, and its laws."""

import mpmath
import numpy as np
import pytest
from scipy.special import digamma, loggamma, logsumexp, polygamma, xlogy
from scipy.stats import t as student

import allbutone as abo
from allbutone.disclosure.dataset_loss import DatasetLoss
from allbutone.disclosure.epsilon import PrivacyLoss, looked_up_while_known
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.loss_profile import Loss, epsilon

MILLION = 1_000_000


def dataset_loss(people, p, rows, squares, reverse=False, **how):
    """Of a record whose squared distance from the mean of the others is so many variances."""
    augmented = (1 + np.atleast_1d(squares)) / people
    return DatasetLoss(p, float(people), people + 0.0, augmented, rows, reverse, **how)


class Literal(Loss):
    """The cumulants of L as the docs print it, summed over an even grid in T, √ω and the log-odds of β₁.

    An even number of columns, or one, so that the density of √ω is smooth through 0.
    """

    negligible, most_blocks = 1e-7, 12

    def __init__(self, people, p, rows, squares, reverse=False):
        nu = kappa = float(people)
        self.p, self.nu, self.rows, self.reverse = p, nu, rows, reverse
        whole, d = nu + rows, nu + rows - p
        shape, beta = 0.5 * nu, 0.5 * (rows - 1)
        t = np.linspace(-16, 16, 120)[:, None, None] / np.sqrt(d)
        root = np.linspace(0, 9 + np.sqrt(p), 50 if p > 1 else 1)[:, None] / np.sqrt(d)  # √ω
        odds = np.log(shape / beta) + np.linspace(-16, 16, 140) * np.sqrt(1 / shape + 1 / beta)
        log_share = -np.logaddexp(0, -odds)
        log_weight = -0.5 * (d + 1) * np.log1p(t**2) + shape * log_share - beta * np.logaddexp(0, odds)
        if p > 1:
            log_weight = log_weight - 0.5 * (d + p) * np.log1p(root**2) + np.log(np.where(root == 0, 0.5, 1.0))
            log_weight = log_weight + xlogy(p - 2, root)
        h, r = (nu + rows) / (nu + rows + 1), np.sqrt(rows / (kappa * (kappa + rows)))
        a = np.sqrt(squares / people * np.exp(log_share))
        across = root**2 * (1 + t**2)  # R²
        loss = 0.5 * log_share + 0.5 * whole * np.log1p(t**2 + across)
        inside = h * a**2 + (1 + h * r**2) * t**2 - 2 * h * a * r * t + (1 + h * r**2 + h * a**2) * across
        loss = loss - 0.5 * (whole + 1) * np.log1p(inside)
        top = log_weight.max()
        self.loss, self.log_weight = (
            loss.ravel(),
            (log_weight - top - np.log(np.exp(log_weight - top).sum())).ravel(),
        )
        self.constant = -logsumexp(self.loss + self.log_weight) - self._others_at_one()

    @property
    def end(self):
        return np.array([2 + self.nu - self.p if self.reverse else np.inf])

    def _others_at_one(self):
        """Σ log E[βᵢ^½] over i > 1 in many digits: its error would be multiplied by s."""
        total, beta = mpmath.mpf(0), mpmath.mpf(self.rows - 1) / 2
        for i in range(1, self.p):
            alpha = (mpmath.mpf(self.nu) - i) / 2
            total += mpmath.log(mpmath.rf(alpha, mpmath.mpf(1) / 2) / mpmath.rf(alpha + beta, mpmath.mpf(1) / 2))
        return float(total)

    def _kept(self, power):
        height = power * self.loss + self.log_weight
        kept = height > height.max() - 34
        return self.loss[kept], height[kept]

    def _others(self, function):
        alpha, beta = 0.5 * (self.nu - np.arange(1, self.p)), 0.5 * (self.rows - 1)
        return np.sum(function(alpha) - function(alpha + beta))

    def at(self, s):
        a = (1 - s if self.reverse else s)[0]
        loss, height = self._kept(a[0].real)
        top, centre = height.max(), loss[height.argmax()]
        weights = np.exp(height - top)
        grid = [np.log(weights @ np.exp(1j * y * (loss - centre))) + top + 1j * y * centre for y in a.imag]
        others = [self._others(lambda z, t=power / 2: loggamma(z + t) - loggamma(z + 0j)) for power in a]
        return np.array([grid]) + np.array([others]) + a * self.constant

    def slopes(self, s):
        sign, a = (-1, 1 - s[0]) if self.reverse else (1, s[0])
        loss, height = self._kept(a)
        weights = np.exp(height - logsumexp(height))
        mean = weights @ loss
        value = self.at(s[:, None] + 0j)[0].real
        slope = mean + 0.5 * self._others(lambda z: digamma(z + a / 2)) + self.constant
        bend = weights @ (loss - mean) ** 2 + 0.25 * self._others(lambda z: polygamma(1, z + a / 2))
        return value, np.array([sign * slope]), np.array([bend])


@pytest.mark.parametrize(
    ("people", "p", "rows", "squares", "count"),
    [
        (MILLION, 20, 1000, 20.0, 10),
        (MILLION, 20, 1000, 2.0, 10),
        (MILLION, 20, 100, 20.0, 1),
        (MILLION, 4, 1000, 0.1, 10),
        (MILLION, 4, 1000, 8.0, 1),
        (MILLION, 4, 100, 1.0, 1),
        (MILLION, 4, MILLION, 4.0, 5),
        (MILLION, 2, 1000, 0.0, 10),
        (MILLION, 2, 100, 2.0, 10),
        (MILLION, 1, 1000, 1.0, 1),
        (MILLION, 1, 100, 0.5, 10),
        (10_000, 2, 100, 3.0, 2),
    ],
)
def test_epsilon_is_that_of_the_formula_written_out(people, p, rows, squares, count):
    for reverse in (False, True):
        ours = epsilon(dataset_loss(people, p, rows, squares, reverse), 1e-8, count, checked=True)
        literal = epsilon(Literal(people, p, rows, squares, reverse), 1e-8, count)
        assert ours[0] > 0
        np.testing.assert_allclose(ours, literal, rtol=1e-7)


@pytest.mark.parametrize(("p", "rows"), [(1, 1), (2, 1), (2, 30), (5, 1000), (20, 10), (20, 1000)])
def test_the_gain_of_few_rows_keeps_its_digits(p, rows):
    """K(0) = K(1) = 0, so that K′(1) = ∫ u·K″(u) du from 0 to 1, where nothing cancels."""
    law = dataset_loss(MILLION, p, rows, np.array([0.1, p, 9.0 * p]))
    at, weights = np.polynomial.legendre.leggauss(4)
    at, weights = (at + 1) / 2, weights / 2
    by_curvature = sum(w * u * law.slopes(np.full(3, u))[2] for u, w in zip(at, weights, strict=True))
    np.testing.assert_allclose(law.slopes(np.ones(3))[1], by_curvature, rtol=1e-5)


@pytest.mark.parametrize(("p", "rows"), [(1, 1000), (2, 100), (2, 1000), (5, 30), (20, 1000)])
def test_the_mean_of_exp_loss_is_one_where_the_table_is_large(p, rows):
    law = dataset_loss(MILLION, p, rows, np.array([0.0, p, 1e4]))
    for s in (0.0, 1.0):
        np.testing.assert_allclose(law.slopes(np.full(3, s))[0], 0, atol=1e-11)


@pytest.mark.parametrize("mean_points", [24, 32, 40, 56])
def test_a_grid_that_is_too_coarse_tells_nothing_rather_than_something_else(mean_points):
    """One column at one deviation: L is linear in T, whose grid then sees fast turns as slow ones."""
    for reverse in (False, True):
        law = dataset_loss(MILLION, 1, 100, np.array([0.9, 1.0]), reverse, points=(96, 28, mean_points))
        true = dataset_loss(MILLION, 1, 100, np.array([0.9, 1.0]), reverse, points=(96, 28, 200))
        found, exact = epsilon(law, 9e-7), epsilon(true, 9e-7)
        assert np.isfinite(exact).all()
        assert np.all(np.isnan(found) | (np.abs(found - exact) < 1e-6 * exact))
    assert mean_points < 56 or np.isfinite(found).all()


def test_a_million_records_need_few_integrals(rng, monkeypatch):
    """ε of datasets a thousandth of the table is smooth in the leverage: a short table has it to 1e-6."""
    asked = []
    directly = PrivacyLoss._epsilons

    def counted(self, rows, augmented, checked=False):
        asked.append(len(augmented) * (rows is not None))
        return directly(self, rows, augmented, checked)

    monkeypatch.setattr(PrivacyLoss, "_epsilons", counted)
    law = PrivacyLoss(ExposureLaw.of(abo.NIW.flat(5), MILLION, 1000), 1, 1e-8)
    leverage = rng.chisquare(5, 5000) / MILLION
    found = law.columns(leverage)
    assert sum(asked) < 50
    assert found["exact"].all()
    alone = law.columns(leverage[:3])
    for name in ("epsilon", "gain_of_one", "gain_of_one_sd"):
        np.testing.assert_allclose(found[name][:3], alone[name], rtol=1e-6)


def test_a_table_ends_below_the_first_node_that_is_not_known():
    """Between the numbers that are tried first, too."""
    at = np.geomspace(0.01, 100, 1000)

    def values(x, checked=False):
        return np.where((x > 1.5) & (x < 3) & (not checked), np.nan, np.array([x / (1 + x), np.log1p(x)]))

    found, known = looked_up_while_known(values, at)
    assert known[at < 0.5].all()
    assert not known[at > 1.5].any()
    np.testing.assert_allclose(found[:, known], values(at[known]), rtol=1e-6)
    assert np.isnan(found[:, ~known]).all()


@pytest.mark.parametrize("people", [4, 5, 6])
@pytest.mark.parametrize("rows", [100, 1000])
def test_of_few_records_the_gain_of_a_long_dataset_is_that_of_drawn_ones(rng, people, rows):
    """Mean and spread of log p(x | others, Z) − log p(x | others), two Student t's, over datasets Z."""
    values, replicates = rng.standard_normal(people), 100_000
    found = abo.privacy(abo.Records(values[:, None], ("x",)), datasets=1, rows=rows).to_pydict()
    record, others = values[0], values[1:]
    variance = np.sum((values - values.mean()) ** 2) / rng.chisquare(people - 1, replicates)
    mean = values.mean() + np.sqrt(variance * (1 / people + 1 / rows)) * rng.standard_normal(replicates)
    scatter = variance * rng.chisquare(rows - 1, replicates)
    scatter += np.sum((others - others.mean()) ** 2)
    scatter += (mean - others.mean()) ** 2 * rows * len(others) / (rows + len(others))
    both = rows + len(others)
    middle = (rows * mean + others.sum()) / both
    after = student.logpdf(record, both - 1, middle, np.sqrt(scatter * (1 + 1 / both) / (both - 1)))
    spread = others.std(ddof=1) * np.sqrt(1 + 1 / len(others))
    gain = after - student.logpdf(record, len(others) - 1, others.mean(), spread)
    assert found["gain_of_one"][0] == pytest.approx(gain.mean(), abs=5 * gain.std() / np.sqrt(replicates))
    assert found["gain_of_one_sd"][0] == pytest.approx(gain.std(), rel=0.03)
    assert min(found["gain_of_one"]) > 0
