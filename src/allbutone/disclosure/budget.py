"""The budget: how many datasets may be released before anyone is exposed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.alternatives import every_measure, expected_count, row_tradeoff, what_if
from allbutone.disclosure.exposure_law import ExposureLaw, leverages
from allbutone.disclosure.limits import Limit
from allbutone.disclosure.trials import (
    CONFIDENCE,
    grid_of,
    likeliest_first,
    read_off,
    simulated,
    standing_out,
    try_counts,
)
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.support.notebook import paragraphs
from allbutone.tables.records import Records

COUNTS = (1, 2, 5, 10, 20, 50, 100)  # of datasets, for which every record's exposure is listed


@dataclass(frozen=True, eq=False, kw_only=True)
class Budget:
    """What may be released of a table, and what sets the limit.

    A dataset stands for whatever is counted: a synthetic dataset, or a parameter draw.

    law: what the records' risk depends on besides their leverage, and its closed form.
    limit: what no record may pass.
    leverage: each record's, in the order of the table.
    rows: each record's number in the table, from 1.
    counts: the numbers of datasets for which `columns` lists every record's expected exposure.
    confident_count: the most datasets that keep every record below the limit with 95 % confidence; 0 if none does.
    tried_up_to: the most datasets that may be tried; a `confident_count` as large is a lower bound.
    never_passed: whether so many were tried, and no simulated release of them passed the limit.
    expected_count: the most that keep the expected exposure (closed form) of every record at or below the limit;
        None for a limit of gain or mass, which have no closed form.
    expected_count_without: the same for the table without the limiting row.
    limiting_row: the record that sets the limit, counted from 1: for an exposure the one of the highest leverage,
        else the one likeliest to pass with one dataset more than `confident_count`.
    own_chance: for each number of datasets tried, each record's own chance to pass the limit; those of less than
        average leverage have that of the average.
    measures: every measure of the limiting row after one dataset and after `confident_count`.
    row_tradeoff: expected counts for datasets of fewer and of more rows.
    what_if: expected counts for the table with its most exposed records dropped, or pulled in.
    """

    law: ExposureLaw
    limit: Limit
    leverage: Float[np.ndarray, " n"]
    rows: Int[np.ndarray, " n"]
    counts: tuple[int, ...]
    confident_count: int
    tried_up_to: int
    limiting_row: int
    never_passed: bool = False
    expected_count: int | None = None
    expected_count_without: int | None = None
    own_chance: Mapping[int, Float[np.ndarray, " n"]] = field(default_factory=dict)
    measures: list[dict[str, Any]] = field(default_factory=list)
    row_tradeoff: list[dict[str, Any]] = field(default_factory=list)
    what_if: list[dict[str, Any]] = field(default_factory=list)

    @property
    def what(self) -> str:
        """The thing that is counted: datasets of so many rows, or parameter draws."""
        return "parameter draws" if self.law.rows is None else f"datasets of {self.law.rows:,} rows"

    def __repr__(self) -> str:
        """Return the verdict, which is what there is to read of a budget."""
        return f"Budget: {self.sentence}"

    def _repr_html_(self) -> str:
        return paragraphs(self.sentence, self.assumptions)

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        one = self.what.replace("draws", "draw").replace("datasets", "dataset")
        kept = f"every record below {self.limit} with {CONFIDENCE:.0%} confidence"
        if self.confident_count == 0:
            verdict = f"Not even one {one} leaves {kept}"
        elif self.confident_count >= self.tried_up_to:
            verdict = f"At least {self.confident_count:,} {self.what}, the most that were tried, leave {kept}"
            verdict += " (no simulated release passed it)" * self.never_passed
        elif self.confident_count == 1:
            verdict = f"One {one} leaves {kept}, two do not"
        else:
            verdict = f"Up to {self.confident_count:,} {self.what} leave {kept}"
        parts = [verdict]
        if self.expected_count is not None:
            parts.append(f"expected (closed form): up to {self.expected_count:,}")
        parts.append(f"row {self.limiting_row} sets the limit")
        if self.expected_count_without is not None:
            parts.append(f"without it up to {self.expected_count_without:,} would be expected")
        return "; ".join(parts) + "."

    @property
    def assumptions(self) -> str:
        """What the verdict rests on, and what it is not."""
        return (
            "Assumed: the records are jointly normal; the prior was written without looking at them; the "
            "adversary has every other record, the release and the mechanism, and guesses by the posterior's "
            "mode. Records of less than average leverage are not counted: they lie near the other records' "
            "centre, where a close guess is luck. This is a prediction, not a guarantee: an adversary who knows "
            "some features, or data that are not normal, can do better. Simulated releases of this very table can "
            "check it."
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Return a row a record: leverage, threshold, the most datasets for the limit, exposures at the counts.

        `max_datasets` for an exposure is the closed form's; `confident_datasets` is the largest number tried that
        keeps the record below the limit with 95 % confidence, and stands for both for other limits.
        """
        confident = np.zeros(len(self.leverage))
        for count, chance in sorted(self.own_chance.items()):
            confident[chance <= 1 - CONFIDENCE] = count
        found = expected_columns(self.law, self.leverage, self.rows, self.limit, self.counts)
        found.setdefault("max_datasets", confident)
        return found | {"confident_datasets": confident}


def expected_columns(
    law: ExposureLaw,
    leverage: Float[np.ndarray, " n"],
    rows: Int[np.ndarray, " n"],
    limit: Limit,
    counts: Sequence[int],
) -> dict[str, np.ndarray]:
    """Return what the closed form says of each record, a row each; no simulation.

    `max_datasets`, the most that keep a record below the limit, only for a limit of exposure.
    """
    found = {
        "row": rows,
        "leverage": leverage,
        "threshold_datasets": law.threshold(leverage),
    }
    if limit.kind == "exposure":
        found["max_datasets"] = law.most(leverage, limit.value)
    return found | {f"exposure_at_{k}": law.exposure(leverage, k) for k in counts}


def budget(
    table: Any,
    prior: AnyPrior,
    *,
    rows: int | None,
    limit: str | Limit = "exposure=0.5",
    counts: Sequence[int] = COUNTS,
    **how_to_read: Any,
) -> Any:
    """Return a dataframe, in the table's own library, with what each record allows to be released.

    `rows` a dataset, or None for released parameters. `plan_budget` gives the verdict over the whole table.
    How the table is read is said as to `Records.of` (schema, complete_cases, …).
    """
    records, limit = Records.of(table, **how_to_read), Limit.of(limit)
    prior = prior_of(prior, records.columns, records.schema)
    if limit.kind == "exposure":  # the closed form needs no simulation
        law, leverage = ExposureLaw.of(prior, len(records.values), rows), leverages(records.values, prior)
        columns = expected_columns(law, leverage, records.rows, limit, counts)
    else:
        columns = plan_budget(records, prior, rows=rows, limit=limit, counts=counts).columns()
    return nw.from_dict(columns, backend=records.backend).to_native()  # type: ignore[arg-type]


def plan_budget(
    table: Any,
    prior: AnyPrior,
    *,
    rows: int | None,
    limit: str | Limit = "exposure=0.5",
    counts: Sequence[int] = COUNTS,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
    **how_to_read: Any,
) -> Budget:
    """Return how much may be released, by the closed form and with 95 % confidence by its exact distribution.

    The chance that any record passes is bounded by the sum of the records' own chances, each a function of its
    leverage, found by simulation on a grid of leverages. `watch` is called once for each number of datasets tried.
    How the table is read is said as to `Records.of` (schema, complete_cases, …).

    >>> import allbutone as abo
    >>> abo.plan_budget(abo.demo_cohort(), {"centre": 0, "spread": 1}, rows=503, rng=1).limiting_row
    212
    """
    records, limit, stream = Records.of(table, **how_to_read), Limit.of(limit), np.random.default_rng(rng)
    prior = prior_of(prior, records.columns, records.schema)
    law, leverage = ExposureLaw.of(prior, len(records.values), rows), leverages(records.values, prior)
    order = np.argsort(-leverage)
    highest, closed = float(leverage[order[0]]), limit.kind == "exposure"
    expected = expected_count(law, highest, limit) if closed else None
    found = try_counts(law, limit, leverage, expected, counts, stream, watch)
    changes = what_if(records.values, prior, rows, limit, order) if closed else []
    limiting = int(order[0] if closed else likeliest_first(leverage, found.own_chance, found.confident_count)[0])
    return Budget(
        law=law,
        limit=limit,
        leverage=leverage,
        rows=records.rows,
        counts=tuple(counts),
        confident_count=found.confident_count,
        tried_up_to=found.tried_up_to,
        never_passed=found.never_passed,
        limiting_row=int(records.rows[limiting]),
        expected_count=expected,
        expected_count_without=changes[0]["datasets"] if changes else None,
        own_chance=found.own_chance,
        measures=every_measure(law, float(leverage[limiting]), max(found.confident_count, 1), stream),
        row_tradeoff=row_tradeoff(law, highest, limit) if closed and rows is not None else [],
        what_if=changes,
    )


def chances(plan: Budget, count: int, rng: np.random.Generator | int | None = None) -> Float[np.ndarray, " n"]:
    """Return each record's own chance to pass the limit by a release of `count`; 0 where it does not stand out."""
    watched = standing_out(plan.leverage)
    grid, stream = grid_of(plan.leverage[watched]), np.random.default_rng(rng)
    found = simulated(plan.law, grid, count, stream, plan.limit.kind)
    passed = np.mean(plan.limit.passed(found), axis=1)
    every = np.zeros(len(plan.leverage))
    every[watched] = read_off(found.leverage, passed, plan.leverage[watched])
    return every
