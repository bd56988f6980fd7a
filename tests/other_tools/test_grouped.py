"""Replicated uniques, DiSCO and CAP: literal counts on tables of 20 rows, and one counted by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from allbutone.other_tools.games import Rate
from allbutone.other_tools.grouped import _attribute, grouped
from allbutone.other_tools.side_by_side import SideBySide


def literal(people, rows, target, keys):
    """Count as one would with a pencil: person by person, row by row."""
    disco, cap, disco_others, cap_others = 0, 0.0, 0, 0.0
    for who, person in enumerate(people):
        same = [row for row in rows if all(row[key] == person[key] for key in keys)]
        right = [row for row in same if row[target] == person[target]]
        cap += len(right) / len(same) if same else 0
        disco += bool(same) and len(right) == len(same)
        others = [other for at, other in enumerate(people) if at != who]
        same = [row for row in others if all(row[key] == person[key] for key in keys)]
        right = [row for row in same if row[target] == person[target]]
        cap_others += len(right) / len(same) if same else 0
        disco_others += bool(same) and len(right) == len(same)
    return [each / len(people) for each in (disco, disco_others, cap, cap_others)]


def tables_of(people, rows):
    names = tuple(f"c{place}" for place in range(people.shape[1]))
    return SideBySide(names, np.ones(len(names), dtype=bool), people.astype(float), rows.astype(float))


levels = st.lists(st.tuples(*[st.integers(0, 2)] * 3), min_size=20, max_size=20)


@given(levels, levels)
def test_the_measures_are_the_literal_counts(people, rows):
    people, rows = np.array(people), np.array(rows)
    none = np.empty((0, 3), dtype=int)
    for target, keys in ((0, (1, 2)), (2, (0,))):
        found = _attribute(("a", "b", "c"), people, rows, none, target, keys)
        ours = [found.disco, found.disco_by_others, found.cap, found.cap_by_others]
        assert ours == pytest.approx(literal(people.tolist(), rows.tolist(), target, keys))
    [whole] = grouped(tables_of(people, rows), groupings=[None])
    mine, theirs = ([tuple(each) for each in part.tolist()] for part in (people, rows))
    assert whole.unique == sum(mine.count(each) == 1 for each in mine)
    assert whole.replicated == sum(mine.count(each) == 1 == theirs.count(each) for each in mine)


def test_a_table_of_twenty_counted_by_hand():
    """Ten people have key 0, six of them with target 0; five have key 1, all with 1; five have key 2, all with 0.

    The rows have key 0 three times, with 0, 0 and 1; key 1 twice, with 1; key 2 not at all. So all five people of
    key 1 are told, and nobody else: DiSCO 5/20. CAP is (6·2/3 + 4·1/3 + 5·1)/20. From the other people's records
    those of keys 1 and 2 are told: 10/20.
    """
    keys = [0] * 10 + [1] * 5 + [2] * 5
    targets = [0] * 6 + [1] * 4 + [1] * 5 + [0] * 5
    rows = [[0, 0], [0, 0], [0, 1], [1, 1], [1, 1]]
    none = np.empty((0, 2), dtype=int)
    found = _attribute(("key", "target"), np.column_stack([keys, targets]), np.array(rows), none, 1, (0,))
    assert found.disco == pytest.approx(5 / 20)
    assert found.disco_by_others == pytest.approx(10 / 20)
    assert found.cap == pytest.approx((6 * 2 / 3 + 4 * 1 / 3 + 5) / 20)
    assert found.cap_by_others == pytest.approx((6 * 5 / 9 + 4 * 3 / 9 + 5 + 5) / 20)


def test_replicated_uniques_counted_by_hand():
    """Of 20 people 18 share their row, those with 8 and 9 do not; the rows have 8 once and 9 twice."""
    people = np.array([[each, 0] for each in [0] * 9 + [1] * 9 + [8, 9]])
    rows = np.array([[8, 0], [9, 0], [9, 0], [0, 0]])
    [found] = grouped(tables_of(people, rows), groupings=[None])
    assert (found.unique, found.replicated) == (2, 1)


def test_groups_have_as_many_people_each_and_grouping_decides(rng):
    """The same rows: nothing as they are, most in few groups of what is told anyway."""
    people, rows = (np.tile(each, (2, 1)).T for each in rng.standard_normal((2, 400)))
    tables = SideBySide(("a", "b"), np.zeros(2, dtype=bool), people, rows)
    found = grouped(tables, known=["a"])
    assert found[-1].worst_disco.disco == 0
    few = found[3]
    assert few.groups == 10
    assert few.worst_disco.disco == pytest.approx(1, abs=0.02)
    assert few.worst_disco.disco_by_others == pytest.approx(1, abs=0.02)


def test_wilsons_interval_is_the_literal_one():
    """Its ends p solve (share − p)² = z²·p(1 − p)/n."""
    for hits, of in ((0, 10), (3, 10), (60, 61)):
        for end in Rate(hits, of).interval:
            if 0 < end < 1:
                assert (hits / of - end) ** 2 == pytest.approx(1.959963985**2 * end * (1 - end) / of, rel=1e-6)
