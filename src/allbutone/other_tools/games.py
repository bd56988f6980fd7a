"""Singling out, linkability and inference, as Anonymeter (Giomi and others, 2023) defines them, with their
baselines.

Each is an attack on many people that succeeds or not. Beside its rate stand that of a guess without skill, and,
where there are control people, that of the same attack on them: what it tells of them it tells of everybody alike,
and only what it tells of the table's people beyond that can come from their own records.

Three things are done otherwise than by Anonymeter 1.1. Control people are compared with as many people of the
table, where it scales their number by a fit. A guess of a number is right within 5 % of its own size, also below
zero. A baseline is the expectation of a random guess, not one draw of it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int
from scipy.special import ndtri

from allbutone.other_tools.nearest import embedded, nearest
from allbutone.other_tools.side_by_side import SideBySide, significant

ATTACKS = 1000  # on people of the table, and on control people, at most
QUERIES, TRIES = 500, 20_000
MOST_ROWS = 5_000  # that questions are made from
COLUMNS = 3  # of a query
WITHIN = 0.05  # of a guessed number's own size
LEVEL = float(ndtri(0.975))


@dataclass(frozen=True)
class Rate:
    """How many of so many attacks succeeded, with Wilson's interval of 95 %."""

    hits: int
    of: int

    @property
    def value(self) -> float:
        """The share itself."""
        return self.hits / self.of if self.of else 0.0

    @property
    def wilson(self) -> tuple[float, float]:
        """The middle and half the width of Wilson's interval."""
        scale = self.of + LEVEL**2
        spread = self.hits * (self.of - self.hits) / max(self.of, 1) + LEVEL**2 / 4
        return (self.hits + LEVEL**2 / 2) / scale, LEVEL / scale * spread**0.5

    @property
    def interval(self) -> tuple[float, float]:
        """From where to where."""
        middle, half = self.wilson
        return max(0.0, middle - half), min(1.0, middle + half)


@dataclass(frozen=True)
class Game:
    """One kind of attack: its success on people of the table, of a guess without skill, and on control people."""

    name: str
    attack: Rate
    baseline: float
    control: Rate | None = None
    column: str = ""

    @property
    def risk(self) -> tuple[float, float, float] | None:
        """The success beyond that on control people, as a share of what was left, with its 95 % interval.

        None without control people: then nothing tells what of the success comes from people's own records.
        """
        if self.control is None:
            return None
        (attack, wide), (control, other) = self.attack.wilson, self.control.wilson
        value = (attack - control) / (1 - control)
        error = np.hypot(wide / (1 - control), other * (attack - 1) / (1 - control) ** 2)
        return tuple(float(np.clip(each, 0, 1)) for each in (value, value - error, value + error))  # type: ignore[return-value]

    @property
    def unlikely(self) -> float:
        """How often chance makes the attack do so much better on the table's people than on control people."""
        if self.control is None or not self.attack.hits:
            return 1.0
        from scipy.stats import fisher_exact  # not above: it is slow to load

        table = [[each.hits, each.of - each.hits] for each in (self.attack, self.control)]
        return float(fisher_exact(table, "greater").pvalue)


def play(
    tables: SideBySide, rng: np.random.Generator, watch: Callable[[int], None] = lambda one: None
) -> list[Game]:
    """Play all games: singling out by one column and by several, linkability, and inference of each column."""
    people = _some(tables.people, rng)
    control = None if tables.control is None else _some(tables.control, rng)
    games = []
    for columns in dict.fromkeys((1, min(COLUMNS, len(tables.names)))):
        games.append(_singling_out(tables, columns, rng))
        watch(1)
    if len(tables.names) > 1:
        games.append(_linkability(tables, people, control))
        watch(1)
        for place in range(len(tables.names)):
            games.append(_inference(tables, place, people, control))
            watch(1)
    return games


def _some(values: Float[np.ndarray, "n f"], rng: np.random.Generator) -> Float[np.ndarray, "m f"]:
    return values if len(values) <= ATTACKS else values[rng.choice(len(values), ATTACKS, replace=False)]


def _linkability(
    tables: SideBySide, people: Float[np.ndarray, "m f"], control: Float[np.ndarray, "c f"] | None
) -> Game:
    """Do both halves of a person lead to the same row? Every second column is in a half."""
    every = list(range(len(tables.names)))

    def linked(whom: Float[np.ndarray, "m f"]) -> Rate:
        found = []
        for half in (every[::2], every[1::2]):
            targets, rows = embedded(tables, half, whom, tables.rows)
            found.append(nearest(targets, rows)[1])
        return Rate(int(np.sum(found[0] == found[1])), len(whom))

    others = None if control is None else linked(control)
    return Game("linkability", linked(people), 1 / len(tables.rows), others)


def _inference(
    tables: SideBySide, secret: int, people: Float[np.ndarray, "m f"], control: Float[np.ndarray, "c f"] | None
) -> Game:
    """Is the value of the row that is nearest in all other columns the person's own?"""
    others = [place for place in range(len(tables.names)) if place != secret]
    released = tables.rows[:, secret]

    def inferred(whom: Float[np.ndarray, "m f"]) -> Rate:
        targets, rows = embedded(tables, others, whom, tables.rows)
        guesses = released[nearest(targets, rows)[1]]
        return Rate(int(np.sum(_right(tables, secret, guesses, whom[:, secret]))), len(whom))

    # a random row's value, on average over all of them
    drawn = released[:: max(1, len(released) // ATTACKS)]
    chance = [np.mean(_right(tables, secret, drawn, np.full(len(drawn), own))) for own in people[:, secret]]
    outside = None if control is None else inferred(control)
    return Game("inference", inferred(people), float(np.mean(chance)), outside, tables.names[secret])


def _right(
    tables: SideBySide, place: int, guesses: Float[np.ndarray, " m"], truth: Float[np.ndarray, " m"]
) -> Bool[np.ndarray, " m"]:
    near = 0.0 if tables.is_category[place] else WITHIN
    return (np.abs(guesses - truth) <= near * np.abs(guesses)) | (np.isnan(guesses) & np.isnan(truth))


@dataclass(frozen=True, eq=False)
class _Queries:
    """Questions that a row answers with yes or no: of some columns at least, at most, or exactly this value."""

    columns: Int[np.ndarray, "q k"]
    values: Float[np.ndarray, "q k"]
    kinds: Int[np.ndarray, "q k"]  # −1 at most, 0 exactly, 1 at least

    def counts(self, rows: Float[np.ndarray, "n f"]) -> Int[np.ndarray, " q"]:
        """Return how many rows say yes."""
        found = np.ones((len(self.columns), len(rows)), dtype=bool)
        for columns, values, kinds in zip(self.columns.T, self.values.T, self.kinds.T, strict=True):
            asked, value, kind = rows[:, columns].T, values[:, None], kinds[:, None]
            with np.errstate(invalid="ignore"):
                yes = np.where(kind < 0, asked <= value, np.where(kind > 0, asked >= value, asked == value))
            found &= np.where(np.isnan(value), np.isnan(asked), yes)
        return found.sum(axis=1)

    def take(self, which: np.ndarray) -> "_Queries":
        return _Queries(self.columns[which], self.values[which], self.kinds[which])


def _singling_out(tables: SideBySide, columns: int, rng: np.random.Generator) -> Game:
    """Do questions that a single synthetic row answers with yes single out one person, too?"""
    few = tables.rows if len(tables.rows) <= MOST_ROWS else rng.permutation(tables.rows)[:MOST_ROWS]
    people, rows = (np.unique(significant(each), axis=0) for each in (tables.people, few))
    asked = _alone_in(rows, tables, columns, rng)
    name = "singling out by a value" if columns == 1 else "singling out"
    size = max(1, len(asked.columns))
    some = _random_queries(rows, tables, columns, rng)
    baseline = float(np.mean(some.counts(people) == 1))
    if tables.control is None:
        return Game(name, Rate(int(np.sum(asked.counts(people) == 1)), size), baseline)
    control = np.unique(significant(tables.control), axis=0)
    # how many are singled out hangs on how many there are: as many of either
    fewest = min(len(people), len(control))
    mine, others = (each[rng.choice(len(each), fewest, replace=False)] for each in (people, control))
    hits = [Rate(int(np.sum(asked.counts(each) == 1)), size) for each in (mine, others)]
    return Game(name, hits[0], baseline, hits[1])


def _alone_in(
    rows: Float[np.ndarray, "n f"], tables: SideBySide, columns: int, rng: np.random.Generator
) -> _Queries:
    """Return different questions that a single row answers with yes: its own values, and beyond them."""
    with np.errstate(invalid="ignore"):
        middle = np.nanmedian(rows, axis=0)
    found: list[_Queries] = []
    seen: set[bytes] = set()
    block = 1000
    for _ in range(TRIES // block):
        which = rng.integers(len(rows), size=block)
        chosen = np.sort(np.argsort(rng.random((block, rows.shape[1])), axis=1)[:, :columns], axis=1)
        values = rows[which[:, None], chosen]
        kinds = np.where(tables.is_category[chosen], 0, np.where(values > middle[chosen], 1, -1))
        if columns == 1:  # by values that are there once, and by the ends
            kinds = np.where(rng.random(kinds.shape) < 0.9, 0, kinds)
        tried = _Queries(chosen, values, kinds)
        tried = tried.take(tried.counts(rows) == 1)
        for place, key in enumerate(np.column_stack([tried.columns, tried.values])):
            if (text := key.tobytes()) not in seen and len(seen) < QUERIES:
                seen.add(text)
                found.append(tried.take(np.array([place])))
        if len(seen) >= QUERIES:
            break
    if not found:
        nothing = np.zeros((0, columns))
        return _Queries(nothing.astype(int), nothing, nothing.astype(int))
    return _Queries(
        *(np.concatenate([getattr(each, name) for each in found]) for name in ("columns", "values", "kinds"))
    )


def _random_queries(
    rows: Float[np.ndarray, "n f"], tables: SideBySide, columns: int, rng: np.random.Generator
) -> _Queries:
    """Return questions of values of random rows, each column's of another, in a random direction."""
    chosen = np.argsort(rng.random((QUERIES, rows.shape[1])), axis=1)[:, :columns]
    values = rows[rng.integers(len(rows), size=chosen.shape), chosen]
    kinds = np.where(tables.is_category[chosen], 0, rng.integers(-1, 2, size=chosen.shape))
    return _Queries(chosen, values, kinds)
