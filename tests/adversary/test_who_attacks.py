"""Who attacks: names and rows are taken in every form, and what cannot be is refused in words."""

import pytest

import allbutone as abo

COLUMNS = ("age", "sex", "crp")


def test_the_usual_adversary_lacks_nothing_and_knows_nothing_more() -> None:
    assert abo.Adversary().is_usual
    assert abo.Adversary((), [], []).is_usual
    assert not abo.Adversary(prior={"centre": 0.0}).is_usual
    assert not abo.Adversary(lacking_records=1).is_usual


def test_names_come_alone_in_a_list_or_in_one_text() -> None:
    expected = abo.Adversary(known=("age", "sex"))
    for names in (["age", "sex"], ("age", "sex", "age"), "age,sex", "age, sex"):
        assert abo.Adversary(known=names).of(COLUMNS) == expected


def test_rows_that_are_lacking_are_in_order_and_once() -> None:
    assert abo.Adversary(lacking_records=[7, 3, 7]).lacking_records == (3, 7)
    assert abo.Adversary(lacking_records=4).lacking_records == 4


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"known": "height"}, "no column 'height' to know"),
        ({"lacking_columns": ["height"]}, "no column 'height' to lack"),
        ({"known": "age", "lacking_columns": "age"}, "have it of nobody"),
        ({"known": "age,sex,crp"}, "knows everything"),
        ({"lacking_columns": COLUMNS}, "lacks every column"),
        ({"lacking_records": -1}, "at least 1"),
        ({"lacking_records": [0]}, "at least 1"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict, words: str) -> None:
    with pytest.raises(abo.InputError, match=words):
        abo.Adversary(**asked).of(COLUMNS)
