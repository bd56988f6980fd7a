"""The budget of a table that stays in its engine: by the closed form, from the records that stand out most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.mixed_budget import MixedBudget, planned
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.standing_out import MOST, StandingOut, standing_out, standing_out_in_cells
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.mixed.mechanism import MixedMechanism
from allbutone.support.checks import count_of
from allbutone.support.errors import InputError
from allbutone.support.text import number
from allbutone.tables.engines.lazy_records import LazyRecords, stays

HALFWAY = 0.5  # the expected exposure at which a record that stands out is about to be disclosed
COUNTS = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, eq=False)
class EngineBudget:
    """What may be released of a table that stays in its engine before a value of anyone is disclosed.

    Who has less leverage is disclosed later, so that the records of the highest set the limit for all.
    confident_count: the most datasets, or draws, that disclose anyone with a chance of no more than 5 %.
    """

    law: ExposureLaw
    rule: Rule
    lineup: Lineup
    standing: StandingOut
    counts: tuple[int, ...]
    confident_count: int

    @property
    def what(self) -> str:
        """The thing that is counted: datasets of so many rows, or parameter draws."""
        return "parameter draws" if self.law.rows is None else f"datasets of {self.law.rows:,} rows"

    @property
    def limiting_record(self) -> str:
        """The record of the highest leverage, by its key where there is one."""
        return f"record {self.standing.keys[0]}" if self.standing.keys else "the record of the highest leverage"

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        people, count = f"{self.standing.people:,} people", self.confident_count
        verdict = f"Up to {count:,} {self.what}" if count else f"None of {self.what}"
        return (
            f"{verdict} may be released if no value of anyone of {people} is to be disclosed (95\u00a0% sure); "
            f"{self.limiting_record}, of leverage {number(self.standing.leverage[0])}, sets the limit."
        )

    @property
    def assumptions(self) -> str:
        """What the verdict rests on, and what it is not."""
        return (
            "Assumed: the records are jointly normal; the prior was written without looking at them; the "
            f"adversary has every other record, the release and the mechanism. {self.rule.in_words} The number "
            "comes from a closed form: judge a release that was drawn by `risk`, which fetches the records that "
            "stand out most and attacks them exactly."
        )

    def columns(self) -> dict[str, np.ndarray]:
        """Return a row for each record that was fetched, the highest leverage first."""
        leverage, at = self.standing.leverage, max(self.confident_count, 1)
        chances = np.zeros(len(leverage))
        chances[self.lineup.order] = self.lineup.chances(at)
        keys = {"key": np.array(self.standing.keys)} if self.standing.keys else {}
        return {
            "row": np.arange(1, len(leverage) + 1),
            **keys,
            "leverage": leverage,
            "threshold_datasets": self.law.threshold(leverage),
            f"chance_at_{at}": chances,
            **{f"exposure_at_{count}": self.law.exposure(leverage, count) for count in self.counts},
        }


def ladder_of(standing: StandingOut, law: ExposureLaw) -> list[dict[str, Any]]:
    """Return, for each step of the ladder that some record passes, how many do and what one of them allows."""
    return [
        {
            "leverage": float(step),
            "records above": int(above),
            "datasets at expected exposure 0.5": int(law.most(step, HALFWAY)),
        }
        for step, above in zip(standing.ladder, standing.above, strict=True)
        if above
    ]


def plan_mixed_engine_budget(
    records: LazyRecords,
    mechanism: MixedMechanism,
    *,
    rows: int | None,
    probability: float | Rule = 0.5,
    most: int = MOST,
    key: str | None = None,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
) -> tuple[MixedBudget, StandingOut]:
    """Return the budget of a table with categories that stays in its engine, and who stands out there.

    As `plan_mixed_budget`: measurements by the closed form, categories by the counts of all cells, and then a
    check by exact attacks on those who stand out most and on the smallest cells, who are fetched.
    """
    standing = standing_out_in_cells(records, mechanism.prior, most=most, key=key)
    plan = planned(
        standing.records,
        mechanism,
        rows,
        Rule.of(probability),
        elsewhere=standing.elsewhere,
        rng=np.random.default_rng(rng),
        watch=watch,
    )
    return replace(plan, keys=standing.keys), standing


def plan_engine_budget(
    table: Any,
    prior: AnyPrior,
    *,
    rows: int | None,
    probability: float | Rule = 0.5,
    counts: Sequence[int] = COUNTS,
    most: int = MOST,
    key: str | None = None,
    **how_to_read: Any,
) -> EngineBudget:
    """Return how many datasets of `rows` (None: parameter draws) a table that stays in its engine allows.

    It is a lazy frame (polars, DuckDB, Dask, …), of which only the `most` records that stand out most come here;
    what may be released follows from their leverages by the closed form. `key`: the column that says who they are.
    How the table is read is said as to `Records.of` (columns, drop, schema, complete_cases, …).

    >>> import polars as pl, allbutone as abo
    >>> table = pl.from_arrow(abo.demo_cohort().to_frame("pyarrow")).lazy()
    >>> abo.plan_engine_budget(table, {"centre": 0, "spread": 1}, rows=503).limiting_record
    'the record of the highest leverage'
    """
    if not stays(table):
        raise InputError("this table is here, not in an engine", "call plan_budget")
    rows, records = None if rows is None else count_of("rows", rows), LazyRecords.of(table, **how_to_read)
    prior = prior_of(prior, records.columns, records.schema)
    standing = standing_out(records, prior, most=most, key=key)
    return budget_of_standing(standing, prior, rows=rows, probability=probability, counts=counts)


def budget_of_standing(
    standing: StandingOut,
    prior: NIW,
    *,
    rows: int | None,
    probability: float | Rule = 0.5,
    counts: Sequence[int] = COUNTS,
) -> EngineBudget:
    """Return the same, given the records that stand out."""
    rule, elsewhere = Rule.of(probability), standing.elsewhere if standing.elsewhere.count else None
    lineup = Lineup.of(standing.records, prior, rows, rule, elsewhere)
    return EngineBudget(lineup.law, rule, lineup, standing, tuple(counts), lineup.most())
