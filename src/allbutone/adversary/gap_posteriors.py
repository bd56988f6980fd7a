"""Posteriors of the observed part of records, where the others' gaps were drawn many times."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.gap_predictives import LEAST_LEFT, CellPredictives
from allbutone.adversary.log_quadratic import LogQuadratic
from allbutone.adversary.modes import Modes, find_modes
from allbutone.adversary.student_mixture import GroupSums, LogGroups, StudentMixture
from allbutone.model.cells import UNKNOWN, Cells
from allbutone.model.incomplete import IncompleteRecords
from allbutone.support.arrays import log_sum_exp

MOST_STEPS = 60
MOST_GROUPS = 8  # of draws, by chains; each is left out in turn
ARRIVED = 1e-16  # squared length of a step in posterior standard deviations
HEAVY = 2.5  # degrees of freedom from which a Student t has a variance worth matching

# predictives, the number of chains that drew gaps for them (0: a released draw), and the power in which they stand
Opinion = tuple[CellPredictives, int, int]


@dataclass(frozen=True, eq=False)
class GapPosteriors:
    """The posteriors of m targets that lack the same columns, at every combination of their known categories.

    A target's combinations stand one after the other: t = m·`combinations`. `mixtures`: what is believed without
    releases, and each release's opinion with what it shares with others, in the `powers` in which they stand, in
    the coordinates v of x = centre + root·v:

        ℓ(v) = Σⱼ powerⱼ·log mixtureⱼ(v);   after k releases Σⱼ log afterⱼ(v) − (k − 1)·log before(v)

    `shape`: the single Student t's that the mixtures are nearly, as one posterior of the usual family; its ν
    measures distances. `possible`: the combinations that agree with the categories that the adversary knows; known
    measurements are in the mixtures' weights. `effective_draws`: what the draws of the gaps are worth after
    weighing, the least of all mixtures; 0 where a target could not be taken out.
    """

    columns: Int[np.ndarray, " p"]
    combinations: Int[np.ndarray, "a q"]
    truth: Float[np.ndarray, "m p"]
    true_combination: Int[np.ndarray, " m"]
    possible: Bool[np.ndarray, "m a"]
    mixtures: tuple[StudentMixture, ...]
    powers: tuple[int, ...]
    shape: LogQuadratic | None
    effective_draws: Float[np.ndarray, " m"]

    @classmethod
    def of(
        cls,
        cells: Cells,
        targets: IncompleteRecords,
        opinions: Sequence[Opinion],
        weighed: bool,
        known: tuple[Sequence[int], Sequence[int]] = ((), ()),
    ) -> "GapPosteriors":
        """Turn predictives into mixtures; the first are what is believed before any release.

        `weighed`: the gaps were drawn with the targets in the table, so that weights must take them out. `known`:
        measurements and categories (positions) of the targets that the adversary knows.
        """
        (columns,) = np.nonzero(~np.isnan(targets.values[0]))
        (here,) = np.nonzero(targets.codes[0] != UNKNOWN)
        combinations, which = np.unique(cells.codes[:, here], axis=0, return_inverse=True)
        order = np.argsort(which.ravel(), kind="stable").reshape(len(combinations), -1)
        agree = targets.codes[:, None, here] == combinations
        true, possible = (
            np.argmax(np.all(agree, axis=-1), axis=1),
            np.all(agree | ~np.isin(here, known[1]), axis=-1),
        )
        truth, told = targets.values[:, columns], np.flatnonzero(np.isin(columns, known[0]))
        mixtures, worth = [], np.full(len(truth), np.inf)
        for each, chains, _ in opinions:
            mixture, log_weights = _mixture(each, chains, columns, order, truth, true, weighed)
            if len(told):
                mixture = mixture.given(told, np.repeat(truth[:, told], len(combinations), axis=0))
            mixtures.append(mixture)
            if chains:
                worth = np.minimum(worth, np.exp(-log_sum_exp(2 * log_weights, axis=1)))
        left = np.min([each.left for each, _, _ in opinions], axis=0)
        worth = np.where(left > LEAST_LEFT, worth, 0.0)
        columns, truth = np.delete(columns, told), np.delete(truth, told, axis=1)
        powers = tuple(power for _, _, power in opinions)
        inflation = np.mean(opinions[0][0].inflations[:, order], axis=(2, 3)).ravel()
        shape = _nearly(mixtures, powers, inflation) if len(columns) else None
        if shape is not None:
            mixtures = [each.seen_from(shape.centre, shape.root) for each in mixtures]
        return cls(columns, combinations, truth, true, possible, tuple(mixtures), powers, shape, worth)

    @property
    def before(self) -> StudentMixture:
        """What is believed before any release."""
        return self.mixtures[0]

    @property
    def true_places(self) -> Int[np.ndarray, " m"]:
        """Where each target's own combination stands."""
        return np.arange(len(self.truth)) * len(self.combinations) + self.true_combination

    def whiten(self, points: Float[np.ndarray, "m p"]) -> Float[np.ndarray, "t p"]:
        """Return a target's point in the coordinates of each of its combinations."""
        every = np.repeat(points, len(self.combinations), axis=0)
        return every if self.shape is None else self.shape.whiten(every)

    @cached_property
    def truth_groups(self) -> "LogGroups":
        """The mixtures at the truth of each target, summed within each group of draws."""
        own = self.true_places
        white = self.whiten(self.truth)[own][:, None]
        return self.log_groups_of(own, white)

    def log_groups_of(self, places: Int[np.ndarray, " m"], white: Float[np.ndarray, "m s p"]) -> "LogGroups":
        """Return the mixtures of some combinations at s points of each, summed within each group of draws."""
        sums = (GroupSums.of(each.take(places).log_groups(white)) for each in self.mixtures)
        return LogGroups(tuple(sums), self.powers)

    @property
    def log_volume(self) -> Float[np.ndarray, " t"]:
        """What a unit of volume in v is worth in x."""
        return np.zeros(len(self.before.dfs)) if self.shape is None else np.asarray(self.shape.log_volume)

    def log_groups(self, white: Float[np.ndarray, "t s p"]) -> "LogGroups":
        """Return the mixtures at s points, summed within each group of draws."""
        return LogGroups(tuple(GroupSums.of(each.log_groups(white)) for each in self.mixtures), self.powers)

    def log_density_unnormalized(self, white: Float[np.ndarray, "t s p"]) -> Float[np.ndarray, "t s"]:
        """Return ℓ at s points."""
        return self.log_groups(white).log_posterior()

    def local(
        self, white: Float[np.ndarray, "t p"]
    ) -> tuple[Float[np.ndarray, " t"], Float[np.ndarray, "t p"], Float[np.ndarray, "t p p"]]:
        """Return value, gradient and Hessian of ℓ."""
        some = [(mixture, power) for mixture, power in zip(self.mixtures, self.powers, strict=True) if power]
        parts = [[power * part for part in mixture.local(white)] for mixture, power in some]
        value, gradient, hessian = (np.sum(each, axis=0) for each in zip(*parts, strict=True))
        return value, gradient, hessian

    def find_modes(self) -> Modes:
        """Climb from both modes of the nearly equal single Student t's; the higher of the two is the best."""
        assert self.shape is not None
        start = find_modes(self.shape)
        best, value, hessian, done = self._climb(start.best)
        second = np.where(np.isfinite(start.gap)[:, None], start.other, -start.best)
        other, low, bend, _ = self._climb(second)
        swap = low > value
        best, other = np.where(swap[:, None], other, best), np.where(swap[:, None], best, other)
        value, low = np.maximum(value, low), np.minimum(value, low)
        bends = np.where(swap[:, None, None], bend, hessian), np.where(swap[:, None, None], hessian, bend)
        apart = best - other
        same = -np.einsum("tp,tpq,tq->t", apart, bends[0], apart) < 1e-8
        gap = np.where(same, np.inf, value - low)
        return Modes(best, np.where(same[:, None], np.nan, other), gap, value, *bends, done, MOST_STEPS)

    def _climb(self, white: Float[np.ndarray, "t p"]) -> "_Summits":
        """Climb by Newton's steps, uphill along all axes, none so long as to leap onto another hill."""
        assert self.shape is not None
        length, done = np.ones(len(white)), np.zeros(len(white), dtype=bool)
        value, gradient, hessian = self.local(white)
        floor = 1e-3 * np.broadcast_to(np.asarray(self.shape.df), len(white))[:, None]
        for _ in range(MOST_STEPS):
            values, axes = np.linalg.eigh(-hessian)
            along = np.einsum("tpq,tp->tq", axes, gradient) / np.maximum(np.abs(values), floor)
            step = np.einsum("tpq,tq->tp", axes, along)
            done = np.sum(step * gradient, axis=1) < ARRIVED
            if np.all(done):
                break
            reach = 0.5 * np.linalg.norm(white, axis=1) + np.asarray(self.shape.df) ** -0.5
            share = length * np.minimum(1.0, reach / np.maximum(np.linalg.norm(step, axis=1), 1e-300))
            trial = white + share[:, None] * step
            new = self.local(trial)
            better = (new[0] > value) & ~done
            white, value = np.where(better[:, None], trial, white), np.where(better, new[0], value)
            gradient = np.where(better[:, None], new[1], gradient)
            hessian = np.where(better[:, None, None], new[2], hessian)
            length = np.where(better, np.minimum(2 * length, 1.0), length / 4)
            if np.all(done | (length < 1e-6)):
                break
        return white, value, hessian, done | (length < 1e-6)


_Summits = tuple[
    Float[np.ndarray, "t p"], Float[np.ndarray, " t"], Float[np.ndarray, "t p p"], Bool[np.ndarray, " t"]
]


def _mixture(
    each: CellPredictives,
    chains: int,
    columns: Int[np.ndarray, " o"],
    order: Int[np.ndarray, "a u"],
    truth: Float[np.ndarray, "m o"],
    true: Int[np.ndarray, " m"],
    weighed: bool,
) -> tuple[StudentMixture, Float[np.ndarray, "m d"]]:
    """Return each target's mixture at each combination, and the log weights of the draws, which add up to 1."""
    m, draws, (a, u) = len(truth), each.dfs.shape[-1], order.shape

    def arranged(array: np.ndarray) -> np.ndarray:
        # records, combinations, draws, cells of the combination: chains stay together
        parts = np.moveaxis(array[:, order], 3, 2)
        return parts.reshape(m * a, draws * u, *array.shape[3:])

    square = each.scales[..., columns[:, None], columns]
    mixture = StudentMixture.of(
        arranged(each.log_shares),
        arranged(each.locations[..., columns]),
        arranged(square),
        arranged(each.dfs),
        gcd(chains, MOST_GROUPS) if chains else 1,
    )
    log_weights = np.full((m, draws), -np.log(draws))
    if weighed and chains:
        own = mixture.take(np.arange(m) * a + true)
        parts = own.log_parts(truth[:, None])[..., 0] + own.log_weights
        at_truth = log_sum_exp(parts.reshape(m, draws, u), axis=2)
        log_weights = -at_truth - log_sum_exp(-at_truth, axis=1)[:, None]
    every = np.repeat(np.repeat(log_weights, a, axis=0), u, axis=1)
    return replace(mixture, log_weights=mixture.log_weights + every), log_weights


def _nearly(
    mixtures: Sequence[StudentMixture], powers: Sequence[int], inflation: Float[np.ndarray, " t"]
) -> LogQuadratic:
    """Return the posterior of the single Student t's with the mixtures' means and covariances."""
    location, covariance, df = _moments(mixtures[0])
    p = mixtures[0].p
    nu = df + p - 1
    # V = covariance·(δ − 2)/δ, and the scale of the NIW whose predictive it is, Λ = c·δ·V
    root = np.linalg.cholesky(covariance * (inflation * (df - 2))[:, None, None])
    m, precision, pull = len(location), np.zeros((len(location), p, p)), np.zeros((len(location), p))
    weights, levels, slopes, shapes = [], [], [], []
    for mixture, power in zip(mixtures[1:], powers[1:], strict=True):
        place, spread, tail = _moments(mixture)
        middle = np.linalg.solve(root, (place - location)[..., None])[..., 0]
        half = np.linalg.solve(np.linalg.cholesky(spread), root)
        bend = half.swapaxes(-1, -2) @ half
        if np.all(np.isinf(tail)):
            precision, pull = precision + power * bend, pull + power * (bend @ middle[..., None])[..., 0]
            continue
        bend = bend / (tail - 2)[:, None, None]
        slope = (bend @ middle[..., None])[..., 0]
        weights.append(power * (tail + p))
        levels.append(1 + np.sum(slope * middle, axis=-1))
        slopes.append(slope)
        shapes.append(bend)
    empty = (np.zeros((m, 0)), np.zeros((m, 0)), np.zeros((m, 0, p)), np.zeros((m, 0, p, p)))
    wells = [np.stack(each, axis=1) for each in (weights, levels, slopes, shapes)] if weights else empty
    return LogQuadratic(location, root, nu, -powers[0] * (nu + 1), inflation, precision, pull, *wells)


def _moments(
    mixture: StudentMixture,
) -> tuple[Float[np.ndarray, "t p"], Float[np.ndarray, "t p p"], Float[np.ndarray, " t"]]:
    """Return mean and covariance of the mixtures, and the mean degrees of freedom."""
    share = np.exp(mixture.log_weights - log_sum_exp(mixture.log_weights, axis=1)[:, None])
    mean = np.einsum("tk,tkp->tp", share, mixture.locations)
    away = mixture.locations - mean[:, None]
    df = np.maximum(mixture.dfs, HEAVY)
    wider = np.where(np.isinf(df), 1.0, df / (np.where(np.isinf(df), 3.0, df) - 2))
    within = np.einsum("tk,tkpq->tpq", share * wider, np.linalg.inv(mixture.precisions))
    tail = np.full(len(df), np.inf) if np.all(np.isinf(df)) else np.sum(share * df, axis=1)
    return mean, within + np.einsum("tk,tkp,tkq->tpq", share, away, away), tail
