"""Proportions and regressions from synthetic tables: their formulas, and that intervals cover as they say."""

import os

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import allbutone as abo
import location
from location import release_of


def frame(values, codes):
    """The table as R's model.matrix would code it, the first level of each category left out."""
    columns = {"age": values[:, 0], "bmi": values[:, 1]}
    for place, name in enumerate(location.CATEGORIES):
        for number, level in enumerate(location.LEVELS[place][1:], start=1):
            columns[f"{name}[{level}]"] = (codes[:, place] == number).astype(float)
    return columns


def drawn_release(rng, people=200, rows=(200,) * 3):
    tables = location.synthetic(rng, *location.population_table(rng, people), rows)
    return tables, release_of(tables)


def test_coefficients_and_variances_are_those_of_statsmodels(rng):
    tables, release = drawn_release(rng, rows=(150, 80))
    linear = abo.combine(release, ("bmi", ["stage", "age", "sex"]), people=200)
    odds = abo.combine(release, ("event", ["age", "stage"]), people=200)
    assert linear.names == ("intercept", "stage[2]", "stage[3]", "age", "sex[m]")
    assert odds.names == ("intercept", "age", "stage[2]", "stage[3]")
    for found, outcome, model in ((linear, "bmi", sm.OLS), (odds, "event[yes]", sm.Logit)):
        fits = []
        for columns in (frame(*table) for table in tables):
            design = np.column_stack([np.ones(len(columns["age"])), *(columns[name] for name in found.names[1:])])
            options = {} if model is sm.OLS else {"disp": 0, "tol": 1e-12, "maxiter": 100}
            fits.append(model(columns[outcome], design).fit(**options))
        np.testing.assert_allclose(found.estimate, np.mean([fit.params for fit in fits], axis=0), rtol=1e-8)
        np.testing.assert_allclose(found.within, np.mean([fit.bse**2 for fit in fits], axis=0), rtol=1e-7)
        d = len(found.names) - 1
        expected = abo.combine(
            [fit.params for fit in fits], [fit.bse**2 for fit in fits], people=200 - d, rows=[150 - d, 80 - d]
        )
        np.testing.assert_allclose(found.low, expected.low, rtol=1e-7)
        np.testing.assert_allclose(found.table()["standard_error"], np.sqrt(expected.variance), rtol=1e-7)


def test_a_shift_and_a_unit_move_coefficients_as_they_should(rng):
    tables, release = drawn_release(rng)
    moved = release_of([(values * [1e-3, 1e4] + [0, 1e9], codes) for values, codes in tables])
    for outcome, power in (("bmi", 1e4), ("event", 1.0)):
        one, two = (abo.combine(each, (outcome, ["age", "sex"]), people=200) for each in (release, moved))
        factor = power * np.array([1e3, 1.0])
        np.testing.assert_allclose(two.estimate[1:], one.estimate[1:] * factor, rtol=1e-5)
        np.testing.assert_allclose(two.variance[1:], one.variance[1:] * factor**2, rtol=1e-5)


LONG = bool(os.environ.get("ALLBUTONE_TEST_LONG"))
TABLES = 1200 if LONG else 120
SLACK = (
    0 if LONG else 4 * 0.126 / TABLES**0.5 - 0.02
)  # of a mean share over six coefficients, which 0.02 allow for


def coverage(rng, outcome, predictors, truth, people, rows, tables=TABLES, **options):
    hits = []
    for _ in range(tables):
        release = release_of(location.synthetic(rng, *location.population_table(rng, people), rows))
        found = abo.combine(release, (outcome, predictors), people=people, **options)
        hits.append((found.low <= truth) & (truth <= found.high))
    return np.mean(hits, axis=0)


def true_line():
    """bmi given age, sex, event and stage: β = Σ₁₂/Σ₁₁, and what is left of each effect."""
    slope = location.COVARIANCE[0, 1] / location.COVARIANCE[0, 0]
    rest = location.EFFECTS[:, 1] - slope * location.EFFECTS[:, 0]
    return np.array([rest[0], slope, *rest[1:]])


def true_odds():
    """Log odds of an event given age, bmi, sex and stage, by Bayes' rule: linear, as all share one covariance."""
    weight = np.linalg.solve(location.COVARIANCE, location.EFFECTS[2])
    log_cells = np.log(location.odds_of_cells()).reshape(location.SIZES)
    contrast = log_cells[:, 1] - log_cells[:, 0]
    middle = location.EFFECTS[2] / 2
    at = location.EFFECTS[[0, 1, 3, 4]] @ weight
    return np.array([
        contrast[0, 0] - at[0] - middle @ weight,
        *weight,
        contrast[1, 0] - contrast[0, 0] - at[1],
        *(contrast[0, 1:] - contrast[0, 0] - at[2:]),
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("people", "rows"), [(100, [100]), (200, [200] * 5), (80, [300] * 2), (300, [60, 120, 200])]
)
def test_intervals_of_a_regression_cover_as_often_as_they_say(people, rows, rng):
    """The bar is 0.93 to 0.97; over six coefficients 1200 tables have an error of 0.004, 120 one of 0.012."""
    share = coverage(rng, "bmi", ["age", "sex", "event", "stage"], true_line(), people, rows)
    assert 0.93 - SLACK < share.mean() < 0.97 + SLACK, share
    np.testing.assert_allclose(share, 0.95, atol=5 * np.sqrt(0.95 * 0.05 / TABLES) + 0.005)


def test_intervals_cover_with_the_synthesizer_itself(rng):
    truth, hits, tables = true_line(), [], 50
    for _ in range(tables):
        real = location.records(*location.population_table(rng, 150))
        release = abo.Synthesizer().fit(real).sample(datasets=3, rng_for_tests=rng)
        found = abo.combine(release, ("bmi", ["age", "sex", "event", "stage"]), people=150)
        hits.append((found.low <= truth) & (truth <= found.high))
    # six coefficients of one table are worth about three
    assert abs(np.mean(hits) - 0.95) < 5 * np.sqrt(0.05 * 0.95 / tables / 3)


def test_intervals_of_log_odds_ratios_cover(rng):
    """A logistic regression knows less than the model that drew the tables: it may cover a little more."""
    share = coverage(rng, "event", ["age", "bmi", "sex", "stage"], true_odds(), 250, [250] * 3)
    assert 0.93 - SLACK < share.mean() < 0.975 + SLACK, share


def test_the_rule_between_covers_with_many_tables(rng):
    truth = true_line()
    share = coverage(rng, "bmi", ["age", "sex", "event", "stage"], truth, 100, [100] * 60, 25, rule="between")
    assert abs(share.mean() - 0.95) < 5 * np.sqrt(0.05 * 0.95 / 25 / 3), share


def test_intervals_of_shares_cover_also_where_a_level_is_rare(rng):
    cells, tables, hits = np.array([0.62, 0.3, 0.08]), 400, []
    for _ in range(tables):
        counts = rng.multinomial(60, cells)
        shares = rng.dirichlet(counts + 0.5, 3)
        codes = [rng.choice(3, 50, p=share)[:, None] for share in shares]
        release = release_of([(np.zeros((50, 0)), code) for code in codes], (), ("kind",), (("a", "b", "c"),))
        found = abo.combine(release, "proportions", people=60)
        hits.append((found.low <= cells) & (cells <= found.high))
    share = np.mean(hits, axis=0)
    np.testing.assert_allclose(share, 0.95, atol=5 * np.sqrt(0.95 * 0.05 / tables) + 0.01)
    assert found.names == ("kind[a]", "kind[b]", "kind[c]")


def test_shares_are_combined_as_their_formula_and_stay_between_0_and_1(rng):
    _, release = drawn_release(rng, rows=(30, 60))
    found = abo.combine(release, "proportions", people=90)
    codes = [table.categories.codes for table in release.tables]
    share = np.array([np.mean(each[:, 2] == 1) for each in codes])
    place = found.names.index("stage[2]")
    assert found.estimate[place] == pytest.approx(share.mean())
    factor = 1 / 90 + (1 / 90 + (1 / 30 + 1 / 60) / 2) / 2
    for end in (found.low[place], found.high[place]):
        assert (share.mean() - end) ** 2 == pytest.approx(stats.norm.ppf(0.975) ** 2 * factor * end * (1 - end))
    none = release_of([(np.zeros((9, 0)), np.zeros((9, 1), dtype=np.int64))], (), ("kind",), (("a", "b"),))
    bounds = abo.combine(none, "proportions", people=20)
    assert (bounds.low[1], bounds.high[0]) == (0, 1)
    assert 0 < bounds.high[1] < 0.5
    assert bounds.low[0] == pytest.approx(1 - bounds.high[1])


def test_means_of_a_table_with_categories(rng):
    tables, release = drawn_release(rng)
    found = abo.combine(release, people=200)
    np.testing.assert_allclose(found.estimate, np.mean([values.mean(axis=0) for values, _ in tables], axis=0))
    assert found.names == ("age", "bmi")


def test_a_dataset_release_is_regressed_too(rng):
    data = [rng.standard_normal((40, 3)) for _ in range(2)]
    found = abo.combine(abo.Release.of(data, ("a", "b", "c")), ("a", ("b", "c")), people=50)
    fits = [np.linalg.lstsq(np.column_stack([np.ones(40), each[:, 1:]]), each[:, 0])[0] for each in data]
    np.testing.assert_allclose(found.estimate, np.mean(fits, axis=0), rtol=1e-9)
    with pytest.raises(abo.InputError, match="no columns of categories"):
        abo.combine(abo.Release.of(data), "proportions", people=50)


@pytest.mark.parametrize(
    ("outcome", "predictors", "message"),
    [
        ("weight", ["age"], "no column 'weight'"),
        ("age", ["sex", "weight"], "no column 'weight'"),
        ("age", ["age", "sex"], "other than the outcome"),
        ("age", [], "other than the outcome"),
        ("stage", ["age"], "3 levels"),
    ],
)
def test_regressions_that_make_no_sense_are_refused(outcome, predictors, message, rng):
    with pytest.raises(abo.InputError, match=message):
        abo.combine(drawn_release(rng)[1], (outcome, predictors), people=200)


def test_coefficients_that_a_table_does_not_have_are_named(rng):
    tables, _ = drawn_release(rng)
    values, codes = tables[1]

    def regress(changed, outcome="bmi", predictors=("age", "stage"), people=200):
        return abo.combine(release_of([tables[0], changed]), (outcome, predictors), people=people)

    with pytest.raises(abo.InputError, match=r"dataset 2 has no coefficient of 'stage\[3\]': no row has it"):
        regress((values, np.minimum(codes, [1, 1, 1])))
    with pytest.raises(abo.InputError, match="'event\\[yes\\]': the terms before it determine it"):
        regress((values, codes[:, [0, 0, 2]]), predictors=("sex", "event"))
    apart = np.column_stack([codes[:, 0], values[:, 0] > 55, codes[:, 2]]).astype(np.int64)
    with pytest.raises(abo.InputError, match="dataset 2 has no finite coefficients"):
        regress((values, apart), "event", ("age",))
    with pytest.raises(abo.InputError, match="4 rows, too few for 4"):
        regress((values[:4], codes[:4]))
    with pytest.raises(abo.InputError, match="4 people are too few"):
        regress(tables[0], people=4)
    without = regress((np.delete(values, 3, axis=0), np.delete(codes, 3, axis=0)))
    lacking = regress((values, np.where(np.arange(len(codes))[:, None] == 3, -1, codes)))
    np.testing.assert_allclose(lacking.estimate, without.estimate, rtol=1e-12)
    assert "left out" in lacking.note


def test_from_tables_with_gaps_intervals_know_how_many_values_there_are(rng):
    """Literally: q = mean of what is there, v = s²/(k·g), T = w̄ + (w̄ + v̄)/m with w̄ = v·k/n."""
    table = pd.DataFrame({"x": rng.normal(50, 9, 80), "y": rng.normal(3, 1, 80)})
    table["sex"] = rng.choice(["f", "m"], 80)
    table.loc[::4, "x"], table.loc[3::5, "sex"] = np.nan, None
    release = abo.Synthesizer(missing="keep").fit(table).sample(datasets=3, rows=60)
    frames = release.to_frames()
    found = abo.combine(release, "means", people=80)
    for place, name in enumerate(("x", "y")):
        v = np.mean([each[name].var() / each[name].count() for each in frames])
        assert found.estimate[place] == pytest.approx(np.mean([each[name].mean() for each in frames]))
        assert found.variance[place] == pytest.approx(v * 60 / 80 + (v * 60 / 80 + v) / 3)
    shares = abo.combine(release, "proportions", people=80)
    expected = np.mean([(each["sex"].dropna() == "f").mean() for each in frames])
    assert shares.estimate[shares.names.index("sex[f]")] == pytest.approx(expected)
    assert "left out" in found.note


def test_intervals_from_tables_with_gaps_cover(rng):
    hits = []
    for _ in range(150):
        table = pd.DataFrame(rng.multivariate_normal([50, 3], [[81, 4], [4, 1]], 120), columns=["x", "y"])
        table.loc[rng.random(120) < 0.3, "x"] = np.nan
        release = abo.Synthesizer(missing="keep").fit(table).sample(datasets=4)
        found = abo.combine(release, "means", people=120)
        hits.append((found.low <= [50, 3]) & (found.high >= [50, 3]))
    assert np.all(np.mean(hits, axis=0) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 150))
