"""Copies: people whose row, half a row or value nobody else has, and which stand in the release nevertheless.

What would chance do? Of as many rows drawn from the population that the table is a sample of, some have a value
that one person alone has. Three things tell how often. By counting: with λ a value's expected number,
Σ λe^(−λ)(1 − e^(−tλ)) ≤ t·Σ λ²e^(−λ), which is t times the expected number of people who share their value with
exactly one other (Good and Turing); t synthetic rows there are for each person. By distance: within the distance
to the nearest other person lies about one n-th of the population, spread over so many values as there are units on
the way, in each column; t over their number is how often chance draws the person's own. By those who share: where
values lie on a grid that is coarser than their digits (ounces written in grams, logarithms of whole numbers,
answers by tens), more people share one than the distances say, and so many times more often chance draws it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import bdtrc, pdtrc

from allbutone.other_tools.nearest import nearest_two
from allbutone.other_tools.side_by_side import SideBySide, labels

UNLIKELY = 1e-4  # what happens by chance less often than this is not put down to chance
HALF = 0.5  # of those who are named, at most, may be there by chance: the one rule's probability
YARDSTICK = 5000  # people from whom it is told what chance does
TENTH = 0.1  # of the way to the nearest other person: a row so near is nearly a copy
NEARBY = 5  # values below and above, by which it is told how many digits values have there
DENSER = 3.0  # times as many rows as in the population may lie near somebody because a model has smoothed


@dataclass(frozen=True, eq=False)
class Copied:
    """What the release has of some columns that one person alone has.

    unique: people whose values in these columns nobody else has; there: those of them whose values the release
    has; named: those of them whom chance does not explain. expected: how many chance would put there, at most.
    replicated: how many are unique in the release, too. coarser: how many times more people share their values
    than the distances between people say.
    """

    columns: tuple[str, ...]
    unique: Bool[np.ndarray, " n"]
    there: Bool[np.ndarray, " n"]
    named: Bool[np.ndarray, " n"]
    expected: float
    replicated: int
    coarser: float


@dataclass(frozen=True)
class End:
    """The lowest or highest value of a column: in the table, whose, and in the release.

    alone: whether one person alone has it; place: where that person stands among the records. chance: at most so
    likely an independent release ends there, too.
    """

    column: str
    highest: bool
    in_table: float
    released: float
    place: int
    alone: bool
    chance: float
    named: bool = False

    @property
    def is_told(self) -> bool:
        """Whether the release ends where the table ends."""
        return self.alone and self.in_table == self.released


@dataclass(frozen=True, eq=False)
class Near:
    """Rows that lie nearer to a person than a tenth of the way to the nearest other person.

    there: people who have such a row; row: which is nearest; named: those whom chance does not explain; expected:
    as many as chance would give. to_rows, to_people: distances to the nearest row and the nearest other person.
    """

    there: Bool[np.ndarray, " n"]
    row: Int[np.ndarray, " n"]
    named: Bool[np.ndarray, " n"]
    expected: float
    to_rows: Float[np.ndarray, " n"]
    to_people: Float[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Copies:
    """All copies: of rows, of halves of rows, of single values, of the ends of columns, and nearly of rows.

    new_values: how many different values a column of the release has that nobody in the table has.
    """

    rows: Copied
    halves: tuple[Copied, ...]
    values: tuple[Copied, ...]
    ends: tuple[End, ...]
    near: Near
    new_values: dict[str, int]

    def disclosed(self, tables: SideBySide, probability: float) -> Bool[np.ndarray, "n f"]:
        """Say which values of whom are given away.

        All of a row or half of one that is copied. A single value where the adversary, who has everybody else's
        records, finds hardly another value in the release that none of them has.
        """
        found = np.zeros(tables.people.shape, dtype=bool)
        for each in (self.rows, *self.halves):
            found[np.ix_(each.named, np.isin(tables.names, each.columns))] = True
        for each in self.values:
            if self.tells(each, probability):
                found[each.named, tables.names.index(each.columns[0])] = True
        for end in self.ends:
            if end.named:
                found[end.place, tables.names.index(end.column)] = True
        spread = np.nanstd(tables.people, axis=0)
        close = np.abs(tables.rows[self.near.row] - tables.people) <= TENTH * spread
        return found | (self.near.named[:, None] & close)

    def tells(self, value: Copied, probability: float) -> bool:
        """Say whether single values of a column are given away: hardly another of its values is new."""
        return bool(value.named.any()) and 1 / (1 + self.new_values[value.columns[0]]) >= probability


def find_copies(tables: SideBySide) -> Copies:
    """Look for all kinds of copies."""
    every = list(range(len(tables.names)))
    middle = len(every) // 2
    # in the order of the columns, and every second one: what a tool drew together often stands together
    halves = [every[:middle], every[middle:], every[::2], every[1::2]] if len(every) > 3 else []
    rng = np.random.default_rng(0)  # of who is a yardstick, no secret; the same answer twice
    measured = np.flatnonzero(~tables.is_category).tolist()
    people, rows = tables.codes
    new = {tables.names[place]: len(np.setdiff1d(rows[:, place], people[:, place])) for place in measured}
    values = [_copied(tables, [place], rng) for place in measured]
    coarser = np.ones(len(every))
    coarser[measured] = [each.coarser for each in values]
    several = [_copied(tables, some, rng, float(np.prod(coarser[some]))) for some in (every, *halves)]
    return Copies(
        several[0],
        tuple(several[1:]),
        tuple(values),
        _ends(tables, measured, [each.coarser for each in values]),
        _near(tables, rng),
        new,
    )


def people_among(tables: SideBySide, others: Float[np.ndarray, "m f"]) -> int:
    """Return how many people of the table stand among others, where chance does not explain it."""
    beside = replace(tables, rows=others, control=None)
    return int(_copied(beside, range(len(tables.names)), np.random.default_rng(0)).named.sum())


def _copied(tables: SideBySide, columns: Sequence[int], rng: np.random.Generator, coarser: float = 1.0) -> Copied:
    """Look for copies of some columns of a row; coarser: as each column by itself is, all taken together."""
    people, rows = (each[:, columns] for each in tables.codes)
    every = labels(np.concatenate([people, rows]))
    mine, theirs = every[: len(people)], every[len(people) :]
    held, released = (np.bincount(each, minlength=every.max() + 1) for each in (mine, theirs))
    whole = (people >= 0).any(axis=1)  # nobody is known by a gap
    unique = (held[mine] == 1) & whole
    there = unique & (released[mine] > 0)
    twins = (held[mine] == 2) & whole
    asked = np.flatnonzero(there)
    some, weight = _yardstick(unique, rng)
    pairs, pairs_weight = _yardstick(twins, rng)
    found, alone, shared = (_by_distance(tables, columns, *each) for each in ((asked, 1), (some, 1), (pairs, 2)))
    coarser = max(coarser, coarser_than_distances(alone, shared, weight, pairs_weight))
    of_found, of_alone = (np.minimum(1.0, tables.share * coarser * each) for each in (found, alone))
    sharing = Sharing(pairs_weight * np.searchsorted(np.sort(shared), found, side="right"), tables.share)
    named = np.zeros(len(people), dtype=bool)
    named[asked] = beyond_chance(of_found, of_alone, weight, sharing)
    return Copied(
        tuple(tables.names[place] for place in columns),
        unique,
        there,
        named,
        float(min(weight * of_alone.sum(), tables.share * (twins.sum() + 1))),
        int(np.sum(unique & (released[mine] == 1))),
        coarser,
    )


def _yardstick(people: Bool[np.ndarray, " n"], rng: np.random.Generator) -> tuple[Int[np.ndarray, " m"], float]:
    """Return some of these people, and for how many each of them stands."""
    some = np.flatnonzero(people)
    if len(some) <= YARDSTICK:
        return some, 1.0
    return rng.choice(some, YARDSTICK, replace=False), len(some) / YARDSTICK


def _by_distance(
    tables: SideBySide, columns: Sequence[int], people: Int[np.ndarray, " m"], alike: int
) -> Float[np.ndarray, " m"]:
    """Return one over the number of values on the way to the nearest person who is not among the `alike`."""
    from scipy.spatial import cKDTree  # not above: it is slow to load

    measured = [place for place in columns if not tables.is_category[place]]
    if not measured or not len(people):
        return np.ones(len(people))
    values = tables.people[:, measured]
    units = np.stack([_units_nearby(column) for column in values.T], axis=1)[people]
    spread = np.nanstd(values, axis=0)
    spread[spread == 0] = 1
    scaled = np.where(np.isnan(values), np.nanmedian(values, axis=0), values) / spread
    away, _ = cKDTree(scaled).query(scaled[people], k=[alike + 1], p=np.inf)
    cells = 2 * np.ceil(away * spread / units - 1e-6) - 1
    cells = np.minimum(cells, 1 + (np.nanmax(values, axis=0) - np.nanmin(values, axis=0)) / units)
    cells[np.isnan(values[people])] = 1  # a gap is one value
    return 1 / np.prod(np.maximum(cells, 1.0), axis=1)


def coarser_than_distances(
    alone: Float[np.ndarray, " k"], shared: Float[np.ndarray, " m"], weight: float = 1.0, pairs_weight: float = 1.0
) -> float:
    """Return how many times more people share their values than the distances say, where that is most.

    alone, shared: how often each person would meet their own values in another, by the distances, of those who
    are alone and of those who share theirs with one other.
    """
    each, weights = np.append(alone, shared), np.repeat([weight, pairs_weight], [len(alone), len(shared)])
    order = np.argsort(each)
    ordered = each[order]
    as_near = np.searchsorted(ordered, ordered, side="right")
    expected = np.cumsum((each * weights)[order])[as_near - 1]
    sharing = pairs_weight * np.searchsorted(np.sort(shared), ordered, side="right")
    return float(np.max(sharing / np.maximum(expected, 1.0), initial=1.0))


def _units_nearby(column: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Return the step between possible values around each: coarser where all values nearby have fewer digits."""
    digits = np.full(len(column), -3)  # after the point
    for more in range(-2, 11):
        digits[np.abs(np.round(column, more - 1) - column) > 1e-9 * np.abs(column)] = more
    order = np.argsort(column, kind="stable")
    padded = np.pad(digits[order], NEARBY, mode="edge")
    most = np.lib.stride_tricks.sliding_window_view(padded, 2 * NEARBY + 1).max(axis=1)
    found = np.empty(len(column))
    found[order] = np.maximum(_unit(column), 10.0**-most)
    return found


def _unit(column: Float[np.ndarray, " n"]) -> float:
    """Return the smallest step between values that the table has."""
    different = np.unique(column[~np.isnan(column)])
    steps = np.diff(different)
    steps = steps[steps > 1e-9 * max(1e-300, float(np.max(np.abs(different), initial=0.0)))]
    return float(steps.min()) if len(steps) else 1.0


@dataclass(frozen=True, eq=False)
class Sharing:
    """How many people share their values with one other, up to each who is there; rows for each person."""

    people: Float[np.ndarray, " k"]
    share: float


def beyond_chance(
    chance: Float[np.ndarray, " k"],
    yardstick: Float[np.ndarray, " m"],
    weight: float = 1.0,
    sharing: Sharing | None = None,
) -> Bool[np.ndarray, " k"]:
    """Say which of those who are there are there by more than chance: as many of the least likely as can be.

    Among all people whose chance is as small, at most half as many are expected, and so many hardly ever. As many
    are expected, too, as people share their values; both counts vary, so that their ratio is judged. Where nobody
    shares, the chances alone decide, and where chances tell nothing, sharing does.
    """
    order = np.argsort(chance, kind="stable") if sharing is None else np.lexsort((sharing.people, chance))
    sorted_yardstick = np.sort(yardstick)
    sums = np.concatenate([[0.0], np.cumsum(sorted_yardstick)])
    expected = weight * sums[np.searchsorted(sorted_yardstick, chance[order] * (1 + 1e-12), side="right")]
    counts = np.arange(1, len(order) + 1)
    sure = (expected <= HALF * counts) & (pdtrc(counts - 1, np.maximum(expected, 1e-300)) <= UNLIKELY)
    if sharing is not None:
        alike, odds = sharing.people[order], 2 * sharing.share
        by_both = bdtrc(counts - 1, counts + np.round(alike / 2).astype(int), odds / (1 + odds)) <= UNLIKELY
        few = sharing.share * (alike + 1) <= HALF * counts
        sure = (sure & (alike == 0)) | (by_both & few)
    named = np.zeros(len(order), dtype=bool)
    if sure.any():
        named[order[: np.flatnonzero(sure)[-1] + 1]] = True
    return named


def _ends(tables: SideBySide, measured: Sequence[int], coarser: Sequence[float]) -> tuple[End, ...]:
    """Compare where columns end in the table and in the release: tools that limit values to those seen tell it."""
    found: list[End] = []
    people, rows = tables.codes
    for place, grid in zip(measured, coarser, strict=True):
        column, released = tables.people[:, place], tables.rows[:, place]
        different, counts = np.unique(people[people[:, place] >= 0, place], return_counts=True)
        if len(different) < 2 or np.isnan(released).all():
            continue
        unit = _unit(column)
        for highest in (False, True):
            end, next_one = (-1, -2) if highest else (0, 1)
            who = int(np.flatnonzero(people[:, place] == different[end])[0])
            neighbour = column[np.flatnonzero(people[:, place] == different[next_one])[0]]
            theirs = int((np.nanargmax if highest else np.nanargmin)(released))
            same = rows[theirs, place] == different[end]
            told = float(column[who] if same else released[theirs])
            gap = abs(float(column[who] - neighbour)) / unit
            chance = min(1.0, grid * tables.share / max(2 * round(gap) - 1, 1))
            alone = int(counts[end]) == 1
            found.append(End(tables.names[place], highest, float(column[who]), told, who, alone, chance))
    chances = np.array([each.chance for each in found if each.alone])
    hit = np.array([each.is_told for each in found], dtype=bool)
    named = np.zeros(len(found), dtype=bool)
    named[hit] = beyond_chance(np.array([each.chance for each in found if each.is_told]), chances)
    return tuple(replace(end, named=bool(each)) for end, each in zip(found, named, strict=True))


def _near(tables: SideBySide, rng: np.random.Generator) -> Near:
    """Look for rows that are nearly somebody's; how often that happens, the people themselves tell.

    Where people lie evenly, of d dimensions, the nearest of them is within a tenth of the way to the second
    nearest in one of 10^d cases, and so is a synthetic row that has nothing to do with the person.
    """
    n = len(tables.people)
    some = np.arange(n) if n <= YARDSTICK else rng.choice(n, YARDSTICK, replace=False)
    to_rows, first, second = np.full((3, n), np.nan)
    row = np.zeros(n, dtype=np.int64)
    to_rows[some], row[some], both = nearest_two(tables, some)
    first[some], second[some] = both.T
    with np.errstate(invalid="ignore"):
        there = (to_rows <= TENTH * first) & (first > 0)
        pairs = int(np.sum((first <= TENTH * second) & (second > 0)))
    count, odds = int(there.sum()), DENSER * tables.share
    expected = odds * (pairs + 1)
    unlikely = count > 0 and bdtrc(count - 1, count + pairs, odds / (1 + odds)) <= UNLIKELY
    named = there & bool(unlikely and expected <= HALF * count)
    return Near(there, row, named, float(expected), to_rows, first)
