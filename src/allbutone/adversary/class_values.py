"""All but one value, where there are classes: each value of a record when all others of it are known.

A measurement is then on a line, on which every class of every draw is a Student t in one dimension; a category is
at one of its levels.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int
from scipy.special import gammaln, ndtri

from allbutone.adversary.class_beliefs import ClassBeliefs, without_each_group
from allbutone.adversary.classes import ClassOpinion, OwnParts
from allbutone.adversary.one_value import Nearness, ValueBeliefs, jackknife_error, within_panels
from allbutone.support.arrays import log_sum_exp

NEGLIGIBLE = 20.0  # nats by which a part is lower than the highest along the whole line, to be left out
QUANTILES = np.array([0.01, 0.06, 0.18, 0.34, 0.5, 0.66, 0.82, 0.94, 0.99])  # of all opinions: edges of panels
SAMPLED = 40  # parts, in proportion to their shares, from which these quantiles are taken
OFFSETS: Float[np.ndarray, " points"] = ndtri([0.1, 0.3, 0.5, 0.7, 0.9])  # points of each of them
BEYOND = np.array([2.0, 8.0, 40.0])  # further edges on either side, in widths of the line: tails are heavy
RULE = np.polynomial.legendre.leggauss(4)  # on each panel


@dataclass(frozen=True, eq=False)
class LineParts:
    """The parts of an opinion on a line of each of b people: exp(height)·(1 + precision·(t − place)²)^(−exponent).

    They stand person by person and, of each, group by group of the draws; `segments`: how many of each.
    """

    heights: Float[np.ndarray, " m"]
    precisions: Float[np.ndarray, " m"]
    places: Float[np.ndarray, " m"]
    exponents: Float[np.ndarray, " m"]
    segments: Int[np.ndarray, "b g"]

    @classmethod
    def of(cls, parts: OwnParts, log_weights: Float[np.ndarray, "d b"], groups: int, column: int) -> "LineParts":
        """Take a column of the parts, with the weights of the draws, and leave out those that are negligible."""
        bend, slope = parts.bends[..., column], parts.slopes[..., column]
        rest = 1 + parts.ratios * np.maximum(parts.squared - slope**2 / bend, 0.0)
        heights = parts.log_shares + parts.heights + np.sum(parts.log_levels, axis=-1) + log_weights[:, None]
        heights = heights - parts.exponents * np.log(rest)
        d, k, b = heights.shape
        kept = heights > np.max(heights, axis=(0, 1)) - NEGLIGIBLE

        def sorted_by_person(numbers: np.ndarray) -> np.ndarray:
            """Draw number d belongs to group d modulo their number."""
            return numbers.reshape(d // groups, groups, k, b).transpose(3, 1, 0, 2)

        chosen = sorted_by_person(kept)
        numbers = (heights, parts.ratios * bend / rest, -slope / bend, parts.exponents)
        height, precision, place, exponent = (sorted_by_person(each)[chosen] for each in numbers)
        return cls(height, precision, place, exponent, chosen.sum(axis=(2, 3)))

    @cached_property
    def person(self) -> Int[np.ndarray, " m"]:
        """Whose each part is."""
        return np.repeat(np.arange(len(self.segments)), self.segments.sum(axis=1))

    @cached_property
    def log_masses(self) -> Float[np.ndarray, " m"]:
        """The log of each part's integral: of (1 + s·t²)^(−e) it is √(π/s)·Γ(e − ½)/Γ(e)."""
        constant = gammaln(self.exponents - 0.5) - gammaln(self.exponents) + 0.5 * np.log(np.pi)
        return self.heights + constant - 0.5 * np.log(self.precisions)

    @cached_property
    def widths(self) -> Float[np.ndarray, " m"]:
        """How wide each part is: the standard deviation of a normal with the same curvature."""
        return 1 / np.sqrt(2 * self.exponents * self.precisions)

    @cached_property
    def shares(self) -> Float[np.ndarray, " m"]:
        """What each part contributes to its person's total."""
        top = np.full(len(self.segments), -np.inf)
        np.maximum.at(top, self.person, self.log_masses)
        mass = np.exp(self.log_masses - top[self.person])
        return mass / np.bincount(self.person, mass)[self.person]

    @cached_property
    def expected(self) -> Float[np.ndarray, " b"]:
        """The mean on each line."""
        return np.bincount(self.person, self.shares * self.places)

    def log_groups(self, steps: Float[np.ndarray, "b s"]) -> Float[np.ndarray, "g b s"]:
        """Return the log of the sum of each group's parts at points of each line."""
        top = np.full(len(self.segments), -np.inf)
        np.maximum.at(top, self.person, self.heights)
        level = steps[self.person]
        level -= self.places[:, None]
        level *= level
        level *= self.precisions[:, None]
        level += 1.0
        np.log(level, out=level)
        level *= -self.exponents[:, None]
        level += (self.heights - top[self.person])[:, None]
        np.exp(level, out=level)
        b, g = self.segments.shape
        sums, filled = np.zeros((b * g, steps.shape[1])), np.flatnonzero(self.segments.ravel())
        starts = np.cumsum(self.segments.ravel()) - self.segments.ravel()
        sums[filled] = np.add.reduceat(level, starts[filled], axis=0)
        with np.errstate(divide="ignore"):
            return np.swapaxes(np.log(sums).reshape(b, g, -1), 0, 1) + top[:, None]


@dataclass(frozen=True, eq=False)
class RestKnown:
    """What is believed of people of whom all values but one are known; `parts` by opinion."""

    beliefs: ClassBeliefs
    people: Int[np.ndarray, " b"]
    parts: tuple[OwnParts, ...]

    @classmethod
    def of(cls, beliefs: ClassBeliefs, people: Int[np.ndarray, " b"]) -> "RestKnown":
        """Measure the people's records in all classes of all draws."""
        return cls(beliefs, people, tuple(each.own_parts(people) for each in beliefs.opinions))

    @property
    def _asked(self) -> list[tuple[ClassOpinion, OwnParts]]:
        return list(zip(self.beliefs.opinions, self.parts, strict=True))

    def measurements(self, nearness: Nearness) -> ValueBeliefs:
        """Return how well each measurement is known."""
        truth = self.beliefs.before.values[self.people]
        lines = [self.lines(column) for column in range(truth.shape[1])]
        expected = truth + np.stack([each[0].expected for each in lines], axis=1) if lines else truth
        near = nearness.around(truth, expected)
        probabilities = np.empty((3, *truth.shape))
        for column, opinions in enumerate(lines):
            ends = near.low[:, column] - truth[:, column], near.high[:, column] - truth[:, column]
            inside = self._within(opinions, *ends)
            count = len(inside) // 2
            probabilities[:, :, column] = inside[count - 1], jackknife_error(inside[:count]), inside[-1]
        return ValueBeliefs(probabilities[0], probabilities[1], probabilities[2], expected, near)

    def lines(self, column: int) -> list[LineParts]:
        """Return each opinion on the lines of a column."""
        return [
            LineParts.of(parts, one.log_weights[:, self.people], one.groups, column) for one, parts in self._asked
        ]

    def log_beliefs(
        self, opinions: list[LineParts], steps: Float[np.ndarray, "b s"]
    ) -> tuple[Float[np.ndarray, "h b s"], Float[np.ndarray, "h b s"]]:
        """Return ℓ and log p(x | others) at points of each person's line."""
        return self.beliefs.summed(
            without_each_group(line.log_groups(steps), one.log_group_weights[:, self.people, None])
            for line, one in zip(opinions, self.beliefs.opinions, strict=True)
        )

    def _within(
        self, opinions: list[LineParts], low: Float[np.ndarray, " b"], high: Float[np.ndarray, " b"]
    ) -> Float[np.ndarray, "twice b"]:
        """Return the probability of intervals with the release, then without it, by all but each group and all."""

        def both(steps: Float[np.ndarray, "b s"]) -> Float[np.ndarray, "twice b s"]:
            return np.concatenate(self.log_beliefs(opinions, steps))

        return within_panels(both, _edges(opinions), low, high, RULE)

    def levels(
        self, category: int
    ) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
        """Return the probability of each person's own level, its error, and that without the release."""
        own = self.beliefs.before.places[self.people, category]
        own = own - self.beliefs.before.posteriors.model.starts[category]
        after, before = (
            np.exp(each - log_sum_exp(each, axis=1)[:, None])[:, own, np.arange(len(own))]
            for each in self.log_levels(category)
        )
        return after[-1], jackknife_error(after), before[-1]

    def log_levels(self, category: int) -> tuple[Float[np.ndarray, "h l b"], Float[np.ndarray, "h l b"]]:
        """Return ℓ and log p(x | others) at each level of a category."""
        return self.beliefs.summed(
            without_each_group(
                self._level_groups(*each, category), each[0].log_group_weights[:, None, self.people]
            )
            for each in self._asked
        )

    def _level_groups(self, one: ClassOpinion, parts: OwnParts, category: int) -> Float[np.ndarray, "g l b"]:
        """Return the log of the sum of each group's draws at each level of a category, all else as it is."""
        rest = parts.log_of_rest + np.sum(np.delete(parts.log_levels, category, axis=-1), axis=-1)
        rest = rest + one.log_weights[:, None, self.people]
        groups = [
            log_sum_exp(rest + one.log_level(self.people, category, level), axis=1)
            for level in range(one.posteriors.model.sizes[category])
        ]
        logs = np.stack(groups, axis=1)
        return np.stack([log_sum_exp(logs[at :: one.groups], axis=0) for at in range(one.groups)])


def _edges(opinions: list[LineParts]) -> Float[np.ndarray, "b e"]:
    """Return edges of panels: quantiles of all opinions together, so that hills have theirs, and further out.

    Quantiles come from points of some of the parts, which are taken evenly from all of them.
    """
    people = len(opinions[0].segments)
    person, share, place, width = (
        np.concatenate(each)
        for each in zip(*((one.person, one.shares, one.places, one.widths) for one in opinions), strict=True)
    )
    order = np.argsort(person, kind="stable")
    person, place, width = person[order], place[order], width[order]
    ends = np.cumsum(share[order] / len(opinions))  # every person's shares add up to 1
    levels = np.arange(people)[:, None] + (np.arange(SAMPLED) + 0.5) / SAMPLED
    chosen = np.minimum(np.searchsorted(ends, levels), len(ends) - 1)
    points = (place[chosen][..., None] + width[chosen][..., None] * OFFSETS).reshape(people, -1)
    inner = np.quantile(points, QUANTILES, axis=1).T
    reach = BEYOND * np.mean(width[chosen], axis=1, keepdims=True)
    return np.concatenate([inner[:, :1] - reach[:, ::-1], inner, inner[:, -1:] + reach], axis=1)
