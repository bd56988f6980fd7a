"""Simulated releases of a very table through classes: drawn as by its synthesizer, and judged as by `risk`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Bool, Int

from allbutone.adversary.class_beliefs import FEW_CHAINS, ClassAdversary
from allbutone.adversary.who import USUAL, Adversary
from allbutone.disclosure.class_risk import as_seen
from allbutone.disclosure.risk import risk_columns
from allbutone.disclosure.rule import MEMBERSHIP, Rule, ToldValues, by_membership
from allbutone.model.class_sampler import ClassChains, ClassDraws, draw_with_kept
from allbutone.model.incomplete import IncompleteRecords
from allbutone.releases.class_tables import draw_class_table
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release
from allbutone.support.parallel import in_parallel, one_thread
from allbutone.tables.records import Records

# Were it one in twenty, some look would call it safe in 4.5 of 100 cases; were it one in a hundred, in 95.
CLASS_LOOKS = (80, 0), (120, 1), (160, 2), (200, 4)
MOST_WITH_CLASSES = 5  # datasets that are tried
DRAWS_OF_EACH = 8  # of each chain, from which datasets are drawn
PILOTS = 3  # releases of one dataset in which everybody is attacked, to see who is at most risk
DATASETS_KEPT = 200  # of which draws are held
WATCHED = 24  # people who are attacked in the others


@dataclass(frozen=True, eq=False)
class ClassReleases:
    """Releases of a table through classes, simulated beside those that were made earlier, and what judges them.

    `rows` of each dataset. Everybody who is asked about is attacked by few draws; who is disclosed by these is
    attacked once more as `risk` does it, and that decides. A dataset is attacked once, and serves in every release
    of which it is a part.
    """

    records: Records
    mechanism: Mechanism
    rows: int
    rule: Rule
    seed: int
    adversary: Adversary = USUAL
    earlier: tuple[Records, ...] = ()

    @cached_property
    def table(self) -> IncompleteRecords:
        """The table as the model sees it."""
        return self.mechanism.seen_by_classes(self.mechanism.incomplete(self.records))

    @cached_property
    def sources(self) -> ClassDraws:
        """Draws of the classes from which datasets are drawn: from chains of their own, as in a release."""
        rng = np.random.default_rng([self.seed, 0])
        chains = ClassChains.start(self.mechanism.class_model, self.table, rng, FEW_CHAINS)
        return draw_with_kept(chains, self.mechanism.kept_alone(self.table), rng, DRAWS_OF_EACH)

    @cached_property
    def quick(self) -> ClassAdversary:
        """The adversary who has the table and what was released earlier, by few draws."""
        return self._before(quick=True)

    @cached_property
    def thorough(self) -> ClassAdversary:
        """The same by as many draws as `risk` takes."""
        return self._before(quick=False)

    def _before(self, quick: bool) -> ClassAdversary:
        rng = np.random.default_rng([self.seed, 1, quick])
        kept = self.mechanism.kept_alone(self.table)
        alone = ClassAdversary.alone(self.mechanism.class_model, self.table, rng, kept, quick=quick)
        return alone.beside(as_seen(self.mechanism, self.earlier, self.table), rng)

    @cached_property
    def pilots(self) -> list[dict[str, np.ndarray]]:
        """What some releases of one dataset tell of everybody."""
        return self.judged(1, [np.arange(len(self.records.values))] * PILOTS, range(PILOTS))

    @cached_property
    def watched(self) -> Int[np.ndarray, " w"]:
        """The places of those who come closest to being disclosed in the pilots: they are attacked in the rest."""
        orders = [ToldValues.of(each, self.rule).order for each in self.pilots]
        orders += [by_membership(each) for each in self.pilots if MEMBERSHIP in each]
        in_turn = np.stack(orders, axis=1).ravel().tolist()
        return np.array(list(dict.fromkeys(in_turn))[:WATCHED])

    @cached_property
    def attacked(self) -> Callable[[int, int, bool], tuple[ClassChains, ClassDraws]]:
        """Draws given the table with a dataset, by the numbers of release and dataset; the latest are kept."""
        return lru_cache(DATASETS_KEPT)(self._attack)

    def dataset(self, release: int, number: int) -> Records:
        """Draw a dataset of a release, always the same one."""
        rng = np.random.default_rng([self.seed, 2 + release, number])
        source = self.sources.posteriors.take([int(rng.integers(len(self.sources)))])
        return draw_class_table(self.mechanism, self.table, source.draw(rng), rng, self.rows)

    def _attack(self, release: int, number: int, quick: bool) -> tuple[ClassChains, ClassDraws]:
        rng = np.random.default_rng([self.seed, 2 + release, number, quick])
        seen = as_seen(self.mechanism, [self.dataset(release, number)], self.table)
        both = (self.quick if quick else self.thorough).beside(seen, rng)
        return both.chains[-1], both.draws[-1]

    @one_thread()  # also of what is drawn once, before the threads begin
    def judged(
        self, count: int, people: Sequence[Int[np.ndarray, " m"]], releases: Sequence[int], quick: bool = True
    ) -> list[dict[str, np.ndarray]]:
        """Return what each release of `count` tells of its people, as `risk` has it."""
        before = self.quick if quick else self.thorough  # once, before several threads ask for it
        _ = self.sources.posteriors

        def one(asked: tuple[int, Int[np.ndarray, " m"]]) -> dict[str, np.ndarray]:
            release, rows = asked
            tables = (*self.earlier, *(self.dataset(release, number) for number in range(count)))
            return risk_columns(
                self.records,
                Release(self.mechanism, tables),
                self.adversary,
                rule=self.rule,
                mass=False,
                rng=np.random.default_rng([self.seed, 2 + release]),
                rows=rows,
                classes=before.plus([self.attacked(release, number, quick) for number in range(count)]),
            )

        return in_parallel(one, list(zip(releases, people, strict=True)))

    def discloses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""
        first = self.judged(count, [people] * len(releases), releases)
        disclosed = np.stack([is_disclosed(each) for each in first])
        again = np.flatnonzero(disclosed.any(axis=1))
        if len(again):
            some = [people[disclosed[place]] for place in again]
            second = self.judged(count, some, [releases[int(place)] for place in again], quick=False)
            for place, each in zip(again, second, strict=True):
                disclosed[place, disclosed[place]] = is_disclosed(each)
        return disclosed

    def limiting_column(self, place: int, count: int, releases: Sequence[int]) -> str:
        """Return by which column, or by membership, somebody is disclosed most often, or comes closest to it."""
        every = self.judged(count, [np.array([place])] * len(releases), releases)
        names = [str(each["riskiest"][0]) for each in every if each["disclosed"][0]]
        names += [MEMBERSHIP for each in every if each.get("membership_disclosed", np.zeros(1, dtype=bool))[0]]
        names = names or [str(each["riskiest"][0]) for each in every]
        return max(dict.fromkeys(names), key=names.count)


def is_disclosed(columns: Mapping[str, np.ndarray]) -> Bool[np.ndarray, " m"]:
    """Say of whom something is disclosed, a value or that they are in the table."""
    return np.asarray(columns["disclosed"] | columns.get("membership_disclosed", False), dtype=bool)
