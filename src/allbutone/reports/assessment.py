"""The case for or against a release: everything a report shows, computed once, wherever the table lies."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from allbutone.disclosure.budget import EXPECTED_RELEASES, EXPECTED_WITH_CLASSES, Budget, budget, plan, seed_of
from allbutone.disclosure.budget_case import Case
from allbutone.disclosure.epsilon import epsilons_of
from allbutone.disclosure.measures import SAME_START
from allbutone.disclosure.risk import require_same_table, risk_columns, with_prior
from allbutone.disclosure.rule import Rule, discloses_anybody
from allbutone.disclosure.selection import Selection, selection_of
from allbutone.disclosure.standing import MOST_FETCHED, StandingOut, standing_out
from allbutone.model.classes import CLASSES, require_values
from allbutone.model.location import SEPARATE
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior import prior_pull
from allbutone.releases.ledger import Together
from allbutone.releases.mechanism import Mechanism
from allbutone.releases.release import Release
from allbutone.releases.several import Released
from allbutone.reports.findings import (
    Finding,
    classes_finding,
    fidelity_finding,
    model_finding,
    remedies,
    values_finding,
)
from allbutone.reports.verdict import Verdict, verdict_of
from allbutone.support.errors import Cure, InputError
from allbutone.support.text import counted, listed
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.tables.records import Records
from allbutone.utility.class_fit import ClassFit, fit_of_classes
from allbutone.utility.counted import CountedTable
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.natural_scale import odd_values
from allbutone.utility.normality import Normality, check_normality, completed, given_categories
from allbutone.utility.shapes import Densities, densities

Watch = Callable[[int], None]
# opens a step: its name and how many parts it has, if known; gives what counts the parts done
Step = Callable[[str, int | None], AbstractContextManager[Watch]]

SIMULATING = "Simulating releases for the budget"  # a step that can be cut short, with what is there
PAPER_COUNTS = (1, 2, 3, 5, 10, 100, 1000)
MOST_TRIED = 50_000  # values of a table up to which it is tried what classes would mend

MEND_MODEL = (
    "First declare the scale that is proposed for {} under “Model” below: who stands out in a skewed column may "
    "not stand out any more, and the budget is another one."
)


@dataclass(frozen=True, eq=False)
class Assessment:
    """A release beside the table it was made from. Confidential: it describes individual records.

    `by_count`: the risk after the first 1, 2, … of the datasets, where it was asked for. `judged`: the earlier
    releases of the table, with which the risk is that of the sum. `say` words a way out as
    the reader's program does it. Of a mixed table `normality` is that of the measurements given the categories;
    it is None where it cannot be told yet, and with classes; `class_fit`: what classes draw, where they made the
    release, or might mend it. `standing`: of a table that stays in its engine,
    where `records` and `risk` are of those that stand out most; `left_out` says what cannot be told there.
    """

    records: Records
    release: Release
    prior: NIW | None
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
    class_fit: ClassFit | None = None
    say: Callable[[Cure], str] = lambda cure: cure.words

    @property
    def people(self) -> int:
        """How many records the table has."""
        return len(self.records.values) if self.standing is None else int(self.standing.moments.count)

    @property
    def leaves_people_out(self) -> bool:
        """Whether rows of the table, which lack a value or were left out by choice, have no part in it."""
        return self.standing is None and bool(len(self.records.rows) < self.records.rows[-1])

    @property
    def source(self) -> str:
        """What it was made from, in words: the table, or those of its people who lack no value."""
        if self.leaves_people_out:
            who = "who miss no value" if self.records.left_out else "who were not left out"
            return f"the {self.people:,} people of a table {who}"
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
        attempts = len(self.judged.attempts) if self.judged and self.budget.luck else 0
        verdict = verdict_of(
            self.risk,
            self.rule,
            luck=self.budget.luck,
            outside=self.records.schema.known,
            schema=self.records.schema,
        )
        return replace(verdict, attempts=attempts)

    @cached_property
    def selection(self) -> Selection | None:
        """What it tells that it passed: of another attempt, and where as much as this does not always pass."""
        again = self.judged is not None and bool(self.judged.attempts)
        always = self.verdict.may_go_out and not again
        if not self.verdict.passed or always or self.standing is not None:
            return None
        release = self.judged.release if self.judged else self.release
        found = selection_of(self.records, release, self.risk, self.rule)
        return found if found and (again or found.tells) else None

    @cached_property
    def epsilons(self) -> np.ndarray | None:
        """The ε of each record by this release alone, where it can be told."""
        if self.standing is not None or self.prior is None:
            return None
        return epsilons_of(self.records, self.release, self.prior)

    @cached_property
    def remedies(self) -> list[str]:
        """What would pass, where this does not; and where the model does not fit, that mending it comes first."""
        if self.verdict.may_go_out:
            return []
        skewed = [one.subject for one in self.normality.every if one.has_scale] if self.normality else []
        mend = [MEND_MODEL.format(listed(skewed))] if skewed else []
        return mend + remedies(self.budget, self.count)

    @cached_property
    def findings(self) -> list[Finding]:
        """What else to know before it goes out."""
        findings = []
        if self.normality:
            findings.append(model_finding(self.normality, self.records.has_gaps, self.class_fit, self.say))
        elif self.class_fit:
            findings.append(classes_finding(self.class_fit, self.release.mechanism.classes))
        oddities = [] if self.standing else odd_values(self.records, self.release)
        if oddities:
            findings.append(values_finding(oddities, self.say))
        if self.fidelity:
            of_prior = None  # what it does within cells is not told from the whole table's moments
            if self.release.mechanism.is_normal and self.prior is not None:
                moments = self.standing.moments if self.standing else Moments.of(self.records.values)
                of_prior = prior_pull(self.prior, moments, self.records.columns)
            findings.append(fidelity_finding(self.fidelity, of_prior))
        return findings

    @property
    def growth(self) -> list[dict[str, float]]:
        """A line for each number of datasets: medians, how many people are disclosed, and the largest gain."""
        return [
            {
                "datasets": count,
                "distance": float(np.median(risk["distance"])),
                "baseline": float(np.median(risk["baseline_distance"])),
                "relative_error": float(np.median(risk["relative_error"])),
                "disclosed": int(np.sum(risk["disclosed"])),
                "gain": float(np.max(risk["information_gain"])),
            }
            for count, risk in self.by_count.items()
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
    if prior is not None and not release.mechanism.is_normal:
        problem = "a release of a table with categories or kept columns names its own prior"
        raise InputError(problem, Cure("leave it out", "prior"))
    release, everything = with_prior(release, prior), with_prior(everything, prior)
    require_same_table(records, release)
    normality = normality_of(records, release.mechanism, step)

    def attacked(what: str, of: Released, mass: bool) -> dict[str, np.ndarray]:
        with step(what, len(records.values)) as watch:
            return risk_columns(
                records, of, rule=rule, mass=mass, rng=np.random.default_rng(SAME_START), watch=watch
            )

    by_count = {
        count: attacked(f"Attacking records after {counted(count, release.noun)}", release.first(count), False)
        for count in counts
        if count <= release.count
    }
    whole = by_count.get(release.count)
    if mass or judged or whole is None:
        whole = attacked("Attacking records", everything, mass)
    planned = _budget(records, release, everything, rule, discloses_anybody(whole), step)
    compared = compare(records, release, step)
    found = Assessment(
        records, release, release.mechanism.normal, normality, whole, planned, *compared, by_count, judged, rule
    )
    return replace(found, class_fit=class_fit_of(records, release.mechanism, normality, step))


def normality_of(records: Records, mechanism: Mechanism, step: Step) -> Normality | None:
    """Judge the normal model, by what categories leave of the measurements, where one spread holds for all.

    Gaps are filled by one draw of the model.
    """
    if mechanism.has_classes or (mechanism.cells == SEPARATE and not mechanism.is_normal):
        return None
    with step("Judging the model", None):
        if mechanism.is_normal:
            return check_normality(records)
        whole = completed(records, mechanism)
        return check_normality(given_categories(whole, mechanism), of=whole)


def class_fit_of(
    records: Records, mechanism: Mechanism, normality: Normality | None, step: Step
) -> ClassFit | None:
    """See what classes draw, where they made the release or the normal model is doubtful in a small table."""
    doubtful = normality is not None and normality.level != "fit"
    could = (
        not mechanism.keep and records.values.size <= MOST_TRIED and len(records.values) > len(records.columns) + 1
    )
    if not mechanism.has_classes and not (doubtful and could):
        return None
    classes = mechanism if mechanism.has_classes else Mechanism(mechanism.schema, None, classes=CLASSES)
    table = classes.seen_by_classes(classes.incomplete(records))
    try:
        with step("Judging the model with classes", None):
            require_values(table, classes.modelled, classes.classes)
            return fit_of_classes(classes.modelled, table, classes.class_model)
    except InputError:
        return None  # what classes cannot draw they do not mend


def _budget(
    records: Records, release: Release, everything: Released, rule: Rule, failed: bool, step: Step
) -> Budget:
    """Plan the budget by the same mechanism, with what else would pass."""
    mechanism = release.mechanism
    how: dict[str, Any] = {name: getattr(mechanism, name) for name in ("cells", "cell_weight", "keep", "missing")}
    how |= {"model": mechanism.model, "classes": mechanism.classes} if mechanism.has_classes else {}
    how |= {"rows": None if release.parameters is not None else max(release.rows), "probability": rule}
    with step(SIMULATING, EXPECTED_WITH_CLASSES if mechanism.has_classes else EXPECTED_RELEASES) as watch:
        planned = budget(records, mechanism.normal, release=everything, watch=watch, alternatives=True, **how)
    return with_what_would_pass(planned, release.count, failed, step)


def with_what_would_pass(planned: Budget, released: int, failed: bool, step: Step) -> Budget:
    """Return a budget with what else would pass, tried where a release of it fails, or passes by luck.

    Else with nothing: what the closed form allows of another choice is not what simulated releases would.
    """
    cut_short = planned.simulated is not None and planned.simulated.cut_short
    used_up = planned.before > released and not planned.case.is_plain  # what is left of anything
    if cut_short or used_up or not (failed or planned.luck):
        return replace(planned, alternatives=())
    with step("Trying what else would pass", None) as watch:
        return planned.tried(watch)


def compare(
    table: Records | CountedTable, release: Release, step: Step
) -> tuple[Fidelity | None, Densities | None]:
    """Lay synthetic beside real data, where datasets of more than one row were released."""
    if min(release.rows, default=0) <= 1:
        return None, None
    with step("Comparing real and synthetic data", None):
        return fidelity(table, release), densities(table, release) if release.p else None


# A table that stays in its engine: moments, counts and a few records.


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
        how: dict[str, Any] = {
            "rule": rule,
            "rng": np.random.default_rng(SAME_START),
            "elsewhere": standing.elsewhere,
        }
        risk = standing.keyed(risk_columns(standing.records, release, watch=watch, **how))
    rows = None if release.parameters is not None else max(release.rows)
    with step("Planning the budget", None) as watch:
        mechanism = Mechanism.of_measurements(records.schema.for_columns(records.columns), prior)
        elsewhere = standing.elsewhere if standing.others else None
        case = Case.of(standing.records, mechanism, rows, rule, seed_of(), elsewhere=elsewhere)
        planned = plan(case, release, standing=standing, watch=watch)
    with step("Counting values", None):
        table = CountedTable.of(records)
        normality = check_normality(table)
    compared = compare(table, release, step)
    whose: dict[str, Any] = {"rule": rule, "standing": standing, "left_out": LEFT_OUT}
    return Assessment(standing.records, release, prior, normality, risk, planned, *compared, **whose)
