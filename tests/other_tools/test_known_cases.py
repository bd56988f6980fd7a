"""Rows of which it is known how they were made come out from worst to best, each found by what should find it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.tree import DecisionTreeRegressor

import allbutone as abo
from allbutone.other_tools.copies import beyond_chance, coarser_than_distances, find_copies
from allbutone.other_tools.grouped import grouped
from allbutone.other_tools.in_words import lines_of
from allbutone.other_tools.side_by_side import SideBySide, labels, significant

PEOPLE, OUTLIER = 120, 7


@pytest.fixture
def population(rng):
    """Draw from the population of the table: six correlated normals with four decimals."""
    root = rng.standard_normal((6, 6))
    return lambda count: (rng.standard_normal((count, 6)) @ root).round(4)


@pytest.fixture
def table(population):
    values = population(PEOPLE)
    values[OUTLIER] = 7 * values.std(axis=0)
    return values.round(4)


def trees(table, rng):
    """Draw each column from the leaf of a tree on those before it: every value is somebody's."""
    rows = np.empty_like(table)
    rows[:, 0] = rng.choice(table[:, 0], len(table))
    for place in range(1, table.shape[1]):
        tree = DecisionTreeRegressor(min_samples_leaf=5, random_state=0).fit(table[:, :place], table[:, place])
        leaves, drawn = tree.apply(table[:, :place]), tree.apply(rows[:, :place])
        rows[:, place] = [rng.choice(table[leaves == leaf, place]) for leaf in drawn]
    return rows


def test_from_worst_to_best(table, population, rng):
    one_copied = population(PEOPLE)
    one_copied[3] = table[OUTLIER]
    made = {
        "a copy": rng.permutation(table),
        "a bootstrap": table[rng.integers(PEOPLE, size=PEOPLE)],
        "one outlier copied": one_copied,
        "trees": trees(table, rng),
        "an independent sample": population(PEOPLE),
    }
    found = {name: abo.audit(table, rows) for name, rows in made.items()}
    others = np.delete(table, OUTLIER, axis=0)  # who is so far out is disclosed by any rows, and left out
    own = abo.Synthesizer().fit(others).sample(datasets=1, rows=30, rng_for_tests=rng).values[0].round(4)
    found["allbutone's own"] = abo.audit(others, own, "posterior")
    copied = {name: int(each.copies.rows.named.sum()) for name, each in found.items()}
    assert copied["a copy"] == PEOPLE
    # of n people 1 − 1/e are in a bootstrap, within five standard errors of a share
    assert copied["a bootstrap"] == pytest.approx(PEOPLE * (1 - np.exp(-1)), abs=5 * np.sqrt(PEOPLE) / 2)
    assert copied["one outlier copied"] == 1
    assert found["one outlier copied"].verdict.disclosed == {
        OUTLIER + 1: tuple(f"x{place}" for place in range(1, 7))
    }
    assert f"Of {len(found['trees'].verdict.disclosed)} people values stand" in found["trees"].verdict.how_sure
    # trees copy no row, but every value is somebody's: who has all others finds what is left
    assert copied["trees"] == 0
    assert set(found["trees"].copies.new_values.values()) == {0}
    assert len(found["trees"].verdict.disclosed) > 0.9 * PEOPLE
    standing = [each.verdict.standing for each in found.values()]
    assert standing == ["against"] * 4 + ["luck", "for"]
    severity = [
        (copied[name], len(each.verdict.disclosed), not each.verdict.is_known) for name, each in found.items()
    ]
    assert severity == sorted(severity, reverse=True)


def test_ends_that_a_tool_limits_values_to_are_told(table, population):
    """Rows limited to the table's own ends give away whose these are; nothing else."""
    limited = np.clip(30 * population(PEOPLE), table.min(axis=0), table.max(axis=0))
    copies = find_copies(SideBySide.of(abo.Records.of(table), [limited]))
    assert all(end.is_told and end.named for end in copies.ends)
    found = abo.audit(table, limited).verdict
    assert {row - 1 for row in found.disclosed} == {*table.argmin(axis=0), *table.argmax(axis=0)}


def test_a_little_noise_does_not_hide_copies(table, rng):
    moved = table + 0.003 * table.std(axis=0) * rng.standard_normal(table.shape)
    found = abo.audit(table, moved)
    assert found.copies.near.named.mean() > 0.8
    assert found.verdict.standing == "against"


def test_independent_samples_are_seldom_called_copies(rng):
    """Whatever the columns: numbers of many digits, whole numbers, levels; of 60 tables hardly any."""
    called = 0
    for _ in range(20):
        values = np.column_stack([rng.normal(size=240), rng.poisson(20, 240), rng.integers(0, 3, 240)])
        for decimals in (0, 1, 6):
            table, rows = np.split(values.round(decimals), 2)
            tables = SideBySide(("a", "b", "c"), np.array([False, False, True]), table, rows)
            called += bool(find_copies(tables).disclosed(tables, 0.5).any())
    assert called <= 1


def test_chance_alone_explains_as_many_as_it_gives(rng):
    """Of those there by chance alone, as many as expected are there, and none is named, but once in 10,000."""
    chances = 10 ** rng.uniform(-4, -0.5, 1000)
    named = [beyond_chance(chances[rng.random(1000) < chances], chances).any() for _ in range(200)]
    assert sum(named) <= 2
    there = (rng.random(1000) < chances) | (np.arange(1000) < 30)
    assert beyond_chance(chances[there], chances)[:30][chances[:30] < 1e-3].all()


def test_with_control_people_only_what_is_the_tables_own_counts(table, population, rng):
    """What rows tell of everybody alike counts against nobody; what they tell of the table's people does."""
    control = population(150)
    smooth = abo.audit(table, population(PEOPLE), control=control)
    assert smooth.verdict.alarms == ()
    assert not smooth.verdict.is_known
    moved = table + 0.05 * table.std(axis=0) * rng.standard_normal(table.shape)
    near = abo.audit(table, moved, control=control)
    assert "linkability" in near.verdict.alarms
    assert near.verdict.standing == "against"


def test_people_of_the_table_are_no_control_people(table, population):
    """They would hide what is told of them; somebody who is there twice hides little."""
    for control in (table, np.concatenate([population(80), table[:20]])):
        with pytest.raises(abo.InputError, match="in the control table, too"):
            abo.audit(table, population(PEOPLE), control=control)
    abo.audit(table, population(PEOPLE), control=np.concatenate([population(80), table[:2]]))


def test_levels_and_gaps_are_compared_as_what_they_are():
    table = pd.DataFrame({"sex": ["f", "m", None, "f"] * 5, "age": [float(each) for each in range(20)]})
    records = abo.Records.of(table, columns=["sex", "age"], categories=True, gaps=True)
    rows = pd.DataFrame({"sex": ["m", "x", None], "age": [3.0, None, 7.0]})
    tables = SideBySide.of(records, [rows])
    np.testing.assert_array_equal(tables.rows, [[1, 3], [2, np.nan], [np.nan, 7]])
    np.testing.assert_array_equal(tables.people[:3], [[0, 0], [1, 1], [np.nan, 2]])
    assert labels(np.array([[1, 2], [1, 2], [2, 1]])).tolist() == [0, 0, 1]
    assert significant(np.array([0.1 + 0.2, np.nan]))[0] == 0.3


def coarse_values(rng, people):
    """Draw values on grids that are coarser than their digits: ounces in grams, logarithms, tens, four digits."""
    fine = rng.normal(700, 250, people)
    return np.column_stack(
        [
            np.round(28.35 * np.round(rng.normal(115, 18, people))),
            np.round(np.log(np.round(rng.lognormal(4.8, 0.5, people))), 4),
            np.where(rng.random(people) < 0.8, fine.round(-1), fine.round()),
            [float(f"{each:.4g}") for each in rng.lognormal(4.6, 0.25, people)],
        ]
    )  # fmt: skip


def test_values_on_a_coarse_grid_are_not_called_copies(rng):
    """Two samples of one population share many values; of 60 columns hardly one is named."""
    named = {"values": 0, "rows": 0}
    for _ in range(15):
        table, rows = np.split(coarse_values(rng, 300), 2)
        found = find_copies(SideBySide(("oz", "log", "tens", "four"), np.zeros(4, dtype=bool), table, rows))
        named["values"] += sum(bool(each.named.any()) for each in found.values)
        named["rows"] += any(each.named.any() for each in (found.rows, *found.halves, found.near))
        assert sum(each.there.sum() for each in found.values) > 20  # shared they are
    assert named["values"] <= 1
    assert named["rows"] == 0


def test_copies_on_a_coarse_grid_are_found(rng):
    table = coarse_values(rng, 150)
    found = find_copies(SideBySide(("oz", "log", "tens", "four"), np.zeros(4, dtype=bool), table, table[::2]))
    assert found.rows.named[::2].mean() > 0.9
    assert not found.rows.named[1::2].any()


def test_sharing_beyond_the_distances_is_counted():
    """Twelve people share a value where distances would let two: six times as many."""
    assert coarser_than_distances(np.full(8, 0.1), np.full(12, 0.1)) == pytest.approx(12 / 2)
    assert coarser_than_distances(np.full(8, 0.9), np.full(2, 0.9)) == 1


def test_in_a_column_of_kinds_alone_sharing_decides(rng):
    """Where all columns are kinds no distance tells anything: as many hits as sharing explains are chance's."""
    kinds = np.ones(8, dtype=bool)
    names = tuple(f"k{place}" for place in range(8))
    people, others = (rng.integers(0, 3, (60, 8)).astype(float) for _ in range(2))
    assert not find_copies(SideBySide(names, kinds, people, others)).rows.named.any()
    assert find_copies(SideBySide(names, kinds, people, people)).rows.named.mean() > 0.9


def test_values_taken_among_many_new_ones_do_not_count(rng):
    """A line is shaded where it counts in the verdict: who finds a person's value there finds others, too."""
    table = rng.standard_normal((60, 1)).round(5)
    rows = np.concatenate([table[:30], rng.standard_normal((30, 1)).round(5)])
    for released, counts in ((rows, False), (table, True)):
        tables = SideBySide(("a",), np.zeros(1, dtype=bool), table, released)
        copies = find_copies(tables)
        assert copies.values[0].named[:30].all()
        lines = lines_of(copies, grouped(tables), [])
        [line] = [each for each in lines if each.measure.startswith("Copies of single")]
        assert line.against == counts == copies.tells(copies.values[0], 0.5)
