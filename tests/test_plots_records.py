"""All records in one figure, and one of them after a trial release, whatever the size of the table."""

import numpy as np
import pytest

import allbutone as abo
from allbutone.app.pages.record import axes, lines, most_of, row_of
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.plots.records import MOST_DOTS, records_figure
from allbutone.record_view.record_measures import Attribute
from allbutone.tables.declared.schema import Schema


def numbered(leverage):
    return np.arange(1, len(leverage) + 1)


def test_a_million_records_are_a_few_thousand_dots():
    leverage = np.random.default_rng(1).gamma(2.0, 1e-6, 1_000_000)
    figure = records_figure(ExposureLaw(5, 1e6, 1e6, 1000), leverage, numbered(leverage), 10, 0.5)
    rows = figure.data[1].customdata
    assert len(rows) <= MOST_DOTS
    assert rows[0] == np.argmax(leverage) + 1
    assert "1,000,000" in figure.layout.xaxis.title.text.replace("<br>", " ")
    assert figure.layout.meta["message"].startswith(
        "After 10 datasets no record has an expected exposure above 0.5"
    )


def test_a_trial_is_never_large():
    assert most_of(503, 5) == 100
    assert most_of(100_000, 10) == 5
    assert most_of(1_000_000, 50) == 0
    assert most_of(None, 5) == 100
    assert row_of("17", np.arange(1, 41)) == 17
    for text in ("", "0", "41", "1.5", "९९", "1" * 40):
        with pytest.raises(abo.InputError, match="is none of this table; give one from 1 to 40"):
            row_of(text, np.arange(1, 41))


def test_records_lie_on_the_law():
    setting, leverage = ExposureLaw(2, 100.0, 103.0, 50), np.array([0.0, 0.01, 0.2, 3.0])
    figure = records_figure(setting, leverage, numbered(leverage), 20, 0.5)
    law, dots = figure.data
    heights = np.interp(np.log(dots.x), np.log(law.x), law.y)
    np.testing.assert_allclose(dots.y, heights, atol=0.02)
    assert list(dots.customdata) == [4, 3, 2, 1]
    assert figure.layout.meta["message"].startswith("After 20 datasets 1 of 4 records has")
    draws = records_figure(ExposureLaw(2, 100.0, 103.0, None), leverage, numbered(leverage), 1, 0.5)
    assert "1 parameter draw no record has" in draws.layout.meta["message"]


def test_two_different_columns_are_shown():
    names = ("a", "b", "c")
    assert [axes(names, x, y) for x, y in (("", ""), ("c", "a"), ("b", "b"), ("a", "a"), ("z", "c"))] == [
        (0, 1), (2, 0), (1, 0), (0, 1), (0, 2),
    ]  # fmt: skip


def test_what_is_learned_is_said_in_words():
    near, far = Attribute("a", 5.0, 4.7, 0.0, 0.4, 1.0), Attribute("b", 5000.0, 2000.0, 0.0, 31.0, 1200.0)
    assert [line["words"] for line in lines((near, far), Schema())] == [
        "known to within ±0.40 instead of ±1.00",
        "believed to within ±31 instead of ±1,200, but off by 3,000; without the release by 5,000",
    ]
