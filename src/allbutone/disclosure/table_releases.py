"""Simulated releases of a very table: drawn as sufficient statistics, and judged by the rule."""

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Bool, Float, Int

from allbutone.adversary.build import from_whitened, with_another_prior
from allbutone.adversary.integrate import Intervals, estimated_within, integrate
from allbutone.adversary.leave_one_out import LeaveOneOut, WholeTable
from allbutone.adversary.log_quadratic import LogQuadratic, stacked
from allbutone.adversary.mixed import CellIntegrals, MixedLeaveOneOut, cell_beliefs
from allbutone.adversary.modes import find_modes
from allbutone.adversary.proposal import Points
from allbutone.disclosure.measures import prior_probability
from allbutone.disclosure.rule import Rule
from allbutone.model.location import MixedRecords, Parameters
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.sampling import draw_tables
from allbutone.releases.several import Released
from allbutone.releases.statistics import JoinedStatistics, ParameterStatistics, Statistics
from allbutone.support.arrays import solve_rows
from allbutone.support.parallel import in_parallel

# Simulated releases of a very table: drawn as sufficient statistics, and judged by the rule for all its people.
#
# Given the whole table the model is NIW(μ, κ, ν, Λ); in the coordinates of Λ's root a dataset's mean is F·ε·√(1/κ
# + 1/n) and its scatter (FT)(FT)ᵀ, where (FFᵀ)⁻¹ is Wishart. No record is drawn. The first k datasets of a longer
# release are a release of k.


SCREEN = 0.7  # of the rule's probability: what is estimated below that is not integrated
POINTS, REPLICATES = 256, 2  # of the integrals: their own noise is far below that between releases
AT_ONCE = 1 << 22  # numbers in the wells that are held at a time


@dataclass(frozen=True, eq=False)
class TableReleases:
    """Releases of one table, simulated beside those that were made earlier, and what they are judged by.

    `everyone`: all that the attacks share, earlier releases in it, if any. `near`: what counts as knowing a value.
    `rows` a dataset, None for parameters. `seed`: of the releases; release number r has the same random numbers
    for any count.
    """

    everyone: LeaveOneOut
    near: Intervals
    rule: Rule
    rows: int | None
    seed: int

    @classmethod
    def of(
        cls,
        values: Float[np.ndarray, "n p"],
        prior: NIW,
        near: Intervals,
        rule: Rule,
        rows: int | None,
        earlier: Released | None,
        seed: int,
    ) -> "TableReleases":
        """Fit the table once."""
        if earlier is not None:
            return cls(LeaveOneOut.of(values, earlier, prior, None, "record"), near, rule, rows, seed)
        whole = prior.update(Moments.of(values))
        nothing = ParameterStatistics(0, np.zeros((whole.p, whole.p)), np.zeros(whole.p))
        white = solve_rows(whole.root, values - whole.mean)
        fitted = from_whitened(whole, whole.root, nothing)
        table = WholeTable(whole, None, whole.root, nothing, fitted)
        base = LeaveOneOut(values, None, prior, None, white, table)
        return cls(base, near, rule, rows, seed)

    def discloses(self, count: int, people: Int[np.ndarray, " m"], releases: range) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""
        p = self.everyone.table.whole.p
        wells = 1 if self.rows is None else count
        many = max(1, AT_ONCE // (len(people) * wells * p * p))
        blocks = [releases[at : at + many] for at in range(0, len(releases), many)]
        return np.concatenate(in_parallel(partial(self._judged, count, people), blocks))

    def count_disclosing(self, count: int, people: Int[np.ndarray, " m"], releases: int, enough: int) -> int:
        """Return how many of so many releases disclose any of these people; more than `enough` end it early."""
        found, step = 0, max(10, releases // 5)
        for start in range(0, releases, step):
            found += int(
                np.sum(self.discloses(count, people, range(start, min(start + step, releases))).any(axis=1))
            )
            if found > enough:
                break
        return found

    def _judged(self, count: int, people: Int[np.ndarray, " m"], releases: range) -> Bool[np.ndarray, "r m"]:
        every = [self._posteriors(self._drawn(count, release), people) for release in releases]
        problem = stacked(every) if len(every) > 1 else every[0]
        places = np.tile(people, len(every))
        near = self.near.take(places)
        modes = find_modes(problem)
        likely = np.max(estimated_within(problem, modes, near), axis=1) >= SCREEN * self.rule.probability
        flags = np.zeros(len(places), dtype=bool)
        (chosen,) = np.nonzero(likely | ~np.isfinite(modes.value))
        if len(chosen):
            some, around = problem.take(chosen), near.take(chosen)
            found = integrate(some, modes.take(chosen), None, Points(), POINTS, REPLICATES, around)
            flags[chosen] = np.any(self.rule.discloses(found.within, prior_probability(some, around)), axis=1)
        return flags.reshape(len(every), -1)

    def _drawn(self, count: int, release: int) -> Statistics:
        """Draw the statistics of a release in the table's own coordinates."""
        whole = self.everyone.table.whole
        rng = np.random.default_rng([self.seed, release])
        if self.rows is None and count > MANY_DRAWS:
            return _draw_sums(whole, count, rng)
        # long enough that a longer release begins with the same datasets
        parts = [draw_dataset_block(whole, self.rows, rng) for _ in range(-(-count // BLOCK))]
        root, noise, scatter = (np.concatenate(each)[:count] for each in zip(*parts, strict=True))
        kappa = float(whole.mean_weight)
        if self.rows is None:
            pull = np.sum((root @ noise[..., None])[..., 0], axis=0) / np.sqrt(kappa)
            return ParameterStatistics(count, np.sum(root @ root.swapaxes(1, 2), axis=0), pull)
        spread = np.linalg.inv(root).swapaxes(1, 2)
        mean = np.sqrt(1 / kappa + 1 / self.rows) * (spread @ noise[..., None])[..., 0]
        half = spread @ scatter
        return Moments(np.full(count, float(self.rows)), mean, half @ half.swapaxes(1, 2))

    def _posteriors(self, drawn: Statistics, people: Int[np.ndarray, " m"]) -> LogQuadratic:
        """Return the posteriors of these people after a release, and the earlier ones."""
        base, table = self.everyone, self.everyone.table
        released = joined(table.released, drawn)
        fitted = from_whitened(table.whole, table.root, released)
        found = replace(base, table=replace(table, released=released, fitted=fitted)).downdated(people)
        for other in base.rest:
            found = with_another_prior(found, other.downdated(people))
        return found


BLOCK = 16  # datasets whose random numbers are drawn together
MANY_DRAWS = 2048  # of parameters, of which only the sums are drawn


def _draw_sums(whole: NIW, count: int, rng: np.random.Generator) -> ParameterStatistics:
    """Draw sums over many parameter draws: of W(ν, I) they are W(count·ν, I), and the pull given them normal."""
    p = whole.p
    root = _triangles(rng, count * float(whole.df) - np.arange(float(p)), p)[0]
    pull = root @ rng.standard_normal(p) / np.sqrt(float(whole.mean_weight))
    return ParameterStatistics(count, root @ root.T, pull)


def draw_dataset_block(
    whole: NIW, rows: int | None, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw what a block of datasets needs: L with LLᵀ ~ W(ν, I), a normal vector, and T of the scatter."""
    p, df = whole.p, float(whole.df)
    root = _triangles(rng, df - np.arange(float(p)), p)
    noise = rng.standard_normal((BLOCK, p))
    scatter = np.zeros((BLOCK, p, p)) if rows is None else _triangles(rng, rows - 1 - np.arange(float(p)), p)
    return root, noise, scatter


def _triangles(rng: np.random.Generator, df: Float[np.ndarray, " p"], p: int) -> Float[np.ndarray, "b p p"]:
    """Draw lower triangles by Bartlett; with fewer degrees of freedom than p, only so many columns are not 0."""
    found = np.tril(rng.standard_normal((BLOCK, p, p)), -1) * (df > 0)
    found[:, range(p), range(p)] = np.sqrt(rng.chisquare(np.maximum(df, 1e-300), (BLOCK, p)) * (df > 0))
    return found


def joined(first: Statistics, second: Statistics) -> Statistics:
    """Put the statistics of two releases together, both in the same coordinates."""
    parts = [*_parts(first), *_parts(second)]
    parameters = [each for each in parts if isinstance(each, ParameterStatistics) and each.draws]
    datasets = [each for each in parts if isinstance(each, Moments)]
    moments = None
    if datasets:
        fields = zip(*((each.count, each.mean, each.scatter) for each in datasets), strict=True)
        moments = Moments(*map(np.concatenate, fields))
    if moments is not None and not parameters:
        return moments
    drawn = ParameterStatistics(
        sum(each.draws for each in parameters),
        np.sum([each.precision for each in parameters], axis=0),
        np.sum([each.pull for each in parameters], axis=0),
    )
    return drawn if moments is None else JoinedStatistics(drawn, moments)


def _parts(released: Statistics) -> list[ParameterStatistics | Moments]:
    return [released.parameters, released.datasets] if isinstance(released, JoinedStatistics) else [released]


# Simulated releases of a very table with categories: drawn, and judged by the rule for those at most risk.


LIKELY = 0.5  # of the rule's probability: whose level the counts alone give less than that is not integrated


@dataclass(frozen=True, eq=False)
class MixedReleases:
    """Releases of one table, simulated beside those that were made earlier, and what they are judged by.

    `everyone`: all that the attacks share, earlier releases in it, if any. `near`: what counts as knowing a
    measurement. `rows` a dataset, None for parameters. `seed`: dataset number d of release number r has the same
    random numbers for any count, so that the first k datasets of a longer release are a release of k.
    """

    everyone: MixedLeaveOneOut
    mechanism: Mechanism
    rows: int | None
    near: Intervals
    rule: Rule
    seed: int

    def discloses(self, count: int, people: Int[np.ndarray, " m"], releases: range) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""
        return np.asarray(self.by_kind(count, people, releases).any(axis=2))

    def by_kind(self, count: int, people: Int[np.ndarray, " m"], releases: range) -> Bool[np.ndarray, "r m 2"]:
        """Say the same of their measurements and of their categories apart."""
        few = self._of(people)
        return np.stack(in_parallel(lambda release: self._judged(few, count, people, release), list(releases)))

    def _of(self, people: Int[np.ndarray, " m"]) -> MixedLeaveOneOut:
        """Return the attacks on these people alone: of the others only the moments are needed."""
        everyone = self.everyone
        if everyone.whole.covariates:
            return everyone
        whole, some = everyone.prior, everyone.records.take(people)
        moments = whole.moments(everyone.records)
        others = moments.without(whole.moments(some))
        if everyone.elsewhere is not None:
            others = others.merge(everyone.elsewhere)
        return replace(everyone, records=some, elsewhere=others)

    def _judged(
        self, few: MixedLeaveOneOut, count: int, people: Int[np.ndarray, " m"], release: int
    ) -> Bool[np.ndarray, "m 2"]:
        rows = np.arange(len(people)) if few is not self.everyone else people
        after = self._after(few, count, release)
        flags = np.zeros((len(people), 2), dtype=bool)
        flags[:, 1] = self._finds_categories(after, rows, release)
        near = self.near.take(people)
        problem, _ = after.problem(rows, after.records.cells[rows])
        modes = find_modes(problem)
        likely = np.max(estimated_within(problem, modes, near), axis=1) >= SCREEN * self.rule.probability
        (chosen,) = np.nonzero(likely | ~np.isfinite(modes.value))
        if len(chosen):
            some, around = problem.take(chosen), near.take(chosen)
            found = integrate(some, modes.take(chosen), None, Points(), POINTS, REPLICATES, around)
            flags[chosen, 0] = np.any(self.rule.discloses(found.within, prior_probability(some, around)), axis=1)
        return flags

    def _after(self, few: MixedLeaveOneOut, count: int, release: int) -> MixedLeaveOneOut:
        """Draw a release, and put it beside the earlier ones."""
        whole, streams = few.whole, [np.random.default_rng([self.seed, release, each]) for each in range(count)]
        if self.rows is None:
            draws = [whole.draw(rng, 1) for rng in streams]
            draws = [*([] if few.parameters is None else [few.parameters]), *draws]
            names = Parameters.__dataclass_fields__
            both = (np.concatenate([getattr(one, name) for one in draws]) for name in names)
            return replace(few, parameters=Parameters(*both))
        kept, known = self._kept
        datasets: list[MixedRecords] = []
        for rng in streams:
            datasets += draw_tables([whole], [self.rows], rng, kept=kept, covariates=known)[0]
        updated = tuple(whole.update(data) for data in datasets)
        return replace(few, datasets=(*few.datasets, *datasets), after=(*few.after, *updated))

    @property
    def _kept(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the levels, and the measurements, that a dataset keeps of each person."""
        records, mechanism = self.everyone.records, self.mechanism
        if not mechanism.keep:
            return None, None
        kept = mechanism.prior.cells.codes[records.cells].copy()
        kept[:, [place for place in range(kept.shape[1]) if place not in mechanism.kept_categories]] = -1
        return kept, records.covariates

    def _finds_categories(
        self, after: MixedLeaveOneOut, rows: Int[np.ndarray, " m"], release: int
    ) -> Bool[np.ndarray, " m"]:
        """Say whose level of any category that is not kept is disclosed; integrated where counts allow it."""
        known = self.mechanism.kept_categories
        judged = sorted(set(range(len(after.whole.cells.sizes))) - set(known))
        found = np.zeros(len(rows), dtype=bool)
        if not judged:
            return found
        likely = self._by_counts(after, rows, judged)
        if np.any(likely):
            points = Points.of(np.random.default_rng([self.seed, release]))
            beliefs = cell_beliefs(CellIntegrals.of(after, points), rows[likely], known)
            levels = [beliefs.of_true_level(category) for category in judged]
            each = [self.rule.discloses(share, baseline) for share, _, baseline in levels]
            found[likely] = np.any(each, axis=0)
        return found

    def _by_counts(
        self, after: MixedLeaveOneOut, rows: Int[np.ndarray, " m"], judged: list[int]
    ) -> Bool[np.ndarray, " m"]:
        """Say for whom the counts of the cells alone go a good part of the way to a level's disclosure."""
        possible, codes = after.possible(rows, self.mechanism.kept_categories), after.whole.cells.codes
        before, odds = (np.where(possible, each, -np.inf) for each in after.log_cell_odds(rows))
        likely = np.zeros(len(rows), dtype=bool)
        for category in judged:
            same = codes[None, :, category] == codes[after.records.cells[rows], category][:, None]
            with_it, without = (_share(each, same) for each in (odds, before))
            doubled = with_it * (1 - without) >= np.sqrt(2) * without * (1 - with_it)  # half of the way there
            likely |= (with_it >= LIKELY * self.rule.probability) & doubled
        return likely


def _share(log_odds: np.ndarray, same: np.ndarray) -> np.ndarray:
    """Return the share of the cells of the same level."""
    odds = np.exp(log_odds - np.max(log_odds, axis=1, keepdims=True))
    return np.sum(odds * same, axis=1) / np.sum(odds, axis=1)
