"""How many datasets are safe: simulated releases of the very table, in which those at most risk are attacked."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.disclosure.how_many import Luck
from allbutone.disclosure.lineup import Lineup, largest, likeliest
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.table_releases import TableReleases
from allbutone.model.niw import NIW
from allbutone.support.text import counted
from allbutone.tables.records import Records

RELEASES = 200  # that are simulated
ACCEPTED = 4  # of them may disclose anyone: were it one in twenty, so few would be seen in 3 cases of 100
PEOPLE = 64  # who are attacked in each
WORK = 1.2e7  # numbers in the wells of a simulation that is worth waiting for
STEP = 40  # releases between two looks at how many have disclosed someone

Watch = Callable[[int], None]


@runtime_checkable
class Simulates(Protocol):
    """Releases of one table, each of which can be drawn and judged by its number."""

    def discloses(self, count: int, people: Int[np.ndarray, " m"], releases: range) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""


@dataclass(frozen=True, eq=False)
class Tried:
    """Simulated releases of `count` datasets: how many there were, how many disclosed anybody, and whom how often.

    each: of the people attacked, in how many releases something of them was disclosed.
    """

    count: int
    releases: int
    disclosing: int
    each: Int[np.ndarray, " m"]

    @property
    def share(self) -> float:
        """The share of releases that disclosed anybody."""
        return self.disclosing / max(self.releases, 1)


@dataclass(frozen=True, eq=False)
class Simulated:
    """The largest number of datasets that simulated releases call safe, and all that were tried on the way.

    cut_short: whether it was ended before it was done; then `count` is the largest found safe so far.
    """

    count: int
    tried: dict[int, Tried] = field(default_factory=dict)
    cut_short: bool = False


def try_count(
    simulates: Simulates,
    count: int,
    people: Int[np.ndarray, " m"],
    releases: int,
    enough: int | None = None,
    watch: Watch = lambda done: None,
) -> Tried:
    """Attack these people in so many releases of `count`; more than `enough` that disclose anyone end it early."""
    each, disclosing, done = np.zeros(len(people), dtype=int), 0, 0
    while done < releases and (enough is None or disclosing <= enough):
        some = range(done, min(done + STEP, releases))
        found = simulates.discloses(count, people, some)
        each, disclosing, done = each + found.sum(axis=0), disclosing + int(found.any(axis=1).sum()), some.stop
        watch(len(some))
    return Tried(count, done, disclosing, each)


class CutShort(Exception):
    """Raised by a `watch` to end a simulation; what was found so far is kept."""


def most_safe(simulates: Simulates, people: Int[np.ndarray, " m"], most: int, watch: Watch) -> Simulated:
    """Return the largest number of datasets, at most so many, that simulated releases call safe."""
    tried: dict[int, Tried] = {}

    def safe(count: int) -> bool:
        tried[count] = try_count(simulates, count, people, RELEASES, ACCEPTED, watch)
        return tried[count].disclosing <= ACCEPTED

    try:
        return Simulated(largest(safe, max(most, 1), most), tried)
    except CutShort:
        fine = [count for count, one in tried.items() if one.disclosing <= ACCEPTED]
        return Simulated(max(fine, default=0), tried, cut_short=True)


def checked_in_words(simulated: Simulated) -> str:
    """Say on how many releases a number was checked, and how many of them disclosed someone."""
    at = simulated.tried.get(max(simulated.count, 1))
    if at is None:
        return "simulated releases of this very table, and was cut short before the first number was judged"
    words = (
        f"{counted(at.releases, 'simulated release')} of this very table, whose likeliest records were attacked "
        f"exactly: {at.disclosing:,} disclosed someone (up to {ACCEPTED} of {RELEASES} may)"
    )
    return words + ". It was cut short: more may be allowed than was tried" * simulated.cut_short


def luck_of(tried: Tried, people: Int[np.ndarray, " m"], named: Callable[[int], str]) -> Luck:
    """Return how often releases disclose somebody, and who is disclosed most often."""
    first = int(np.argmax(tried.each))
    return Luck(tried.share, named(int(people[first])), float(tried.each[first]) / max(tried.releases, 1))


@dataclass(frozen=True, eq=False)
class Allowed:
    """How many datasets a table of measurements allows before anything is released, and what that rests on.

    guess: by the closed form, which simulated releases can only lower.
    """

    lineup: Lineup
    guess: int
    releases: TableReleases
    simulated: Simulated | None

    @classmethod
    def of(cls, records: Records, prior: NIW, rows: int | None, rule: Rule, seed: int, watch: Watch) -> "Allowed":
        """Try numbers of datasets: by the closed form, then, where that is quick, by simulated releases."""
        lineup = Lineup.of(records, prior, rows, rule)
        guess = lineup.most(watch=watch)
        releases = TableReleases.of(records.values, prior, near_truth(records), rule, rows, None, seed)
        quick = is_quick(lineup, guess)
        found = most_safe(releases, lineup.order[:PEOPLE], guess, watch) if quick else None
        return cls(lineup, guess, releases, found)

    @property
    def count(self) -> int:
        """The most datasets of which, with 95 % confidence, no release discloses anyone."""
        return self.guess if self.simulated is None else self.simulated.count

    def luck(self, count: int, records: Records) -> Luck:
        """Return how often releases of so many disclose somebody; by the closed form where it would take long."""
        people = self.lineup.order[:PEOPLE]

        def named(place: int) -> str:
            return f"row {records.rows[place]}"

        if is_quick(self.lineup, count):
            return luck_of(try_count(self.releases, count, people, RELEASES), people, named)
        chances: Float[np.ndarray, " n"] = self.lineup.chances(count, 1.0)
        first = int(likeliest(chances)[0])
        own = float(chances[first])
        return Luck(min(1.0, float(np.sum(chances))), named(int(self.lineup.order[first])), own)


def is_quick(lineup: Lineup, count: int) -> bool:
    """Say whether simulating releases of so many does not take long."""
    wells = 1 if lineup.law.rows is None else count
    return RELEASES * min(PEOPLE, len(lineup.order)) * wells * lineup.law.p**2 <= WORK
