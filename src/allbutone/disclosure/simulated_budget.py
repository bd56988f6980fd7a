"""How many datasets are safe: simulated releases of the very table, in which those at most risk are attacked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.support.text import counted, joined

RELEASES = 200  # that are simulated
ACCEPTED = 4  # of them may disclose anyone: were it one in twenty, so few would be seen in 3 cases of 100
ACCEPTED_SHARE = 0.02  # of simulated releases that disclose somebody: four of two hundred
FIRST, STEP = 8, 40  # releases before the first look at how many have disclosed someone, and between two

Watch = Callable[[int], None]
# After so many releases no more than so many may disclose anybody, and then the number of datasets is safe. After
# the last look, if more do, it is not. More looks than one find what is safe, or is not, with fewer releases.
Looks = tuple[tuple[int, int], ...]


@runtime_checkable
class Simulates(Protocol):
    """Releases of one table, each of which can be drawn and judged by its number."""

    def discloses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m"]:
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

    @property
    def shares(self) -> Float[np.ndarray, " m"]:
        """The share of releases that disclosed each of the people attacked."""
        return self.each / max(self.releases, 1)


def shown_at(count: int, shares: Mapping[int, Float[np.ndarray, " m"]]) -> Float[np.ndarray, " m"] | None:
    """Return the share of releases of `count` that disclose, from those of the numbers that were tried.

    More never tell less. Between two numbers that were tried the share lies between theirs, by the logarithm of
    the number; beyond the last it is at least what that showed. Below the first it falls with the number, and a
    chance that grows faster falls faster. None where nothing was tried.
    """
    below = [one for one in shares if one <= count]
    if not below:
        return shares[min(shares)] * (count / min(shares)) if shares else None
    begun, low = max(below), np.max([shares[one] for one in below], axis=0)
    if len(below) == len(shares):
        return low
    end = min(one for one in shares if one > count)
    part = np.log(count / begun) / np.log(end / begun)
    return low + part * np.maximum(shares[end] - low, 0.0)


@dataclass(frozen=True, eq=False)
class Simulated:
    """The largest number of datasets that simulated releases call safe, and all that were tried on the way.

    looks: after how many releases how many may disclose anybody. cut_short: whether it was ended before it was
    done; then `count` is the largest found safe so far. exactly: whether attacks are exact, and not averages over
    draws.
    """

    count: int
    tried: dict[int, Tried] = field(default_factory=dict)
    cut_short: bool = False
    looks: Looks = ((RELEASES, ACCEPTED),)
    exactly: bool = True

    @property
    def accepted(self) -> int:
        """How many may disclose anybody at the last look."""
        return self.looks[-1][1]

    @property
    def in_words(self) -> str:
        """On how many releases the number was checked, and how many of them disclosed someone."""
        at = self.tried.get(max(self.count, 1))
        if at is None:
            return "simulated releases of this very table, and was cut short before the first number was judged"
        may = joined([f"{accepted} of {releases}" for releases, accepted in self.looks], "or")
        words = (
            f"{counted(at.releases, 'simulated release')} of this very table, whose likeliest records were "
            f"attacked{' exactly' * self.exactly}: {at.disclosing:,} disclosed someone (up to {may} may)"
        )
        return words + ". It was cut short: more may be allowed than was tried" * self.cut_short


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

    @classmethod
    def of(cls, tried: Tried, people: Int[np.ndarray, " m"], named: Callable[[int], str]) -> "Luck":
        """Return how often releases disclose somebody, and who is disclosed most often."""
        first = int(np.argmax(tried.each))
        return cls(tried.share, named(int(people[first])), float(tried.shares[first]))

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


class CutShort(Exception):
    """Raised by a `watch` to end a simulation; what was found so far is kept."""


def try_count(
    simulates: Simulates,
    count: int,
    people: Int[np.ndarray, " m"],
    releases: int,
    watch: Watch = lambda done: None,
) -> Tried:
    """Attack these people in so many releases of `count`."""
    return _Attacks(simulates, people, watch).on(count, ((releases, releases),))[0]


def most_safe(
    simulates: Simulates,
    people: Int[np.ndarray, " m"],
    most: int,
    watch: Watch,
    looks: Looks | None = None,
    first: int | None = None,
) -> Simulated:
    """Return the largest number of datasets, at most so many, that simulated releases call safe.

    `first`: the number that is tried first, `most` by default. `looks`: one by default, at the usual releases.

    The datasets of a release are those of a shorter one and some more, so that releases which disclose nobody
    mostly do not with fewer datasets: where a number is not safe, lower ones are sought with the releases that
    disclose alone, and what is found so is tried with all. So most releases are judged twice.
    """
    looks = looks or ((RELEASES, ACCEPTED),)
    tried: dict[int, Tried] = {}
    try:
        count = _Attacks(simulates, people, watch).sought(first or most, most, looks, tried)
        return Simulated(count, tried, False, looks)
    except CutShort:
        fine = [at for at, one in tried.items() if _is_safe(looks, one.releases, one.disclosing)]
        return Simulated(max(fine, default=0), tried, True, looks)


def _is_safe(looks: Looks, releases: int, disclosing: int) -> bool:
    """Say whether what so many releases showed is what a look calls safe."""
    return any(releases == each and disclosing <= accepted for each, accepted in looks)


@dataclass(frozen=True, eq=False)
class _Attacks:
    """Attacks on some people in simulated releases; `watch` is told of every release that is finished."""

    simulates: Simulates
    people: Int[np.ndarray, " m"]
    watch: Watch

    def on(self, count: int, looks: Looks) -> tuple[Tried, list[int]]:
        """Return what releases of `count` disclose, and which ones do.

        It ends at the first look that calls the number safe. Where more disclose than any look accepts it ends at
        once with several looks, and with one where they are enough to show how far down to go.
        """
        each, disclosing, done = np.zeros(len(self.people), dtype=int), list[int](), 0
        releases, accepted = looks[-1]
        enough = accepted if len(looks) > 1 else max(4 * accepted, STEP // 2)
        while done < releases:
            step = FIRST if not done and accepted < releases else STEP - done % STEP
            some = range(done, min([done + step, *(look for look, _ in looks if look > done)]))
            flags = self.simulates.discloses(count, self.people, some)
            each, done = each + flags.sum(axis=0), some.stop
            disclosing += [some[place] for place in np.flatnonzero(flags.any(axis=1))]
            self.watch(len(some))
            if _is_safe(looks, done, len(disclosing)) or len(disclosing) > max(accepted, min(enough, done // 2)):
                break
        return Tried(count, done, len(disclosing), each), disclosing

    def sought(self, first: int, most: int, looks: Looks, tried: dict[int, Tried]) -> int:
        """Seek from the first number on; every number that is returned was tried until a look called it safe."""
        low, high, count, is_exact = 0, most + 1, first, False
        releases, accepted = looks[-1]
        while count > low:
            tried[count], disclosing = self.on(count, looks)
            done = tried[count].releases
            if _is_safe(looks, done, len(disclosing)):
                low = count
                if is_exact or high - low <= max(1, high // 20):
                    break
                count = min((low + high) // 2, 2 * low)  # what was too much was often far too much
                continue
            high, is_exact = count, done == releases
            count = self._lower(low, high, disclosing, -(-accepted * done // releases))
            if count == low and high - low > 1 and not is_exact:
                count = low + 1
        return low

    def _lower(self, bottom: int, top: int, disclosing: list[int], accepted: int) -> int:
        """Return the largest number below the top with which no more than so many of these disclose anyone."""
        surely = 0  # how many disclose already at the bottom
        while top - bottom > 1:
            middle = (bottom + top) // 2
            flags = np.asarray(self.simulates.discloses(middle, self.people, disclosing).any(axis=1))
            self.watch(0)
            still, no_more = (
                [one for one, flag in zip(disclosing, flags, strict=True) if flag == wanted]
                for wanted in (True, False)
            )
            if surely + len(still) > accepted:
                top, disclosing = middle, still
            else:
                bottom, surely, disclosing = middle, surely + len(still), no_more
        return bottom
