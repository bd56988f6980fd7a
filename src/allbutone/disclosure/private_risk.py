"""What the adversary who has every record but one learns from noisy moments, beside what they could expect to.

The others' records are taken away from the noisy sums; what is left is the missing record's own x̃x̃ᵀ and counts,
and the noise: E, normal with σ, on the matrix. With z the record x as the mechanism limits it, w the code of its
cell, and zᵢ, wᵢ the true ones, but for a constant

    log p(told | x, c) = (zᵀEz + (z·zᵢ)² + 2zᵀE_w·w + 2(z·zᵢ)(w·wᵢ) − |z|⁴/2 − |z|²|w|²)/σ² + Σ (r_c − r_i − 1)/σₘ²

the last sum over the margins in which c is not the true combination i, r their noise. Before, the adversary
believes in the cell by the others' counts, and in x by the others' Student t there. Draws of that, weighted, give
the rest: with a guarantee weights are nearly even, and few draws suffice.

Whatever set the adversary names, of probability π before, they hit it with a probability of at most Φ(Φ⁻¹(π) + μ):
guessing is a test between the release and one that knows nothing of the record. That is an average over the noise
and over such people; for one person and one release it can be more, by luck.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import chdtri, ndtr, ndtri, stdtr

from allbutone.adversary.averaged import StudentMixture
from allbutone.adversary.integrate import Intervals, interval_probability
from allbutone.adversary.one_value import Nearness, ValueBeliefs, mixture_along_axes, within
from allbutone.disclosure.rule import Beliefs, Known, Levels, near_truth
from allbutone.model.location import LocationModel, MixedRecords, default_weight
from allbutone.model.niw import NIW, StudentT
from allbutone.releases.noisy_counts import index_of
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.public_ball import model_limits
from allbutone.releases.release import Release
from allbutone.support.arrays import log_sum_exp
from allbutone.support.errors import InputError
from allbutone.tables.records import Records

DRAWS = 11  # 2¹¹ draws of what the adversary believed before
NUMBERS_HELD = 1 << 22  # at once
POINTS_IN_CELLS = 1 << 23  # for all people and cells together
FEWEST = 6  # 2⁶ draws in a cell
GROUPS = 4  # of draws, whose differences tell the error
BOUND = "bound_"
LINE_FIELDS = ("probability", "error", "baseline", "expected")


@dataclass(frozen=True, eq=False)
class PrivateBeliefs:
    """What is known of records after noisy moments; `records`, `near` as the mechanism sees them, in the limits.

    gain: information gained at the truth. beliefs: of who lacks the record; rest_known: of who knows the rest of
    it. bounds: `bound_…`, Φ(Φ⁻¹(baseline) + μ) of the first.
    """

    records: Records
    near: Known
    gain: Float[np.ndarray, " n"]
    beliefs: Beliefs
    rest_known: Beliefs
    bounds: dict[str, np.ndarray]


def private_beliefs(wide: Records, release: Release, judged: Sequence[str]) -> PrivateBeliefs:
    """Return what is known of each record, read without limits, with the release and without.

    judged: the categories that are no public knowledge.
    """
    people, told = len(wide.values), release.noisy
    assert told is not None
    if people != told.people:
        raise InputError(
            f"the release is of {told.people:,} records and the table has {people:,}",
            "give the table it was made from",
        )
    if people < release.p + told.ball.codes.shape[1] + 3:
        raise InputError("without one of them the records leave no distribution", "give more rows")
    records = limited_records(wide, release)
    near = near_truth(records)
    adversary = _Adversary.of(records, near, told)
    blocks = np.array_split(np.arange(people), -(-people * release.p * 2**DRAWS // NUMBERS_HELD))
    gain, probability, error, before = (
        np.concatenate(each) for each in zip(*(adversary.learn(block) for block in blocks), strict=True)
    )
    levels, rest_levels = {}, {}
    if told.counts:
        gain, *both = adversary.learn_levels(release.mechanism.categories)
        levels, rest_levels = ({name: each[name] for name in judged} for each in both)
    lines = [adversary.on_lines(block) for block in blocks]
    numbers = [np.concatenate([getattr(each, name) for each in lines]) for name in LINE_FIELDS]
    low, high = (np.concatenate([getattr(each.near, name) for each in lines]) for name in ("low", "high"))
    alone = ValueBeliefs(numbers[0], numbers[1], numbers[2], numbers[3], Intervals(low, high))
    without = dict(zip(release.columns, before.T, strict=True)) | {name: each[2] for name, each in levels.items()}
    bounds = {BOUND + name: ndtr(ndtri(without[name]) + told.mu) for name in without}
    beliefs = Beliefs(probability, error, before, levels)
    return PrivateBeliefs(records, near, gain, beliefs, Beliefs.of_values(alone, rest_levels), bounds)


def of_riskiest(found: Mapping[str, np.ndarray], kind: str) -> Float[np.ndarray, " n"]:
    """Return each person's number of this kind, such as `bound_`, in the column that is riskiest for them."""
    return np.array([found[f"{kind}{name}"][place] for place, name in enumerate(found["riskiest"])])


def limited_records(wide: Records, release: Release) -> Records:
    """Return the records inside the limits, on the model's scale; what is secret of them stays so."""
    low, high = np.array([(column.low, column.high) for column in release.schema.measurements]).T
    inside = release.schema.to_model(np.clip(wide.natural, low, high))
    secret = [column.name for column in wide.schema.columns if column.secret]
    return replace(wide, values=inside, schema=release.schema.with_secret(secret))


@dataclass(frozen=True, eq=False)
class _Adversary:
    """The records as they are and as the mechanism saw them, in the ball's units; the noise; fixed draws."""

    told: NoisyMoments
    own: Float[np.ndarray, "n p"]
    cells: Int[np.ndarray, " n"]
    near: Intervals
    nearness: Nearness
    seen: Float[np.ndarray, "n p"]
    noise: Float[np.ndarray, "q q"]
    limits: Float[np.ndarray, "p 2"]
    draws: Float[np.ndarray, "k p"]

    @classmethod
    def of(cls, records: Records, near: Known, told: NoisyMoments) -> "_Adversary":
        from scipy.stats import qmc  # not above: it is slow to load

        ball = told.ball
        limits = (model_limits(ball.schema) - ball.centre[:, None]) / ball.unit[:, None]
        own, low, high = ((each - ball.centre) / ball.unit for each in (records.values, near.low, near.high))
        least = (
            ((end - ball.centre) / ball.unit) for end in (near.rest_known.least.low, near.rest_known.least.high)
        )
        nearness = Nearness(Intervals(*least), near.rest_known.stretches)
        seen, cells = ball.shrunk(own), ball.cells.of_codes(records.categories.codes)
        whole = np.column_stack([seen, ball.codes[cells]])
        # a Student t, but for its scale: normals over the root of one χ²
        points = qmc.Sobol(ball.p + 1, rng=np.random.default_rng(0)).random_base2(DRAWS)
        points = np.clip(points, 1e-9, 1 - 1e-9)
        df = len(own) - ball.p - 1.0
        draws = ndtri(points[:, :-1]) / np.sqrt(chdtri(df, 1 - points[:, -1:]) / df)
        noise = told.matrix - whole.T @ whole
        return cls(told, own, cells, Intervals(low, high), nearness, seen, noise, limits, draws)

    @cached_property
    def model(self) -> LocationModel:
        """What all records say, by a flat prior of the measurements and one record's worth of one of the cells."""
        sizes = self.told.ball.cells.sizes
        weight = default_weight(self.told.ball.cells.count)
        prior = LocationModel.prior(sizes, NIW.flat(self.own.shape[1]), weight=weight)
        return prior.update(MixedRecords.of(self.cells, self.own))

    def _others(self, block: Any, cells: Any) -> StudentT:
        """Return what the others of each of these records say of the measurements in a cell."""
        codes = self.told.ball.cells.main_effects
        return self.model.measured.without_each(  # type: ignore[union-attr]
            self.own[block], codes[self.cells[block]], codes[cells]
        ).predictive()

    def on_lines(self, block: Any) -> ValueBeliefs:
        """Return how well each value of these records is known to who knows all others of the record."""
        others = self._others(block, self.cells[block])
        mean, scale, df = others.location, others.scale, float(others.df)
        own, seen, ball = self.own[block], self.seen[block], self.told.ball
        codes = ball.codes[self.cells[block]]
        b, p = own.shape
        before = mixture_along_axes(
            StudentMixture.of(np.zeros((b, 1)), mean[:, None], scale[:, None], np.full((b, 1), df)), own
        )
        expected, spread = before.locations[:, 0, 0], 1 / np.sqrt(before.precisions[:, 0, 0, 0])
        freedom, near = (
            before.dfs[:, 0],
            self.nearness.take(block, np.arange(p)).around(own, expected.reshape(b, p)),
        )
        low, high, truth = near.low.reshape(-1), near.high.reshape(-1), own.reshape(-1)
        probability = np.empty(b * p)
        for row in range(b):
            some = slice(row * p, (row + 1) * p)

            def log_density(points: Float[np.ndarray, "t s"], row: int = row, some: slice = some) -> np.ndarray:
                candidates = np.broadcast_to(own[row], (*points.shape, p)).copy()
                candidates[np.arange(p), :, np.arange(p)] = points
                code = np.broadcast_to(codes[row], (p, codes.shape[1]))
                said = self._of_moments(self._as_told(candidates), code, np.broadcast_to(seen[row], (p, p)), code)
                away = (points - expected[some, None]) / spread[some, None]
                return said - 0.5 * (freedom[some, None] + 1) * np.log1p(away**2 / freedom[some, None])

            place = np.stack([expected[some], truth[some]], axis=1)
            width = np.stack([spread[some], spread[some] / 3], axis=1)
            probability[some] = within(log_density, place, width, low[some], high[some])
        baseline = interval_probability(
            expected[:, None], spread[:, None], freedom[:, None], low[:, None], high[:, None]
        )
        on_scale = Intervals(ball.centre + ball.unit * near.low, ball.centre + ball.unit * near.high)
        middle = ball.centre + ball.unit * expected.reshape(b, p)
        return ValueBeliefs(probability.reshape(b, p), np.zeros((b, p)), baseline.reshape(b, p), middle, on_scale)

    def learn(self, block: Any) -> tuple[np.ndarray, ...]:
        """Return gain, probabilities, their errors and those before, of these records in their own cells."""
        near, others = self.near.take(block), self._others(block, self.cells[block])
        mean, df, codes = others.location, float(others.df), self.told.ball.codes[self.cells[block]]
        spread = np.sqrt(np.diagonal(others.scale, axis1=1, axis2=2))
        drawn = mean[:, None, :] + self.draws @ np.swapaxes(others.root, 1, 2)
        logs = self._of_moments(self._as_told(drawn), codes, self.seen[block], codes)
        top = logs.max(axis=1, keepdims=True)
        total = np.mean(np.exp(logs - top), axis=1, keepdims=True)
        weights = np.exp(logs - top) / total
        gain = self._at_truth(block) - (np.log(total) + top)[:, 0]
        before = stdtr(df, (near.high - mean) / spread) - stdtr(df, (near.low - mean) / spread)
        # the draws are used for the change only: what was believed before is known exactly
        change = (weights[:, :, None] - 1) * (near.holds(drawn) - before[:, None, :])
        found = np.clip(before + change.mean(axis=1), 0.0, 1.0)
        return gain, found, change.std(axis=1) / np.sqrt(len(self.draws)), before

    def learn_levels(self, names: tuple[str, ...]) -> tuple[np.ndarray, Levels, Levels]:
        """Return the gain about everything, and how well each category is known: to who lacks all, or it alone."""
        n, cells = len(self.own), self.told.ball.cells
        weights = self.model.weights - (self.cells[:, None] == np.arange(cells.count))
        shares = np.log(weights / weights.sum(axis=1, keepdims=True))
        after, before, at_own = self._in_cells()
        told = shares + self._of_counts()
        after, before, at_own = after + told, before + shares, before + at_own + told
        together = log_sum_exp(after, axis=0) - np.log(GROUPS)
        gain = self._at_truth(np.arange(n)) - log_sum_exp(together, axis=1)
        lacking: Levels = {}
        alone: Levels = {}
        for category, name in enumerate(names):
            same = cells.codes[self.cells][:, None] == cells.codes
            rest = np.all(np.delete(same, category, axis=2), axis=2)
            own = same[:, :, category]
            error = _share(after, own).std(axis=0, ddof=1) / np.sqrt(GROUPS)
            lacking[name] = (_share(together, own), error, _share(shares, own))
            known, without = (_share(np.where(rest, logs, -np.inf), own) for logs in (at_own, before))
            alone[name] = (known, np.zeros(n), without)
        return gain, lacking, alone

    def _in_cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return, of every record in every cell, what the noisy moments say of the cell, and of x there.

        The first: the log likelihood averaged over what the others say of x, by several groups of draws. Then the
        others' log density at x, and the log likelihood there.
        """
        (n, p), count, codes = self.own.shape, self.told.ball.cells.count, self.told.ball.codes
        after, before, at_own = np.empty((GROUPS, n, count)), np.empty((n, count)), np.empty((n, count))
        bits = int(np.clip(np.log2(POINTS_IN_CELLS / (n * count)), FEWEST, DRAWS))
        groups = np.array_split(self.draws[: 1 << bits], GROUPS)
        for cell in range(count):
            for block in np.array_split(np.arange(n), -(-n * (1 << bits) * p // NUMBERS_HELD)):
                others = self._others(block, np.full(len(block), cell))
                code = np.broadcast_to(codes[cell], (len(block), codes.shape[1]))
                true = self.seen[block], codes[self.cells[block]]
                for place, group in enumerate(groups):
                    drawn = others.location[:, None, :] + group @ np.swapaxes(others.root, 1, 2)
                    logs = self._of_moments(self._as_told(drawn), code, *true)
                    after[place, block, cell] = log_sum_exp(logs, axis=1) - np.log(len(group))
                before[block, cell] = others.log_density(self.own[block])
                at_own[block, cell] = self._of_moments(self.seen[block][:, None, :], code, *true)[:, 0]
        return after, before, at_own

    def _of_counts(self) -> Float[np.ndarray, "n cells"]:
        """Return the log likelihood ratio of the noisy counts: each cell against the record's own."""
        found = np.zeros((len(self.own), self.told.ball.cells.count))
        for margin in self.told.counts:
            at = index_of(self.told.ball.cells, margin.places)
            noise = margin.counts - np.bincount(at[self.cells], minlength=len(margin.counts))
            mine = at[self.cells][:, None]
            found += np.where(at == mine, 0.0, noise[at] - noise[mine] - 1) / margin.noise**2
        return found

    def _at_truth(self, block: Any) -> Float[np.ndarray, " b"]:
        codes = self.told.ball.codes[self.cells[block]]
        return self._of_moments(self.seen[block][:, None, :], codes, self.seen[block], codes)[:, 0]

    def _as_told(self, drawn: Float[np.ndarray, "b k p"]) -> Float[np.ndarray, "b k p"]:
        """Limit candidates as the mechanism does."""
        return self.told.ball.shrunk(np.clip(drawn, self.limits[:, 0], self.limits[:, 1]))

    def _of_moments(
        self,
        z: Float[np.ndarray, "b k p"],
        code: Float[np.ndarray, "b r"],
        true: Float[np.ndarray, "b p"],
        true_code: Float[np.ndarray, "b r"],
    ) -> Float[np.ndarray, "b k"]:
        """Return the log likelihood of the noisy matrix of candidates as told, but for a constant."""
        p = z.shape[-1]
        square, along = np.sum(z * z, axis=-1), np.einsum("bkp,bp->bk", z, true)
        pull = code @ self.noise[p:, :p]
        from_noise = np.sum((z @ self.noise[:p, :p]) * z, axis=-1) + 2 * np.einsum("bkp,bp->bk", z, pull)
        alike, length = np.sum(code * true_code, axis=1)[:, None], np.sum(code * code, axis=1)[:, None]
        from_record = along**2 + 2 * alike * along - 0.5 * square**2 - length * square
        return (from_noise + from_record) / self.told.noise**2


def _share(logs: Float[np.ndarray, "*g n cells"], same: Any) -> Float[np.ndarray, "*g n"]:
    """Return the probability of the cells named, of logs that need not add up to one."""
    return np.exp(log_sum_exp(np.where(same, logs, -np.inf), axis=-1) - log_sum_exp(logs, axis=-1))
