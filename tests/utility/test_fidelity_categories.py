"""Categories, real against synthetic: measures beside SciPy's or their formulas, and what chance does."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.stats.contingency import association
from test_fidelity import literal_pmse

import allbutone as abo
import location
from allbutone.reports.findings import fidelity_finding
from allbutone.tables.categories import Categories
from allbutone.utility.categories import CategoryDifferences, Grouped, cramers_v, shares_of, tables_of
from allbutone.utility.shapes import densities
from allbutone.utility.telling_apart import tree_error
from location import records, release_of


def compared(rng, people=300, rows=(300, 200, 250)):
    real = location.population_table(rng, people)
    tables = location.synthetic(rng, *real, rows)
    return real, tables, abo.fidelity(records(*real), release_of(tables))


def test_shares_and_tables_are_counts(rng):
    (_, codes), tables, found = compared(rng)
    stage, pair = found.categories.shares[2], found.categories.tables[1]
    np.testing.assert_array_equal(stage.real, np.bincount(codes[:, 2], minlength=3))
    assert pair.columns == ("sex", "stage")
    for place, (_, synthetic) in enumerate(tables):
        expected = pd.crosstab(synthetic[:, 0], synthetic[:, 2]).to_numpy()
        np.testing.assert_array_equal(pair.synthetic[place], expected)
        shares = expected / expected.sum()
        np.testing.assert_allclose(pair.distances[place], np.abs(shares - pair.shares).sum() / 2)
        both = np.stack([stage.real, stage.synthetic[place]])
        test = stats.chi2_contingency(both, correction=False)
        assert stage.chi_squared[place] == pytest.approx(test.statistic, rel=1e-10)
        assert stage.p_values[place] == pytest.approx(test.pvalue, rel=1e-10)
        both = np.stack([pair.real.ravel(), expected.ravel()])
        assert pair.p_values[place] == pytest.approx(
            stats.chi2_contingency(both, correction=False).pvalue, rel=1e-8
        )


def test_cramers_v_is_that_of_scipy(rng):
    for shape in ((2, 2), (3, 5), (4, 3)):
        counts = rng.integers(1, 30, shape)
        expected = association(counts, method="cramer")
        assert cramers_v(counts[None])[0] == pytest.approx(expected, abs=1e-12)
        assert cramers_v(counts.T[None])[0] == pytest.approx(expected, abs=1e-12)
        # a level that nobody has counts as one of the levels, and changes nothing else
        smaller, larger = min(shape) - 1, min(shape)
        wider = np.pad(counts, ((0, 1), (0, 1)))
        assert cramers_v(wider[None])[0] == pytest.approx(expected * np.sqrt(smaller / larger), abs=1e-12)
    assert cramers_v(np.outer([3, 5], [2, 4, 6])[None])[0] == pytest.approx(0, abs=1e-12)
    assert cramers_v(np.diag([4, 5, 6])[None])[0] == pytest.approx(1)
    assert np.isnan(cramers_v(np.array([[[4, 5]]]))[0])


def literal_eta(values, codes):
    mean = values.mean()
    between = sum(
        (codes == level).sum() * (values[codes == level].mean() - mean) ** 2 for level in np.unique(codes)
    )
    return np.sqrt(between / np.sum((values - mean) ** 2))


def test_associations_are_r_eta_and_v_in_one_square(rng):
    (values, codes), tables, found = compared(rng)
    real = found.associations
    assert real.shape == (5, 5)
    np.testing.assert_allclose(real, real.T)
    np.testing.assert_allclose(np.diagonal(real), 1)
    assert real[0, 1] == pytest.approx(abs(np.corrcoef(values.T)[0, 1]))
    for measurement in range(2):
        for column in range(3):
            assert real[measurement, 2 + column] == pytest.approx(
                literal_eta(values[:, measurement], codes[:, column])
            )
            drawn = literal_eta(tables[1][0][:, measurement], tables[1][1][:, column])
            assert found.synthetic_associations[1, measurement, 2 + column] == pytest.approx(drawn)
    assert real[3, 4] == pytest.approx(association(pd.crosstab(codes[:, 1], codes[:, 2]), method="cramer"))
    # of two levels, η is |r| with their number, and V that of the two numbers
    assert real[0, 2] == pytest.approx(abs(np.corrcoef(values[:, 0], codes[:, 0])[0, 1]))
    assert real[2, 3] == pytest.approx(abs(np.corrcoef(codes[:, 0], codes[:, 1])[0, 1]))


def test_means_by_level_are_their_definition(rng):
    (values, codes), tables, found = compared(rng)
    stage = found.categories.levels[2]
    drawn, synthetic = tables[2]
    pooled = np.sqrt((values.var(axis=0, ddof=1) + drawn.var(axis=0, ddof=1)) / 2)
    for level in range(3):
        step = drawn[synthetic[:, 2] == level].mean(axis=0) - values[codes[:, 2] == level].mean(axis=0)
        np.testing.assert_allclose(stage.mean_differences[2, :, level], step / pooled)
        np.testing.assert_array_equal(stage.rows[2, :, level], np.sum(synthetic[:, 2] == level))


def test_propensity_scores_see_categories_as_indicators(rng):
    (values, codes), tables, found = compared(rng)
    assert found.terms == 2 + 1 + 1 + 2

    def design(values, codes):
        return np.column_stack([values, location.coded(codes)[:, 1:]])

    for place, table in enumerate(tables):
        expected = literal_pmse(design(values, codes), design(*table))
        assert found.pmse[place] == pytest.approx(expected, abs=1e-10)
    trees = [np.column_stack([each, code, code[:, 2] == 1]) for each, code in ((values, codes), tables[0])]
    labels = np.repeat([False, True], [len(trees[0]), len(trees[1])])
    assert found.pmse_tree[0] == pytest.approx(tree_error(np.concatenate(trees).T, labels), abs=1e-12)


def test_the_order_of_levels_does_not_matter_to_regression_and_measures(rng):
    real, tables, found = compared(rng)
    new = np.array([2, 0, 1])
    names = (location.COLUMNS, location.CATEGORIES, (*location.LEVELS[:2], ("2", "3", "1")))

    def recoded(values, codes):
        return values, np.column_stack([codes[:, :2], new[codes[:, 2]]])

    other = abo.fidelity(records(*recoded(*real), *names), release_of([recoded(*each) for each in tables], *names))
    np.testing.assert_allclose(other.pmse, found.pmse, atol=1e-10)
    np.testing.assert_allclose(other.synthetic_associations, found.synthetic_associations)
    np.testing.assert_allclose(other.categories.tables[1].chi_squared, found.categories.tables[1].chi_squared)


def test_rare_levels_and_categories_that_determine_others_do_not_tell_rows_apart(rng):
    values, codes = rng.standard_normal((200, 1)), rng.integers(0, 2, (200, 1))
    codes[:2] = 2  # a level that two people have, and only one dataset
    names = (("x",), ("one", "twin"), (("a", "b", "c"),) * 2)
    tables = [
        (rng.standard_normal((200, 1)), np.repeat(rng.integers(0, 2, (200, 1)), 2, axis=1)) for _ in range(3)
    ]
    found = abo.fidelity(records(values, np.repeat(codes, 2, axis=1), *names), release_of(tables, *names))
    assert found.terms == 2
    assert found.propensity_finite.all()


def test_the_expected_propensity_error_holds_with_categories(rng):
    real = location.population_table(rng, 400)
    tables = location.synthetic(rng, *real, [400] * 150)
    found = abo.fidelity(records(*real), release_of(tables))
    ratio = found.pmse_ratio_drawn
    # pMSE over its expectation is about χ²₆/6
    assert abs(ratio.mean() - 1) < 5 * np.sqrt(2 / 6 / 150) + 0.03
    assert abs(found.pmse_tree_ratio.mean() - 1) < 0.3


def far(found):
    return found.beyond_noise().categories


def test_a_right_model_is_hardly_ever_accused(rng):
    """Four kinds, each at 1 in 100 or less, as differences must be beyond 0.1, too."""
    accused = 0
    for place in range(27):
        people = (60, 150, 400)[place % 3]
        real = location.population_table(rng, people)
        tables = location.synthetic(rng, *real, [people] * (1, 5, 30)[place // 3 % 3])
        accused += far(abo.fidelity(records(*real), release_of(tables))) != CategoryDifferences()
    assert accused <= 5  # of 27, where one is expected


def test_other_shares_associations_and_means_are_named(rng):
    real = location.population_table(rng, 800)
    tables = location.synthetic(rng, *real, [800] * 10)

    def flags(change):
        changed = [(values, change(codes.copy())) for values, codes in tables]
        return far(abo.fidelity(records(*real), release_of(changed)))

    def fewer_men(codes):
        codes[rng.random(len(codes)) < 0.5, 0] = 0
        return codes

    def shuffled_event(codes):
        codes[:, 1] = rng.permutation(codes[:, 1])
        return codes

    assert flags(fewer_men).shares == ("sex",)
    found = flags(shuffled_event)
    assert found.shares == ()
    assert "age and event" in found.associations
    assert "age at event[yes]" in found.level_means


def test_a_rare_level_that_is_inflated_is_named(rng):
    """3.0 % really, 5.2 % in the mean of 20 datasets: w, of which frequent levels make most, hardly sees it."""

    def table(share):
        return np.zeros((900, 0)), rng.permutation(
            np.repeat([0, 1, 2], np.round([540 - 900 * share, 360, 900 * share]).astype(int))
        )[:, None]

    names = ((), ("histology",), (("ductal", "lobular", "papillary"),))
    real = table(0.03)
    found = abo.fidelity(records(*real, *names), release_of([table(0.052) for _ in range(20)], *names))
    (level,) = far(found).levels
    shares = found.categories.shares[0]
    assert level == (
        f"histology[papillary] ({100 * shares.synthetic_shares[:, 2].mean():.1f}\u00a0% for "
        f"{100 * shares.shares[2]:.1f}\u00a0%)"
    )
    same = abo.fidelity(records(*real, *names), release_of([table(0.03) for _ in range(20)], *names))
    assert far(same).levels == ()
    assert "the frequencies of histology[papillary] (5." in fidelity_finding(found).words


def test_an_association_turned_round_shows_in_the_table_alone(rng):
    def table(turned):
        one = rng.integers(0, 2, 600)
        return np.zeros((600, 0)), np.column_stack([one, one ^ (rng.random(600) < (0.8 if turned else 0.2))])

    names = ((), ("one", "two"), (("a", "b"), ("c", "d")))
    found = abo.fidelity(records(*table(False), *names), release_of([table(True) for _ in range(8)], *names))
    assert abs(np.median(found.categories.synthetic_cramers_v[:, 0, 1]) - found.categories.cramers_v[0, 1]) < 0.15
    assert far(found) == CategoryDifferences(tables=("one and two",))


def test_gaps_are_passed_over_pair_by_pair(rng):
    (values, codes), tables, _ = compared(rng)
    values, codes = values.copy(), codes.copy()
    values[rng.random(values.shape) < 0.2] = np.nan
    codes[rng.random(codes.shape) < 0.1] = -1
    found = abo.fidelity(records(values, codes), release_of(tables))
    frame = pd.DataFrame(values)
    np.testing.assert_allclose(found.correlations, frame.corr().to_numpy(), atol=1e-12)
    seen = ~np.isnan(values)
    np.testing.assert_array_equal(found.observed, seen.T.astype(int) @ seen)
    whole = seen.all(axis=1) & (codes >= 0).all(axis=1)
    assert found.complete == whole.sum()
    for place, (drawn, _) in enumerate(tables):
        for column in range(2):
            here = values[seen[:, column], column]
            test = stats.ks_2samp(here, drawn[:, column])
            assert found.ks[place, column] == pytest.approx(test.statistic, abs=1e-12)
            assert found.ks_p[place, column] == pytest.approx(test.pvalue, abs=1e-10)
            pooled = np.sqrt((here.var(ddof=1) + drawn[:, column].var(ddof=1)) / 2)
            expected = (drawn[:, column].mean() - here.mean()) / pooled
            assert found.mean_differences[place, column] == pytest.approx(expected, abs=1e-12)
            spread = drawn[:, column].std(ddof=1) / here.std(ddof=1)
            assert found.spread_ratios[place, column] == pytest.approx(spread, rel=1e-10)
    both = (codes[:, [0, 1]] >= 0).all(axis=1)
    expected = association(pd.crosstab(codes[both, 0], codes[both, 1]), method="cramer")
    assert found.categories.cramers_v[0, 1] == pytest.approx(expected)
    assert found.categories.shares[0].real.sum() == np.sum(codes[:, 0] >= 0)
    # whole rows alone decide the propensity scores
    kept = abo.fidelity(records(values[whole], codes[whole]), release_of(tables))
    np.testing.assert_allclose(found.pmse, kept.pmse, atol=1e-10)


def test_no_gaps_is_the_same_by_either_way(rng):
    real, tables, found = compared(rng)
    values = np.vstack([real[0], [[np.nan, np.nan]]])
    codes = np.vstack([real[1], [[-1, -1, -1]]])
    other = abo.fidelity(records(values, codes), release_of(tables))
    for name in ("correlations", "mean_differences", "spread_ratios", "ks", "ks_p", "pmse"):
        np.testing.assert_allclose(getattr(other, name), getattr(found, name), atol=1e-10)


def test_tables_of_categories_alone_and_of_measurements_alone(rng):
    codes = rng.integers(0, 3, (80, 2))
    names = ((), ("one", "two"), (("a", "b", "c"),) * 2)
    empty = np.zeros((80, 0))
    found = abo.fidelity(records(empty, codes, *names), release_of([(empty, codes), (empty, codes[::-1])], *names))
    assert np.all(found.categories.shares[0].distances == 0)
    np.testing.assert_allclose(found.pmse, 0, atol=1e-15)
    assert found.beyond_noise().categories.shares == ()
    plain = abo.fidelity(abo.demo_cohort(), abo.Synthesizer().fit(abo.demo_cohort()).sample(datasets=2))
    np.testing.assert_allclose(plain.associations, np.abs(plain.correlations))
    assert plain.terms == 5
    assert "category" not in repr(plain)


def test_a_file_of_text_is_matched_by_the_names_of_levels(rng):
    (values, codes), tables, found = compared(rng)
    frame = pd.DataFrame(values, columns=["age", "bmi"])
    for place in (2, 0, 1):  # another order, and a column more
        frame[location.CATEGORIES[place]] = np.array(location.LEVELS[place])[codes[:, place]]
    other = abo.fidelity(frame.assign(note="x"), release_of(tables))
    np.testing.assert_array_equal(other.categories.tables[2].real, found.categories.tables[2].real)
    np.testing.assert_allclose(other.pmse, found.pmse)
    assert "misplaced share" in repr(other)
    assert "stage" in other._repr_html_()
    other = records(values, codes[:, :1], categories=("sex",), levels=(("m", "f"),))
    with pytest.raises(abo.InputError, match="levels are not those"):
        abo.fidelity(other, release_of([(values, codes[:, :1])], location.COLUMNS, ("sex",), (("f", "m"),)))


def test_densities_of_measurements_beside_categories(rng):
    (values, codes), tables, _ = compared(rng)
    values[3, 0] = np.nan
    found = densities(records(values, codes), release_of(tables))
    kept = densities(records(np.delete(values, 3, axis=0), np.delete(codes, 3, axis=0)), release_of(tables))
    np.testing.assert_allclose(found.real[0], kept.real[0])
    assert found.columns == ("age", "bmi")


def test_the_counts_of_pairs_are_made_of_those_of_columns(rng):
    coded = Categories(rng.integers(0, 3, (50, 3)), ("a", "b", "c"), (("x", "y", "z"),) * 3)
    grouped = Grouped.of_records(np.zeros((len(coded), 0)), coded, np.zeros(0))
    singles, pairs = shares_of(grouped, [grouped]), tables_of(grouped, [grouped])
    assert [pair.columns for pair in pairs] == [("a", "b"), ("a", "c"), ("b", "c")]
    np.testing.assert_array_equal(pairs[1].real.sum(axis=1), singles[0].real)
    np.testing.assert_array_equal(pairs[1].real.sum(axis=0), singles[2].real)


def test_a_release_of_the_synthesizer_and_its_folder(rng, tmp_path):
    real = records(*location.population_table(rng, 200))
    release = abo.Synthesizer().fit(real).sample(datasets=4, rng_for_tests=rng)
    abo.save_release(release, tmp_path / "release")
    one, other = abo.fidelity(real, release), abo.fidelity(real, tmp_path / "release")
    np.testing.assert_allclose(one.pmse, other.pmse, rtol=1e-6)
    np.testing.assert_array_equal(one.categories.tables[0].synthetic, other.categories.tables[0].synthetic)
    shares = abo.combine(tmp_path / "release", "proportions", people=200)
    np.testing.assert_allclose(shares.estimate[:2], one.categories.shares[0].synthetic_shares.mean(axis=0))
    parameters = abo.Synthesizer().fit(real).sample_parameters(draws=2)
    with pytest.raises(abo.InputError, match="parameters alone"):
        abo.fidelity(real, parameters)


def test_gaps_without_categories_are_compared_too(rng):
    values = rng.standard_normal((60, 2))
    values[:5, 0] = np.nan
    codes, names = np.zeros((60, 0), dtype=np.int64), (("a", "b"), (), ())
    found = abo.fidelity(
        records(values, codes, *names), release_of([(rng.standard_normal((60, 2)), codes)], *names)
    )
    assert found.observed.tolist() == [[55, 55], [55, 60]]
    assert found.complete == 55
