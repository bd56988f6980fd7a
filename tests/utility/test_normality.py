"""Is the model fit to be used? Statistics beside other programs' and their formulas; verdicts that hold."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from scipy import stats

import allbutone as abo
from allbutone.tables.look import proposed_scale
from allbutone.utility.shapes import Shape, _cubed_products, _third_moments, henze_zirkler, mardia, whiten
from cases import cases


def literal_products(records):
    """(xᵢ − x̄)ᵀS⁻¹(xⱼ − x̄) for all pairs, n below the line of S."""
    centred = records - records.mean(axis=0)
    return centred @ np.linalg.inv(centred.T @ centred / len(records)) @ centred.T


def literal_henze_zirkler(records):
    n, p = records.shape
    g = literal_products(records)
    beta = 1 / np.sqrt(2) * ((2 * p + 1) * n / 4) ** (1 / (p + 4))
    total = sum(
        np.exp(-(beta**2) / 2 * (g[i, i] + g[j, j] - 2 * g[i, j])) for i in range(n) for j in range(n)
    )  # fmt: skip
    single = sum(np.exp(-(beta**2) / (2 * (1 + beta**2)) * g[i, i]) for i in range(n))
    return total / n - 2 * (1 + beta**2) ** (-p / 2) * single + n * (1 + 2 * beta**2) ** (-p / 2)


@settings(max_examples=25)
@given(cases(max_p=5, max_n=40, min_n=8))
def test_joint_statistics_are_their_formulas(case):
    n, p = case.records.shape
    g, found = literal_products(case.records), mardia(whiten(case.records))
    assert found.skewness == pytest.approx(np.sum(g**3) / n**2, rel=1e-8, abs=1e-8)
    assert found.kurtosis == pytest.approx(np.mean(np.diag(g) ** 2), rel=1e-8)
    factor = (p + 1) * (n + 1) * (n + 3) / (n * ((n + 1) * (p + 1) - 6))
    statistic = n * factor * np.sum(g**3) / n**2 / 6
    assert found.skewness_statistic == pytest.approx(statistic, rel=1e-8, abs=1e-8)
    expected = stats.chi2.sf(statistic, p * (p + 1) * (p + 2) / 6)
    assert found.skewness_p == pytest.approx(expected, abs=1e-8)
    assert found.kurtosis_p == pytest.approx(2 * stats.norm.sf(abs(found.kurtosis_statistic)), abs=1e-12)
    zirkler = henze_zirkler(case.records)
    assert zirkler.statistic == pytest.approx(literal_henze_zirkler(case.records), abs=1e-8)
    assert zirkler.records == n


def test_joint_statistics_are_those_of_other_programs():
    """The embedded cohort in R 4.2.2 with psych 2.2.9 (n − 1 below the line, hence powers), and pingouin 0.7.0."""
    cohort = abo.demo_cohort().values
    found, ratio = mardia(whiten(cohort)), 503 / 502
    assert found.skewness == pytest.approx(6.85948356822262 * ratio**3, rel=1e-10)
    assert found.kurtosis == pytest.approx(62.1462143900931 * ratio**2, rel=1e-10)
    assert found.skewness_statistic == pytest.approx(579.633180086947 * ratio**3, rel=1e-10)
    zirkler = henze_zirkler(cohort)
    assert zirkler.statistic == pytest.approx(1.0620313090319802, abs=1e-10)
    assert zirkler.p == pytest.approx(0.012702449250287122, abs=1e-10)
    few = henze_zirkler(cohort[:40, :3])
    assert (few.statistic, few.p) == pytest.approx((0.9612951781110546, 0.02775143552370294), abs=1e-10)


def test_column_statistics_are_those_of_other_programs():
    """R 4.2.2 with nortest 1.0-4 for Anderson and Darling's test; SciPy for the rest."""
    cohort = abo.demo_cohort().values
    shape = Shape.of(cohort)
    nortest = [0.378518068176959, 0.408339992044318, 0.660575582587967, 0.905763878449307, 0.609195107568098]
    values = [0.405464233746478, 0.345417377300142, 0.0841594576220604, 0.020863442566793, 0.112760633436256]
    np.testing.assert_allclose(shape.anderson, nortest, atol=1e-10)
    np.testing.assert_allclose(shape.anderson_p, values, atol=1e-10)
    np.testing.assert_allclose(shape.skewness, stats.skew(cohort), atol=1e-12)
    np.testing.assert_allclose(shape.excess_kurtosis, stats.kurtosis(cohort), atol=1e-12)
    test = stats.normaltest(cohort)
    np.testing.assert_allclose(shape.moments_statistic, test.statistic, rtol=1e-10)
    np.testing.assert_allclose(shape.moments_p, test.pvalue, atol=1e-12)


def test_both_ways_to_mardias_skewness_agree(rng):
    for n, p in ((7, 3), (600, 2), (1100, 5)):
        white = whiten(rng.gamma(2, size=(n, p)))
        assert _third_moments(white) == pytest.approx(_cubed_products(white), rel=1e-10)


def test_of_one_column_mardias_measures_are_the_columns(rng):
    values = rng.gamma(3, size=(200, 1))
    found = mardia(whiten(values))
    assert found.skewness == pytest.approx(stats.skew(values)[0] ** 2, rel=1e-10)
    assert found.kurtosis == pytest.approx(stats.kurtosis(values, fisher=False)[0], rel=1e-10)


@settings(max_examples=25)
@given(cases(max_p=4, max_n=60, min_n=10))
def test_joint_tests_do_not_change_with_the_columns_scale_or_direction(case):
    p = case.records.shape[1]
    turn = np.linalg.qr(case.rng.standard_normal((p, p)))[0] * 10 ** case.rng.uniform(-2, 2, p)
    moved = case.records @ turn.T + 3
    one, other = mardia(whiten(case.records)), mardia(whiten(moved))
    assert other.skewness == pytest.approx(one.skewness, rel=1e-6, abs=1e-8)
    assert other.kurtosis == pytest.approx(one.kurtosis, rel=1e-6)
    assert henze_zirkler(moved).statistic == pytest.approx(henze_zirkler(case.records).statistic, abs=1e-6)


@pytest.mark.parametrize(("n", "p"), [(25, 3), (100, 2)])
def test_mardias_statistics_have_their_exact_moments_under_normality(n, p, rng):
    found = [mardia(whiten(rng.standard_normal((n, p)))) for _ in range(3000)]
    kurtosis = np.array([each.kurtosis_statistic for each in found])
    skewness = np.array([each.skewness_statistic for each in found])
    assert abs(kurtosis.mean()) < 5 / np.sqrt(3000)
    fourth = np.mean((kurtosis - kurtosis.mean()) ** 4)
    assert abs(kurtosis.var() - 1) < 5 * np.sqrt((fourth - 1) / 3000)
    assert abs(skewness.mean() - p * (p + 1) * (p + 2) / 6) < 5 * skewness.std() / np.sqrt(3000)


def test_distances_have_the_stated_distribution_exactly(rng):
    """With few records a χ² would be far off: (n−1)²/n·Beta(p/2, (n−p−1)/2) is not."""
    n, p = 12, 4
    first = []
    for _ in range(1500):
        values = rng.standard_normal((n, p))
        step = values[0] - values.mean(axis=0)
        first.append(step @ np.linalg.solve(np.cov(values.T), step))
    beta = stats.beta(p / 2, (n - p - 1) / 2, scale=(n - 1) ** 2 / n)
    assert stats.kstest(first, beta.cdf).pvalue > 1e-5
    assert stats.kstest(first, stats.chi2(p).cdf).pvalue < 1e-5
    found = abo.check_normality(values)
    place = (np.arange(n) + 0.5) / n
    np.testing.assert_allclose(found.distance_quantiles, beta.ppf(place), rtol=1e-8)
    assert found.squared_distances.sum() == pytest.approx((n - 1) * p)
    np.testing.assert_allclose(found.qq_normal, stats.norm.ppf(place), atol=1e-12)
    standard = np.sort((values - values.mean(axis=0)) / values.std(axis=0, ddof=1), axis=0)
    np.testing.assert_allclose(found.qq_values, standard.T, atol=1e-12)


def test_long_tables_are_sampled_where_pairs_are_too_many_and_it_is_said(rng):
    values = rng.standard_normal((20_500, 2))
    one, other = abo.check_normality(values), abo.check_normality(values)
    assert one.henze_zirkler.records == 20_000
    assert one.henze_zirkler == other.henze_zirkler
    assert len(one.qq_normal) == len(one.squared_distances) <= 1000
    assert one.qq_values.shape == (2, len(one.qq_normal))
    np.testing.assert_allclose(one.qq_values[:, [0, -1]].T, extremes(values), atol=1e-8)


def extremes(values):
    standard = (values - values.mean(axis=0)) / values.std(axis=0, ddof=1)
    return np.stack([standard.min(axis=0), standard.max(axis=0)])


SHAPES = {
    "normal": (lambda rng, n: 7 + 3 * rng.standard_normal(n), "fit", "use it as it is"),
    "lognormal": (lambda rng, n: np.exp(rng.standard_normal(n)), "not fit", 'declare the scale "log" for it'),
    "share": (
        lambda rng, n: 1 / (1 + np.exp(-2 - 2 * rng.standard_normal(n))),
        "not fit",
        "good for means and correlations alone",
    ),
    "left": (
        lambda rng, n: np.sqrt(np.abs(10 + 4 * rng.standard_normal(n))),
        "not fit",
        "good for means and correlations alone",
    ),
    "heavy": (lambda rng, n: rng.standard_t(2, n), "not fit", "good for means and correlations alone"),
    "groups": (
        lambda rng, n: rng.standard_normal(n) + 8 * rng.integers(0, 2, n),
        "not fit",
        "good for means and correlations alone",
    ),
    "binary": (lambda rng, n: rng.integers(0, 2, n), "not fit", "declare it a category"),
    "spike": (lambda rng, n: np.maximum(rng.standard_normal(n) - 0.5, 0), "not fit", "another method"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_verdict_and_advice_by_column(name, rng):
    draw, level, advice = SHAPES[name]
    frame = pd.DataFrame({name: draw(rng, 3000), "other": rng.standard_normal(3000)})
    verdict, other = abo.check_normality(frame).verdicts
    assert verdict.subject == name
    assert verdict.level == level
    assert advice in verdict.advice
    assert verdict.words.startswith(verdict.level)
    assert other.words == "fit"


def test_many_records_make_p_small_but_not_the_verdict(rng):
    """Skewness 0.1 in 100,000 records: every test rejects, and the column is fit."""
    values = rng.gamma(400, size=(100_000, 2))
    found = abo.check_normality(values)
    assert found.mardia.skewness_p < 1e-6
    assert np.all(found.shape.moments_p < 1e-6)
    assert found.level == "fit"


def test_few_records_have_large_effects_by_chance_and_pass(rng):
    """In normal columns of 30 records one in seven has |skewness| > ½; verdicts are rarely other than fit."""
    shape = Shape.of(rng.standard_normal((30, 3000)))
    assert np.mean(np.abs(shape.skewness) > 0.5) > 0.1
    assert np.mean(shape.levels > 0) < 0.02 + 5 * np.sqrt(0.02 / 3000)
    assert np.mean(shape.levels > 1) < 0.005 + 5 * np.sqrt(0.005 / 3000)


def test_columns_alone_may_be_fit_where_together_they_are_not(rng):
    column = rng.standard_normal(2000)
    found = abo.check_normality(column[:, None] * rng.choice([-1, 1], (2000, 3)))
    assert [verdict.level for verdict in found.verdicts] == ["fit"] * 3
    assert found.together.level == found.level == "not fit"
    assert found.together.advice.startswith("good for means and correlations alone: how the columns go together")


def test_an_outlier_is_named_as_the_cause_and_the_rest_is_fit():
    found = abo.check_normality(abo.demo_cohort())
    by_name = {verdict.subject: verdict for verdict in found.verdicts}
    assert "one record far outside the rest" in by_name["BMI"].words
    assert "leave it out; the rest is fit" in by_name["BMI"].advice
    assert "one record far outside the rest" in found.together.words
    rest = abo.check_normality(np.delete(abo.demo_cohort().values, 211, axis=0))
    assert rest.level == "fit"


def test_what_cannot_be_told_is_said(rng):
    few = abo.check_normality(rng.standard_normal((12, 3)))
    assert {verdict.words for verdict in few.verdicts} == {"doubtful: 12 records are too few to tell"}
    wide = abo.check_normality(rng.standard_normal((30, 40)))
    assert wide.mardia is None
    assert wide.henze_zirkler is None
    assert wide.together.words == "doubtful: 30 records are too few to tell"
    assert wide.squared_distances.shape == (0,)
    column = rng.standard_normal(100)
    twice = abo.check_normality(abo.Records(np.column_stack([column, 2 * column]), ("a", "b")))
    assert twice.together.words == "not fit: columns repeat each other"
    for n in (2, 3, 4):
        assert abo.check_normality(rng.standard_normal((n, 1))).level == "doubtful"
    with pytest.raises(abo.InputError, match="'x1' is constant"):
        abo.check_normality(abo.Records(np.ones((30, 1)), ("x1",)))


def test_the_cure_is_the_scale_that_the_table_of_columns_proposes(rng):
    """Also where what categories explain was taken out, so that values are negative; never the scale it has."""
    values = np.exp(rng.normal(1, 1.2, 300))
    for declared, advice in (("as it is", 'declare the scale "log"'), ("log", "use it as it is")):
        schema = {"columns": {"crp": {"scale": declared}}}
        records = abo.Records.of(pl.DataFrame({"crp": values}), schema=schema)
        assert abo.check_normality(records).verdicts[0].advice.startswith(advice)
    assert proposed_scale(values) == "log"
    raw = abo.Records.of(pl.DataFrame({"crp": values}))
    left = abo.Records(raw.values - raw.values.mean(), ("crp",))
    assert abo.check_normality(left, of=raw).verdicts[0].advice.startswith('declare the scale "log"')
    rooted = abo.Records.of(pl.DataFrame({"crp": values}), schema={"columns": {"crp": {"scale": "sqrt"}}})
    told = abo.check_normality(rooted).verdicts[0].advice
    assert "sqrt" not in told
    assert "square" not in told
