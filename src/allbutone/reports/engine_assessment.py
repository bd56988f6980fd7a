"""The case for or against a release of a table that stays in its engine: moments, counts and a few records."""

from contextlib import nullcontext

import numpy as np

from allbutone.disclosure.engine_budget import budget_of_standing
from allbutone.disclosure.per_record import require_same_mechanism, risk_columns
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.standing_out import MOST, standing_out
from allbutone.model.niw import NIW
from allbutone.releases.release import ParameterRelease, PlainRelease
from allbutone.reports.assessment import Assessment, Step
from allbutone.tables.engines.lazy_records import LazyRecords
from allbutone.utility.in_engine import CountedTable, fidelity_in_engine, normality_in_engine

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
    release: PlainRelease,
    prior: NIW | None = None,
    *,
    probability: float | Rule = 0.5,
    most: int = MOST,
    key: str | None = None,
    step: Step = lambda name, parts: nullcontext(lambda done: None),
) -> Assessment:
    """Attack the records that stand out most; judge model and fidelity by moments and counts; plan the budget."""
    rule, prior = Rule.of(probability), require_same_mechanism(records, release, prior)
    with step("Finding who stands out", None):
        standing = standing_out(records, prior, most=most, key=key)
    with step("Attacking records", len(standing.records.values)) as watch:
        # the integrals' random points are no secret, and a fixed start gives the same answer twice
        rng = np.random.default_rng(0)
        found = risk_columns(
            standing.records, release, prior, rule=rule, rng=rng, elsewhere=standing.elsewhere, watch=watch
        )
        found = standing.keyed(found)
    rows = None if isinstance(release, ParameterRelease) else max(release.rows)
    with step("Planning the budget", None):
        budget = budget_of_standing(standing, prior, rows=rows, probability=rule, before=release.count)
    with step("Counting values", None):
        table = CountedTable.of(records)
        several = min(release.rows, default=0) > 1
        likeness, smoothed = fidelity_in_engine(table, release) if several else (None, None)
        normality = normality_in_engine(table)
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
