"""The case for or against a release: everything a report shows, computed once."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from allbutone.disclosure.budget import COUNTS, Budget, plan_budget
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.per_record import is_exposed, require_same_mechanism, risk_columns
from allbutone.model.moments import Moments
from allbutone.model.niw import NIW
from allbutone.model.prior_check import prior_pull
from allbutone.releases.release import ParameterRelease, Release
from allbutone.reports.findings import (
    Finding,
    budget_finding,
    exposure_finding,
    fidelity_finding,
    gain_finding,
    model_finding,
    values_finding,
)
from allbutone.support.errors import Cure
from allbutone.support.text import counted
from allbutone.tables.records import Records
from allbutone.utility.fidelity import Fidelity, fidelity
from allbutone.utility.marginal_densities import Densities, densities
from allbutone.utility.normality import Normality, check_normality
from allbutone.utility.released_values import odd_values

Watch = Callable[[int], None]
# opens a step: its name and how many parts it has, if known; gives what counts the parts done
Step = Callable[[str, int | None], AbstractContextManager[Watch]]

PAPER_COUNTS = (1, 2, 3, 5, 10, 100, 1000)


@dataclass(frozen=True, eq=False)
class Assessment:
    """A release beside the table it was made from. Confidential: it describes individual records.

    `by_count`: the risk after the first 1, 2, … of the datasets, where it was asked for. `say` words a way out as
    the reader's program does it.
    """

    records: Records
    release: Release
    prior: NIW
    normality: Normality
    risk: dict[str, np.ndarray]
    budget: Budget
    fidelity: Fidelity | None
    densities: Densities | None
    by_count: dict[int, dict[str, np.ndarray]] = field(default_factory=dict)
    say: Callable[[Cure], str] = lambda cure: cure.words

    @property
    def count(self) -> int:
        """How many datasets, or parameter draws, the release has."""
        return self.release.count

    @cached_property
    def findings(self) -> list[Finding]:
        """What a decision rests on, the risk first."""
        found = [
            exposure_finding(self.risk),
            gain_finding(self.risk),
            budget_finding(self.budget, self.count),
            model_finding(self.normality),
        ]
        if values := values_finding(odd_values(self.records, self.release), self.say):
            found.append(values)
        if self.fidelity is None:
            return found
        of_prior = prior_pull(self.prior, Moments.of(self.records.values), self.records.columns)
        return [*found, fidelity_finding(self.fidelity, of_prior)]

    @property
    def growth(self) -> list[dict[str, float]]:
        """A line a number of datasets: medians over the records, how many are exposed, and the largest gain."""
        return [
            {
                "datasets": count,
                "distance": float(np.median(found["distance"])),
                "baseline": float(np.median(found["baseline_distance"])),
                "relative_error": float(np.median(found["relative_error"])),
                "exposed": int(np.sum(is_exposed(found))),
                "gain": float(np.max(found["information_gain"])),
            }
            for count, found in self.by_count.items()
        ]


def assess(
    records: Records,
    release: Release,
    prior: NIW | None = None,
    *,
    limit: str | Limit = "exposure=0.5",
    counts: Sequence[int] = (),
    mass: bool = True,
    step: Step = lambda name, parts: nullcontext(lambda done: None),
) -> Assessment:
    """Attack every record, judge model and fidelity, and plan the budget.

    `counts`: also the risk after the first so many datasets, or draws, each.
    """
    prior = require_same_mechanism(records, release, prior)
    people = len(records.values)
    with step("Judging the model", None):
        normality = check_normality(records)
    by_count = {}
    for count in (count for count in counts if count <= release.count):
        with step(f"Attacking records after {counted(count, release.noun)}", people) as watch:
            # the integrals' random points are no secret, and a fixed start gives the same answer twice
            by_count[count] = _attacked(records, release.first(count), prior, False, watch)
    if mass or release.count not in by_count:
        with step("Attacking records", people) as watch:
            whole = _attacked(records, release, prior, mass, watch)
    else:
        whole = by_count[release.count]
    rows = None if isinstance(release, ParameterRelease) else max(release.rows)
    with step("Planning the budget", None) as watch:
        budget = plan_budget(
            # how each record fares at other numbers is for tables, and takes longer than the verdict
            records,
            prior,
            rows=rows,
            limit=limit,
            counts=COUNTS if counts else (),
            rng=0,
            watch=watch,
        )
    compared = shapes = None
    if min(release.rows, default=0) > 1:
        with step("Comparing real and synthetic data", None):
            compared, shapes = fidelity(records, release), densities(records, release)
    return Assessment(records, release, prior, normality, whole, budget, compared, shapes, by_count)


def _attacked(records: Records, release: Release, prior: NIW, mass: bool, watch: Watch) -> dict[str, Any]:
    return risk_columns(records, release, prior, mass=mass, rng=np.random.default_rng(0), watch=watch)
