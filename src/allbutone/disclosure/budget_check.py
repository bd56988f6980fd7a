"""Checking a budget: simulated releases of the very table it was made for, attacked."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import binomtest

from allbutone.adversary.exact_integrals import information_gain, integrate_many, prior_mass, relative_error
from allbutone.adversary.leave_one_out import LeaveOneOut
from allbutone.adversary.modes import find_modes
from allbutone.disclosure.budget import Budget
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.per_record import RADIUS
from allbutone.disclosure.simulate import Simulated
from allbutone.disclosure.trials import standing_out
from allbutone.model.niw import NIW
from allbutone.releases.release import DatasetRelease, ParameterRelease
from allbutone.tables.records import Records


def verify_budget(
    records: Records,
    prior: NIW,
    plan: Budget,
    releases: int,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Simulate releases of this very table at the budget, attack the records that stand out, and count.

    At most the fifty of highest leverage are attacked.
    """
    stream, count = np.random.default_rng(rng), max(plan.confident_count, 1)
    posterior = prior.update(records.values)
    rows = np.argsort(-plan.leverage)[: min(50, int(np.sum(standing_out(plan.leverage))))]
    passed = 0
    for _ in range(releases):
        if plan.law.rows is None:
            release: Any = ParameterRelease.draw(posterior, count, stream)
        else:
            release = DatasetRelease.draw(posterior, [plan.law.rows] * count, stream)
        passed += bool(_any_passes(records.values, release, prior, plan.limit, rows, stream))
        watch(1)
    # Wilson's interval is honest at none and at all
    low, high = binomtest(passed, releases).proportion_ci(method="wilson")
    return {
        "passed": passed, "releases": releases, "share": passed / releases, "low": float(low), "high": float(high),
    }  # fmt: skip


def _any_passes(
    values: Float[np.ndarray, "n p"],
    release: Any,
    prior: NIW,
    limit: Limit,
    rows: np.ndarray,
    rng: np.random.Generator,
) -> bool:
    problem = LeaveOneOut.of(values, release, prior, None, "record")
    for part, known in problem.blocks((), np.sort(rows)):
        posterior = problem.problem(part, known)
        modes, truth = find_modes(posterior), posterior.whiten(values[part])
        error = relative_error(modes.best, truth)[None]
        gain = mass = None
        if limit.kind != "exposure":
            learned = integrate_many(posterior, modes, truth, RADIUS, rng, size=256)
            assert learned.mass is not None
            gain = information_gain(posterior, truth, learned.log_total)[None]
            mass = (learned.mass - prior_mass(posterior, truth, RADIUS))[None]
        if np.any(limit.passed(Simulated(np.ones(1), 1 - error, error, gain, mass))):
            return True
    return False
