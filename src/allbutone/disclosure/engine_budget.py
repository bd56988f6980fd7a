"""The budget of a table that stays in its engine: by the closed form, from the records that stand out most."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.how_many import HowMany, Luck
from allbutone.disclosure.lineup import MOST as MOST_DATASETS
from allbutone.disclosure.lineup import Lineup
from allbutone.disclosure.mixed_budget import MixedBudget, planned
from allbutone.disclosure.rule import Rule
from allbutone.disclosure.standing_out import MOST, StandingOut, standing_out, standing_out_in_cells
from allbutone.model.niw import NIW
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.mixed.mechanism import Mechanism
from allbutone.support.checks import count_of
from allbutone.support.errors import InputError
from allbutone.support.text import number
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy

HALFWAY = 0.5  # the expected exposure at which a record that stands out is about to be disclosed
COUNTS = (1, 2, 5, 10, 20, 50, 100)


@dataclass(frozen=True, eq=False)
class EngineBudget(HowMany):
    """What may be released of a table that stays in its engine before a value of anyone is disclosed.

    Who has less leverage is disclosed later, so that the records of the highest set the limit for all.
    in_all, before, luck: how many in all, how many of these are out (`HowMany`).
    """

    law: ExposureLaw
    rule: Rule
    lineup: Lineup
    standing: StandingOut
    counts: tuple[int, ...]
    in_all: int
    before: int = 0
    lowered: int = 0
    converted: bool = False
    luck: Luck | None = None

    @property
    def rows_of_each(self) -> int | None:
        """The rows of each dataset; None for parameter draws."""
        return self.law.rows

    @property
    def tried_up_to(self) -> int:
        """The most that were tried."""
        return MOST_DATASETS

    @property
    def limiting_record(self) -> str:
        """The record of the highest leverage, by its key where there is one."""
        return f"record {self.standing.keys[0]}" if self.standing.keys else "the record of the highest leverage"

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        return self.answer(
            f"of {self.standing.people:,} people {self.limiting_record}, of leverage "
            f"{number(self.standing.leverage[0])}, sets the limit"
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
        leverage, at = self.standing.leverage, max(self.in_all, 1)
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
    mechanism: Mechanism,
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
    if not is_lazy(table):
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
    before: int = 0,
) -> EngineBudget:
    """Return the same, given the records that stand out; `before`: how many of these are out."""
    rule, elsewhere = Rule.of(probability), standing.elsewhere if standing.elsewhere.count else None
    lineup = Lineup.of(standing.records, prior, rows, rule, elsewhere)
    in_all, luck = lineup.most(), None
    if before > in_all:
        chances = lineup.chances(before, 1.0)
        named = f"record {standing.keys[0]}" if standing.keys else "the record of the highest leverage"
        luck = Luck(min(1.0, float(np.sum(chances))), named, float(chances[0]))
    return EngineBudget(lineup.law, rule, lineup, standing, tuple(counts), in_all, before, luck=luck)
