"""What an adversary believes of people where there are classes: at points, by draws given each table."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.cell_opinions import CellAdversary
from allbutone.adversary.classes import ClassOpinion, OutsideOpinion
from allbutone.model.class_sampler import ClassChains, ClassDraws, draw_classes
from allbutone.model.classes import ClassModel, ClassPosteriors, choose
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.moments import UNKNOWN
from allbutone.support.arrays import log_sum_exp
from allbutone.support.parallel import in_parallel

CHAINS, FEW_CHAINS, GROUPS = 16, 8, 8  # each group of chains is left out in turn
DRAWS = 4  # of each chain
ROUNDS = 3  # in which points learn where people are believed to be
ENOUGH = 0.1  # of the draws: weights that leave fewer are not trusted
AGAIN = 40  # sweeps until chains have forgotten a person
SETTLING, SETTLING_QUICKLY = 150, 50  # sweeps of chains that begin where those of the table alone stand

# ----------------------------------------------------------------------------------------- draws given each table


@dataclass(frozen=True, eq=False)
class ClassAdversary:
    """Draws given the table alone (first), and given the table with each dataset beside it.

    keeps: whether the second are given the table with what is kept of the datasets' rows beside it. rest: the same
    for releases made through other classes or without, or from fewer records; start: where its records begin among
    all. own: what the adversary believes of the table, if it is not that of these classes.
    quick: whether this is one of many, as where releases are simulated: points are fewer, and chains are not run
    again without people of whom their weights say too little.
    """

    records: IncompleteRecords
    chains: tuple[ClassChains, ...]
    draws: tuple[ClassDraws, ...]
    keeps: bool = False
    quick: bool = False
    rest: tuple["ClassAdversary | CellAdversary", ...] = ()
    start: int = 0
    own: CellAdversary | None = None

    @classmethod
    def of(
        cls,
        model: ClassModel,
        records: IncompleteRecords,
        datasets: Sequence[IncompleteRecords],
        rng: np.random.Generator,
        kept: IncompleteRecords | None = None,
        *,
        device: Any = None,
    ) -> "ClassAdversary":
        """Draw classes given the table, and given it with each dataset beside it."""
        return cls.alone(model, records, rng, kept, device=device).beside(datasets, rng)

    @classmethod
    def alone(
        cls,
        model: ClassModel,
        records: IncompleteRecords,
        rng: np.random.Generator,
        kept: IncompleteRecords | None = None,
        *,
        quick: bool = False,
        device: Any = None,
    ) -> "ClassAdversary":
        """Draw classes given the table, and given it with what is kept of a dataset's rows, if anything is.

        Twice as often as with a dataset, since all is divided by these. device: of PyTorch's, where chains run.
        """
        chains = ClassChains.start(model, records, rng.spawn(1)[0], FEW_CHAINS if quick else CHAINS, device)
        found = cls(records, (chains,), (draw_classes(chains, 2 * DRAWS),), kept is not None, quick)
        return found if kept is None else found.plus([found._drawn_beside(kept, rng.spawn(1)[0], 2 * DRAWS)])

    def beside(self, datasets: Sequence[IncompleteRecords], rng: np.random.Generator) -> "ClassAdversary":
        """Draw classes given the table with each dataset beside it; chains begin where those without it stand.

        Where a mixture has several hills, what a dataset adds is then seen on the same ones.
        """
        work = list(zip(datasets, rng.spawn(len(datasets)), strict=True))
        return self.plus(in_parallel(lambda one: self._drawn_beside(*one, DRAWS), work))

    def _drawn_beside(
        self, further: IncompleteRecords, rng: np.random.Generator, draws: int
    ) -> tuple[ClassChains, ClassDraws]:
        chains = self.chains[0].with_more(further, rng)
        return chains, draw_classes(chains, draws, most_sweeps=SETTLING_QUICKLY if self.quick else SETTLING)

    def plus(self, further: Sequence[tuple[ClassChains, ClassDraws]]) -> "ClassAdversary":
        """Return the adversary who has further datasets."""
        chains, draws = (
            (*self.chains, *(each[0] for each in further)),
            (*self.draws, *(each[1] for each in further)),
        )
        return replace(self, chains=chains, draws=draws)

    def alike(self, people: Int[np.ndarray, " n"]) -> "list[Int[np.ndarray, ' m']]":
        """Sort people by the releases that were made from their records."""
        held = np.array([each.holds(people) for each in self.rest]).reshape(len(self.rest), len(people))
        kinds, which = np.unique(held, axis=1, return_inverse=True)
        return [people[which.ravel() == kind] for kind in range(kinds.shape[1])]

    def holds(self, people: Int[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
        """Say whose records the releases were made from."""
        return (people >= self.start) & (people < self.start + len(self.records))

    @property
    def powers(self) -> list[int]:
        """In which power what each table lets believe stands in the posterior; the first is their own."""
        k = len(self.draws) - 1 - self.keeps
        return [1, -k, *[1] * k] if self.keeps else [1 - k, *[1] * k]

    def tables(self, people: Int[np.ndarray, " n"]) -> "list[_Table]":
        """Return what the beliefs on people rest on, whose records are in the same releases."""
        found: list[_Table] = [] if self.own is None else _of_cells(self.own, people)
        for each in (self, *self.rest):
            if each.holds(people[:1])[0]:
                told = each.own_tables(people) if isinstance(each, ClassAdversary) else _of_cells(each, people)
                if found:  # the adversary's own opinion is there already
                    told[0] = replace(told[0], power=told[0].power - 1)
                    told = [one for one in told if one.power]
                found += told
        return found

    def own_tables(self, people: Int[np.ndarray, " n"]) -> "list[_Table]":
        """Return the same by the releases through these classes alone."""
        here, every = people - self.start, zip(self.draws, self.chains, self.powers, strict=True)
        return [
            _Table(ClassOpinion.of(draws, here, GROUPS), power, chains, here) for draws, chains, power in every
        ]

    def opinions(self, people: Int[np.ndarray, " n"]) -> "ClassBeliefs":
        """Return what is believed of people who lack the same columns, and are in the same releases."""
        every = self.tables(people)
        return ClassBeliefs(tuple(each.opinion for each in every), tuple(each.power for each in every))

    def without(self, person: int, rng: np.random.Generator) -> "ClassBeliefs":
        """Return what is believed of one person by draws without them, for tables where weights say too little.

        The chains go on from where they stand, without that record.
        """
        every, found = self.tables(np.array([person])), []
        for each, stream in zip(every, rng.spawn(len(every)), strict=True):
            one = each.opinion
            if each.chains is None or one.effective_draws[0] >= ENOUGH * len(one):
                found.append(one)
                continue
            again = each.chains.without(int(each.people[0]), stream)
            draws = draw_classes(again, len(one) // len(again.classes), most_sweeps=AGAIN)
            nobody = np.full((len(draws), 1), UNKNOWN)  # the person is in no class
            own = self.records.take([person])
            found.append(OutsideOpinion.on(draws, own, one.boxes.drawn_evenly(len(draws)), nobody, GROUPS))
        return ClassBeliefs(tuple(found), tuple(each.power for each in every))


@dataclass(frozen=True, eq=False)
class _Table:
    """What one table says, alone or with a dataset, its power, and the chains it is from, with people's places."""

    opinion: ClassOpinion
    power: int
    chains: ClassChains | None
    people: Int[np.ndarray, " n"]


def _of_cells(adversary: CellAdversary, people: Int[np.ndarray, " n"]) -> list[_Table]:
    here = people - adversary.start
    return [_Table(*each, None, here) for each in adversary.opinions(here, GROUPS)]


# ------------------------------------------------------------------------------------- what is believed at points


Known = tuple[Int[np.ndarray, " c"], Int[np.ndarray, " r"]]  # positions of known measurements, and of categories
Shares = list[Float[np.ndarray, "_ _"]]  # of the parts of each opinion: of each class of each draw


@dataclass(frozen=True, eq=False)
class PartPoints:
    """Points drawn from r(x) = Σ share·part(x) over all opinions' parts, their levels by place, and log r there.

    `parts`: by opinion, the log of each part's density, times its share of the opinion.
    """

    values: Float[np.ndarray, "s p"]
    places: Int[np.ndarray, "s q"]
    log_density: Float[np.ndarray, " s"]
    shares: Shares
    parts: list[Float[np.ndarray, "_ _ s"]]


@dataclass(frozen=True, eq=False)
class ClassBeliefs:
    """Beliefs on n people who have the same columns: ℓ(x) = Σⱼ log p(x | others ∪ Zⱼ) − (k − 1)·log p(x | others).

    Where columns are kept, W of each dataset's rows, ℓ(x) = log p(x | others) + Σⱼ log p(x | others ∪ Zⱼ) −
    k·log p(x | others ∪ W): W without the rest says nothing of the release. Releases made through other classes r,
    or from fewer records, add Σⱼ log p_r(x | others ∪ Zⱼ) − k·log p_r(x | others). `opinions`: the first without a
    release; `powers`: in which each stands in the posterior. All is returned without each group of chains in turn
    and, last, with all of them.
    """

    opinions: tuple[ClassOpinion, ...]
    powers: tuple[int, ...]

    @property
    def before(self) -> ClassOpinion:
        """What is believed before any release."""
        return self.opinions[0]

    @cached_property
    def effective_draws(self) -> Float[np.ndarray, " n"]:
        """What share of their number the draws are worth without each person, the least of all tables."""
        return np.min([each.effective_draws / len(each) for each in self.opinions], axis=0)

    def at_truth(self) -> tuple[Float[np.ndarray, "g n"], Float[np.ndarray, "g n"]]:
        """Return ℓ and log p(x | others) at each person's own record."""
        each = (without_each_group(one.log_groups_at_truth, one.log_group_weights) for one in self.opinions)
        return self.summed(each)

    def at(
        self, values: Float[np.ndarray, "b s p"], places: Int[np.ndarray, "b s q"], people: Int[np.ndarray, " b"]
    ) -> tuple[Float[np.ndarray, "h s b"], Float[np.ndarray, "h s b"]]:
        """Return ℓ and log p(x | others) at points of each person's own."""
        return self.summed(
            without_each_group(
                one.log_groups_of_own(values, places, people), one.log_group_weights[:, None, people]
            )
            for one in self.opinions
        )

    def at_shared(
        self, points: "PartPoints", people: Int[np.ndarray, " b"]
    ) -> tuple[Float[np.ndarray, "h s b"], Float[np.ndarray, "h s b"]]:
        """Return the same at points that all people share."""
        return self.summed(
            without_each_group(
                one.log_groups(points.values, points.places, people, parts), one.log_group_weights[:, None, people]
            )
            for one, parts in zip(self.opinions, points.parts, strict=True)
        )

    def summed(self, logs: Any) -> tuple[np.ndarray, np.ndarray]:
        """Add up the opinions in their powers; beside it the first."""
        before = next(logs)
        total = self.powers[0] * before
        for power, each in zip(self.powers[1:], logs, strict=True):
            total = total + power * each
        return total, before

    def shared_points(self, rng: np.random.Generator, size: int) -> PartPoints:
        """Draw points where people who are no exceptions are believed to be, with the release and without."""
        points = self.points(self.even_shares, rng, size)
        for _ in range(ROUNDS):
            logs = np.stack(
                [log_sum_exp(log_sum_exp(each, axis=1), axis=0) - np.log(len(each)) for each in points.parts]
            )
            points = self.points(self.learned(points, np.array(self.powers) @ logs), rng, size)
        return points

    @cached_property
    def even_shares(self) -> Shares:
        """The shares of the parts in the mean of all opinions."""
        return [np.exp(one.posteriors.log_shares) / (len(one) * len(self.opinions)) for one in self.opinions]

    def learned(self, points: PartPoints, logs: Float[np.ndarray, " s"]) -> Shares:
        """Return shares of which half are as parts are responsible for exp(logs), as the points see it.

        Rounds of this are population Monte Carlo: places where several datasets agree get their points.
        """
        weights = logs - points.log_density
        weights = np.exp(weights - log_sum_exp(weights, axis=0) - points.log_density)
        return [
            0.5 * even + 0.5 * now * (np.exp(part - one.posteriors.log_shares[..., None]) @ weights)
            for even, now, part, one in zip(
                self.even_shares, points.shares, points.parts, self.opinions, strict=True
            )
        ]

    def points_given(
        self, person: int, known: Known, rng: np.random.Generator, size: int
    ) -> tuple[Float[np.ndarray, "s p"], Int[np.ndarray, "s q"], Float[np.ndarray, " s"]]:
        """Draw points that agree with what is known of a person, by all opinions' mean, and their log density."""
        values, places = self.before.values[person], self.before.places[person]
        some = [one.posteriors.select(*known) for one in self.opinions]
        codes = places[known[1]] - self.before.posteriors.model.starts[known[1]]
        logs = [each.log_parts(values[known[0]][None], each.model.places(codes)[None])[..., 0] for each in some]
        top = max(float(np.max(each)) for each in logs)
        shares = [np.exp(each - top) / len(each) for each in logs]
        each = np.array([np.sum(one) for one in shares])
        counts = np.diff(np.round(np.append(0.0, np.cumsum(each / each.sum())) * size).astype(int)).tolist()
        drawn = [
            draw_given(one.posteriors, share, rng, count, known, values, places)
            for one, share, count in zip(self.opinions, shares, counts, strict=True)
        ]
        points, levels = (np.concatenate(part) for part in zip(*drawn, strict=True))
        joint = log_sum_exp(
            np.stack([one.posteriors.log_mean_density(points, levels) for one in self.opinions]), axis=0
        )
        return points, levels, joint - (np.log(each.sum()) + top)

    def points(self, shares: Shares, rng: np.random.Generator, size: int) -> PartPoints:
        """Draw points from parts in these shares."""
        each = np.array([np.sum(some) for some in shares])
        counts = np.diff(np.round(np.append(0.0, np.cumsum(each / each.sum())) * size).astype(int)).tolist()
        drawn = [
            draw_next(one.posteriors, some, rng, count)
            for one, some, count in zip(self.opinions, shares, counts, strict=True)
        ]
        values, places = (np.concatenate(part) for part in zip(*drawn, strict=True))
        parts = [one.posteriors.log_parts(values, places) for one in self.opinions]
        logs = []
        for part, some, one in zip(parts, shares, self.opinions, strict=True):
            other = part + (np.log(some) - one.posteriors.log_shares)[..., None]
            logs.append(log_sum_exp(other.reshape(-1, len(values)), axis=0))
        density = log_sum_exp(np.stack(logs), axis=0) - np.log(each.sum())
        return PartPoints(values, places, density, shares, parts)


def without_each_group(
    logs: Float[np.ndarray, "g *each"], weights: Float[np.ndarray, "g *#each"]
) -> Float[np.ndarray, "h *each"]:
    """Return log means without each group in turn, and with all, from logs of sums and of weights."""
    top = np.max(logs, axis=0)
    top = np.where(np.isfinite(top), top, 0.0)
    parts, shares = np.exp(logs - top), np.exp(weights)
    total, whole = np.sum(parts, axis=0), np.sum(shares, axis=0)
    # a group that is all there is leaves rounding; that it matters shows well before that
    rest = np.maximum(total - parts, 1e-12 * total) / np.maximum(whole - shares, 1e-12 * whole)
    with np.errstate(divide="ignore"):
        return np.concatenate([np.log(rest) + top, (np.log(total / whole) + top)[None]])


def draw_next(
    posteriors: ClassPosteriors, shares: Float[np.ndarray, "d k"], rng: np.random.Generator, count: int
) -> tuple[Float[np.ndarray, "s p"], Int[np.ndarray, "s q"]]:
    """Draw records from what each draw says of the next one in each class, in these shares; levels by place."""
    nobody = np.zeros(posteriors.model.p), np.zeros(len(posteriors.model.sizes), dtype=np.int64)
    nothing = np.zeros(0, dtype=np.int64)
    return draw_given(posteriors, shares, rng, count, (nothing, nothing), *nobody)


def draw_given(
    posteriors: ClassPosteriors,
    shares: Float[np.ndarray, "d k"],
    rng: np.random.Generator,
    count: int,
    known: Known,
    values: Float[np.ndarray, " p"],
    places: Int[np.ndarray, " q"],
) -> tuple[Float[np.ndarray, "s p"], Int[np.ndarray, "s q"]]:
    """Draw records of which some columns are known, given these, from classes of draws in these shares.

    With known columns first, Λ = LLᵀ and x = m + L·v, v has a density in proportion to
    (1 + κ/(κ+1)·‖v‖²)^(−(ν+1)/2): given its known part w, the rest is √((κ+1)/κ + ‖w‖²)·N(0, I)/√χ²(ν + 1 − u).
    """
    model = posteriors.model
    # as evenly over draws and classes as their shares allow
    ends = np.cumsum(shares.ravel() / np.sum(shares))
    part = np.minimum(np.searchsorted(ends, (np.arange(count) + rng.random(count)) / max(count, 1)), ends.size - 1)
    draw, place = np.divmod(part, shares.shape[1])
    order = np.concatenate([known[0], np.setdiff1d(np.arange(model.p), known[0])]).astype(int)
    c, mean = len(known[0]), posteriors.means[draw, place][:, order]
    roots = posteriors.roots[draw, place]
    if c:
        roots = np.linalg.cholesky(posteriors.scales[draw, place][:, order[:, None], order])
    white = np.empty((count, model.p))
    white[:, :c] = np.linalg.solve(roots[:, :c, :c], (values[known[0]] - mean[:, :c])[..., None])[..., 0]
    weight, free = posteriors.mean_weights[draw, place], model.p - c
    wide = (weight + 1) / weight + np.sum(white[:, :c] ** 2, axis=1)
    wide = np.sqrt(wide / rng.chisquare(posteriors.dfs[draw, place] + 1 - free))
    white[:, c:] = rng.standard_normal((count, free)) * wide[:, None]
    found = np.empty((count, model.p))
    found[:, order] = mean + (roots @ white[..., None])[..., 0]
    found[:, known[0]] = values[known[0]]
    levels = np.repeat(places[None], count, axis=0)
    for category in np.setdiff1d(np.arange(len(model.sizes)), known[1]):
        start, size = model.starts[category], model.sizes[category]
        logs = posteriors.log_levels[draw, place, start : start + size]
        levels[:, category] = start + choose(logs.T, rng.random(count))[0]
    return found, levels
