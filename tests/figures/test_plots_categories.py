"""Figures of categories carry the results and say them; names are text."""

import re

import numpy as np
import pytest
from test_plots_fidelity import leaves, message

import allbutone as abo
from allbutone.figures.fidelity import (
    correlation_difference_figure,
    correlation_figure,
    ks_figure,
    mean_difference_figure,
    propensity_figure,
)
from allbutone.figures.shapes import association_figure, share_figure
from allbutone.support.text import number, percent
from drawn_categories import NAMES, compared, mixed
from location import records, release_of


def test_shares_stand_beside_the_real_ones_and_what_chance_does():
    found = compared(40)
    figure = share_figure(found)
    chance, ranges, halves, medians, real = figure.data
    shares = np.concatenate([each.shares for each in found.categories.shares])
    drawn = np.concatenate([each.synthetic_shares for each in found.categories.shares], axis=1)
    np.testing.assert_allclose(real.x, shares)
    np.testing.assert_allclose(medians.x, np.median(drawn, axis=0))
    np.testing.assert_allclose(np.reshape(ranges.x, (-1, 3))[:, 0], drawn.min(axis=0))
    np.testing.assert_allclose(np.reshape(halves.x, (-1, 3))[:, 1], np.quantile(drawn, 0.75, axis=0))
    half = 1.959964 * np.sqrt(shares * (1 - shares) * (1 / 200 + 1 / 200))
    np.testing.assert_allclose(np.reshape(chance.x, (-1, 3))[:, 0], shares - half, atol=1e-6)
    assert list(figure.layout.yaxis.ticktext) == [
        "sex: f", "sex: m", "event: no", "event: yes", "stage: 1", "stage: 2", "stage: 3"
    ]  # fmt: skip
    worst = np.argmax(np.abs(np.median(drawn, axis=0) - shares))
    assert f"{percent(np.median(drawn, axis=0)[worst])}, really {percent(shares[worst])}" in message(figure)


def test_of_few_datasets_each_share_is_a_dot():
    found = compared(3)
    dots = share_figure(found).data[1]
    drawn = np.concatenate([each.synthetic_shares for each in found.categories.shares], axis=1)
    np.testing.assert_allclose(dots.x, drawn.ravel())


def test_associations_are_one_square_and_their_differences():
    found = compared(40)
    figure = association_figure(found)
    square, difference = (np.array(trace.z, dtype=float) for trace in figure.data)
    real, middle = found.associations, np.median(found.synthetic_associations, axis=0)
    above, below = np.triu_indices(5, 1), np.tril_indices(5, -1)
    np.testing.assert_allclose(square[above], middle[above])
    np.testing.assert_allclose(square[below], real[below])
    np.testing.assert_allclose(difference[below], (middle - real)[below])
    assert np.isnan(difference[above]).all()
    assert "age and event: η" in figure.data[0].hovertext[0][3]
    assert "sex and stage: Cramér's V" in figure.data[0].hovertext[2][4]
    assert f"at most {number(np.abs(middle - real).max(), 2)} away" in message(figure)


def test_many_levels_and_one_column(rng):
    names = ((), ("kind",), (tuple(map(str, range(50))),))
    codes, empty = rng.integers(0, 50, (400, 1)), np.zeros((400, 0))
    found = abo.fidelity(records(empty, codes, *names), release_of([(empty, rng.permutation(codes))] * 2, *names))
    figure = share_figure(found)
    assert "the 15 of 50 levels" in figure.layout.xaxis.title.text.replace("<br>", " ")
    assert message(association_figure(found)) == "A single column goes together with none."
    for draw in (correlation_figure, correlation_difference_figure, mean_difference_figure, ks_figure):
        assert "no measurements" in message(draw(found))
    assert "ratio" in message(propensity_figure(found))


def test_too_few_whole_rows_have_no_propensity_scores(rng):
    values = rng.standard_normal((40, 2))
    values[np.arange(40), np.arange(40) % 2] = np.nan
    names = (("a", "b"), ("c",), (("x", "y"),))
    drawn = [(rng.standard_normal((40, 2)), rng.integers(0, 2, (40, 1))) for _ in range(2)]
    found = abo.fidelity(records(values, rng.integers(0, 2, (40, 1)), *names), release_of(drawn, *names))
    assert found.complete == 0
    assert np.isnan(found.pmse).all()
    assert "too few rows without gaps" in message(propensity_figure(found))
    assert "b and a" not in found.beyond_noise().correlations
    assert association_figure(found).layout.meta["message"].startswith("The median synthetic association")


@pytest.mark.parametrize("names", [(), NAMES])
def test_names_enter_as_text_and_letters_are_large_enough(names):
    for figure in mixed(25, names):
        content = figure.to_plotly_json()
        content["layout"].pop("meta")
        sizes = [value for path, value in leaves(content) if path[-2:] == ("font", "size")]
        assert min(sizes) >= 12
        texts = [value for _, value in leaves(content) if isinstance(value, str)]
        for array in (trace.get(key) for trace in content["data"] for key in ("text", "hovertext")):
            texts += [] if array is None else [str(one) for one in np.ravel(np.array(array, dtype=object))]
        for text in texts:
            left = re.sub(r"</?(b|br|span)\b( style='[^']*')?>", "", text)
            assert "<" not in left, text
            assert "%{" not in left.replace("%{text}", ""), text
