"""How many datasets are safe by simulated releases of the very table, and what other sizes would allow."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.disclosure.lineup import Lineup, largest, likeliest
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.table_releases import TableReleases
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.several import Released, parts_of
from allbutone.support.parallel import in_parallel
from allbutone.support.text import counted
from allbutone.tables.records import Records

# How many more? The one answer of every budget, from what may be released in all and what is out already.


ACCEPTED_SHARE = 0.02  # of simulated releases that disclose somebody: four of two hundred

Kinds = Counter[int | None]  # how many datasets of so many rows, and of None parameter draws


@dataclass(frozen=True)
class Luck:
    """How often releases of as much as is out disclose somebody, where that is more than the budget.

    share: of such releases, those that disclose anybody; own: those that disclose `person`, the likeliest.
    cut_short: whether the simulation was ended before it could tell.
    """

    share: float
    person: str
    own: float
    cut_short: bool = False

    @property
    def is_caution(self) -> bool:
        """Whether simulated releases did no harm, but the closed form stopped before them."""
        return self.share <= ACCEPTED_SHARE and not self.cut_short

    @property
    def in_words(self) -> str:
        """How many of a hundred, and whom."""
        if self.cut_short:
            return "the simulation of such releases was cut short before as much as this was judged"
        if self.is_caution:
            return "the closed form cannot exclude that more than 5 of 100 such releases disclose somebody"
        share, own = (max(1, round(100 * each)) for each in (self.share, self.own))
        if own >= share - 1:
            return f"about {share} of 100 such releases would disclose {self.person}"
        return (
            f"about {share} of 100 such releases would disclose somebody, {self.person} most often ({own} of 100)"
        )


class HowMany(ABC):
    """What every budget says alike: how many in all, how many of these are out, how many may follow.

    in_all: the most datasets, or parameter draws, that disclose anyone with a chance of at most 5 %. It is found
    as if nothing had been drawn: who lets what was drawn decide how much more is drawn tells by that, too.
    before: how many of these are out. lowered: by how many fewer may follow because of what those that are out
    happen to tell. converted: whether what is out is of other kinds, which were converted (`counted_as`).
    luck: where more is out than the budget allows, how often so much discloses somebody.
    """

    in_all: int
    before: int
    lowered: int
    converted: bool
    luck: Luck | None

    @property
    @abstractmethod
    def rows_of_each(self) -> int | None:
        """The rows of each dataset; None for parameter draws."""

    @property
    @abstractmethod
    def tried_up_to(self) -> int:
        """The most that were tried."""

    @property
    def confident_count(self) -> int:
        """How many may be released from here on; 0 if not even one."""
        return max(0, self.in_all - self.before - self.lowered)

    @property
    def noun(self) -> str:
        """The thing that is counted."""
        return "parameter draw" if self.rows_of_each is None else "dataset"

    @property
    def what(self) -> str:
        """The things that are counted: datasets of so many rows, or parameter draws."""
        return "parameter draws" if self.rows_of_each is None else f"datasets of {self.rows_of_each:,} rows"

    def answer(self, who: str) -> str:
        """Say how many more may be released, for a board; `who` sets the limit."""
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        count, more = self.confident_count, "more " * bool(self.before)
        if self.in_all == 0:
            verdict = f"Not even one {one} may be released"
        elif count == 0:
            verdict = f"No more {self.what} may be released"
        elif self.in_all >= self.tried_up_to:
            verdict = f"At least {count:,} {more}{self.what}, the most that were tried, may be released"
        elif count == 1:
            verdict = f"One {more}{one} may be released, but not two,"
        else:
            verdict = f"Up to {count:,} {more}{self.what} may be released"
        reason = f"if no value of anyone is to be disclosed (95\u00a0% sure){self._of_all}"
        return f"{verdict} {reason}; {who}.{self._as_drawn}"

    @property
    def _of_all(self) -> str:
        if not self.before:
            return ""
        out = f"{self.before:,} {'is' if self.before == 1 else 'are'} out"
        if self.converted:
            out = f"what is out, of other kinds, counts as {self.before:,}"
        return f": {self.in_all:,} in all, and {out}" if self.in_all else f", and {out}"

    @property
    def _as_drawn(self) -> str:
        if self.lowered <= 0:
            return ""
        return " What is out happens to tell more than as much mostly does, so that fewer may follow."


def kinds_of(released: Released) -> Kinds:
    """Return how many of each kind were released: datasets by their rows, parameter draws by None.

    Who has the parameters learns nothing more from datasets that were drawn from them.
    """
    parts = [part.release for part in parts_of(released)]
    kinds: Kinds = Counter(len(each.values) for part in parts for each in part.datasets)
    draws = sum(part.draws for part in parts)
    return kinds + Counter({None: draws}) if draws else kinds


def counted_as(kinds: Kinds, rows: int | None, allowed: Callable[[int | None], int], most: int) -> int:
    """Return how many of one kind, of which `most` are allowed, releases of any kind count as.

    One of another kind uses up the share of its own budget: of 20 small datasets that are allowed, five are a
    quarter of what may be given away. `allowed`: the budget of a kind.
    """
    others = sum(count / max(allowed(kind), 0.5) for kind, count in kinds.items() if kind != rows)
    return kinds[rows] + int(np.ceil(round(others * max(most, 1), 9)))


def out_in_words(kinds: Kinds) -> str:
    """Say what is out."""
    return ", ".join(
        counted(count, "parameter draw") if rows is None else f"{counted(count, 'dataset')} of {rows:,} rows"
        for rows, count in kinds.items()
    )


# How many datasets are safe: simulated releases of the very table, in which those at most risk are attacked.


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


# What stands beside a budget: what other sizes, other tables and a stronger prior would allow.


SMALLER = (2, 5, 10)  # parts of the rows that smaller datasets have


@dataclass(frozen=True)
class Alternative:
    """A change, and how many datasets (or draws) it would allow in all, by the closed form until it is `tried`.

    rows: of each dataset, where that is the change; drop: the column that is left out, where that is. case: the
    table, prior and rows that the change leads to.
    """

    change: str
    datasets: int
    why: str = ""
    rows: int | None = None
    drop: str | None = None
    case: "tuple[Records, NIW, int | None] | None" = field(default=None, repr=False, compare=False)

    def tried(self, rule: Rule, seed: int, watch: Callable[[int], None]) -> "Alternative":
        """Return it with the number that the budget of the changed table would be, simulated as any budget is."""
        return (
            self if self.case is None else replace(self, datasets=Allowed.of(*self.case, rule, seed, watch).count)
        )

    @property
    def in_words(self) -> str:
        """The change, and what explains its number where that may surprise."""
        return f"{self.change} ({self.why})" if self.why else self.change


def alternatives_of(
    records: Records,
    prior: NIW,
    lineup: Lineup,
    rule: Rule,
    limiting: tuple[int, str],
    watch: Callable[[int], None],
) -> list[Alternative]:
    """Return what could be done instead, each with the number it allows, computed anew from the table."""
    place, column = limiting
    rows, people = lineup.law.rows, len(records.values)
    worst = lineup.order[:5]
    wished: list[tuple[Alternative, Records, NIW, int | None]] = []
    if rows is not None:
        sizes = sorted({*(max(1, rows // part) for part in SMALLER), 2 * rows} - {rows})
        wished += [
            (Alternative(f"datasets of {size:,} rows", 0, rows=size), records, prior, size) for size in sizes
        ]
    fewest = records.values.shape[1] + 2 if prior.is_flat else 3
    for places, words in (
        (np.array([place]), f"leave row {records.rows[place]} out"),
        (worst, "leave the five people furthest from the others out"),
    ):
        if people - len(places) >= fewest:
            kept = np.delete(np.arange(people), places)
            wished.append((Alternative(words, 0), records.take(kept), prior, rows))
    if people > fewest:
        wished.append(
            (
                Alternative(f"bring row {records.rows[place]} in to where the next one stands", 0),
                _pulled_in(records, prior, lineup, place),
                prior,
                rows,
            )
        )
    if len(records.columns) > 1:
        names = [name for name in records.columns if name != column]
        keep = [records.columns.index(name) for name in names]
        without = Alternative(f"leave the column {column} out", 0, drop=column)
        wished.append((without, records.select(names), prior.marginal(keep), rows))
    wished.append(
        (
            Alternative(f"a public prior worth {people:,} people that agrees with the table", 0),
            records,
            _stronger(records, prior),
            rows,
        )
    )
    counts = in_parallel(lambda one: Lineup.of(*one[1:], rule).most(watch=watch), wished)
    found = [replace(one[0], datasets=allowed, case=one[1:]) for one, allowed in zip(wished, counts, strict=True)]
    return [_explained(each, found) for each in found]


def _explained(one: Alternative, every: list[Alternative]) -> Alternative:
    """Say why leaving more people out may allow less."""
    if not one.change.startswith("leave the five"):
        return one
    alone = next((each for each in every if each.change.startswith("leave row")), None)
    if alone is None or one.datasets >= alone.datasets:
        return one
    why = "the others then vary less, so that those who come next stand out more"
    return replace(one, why=why)


def _pulled_in(records: Records, prior: NIW, lineup: Lineup, place: int) -> Records:
    """Return the table with a record moved towards the others, as far out as the next that stands out most."""
    following = next(int(each) for each in lineup.order if each != place)
    values = records.values.copy()
    others = prior.update(np.delete(values, place, axis=0))
    distance = _distances(others, values[[place, following]])
    values[place] = others.mean + (values[place] - others.mean) * min(1.0, float(distance[1] / distance[0]))
    return Records(values, records.columns, records.backend, records.schema, records.rows)


def _stronger(records: Records, prior: NIW) -> NIW:
    """Return a prior that says what the table says, with the weight of as many people."""
    moments = Moments.of(records.values)
    people = len(records.values)
    if prior.is_flat:
        return NIW(moments.mean, float(people), float(people + prior.p), moments.scatter)
    return prior.update(records.values)


def _distances(others: NIW, values: Float[np.ndarray, "k p"]) -> Float[np.ndarray, " k"]:
    """Return Mahalanobis distances from the others' centre, by their E[Σ⁻¹] = νΛ⁻¹."""
    white = np.linalg.solve(others.root, (values - others.mean).T)
    return np.sqrt(others.df * np.sum(white * white, axis=0))
