"""The attack on tables with classes: what draws of the classes say of a record, without that record's own part."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from allbutone.adversary.boxes import Boxes
from allbutone.model.class_sampler import ClassDraws
from allbutone.model.classes import ClassPosteriors, log_height
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.moments import UNKNOWN
from allbutone.support.arrays import half_log_det, log_sum_exp

NUMBERS_HELD = 1 << 20  # while records are whitened


@dataclass(frozen=True, eq=False)
class ClassOpinion:
    """What one table, the people's own or that with a dataset beside it, says of the record of each of n people.

    For each of d draws of everybody's class a mixture over the classes, from which the person is taken out of the
    class that they were drawn into:

        p(x | others, draw) = Σ_c (n_c + α/K)/(n + α)·t_c(x)·Π_levels (n_cl + a)/(n_c + 1)

    `values` and `places` (of levels): what is observed of the people, who all have the same columns. `boxes`:
    between which values those of each were before they were rounded, and what they were in each draw. `groups`: as
    many draws each, by chains.
    """

    posteriors: ClassPosteriors
    classes: Int[np.ndarray, "d n"]
    values: Float[np.ndarray, "n p"]
    boxes: Boxes
    places: Int[np.ndarray, "n q"]
    groups: int

    @classmethod
    def of(cls, draws: ClassDraws, people: Int[np.ndarray, " n"], groups: int) -> "ClassOpinion":
        """Take draws given a table; `people`: some of its records, which lack the same columns, or none."""
        records = draws.records.take(people)
        drawn = draws.values[:, people] if records.bounded.any() else records.values[None]
        boxes = Boxes.of(records, drawn).select(_observed(records)[0])
        return cls.on(draws, records, boxes, draws.classes[:, people], groups)

    @classmethod
    def on(
        cls,
        draws: ClassDraws,
        records: IncompleteRecords,
        boxes: Boxes,
        classes: Int[np.ndarray, "d n"],
        groups: int,
    ) -> "ClassOpinion":
        """Take draws, and records of people who lack the same columns, whatever class they are in.

        `boxes`: of the columns that they have.
        """
        columns, categories = _observed(records)
        posteriors = draws.posteriors.select(columns, categories)
        places = posteriors.model.places(records.codes[:, categories])
        return cls(posteriors, classes, records.values[:, columns], boxes, places, groups)

    def __len__(self) -> int:
        """Return the number of draws."""
        return len(self.classes)

    @property
    def log_more(self) -> Float[np.ndarray, " d"]:
        """By how much the share of a class grows where a person is taken out of another."""
        total = np.sum(self.posteriors.weights, axis=1)
        return np.log(total / (total - 1))

    @cached_property
    def log_at_truth(self) -> Float[np.ndarray, "d n"]:
        """The log density of each person's record given the others, by each draw.

        Of a record known between bounds log P, that it lies there, as the points of a lattice tell (`Boxes`).
        """
        logs = [self._log_of_own(points) - log_h for points, log_h in self.boxes.lattice]
        return log_sum_exp(np.stack(logs), axis=0) - np.log(len(logs))

    @cached_property
    def log_weights(self) -> Float[np.ndarray, "d n"]:
        """What each draw is worth without each person, 1/p(record | others, draw); they add up to 1."""
        return -self.log_at_truth - log_sum_exp(-self.log_at_truth, axis=0)

    def _log_of_own(self, values: Float[np.ndarray, "#d n p"]) -> Float[np.ndarray, "d n"]:
        """Return log p(values | others, draw) of each person, of as many at a time as memory allows."""
        draws, n = self.classes.shape
        step = max(1, NUMBERS_HELD // max(self.posteriors.means.size, self.posteriors.level_weights.size))
        blocks = [np.arange(at, min(at + step, n)) for at in range(0, n, step)]
        logs = [log_sum_exp(self.parts_at(values[:, people], people).log_at_truth, axis=1) for people in blocks]
        return np.concatenate(logs, axis=1) if logs else np.zeros((draws, 0))

    @cached_property
    def effective_draws(self) -> Float[np.ndarray, " n"]:
        """How many equally weighted draws these are worth without each person."""
        return np.exp(-log_sum_exp(2 * self.log_weights, axis=0))

    @cached_property
    def log_group_weights(self) -> Float[np.ndarray, "g n"]:
        """The log of what each group's draws are worth together, without each person."""
        return np.stack([log_sum_exp(self.log_weights[at :: self.groups], axis=0) for at in range(self.groups)])

    @cached_property
    def log_groups_at_truth(self) -> Float[np.ndarray, "g n"]:
        """The log of each group's weighted sum of p(record | others, draw)."""
        each = self.log_weights + self.log_at_truth
        return np.stack([log_sum_exp(each[at :: self.groups], axis=0) for at in range(self.groups)])

    def own_parts(self, people: Int[np.ndarray, " b"]) -> "OwnParts":
        """Return what each class of each draw says of the people's own records."""
        return self.parts_at(self.values[None, people], people, lines=True)

    def parts_at(
        self, values: Float[np.ndarray, "#d b p"], people: Int[np.ndarray, " b"], lines: bool = False
    ) -> "OwnParts":
        """Return the same of other measurements of the people, of all draws or of each; lines: through them."""
        return OwnParts.of(self, people, values, lines)

    def log_groups(
        self,
        values: Float[np.ndarray, "s p"],
        places: Int[np.ndarray, "s q"],
        people: Int[np.ndarray, " b"],
        parts: Float[np.ndarray, "d k s"] | None = None,
    ) -> Float[np.ndarray, "g s b"]:
        """Return the log of each group's weighted sum of p(x | others, draw), at the same points for all people.

        Within a round draws stand chain by chain, so that draw number d belongs to group d modulo their number.
        `parts`: what each class of each draw says at the points, where that is known already.
        """
        parts = self.posteriors.log_parts(values, places) if parts is None else parts
        parts = parts + self.log_more[:, None, None]
        top = np.max(parts, axis=(0, 1))
        every, sums = np.exp(parts - top), np.zeros((self.groups, len(values), len(people)))
        for draw, weights in enumerate(np.exp(self.log_weights[:, people])):
            classes = self.classes[draw, people]
            for place in np.unique(classes):
                (some,) = np.nonzero(classes == place)
                others = np.sum(np.delete(every[draw], place, axis=0), axis=0)
                own = self.without(draw, int(place), people[some])
                logs = own.log_share + own.log_density(values) + own.log_levels(places) - top[:, None]
                sums[draw % self.groups][:, some] += weights[some] * (others[:, None] + np.exp(logs))
        with np.errstate(divide="ignore"):
            return np.log(sums) + top[:, None]

    def log_groups_of_own(
        self, values: Float[np.ndarray, "b s p"], places: Int[np.ndarray, "b s q"], people: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, "g s b"]:
        """Return the same at points of each person's own."""
        posteriors, (b, s, p) = self.posteriors, values.shape
        sums = np.zeros((self.groups, b, s))
        flat, levels = values.reshape(b * s, p), places.reshape(b * s, -1)
        parts = posteriors.log_parts(flat, levels) + self.log_more[:, None, None]
        top = np.max(parts, axis=(0, 1))
        every, top = np.exp(parts - top).reshape(*parts.shape[:2], b, s), top.reshape(b, s)
        for draw, weights in enumerate(np.exp(self.log_weights[:, people])):
            classes, rows = self.classes[draw, people], np.arange(b)
            every[draw][classes, rows] = 0.0
            others = np.sum(every[draw], axis=0)
            for place in np.unique(classes):
                (some,) = np.nonzero(classes == place)
                own = self.without(draw, int(place), people[some])
                logs = own.log_share + own.log_density_of_own(values[some]) + own.log_levels_of_own(places[some])
                sums[draw % self.groups, some] += weights[some, None] * (others[some] + np.exp(logs - top[some]))
        with np.errstate(divide="ignore"):
            return np.swapaxes(np.log(sums) + top, 1, 2)

    def log_level(self, people: Int[np.ndarray, " b"], category: int, level: int) -> Float[np.ndarray, "d k b"]:
        """Return the log probability of a level of a category in each class, each person taken out of the own."""
        posteriors, start = self.posteriors, self.posteriors.model.starts[category]
        logs = np.repeat(posteriors.log_levels[..., start + level, None], len(people), axis=2)
        draws, persons = np.nonzero(self.classes[:, people] != UNKNOWN)
        own = draws, self.classes[draws, people[persons]]
        same = self.places[people[persons], category] == start + level
        weight = posteriors.level_weights[(*own, start + level)] - same
        logs[(*own, persons)] = np.log(weight / (posteriors.level_totals[(*own, category)] - 1))
        return logs

    def without(self, draw: int, place: int, people: Int[np.ndarray, " b"]) -> "WithoutOwn":
        """Return a class of a draw without each of some of its people in turn."""
        values = self.boxes.drawn[draw % len(self.boxes.drawn), people]
        return WithoutOwn.of(self.posteriors, draw, place, values, self.places[people])


@dataclass(frozen=True, eq=False)
class OutsideOpinion(ClassOpinion):
    """What a table that does not hold the people says of them: all draws count alike, and nothing is taken out."""

    @property
    def log_more(self) -> Float[np.ndarray, " d"]:
        """Nobody is taken out."""
        return np.zeros(len(self))

    @cached_property
    def log_weights(self) -> Float[np.ndarray, "d n"]:
        """All draws count alike."""
        return np.full(self.classes.shape, -np.log(len(self)))

    def log_groups(
        self,
        values: Float[np.ndarray, "s p"],
        places: Int[np.ndarray, "s q"],
        people: Int[np.ndarray, " b"],
        parts: Float[np.ndarray, "d k s"] | None = None,
    ) -> Float[np.ndarray, "g s b"]:
        """Return the log of each group's weighted sum of p(x | draw), at the same points for all people."""
        parts = self.posteriors.log_parts(values, places) if parts is None else parts
        logs = log_sum_exp(parts, axis=1) - np.log(len(self))
        sums = np.stack([log_sum_exp(logs[at :: self.groups], axis=0) for at in range(self.groups)])
        return np.repeat(sums[..., None], len(people), axis=2)

    def log_groups_of_own(
        self, values: Float[np.ndarray, "b s p"], places: Int[np.ndarray, "b s q"], people: Int[np.ndarray, " b"]
    ) -> Float[np.ndarray, "g s b"]:
        """Return the same at points of each person's own."""
        each = [self.log_groups(some, levels, people[:1]) for some, levels in zip(values, places, strict=True)]
        return np.concatenate(each, axis=2)


@dataclass(frozen=True, eq=False)
class OwnParts:
    """What each class of each draw says of the records of b people, each person taken out of the own class.

    A class has a Student t, of height h, with q(x) = (x − m)ᵀΛ⁻¹(x − m), r = κ/(κ+1) and e = (ν+1)/2:

        log t(x) = h − e·log(1 + r·q(x)),   q = q + 2t·gⱼ + t²·Pⱼ   where value j moves by t from the record

    `log_shares`: of the classes; `log_levels`: of the person's own level of each category. In the class's own
    coordinates v = C⁻¹(x − m), Λ = CCᵀ, taking the record w out leaves, with c = κ/(κ−1), l = 1 − c‖w‖², which is
    |Λ without|/|Λ|, u = v + w/(κ−1) and a = c·wᵀu/l,

        r = 1/c,   e = ν/2,   q = ‖u‖² + a·wᵀu,   g = C⁻ᵀ(u + a·w),   P = P + (c/l)·(C⁻ᵀw)²
    """

    log_shares: Float[np.ndarray, "d k b"]
    log_levels: Float[np.ndarray, "d k b q"]
    heights: Float[np.ndarray, "d k b"]
    ratios: Float[np.ndarray, "d k b"]
    exponents: Float[np.ndarray, "d k b"]
    squared: Float[np.ndarray, "d k b"]
    slopes: Float[np.ndarray, "d k b o"]
    bends: Float[np.ndarray, "d k b o"]

    @classmethod
    def of(
        cls,
        opinion: ClassOpinion,
        people: Int[np.ndarray, " b"],
        values: Float[np.ndarray, "#d b p"],
        lines: bool = True,
    ) -> "OwnParts":
        """Measure values of people, of all draws or of each, in every class, and take each out of the own one.

        lines: with g and P of all measurements; else of none.
        """
        posteriors, places, (_, b, p) = opinion.posteriors, opinion.places[people], values.shape
        if len(values) == 1:
            white = np.moveaxis(posteriors.whiten(values[0]), 0, 2)
        else:
            away = values[:, None] - posteriors.means[:, :, None]
            white = away @ np.swapaxes(posteriors.halves, -1, -2)
        shape = white.shape[:3]

        def each(numbers: Float[np.ndarray, "d k"]) -> Float[np.ndarray, "d k b"]:
            return np.repeat(numbers[..., None], b, axis=2)

        along = posteriors.halves[..., : p if lines else 0]
        bends = np.sum(along**2, axis=-2)[:, :, None]
        parts = cls(
            each(posteriors.log_shares + opinion.log_more[:, None]),
            posteriors.log_levels[..., places],
            each(posteriors.heights),
            each(posteriors.mean_weights / (posteriors.mean_weights + 1)),
            each((posteriors.dfs + 1) / 2),
            np.sum(white**2, axis=-1),
            white @ along,
            np.broadcast_to(bends, (*shape, along.shape[-1])).copy(),
        )
        draws, persons = np.nonzero(opinion.classes[:, people] != UNKNOWN)
        own = draws, opinion.classes[draws, people[persons]]
        drawn = opinion.boxes.drawn[draws % len(opinion.boxes.drawn), people[persons]]
        white_drawn = (posteriors.halves[own] @ (drawn - posteriors.means[own])[..., None])[..., 0]
        parts._take_out(posteriors, own, persons, places, white[(*own, persons)], white_drawn)
        return parts

    def _take_out(
        self,
        posteriors: ClassPosteriors,
        own: tuple[Any, Any],
        persons: Any,
        places: Any,
        white: Float[np.ndarray, "m p"],
        drawn: Float[np.ndarray, "m p"],
    ) -> None:
        """Take people out of the classes that they were drawn into, in place; v and w of each."""
        here, halves = (*own, persons), posteriors.halves[own][..., : self.slopes.shape[-1]]
        weight, df, p = posteriors.mean_weights[own], posteriors.dfs[own], white.shape[-1]
        more = weight / (weight - 1)
        left = 1 - more * np.sum(drawn**2, axis=1)
        size = half_log_det(posteriors.roots)[own] + 0.5 * np.log(left)
        moved = white + drawn / (weight - 1)[:, None]
        along = np.sum(drawn * moved, axis=1)
        pull = (more / left * along)[:, None]
        shares = posteriors.weights
        self.log_shares[here] = np.log((shares[own] - 1) / (np.sum(shares, axis=1)[own[0]] - 1))
        self.heights[here] = log_height(weight - 1, df - 1, size, p)
        self.ratios[here], self.exponents[here] = 1 / more, df / 2
        self.squared[here] = np.sum(moved**2, axis=1) + pull[:, 0] * along
        self.slopes[here] = ((moved + pull * drawn)[:, None] @ halves)[:, 0]
        self.bends[here] += (more / left)[:, None] * (drawn[:, None] @ halves)[:, 0] ** 2
        levels, totals = posteriors.level_weights[own], posteriors.level_totals[own]
        at = places[persons]
        same = np.take_along_axis(levels, at, axis=1)
        self.log_levels[here] = np.log((same - 1) / (totals - 1))

    @property
    def log_of_rest(self) -> Float[np.ndarray, "d k b"]:
        """The log of share and density of the measurements, without that of any level."""
        return self.log_shares + self.heights - self.exponents * np.log1p(self.ratios * self.squared)

    @property
    def log_at_truth(self) -> Float[np.ndarray, "d k b"]:
        """The log of share, density and levels at the people's own records."""
        return self.log_of_rest + np.sum(self.log_levels, axis=-1)


@dataclass(frozen=True, eq=False)
class WithoutOwn:
    """A class without each of b of its people in turn, in its own coordinates v = C⁻¹(x − m), Λ = CCᵀ.

    Taking the record m + C·w out of (m, κ, ν, Λ) leaves κ − 1, ν − 1, the mean m − C·w/(κ − 1), and
    Λ − κ/(κ − 1)·Cw(Cw)ᵀ, whose determinant is |Λ|·`left`.
    """

    posteriors: ClassPosteriors
    draw: int
    place: int
    white: Float[np.ndarray, "b p"]
    places: Int[np.ndarray, "b q"]

    @classmethod
    def of(
        cls, posteriors: ClassPosteriors, draw: int, place: int, values: Float[np.ndarray, "b p"], places: Any
    ) -> "WithoutOwn":
        """Take the people's records."""
        return cls(posteriors, draw, place, _whitened(posteriors, draw, place, values), places)

    @property
    def weight(self) -> float:
        """κ, with the person."""
        return float(self.posteriors.mean_weights[self.draw, self.place])

    @property
    def df(self) -> float:
        """ν, with the person."""
        return float(self.posteriors.dfs[self.draw, self.place])

    @property
    def log_share(self) -> float:
        """The log probability of the class without the person."""
        weights = self.posteriors.weights[self.draw]
        return float(np.log((weights[self.place] - 1) / (np.sum(weights) - 1)))

    @cached_property
    def left(self) -> Float[np.ndarray, " b"]:
        """|Λ without the person|/|Λ|."""
        return 1 - self.weight / (self.weight - 1) * np.sum(self.white**2, axis=1)

    @cached_property
    def height(self) -> Float[np.ndarray, " b"]:
        """The log density of the Student t at its own centre."""
        size = half_log_det(self.posteriors.roots[self.draw, self.place]) + 0.5 * np.log(self.left)
        return log_height(self.weight - 1, self.df - 1, size, self.white.shape[1])

    def log_density(self, values: Float[np.ndarray, "s p"]) -> Float[np.ndarray, "s b"]:
        """Return the log density of the Student t at points."""
        points = _whitened(self.posteriors, self.draw, self.place, values)
        return self._fallen(np.sum(points**2, axis=1)[:, None], points @ self.white.T)

    def log_density_of_own(self, values: Float[np.ndarray, "b s p"]) -> Float[np.ndarray, "b s"]:
        """Return the same at points of each person's own."""
        points = _whitened(self.posteriors, self.draw, self.place, values)
        return self._fallen(np.sum(points**2, axis=2).T, (points @ self.white[..., None])[..., 0].T).T

    def _fallen(
        self, squared: Float[np.ndarray, "s #b"], along: Float[np.ndarray, "s b"]
    ) -> Float[np.ndarray, "s b"]:
        """Return the log density at points v by ‖v‖² and vᵀw."""
        rest, own = 1 / (self.weight - 1), np.sum(self.white**2, axis=1)
        along = along + rest * own
        far = squared + rest * (2 * along - rest * own) + self.weight * rest / self.left * along**2
        return self.height - 0.5 * self.df * np.log1p((1 - 1 / self.weight) * far)

    def log_levels(self, places: Int[np.ndarray, "s q"]) -> Float[np.ndarray, "s b"]:
        """Return the log probability of levels at points."""
        weights, totals = self._levels
        logs = np.zeros((len(places), len(self.white)))
        for column, own, total in zip(places.T, self.places.T, totals, strict=True):
            same = column[:, None] == own
            logs += np.where(
                same, np.log((weights[own] - 1) / (total - 1)), np.log(weights[column] / (total - 1))[:, None]
            )
        return logs

    def log_levels_of_own(self, places: Int[np.ndarray, "b s q"]) -> Float[np.ndarray, "b s"]:
        """Return the same at points of each person's own."""
        weights, totals = self._levels
        logs = np.zeros(places.shape[:2])
        for column, own, total in zip(np.moveaxis(places, 2, 0), self.places.T, totals, strict=True):
            logs += np.log((weights[column] - (column == own[:, None])) / (total - 1))
        return logs

    @property
    def _levels(self) -> tuple[Float[np.ndarray, " levels"], Float[np.ndarray, " q"]]:
        """The weights of all levels in the class, with the person, and their sums by category."""
        here = self.draw, self.place
        return self.posteriors.level_weights[here], self.posteriors.level_totals[here]


def _observed(records: IncompleteRecords) -> tuple[Int[np.ndarray, " o"], Int[np.ndarray, " r"]]:
    """Return the positions of the measurements and of the categories that these people have, all the same ones."""
    return np.flatnonzero(~np.isnan(records.values[0])), np.flatnonzero(records.codes[0] != UNKNOWN)


def _whitened(
    posteriors: ClassPosteriors, draw: int, place: int, values: Float[np.ndarray, "*s p"]
) -> Float[np.ndarray, "*s p"]:
    return (values - posteriors.means[draw, place]) @ posteriors.halves[draw, place].T
