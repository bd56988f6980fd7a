"""Real against synthetic: every statistic beside SciPy's, R's or its formula written out, and its laws."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import allbutone as abo
from allbutone.utility.columns import ks_numerators, ks_p_values, propensity
from allbutone.utility.shapes import densities
from allbutone.utility.telling_apart import MOST_DATASETS, tree_error

COLUMNS = ("a", "b", "c")


def table(rng, n=60, p=3):
    return rng.standard_normal((n, p)) @ (np.eye(p) + 0.4 * rng.standard_normal((p, p)))


def compared(rng, sizes=(60, 40, 40, 75, 60), n=60):
    records = abo.Records(table(rng, n), COLUMNS)
    return records, abo.Release.of([table(rng, size) for size in sizes], COLUMNS)


def literal_pmse(real, synthetic):
    """Logistic regression by the textbook's Newton steps."""
    rows = np.vstack([real, synthetic])
    design = np.column_stack([np.ones(len(rows)), (rows - rows.mean(axis=0)) / rows.std(axis=0)])
    label = np.repeat([0.0, 1.0], [len(real), len(synthetic)])
    beta = np.zeros(design.shape[1])
    for _ in range(40):
        fitted = 1 / (1 + np.exp(-design @ beta))
        information = design.T @ (design * (fitted * (1 - fitted))[:, None])
        beta = beta + np.linalg.solve(information, design.T @ (label - fitted))
    return np.mean((fitted - label.mean()) ** 2)


def test_every_statistic_is_its_definition(rng):
    records, release = compared(rng)
    found, real = abo.fidelity(records, release), records.values
    np.testing.assert_allclose(found.correlations, np.corrcoef(real.T), atol=1e-12)
    for place, data in enumerate(release.values):
        np.testing.assert_allclose(found.synthetic_correlations[place], np.corrcoef(data.T), atol=1e-12)
        pooled = np.sqrt((real.var(axis=0, ddof=1) + data.var(axis=0, ddof=1)) / 2)
        expected = (data.mean(axis=0) - real.mean(axis=0)) / pooled
        np.testing.assert_allclose(found.mean_differences[place], expected, atol=1e-12)
        spreads = data.std(axis=0, ddof=1) / real.std(axis=0, ddof=1)
        np.testing.assert_allclose(found.spread_ratios[place], spreads, rtol=1e-10)
        for column in range(3):
            test = stats.ks_2samp(real[:, column], data[:, column])
            assert found.ks[place, column] == pytest.approx(test.statistic, abs=1e-12)
            assert found.ks_p[place, column] == pytest.approx(test.pvalue, abs=1e-10)
        assert found.pmse[place] == pytest.approx(literal_pmse(real, data), abs=1e-10)
        share = len(data) / (len(data) + 60)
        assert found.pmse_expected[place] == pytest.approx(3 * share * (1 - share) ** 2 / (len(data) + 60))
    np.testing.assert_array_equal(found.rows, release.rows)
    assert np.all(found.propensity_finite)


def test_summaries_over_datasets(rng):
    found = abo.fidelity(*compared(rng))
    summary = found.ks_table()
    assert tuple(summary["column"]) == COLUMNS
    np.testing.assert_allclose(summary["ks_mean"], found.ks.mean(axis=0))
    np.testing.assert_allclose(summary["p_sd"], found.ks_p.std(axis=0, ddof=1))
    np.testing.assert_allclose(summary["p_share"], (found.ks_p > 0.05).mean(axis=0))
    np.testing.assert_allclose(found.correlation_quartiles[1], np.median(found.synthetic_correlations, axis=0))
    upper = np.quantile(found.mean_differences, 0.75, axis=0)
    np.testing.assert_allclose(found.mean_difference_quartiles[2], upper)
    within = np.abs(found.mean_difference_quartiles).max(axis=0) <= 0.1
    np.testing.assert_array_equal(found.means_within_band, within)


def test_pmse_is_that_of_r():
    """glm(t ~ ., binomial) in R 4.2.2: rows 1 to 150 of the embedded cohort as real, 201 to 300 as synthetic."""
    values = abo.demo_cohort().values
    found = abo.fidelity(values[:150], abo.Release.of([values[200:300]]))
    assert found.pmse[0] == pytest.approx(0.00374650771506918, abs=1e-12)
    # ks.test of the columns without ties
    np.testing.assert_allclose(found.ks[0, 2:], [0.0933333333333334, 0.12, 0.106666666666667], atol=1e-12)


@settings(max_examples=60)
@given(
    st.integers(1, 120), st.lists(st.integers(1, 120), min_size=1, max_size=4), st.integers(0, 2**32 - 1),
    st.sampled_from([None, 0, 1]), st.sampled_from([0.0, 0.3, 2.0])
)  # fmt: skip
def test_kolmogorov_smirnov_is_that_of_scipy(n, sizes, seed, digits, shift):
    """Any two sizes, ties or none, alike or far apart."""
    rng = np.random.default_rng(seed)
    real, columns = rng.standard_normal(n), [shift + rng.standard_normal(size) for size in sizes]
    if digits is not None:
        real, columns = np.round(real, digits), [np.round(column, digits) for column in columns]
    seen = np.array([[*ks_numerators(np.sort(real), column[None])] for column in columns])
    found = ks_p_values(n, np.array(sizes), seen)
    for column, top, p_value in zip(columns, seen[:, 0], found[:, 0], strict=True):
        try:
            test = stats.ks_2samp(real, column)
        except RuntimeWarning:  # SciPy gives an exact p up where it rounds to just above 1
            assert p_value == pytest.approx(1, abs=1e-10)
            continue
        assert top / (n * len(column)) == pytest.approx(test.statistic, abs=1e-12)
        assert p_value == pytest.approx(test.pvalue, abs=1e-10)


@pytest.mark.parametrize(("n", "rows"), [(503, 503), (503, 500), (9000, 400), (300, 10_001), (20_000, 20_000)])
def test_kolmogorov_smirnov_of_larger_tables_is_that_of_scipy(n, rows, rng):
    real, data = rng.standard_normal(n), np.array([[0], [0.05], [0.5]]) + rng.standard_normal((3, rows))
    found = ks_p_values(n, np.full(3, rows), ks_numerators(np.sort(real), data)[:, None])[:, 0]
    expected = [stats.ks_2samp(real, column).pvalue for column in data]
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_a_copy_of_the_table_is_perfect(rng):
    records = table(rng)
    found = abo.fidelity(records, abo.Release.of([records, records[::-1]]))
    np.testing.assert_allclose(found.correlation_differences, 0, atol=1e-12)
    np.testing.assert_allclose(found.mean_differences, 0, atol=1e-12)
    assert np.all(found.ks == 0)
    assert np.all(found.ks_p == 1)
    np.testing.assert_allclose(found.pmse, 0, atol=1e-20)


def test_units_do_not_matter(rng):
    """Any shift and positive scale of a column leaves every measure as it was."""
    records, release = compared(rng)
    scale, shift = np.array([1e-3, 7.0, 1e5]), np.array([1e3, -50.0, 1e9])
    moved = abo.Release.of([scale * data + shift for data in release.values], COLUMNS)
    one = abo.fidelity(records, release)
    other = abo.fidelity(abo.Records(scale * records.values + shift, COLUMNS), moved)
    for name in ("correlations", "synthetic_correlations", "mean_differences", "ks", "ks_p", "pmse"):
        np.testing.assert_allclose(getattr(other, name), getattr(one, name), atol=1e-8)


def test_columns_are_matched_by_name_and_the_rest_left_out(rng):
    records, release = compared(rng)
    frame = pd.DataFrame(records.values, columns=list(COLUMNS))[["c", "a", "b"]].assign(id=np.arange(60))
    one, other = abo.fidelity(records, release), abo.fidelity(frame, release)
    assert other.columns == COLUMNS
    np.testing.assert_array_equal(one.ks, other.ks)
    np.testing.assert_allclose(one.pmse, other.pmse, rtol=1e-10)
    with pytest.raises(abo.InputError, match="no column 'c'"):
        abo.fidelity(frame.drop(columns="c"), release)


def test_what_separates_wholly_or_in_part_has_its_limit(rng):
    real, far = table(rng), table(rng, 40) + 50
    found = abo.fidelity(real, abo.Release.of([far, table(rng, 40)]))
    assert list(found.propensity_finite) == [False, True]
    assert found.pmse[0] == pytest.approx(0.6 * 0.4, abs=1e-8)
    assert np.all(found.ks[0] == 1)
    # more columns than rows: any labels can be told apart
    wide = abo.fidelity(rng.standard_normal((10, 30)), abo.Release.of(list(rng.standard_normal((40, 10, 30)))))
    assert not wide.propensity_finite.any()
    np.testing.assert_allclose(wide.pmse, 0.25, atol=1e-8)
    # all real rows at or below 0, all synthetic at or above: only those at 0 stay undecided, 2 of 5
    below, above = np.array([[-2.0, -1.0, 0.0, 0.0, 0.0]]), np.array([[[0.0, 0.0, 1.0, 2.0, 3.0]]])
    error, finite = propensity(below, above)
    assert not finite[0]
    assert error[0] == pytest.approx((5 * 0.25 + 5 * 0.01) / 10, abs=1e-8)


@pytest.mark.parametrize("rows", [250, 500, 1000])
def test_expected_pmse_by_simulation(rows, rng):
    """synthpop's expectation holds for datasets of one and the same parameters, ours where each has its own."""
    values = rng.standard_normal((500, 4))
    own = abo.NIW(np.zeros(4), 1e-6, 5.0, 1e-6 * np.eye(4)).update(values)
    mean, root = values.mean(axis=0), np.linalg.cholesky(np.cov(values.T))
    same = abo.Release.of([mean + rng.standard_normal((rows, 4)) @ root.T for _ in range(300)])
    drawn = abo.Release.draw(own, [rows] * 300, rng)
    # pMSE over its expectation is about χ²_p/p
    error = np.sqrt(2 / 4 / 300)
    alike = abo.fidelity(values, same)
    assert abs(np.mean(alike.pmse / alike.pmse_expected) - 1) < 5 * error + 0.02
    assert abs(abo.fidelity(values, drawn).pmse_ratio_drawn.mean() - 1) < 5 * error + 0.02


def test_the_embedded_cohort_meets_the_papers_table_in_kind():
    """The paper: mean D 0.053 to 0.065, mean p 0.33 to 0.52, 90 to 97 % of p above 0.05; SMD within ±0.1."""
    prior = abo.NIW(np.full(5, 1.1), 1.0, 7.0, np.eye(5))
    release = abo.Synthesizer(prior).fit(abo.demo_cohort()).sample(datasets=1000)
    found = abo.fidelity(abo.demo_cohort(), release)
    summary = found.ks_table()
    assert np.all((summary["ks_mean"] > 0.048) & (summary["ks_mean"] < 0.068))
    assert np.all((summary["p_mean"] > 0.3) & (summary["p_mean"] < 0.6))
    slack = 5 * np.sqrt(0.05 * 0.95 / 1000)
    assert np.all(found.ks_p_share > 0.90 - slack)
    # all but BMI, where the outlier lies furthest out: about 91 %, and 94 % without that record
    assert np.all(np.delete(found.ks_p_share, 3) > 0.94 - slack)
    assert np.all(found.means_within_band)
    assert np.abs(found.correlation_differences.mean(axis=0)).max() < 0.02


def test_densities_are_kernel_densities(rng):
    records = abo.Records(rng.standard_normal((60, 3)), COLUMNS)
    release = abo.Release.of([rng.standard_normal((size, 3)) for size in (60, 300, 500)], COLUMNS)
    found = densities(records, release)
    for place, name in enumerate(found.columns):
        pooled = np.concatenate([data[:, place] for data in release.values])
        for values, ours in ((records.values[:, place], found.real[place]), (pooled, found.synthetic[place])):
            theirs = stats.gaussian_kde(values, found.bandwidth[place] / values.std(ddof=1))(found.grid[place])
            np.testing.assert_allclose(ours, theirs, atol=1e-3 * theirs.max(), err_msg=name)
            assert 0.97 < np.trapezoid(ours, found.grid[place]) < 1.001


def test_densities_look_past_a_value_far_outside(rng):
    values = rng.standard_normal((500, 1))
    values[0] = 1e6
    found = densities(values, abo.Release.of([rng.standard_normal((500, 1))]))
    assert found.grid[0, -1] < 20
    assert found.real.max() > 0.3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: (r, abo.Release.of_parameters(np.zeros((1, 3)), np.eye(3)[None])), "no datasets"),
        (lambda r: (r, abo.Release.of([r, r[:1]])), "dataset 2 has one row"),
        (lambda r: (r, abo.Release.of([r, r * [1, 0, 1]])), "column 'x2' of dataset 2 is constant"),
        (
            lambda r: (abo.Records(r * [1, 0, 1], COLUMNS), abo.Release.of([r], COLUMNS)),
            "'b' of the table is constant",
        ),
        (lambda r: (abo.Records(r[:1], COLUMNS), abo.Release.of([r], COLUMNS)), "one row"),
        (lambda r: (r[:, :2], abo.Release.of([r])), "there is no column 'x3'"),
        (lambda r: (r[:, [0, 0]], abo.Release.of([r[:, [0, 0]]])), "'x2' is determined by 'x1'"),
    ],
)
def test_what_cannot_be_compared_is_refused(change, message, rng):
    with pytest.raises(abo.InputError, match=message):
        abo.fidelity(*change(table(rng)))


# the classification tree


def literal_tree(rows, labels):
    """A tree by its definition: try every split of every column, take the best, go on with both parts."""
    least, share = max(5, -(-len(rows) // 20)), np.mean(labels)

    def gini(labels):
        return len(labels) * np.mean(labels) * (1 - np.mean(labels))

    def grow(members):
        best = (1e-9, None)
        for count in range(least, len(members) - least + 1):
            for column in rows.T:
                order = members[np.argsort(column[members], kind="stable")]
                left, right = order[:count], order[count:]
                if column[left[-1]] < column[right[0]]:
                    gain = gini(labels[members]) - gini(labels[left]) - gini(labels[right])
                    if gain > best[0] + 1e-9:
                        best = (gain, (left, right))
        if best[1] is None:
            return len(members) * (np.mean(labels[members]) - share) ** 2
        return sum(grow(part) for part in best[1])

    return grow(np.arange(len(rows))) / len(rows)


@pytest.mark.parametrize("decimals", [0, 1, 12])
def test_the_tree_is_its_definition(rng, decimals):
    for n in (8, 40, 90, 130):
        rows, labels = table(rng, n).round(decimals), rng.random(n) < rng.uniform(0.2, 0.8)
        assert tree_error(rows.T, labels) == pytest.approx(literal_tree(rows, labels), abs=1e-12)


def test_the_tree_sees_only_the_order_of_values(rng):
    rows, labels = table(rng, 200), rng.random(200) < 0.4
    error = tree_error(rows.T, labels)
    assert tree_error(np.exp(rows).T, labels) == tree_error(5 * rows.T + 2, labels) == error
    assert tree_error(rows.T, ~labels) == pytest.approx(error, rel=1e-12)
    assert tree_error(np.ones((2, 50)), np.arange(50) < 20) == 0
    assert tree_error(np.arange(50.0)[None], np.arange(50) < 20) == pytest.approx(0.4 * 0.6)


def test_the_trees_ratio_is_one_under_a_right_model(rng):
    values = rng.standard_normal((300, 3))
    own = abo.NIW(np.zeros(3), 1e-6, 4.0, 1e-6 * np.eye(3)).update(values)
    found = abo.fidelity(values, abo.Release.draw(own, [300] * 60, rng), rng=rng)
    ratio = found.pmse_tree_ratio
    # all datasets share one table, which may by chance lie anywhere among those of its model
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(60) + 0.15


def test_the_tree_sees_what_main_effects_do_not(rng):
    root = [[1, 0], [0.8, 0.6]]
    real = rng.standard_normal((400, 2)) @ root
    other = abo.Release.of([rng.standard_normal((400, 2)) @ root @ np.diag([1, -1]) for _ in range(5)])
    found = abo.fidelity(real, other, rng=rng)
    assert np.median(found.pmse_tree_ratio) > 2
    assert np.mean(found.pmse_ratio_drawn) < 15  # about χ²₂/2


def test_the_tree_is_the_same_each_time_and_bounded(rng):
    real = rng.standard_normal((20, 2))
    release = abo.Release.of([rng.standard_normal((rows, 2)) for rows in (20, 30) * 55])
    one, two = abo.fidelity(real, release), abo.fidelity(real, release)
    np.testing.assert_array_equal(one.pmse_tree_ratio, two.pmse_tree_ratio)
    assert len(one.pmse_tree) == MOST_DATASETS < len(one.pmse)
    assert len(np.unique(one.pmse_tree_expected)) == 2  # one a size
    with np.errstate(all="raise"):
        assert np.isnan(abo.fidelity(real[:3], abo.Release.of([real[3:6]])).pmse_tree_ratio[0])
    large = abo.Release.of([rng.standard_normal((60_000, 2))])
    assert abo.fidelity(rng.standard_normal((40_000, 2)), large).pmse_tree_ratio[0] == pytest.approx(1, abs=0.9)
