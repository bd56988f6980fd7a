"""The budget: how many datasets may be released before a value of anyone is disclosed, and its check."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.lineup import LARGEST_BUDGET, Lineup, likeliest
from allbutone.disclosure.mixed_budget import MixedBudget, planned
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.simulated_budget import (
    PEOPLE,
    Allowed,
    Alternative,
    HowMany,
    Kinds,
    Luck,
    Simulated,
    Simulates,
    alternatives_of,
    checked_in_words,
    counted_as,
    kinds_of,
    most_safe,
    try_count,
)
from allbutone.disclosure.standing import MOST_FETCHED, StandingOut, standing_out, standing_out_in_cells
from allbutone.disclosure.table_releases import TableReleases
from allbutone.model.niw import NIW
from allbutone.model.prior import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.releases.mechanism import Mechanism
from allbutone.support.errors import InputError, count_of
from allbutone.support.text import number, paragraphs
from allbutone.tables.engines.lazy_records import LazyRecords, is_lazy
from allbutone.tables.records import Records

# The budget: how many datasets may be released before a value of anyone is disclosed.


COUNTS = (1, 2, 5, 10, 20, 50, 100)  # of datasets, for which every record's exposure is listed


@dataclass(frozen=True, eq=False, kw_only=True)
class Budget(HowMany):
    """What may be released of a table, and what sets the limit.

    A dataset stands for whatever is counted: a synthetic dataset, or a parameter draw.

    law: what the records' risk depends on besides where they stand, and its closed form.
    rule: when a value counts as disclosed.
    lineup: the people, from the highest leverage down, and the closed form of their chances.
    rows: each record's number in the table, from 1.
    in_all, before, lowered, luck: how many in all, how many of these are out (`HowMany`).
    limiting_row: the record likeliest to be disclosed by one dataset more than that, counted from 1.
    limiting_column: the value of it that would be.
    simulated: the releases that were simulated and attacked exactly; None where the closed form alone decided.
    alternatives: what would allow more, or less; by the closed form, until they are tried.
    seed: of the simulations.
    """

    law: ExposureLaw
    rule: Rule
    lineup: Lineup
    rows: Int[np.ndarray, " n"]
    columns_of_table: tuple[str, ...]
    in_all: int
    limiting_row: int
    limiting_column: str
    simulated: Simulated | None = None
    before: int = 0
    lowered: int = 0
    converted: bool = False
    luck: Luck | None = None
    alternatives: list[Alternative] = field(default_factory=list)
    seed: int = 0

    @property
    def leverage(self) -> Float[np.ndarray, " n"]:
        """Each record's, in the order of the table."""
        return self.lineup.leverage

    @property
    def rows_of_each(self) -> int | None:
        """The rows of each dataset; None for parameter draws."""
        return self.law.rows

    @property
    def tried_up_to(self) -> int:
        """The most that were tried."""
        return LARGEST_BUDGET

    def __repr__(self) -> str:
        """Return the verdict, which is what there is to read of a budget."""
        return f"Budget: {self.sentence}"

    def _repr_html_(self) -> str:
        return paragraphs(self.sentence, self.assumptions)

    @property
    def sentence(self) -> str:
        """The verdict, for a board."""
        return self.answer(f"{self.limiting_column} of row {self.limiting_row} sets the limit")

    @property
    def assumptions(self) -> str:
        """What the verdict rests on, and what it is not."""
        how = "The number comes from a closed form"
        if self.simulated:
            how = f"The number was checked on {checked_in_words(self.simulated)}"
        return (
            f"{self.rule.in_words} Assumed: the records are jointly normal; the prior was written without looking "
            "at them; the adversary has every other record, the release and the mechanism. "
            f"{how}. This is a prediction, not a guarantee: an adversary who knows some of a person's values, or "
            "data that are not normal, can do better."
        )

    def chances(self, count: int) -> Float[np.ndarray, " n"]:
        """Return each record's own chance that `count` datasets in all disclose a value of it (closed form)."""
        found = np.zeros(len(self.rows))
        found[self.lineup.order] = self.lineup.chances(count)
        return found

    @property
    def places(self) -> Int[np.ndarray, " n"]:
        """The places of all records, who is likeliest to be disclosed by one more than may be first."""
        return _places(self.lineup, self.in_all + 1)

    def tried(self, watch: Callable[[int], None] = lambda done: None) -> "Budget":
        """Return it with those alternatives alone that allow more than this, each tried as the budget was."""
        more = [one for one in self.alternatives if one.datasets > self.in_all]
        every = [one.tried(self.rule, self.seed, watch) for one in more]
        return replace(self, alternatives=[one for one in every if one.datasets > self.in_all])

    def columns(self, counts: tuple[int, ...] = COUNTS) -> dict[str, np.ndarray]:
        """Return a row a record: leverage, its own chance at the budget and at twice that, expected exposures."""
        at = max(self.in_all, 1)
        return {
            "row": self.rows,
            "leverage": self.leverage,
            f"chance_at_{at}": self.chances(at),
            f"chance_at_{2 * at}": self.chances(2 * at),
            "threshold_datasets": self.law.threshold(self.leverage),
        } | {f"exposure_at_{count}": self.law.exposure(self.leverage, count) for count in counts}


def budget(
    table: Any,
    prior: AnyPrior,
    *,
    rows: int | None,
    probability: float = 0.5,
    **how_to_read: Any,
) -> Any:
    """Return a dataframe, in the table's own library, with what each record allows to be released.

    `rows` a dataset, or None for released parameters. `plan_budget` gives the verdict over the whole table.
    How the table is read is said as to `Records.of` (schema, complete_cases, …).

    >>> import allbutone as abo
    >>> cohort = abo.demo_cohort()
    >>> abo.budget(cohort, abo.NIW.flat(5), rows=503).column_names[:2]
    ['row', 'leverage']
    """
    records = Records.of(table, **how_to_read)
    plan = plan_budget(records, prior, rows=rows, probability=probability, alternatives=False)
    return nw.from_dict(plan.columns(), backend=records.backend).to_native()  # type: ignore[arg-type]


def plan_budget(
    table: Any,
    prior: AnyPrior,
    *,
    rows: int | None,
    probability: float | Rule = 0.5,
    earlier: AnyRelease | None = None,
    alternatives: bool = True,
    rng: np.random.Generator | int | None = None,
    watch: Callable[[int], None] = lambda done: None,
    **how_to_read: Any,
) -> Budget:
    """Return how many datasets of `rows` (None: parameter draws) may be released before anyone is disclosed.

    A value is disclosed when the adversary gives it at least `probability` within its tolerance (see `Rule`). The
    chance that a release discloses anyone, at most 5 %, is bounded by the sum of the records' own chances, which
    the closed form gives; where that does not take long, simulated releases of this very table check it.
    `earlier`: what was released already (one, or several in a list), which counts; where releases are simulated,
    fewer may follow if it happens to tell more than as much mostly does. `alternatives`: also say what would allow
    more. `watch` is called once for each number of datasets tried. How the table is read is said as to
    `Records.of` (schema, complete_cases, …).

    >>> import allbutone as abo
    >>> abo.plan_budget(abo.demo_cohort(), {"centre": 0, "spread": 1}, rows=503, rng=1).limiting_row
    212
    """
    if is_lazy(table):
        raise InputError("this table stays in its engine", "call plan_engine_budget")
    records, rule = Records.of(table, **how_to_read), Rule.of(probability)
    prior = prior_of(prior, records.columns, records.schema)
    seed = int(np.random.default_rng(rng).integers(2**63))
    allowed = Allowed.of(records, prior, rows, rule, seed, watch)
    lineup, in_all = allowed.lineup, allowed.count
    before, lowered, kinds, luck = 0, 0, Kinds(), None
    if earlier is not None:
        released = release_of(earlier)
        kinds = kinds_of(released)
        before = counted_as(kinds, rows, lambda kind: Lineup.of(records, prior, kind, rule).most(), allowed.guess)
        left = max(0, in_all - before)
        if left and allowed.simulated:
            # what is out may tell more than as much mostly does
            after = TableReleases.of(records.values, prior, near_truth(records), rule, rows, released, seed)
            lowered = left - most_safe(after, lineup.order[:PEOPLE], left, watch).count
        luck = allowed.luck(before, records) if before > in_all else None
    place, column = _limiting(lineup, records, in_all + 1)
    return Budget(
        law=lineup.law,
        rule=rule,
        lineup=lineup,
        rows=records.rows,
        columns_of_table=records.columns,
        in_all=in_all,
        limiting_row=int(records.rows[place]),
        limiting_column=column,
        simulated=allowed.simulated,
        before=before,
        lowered=lowered,
        converted=kinds.keys() - {rows} != set(),
        luck=luck,
        alternatives=alternatives_of(records, prior, lineup, rule, (place, column), watch) if alternatives else [],
        seed=seed,
    )


def _places(lineup: Lineup, count: int) -> Int[np.ndarray, " n"]:
    return lineup.order[likeliest(lineup.chances(min(count, LARGEST_BUDGET)))]


def _limiting(lineup: Lineup, records: Records, count: int) -> tuple[int, str]:
    """Return the place of who is likeliest to be disclosed by so many, and the column that stands out most."""
    place = int(_places(lineup, count)[0])
    standing = lineup.look(np.array([place]))
    reach = np.where(np.isfinite(standing.needed[0]), np.abs(standing.deviation[0]), -1.0)
    return place, records.columns[int(np.argmax(reach))]


# The budget of a table that stays in its engine: by the closed form, from the records that stand out most.


HALFWAY = 0.5  # the expected exposure at which a record that stands out is about to be disclosed


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
        return LARGEST_BUDGET

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
    most: int = MOST_FETCHED,
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
    most: int = MOST_FETCHED,
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


# Checking a budget: simulated releases of the very table it was made for, attacked exactly.


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
