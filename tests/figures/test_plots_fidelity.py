"""Figures of fidelity carry the results and say them; names are text; nothing is cut off on a phone."""

import dataclasses
import html
import re

import numpy as np
import pytest

import allbutone as abo
from allbutone.figures import application as figures_violins
from allbutone.figures import fidelity as figures_fidelity
from allbutone.figures import fidelity as figures_tests
from allbutone.figures import shapes as figures_shapes
from allbutone.figures.style import furthest, text_of, wrapped
from allbutone.support.text import number, percent
from allbutone.tables.records import demo_cohort
from allbutone.utility.fidelity import fidelity
from allbutone.utility.normality import check_normality
from drawn_results import HOSTILE, renamed, results, simulated


@pytest.fixture(scope="module")
def many():
    return results(demo_cohort(), 40, (1, 5, 40))


@pytest.fixture(scope="module")
def few():
    return results(demo_cohort(), 3)


@pytest.fixture(scope="module")
def hostile(many):
    return renamed(many, HOSTILE)


def message(figure):
    return figure.layout.meta["message"]


def markers(figure):
    return [trace for trace in figure.data if trace.type == "scatter" and trace.mode == "markers"]


def leaves(node, path=()):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, (*path, key))
    elif isinstance(node, list):
        for value in node:
            yield from leaves(value, path)
    else:
        yield path, node


@pytest.mark.parametrize("count", ["many", "few"])
def test_every_figure_fits_its_page_and_leaves_the_message_to_it(request, count):
    for name, figure in request.getfixturevalue(count).figures().items():
        assert figure.layout.width is None
        assert figure.layout.title.text is None
        assert 150 < figure.layout.height < 1000
        assert message(figure)[0].isupper() or message(figure)[0].isdigit(), name
        assert message(figure).endswith(".")
        sizes = [value for path, value in leaves(figure.to_plotly_json()) if path[-2:] == ("font", "size")]
        assert min(sizes) >= 12


def test_the_square_of_correlations_is_real_below_and_synthetic_above(many):
    figure, found = figures_fidelity.correlation_figure(many.fidelity), many.fidelity
    shown = np.array(figure.data[0].z)
    low, median, high = found.correlation_quartiles
    above, below = np.triu_indices(5, 1), np.tril_indices(5, -1)
    np.testing.assert_array_equal(shown[above], median[above])
    np.testing.assert_array_equal(shown[below], found.correlations[below])
    assert np.isnan(np.diagonal(shown)).all()
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-1, 1)
    text = figure.data[0].text
    assert text[0][3] == f"{number(median[0, 3], 2)}<br>[{number(low[0, 3], 2)},<br>{number(high[0, 3], 2)}]"
    assert text[3][0] == number(found.correlations[0, 3], 2)
    assert "below the diagonal:</b> real" in figure.layout.xaxis.title.text
    off = np.abs(median - found.correlations).max()
    assert f"at most {off:.3f} away" in message(figure)


@pytest.mark.parametrize("p", [8, 13])
def test_where_numbers_do_not_fit_the_cells_first_quartiles_are_left_out_then_all(p):
    figure = figures_fidelity.correlation_figure(results(simulated(60, p), 2).fidelity)
    texts = figure.data[0].text
    if p == 8:
        assert all(re.fullmatch(r"−?\.\d\d", text) for text in np.array(texts)[~np.eye(p, dtype=bool)])
    else:
        assert texts is None
    assert "quartiles" not in figure.layout.xaxis.title.text


def test_figures_of_a_wide_table_stay_small_and_name_what_there_is_room_for():
    table = simulated(95, 90)
    release = abo.Synthesizer().fit(table).sample(datasets=2, rng_for_tests=np.random.default_rng(1))
    found = fidelity(table, release)
    for draw in (
        figures_fidelity.correlation_figure,
        figures_fidelity.correlation_difference_figure,
        figures_fidelity.mean_difference_figure,
        figures_tests.ks_figure,
    ):
        figure = draw(found)
        assert figure.layout.height < 1400
        assert len(figure.to_json()) < 400_000
    figure = figures_fidelity.correlation_figure(found)
    names = list(figure.data[0].x)
    assert names == list(figure.data[0].y) == [text_of(name) for name in found.columns]
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("category", "category")
    assert len(figure.layout.yaxis.ticktext) == 30
    assert "one column in 3 is named" in figure.layout.xaxis.title.text
    real, median = np.moveaxis(np.array(figure.data[0].customdata), -1, 0)
    np.testing.assert_allclose(real, found.correlations, atol=1e-6)
    np.testing.assert_allclose(median, found.correlation_quartiles[1], atol=1e-6)


def test_differences_of_correlations_show_range_quartiles_and_median(many):
    figure, pairs = figures_fidelity.correlation_difference_figure(many.fidelity), np.triu_indices(5, 1)
    values = many.fidelity.correlation_differences[:, pairs[0], pairs[1]]
    one, middle, three = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    ranges, halves, medians = figure.data
    for trace, low, high in ((ranges, values.min(axis=0), values.max(axis=0)), (halves, one, three)):
        np.testing.assert_allclose(np.reshape(trace.x, (-1, 3))[:, :2], np.column_stack([low, high]), atol=1e-12)
    np.testing.assert_allclose(medians.x, middle, atol=1e-12)
    assert figure.layout.yaxis.ticktext[3] == "T2D · HBA1C"
    assert figure.layout.yaxis.tickvals[3] == medians.y[3]
    assert f"by {number(values.min(), 2)} to {number(values.max(), 2)}; the medians by" in message(figure)


def test_of_many_pairs_the_furthest_off_are_shown():
    found = results(simulated(60, 9), 25).fidelity
    figure, pairs = figures_fidelity.correlation_difference_figure(found), np.triu_indices(9, 1)
    middle = np.abs((found.correlation_quartiles[1] - found.correlations)[pairs])
    np.testing.assert_allclose(np.sort(np.abs(figure.data[-1].x)), np.sort(middle)[-15:], atol=1e-12)
    assert "the 15 of 36 pairs" in figure.layout.xaxis.title.text.replace("<br>", " ")


def test_mean_differences_show_the_band_and_who_leaves_it(many):
    figure = figures_fidelity.mean_difference_figure(many.fidelity)
    np.testing.assert_array_equal(figure.data[-1].x, many.fidelity.mean_difference_quartiles[1])
    band = figure.layout.shapes[0]
    assert (band.x0, band.x1) == (-0.1, 0.1)
    assert message(figure).startswith("In every column the middle half")
    shifted = many.fidelity.mean_differences + np.array([0, 0, 0.3, 0, 0])
    figure = figures_fidelity.mean_difference_figure(dataclasses.replace(many.fidelity, mean_differences=shifted))
    assert message(figure).startswith("In 1 of 5 columns")
    assert "HT is furthest off" in message(figure)
    assert len(set(figure.data[-1].marker.color)) == 2
    assert figure.data[-1].marker.color[2] != figure.data[-1].marker.color[0]


def test_of_few_datasets_each_is_a_dot(few):
    for figure, values in (
        (figures_fidelity.mean_difference_figure(few.fidelity), few.fidelity.mean_differences),
        (figures_tests.ks_figure(few.fidelity), few.fidelity.ks_p),
        (figures_tests.propensity_figure(few.fidelity), few.fidelity.pmse_ratio_drawn),
    ):
        np.testing.assert_array_equal(markers(figure)[0].x, values.ravel())
        assert "one dot for each dataset" in figure.layout.xaxis.title.text.replace("<br>", " ")
    above = int(np.sum(few.fidelity.ks_p > 0.05))
    assert message(figures_tests.ks_figure(few.fidelity)).startswith(
        f"{above} of 15 Kolmogorov-Smirnov tests give"
    )
    one = results(simulated(40, 1), 1)
    assert message(figures_fidelity.correlation_figure(one.fidelity)) == "A single column has no correlations."
    assert (
        message(figures_fidelity.correlation_difference_figure(one.fidelity))
        == "A single column has no correlations."
    )
    assert message(figures_tests.ks_figure(one.fidelity)).startswith(("1 of 1 Kol", "0 of 1 Kol"))
    assert "1 dataset" not in message(figures_fidelity.mean_difference_figure(one.fidelity))
    assert len(one.figures()) == 10


def test_p_values_fill_bins_and_the_first_holds_its_upper_end(many):
    p_values = np.tile((np.arange(20) + 0.5) / 20, 2)[:, None] * np.ones(5)
    p_values[0] = 0.05
    p_values[1, 1] = 0.01
    figure = figures_tests.ks_figure(dataclasses.replace(many.fidelity, ks_p=p_values))
    heights = np.reshape(figure.data[0].y, (5, 20))
    np.testing.assert_allclose(heights[0], heights[0, 0])
    np.testing.assert_allclose(heights[1, :3] / heights[0, 0], [1.5, 0.5, 1])
    np.testing.assert_allclose(heights[2], figure.data[-1].y[0] - 4)  # the dashed line of the upper row
    assert figure.layout.yaxis.ticktext[0] == "T2D<br>95.0\u00a0% above 0.05"
    assert message(figure).startswith("92.5\u00a0% (CAD) to 95.0\u00a0% (T2D) of the 40 Kolmogorov-Smirnov tests")


def test_a_bar_too_tall_is_cut_and_says_so(many):
    p_values = many.fidelity.ks_p.copy()
    p_values[:, 2] = 1e-9
    figure = figures_tests.ks_figure(dataclasses.replace(many.fidelity, ks_p=p_values))
    assert "100.0\u00a0%" in [note.text for note in figure.layout.annotations]
    assert "0.0\u00a0% (HT) to" in message(figure)


def test_the_propensity_figure_counts_every_dataset(many):
    figure = figures_tests.propensity_figure(many.fidelity)
    assert sum(figure.data[0].y) == 40
    assert f"over 40 datasets is {np.median(many.fidelity.pmse_ratio_drawn):.2f}" in message(figure)
    apart = np.arange(40) < 38
    figure = figures_tests.propensity_figure(dataclasses.replace(many.fidelity, propensity_finite=apart))
    assert "in 2 datasets the columns tell every synthetic row" in message(figure)


def test_densities_lie_over_each_other(many):
    figure = figures_shapes.density_figure(many.densities)
    for place in range(5):
        real, synthetic = figure.data[2 * place : 2 * place + 2]
        assert (real.name, synthetic.name) == ("real", "synthetic")
        assert real.xaxis == synthetic.xaxis
        np.testing.assert_allclose(real.y, many.densities.real[place], rtol=1e-6)
        np.testing.assert_allclose(synthetic.y, many.densities.synthetic[place], rtol=1e-6)
        np.testing.assert_allclose(synthetic.x, many.densities.grid[place], rtol=1e-6)
    assert [trace.showlegend for trace in figure.data].count(True) == 2


def test_quantiles_stand_against_their_reference(many):
    figure, found = figures_shapes.qq_figure(many.normality), many.normality
    for place, trace in enumerate(markers(figure)):
        np.testing.assert_array_equal(trace.x, found.qq_normal)
        np.testing.assert_array_equal(trace.y, found.qq_values[place])
    doubted = [verdict for verdict in found.verdicts if verdict.level != "fit"]
    assert message(figure).startswith(f"{len(doubted)} of 5 columns")
    figure = figures_shapes.distance_qq_figure(found)
    np.testing.assert_allclose(markers(figure)[0].y ** 2, found.squared_distances)
    np.testing.assert_allclose(markers(figure)[0].x ** 2, found.distance_quantiles)
    assert message(figure) == f"All columns together are {found.together.words}."
    none = dataclasses.replace(found, distance_quantiles=np.empty(0), squared_distances=np.empty(0))
    assert "too few records" in message(figures_shapes.distance_qq_figure(none))


def test_of_a_long_table_the_tails_of_quantiles_stay():
    found = check_normality(simulated(1500, 9))
    figure = figures_shapes.qq_figure(found)
    for trace in markers(figure):
        assert (trace.x[0], trace.x[-1]) == (found.qq_normal[0], found.qq_normal[-1])
        assert np.max(np.diff(trace.x)) <= np.max(np.diff(found.qq_normal)) + 0.02
    assert sum(len(trace.x) for trace in markers(figure)) <= 6000


def test_violins_carry_distances_beside_the_baseline(many):
    figure = figures_violins.distance_violins(many.by_count)
    violins = [trace for trace in figure.data if trace.type == "violin"]
    for place, count in enumerate((1, 5, 40)):
        columns = many.by_count[count]
        for trace, name in zip(violins[2 * place :], ("baseline_distance", "distance"), strict=False):
            np.testing.assert_allclose(trace.y, columns[name], rtol=1e-6)
            assert trace.x0 == place
    assert figure.layout.xaxis.ticktext == ("1", "5", "40")
    medians = [np.median(many.by_count[count]["distance"]) for count in (1, 5, 40)]
    np.testing.assert_allclose(figure.data[-1].y, medians)
    assert f"is {number(medians[0])} after 1 dataset and {number(medians[-1])} after 40 datasets" in message(
        figure
    )


def test_relative_errors_are_drawn_by_their_logarithm(many):
    figure = figures_violins.relative_error_violins(many.by_count)
    for trace, count in zip(figure.data, (1, 5, 40), strict=False):
        np.testing.assert_allclose(10.0 ** np.array(trace.y), many.by_count[count]["relative_error"], rtol=1e-5)
    found = [int(many.by_count[count]["disclosed"].sum()) for count in (1, 40)]
    expected = f"disclosed of {found[0]} of 503 people after 1 dataset and {found[1]} after 40 datasets."
    assert message(figure).endswith(expected)
    long = {1: {"relative_error": np.linspace(0, 2, 9001), "disclosed": np.zeros(9001, dtype=bool)}}
    figure = figures_violins.relative_error_violins(long)
    assert len(figure.data[0].y) == 2000
    assert np.isfinite(figure.data[0].y).all()
    assert message(figure) == "A value is disclosed of 0 of 9,001 people after 1 dataset."


def test_names_enter_figures_as_text(hostile):
    for figure in hostile.figures().values():
        content = figure.to_plotly_json()
        content["layout"].pop("meta")  # plain text, which the page escapes
        texts = [value for _, value in leaves(content) if isinstance(value, str)]
        for array in (trace.get(key) for trace in content["data"] for key in ("text", "hovertext")):
            texts += [] if array is None else [str(one) for one in np.ravel(np.array(array, dtype=object))]
        for text in texts:
            left = re.sub(r"</?(b|br|span|extra)\b( style='[^']*')?>", "", text)
            assert "<" not in left, text
            assert "%{" not in left.replace("%{x:", "").replace("%{y:", "").replace("%{text}", ""), text
    assert "<script>alert(1)</script>" in "".join(message(figure) for figure in hostile.figures().values())
    assert html.unescape(text_of(HOSTILE[1])) == HOSTILE[1]
    assert text_of("two\nlines") == "two lines"
    assert text_of("systolic blood pressure 2", 12) == "systol…ure 2"


def test_numbers_and_lines_in_words():
    assert (number(-0.004, 2), number(-0.25, 2), percent(0.5)) == ("0.00", "−0.25", "50.0\u00a0%")
    values = (1853.2, 0.6971, 2, -3.0, 1e20, np.inf, "as it is", None)
    assert [number(value) for value in values] == ["1,853", "0.697", "2", "-3", "1e+20", "inf", "as it is", ""]
    assert wrapped("one two three four", width=10) == "one two<br>three four"
    assert list(furthest(np.array([3.0, 1.0, 5.0, 4.0]), 2)) == [2, 3]
