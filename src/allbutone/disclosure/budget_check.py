"""Checking a budget: simulated releases of the very table it was made for, attacked exactly."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from allbutone.disclosure.budget import Budget
from allbutone.disclosure.mixed_budget import MixedBudget
from allbutone.disclosure.rule import near_truth
from allbutone.disclosure.simulated_budget import PEOPLE, Simulates, try_count
from allbutone.disclosure.table_releases import TableReleases
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.tables.records import Records


def verify_budget(
    table: Any,
    prior: AnyPrior | None,
    plan: Budget | MixedBudget,
    releases: int,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Simulate releases of this very table of as many datasets as the budget allows in all, and count.

    The records likeliest to be disclosed are attacked, with random numbers of their own. A plan of a table with
    categories knows its table and prior.

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> plan = abo.plan_budget(cohort, abo.NIW.flat(5), rows=503, alternatives=False)
    >>> abo.verify_budget(cohort, abo.NIW.flat(5), plan, releases=2, rng=1)["releases"]
    2
    """
    from scipy.stats import binomtest  # not above: it takes longer to load than all the rest

    seed = int(np.random.default_rng(rng).integers(2**63))
    if isinstance(plan, MixedBudget):
        assert plan.releases is not None
        simulates: Simulates = replace(plan.releases, seed=seed)
        people = plan.watched
    else:
        records = Records.of(table)
        assert prior is not None
        prior = prior_of(prior, records.columns, records.schema)
        near = near_truth(records)
        simulates = TableReleases.of(records.values, prior, near, plan.rule, plan.law.rows, None, seed)
        people = plan.lineup.order[:PEOPLE]
    found = try_count(simulates, max(plan.in_all, 1), people, releases, watch=watch)
    passed = found.disclosing
    # Wilson's interval is honest at none and at all
    low, high = binomtest(passed, releases).proportion_ci(method="wilson")
    return {
        "passed": passed, "releases": releases, "share": passed / releases, "low": float(low), "high": float(high),
        "attacked": len(people),
    }  # fmt: skip
