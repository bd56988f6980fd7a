"""The case for or against a release: everything a report shows, computed once, wherever the table lies."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from allbutone.disclosure.budget import EXPECTED_RELEASES, Budget, Case, plan
from allbutone.disclosure.budget import budget as planned
from allbutone.disclosure.epsilon import epsilons_of
from allbutone.disclosure.risk import require_same_table, risk_columns, with_prior
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.standing import MOST_FETCHED, StandingOut, standing_out
from allbutone.model.location import SEPARATE
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_pull
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release
from allbutone.releases.several import Released
from allbutone.releases.together import Together
from allbutone.reports.findings import Finding, fidelity_finding, model_finding, remedies, values_finding
from allbutone.reports.verdict import Verdict, verdict_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from allbutone.utility.counted import CountedTable
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.natural_scale import odd_values
from allbutone.utility.normality import Normality, check_normality, given_categories
from allbutone.utility.shapes import Densities, densities

# The case for or against a release: everything a report shows, computed once.


Watch = Callable[[int], None]
# opens a step: its name and how many parts it has, if known; gives what counts the parts done
Step = Callable[[str, int | None], AbstractContextManager[Watch]]

SIMULATING = "Simulating releases for the budget"  # a step that can be cut short, with what is there
PAPER_COUNTS = (1, 2, 3, 5, 10, 100, 1000)


@dataclass(frozen=True, eq=False)
class Assessment:
    """A release beside the table it was made from. Confidential: it describes individual records.

    `by_count`: the risk after the first 1, 2, … of the datasets, where it was asked for. `judged`: the earlier
    releases of the table, with which the risk is that of the sum. `say` words a way out as
    the reader's program does it. Of a mixed table `normality` is that of the measurements given the categories;
    it is None where it cannot be told yet. `standing`: of a table that stays in its engine,
    where `records` and `risk` are of those that stand out most; `left_out` says what cannot be told there.
    """

    records: Records
    release: Release
    prior: NIW
    normality: Normality | None
    risk: dict[str, np.ndarray]
    budget: Budget
    fidelity: Fidelity | None
    densities: Densities | None
    by_count: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    judged: Together | None = None
    rule: Rule = field(default_factory=Rule)
    standing: StandingOut | None = None
    left_out: tuple[str, ...] = ()
    say: Callable[[Cure], str] = lambda cure: cure.words

    @property
    def people(self) -> int:
        """How many records the table has."""
        return len(self.records.values) if self.standing is None else int(self.standing.moments.count)

    @property
    def source(self) -> str:
        """What it was made from, in words: the table, or those of its people who lack no value."""
        if self.standing is None and len(self.records.rows) < self.records.rows[-1]:
            return f"the {self.people:,} people of a table who miss no value"
        return f"a table of {self.people:,} people"

    @property
    def count(self) -> int:
        """How many datasets, or parameter draws, the release has."""
        return self.release.count

    @property
    def earlier_count(self) -> int:
        """How many datasets and parameter draws were released earlier, and are judged together with it."""
        return sum(entry.count for entry in self.judged.counted) if self.judged else 0

    @cached_property
    def verdict(self) -> Verdict:
        """What the rule says."""
        return verdict_of(self.risk, self.rule, luck=self.budget.luck)

    @cached_property
    def epsilons(self) -> np.ndarray | None:
        """The ε of each record by this release alone, where it can be told."""
        if self.standing is not None:
            return None
        return epsilons_of(self.records, self.release, self.prior)

    @cached_property
    def remedies(self) -> list[str]:
        """What would pass, where this does not."""
        return [] if self.verdict.may_go_out else remedies(self.budget, self.count)

    @cached_property
    def findings(self) -> list[Finding]:
        """What else to know before it goes out."""
        found = [
            model_finding(self.normality) if self.normality else None,
            None if self.standing else values_finding(odd_values(self.records, self.release), self.say),
            fidelity_finding(self.fidelity, self._of_prior) if self.fidelity else None,
        ]
        return [each for each in found if each is not None]

    @property
    def _of_prior(self) -> str | None:
        if not self.release.mechanism.is_normal:
            return None  # what the prior does within cells is not told from the whole table's moments
        moments = self.standing.moments if self.standing else Moments.of(self.records.values)
        return prior_pull(self.prior, moments, self.records.columns)

    @property
    def growth(self) -> list[dict[str, float]]:
        """A line for each number of datasets: medians, how many people are disclosed, and the largest gain."""
        return [
            {
                "datasets": count,
                "distance": float(np.median(found["distance"])),
                "baseline": float(np.median(found["baseline_distance"])),
                "relative_error": float(np.median(found["relative_error"])),
                "disclosed": int(np.sum(found["disclosed"])),
                "gain": float(np.max(found["information_gain"])),
            }
            for count, found in self.by_count.items()
        ]


def assess(
    records: Records,
    release: Release,
    prior: NIW | None = None,
    *,
    probability: float | Rule = 0.5,
    counts: Sequence[int] = (),
    mass: bool = True,
    judged: Together | None = None,
    step: Step = lambda name, parts: nullcontext(lambda done: None),
) -> Assessment:
    """Attack every record, judge model and fidelity, and plan the budget.

    `probability`: from which on a value counts as disclosed. `counts`: also the risk after the first so many
    datasets, or draws, each. `judged`: the release together with all earlier ones, which are attacked as one.
    """
    rule, everything = Rule.of(probability), judged.release if judged else release
    if not release.mechanism.is_normal:
        _require_plain(prior)
        assert isinstance(everything, Release)
        return replace(_assess_mixed(records, release, everything, rule, step), judged=judged)
    release, everything = with_prior(release, prior), with_prior(everything, prior)
    require_same_table(records, release)
    prior = release.mechanism.require_prior()
    people = len(records.values)
    with step("Judging the model", None):
        normality = check_normality(records)
    by_count = {}
    for count in (count for count in counts if count <= release.count):
        with step(f"Attacking records after {counted(count, release.noun)}", people) as watch:
            # the integrals' random points are no secret, and a fixed start gives the same answer twice
            by_count[count] = _attacked(records, release.first(count), rule, False, watch)
    if mass or judged or release.count not in by_count:
        with step("Attacking records", people) as watch:
            whole = _attacked(records, everything, rule, mass, watch)
    else:
        whole = by_count[release.count]
    rows = None if release.parameters is not None else max(release.rows)
    how = {"prior": prior, "rows": rows, "release": everything, "probability": rule}
    budget = _budget(records, release.count, bool(np.any(whole["disclosed"])), how, step)
    compared = _compared(records, release, step)
    return Assessment(records, release, prior, normality, whole, budget, *compared, by_count, judged, rule)


def _budget(records: Records, released: int, failed: bool, how: dict[str, Any], step: Step) -> Budget:
    """Plan the budget; what else would pass is tried where this does not, or passes by luck."""
    with step(SIMULATING, EXPECTED_RELEASES) as watch:
        plan = planned(records, rng=0, watch=watch, alternatives=True, **how)
    cut_short = plan.simulated is not None and plan.simulated.cut_short
    used_up = plan.before > released and not plan.case.is_plain  # what is left of anything
    if cut_short or used_up or not (failed or plan.luck):
        return replace(plan, alternatives=())
    with step("Trying what else would pass", None) as watch:
        return plan.tried(watch)


def _compared(records: Records, release: Release, step: Step) -> tuple[Fidelity | None, Densities | None]:
    if min(release.rows, default=0) <= 1:
        return None, None
    with step("Comparing real and synthetic data", None):
        return fidelity(records, release), densities(records, release)


def _attacked(records: Records, release: Released, rule: Rule, mass: bool, watch: Watch) -> dict[str, Any]:
    return risk_columns(records, release, rule=rule, mass=mass, rng=np.random.default_rng(0), watch=watch)


def _require_plain(prior: NIW | None) -> None:
    """Refuse what a report on a mixed table cannot be asked."""
    if prior is not None:
        raise InputError(
            "a release of a table with categories or kept columns names its own prior",
            Cure("leave it out", "prior"),
        )


def _assess_mixed(records: Records, release: Release, everything: Release, rule: Rule, step: Step) -> Assessment:
    """Attack everyone's measurements and categories, judge fidelity, and plan the budget by the same mechanism."""
    mechanism = release.mechanism
    normality = None
    if not records.has_gaps and mechanism.cells != SEPARATE:
        with step("Judging the model", None):
            normality = check_normality(given_categories(records, mechanism), of=records)
    with step("Attacking records", len(records.values)) as watch:
        risk = _attacked(records, everything, rule, True, watch)
    how: dict[str, Any] = {name: getattr(mechanism, name) for name in ("cells", "cell_weight", "keep", "missing")}
    how |= {"prior": mechanism.normal, "rows": max(release.rows) if release.datasets else None}
    how |= {"release": everything, "probability": rule}
    budget = _budget(records, release.count, bool(np.any(risk["disclosed"])), how, step)
    compared = _compared(records, release, step)
    return Assessment(records, release, mechanism.require_prior(), normality, risk, budget, *compared, rule=rule)


# The case for or against a release of a table that stays in its engine: moments, counts and a few records.


LEFT_OUT = (
    "Whether columns are jointly normal: Mardia's and Henze and Zirkler's tests take the rows. The shape of each "
    "column is judged by 10,000 of its quantiles, which show nobody far out; those are among the records judged.",
    "What a classification tree finds to tell real from synthetic rows.",
    "Whether spreads and extremes are right in natural units, where a scale is declared.",
    "Whether synthetic values are negative, or have more decimals, where real ones do not.",
    "ε, in the language of differential privacy.",
)


def assess_in_engine(
    records: LazyRecords,
    release: Release,
    prior: NIW | None = None,
    *,
    probability: float | Rule = 0.5,
    most: int = MOST_FETCHED,
    key: str | None = None,
    step: Step = lambda name, parts: nullcontext(lambda done: None),
) -> Assessment:
    """Attack the records that stand out most; judge model and fidelity by moments and counts; plan the budget."""
    rule, release = Rule.of(probability), with_prior(release, prior)
    require_same_table(records, release)
    prior = release.mechanism.require_prior()
    with step("Finding who stands out", None):
        standing = standing_out(records, prior, most=most, key=key)
    with step("Attacking records", len(standing.records.values)) as watch:
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        rng = np.random.default_rng(0)
        found = risk_columns(
            standing.records, release, rule=rule, rng=rng, elsewhere=standing.elsewhere, watch=watch
        )
        found = standing.keyed(found)
    rows = None if release.parameters is not None else max(release.rows)
    with step("Planning the budget", None) as watch:
        mechanism = Mechanism.of_measurements(records.schema.for_columns(records.columns), prior)
        elsewhere = standing.elsewhere if standing.others else None
        case = Case.of(standing.records, mechanism, rows, rule, 0, elsewhere=elsewhere)
        budget = plan(case, release, standing=standing, watch=watch)
    with step("Counting values", None):
        table = CountedTable.of(records)
        several = min(release.rows, default=0) > 1
        likeness, smoothed = (fidelity(table, release), densities(table, release)) if several else (None, None)
        normality = check_normality(table)
    return Assessment(
        standing.records,
        release,
        prior,
        normality,
        found,
        budget,
        likeness,
        smoothed,
        rule=rule,
        standing=standing,
        left_out=LEFT_OUT,
    )
