"""The privacy loss of a record: every closed form against the integral or the simulation that it stands for."""

import os

import numpy as np
import pandas as pd
import polars as pl
import pytest
from dp_accounting import rdp
from scipy.special import loggamma, multigammaln
from scipy.stats import mannwhitneyu

import allbutone as abo
from allbutone.disclosure.budget_case import Case
from allbutone.disclosure.dataset_loss import DatasetLoss
from allbutone.disclosure.draw_loss import NUMBERS_HELD, DrawLoss, sum_curved_log_gamma
from allbutone.disclosure.epsilon import ALARMS, BestTest, PrivacyLoss, epsilons_of, looked_up
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.loss_profile import delta, epsilon
from allbutone.disclosure.rule import Rule
from allbutone.model.location import SEPARATE
from allbutone.model.niw import Normal
from allbutone.releases.gaussian_account import delta_of
from allbutone.releases.mechanism import Mechanism

LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
SIMULATED = 2_000_000 if LONG else 100_000
FINE = (96, 72, 48)  # points of the dataset's grid where ten digits are asked for


def problem(rng, p, people=12, far=2.0):
    """The posterior without a record, the record, the posterior with it, and the record's ℓ."""
    without = abo.NIW.default(p).update(rng.standard_normal((people, p)))
    record = without.mean + far * rng.standard_normal(p)
    off = record - without.mean
    augmented = float(off @ np.linalg.solve(without.scale, off) + 1 / without.mean_weight)
    return without, record, without.update(record[None]), augmented


def log_normal(record, means, covariances):
    off = record - means
    white = np.einsum("...i,...i->...", off, np.linalg.solve(covariances, off[..., None])[..., 0])
    return -0.5 * (white + np.linalg.slogdet(2 * np.pi * covariances)[1])


@pytest.mark.parametrize("far", [0.0, 1.0, 4.0])
def test_cumulants_of_a_draw_agree_with_quadrature(rng, far):
    """One column: the average of exp(sL) over (μ, σ²), written out and integrated."""
    without, record, _, augmented = problem(rng, 1, far=far)
    kappa, nu, scale = without.mean_weight, without.df, float(without.scale[0, 0])
    t, log_variance = np.linspace(-14, 14, 1201)[:, None], np.linspace(-9, 13, 2401)[None]
    # μ = m + t·σ/√κ; IW(Λ, ν) in one column is the inverse gamma (ν/2, Λ/2); σ² = Λ·e^y/ν
    variance = scale / nu * np.exp(log_variance)
    log_density = -0.5 * t**2 - 0.5 * np.log(2 * np.pi) - 0.5 * scale / variance - 0.5 * nu * np.log(variance)
    log_density = log_density + 0.5 * nu * np.log(scale / 2) - multigammaln(nu / 2, 1)
    cell = (t[1, 0] - t[0, 0]) * (log_variance[0, 1] - log_variance[0, 0])
    off = record[0] - without.mean[0] - t * np.sqrt(variance / kappa)
    loss = -0.5 * np.log(2 * np.pi * variance) - 0.5 * off**2 / variance
    loss = loss - float(without.predictive().log_density(record))
    for s in (-0.15 / augmented, 0.3, 1.0, 1.7, 4.0):
        integral = np.log(np.sum(np.exp(s * loss + log_density)) * cell)
        ours = DrawLoss(1, kappa, nu, np.array([augmented])).slopes(np.array([s]))[0]
        other_way = DrawLoss(1, kappa, nu, np.array([augmented]), True).slopes(np.array([1 - s]))[0]
        assert ours[0] == pytest.approx(integral, abs=1e-10)
        assert other_way[0] == pytest.approx(integral, abs=1e-10)


@pytest.mark.parametrize("p", [1, 2, 3])
def test_cumulants_mean_and_spread_of_a_draw_agree_with_simulation(rng, p):
    without, record, with_it, augmented = problem(rng, p)
    ours = DrawLoss(p, without.mean_weight, without.df, np.array([augmented]))
    base = float(without.predictive().log_density(record))
    for s in (0.5, 0.9):
        sample = np.exp(s * (log_normal(record, *without.draw(rng, SIMULATED)) - base))
        error = sample.std() / np.sqrt(SIMULATED)
        assert abs(np.exp(ours.slopes(np.array([s]))[0][0]) - sample.mean()) < 5 * error
    loss = log_normal(record, *with_it.draw(rng, SIMULATED)) - base
    _, mean, variance = ours.slopes(np.ones(1))
    assert abs(loss.mean() - mean[0]) < 5 * loss.std() / np.sqrt(SIMULATED)
    fourth = np.mean((loss - loss.mean()) ** 4)
    assert abs(loss.var() - variance[0]) < 5 * np.sqrt((fourth - variance[0] ** 2) / SIMULATED)


def test_the_gain_of_the_papers_outlier():
    """p = 2, n = 100, leverage 2.4: 26.69 nats, where the approximate law had 26.3."""
    found = PrivacyLoss(ExposureLaw.of(abo.NIW.default(2), 100, None)).columns(np.array([2.4]))
    assert found["gain_of_one"][0] == pytest.approx(26.69, abs=0.005)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("count", [1, 3])
def test_delta_agrees_with_simulated_losses(rng, p, count):
    without, record, with_it, augmented = problem(rng, p)
    base = float(without.predictive().log_density(record))
    for reverse, truth in ((False, with_it), (True, without)):
        loss = sum(log_normal(record, *truth.draw(rng, SIMULATED)) - base for _ in range(count))
        loss = -loss if reverse else loss
        law = DrawLoss(p, without.mean_weight, without.df, np.array([augmented]), reverse)
        for level in (0.0, *np.quantile(loss, [0.5, 0.99, 0.999])):
            sample = np.maximum(-np.expm1(level - loss), 0)
            error = np.sqrt((sample.var() + 1e-6) / SIMULATED)
            assert abs(delta(law, np.array([level]), count)[0] - sample.mean()) < 5 * error


@pytest.mark.parametrize("reverse", [False, True])
def test_epsilon_stays_below_the_bound_of_dp_accounting(reverse):
    """Google's accountant turns the Rényi divergences D_α = K(α)/(α − 1) into a bound; the exact ε is less."""
    augmented = np.array([0.012, 0.05, 0.4])
    law = DrawLoss(5, 503.0, 508.0, augmented, reverse)
    for count in (1, 10, 100):
        exact = epsilon(law, 1e-6, count)
        for place, one in enumerate(augmented):
            end = float(DrawLoss(5, 503.0, 508.0, np.array([one]), reverse).end[0])
            orders = 1 + np.geomspace(1e-2, 0.999 * min(end - 1, 1e3), 400)
            same = DrawLoss(5, 503.0, 508.0, np.full(len(orders), one), reverse)
            divergences = count * same.slopes(orders)[0] / (orders - 1)
            bound, _ = rdp.compute_epsilon(orders, divergences, 1e-6)
            assert 0.8 * bound < exact[place] < bound


def simulated_dataset_losses(rng, source, without, record, rows, number):
    """Losses of datasets drawn from `source`: sufficient statistics drawn, and the NIW's updates written out."""
    p, kappa, nu = without.p, without.mean_weight, without.df
    means, covariances = source.draw(rng, number)
    root = np.linalg.cholesky(covariances)
    noise = rng.standard_normal((number, rows, p)) @ root.swapaxes(-1, -2) + means[:, None]
    middle = noise.mean(axis=1)
    scatter = np.einsum("nri,nrj->nij", noise - middle[:, None], noise - middle[:, None])
    off = middle - without.mean
    scale = without.scale + scatter + kappa * rows / (kappa + rows) * off[:, :, None] * off[:, None]
    centre, kappa, nu = without.mean + rows / (kappa + rows) * off, kappa + rows, nu + rows
    away = record - centre
    quad = np.einsum("ni,ni->n", away, np.linalg.solve(scale, away[..., None])[..., 0]) * kappa / (kappa + 1)
    log = multigammaln((nu + 1) / 2, p) - multigammaln(nu / 2, p) - 0.5 * p * np.log(np.pi * (kappa + 1) / kappa)
    log = log - 0.5 * np.linalg.slogdet(scale)[1] - 0.5 * (nu + 1) * np.log1p(quad)
    return log - float(without.predictive().log_density(record))


@pytest.mark.parametrize(("p", "rows"), [(1, 1), (1, 8), (2, 1), (2, 20), (3, 2), (3, 20)])
def test_cumulants_of_a_dataset_agree_with_simulation(rng, p, rows):
    without, record, with_it, augmented = problem(rng, p)
    law = DatasetLoss(p, without.mean_weight, without.df, np.array([augmented]), rows)
    number = SIMULATED // 5
    loss = simulated_dataset_losses(rng, without, without, record, rows, number)
    for s in (0.5, 0.9):
        sample = np.exp(s * loss)
        assert abs(np.exp(law.slopes(np.array([s]))[0][0]) - sample.mean()) < 5 * sample.std() / np.sqrt(number)
    loss = simulated_dataset_losses(rng, with_it, without, record, rows, number)
    _, mean, variance = law.slopes(np.ones(1))
    assert abs(loss.mean() - mean[0]) < 5 * loss.std() / np.sqrt(number)
    assert variance[0] == pytest.approx(loss.var(), rel=0.1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("p", [2, 3])
def test_delta_of_datasets_agrees_with_simulated_losses(rng, p, reverse):
    without, record, with_it, augmented = problem(rng, p, people=30, far=1.0)
    number, rows = SIMULATED // 5, 30
    truth = without if reverse else with_it
    loss = simulated_dataset_losses(rng, truth, without, record, rows, number) * (-1 if reverse else 1)
    law = DatasetLoss(p, without.mean_weight, without.df, np.array([augmented]), rows, reverse)
    for level in np.quantile(loss, [0.5, 0.99, 0.999]):
        sample = np.maximum(-np.expm1(level - loss), 0)
        error = np.sqrt((sample.var() + 1e-6) / number)
        assert abs(delta(law, np.array([level]))[0] - sample.mean()) < 5 * error


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize(("rows", "count"), [(None, 1), (None, 3), (30, 1), (30, 2)])
def test_the_best_test_is_that_of_simulated_losses(rng, p, rows, count):
    """Neyman and Pearson by hand: a threshold from losses without the record, misses among those with it."""
    without, record, with_it, augmented = problem(rng, p, people=30, far=1.5)
    number, kappa = SIMULATED // 5, without.mean_weight
    base = float(without.predictive().log_density(record))

    def losses(source):
        if rows is None:
            return sum(log_normal(record, *source.draw(rng, number)) - base for _ in range(count))
        return sum(simulated_dataset_losses(rng, source, without, record, rows, number) for _ in range(count))

    out, inside = losses(without), losses(with_it)
    alarms, leverage = np.array([0.01, 0.05, 0.5]), np.array([(augmented - 1 / kappa) * kappa / (kappa + 1)])
    found = PrivacyLoss(ExposureLaw(p, kappa, without.df, rows), count).best_test(leverage, alarms)
    threshold = np.quantile(out, 1 - alarms)
    missed = np.mean(inside[:, None] <= threshold, axis=0)
    error = np.sqrt((missed * (1 - missed) + np.exp(2 * threshold) * alarms * (1 - alarms) + 1e-6) / number)
    assert np.all(found.misses[0] - missed < 5 * error)
    if not found.exact.all():  # then it is the test of who has the parameters, who misses no more
        return
    assert np.all(missed - found.misses[0] < 5 * error)
    area = mannwhitneyu(inside, out).statistic / number**2
    assert abs(found.area[0] - area) < 5 * np.sqrt(area * (1 - area) / number)


def test_the_best_test_has_the_laws_of_a_trade_off_curve():
    """Better than guessing, convex in the false alarms, its area that under its points, better for outliers."""
    law, alarms = ExposureLaw(3, 60.0, 62.0, 60), np.linspace(0.02, 0.98, 25)
    few = PrivacyLoss(law, 2).best_test(np.array([0.01, 0.1, 0.4]), alarms)
    many = PrivacyLoss(law, 2).best_test(np.append(np.linspace(0.005, 0.5, 20), [0.01, 0.1, 0.4]), alarms[[0, 12]])
    curve = np.column_stack([np.ones(3), few.misses, np.zeros(3)])
    assert np.all(few.misses < 1 - alarms)
    assert np.all(np.diff(few.misses, 2, axis=1) > 0)
    assert np.all(np.diff(few.misses, axis=0) < 0)
    under = np.trapezoid(curve, np.concatenate([[0.0], alarms, [1.0]]), axis=1)
    np.testing.assert_allclose(1 - few.area, under, atol=1e-2)
    np.testing.assert_allclose(many.misses[-3:], few.misses[:, [0, 12]], atol=1e-6)
    np.testing.assert_allclose(many.area[-3:], few.area, atol=1e-6)
    draws = PrivacyLoss(ExposureLaw(3, 60.0, 62.0, None), 2).best_test(np.array([0.01, 0.1, 0.4]), alarms)
    assert np.all(draws.misses < few.misses)
    with pytest.raises(abo.InputError, match="between 0 and 1"):
        PrivacyLoss(law).best_test(np.array([0.1]), np.array([0.0]))


@pytest.mark.parametrize(
    ("p", "people", "rows"), [(1, 20, 1), (1, 20, 15), (2, 20, 1), (3, 30, 20), (5, 503, 503)]
)
def test_the_mean_of_exp_loss_of_a_dataset_is_one(p, people, rows):
    augmented = 1 / people + np.array([0.0, p / people, 1.0])
    law = DatasetLoss(p, float(people), people + 3.0, augmented, rows, points=FINE)
    for s in (0.0, 1.0):
        np.testing.assert_allclose(law.slopes(np.full(3, s))[0], 0, atol=1e-10)


def test_many_rows_say_as_much_as_the_parameters():
    augmented = np.array([0.03, 0.3])
    draws = epsilon(DrawLoss(2, 60.0, 62.0, augmented), 1e-6)
    before = np.zeros(2)
    for rows in (60, 600, 60_000, 6_000_000):
        found = epsilon(DatasetLoss(2, 60.0, 62.0, augmented, rows), 1e-6)
        assert np.all((found > before) & (found < draws))
        before = found
    np.testing.assert_allclose(before, draws, rtol=1e-4)


@pytest.mark.parametrize("shape", [(), (3,), (2, NUMBERS_HELD)])
def test_a_sum_over_the_columns_is_that_of_its_terms(shape):
    z, t = 0.5 * (400 - np.arange(150)), np.linspace(0.3, 2.0, int(np.prod(shape))).reshape(shape) * (1 + 0.5j)
    terms = (loggamma(each + t) - loggamma(each + 0j) - t * np.log(each) for each in z)
    np.testing.assert_allclose(sum_curved_log_gamma(z, t), sum(terms), rtol=1e-9)


def test_derivatives_are_those_of_the_cumulants():
    for law in (
        DrawLoss(3, 12.0, 15.0, np.array([0.09, 0.3, 2.0])),
        DrawLoss(3, 12.0, 15.0, np.array([0.09, 0.3, 2.0]), True),
        DatasetLoss(3, 12.0, 15.0, np.array([0.09, 0.3, 2.0]), 30, points=FINE),
    ):
        at, step = np.full(3, 1.2), 1e-4
        low, here, high = (law.slopes(at + move) for move in (-step, 0.0, step))
        np.testing.assert_allclose((high[0] - low[0]) / (2 * step), here[1], rtol=1e-5)
        np.testing.assert_allclose((high[1] - low[1]) / (2 * step), here[2], rtol=1e-5)
        np.testing.assert_allclose(law.at(at[:, None] + 0j)[:, 0], here[0], rtol=1e-9)


@pytest.mark.parametrize(("rows", "p"), [(None, 5), (503, 1)])
def test_the_table_is_the_function_to_1e_6(rng, rows, p):
    law = PrivacyLoss(ExposureLaw.of(abo.NIW.default(p), 503, rows), 2)
    leverage = np.append(rng.chisquare(5, 3000) / 503, [0.4, 3.0])
    found = law.columns(leverage)
    some = np.append(rng.integers(0, 3000, 3), [3000, 3001])
    alone = law.columns(leverage[some])  # so few are not tabulated
    for name in ("epsilon", "gain_of_one", "gain_of_one_sd"):
        np.testing.assert_allclose(found[name][some], alone[name], rtol=1e-6)
    assert np.all(found["exact"])


def test_a_table_of_few_different_numbers_is_computed():
    at = np.array([2.0, 1.0, 2.0, 5.0])
    np.testing.assert_array_equal(looked_up(lambda x: np.array([x**2]), at), [at**2])
    many = np.random.default_rng(1).uniform(0.1, 50, 1000)
    found = looked_up(lambda x: np.array([x / (1 + x), np.log1p(x)]), many)
    np.testing.assert_allclose(found, [many / (1 + many), np.log1p(many)], rtol=1e-6)


def test_every_record_has_its_epsilon_in_the_tables_own_library():
    values = np.random.default_rng(2).standard_normal((40, 2))
    values[7] = [6.0, -6.0]
    frame = pd.DataFrame(values, columns=["bmi", "ldl"])
    prior = abo.NIW.default(2)
    found = abo.privacy(frame, prior, draws=2)
    assert isinstance(found, pd.DataFrame)
    assert isinstance(abo.privacy(pl.from_pandas(frame), prior, draws=1), pl.DataFrame)
    assert found["row"].tolist() == list(range(1, 41))
    assert found["epsilon"].idxmax() == 7
    without = prior.update(np.delete(values, 7, axis=0))
    off = values[7] - without.mean
    augmented = np.array([off @ np.linalg.solve(without.scale, off) + 1 / without.mean_weight])
    losses = [DrawLoss(2, without.mean_weight, without.df, augmented, reverse) for reverse in (False, True)]
    expected = max(float(epsilon(loss, 1e-6, 2)[0]) for loss in losses)
    assert found["epsilon"][7] == pytest.approx(expected, rel=1e-6)


def test_a_dataset_never_costs_more_than_its_parameters():
    values = np.random.default_rng(3).standard_normal((5, 2))
    draws = abo.privacy(values, draws=3).to_pandas()
    for rows in (1, 10, 5000):
        found = abo.privacy(values, datasets=3, rows=rows).to_pandas()
        assert np.all(found["epsilon"] <= draws["epsilon"] * (1 + 1e-6))
        bound = ~found["exact"].to_numpy()
        np.testing.assert_allclose(found["epsilon"][bound], draws["epsilon"][bound])


def test_epsilon_has_no_units(rng):
    """The flat prior commutes with every change of units."""
    values = rng.standard_normal((50, 3))
    moved = values @ (rng.standard_normal((3, 3)) + 3 * np.eye(3)) * 40 + 120
    one, other = (abo.privacy(each, draws=1)["epsilon"].to_numpy() for each in (values, moved))
    np.testing.assert_allclose(one, other, rtol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either parameter draws or datasets"),
        ({"draws": 1, "datasets": 1}, "either parameter draws or datasets"),
        ({"draws": 1, "rows": 10}, "have no rows"),
        ({"draws": 0}, "draws must be at least 1"),
        ({"datasets": 1, "rows": 0}, "rows must be at least 1"),
        ({"draws": 1, "delta": 0}, "delta must lie above 0 and below 1/30"),
        ({"draws": 1, "delta": 1 / 30}, "delta must lie above 0 and below 1/30"),
        ({"draws": 1, "delta": float("nan")}, "delta must lie above 0"),
    ],
)
def test_bad_input_is_refused_in_one_line(arguments, message):
    values = np.random.default_rng(1).standard_normal((30, 2))
    with pytest.raises(abo.InputError, match=message) as caught:
        abo.privacy(values, **arguments)
    assert "\n" not in str(caught.value)


def test_a_delta_that_is_no_number_is_refused():
    with pytest.raises(abo.InputError, match="delta must be a number, got 'small'"):
        delta_of("small", 30)


def test_too_few_records_for_the_flat_prior_are_refused():
    with pytest.raises(abo.InputError, match="leave the flat prior no distribution"):
        abo.privacy(np.random.default_rng(1).standard_normal((3, 2)), draws=1)


def test_the_epsilons_of_a_release_are_those_of_its_kind_and_sizes():
    """As `privacy` tells them for the same sizes; datasets of several sizes count as of the largest."""
    cohort = abo.demo_cohort()
    synthesizer = abo.Synthesizer().fit(cohort)
    prior = abo.NIW.flat(5)
    draws = epsilons_of(cohort, synthesizer.sample_parameters(3), prior)
    np.testing.assert_allclose(draws, abo.privacy(cohort, draws=3)["epsilon"].to_numpy())
    datasets = epsilons_of(cohort, synthesizer.sample(rows=[7, 20]), prior)
    np.testing.assert_allclose(datasets, abo.privacy(cohort, datasets=2, rows=20)["epsilon"].to_numpy())
    assert epsilons_of(cohort.take(slice(0, 6)), synthesizer.sample(), prior) is None


def test_datasets_of_fewer_rows_than_columns_are_tested_by_simulated_releases(rng):
    """The closed form is of who has the parameters, which tell far more than a few rows drawn from them."""
    values = rng.standard_normal((30, 3))
    values[0] = 3.0
    plan = abo.budget(abo.Records(values, ("a", "b", "c")), rows=1, rng=1)
    bound = PrivacyLoss(plan.law, max(plan.in_all, 1)).best_test(plan.leverage, ALARMS)
    assert not bound.exact.any()
    found = plan.membership_test
    assert found.exact.all()
    assert np.all(found.error > 0)
    assert np.all(found.misses > bound.misses - 4.5 * found.error[:, None])
    assert bound.area[0] - found.area[0] > 0.2
    # who is nearly always found with one false alarm of a hundred would be disclosed by the rule, too
    assert 1 - found.misses[0, 0] < plan.chances(max(plan.in_all, 1))[0] + 0.5


@pytest.mark.parametrize(("rows", "count"), [(None, 1), (30, 3), *([(40, 1)] if LONG else [])])
def test_the_best_test_before_drawing_is_that_of_simulated_releases(rng, rows, count):
    """Of the table with the person alone: those without follow from the likelihood ratio. Longer: 10⁵ releases."""
    values = rng.standard_normal((40, 2))
    values[0] = 3.5
    records = abo.Records(values, ("a", "b"))
    mechanism = Mechanism(records.schema.for_columns(records.columns), abo.NIW.flat(2), 1.0, SEPARATE)
    case = Case.of(records, mechanism, rows, Rule(), 1)
    people = np.array([0, 1, 2])
    losses = case.releases.losses(count, people, range(100_000 if LONG else 3000))
    simulated = BestTest.of_losses(losses, ALARMS)
    exact = PrivacyLoss(case.law, count).best_test(case.lineup.leverage[people], ALARMS)
    for ours, theirs in ((simulated.misses, exact.misses), (simulated.area[:, None], exact.area[:, None])):
        assert np.all(np.abs(ours - theirs) < 4.5 * simulated.error[:, None] + 1e-4)
    # and by releases of the table without the first person, beside those with it
    without = records.take(np.arange(1, 40))
    other = Case.of(without, mechanism, rows, Rule(), 2).releases
    prior, few = abo.NIW.flat(2), range(300)
    before = prior.update(without.values).predictive().log_density(values[0])
    alone = np.zeros(len(few))
    for number in few:
        drawn = other.draw(count, number)
        if rows is None:
            every = other.draws.as_parameters(drawn)
            each = [
                Normal(mean[0], spread[0]).log_density(values[0])
                for mean, spread in zip(every.coefficients, every.covariances, strict=True)
            ]
        else:
            models = [other.everyone.whole.plus(one) for one in other.draws.moments(drawn)]
            each = [
                model.at(np.zeros(1, int), np.zeros((1, 0))).predictive().log_density(values[:1])[0]
                for model in models
            ]
        alone[number] = sum(each) - count * before
    beyond = np.mean(alone > np.quantile(losses[:, 0], exact.misses[0, 1]))
    assert abs(beyond - ALARMS[1]) < 4.5 * np.sqrt(ALARMS[1] * (1 - ALARMS[1]) / len(few)) + 0.01
