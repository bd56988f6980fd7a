"""The people of a table in the order of their leverage, and how much may be released before a rule is broken."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.exposure_law import ExposureLaw, leverages, together
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.standing import Standing, others_of
from allbutone.disclosure.value_law import disclosure_chances
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.tables.records import Records

CONFIDENCE = 0.95
MOST = 1_000_000  # datasets
TOGETHER, ALL_OF = 16, 48  # people who are looked at together, and up to whom all are
CLOSE = 0.02  # to the largest number that is safe, where numbers are large
DIGITS = 9  # of chances, beyond which they count as the same
NEGLIGIBLE = 2e-3  # the chance that anyone of all who are not looked at is disclosed


@dataclass(frozen=True, eq=False)
class Lineup:
    """People from the highest leverage down; those whose chances matter are compared with their others.

    order: places in the table. look: returns the standing of some places. looked, known: what was looked at and
    computed already, by the first one's place and, for the chances, by the count.
    unseen: how many people there are besides, all of less leverage.
    """

    law: ExposureLaw
    leverage: Float[np.ndarray, " n"]
    order: Int[np.ndarray, " n"]
    look: Callable[[Int[np.ndarray, " m"]], Standing]
    looked: dict[int, Standing] = field(default_factory=dict)
    known: dict[tuple[int, int], Float[np.ndarray, " m"]] = field(default_factory=dict)
    unseen: int = 0

    @classmethod
    def of(
        cls, records: Records, prior: NIW, rows: int | None, rule: Rule, elsewhere: Moments | None = None
    ) -> "Lineup":
        """Line up a table's people before datasets of so many rows, or parameter draws (None).

        `elsewhere`: the moments of people who are not among these, and have less leverage.
        """
        values, unseen = records.values, 0 if elsewhere is None else int(elsewhere.count)
        moments = together(Moments.of(values), elsewhere)
        whole = prior.update(moments)
        leverage = leverages(values, prior, elsewhere, whole)

        def look(places: Int[np.ndarray, " m"]) -> Standing:
            others = others_of(values, prior, whole, places, leverage[places], elsewhere)
            return Standing.of(others, values[places], near_truth(records, whole=moments, rows=places), rule)

        law = ExposureLaw.of(prior, len(values) + unseen, rows)
        return cls(law, leverage, np.argsort(-leverage, kind="stable"), look, unseen=unseen)

    def chances(self, count: int, too_many: float = np.inf) -> Float[np.ndarray, " n"]:
        """Return the chance of each, in order, to be disclosed by a release of `count`.

        The first are looked at one by one, of the others ever fewer, and the chances between are interpolated.
        Who has less leverage has less chance: it ends where all that follow are negligible, or together too many.
        """
        people, starts, means = len(self.order), [], []
        found, total, start = np.zeros(people), 0.0, 0
        while start < people:
            here = self._chances_of(start, count)
            found[start : start + len(here)] = here
            starts.append(start + len(here) / 2)
            means.append(float(np.mean(here)))
            if len(starts) > 1:
                first = min(people, int(starts[-2]) + TOGETHER // 2)
                found[first:start] = np.interp(np.arange(first, start), starts[-2:], means[-2:])
            total = float(np.sum(found[: start + len(here)]))
            if total > too_many or means[-1] * (people - start + self.unseen) < NEGLIGIBLE:
                break
            start += TOGETHER if start < ALL_OF else start
        return found

    def _chances_of(self, start: int, count: int) -> Float[np.ndarray, " m"]:
        if (start, count) not in self.known:
            if start not in self.looked:
                self.looked[start] = self.look(self.order[start : start + TOGETHER])
            self.known[start, count] = disclosure_chances(self.law, self.looked[start], count)
        return self.known[start, count]

    def _sum(self, chances: Float[np.ndarray, " n"]) -> float:
        """Return the sum of the chances; the unseen have at most the last one's."""
        return float(np.sum(chances) + self.unseen * np.mean(chances[-TOGETHER:]))

    def own_most(self, most: int) -> Float[np.ndarray, " n"]:
        """Return, in the table's order, the most datasets that each person's own chances allow, up to `most`.

        To about a tenth: numbers that grow by a tenth are tried.
        """
        found = np.zeros(len(self.order))
        for count in np.unique(np.geomspace(1, most, 1 + int(10 * np.log(most))).astype(int)):
            allowed = self.chances(int(count)) <= 1 - CONFIDENCE
            found[self.order[allowed]] = count
        return found

    def most(self, accepted: float = 1 - CONFIDENCE, watch: Callable[[int], None] = lambda done: None) -> int:
        """Return the largest count that discloses anyone with no more than the accepted chance; 0 if none does."""

        def safe(count: int) -> bool:
            watch(1)
            return self._sum(self.chances(count, accepted)) <= accepted

        def first_are(count: int) -> bool:
            return float(np.sum(self._chances_of(0, count))) <= accepted

        # the number that moves the first one's guess half-way, but for noise
        highest, ratio = max(float(self.leverage[self.order[0]]), 1e-12), self.law.ratio
        start = (4 * (1 + ratio / highest) + ratio - 1) / 3
        guess = largest(first_are, int(np.clip(start, 1, MOST)), MOST, CLOSE)
        return largest(safe, guess, guess, CLOSE)  # all allow no more than the first do


def likeliest(chances: Float[np.ndarray, " n"]) -> Int[np.ndarray, " n"]:
    """Return places in a lineup, who is likeliest to be disclosed first; then by leverage, then by row.

    `chances` as the lineup gives them, in its order. Whoever names a person of a table, before a release is drawn,
    takes it from here; rounding decides nothing.
    """
    return np.argsort(-chances.round(DIGITS), kind="stable")


def largest(safe: Callable[[int], bool], guess: int, most: int, close: float = 0.0) -> int:
    """Return the largest count up to `most` that is safe, or one so close below it; 0 if none is."""
    low, high = 0, min(guess, most)
    while high and safe(high):
        low = high
        if high == most:
            return most
        high = min(most, max(high + 1, int(1.5 * high)))
    step = 0.9
    while low == 0 and high > 1:  # the guess was too high
        lower = max(1, int(step * high))
        low, high, step = (lower, high, step) if safe(lower) else (0, lower, step**2)
    while high - low > max(1.0, close * high):
        middle = (low + high) // 2
        low, high = (middle, high) if safe(middle) else (low, middle)
    return low
