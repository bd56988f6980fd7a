"""Singling out, linkability and inference: by literal loops over people and rows."""

import numpy as np
import pytest

from allbutone.other_tools.games import _inference, _linkability, _Queries, play
from allbutone.other_tools.nearest import embedded, nearest
from allbutone.other_tools.side_by_side import SideBySide


@pytest.fixture
def tables(rng):
    def some(count):
        return np.column_stack([rng.normal(5, 1, count), rng.integers(0, 3, count), rng.normal(0, 2, count)])

    return SideBySide(("a", "b", "c"), np.array([False, True, False]), some(40), some(60), some(30))


def gower(tables, one, other, columns, ranges):
    return sum(
        float(one[at] != other[at]) if tables.is_category[at] else abs(one[at] - other[at]) / ranges[at]
        for at in columns
    )


def test_the_nearest_row_is_the_literal_one(tables):
    both = np.concatenate([tables.people, tables.rows])
    ranges = both.max(axis=0) - both.min(axis=0)
    for columns in ([0, 1, 2], [1, 2], [0]):
        away, which = nearest(*embedded(tables, columns, tables.people, tables.rows))
        for at, person in enumerate(tables.people):
            literal = [gower(tables, person, row, columns, ranges) for row in tables.rows]
            assert away[at] == pytest.approx(np.sort(literal)[:2])
            assert literal[which[at]] == pytest.approx(min(literal))


def test_linkability_and_inference_are_the_literal_attacks(tables):
    both = np.concatenate([tables.people, tables.rows])
    ranges = both.max(axis=0) - both.min(axis=0)

    def closest(person, columns):
        return int(np.argmin([gower(tables, person, row, columns, ranges) for row in tables.rows]))

    linked = sum(closest(person, [0, 2]) == closest(person, [1]) for person in tables.people)
    found = _linkability(tables, tables.people, None)
    assert (found.attack.hits, found.attack.of, found.baseline) == (linked, 40, 1 / 60)
    for secret in range(3):
        rest = [at for at in range(3) if at != secret]
        guesses = [tables.rows[closest(person, rest), secret] for person in tables.people]
        within = 0.05 * np.abs(guesses) if secret != 1 else np.zeros(40)
        game = _inference(tables, secret, tables.people, None)
        assert game.attack.hits == np.sum(np.abs(guesses - tables.people[:, secret]) <= within)
        chances = [
            np.mean(
                np.abs(tables.rows[:, secret] - own)
                <= (0 if secret == 1 else 0.05) * np.abs(tables.rows[:, secret])
            )
            for own in tables.people[:, secret]
        ]
        assert game.baseline == pytest.approx(np.mean(chances))


def test_questions_count_rows_as_they_say():
    rows = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, np.nan], [3.0, 1.0]])
    asked = _Queries(
        np.array([[0, 1], [0, 1], [0, 1], [1, 0]]),
        np.array([[2.0, 0.0], [3.0, np.nan], [2.0, 0.0], [1.0, 2.0]]),
        np.array([[1, 0], [1, 0], [-1, 0], [0, 1]]),
    )
    assert asked.counts(rows).tolist() == [1, 1, 2, 1]


def test_a_copy_is_found_and_an_independent_sample_is_not(tables, rng):
    people, control = rng.standard_normal((60, 4)), rng.standard_normal((60, 4))
    copy = SideBySide(("a", "b", "c", "d"), np.zeros(4, dtype=bool), people, people, control)
    games = {game.name + game.column: game for game in play(copy, rng)}
    assert games["linkability"].attack.value == 1
    assert games["inferencea"].risk[1] > 0.5
    assert all(game.unlikely > 1e-4 for game in play(tables, rng))
    # the risk as it is defined: what the attack does beyond that on control people, of what was left
    game = games["linkability"]
    attack, control = game.attack.wilson[0], game.control.wilson[0]
    assert game.risk[0] == pytest.approx((attack - control) / (1 - control))
