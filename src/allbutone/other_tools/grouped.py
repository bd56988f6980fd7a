"""Replicated uniques, DiSCO and CAP over a range of groupings: in one grouping each says what one likes.

Who knows some columns of a person (the keys) looks at the synthetic rows that have the same, and reads the target
off them. CAP is the share of these rows that are right, 0 where there are none; DiSCO counts people for whom all
of them agree and are right (Raab, Nowok and Dibben 2024, as synthpop counts). Beside each stands what the records
of all other people say in the place of the rows: that is known without the release.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from jaxtyping import Float, Int

from allbutone.other_tools.side_by_side import SideBySide, labels

GROUPINGS: tuple[int | None, ...] = (2, 3, 5, 10, 20, 50, None)  # of each measurement, as many people in each
MOST_PAIRS = 45  # of columns that somebody knows, for each target


@dataclass(frozen=True)
class Attribute:
    """What the keys tell of the target in one grouping, on average over people, with the rows and without.

    by_others: the same from the records of all other people; control: of people who had no part in the rows.
    """

    target: str
    keys: tuple[str, ...]
    disco: float
    disco_by_others: float
    cap: float
    cap_by_others: float
    disco_control: float | None = None
    cap_control: float | None = None


@dataclass(frozen=True)
class Grouping:
    """All measures in one grouping; groups: of each measurement, None where values are as they are.

    unique: people whose row nobody else has; replicated: those whose row the release has exactly once, too;
    by_chance: as many as an independent sample would have, at most. Worst of all targets and keys: by what the
    rows tell beyond what the others' records do.
    """

    groups: int | None
    people: int
    unique: int
    replicated: int
    by_chance: float
    worst_disco: Attribute
    worst_cap: Attribute

    @property
    def name(self) -> str:
        """How the measurements are grouped, in words."""
        return "as they are" if self.groups is None else f"{self.groups} groups"

    @property
    def in_words(self) -> str:
        """The grouping, as it follows a verb."""
        return "with values as they are" if self.groups is None else f"in {self.groups} groups"


def grouped(
    tables: SideBySide, known: Sequence[str] = (), groupings: Sequence[int | None] = GROUPINGS
) -> tuple[Grouping, ...]:
    """Return the measures in each grouping; known: the keys, by default all other columns, and any two of them."""
    return tuple(_in_groups(tables, groups, known) for groups in groupings)


def group_codes(
    tables: SideBySide, groups: int | None
) -> tuple[Int[np.ndarray, "n f"], Int[np.ndarray, "rows f"], Int[np.ndarray, "control f"]]:
    """Return every value by the number of its group: of equally many people each, by the table's own quantiles."""
    control = np.empty((0, len(tables.names))) if tables.control is None else tables.control
    every = np.concatenate([tables.people, tables.rows, control])
    found = np.empty(every.shape, dtype=np.int64)
    for place, column in enumerate(every.T):
        gaps = np.isnan(column)
        own = tables.people[:, place]
        if groups is None or tables.is_category[place] or np.isnan(own).all():
            found[:, place] = np.unique(column, return_inverse=True)[1]
        else:
            edges = np.unique(np.nanquantile(own, np.arange(1, groups) / groups))
            found[:, place] = np.searchsorted(edges, column, side="right")
        found[gaps, place] = -1
    first, second = len(tables.people), len(tables.people) + len(tables.rows)
    return found[:first], found[first:second], found[second:]


def _in_groups(tables: SideBySide, groups: int | None, known: Sequence[str]) -> Grouping:
    people, rows, control = group_codes(tables, groups)
    every = labels(np.concatenate([people, rows]))
    held, released = (
        np.bincount(each, minlength=every.max() + 1) for each in (every[: len(people)], every[len(people) :])
    )
    found = [
        _attribute(tables.names, people, rows, control, target, keys)
        for target, keys in _questions(tables.names, known)
    ] or [Attribute(tables.names[0], (), 0.0, 0.0, 0.0, 0.0)]  # of one column nothing tells anything
    return Grouping(
        groups,
        len(people),
        int(np.sum(held == 1)),
        int(np.sum((held == 1) & (released == 1))),
        2 * tables.share * int(np.sum(held == 2)),
        max(found, key=lambda each: each.disco - each.disco_by_others),
        max(found, key=lambda each: each.cap - each.cap_by_others),
    )


def _questions(names: Sequence[str], known: Sequence[str]) -> list[tuple[int, tuple[int, ...]]]:
    """Return each target with what is known: the columns named, or all others, and any two of them."""
    asked = []
    for target in range(len(names)):
        others = [place for place in range(len(names)) if place != target]
        if known:
            if names[target] not in known:
                asked.append((target, tuple(names.index(name) for name in known)))
            continue
        pairs = list(combinations(others, 2)) if len(others) > 2 else []
        step = -(-len(pairs) // MOST_PAIRS) or 1
        asked += [(target, keys) for keys in [tuple(others), *pairs[::step]] if keys]
    return asked


def _attribute(
    names: Sequence[str],
    people: Int[np.ndarray, "n f"],
    rows: Int[np.ndarray, "rows f"],
    control: Int[np.ndarray, "control f"],
    target: int,
    keys: tuple[int, ...],
) -> Attribute:
    every = np.concatenate([people, rows, control])
    by_key = labels(every[:, list(keys)])
    by_both = labels(np.column_stack([by_key, every[:, target]]))
    first, second = len(people), len(people) + len(rows)

    def right(donors: slice, whom: slice, own: int = 0) -> Float[np.ndarray, " m"]:
        """Return the share of right ones among the donors that have the keys; own: of them oneself."""
        same = np.bincount(by_both[donors], minlength=by_both.max() + 1)[by_both[whom]] - own
        of = np.bincount(by_key[donors], minlength=by_key.max() + 1)[by_key[whom]] - own
        return np.divide(same, of, out=np.zeros(len(same)), where=of > 0)

    everyone, made, outside = slice(first), slice(first, second), slice(second, None)
    cap, others = right(made, everyone), right(everyone, everyone, own=1)
    said = right(made, outside) if len(control) else None
    return Attribute(
        names[target],
        tuple(names[place] for place in keys),
        float(np.mean(cap == 1)),
        float(np.mean(others == 1)),
        float(np.mean(cap)),
        float(np.mean(others)),
        None if said is None else float(np.mean(said == 1)),
        None if said is None else float(np.mean(said)),
    )
