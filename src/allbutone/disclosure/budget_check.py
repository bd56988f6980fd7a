"""Checking a budget: simulated releases of the very table it was made for, attacked exactly."""

from collections.abc import Callable
from typing import Any

import numpy as np

from allbutone.disclosure.budget import PEOPLE, Budget
from allbutone.disclosure.rule import near_truth
from allbutone.disclosure.table_releases import TableReleases
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.tables.records import Records


def verify_budget(
    table: Any,
    prior: AnyPrior,
    plan: Budget,
    releases: int,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Simulate releases of this very table at the budget, attack the likeliest records, and count.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> plan = abo.plan_budget(cohort, abo.NIW.flat(5), rows=503, alternatives=False)
    >>> abo.verify_budget(cohort, abo.NIW.flat(5), plan, releases=2, rng=1)["releases"]
    2
    """
    from scipy.stats import binomtest  # not above: it takes longer to load than all the rest

    records, seed = Records.of(table), int(np.random.default_rng(rng).integers(2**63))
    prior = prior_of(prior, records.columns, records.schema)
    attacked = TableReleases.of(records.values, prior, near_truth(records), plan.rule, plan.law.rows, None, seed)
    people, passed = plan.lineup.order[:PEOPLE], 0
    for start in range(0, releases, 10):
        some = range(start, min(start + 10, releases))
        passed += int(np.sum(attacked.discloses(max(plan.confident_count, 1), people, some).any(axis=1)))
        watch(len(some))
    # Wilson's interval is honest at none and at all
    low, high = binomtest(passed, releases).proportion_ci(method="wilson")
    return {
        "passed": passed, "releases": releases, "share": passed / releases, "low": float(low), "high": float(high),
        "attacked": len(people),
    }  # fmt: skip
