"""Combining rules: their formulas, and that 95 % intervals cover the population's value as often as they say."""

import numpy as np
import pyarrow
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import allbutone as abo
from allbutone.releases.combining import _mean_of_cut_normal
from allbutone.tables.column import column_from
from allbutone.tables.schema import Schema


def population(rng, tables, people, p=2):
    """Moments of many independent tables from N(0, I), and the posterior of each."""
    records = rng.standard_normal((tables, people, p))
    mean = records.mean(axis=1)
    centred = records - mean[:, None]
    moments = abo.Moments(float(people), mean, centred.swapaxes(1, 2) @ centred)
    return abo.NIW.default(p).update(moments)


def synthesized(rng, posterior, rows):
    """For each table a dataset of every size in `rows`: means (m, tables, p) and scatters (m, tables, p, p)."""
    means, scatters = [], []
    for size in rows:
        centre, root = (part[0] for part in posterior.draw_roots(rng, 1))
        data = centre[:, None] + rng.standard_normal((len(centre), size, posterior.p)) @ root.swapaxes(1, 2)
        means.append(data.mean(axis=1))
        centred = data - means[-1][:, None]
        scatters.append(centred.swapaxes(1, 2) @ centred)
    return np.stack(means), np.stack(scatters)


def combined_means(rng, tables, people, rows, **options):
    means, scatters = synthesized(rng, population(rng, tables, people), rows)
    sizes = np.array(rows)
    variances = np.diagonal(scatters, axis1=2, axis2=3) / (sizes * (sizes - 1))[:, None, None]
    return abo.combine(means, variances, people=people, rows=rows, **options)


def covered(found, truth=0.0):
    return np.mean((found.low <= truth) & (truth <= found.high))


def slack(tables):
    """Five binomial standard errors, counting a table once though it has several columns."""
    return 5 * np.sqrt(0.95 * 0.05 / tables)


ONE = [(100, [100]), (20, [20]), (20, [200]), (300, [20])]
SEVERAL = [(100, [50] * 3), (50, [50] * 10), (60, [20, 60, 300])]


@pytest.mark.parametrize(("people", "rows"), ONE + SEVERAL)
def test_within_covers_as_often_as_it_says(people, rows, rng):
    """From one dataset or several, of few rows or many, of one size or of several."""
    tables = 10_000
    for level in (0.95, 0.5):
        found = combined_means(rng, tables, people, rows, level=level)
        # the prior, worth one record, draws towards the truth: errors are smaller by a share of 1/(2n) or so
        assert abs(covered(found) - level) < 5 * np.sqrt(level * (1 - level) / tables) + 0.4 / people


@pytest.mark.parametrize(("people", "rows"), ONE[:1] + SEVERAL)
def test_the_variance_is_that_of_the_estimate(people, rows, rng):
    """On average T is the mean squared error of q̄: σ²·(1/n + Σ(1/n + 1/k)/m²), the prior taken into account."""
    tables = 4000
    found = combined_means(rng, tables, people, rows)
    squared = found.estimate**2
    # the prior's mean, worth one record, is the truth: errors shrink by n/(n + 1)
    error = 5 * np.sqrt(2 / (2 * tables))
    assert abs(squared.mean() / found.variance.mean() - 1) < error + 2 / people
    exact = 1 / people + np.mean(1 / people + 1 / np.array(rows)) / len(rows)
    assert abs(found.variance.mean() / exact - 1) < error + 2 / people


@pytest.mark.parametrize(("rows", "known"), [([100] * 100, "exact"), ([60] * 5, "wide"), ([60] * 20, "wide")])
def test_between_covers_and_is_wide_with_few_datasets(rows, known, rng):
    """With few datasets the rule's few degrees of freedom make it cover more than 95 %: known, and allowed."""
    tables = 1000 if known == "exact" else 3000
    found = combined_means(rng, tables, 60, rows, rule="between")
    share = covered(found)
    assert share > 0.95 - slack(tables) - 0.005
    if known == "exact":
        assert share < 0.95 + slack(tables)
        assert not found.adjusted.any()
    else:
        assert np.mean(found.adjusted) > 0


def test_a_regression_slope_is_covered_too(rng):
    """Not only means: the slope of the second column on the first, 0 in the population."""
    tables, people, rows = 3000, 80, [80, 80]
    _, scatter = synthesized(rng, population(rng, tables, people), rows)
    slope = scatter[..., 0, 1] / scatter[..., 0, 0]
    rest = scatter[..., 1, 1] - slope * scatter[..., 0, 1]
    found = abo.combine(slope, rest / (80 - 2) / scatter[..., 0, 0], people=people, rows=rows)
    assert abs(covered(found) - 0.95) < slack(tables) + 0.01


def test_taking_synthetic_data_for_real_does_not_cover(rng):
    """Why the rules are needed: with n = k and one dataset the naive interval covers 2·Φ(1.96/√3) − 1 = 74 %."""
    tables = 4000
    found = combined_means(rng, tables, 200, [200])
    naive = np.mean(np.abs(found.estimate) < 1.96 * np.sqrt(found.within))
    assert abs(naive - (2 * stats.norm.cdf(1.96 / np.sqrt(3)) - 1)) < slack(tables) + 0.02


def test_the_whole_way_from_table_to_interval(rng):
    hits = []
    prior = abo.NIW([10.0, 0.0], 0.01, 4.0, np.eye(2))
    for _ in range(300):
        records = rng.standard_normal((50, 2)) * [2.0, 0.5] + [10.0, -1.0]
        release = abo.Synthesizer(prior).fit(records).sample(datasets=3, rows=80, rng_for_tests=rng)
        found = abo.combine(release, people=50)
        hits.append((found.low < [10.0, -1.0]) & (found.high > [10.0, -1.0]))
    assert abs(np.mean(hits) - 0.95) < slack(300) + 0.005


def test_within_is_its_formula(rng):
    q, v, n, k, m = rng.standard_normal((4, 3)), rng.uniform(1, 2, (4, 3)), 70, 30, 4
    found = abo.combine(q, v, people=n, rows=k)
    np.testing.assert_allclose(found.estimate, q.mean(axis=0))
    np.testing.assert_allclose(found.variance, v.mean(axis=0) * (k / n + (1 + k / n) / m))
    share = (k / n) / (k / n + (1 + k / n) / m)
    df = 1 / (share**2 * (1 + 1 / m) / (n - 1) + 1 / (m * (k - 1)))
    np.testing.assert_allclose(found.df, df)
    reach = stats.t.ppf(0.975, df) * np.sqrt(found.variance)
    np.testing.assert_allclose(found.low, found.estimate - reach)
    np.testing.assert_allclose(found.high, found.estimate + reach)
    one = abo.combine([5.0], [2.0], people=n, rows=k)
    assert one.variance == pytest.approx(2.0 * (1 + 2 * k / n))
    assert np.isnan(one.between)


def test_between_is_its_formula_and_never_negative():
    q, v = np.array([[1.0, 1.0], [3.0, 1.1], [5.0, 0.9]]), np.array([[1.0, 2.0], [2.0, 2.0], [1.5, 2.0]])
    found = abo.combine(q, v, people=50, rows=25, rule="between")
    b, mean = np.var(q, axis=0, ddof=1), v.mean(axis=0)
    assert found.variance[0] == pytest.approx(4 / 3 * b[0] - mean[0])
    assert found.df[0] == pytest.approx(2 * (1 - mean[0] / (4 / 3 * b[0])) ** 2)
    assert list(found.adjusted) == [False, True]
    assert found.variance[1] == pytest.approx(25 / 50 * mean[1])
    assert found.df[1] == 2
    np.testing.assert_allclose(found.between, b)


def test_nothing_known_of_the_variance_is_an_unbounded_interval_and_no_variance_a_point():
    q, m = np.array([0.0, 2.0]), 2
    at_zero = (1 + 1 / m) * np.var(q, ddof=1)
    found = abo.combine(q, [at_zero * (1 - 1e-9)] * 2, people=9, rows=9, rule="between")
    assert found.high == np.inf
    for rule in ("within", "between"):
        point = abo.combine([3.0, 3.0], [0.0, 0.0], people=9, rows=9, rule=rule)
        assert point.low == point.estimate == point.high == 3


def test_means_of_a_release_are_combined_as_their_estimates(rng):
    data = [rng.standard_normal((size, 2)) for size in (10, 20, 40)]
    found = abo.combine(abo.Release.of(data), people=33)
    estimates = [each.mean(axis=0) for each in data]
    variances = [each.var(axis=0, ddof=1) / len(each) for each in data]
    expected = abo.combine(estimates, variances, people=33, rows=[10, 20, 40])
    np.testing.assert_allclose(found.low, expected.low)
    np.testing.assert_allclose(found.df, expected.df)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"estimates": [1.0, 2.0, 3.0]}, "same for both, got"),
        ({"estimates": [], "variances": []}, "shape"),
        ({"variances": [1.0, -1.0]}, "not negative"),
        ({"estimates": [1.0, np.nan]}, "finite"),
        ({"people": 1}, "at least 2, got 1 and 9"),
        ({"rows": [9, 9.5]}, "whole number"),
        ({"rows": [9, 1]}, "at least 2"),
        ({"rows": [9, 9, 9]}, "rows names 3 sizes for 2 datasets"),
        ({"rule": "rubin"}, "'within' or 'between'"),
        ({"level": 95}, "between 0 and 1, got 95"),
        ({"estimates": [1.0], "variances": [1.0], "rule": "between"}, "no variance between"),
    ],
)
def test_what_cannot_be_combined_is_refused(change, message):
    given = {"estimates": [1.0, 2.0], "variances": [1.0, 1.0], "people": 9, "rows": 9} | change
    with pytest.raises(abo.InputError, match=message):
        abo.combine(given.pop("estimates"), given.pop("variances"), **given)


def test_releases_without_datasets_or_with_one_row_are_refused():
    with pytest.raises(abo.InputError, match="no datasets"):
        abo.combine(abo.Release.of_parameters(np.zeros((1, 2)), np.eye(2)[None]), people=9)
    with pytest.raises(abo.InputError, match="dataset 2 has one row"):
        abo.combine(abo.Release.of([np.eye(2), np.ones((1, 2))]), people=9)


def test_the_mean_of_a_normal_that_was_cut_has_the_highest_likelihood_and_its_curvature(rng):
    values = rng.normal(0.4, 1.3, 300).clip(0.0, 2.0)
    mean, variance = _mean_of_cut_normal(values, 0.0, 2.0)

    def height(at, log_spread):
        z, inside = (values - at) / np.exp(log_spread), (values > 0) & (values < 2)
        ends = norm.logcdf(z[values == 0]).sum() + norm.logsf(z[values == 2]).sum()
        return norm.logpdf(z[inside]).sum() - inside.sum() * log_spread + ends

    def highest(at):
        return -minimize_scalar(lambda log_spread: -height(at, log_spread), bounds=(-3, 3)).fun

    step = 0.02
    below, here, above = (highest(mean + off) for off in (-step, 0.0, step))
    assert here > max(below, above)
    assert (above - below) / (2 * step) == pytest.approx(0, abs=0.02)
    assert variance * 299 / 300 == pytest.approx(step**2 / (2 * here - below - above), rel=0.02)


def test_intervals_for_the_mean_of_a_column_with_a_limit_cover_as_often_as_they_say():
    rng, hits, cut, tables = np.random.default_rng(4), 0, 0, 300
    for _ in range(tables):
        whole = abo.NIW.flat(1).update(rng.standard_normal((80, 1)))
        means, spreads = whole.draw(rng, 4)
        drawn = means[:, None] + spreads[:, :1] ** 0.5 * rng.standard_normal((4, 80, 1))
        data = list(drawn.clip(-0.5))
        schema = Schema((column_from("x", {"low": -0.5}),))
        found = abo.combine(abo.Release.of(data, ["x"], schema=schema), people=80)
        hits += bool(found.low[0] <= 0 <= found.high[0])
        plain = abo.combine([each.mean() for each in data], [each.var() / 80 for each in data], people=80, rows=80)
        cut += bool(plain.low <= 0 <= plain.high)
    # the real table's own part is counted with what the limit hides, too: a little cautious
    error = (0.95 * 0.05 / tables) ** 0.5
    assert 0.95 - 3 * error < hits / tables < 0.97 + 3 * error
    assert cut / tables < 0.8


def test_means_of_a_column_at_its_limit_say_that_they_are_biased(rng):
    values = np.stack([rng.exponential(size=200), rng.normal(10, 1, 200)], axis=1)
    table = abo.Records.of(
        pyarrow.table({"x": values[:, 0], "y": values[:, 1]}), schema={"columns": {"x": {"low": 0.0}}}
    )
    release = abo.Synthesizer().fit(table).sample(datasets=3)
    note = abo.combine(release, people=200).note
    assert "The means of x are of normals that were cut there" in note
    assert "biases" not in note
    frame = pyarrow.table({"x": values[:, 0], "y": values[:, 1], "sex": ["f", "m"] * 100})
    mixed = abo.Synthesizer().fit(frame, schema={"columns": {"x": {"low": 0.0}}}).sample(datasets=3)
    assert "That biases the means of x" in abo.combine(mixed, people=200).note
    free = abo.Synthesizer().fit(abo.Records(values, ("x", "y"))).sample(datasets=3)
    assert abo.combine(free, people=200).note == ""
