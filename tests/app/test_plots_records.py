"""All records in one figure, and one of them after a trial release, whatever the size of the table."""

import numpy as np
import pytest

import allbutone as abo
from allbutone.app.pages.record import attribute_lines, axes, most_of, row_of
from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.record_view import Attribute
from allbutone.disclosure.rule import Rule
from allbutone.figures.budget import MOST_DOTS, records_figure
from allbutone.tables.schema import Schema


def drawn(values, rows, count):
    """The figure of a table, its people in order, and their chances."""
    records = abo.Records(values, tuple("abcde"[: values.shape[1]]))
    lineup = Lineup.of(records, abo.NIW.flat(values.shape[1]), rows, Rule())
    chances = lineup.chances(count)
    return records_figure(lineup, records.rows, count, chances), lineup, chances


def test_many_records_are_a_few_thousand_dots():
    figure, lineup, _ = drawn(np.random.default_rng(1).standard_normal((50_000, 2)), 1000, 10)
    numbers = figure.data[0].customdata
    assert len(numbers) <= MOST_DOTS
    assert numbers[0] == np.argmax(lineup.leverage) + 1
    assert "50,000" in figure.layout.xaxis.title.text.replace("<br>", " ")
    assert figure.layout.meta["message"].startswith("By 10 datasets nobody is disclosed")


def test_a_trial_is_never_large():
    assert most_of(503, 5) == 100
    assert most_of(100_000, 10) == 5
    assert most_of(1_000_000, 50) == 0
    assert most_of(None, 5) == 100
    assert row_of("17", np.arange(1, 41)) == 17
    for text in ("", "0", "41", "1.5", "९९", "1" * 40):
        with pytest.raises(abo.InputError, match="is none of this table; give one from 1 to 40"):
            row_of(text, np.arange(1, 41))


def test_each_record_is_at_its_leverage_and_chance():
    values = np.random.default_rng(2).standard_normal((40, 2))
    values[16] = 9.0
    figure, lineup, chances = drawn(values, 40, 30)
    dots = figure.data[0]
    np.testing.assert_allclose(dots.y, chances, rtol=1e-6)
    np.testing.assert_allclose(dots.x, lineup.leverage[lineup.order], rtol=1e-6)
    assert dots.customdata[0] == 17
    assert "row 17 is the likeliest" in figure.layout.meta["message"]


def test_two_different_columns_are_shown():
    names = ("a", "b", "c")
    assert [axes(names, x, y) for x, y in (("", ""), ("c", "a"), ("b", "b"), ("a", "a"), ("z", "c"))] == [
        (0, 1), (2, 0), (1, 0), (0, 1), (0, 2),
    ]  # fmt: skip


def test_what_is_learned_is_said_in_words():
    near, far = Attribute("a", 5.0, 4.7, 0.0, 0.4, 1.0), Attribute("b", 5000.0, 2000.0, 0.0, 31.0, 1200.0)
    assert [line["words"] for line in attribute_lines((near, far), Schema())] == [
        "known to within ±0.40 instead of ±1.00",
        "believed to within ±31 instead of ±1,200, but off by 3,000; without the release by 5,000",
    ]
