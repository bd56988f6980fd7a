"""What the adversary who has every record but one learns from noisy moments, beside what they could expect to.

The others' records are taken away from the noisy sums; what is left is the missing record's own x̃x̃ᵀ and counts,
and the noise: E, normal with σ, on the matrix. With z the record x as the mechanism limits it, w the code of its
cell, and zᵢ, wᵢ the true ones, but for a constant

    log p(told | x, c) = (zᵀEz + (z·zᵢ)² + 2zᵀE_w·w + 2(z·zᵢ)(w·wᵢ) − |z|⁴/2 − |z|²|w|²)/σ² + Σ (r_c − r_i − 1)/σₘ²

the last sum over the margins in which c is not the true combination i, r their noise. Before, the adversary
believes in the cell by the others' counts, and in x by the others' Student t there. Draws of that, weighted, give
the rest: with a guarantee weights are nearly even, and few draws suffice.

Where values may be missing, what is missing is part of the cell, and z is 0 there. The others' own gaps are then
drawn many times, and what they say of x is a mixture of Student t's, weighted by 1/p(xᵢ), which takes the record
out of the table that the gaps were drawn with (`adversary.gaps`).

Whatever set the adversary names, of probability π before, they hit it with a probability of at most Φ(Φ⁻¹(π) + μ):
guessing is a test between the release and one that knows nothing of the record. That is an average over the noise
and over such people; for one person and one release it can be more, by luck.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from scipy.special import chdtri, ndtr, ndtri, stdtr

from allbutone.adversary.averaged import StudentMixture, without_own_record
from allbutone.adversary.gaps import FilledTable
from allbutone.adversary.integrate import Intervals
from allbutone.adversary.one_value import Nearness, mixture_along_axes, within
from allbutone.disclosure.derived_risk import DerivedValues
from allbutone.disclosure.question import EVIDENCE, GAPS, Learned, Question
from allbutone.disclosure.rule import Beliefs, Known, Levels, near_truth
from allbutone.model.incomplete import IncompleteRecords
from allbutone.model.location import LocationModel, MixedRecords, default_weight
from allbutone.model.moments import UNKNOWN, Cells
from allbutone.model.niw import NIW
from allbutone.releases.noisy_counts import index_of
from allbutone.releases.private_mechanism import NoisyMoments
from allbutone.releases.public_ball import model_limits, within_limits
from allbutone.releases.release import Release
from allbutone.support.arrays import log_sum_exp
from allbutone.support.devices import require_processor
from allbutone.support.errors import InputError
from allbutone.tables.admission import columns_together
from allbutone.tables.records import Records

DRAWS = 11  # 2¹¹ draws of what the adversary believed before
NUMBERS_HELD = 1 << 22  # at once
POINTS_IN_CELLS = 1 << 23  # for all people and cells together
FEWEST = 6  # 2⁶ draws in a cell
CHAINS, FILLED = 8, 16  # completed tables, where values are missing, by so many chains
GROUPS = 4  # of draws, whose differences tell the error
BOUND = "bound_"


@dataclass(frozen=True, eq=False)
class PrivateBeliefs:
    """What is known of records after noisy moments; `records`, `near` as the mechanism sees them, in the limits.

    gain: information gained at the truth. beliefs: of who lacks the record; rest_known: of who knows the rest of
    it. bounds: `bound_…`, Φ(Φ⁻¹(baseline) + μ) of the first. patterns: how well it is known which values are
    missing, as of a level. derived: how well values are known that are computed from others.
    """

    records: Records
    near: Known
    gain: Float[np.ndarray, " n"]
    beliefs: Beliefs
    rest_known: Beliefs
    bounds: dict[str, np.ndarray]
    patterns: tuple[np.ndarray, ...] | None
    derived: Float[np.ndarray, "3 n f"] | None


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
    if release.p and people < release.p + told.ball.codes.shape[1] + 3:
        raise InputError("without one of them the records leave no distribution", "give more rows")
    records = limited_records(wide, release)
    if faults := columns_together(records.values, records.columns, records.categories):
        told_alone = "; ".join(f"{each.column!r} {each.words}" for each in faults)
        raise InputError(
            f"what somebody would believe without the release cannot be told of this table: {told_alone} (values "
            "beyond the limits count as at them)",
            "the guarantee holds all the same; next time declare wider limits, or leave such columns out",
        )
    near = replace(near_truth(records), functions=DerivedValues.of(records))
    adversary = _Adversary.of(records, near, told)
    found, alone = Beliefs.nothing(records.values.shape), Beliefs.nothing(records.values.shape)
    gain = np.zeros(people)
    functions = adversary.functions
    derived = None if functions is None else np.full((3, people, functions.count), np.nan)
    for block in adversary.blocks() if release.p else ():
        adversary.learn(block, gain, found, derived)
        adversary.on_lines(block, alone)
    levels, rest_levels, patterns = Levels(), Levels(), None
    if told.counts:
        gain, lacking, known, patterns = adversary.learn_levels(release.mechanism.categories)
        levels, rest_levels = ({name: each[name] for name in judged} for each in (lacking, known))
    without = dict(zip(release.columns, found.baseline.T, strict=True))
    without |= {name: each[2] for name, each in levels.items()}
    if functions is not None and derived is not None:
        without |= dict(zip((column.name for column in functions.columns), derived[2].T, strict=True))
    without |= {} if patterns is None else {GAPS: patterns[2]}
    bounds = {BOUND + name: ndtr(ndtri(without[name]) + told.mu) for name in without}
    beliefs, rest_known = replace(found, levels=levels), replace(alone, levels=rest_levels)
    return PrivateBeliefs(records, near, gain, beliefs, rest_known, bounds, patterns, derived)


def of_riskiest(found: Mapping[str, np.ndarray], kind: str) -> Float[np.ndarray, " n"]:
    """Return each person's number of this kind, such as `bound_`, in the column that is riskiest for them."""
    return np.array([found[f"{kind}{name}"][place] for place, name in enumerate(found["riskiest"])])


def limited_records(wide: Records, release: Release) -> Records:
    """Return the records inside the limits, on the model's scale; what is secret of them stays so."""
    inside = within_limits(release.schema, wide.natural)
    secret = [column.name for column in (*wide.schema.columns, *wide.schema.derived) if column.secret]
    return replace(wide, values=inside, schema=release.schema.with_secret(secret))


@dataclass(frozen=True, eq=False)
class _Before:
    """What the others say of x, of each record: a mixture of Student t's; one of them where nothing is missing."""

    log_weights: Float[np.ndarray, "b d"]
    locations: Float[np.ndarray, "b d p"]
    scales: Float[np.ndarray, "b d p p"]
    df: float

    def drawn(
        self, draws: Float[np.ndarray, "k p"]
    ) -> tuple[Float[np.ndarray, "b k p"], Float[np.ndarray, "b k"]]:
        """Return draws, part by part, and their log weights, whose exponentials have the mean 1."""
        parts = self.locations.shape[1]
        each = draws[: len(draws) // parts * parts].reshape(-1, parts, draws.shape[1]).swapaxes(0, 1)
        roots = np.linalg.cholesky(self.scales)
        points = self.locations[:, :, None] + each @ np.swapaxes(roots, -1, -2)
        logs = np.repeat(self.log_weights + np.log(parts), each.shape[1], axis=1)
        return points.reshape(len(points), -1, draws.shape[1]), logs

    def within(self, near: Intervals) -> Float[np.ndarray, "b p"]:
        """Return the probability of an interval of each value."""
        spread = np.sqrt(np.diagonal(self.scales, axis1=-2, axis2=-1))
        parts = [stdtr(self.df, (end[:, None] - self.locations) / spread) for end in (near.high, near.low)]
        return np.einsum("bd,bdp->bp", np.exp(self.log_weights), parts[0] - parts[1])

    def of_columns(self, columns: Int[np.ndarray, " o"]) -> StudentMixture:
        """Return the mixtures of some measurements."""
        scales = self.scales[..., columns[:, None], columns]
        dfs = np.full(self.log_weights.shape, self.df)
        return StudentMixture.of(self.log_weights, self.locations[..., columns], scales, dfs)


@dataclass(frozen=True, eq=False)
class _Adversary:
    """The records as they are and as the mechanism saw them, in the ball's units; the noise; fixed draws."""

    told: NoisyMoments
    own: Float[np.ndarray, "n p"]
    cells: Int[np.ndarray, " n"]
    near: Intervals
    functions: DerivedValues | None
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
        seen, cells = ball.shrunk(np.nan_to_num(own)), ball.cell_of(records.categories.codes, own)
        whole = np.column_stack([seen, ball.codes[cells]])
        # a Student t, but for its scale: normals over the root of one χ²
        points = qmc.Sobol(ball.p + 1, rng=np.random.default_rng(0)).random_base2(DRAWS)
        points = np.clip(points, 1e-9, 1 - 1e-9)
        df = len(own) - ball.p - 1.0
        draws = ndtri(points[:, :-1]) / np.sqrt(chdtri(df, 1 - points[:, -1:]) / df)
        noise = told.matrix - whole.T @ whole
        functions = near.functions if isinstance(near.functions, DerivedValues) else None
        return cls(told, own, cells, Intervals(low, high), functions, nearness, seen, noise, limits, draws)

    @cached_property
    def _by_levels(self) -> tuple[Cells, Int[np.ndarray, " cells"]]:
        """The combinations of levels alone, of which effects there are, and that of each cell."""
        ball, places = self.told.ball, tuple(range(len(self.told.ball.schema.categories)))
        return Cells(tuple(ball.cells.sizes[place] for place in places)), index_of(ball.cells, places)

    @cached_property
    def _filled(self) -> FilledTable | None:
        """The table with its gaps drawn many times; None where it has none."""
        if not np.isnan(self.own).any():
            return None
        prior, own = self._prior, self._by_levels[1][self.cells]
        table = IncompleteRecords.of(prior.cells.codes[own], self.own)
        return FilledTable.of(table, prior, np.random.default_rng(0), chains=CHAINS, draws=FILLED // CHAINS)

    @cached_property
    def _prior(self) -> LocationModel:
        """A flat prior of the measurements, and one record's worth of one of the levels."""
        cells = self._by_levels[0]
        flat = NIW.flat(self.own.shape[1])
        return LocationModel.prior(cells.sizes, flat, weight=default_weight(cells.count))

    @cached_property
    def _model(self) -> LocationModel:
        """What all records say, where no value is missing."""
        return self._prior.update(MixedRecords.of(self._by_levels[1][self.cells], self.own))

    def blocks(self) -> list[Int[np.ndarray, " b"]]:
        """Return the records in blocks that lack the same values, of as many numbers as are held at once."""
        p = self.own.shape[1]
        _, which = np.unique(np.isnan(self.own), axis=0, return_inverse=True)
        groups = [np.flatnonzero(which.ravel() == number) for number in range(int(which.max()) + 1)]
        most = max(1, NUMBERS_HELD // (max(p, 1) * 2**DRAWS))
        return [part for group in groups for part in np.array_split(group, -(-len(group) // most))]

    def _others(self, block: Int[np.ndarray, " b"]) -> Callable[[Any], _Before]:
        """Return what the others of each of these records say of the measurements, in cells to be named."""
        which, df = self._by_levels[1], len(self.own) - self.own.shape[1] - 1.0
        if self._filled is None:
            codes, measured = self._by_levels[0].main_effects, self._model.measured
            own = codes[which[self.cells[block]]]

            def alone(cells: Any) -> _Before:
                there = measured.without_each(self.own[block], own, codes[which[cells]]).predictive()  # type: ignore[union-attr]
                return _Before(np.zeros((len(block), 1)), there.location[:, None], there.scale[:, None], df)

            return alone
        found = without_own_record(self._filled.models, self._filled.tables, block)
        (columns,) = np.nonzero(~np.isnan(self.own[block[0]]))
        every = np.arange(len(block))

        def averaged(cells: Any) -> _Before:
            at = every, which[cells]
            weights = np.full(found.dfs.shape[::2], -np.log(found.dfs.shape[2]))
            return _Before(weights, found.locations[at], found.scales[at], df)

        truth = (
            averaged(self.cells[block]).of_columns(columns).log_parts(self.own[block][:, None, columns])[..., 0]
        )
        weights = -truth - log_sum_exp(-truth, axis=1)[:, None]
        return lambda cells: replace(averaged(cells), log_weights=weights)

    def on_lines(self, block: Int[np.ndarray, " b"], alone: Beliefs) -> None:
        """Write how well each value of these records is known to who knows all others of the record."""
        (columns,), ball = np.nonzero(~np.isnan(self.own[block[0]])), self.told.ball
        b, p = len(block), len(columns)
        if not p:
            return
        own, codes = self.own[block][:, columns], ball.codes[self.cells[block]]
        before = mixture_along_axes(self._others(block)(self.cells[block]).of_columns(columns), own)
        middle, wide, _ = before.moments()
        expected, spread = middle[:, 0], np.sqrt(wide[:, 0, 0])
        near = self.nearness.take(block, columns).around(own, expected.reshape(b, p))
        low, high, truth = near.low.reshape(-1), near.high.reshape(-1), own.reshape(-1)
        probability = np.empty(b * p)
        for row in range(b):
            some = slice(row * p, (row + 1) * p)
            lines = before.take(some)

            def log_density(
                points: Float[np.ndarray, "t s"], row: int = row, lines: StudentMixture = lines
            ) -> np.ndarray:
                candidates = np.broadcast_to(self.own[block[row]], (*points.shape, ball.p)).copy()
                candidates[np.arange(p), :, columns] = points
                code = np.broadcast_to(codes[row], (p, codes.shape[1]))
                true = np.broadcast_to(self.seen[block[row]], (p, ball.p))
                said = self._of_moments(self._as_told(candidates), code, true, code)
                return said + log_sum_exp(lines.log_parts(points[..., None]), axis=1)

            place = np.stack([expected[some], truth[some]], axis=1)
            width = np.stack([spread[some], spread[some] / 3], axis=1)
            probability[some] = within(log_density, place, width, low[some], high[some])
        share = np.exp(before.log_weights - log_sum_exp(before.log_weights, axis=1)[:, None])
        steps = [
            (end[:, None] - before.locations[..., 0]) * np.sqrt(before.precisions[..., 0, 0])
            for end in (high, low)
        ]
        baseline = np.sum(share * (stdtr(before.dfs, steps[0]) - stdtr(before.dfs, steps[1])), axis=1)
        at, centre, unit = (block[:, None], columns), ball.centre[columns], ball.unit[columns]
        alone.probability[at], alone.probability_error[at] = probability.reshape(b, p), 0.0
        alone.baseline[at] = baseline.reshape(b, p)
        assert alone.low is not None and alone.high is not None and alone.expected is not None  # noqa: PT018
        alone.low[at], alone.high[at] = centre + unit * near.low, centre + unit * near.high
        alone.expected[at] = centre + unit * expected.reshape(b, p)

    def learn(
        self, block: Int[np.ndarray, " b"], gain: np.ndarray, found: Beliefs, derived: np.ndarray | None
    ) -> None:
        """Write gain, probabilities, their errors and those before, of these records in their own cells."""
        near, others = self.near.take(block), self._others(block)(self.cells[block])
        codes, ball = self.told.ball.codes[self.cells[block]], self.told.ball
        drawn, own = others.drawn(self.draws)
        logs = self._of_moments(self._as_told(drawn, self.cells[block]), codes, self.seen[block], codes)
        both = own + logs
        total = log_sum_exp(both, axis=1) - np.log(both.shape[1])
        weights, own = np.exp(both - total[:, None]), np.exp(own)
        gain[block] = self._at_truth(block) - total
        before = others.within(near)
        # the draws are used for the change only: what was believed before is known exactly
        change = (weights - own)[:, :, None] * (near.holds(drawn) - before[:, None, :])
        missing = np.isnan(self.own[block])
        for name, numbers in (
            ("probability", np.clip(before + change.mean(axis=1), 0.0, 1.0)),
            ("probability_error", change.std(axis=1) / np.sqrt(drawn.shape[1])),
            ("baseline", before),
        ):
            getattr(found, name)[block] = np.where(missing, np.nan, numbers)
        if derived is not None and self.functions is not None:
            held = self.functions.take(block).holds(ball.centre + ball.unit * drawn)
            shares = [np.mean(each[:, :, None] * held, axis=1) for each in (weights, own)]
            moved = (weights - own)[:, :, None] * (held - shares[1][:, None])
            derived[:, block] = shares[0], moved.std(axis=1) / np.sqrt(drawn.shape[1]), shares[1]

    def learn_levels(
        self, names: tuple[str, ...]
    ) -> tuple[np.ndarray, Levels, Levels, tuple[np.ndarray, ...] | None]:
        """Return the gain about everything, and how well each category is known: to who lacks all, or it alone.

        Last, how well it is known to the first which values are missing.
        """
        (n, _), ball, cells = self.own.shape, self.told.ball, self.told.ball.cells
        counted = np.bincount(self.cells, minlength=cells.count) + default_weight(cells.count)
        weights = counted - (self.cells[:, None] == np.arange(cells.count))
        shares = np.log(weights / weights.sum(axis=1, keepdims=True))
        after, before, at_own = self._in_cells()
        told = shares + self._of_counts()
        after, before, at_own = after + told, before + shares, before + at_own + told
        together = log_sum_exp(after, axis=0) - np.log(GROUPS)
        gain = self._at_truth(np.arange(n)) - log_sum_exp(together, axis=1)

        def judged(own: Any) -> tuple[np.ndarray, ...]:
            error = _share(after, own).std(axis=0, ddof=1) / np.sqrt(GROUPS)
            return _share(together, own), error, _share(shares, own)

        lacking, alone, mine = Levels(), Levels(), ball.levels_of(self.cells)
        same = cells.codes[self.cells][:, None] == cells.codes
        for category, name in enumerate(names):
            rest = np.all(np.delete(same, category, axis=2), axis=2)
            own, there = same[:, :, category], mine[:, category] != UNKNOWN
            known, without = (_share(np.where(rest, logs, -np.inf), own) for logs in (at_own, before))
            lacking[name], alone[name] = (
                tuple(np.where(there, numbers, np.nan) for numbers in found)
                for found in (judged(own), (known, np.zeros(n), without))
            )
        if not ball.has_gaps:
            return gain, lacking, alone, None
        patterns = np.column_stack([ball.levels_of(np.arange(cells.count)) == UNKNOWN, ~ball.observed])
        return gain, lacking, alone, judged(np.all(patterns[self.cells][:, None] == patterns, axis=2))

    def _in_cells(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return, of every record in every cell, what the noisy moments say of the cell, and of x there.

        The first: the log likelihood averaged over what the others say of x, by several groups of draws. Then the
        others' log density at x, and the log likelihood there.
        """
        (n, p), count, codes = self.own.shape, self.told.ball.cells.count, self.told.ball.codes
        after, before, at_own = np.zeros((GROUPS, n, count)), np.zeros((n, count)), np.zeros((n, count))
        if not p:
            return after, before, at_own
        bits = int(np.clip(np.log2(POINTS_IN_CELLS / (n * count)), FEWEST, DRAWS))
        groups = np.array_split(self.draws[: 1 << bits], GROUPS)
        for block in self.blocks():
            others, (columns,) = self._others(block), np.nonzero(~np.isnan(self.own[block[0]]))
            true = self.seen[block], codes[self.cells[block]]
            for cell in range(count):
                here = np.full(len(block), cell)
                said, code = others(here), np.broadcast_to(codes[cell], (len(block), codes.shape[1]))
                for place, group in enumerate(groups):
                    drawn, own = said.drawn(group)
                    logs = self._of_moments(self._as_told(drawn, here), code, *true) + own
                    after[place, block, cell] = log_sum_exp(logs, axis=1) - np.log(logs.shape[1])
                there = said.of_columns(columns).log_parts(self.own[block][:, None, columns])[..., 0]
                before[block, cell] = log_sum_exp(there, axis=1)
                at_own[block, cell] = self._of_moments(self.seen[block][:, None, :], code, *true)[:, 0]
        return after, before, at_own

    def _of_counts(self) -> Float[np.ndarray, "n cells"]:
        """Return the log likelihood ratio of the noisy counts: each cell against the record's own."""
        logs = np.zeros((len(self.own), self.told.ball.cells.count))
        for margin in self.told.counts:
            at = index_of(self.told.ball.cells, margin.places)
            noise = margin.counts - np.bincount(at[self.cells], minlength=len(margin.counts))
            mine = at[self.cells][:, None]
            logs += np.where(at == mine, 0.0, noise[at] - noise[mine] - 1) / margin.noise**2
        return logs

    def _at_truth(self, block: Any) -> Float[np.ndarray, " b"]:
        codes = self.told.ball.codes[self.cells[block]]
        return self._of_moments(self.seen[block][:, None, :], codes, self.seen[block], codes)[:, 0]

    def _as_told(
        self, drawn: Float[np.ndarray, "b k p"], cells: Int[np.ndarray, " b"] | None = None
    ) -> Float[np.ndarray, "b k p"]:
        """Limit candidates as the mechanism does; they lack what people in these cells lack, or are NaN there."""
        inside = np.clip(drawn, self.limits[:, 0], self.limits[:, 1])
        if cells is not None:
            inside = inside * self.told.ball.observed[cells][:, None]
        return self.told.ball.shrunk(np.nan_to_num(inside))

    def _of_moments(
        self,
        z: Float[np.ndarray, "b k p"],
        code: Float[np.ndarray, "b r"],
        true: Float[np.ndarray, "b p"],
        true_code: Float[np.ndarray, "b r"],
    ) -> Float[np.ndarray, "b k"]:
        """Return the log likelihood of the noisy matrix of candidates as told, but for a constant."""
        p = z.shape[-1]
        if not p:
            return np.zeros(z.shape[:2])
        square, along = np.sum(z * z, axis=-1), np.einsum("bkp,bp->bk", z, true)
        pull = code @ self.noise[p:, :p]
        from_noise = np.sum((z @ self.noise[:p, :p]) * z, axis=-1) + 2 * np.einsum("bkp,bp->bk", z, pull)
        alike, length = np.sum(code * true_code, axis=1)[:, None], np.sum(code * code, axis=1)[:, None]
        from_record = along**2 + 2 * alike * along - 0.5 * square**2 - length * square
        return (from_noise + from_record) / self.told.noise**2


def _share(logs: Float[np.ndarray, "*g n cells"], same: Any) -> Float[np.ndarray, "*g n"]:
    """Return the probability of the cells named, of logs that need not add up to one."""
    return np.exp(log_sum_exp(np.where(same, logs, -np.inf), axis=-1) - log_sum_exp(logs, axis=-1))


def attacked_with_guarantee(question: Question) -> tuple[Question, Learned]:
    """Attack everybody where noisy moments are all that was released of them, as the mechanism sees them."""
    if not question.adversary.is_usual or question.elsewhere is not None:
        raise InputError(
            "with a guarantee the adversary has all other records and the mechanism's limits: noise is added to "
            "the moments of all columns and records at once",
            "leave out what is known or lacking, and the prior",
        )
    require_processor(question.device, "a release with a guarantee")
    assert isinstance(question.release, Release)
    told = private_beliefs(question.records, question.release, question.judged_categories)
    # the noise is all that hides a person: there is one release, whose evidence is the gain
    measures = {"information_gain": told.gain, EVIDENCE: told.gain}
    if told.patterns is not None:
        told.beliefs.levels[GAPS] = told.patterns
    learned = Learned(measures, told.records.values, told.beliefs, told.rest_known, told.bounds)
    learned = replace(learned, derived=told.derived)
    return replace(question, records=told.records, near=told.near), learned
