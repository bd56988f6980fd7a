"""Simulated releases of a very table with categories: drawn, and judged by the rule for those at most risk."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Int

from allbutone.adversary.mixed import MixedLeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.disclosure.cell_beliefs import cell_beliefs
from allbutone.disclosure.measures import prior_probability
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.table_releases import POINTS, REPLICATES, SCREEN
from allbutone.integrals.cell_totals import CellIntegrals
from allbutone.integrals.importance_sampling import Intervals, integrate
from allbutone.integrals.proposal import Points
from allbutone.integrals.two_hills import estimated_within
from allbutone.model.location import MixedRecords, Parameters
from allbutone.releases.mixed.mechanism import Mechanism
from allbutone.releases.mixed.sampling import draw_mixed
from allbutone.support.parallel import in_parallel

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
            datasets += draw_mixed([whole], [self.rows], rng, kept=kept, covariates=known)[0]
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
