"""Checking a budget: simulated releases of the very table it was made for, attacked."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.disclosure.budget import Budget
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.measures import RADIUS, Effort, measure
from allbutone.disclosure.trials import likeliest_first
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.tables.records import Records

MOST_ATTACKED = 50  # records of each simulated release


def verify_budget(
    table: Any,
    prior: AnyPrior,
    plan: Budget,
    releases: int,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Simulate releases of this very table at the budget, attack the records that stand out, and count.

    At most the fifty likeliest to pass are attacked.
    """
    from scipy.stats import binomtest  # not above: it takes longer to load than all the rest

    stream, count, records = np.random.default_rng(rng), max(plan.confident_count, 1), Records.of(table)
    values, prior = records.values, prior_of(prior, records.columns, records.schema)
    posterior = prior.update(values)
    rows = likeliest_first(plan.leverage, plan.own_chance, plan.confident_count)[:MOST_ATTACKED]
    passed = 0
    for _ in range(releases):
        if plan.law.rows is None:
            release: Any = ParameterRelease.draw(posterior, count, stream)
        else:
            release = DatasetRelease.draw(posterior, [plan.law.rows] * count, stream)
        passed += bool(_any_passes(values, release, prior, plan.limit, rows))
        watch(1)
    # Wilson's interval is honest at none and at all
    low, high = binomtest(passed, releases).proportion_ci(method="wilson")
    return {
        "passed": passed, "releases": releases, "share": passed / releases, "low": float(low), "high": float(high),
        "attacked": len(rows),
    }  # fmt: skip


def _any_passes(
    values: Float[np.ndarray, "n p"],
    release: Any,
    prior: NIW,
    limit: Limit,
    rows: np.ndarray,
) -> bool:
    everyone = LeaveOneOut.of(values, release, prior, None, "record")
    effort = None if limit.kind == "exposure" else Effort(size=256)
    for part, known in everyone.blocks((), np.sort(rows)):
        found = measure(everyone.problem(part, known), values[part], effort, radius=RADIUS)
        if np.any(limit.passed(found)):
            return True
    return False
