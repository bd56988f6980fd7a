"""Simulated releases of a table with gaps: drawn as its synthesizer draws them, judged by averaged posteriors."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Int

from allbutone.adversary.gaps import FilledTable, GapAdversary, noticed_bounds, spread_given_others
from allbutone.disclosure.gap_risk import pattern_chances, risk_with_gaps
from allbutone.disclosure.table_releases import Trials
from allbutone.model.incomplete import GapPatterns, IncompleteRecords
from allbutone.model.location import Parameters
from allbutone.releases.mechanism import KEEP_GAPS
from allbutone.releases.sampling import draw_tables
from allbutone.support.parallel import in_parallel
from allbutone.tables.records import Records

GAP_CHAINS, GAP_DRAWS = 4, 2  # of the others' gaps: few, since releases differ by far more
GAP_POINTS = 64  # of the integrals
GAP_RELEASES, GAP_ACCEPTED = 60, 0  # were it one in twenty, none of sixty would disclose anyone in 5 cases of 100
GAP_PEOPLE = 12  # who are attacked in each


@dataclass(frozen=True, eq=False)
class GapReleases(Trials):
    """Simulated releases of a table with gaps.

    Limits and rounding are those of the released tables, and which values a record lacks is judged, too, where
    synthetic tables have gaps of their own.
    """

    records: Records = field(kw_only=True)
    earlier: tuple[Records, ...] = ()
    parameters: Parameters | None = None

    @cached_property
    def table(self) -> IncompleteRecords:
        """The table as the model sees it."""
        return self.mechanism.incomplete(self.records)

    @cached_property
    def before(self) -> FilledTable:
        """Draws of the table's gaps given the table alone."""
        rng = np.random.default_rng([self.seed, 0])
        return FilledTable.of(self.table, self.mechanism.prior, rng, chains=GAP_CHAINS, draws=GAP_DRAWS)

    def draw(self, count: int, release: int) -> tuple[list[Records], Parameters | None]:
        """Draw a release: each dataset, or draw of the parameters, given a draw of the gaps of its own."""
        datasets, drawn = [], []
        for number in range(count):
            rng = np.random.default_rng([self.seed, 1 + release, number])
            model = self.before.models[int(rng.integers(len(self.before.models)))]
            if self.rows is None:
                drawn.append(model.draw(rng, 1))
                continue
            kept, known = self.mechanism.kept_levels(self.records), self.table.covariates
            ((one,), _) = draw_tables(
                [model], [self.rows], rng, kept=kept, covariates=known if kept is not None else None
            )
            keeps_gaps = self.mechanism.missing == KEEP_GAPS
            gaps = GapPatterns.of(self.table).draw(rng, self.rows) if keeps_gaps else None
            datasets.append(self.mechanism.released(one, gaps))
        if self.rows is not None:
            return datasets, self.parameters
        every = [*([] if self.parameters is None else [self.parameters]), *drawn]
        names = Parameters.__dataclass_fields__
        return [], Parameters(*(np.concatenate([getattr(one, name) for one in every]) for name in names))

    def discloses(
        self, count: int, people: Int[np.ndarray, " m"], releases: Sequence[int]
    ) -> Bool[np.ndarray, "r m"]:
        """Say which of these people each of these releases of `count` discloses."""
        disclosed = np.stack(in_parallel(lambda release: self._judged(count, people, release), list(releases)))
        informed = self.informed
        return disclosed if informed is None else disclosed | informed.discloses(count, people, releases)

    def _judged(self, count: int, people: Int[np.ndarray, " m"], release: int) -> Bool[np.ndarray, " m"]:
        drawn, parameters = self.draw(count, release)
        tables, rng = [*self.earlier, *drawn], np.random.default_rng([self.seed, 1 + release])
        prior, seen = self.mechanism.prior, [self.mechanism.as_drawn(each) for each in tables]
        seen = list(noticed_bounds(seen, spread_given_others(self.before.models[0])))
        after = [
            FilledTable.of(self.table, prior, stream, each, chains=GAP_CHAINS, draws=GAP_DRAWS)
            for each, stream in zip(seen, rng.spawn(len(seen)), strict=True)
        ]
        adversary = GapAdversary(self.table, prior, tuple(seen), self.before, tuple(after), parameters)
        columns, categories = self.known
        risk = risk_with_gaps(
            adversary,
            rng,
            rows=people,
            known_columns=columns,
            known_categories=categories,
            size=GAP_POINTS,
            near=self.near,
            nearness=self.nearness,
        )
        unknown = [place for place in range(prior.p) if place not in columns]
        pairs = [(risk.probability[people][:, unknown], risk.baseline[people][:, unknown])]
        codes = self.table.codes[people]
        for place in range(codes.shape[1]):
            if place not in (*categories, *self.public):
                own = np.arange(len(people)), np.maximum(codes[:, place], 0)
                levels = (risk.probabilities[place][people][own], risk.baselines[place][people][own])
                pairs.append(tuple(np.where(codes[:, place] < 0, np.nan, each)[:, None] for each in levels))  # type: ignore[arg-type]
        if self.mechanism.missing == KEEP_GAPS and tables:
            gaps = pattern_chances(self.table, [self.mechanism.incomplete(each) for each in tables])
            pairs.append((gaps[0][people, None], gaps[1][people, None]))
        if self.nearness is not None and self.outside is None:
            alone = risk.rest_known.of(people)
            pairs.append((alone.probability[:, unknown], alone.baseline[:, unknown]))
            judged = (
                level for place, level in alone.levels.items() if int(place) not in (*categories, *self.public)
            )
            pairs += [(level[0][:, None], level[2][:, None]) for level in judged]
        flags = [self.rule.discloses(after_it, before_it).any(axis=1) for after_it, before_it in pairs]
        if self.membership and self.nearness is not None:
            flags.append(self.rule.discloses_membership(self.rule.membership_of(risk.evidence[people])))
        return np.any(flags, axis=0)
