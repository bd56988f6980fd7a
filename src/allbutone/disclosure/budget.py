"""The budget: how many datasets may be released before a value of anyone is disclosed."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int

from allbutone.disclosure.alternatives import Alternative, alternatives_of
from allbutone.disclosure.exposure_law import ExposureLaw
from allbutone.disclosure.how_many import HowMany, Kinds, Luck, counted_as, kinds_of
from allbutone.disclosure.lineup import MOST, Lineup, likeliest
from allbutone.disclosure.rule import Rule, near_truth
from allbutone.disclosure.simulated_budget import PEOPLE, Allowed, Simulated, checked_in_words, most_safe
from allbutone.disclosure.table_releases import TableReleases
from allbutone.model.prior_file import AnyPrior, prior_of
from allbutone.releases.folder import AnyRelease, release_of
from allbutone.support.errors import InputError
from allbutone.support.notebook import paragraphs
from allbutone.tables.engines.lazy_records import is_lazy
from allbutone.tables.records import Records

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
        return MOST

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
    return lineup.order[likeliest(lineup.chances(min(count, MOST)))]


def _limiting(lineup: Lineup, records: Records, count: int) -> tuple[int, str]:
    """Return the place of who is likeliest to be disclosed by so many, and the column that stands out most."""
    place = int(_places(lineup, count)[0])
    standing = lineup.look(np.array([place]))
    reach = np.where(np.isfinite(standing.needed[0]), np.abs(standing.deviation[0]), -1.0)
    return place, records.columns[int(np.argmax(reach))]
